//! The list of the protocols that a session understands. No other file names all of them.
//!
//! Each protocol has a folder with the same files. `decode.rs` decodes the request at the front of
//! the input, and `encode.rs` writes the replies. The module's root file defines the type of the
//! encoder. If this type borrows the input, the file also defines an owned form of it. To add a
//! protocol, add such a folder, and add here:
//!
//! - a variant of [`Protocol`] and its first byte, if the protocol has a grammar of its own;
//! - a variant of [`Encoder`] and of [`OwnedEncoder`], with a line in each of their methods.

use protocol::binary::REQUEST_MAGIC;

use crate::binary::{self, BinaryEncoder};
use crate::encode::Encode;
use crate::lines;
use crate::login::{self, LoginOutcome, SaslState};
use crate::meta::{MetaEncoder, OwnedMetaEncoder};
use crate::prepare::Prepared;
use crate::text::TextEncoder;
#[cfg(test)]
use crate::toy;

/// The grammar of the requests on a connection. It stays the same, except that a login changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Command lines of the text and the meta protocol, which one connection may mix.
    Lines,
    /// Frames of the binary protocol.
    Binary,
    /// The command lines of a client that has not logged in.
    LinesLogin,
    /// Frames of the binary protocol. Some of them are messages of SASL, with which the client logs
    /// in.
    Sasl(SaslState),
    #[cfg(test)]
    Toy,
}

/// The protocols that connections may use (`-B`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AllowedProtocols {
    /// All protocols. The first byte of a connection selects one.
    #[default]
    Auto,
    /// Only the text and the meta protocol.
    Text,
    /// Only the binary protocol. A connection whose first byte does not begin a binary request is
    /// closed.
    Binary,
}

/// The protocols of a new connection, and whether it begins with a login.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access {
    /// The protocols that the client may use.
    pub protocols: AllowedProtocols,
    /// Whether the client has to log in before it can use other commands (`-Y`, `-S`).
    pub needs_login: bool,
}

impl Access {
    /// The protocol of a new connection. `None`: its first byte will select it.
    pub(crate) fn of_new_connection(self) -> Option<Protocol> {
        let protocol = match self.protocols {
            AllowedProtocols::Auto => return None,
            AllowedProtocols::Text => Protocol::Lines,
            AllowedProtocols::Binary => Protocol::Binary,
        };
        Some(protocol.of_new_client(self.needs_login))
    }
}

impl From<AllowedProtocols> for Access {
    /// Access without a password.
    fn from(protocols: AllowedProtocols) -> Self {
        Self {
            protocols,
            needs_login: false,
        }
    }
}

/// The first bytes that select a protocol other than [`Protocol::Lines`].
const FIRST_BYTES: &[(u8, Protocol)] = &[
    (REQUEST_MAGIC, Protocol::Binary),
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

    /// The protocol with which a connection begins: this protocol, or its variant with logins if
    /// the client has to log in.
    pub(crate) fn of_new_client(self, needs_login: bool) -> Self {
        match self {
            Self::Binary if needs_login => Self::Sasl(SaslState::default()),
            _ if needs_login => Self::LinesLogin,
            _ => self,
        }
    }

    /// The protocol of a connection after a login with this outcome.
    pub(crate) fn after_login(self, outcome: LoginOutcome) -> Self {
        match (self, outcome) {
            (Self::Sasl(_), _) => Self::Sasl(SaslState::after(outcome)),
            (Self::LinesLogin, LoginOutcome::Accepted) => Self::Lines,
            _ => self,
        }
    }

    /// Decodes the command at the front of `input` into `request`. Does not hash the key. An
    /// earlier call found that the first `scanned` bytes do not contain the end of a command.
    ///
    /// The decoder writes `request` in place, in the list of prepared requests. Returning it by
    /// value would copy it. A request is so large that the copy costs a few per cent of a `get`.
    #[inline]
    pub(crate) fn decode<'a>(
        self,
        input: &'a [u8],
        scanned: usize,
        request: &mut Prepared<'a>,
    ) -> Decoded {
        match self {
            Self::Lines => lines::decode(input, scanned, request),
            Self::Binary => binary::decode::decode(input, request),
            Self::LinesLogin => login::decode_line(input, request),
            Self::Sasl(state) => login::decode_frame(input, state, request),
            #[cfg(test)]
            Self::Toy => toy::decode::decode(input, request),
        }
    }
}

/// The result of decoding the front of the input.
pub(crate) enum Decoded {
    /// The command is incomplete.
    Incomplete {
        /// The number of bytes at the front that do not contain the end of a command, so that the
        /// next call need not search them again. Zero only if the input is empty.
        scanned: usize,
    },
    /// A command. `data_len` bytes are between its command line and the next command.
    Command {
        /// The length of the value and its line end, or of the data block to skip.
        data_len: u64,
    },
    /// A command after which the connection closes.
    LastCommand,
    /// A command whose execution decides what follows it: a login, or the front of a long line of
    /// keys.
    LastKnown,
}

/// The encoder of one request's replies: its protocol, and the parts of the request that the
/// replies repeat or depend on. Borrows the input.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Encoder<'a> {
    Text(TextEncoder),
    Meta(MetaEncoder<'a>),
    Binary(BinaryEncoder),
    #[cfg(test)]
    Toy(toy::ToyEncoder),
}

/// An [`Encoder`] that does not borrow the input, so that a session can keep it between two calls.
#[derive(Debug)]
pub(crate) enum OwnedEncoder {
    Text(TextEncoder),
    Meta(Box<OwnedMetaEncoder>),
    Binary(BinaryEncoder),
    #[cfg(test)]
    Toy(toy::ToyEncoder),
}

/// A step of execution that is compiled separately for each encoder type. It would be a closure,
/// but a Rust closure cannot be generic. A step is therefore a struct, whose fields stand for the
/// captured variables, and `run` is the body of the closure.
pub(crate) trait WithEncoder {
    type Result;

    fn run(self, encoder: &impl Encode) -> Self::Result;
}

impl Encoder<'_> {
    /// Runs `step` with the encoder of the request's protocol. Execution branches on the protocol
    /// of a request only here.
    #[inline(always)]
    pub(crate) fn dispatch<S: WithEncoder>(&self, step: S) -> S::Result {
        match self {
            Self::Text(text) => step.run(text),
            Self::Meta(meta) => step.run(meta),
            Self::Binary(binary) => step.run(binary),
            #[cfg(test)]
            Self::Toy(toy) => step.run(toy),
        }
    }

    /// Whether the request has a meta flag for whose letter `is_it` is true.
    pub(crate) fn has_meta_flag(&self, is_it: impl Fn(u8) -> bool) -> bool {
        match self {
            Self::Meta(meta) => meta.has_flag(is_it),
            _ => false,
        }
    }

    /// The bytes that follow a value in a request of this encoder's protocol.
    pub(crate) fn value_end(&self) -> &'static [u8] {
        match self {
            Self::Text(_) => TextEncoder::VALUE_END,
            Self::Meta(_) => MetaEncoder::VALUE_END,
            Self::Binary(_) => BinaryEncoder::VALUE_END,
            #[cfg(test)]
            Self::Toy(_) => toy::ToyEncoder::VALUE_END,
        }
    }

    pub(crate) fn to_owned(self) -> OwnedEncoder {
        match self {
            Self::Text(text) => OwnedEncoder::Text(text),
            Self::Meta(meta) => OwnedEncoder::Meta(Box::new(meta.to_owned())),
            Self::Binary(binary) => OwnedEncoder::Binary(binary),
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
            Self::Binary(binary) => Encoder::Binary(*binary),
            #[cfg(test)]
            Self::Toy(toy) => Encoder::Toy(*toy),
        }
    }
}
