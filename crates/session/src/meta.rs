//! The meta protocol.

pub(crate) mod decode;
mod encode;

use protocol::MetaFlags;

/// What a meta reply repeats or depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetaEncoder<'a> {
    /// All flags in order.
    flags: MetaFlags<'a>,
    traits: Traits,
}

/// As [`Meta`], but owned, so that it is kept between two calls.
#[derive(Debug)]
pub(crate) struct OwnedMetaEncoder {
    flags: Box<[u8]>,
    traits: Traits,
}

#[derive(Debug, Clone, Copy, Default)]
struct Traits {
    /// `b`: the request has its key in base64.
    base64: bool,
    /// `q`: no reply in the common case.
    quiet: bool,
    /// `v` of `ma`: reply with the number.
    with_number: bool,
    /// `me`: show an item's metadata.
    is_debug: bool,
}

impl MetaEncoder<'_> {
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
