//! The parameters and the result of a write.

use crate::expiry::Expiry;

/// The condition and effect of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Store unconditionally.
    Set,
    /// Store only if the key has no item.
    Add,
    /// Store only if the key has an item.
    Replace,
    /// Append to the present value; flags and expiry are unchanged.
    Append,
    /// Prepend to the present value; flags and expiry are unchanged.
    Prepend,
}

/// The parameters of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The condition and the effect of the write.
    pub mode: Mode,
    /// The client flags: 32 bits that the store does not interpret.
    pub flags: u32,
    /// The expiry of the item.
    pub expiry: Expiry,
    /// Store only if the present item has this CAS. `Add` and `Replace` ignore it, as in memcached.
    pub compare: Option<u64>,
    /// If `compare` is below the CAS of the present item, store nevertheless, and mark the new item
    /// stale.
    pub invalidate: bool,
    /// The CAS of the new item. `None`: the store chooses the next one.
    pub explicit_cas: Option<u64>,
    /// `Append` and `Prepend` create the item if the key has none, with the flags and expiry of
    /// this write.
    pub vivify: bool,
    /// The new item is already claimed by a client, so that no reader wins it: see [`Item::won`].
    ///
    /// [`Item::won`]: crate::Item::won
    pub claimed: bool,
    /// The client sent the key in base64. The item records this for readers: see
    /// [`Item::base64_key`].
    ///
    /// [`Item::base64_key`]: crate::Item::base64_key
    pub base64_key: bool,
}

impl Write {
    /// A write with this mode and expiry. No condition on the CAS, no explicit CAS, no client flags
    /// or marks.
    #[must_use]
    pub const fn plain(mode: Mode, expiry: Expiry) -> Self {
        Self {
            mode,
            flags: 0,
            expiry,
            compare: None,
            invalidate: false,
            explicit_cas: None,
            vivify: false,
            claimed: false,
            base64_key: false,
        }
    }

    /// Whether the outcome depends on the present item of the key.
    pub(crate) fn depends_on_item(&self) -> bool {
        self.mode != Mode::Set || self.compare.is_some()
    }
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The value was stored.
    Stored {
        /// The item's CAS.
        cas: u64,
        /// The length of the item's complete value after the write, in bytes.
        value_len: u32,
    },
    /// The condition of the mode did not hold.
    NotStored,
    /// The CAS of the present item differs from [`Write::compare`].
    Exists,
    /// The write has a CAS to compare, but the key has no item.
    NotFound,
    /// There is no memory, or the new value (for append and prepend, the joined value) is too long.
    NoSpace,
}
