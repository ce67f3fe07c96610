//! The protocols of a session: the one place that names them all.
//!
//! A protocol is a folder of one shape: `decode.rs` makes a request of the bytes at the front
//! of the input, `encode.rs` writes replies, and the module's root holds the echo, borrowed and
//! owned. A new protocol is such a folder, and its lines here:
//!
//! - a variant of [`Protocol`], which says how it is recognised, if it has a grammar of its own;
//! - a variant of [`Encoder`] and of [`OwnedEncoder`], with a line in each of their methods.

use crate::encode::Encode;
use crate::lines;
use crate::meta::{MetaEncoder, OwnedMetaEncoder};
use crate::prepare::Prepared;
use crate::text::TextEncoder;
#[cfg(test)]
use crate::toy;

/// The grammar of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Command lines, text and meta.
    Lines,
    #[cfg(test)]
    Toy,
}

/// The protocols that are recognised by the first byte of a connection.
const FIRST_BYTES: &[(u8, Protocol)] = &[
    #[cfg(test)]
    (toy::FIRST_BYTE, Protocol::Toy),
];

impl Protocol {
    /// The protocol of a connection whose input begins with `first_byte`.
    #[inline]
    pub(crate) fn detect(first_byte: u8) -> Self {
        let found = FIRST_BYTES.iter().find(|(byte, _)| *byte == first_byte);
        found.map_or(Self::Lines, |&(_, protocol)| protocol)
    }

    /// Decodes the command at the front of `input` into `request`, without a hash. The first
    /// `scanned` bytes are known to contain no end of a command.
    ///
    /// A request is so large that a copy costs a few per cent of a `get`. Each decoder therefore
    /// writes it directly into the list of prepared requests.
    #[inline]
    pub(crate) fn decode<'a>(
        self,
        input: &'a [u8],
        scanned: usize,
        request: &mut Prepared<'a>,
    ) -> Decoded {
        match self {
            Self::Lines => lines::decode(input, scanned, request),
            #[cfg(test)]
            Self::Toy => toy::decode::decode(input, request),
        }
    }
}

/// The result of decoding the front of the input.
pub(crate) enum Decoded {
    /// The command is incomplete.
    Incomplete {
        /// Bytes at the front that contain no end of a command and need not be searched again. Zero
        /// only without input.
        scanned: usize,
    },
    /// A command, with `data_len` bytes between it and the next one.
    Command {
        /// Bytes of its value, or bytes to skip.
        data_len: u64,
    },
    /// A command after which the connection closes.
    LastCommand,
}

/// The parts of a request that its replies repeat or depend on. Borrows the input.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Encoder<'a> {
    Text(TextEncoder),
    Meta(MetaEncoder<'a>),
    #[cfg(test)]
    Toy(toy::ToyEncoder),
}

/// An echo that is kept between two calls.
#[derive(Debug)]
pub(crate) enum OwnedEncoder {
    Text(TextEncoder),
    Meta(Box<OwnedMetaEncoder>),
    #[cfg(test)]
    Toy(toy::ToyEncoder),
}

/// A step of execution that needs an encoder.
pub(crate) trait WithEncoder {
    type Result;

    fn run(self, encoder: &impl Encode) -> Self::Result;
}

impl Encoder<'_> {
    /// Runs `step` with the encoder of the protocol. This is the only place where the protocol of a
    /// request is dispatched on.
    #[inline]
    pub(crate) fn dispatch<S: WithEncoder>(&self, step: S) -> S::Result {
        match self {
            Self::Text(text) => step.run(text),
            Self::Meta(meta) => step.run(meta),
            #[cfg(test)]
            Self::Toy(toy) => step.run(toy),
        }
    }

    pub(crate) fn to_owned(self) -> OwnedEncoder {
        match self {
            Self::Text(text) => OwnedEncoder::Text(text),
            Self::Meta(meta) => OwnedEncoder::Meta(Box::new(meta.to_owned())),
            #[cfg(test)]
            Self::Toy(toy) => OwnedEncoder::Toy(toy),
        }
    }
}

impl OwnedEncoder {
    pub(crate) fn borrow(&self) -> Encoder<'_> {
        match self {
            Self::Text(text) => Encoder::Text(*text),
            Self::Meta(meta) => Encoder::Meta(meta.borrow()),
            #[cfg(test)]
            Self::Toy(toy) => Encoder::Toy(*toy),
        }
    }
}
