//! A worker's view of the tier below the store: which copy of an item is current, and the removal
//! of a copy.

use crate::index::writer::Writer;
use crate::lower_tier::{Marks, TierAddress};
use crate::worker::{KeyHash, Worker};

/// The tier's copy of an item that a worker is restoring, that is, writing back into memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restoring {
    pub(crate) address: TierAddress,
    pub(crate) marks: Marks,
    pub(crate) is_fetched: bool,
}

impl Worker {
    /// Returns the address of the current copy of a key in the tier. `None` if there is no tier.
    #[must_use]
    #[inline]
    pub fn find_in_tier(&self, hash: KeyHash, now_s: u32) -> Option<TierAddress> {
        let tier = self.store.tier.as_ref()?;
        tier.find(hash.0, self.store.log.perform_due_flush(now_s), now_s)
    }

    /// The 64 bits of a key's hash, by which the tier's index finds the copy of the key's item.
    #[must_use]
    pub fn raw_hash(&self, hash: KeyHash) -> u64 {
        hash.0
    }

    /// Whether the copy that is being restored is still the current one. The caller holds the lock
    /// of the key's shard.
    #[cold]
    pub(crate) fn is_current(&self, restoring: &Restoring, hash: KeyHash, now_s: u32) -> bool {
        self.find_in_tier(hash, now_s) == Some(restoring.address)
    }

    /// Removes the tier's copy of a key, because its item changes. The caller holds the lock of the
    /// key's shard. Returns whether there was a copy that had not expired.
    #[inline]
    pub(crate) fn remove_from_tier(&self, writer: &Writer<'_>, now_s: u32) -> bool {
        match &self.store.tier {
            None => false,
            Some(tier) => {
                let generation = self.store.log.perform_due_flush(now_s);
                tier.remove(writer.hash(), generation, now_s)
            }
        }
    }
}
