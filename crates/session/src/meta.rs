//! The meta protocol.

pub(crate) mod decode;
mod encode;

use protocol::MetaFlags;

/// The encoder of the meta protocol. It consists of the parts of a request that the replies repeat
/// or depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetaEncoder<'a> {
    /// All flags of the request, in order. Some of them are repeated in the reply.
    flags: MetaFlags<'a>,
    traits: Traits,
}

/// A [`MetaEncoder`] that does not borrow the input, so that a session can keep it between calls.
#[derive(Debug)]
pub(crate) struct OwnedMetaEncoder {
    flags: Box<[u8]>,
    traits: Traits,
}

/// The properties of a request that its encoder needs besides the request's flags.
#[derive(Debug, Clone, Copy, Default)]
struct Traits {
    /// `b`: the key of the request is in base64.
    base64: bool,
    /// `q`: no reply in the common case, for example if a value was stored or a read missed.
    quiet: bool,
    /// `v` of `ma`: the reply contains the number.
    with_number: bool,
    /// The command is `me`, whose reply shows the item's metadata.
    is_debug: bool,
}

impl MetaEncoder<'_> {
    /// Whether `is_it` is true for the letter of at least one flag of the request.
    pub(crate) fn has_flag(&self, is_it: impl Fn(u8) -> bool) -> bool {
        self.flags.into_iter().any(|flag| is_it(flag.letter))
    }

    pub(crate) fn to_owned(self) -> OwnedMetaEncoder {
        OwnedMetaEncoder {
            flags: self.flags.as_bytes().into(),
            traits: self.traits,
        }
    }
}

impl OwnedMetaEncoder {
    pub(crate) fn borrow(&self) -> MetaEncoder<'_> {
        MetaEncoder {
            flags: MetaFlags::new(&self.flags),
            traits: self.traits,
        }
    }
}
