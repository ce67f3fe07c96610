//! The interface of a tier below the store: larger and slower storage, such as a disk, for items
//! that leave memory by eviction.
//!
//! The store appends an item to the tier before evicting the item, and removes the tier's copy
//! whenever the item changes. A copy is current if the tier's index refers to it. The invariant is:
//!
//! > If a key has a current copy in the tier and an item in memory, both are the same item.
//!
//! The store changes an item in memory under the lock of its index shard, which is a set of buckets
//! that share a lock (`index.rs`). Under the same lock it calls [`publish`](LowerTier::publish) and
//! [`remove`](LowerTier::remove). Before the store restores an item, it checks under that lock that
//! [`find`](LowerTier::find) still returns the same copy. So no copy becomes current after its item
//! has changed, and no copy is restored over a newer item.
//!
//! An item that was restored and not changed needs no second copy when it is evicted again.

use std::fmt;
use std::sync::Arc;

use crate::expiry::Expiry;
use crate::heap::block::Access;

/// The address of a copy in the tier. No two copies ever have the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierAddress {
    /// The number of the segment of the tier that contains the copy. No other segment ever gets the
    /// same number.
    pub sequence: u32,
    /// Offset in the segment, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
    /// The expiry of the item.
    pub expiry: Expiry,
}

/// Marks of an item in the meta protocol. They are separate from the client flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// The item was invalidated.
    pub stale: bool,
    /// A client has claimed the item.
    pub claimed: bool,
    /// The client sent the key in base64.
    pub base64_key: bool,
}

impl Marks {
    /// Returns the marks in the access word of an item.
    pub(crate) fn of(access: Access) -> Self {
        Self {
            stale: access.is_stale(),
            claimed: access.is_claimed(),
            base64_key: access.has_base64_key(),
        }
    }
}

/// The key and the properties of an item, without its value.
#[derive(Debug, Clone, Copy)]
pub struct TierItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The client flags.
    pub flags: u32,
    /// The CAS.
    pub cas: u64,
    /// The expiry.
    pub expiry: Expiry,
    /// The marks.
    pub marks: Marks,
    /// Whether the item was read since it was written.
    pub is_fetched: bool,
    /// Length of the value in bytes.
    pub value_len: usize,
}

/// A tier below the store. No method waits for a disk.
///
/// `generation` is the number of flushes of the store so far. A copy of another generation is not
/// current.
pub trait LowerTier: fmt::Debug + Send + Sync {
    /// Copies an item. Returns `None` in two cases, in which the current copy remains:
    ///
    /// - The tier refuses the item. The current copy, if there is one, is unchanged.
    /// - The tier keeps the current copy instead of writing a second one. If the item is marked as
    ///   fetched, this copy is marked too.
    fn append(
        &self,
        hash: u64,
        item: &TierItem<'_>,
        value: &mut dyn Iterator<Item = &[u8]>,
        generation: u32,
        now_s: u32,
    ) -> Option<TierAddress>;

    /// Makes the copy at `address` the current copy of the key with this hash.
    fn publish(&self, hash: u64, address: TierAddress, generation: u32);

    /// Removes the current copy of a key. Returns true if there was a current copy and it had not
    /// expired.
    fn remove(&self, hash: u64, generation: u32, now_s: u32) -> bool;

    /// Returns the address of the current copy of a key, if it has not expired.
    fn find(&self, hash: u64, generation: u32, now_s: u32) -> Option<TierAddress>;

    /// The greatest CAS of all copies that an earlier process left.
    fn greatest_cas(&self) -> u64 {
        0
    }
}

/// A tier, with a reference count. This is the `Arc` of the standard library also in builds for the
/// model checkers (`sync.rs`), so they do not check the count.
pub type SharedTier = Arc<dyn LowerTier>;
