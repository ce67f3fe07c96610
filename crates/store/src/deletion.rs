//! Deletion of an item, in memory and in the tier.

use crate::miniature::SampledAccess;
use crate::worker::{KeyHash, Worker};

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// The item was deleted.
    Deleted,
    /// The key had no item.
    NotFound,
    /// The item has another CAS than the one to compare.
    Exists,
}

impl Worker {
    /// Deletes the item of a key, also one that is only in the tier. If `compare` is given, deletes
    /// the item only if it is in memory and has that CAS.
    pub fn delete(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        compare: Option<u64>,
        now_s: u32,
    ) -> Deleted {
        self.ensure_online();
        let writer = self.store.index.lock(hash.0);
        let Some(found) = writer.find(|entry| self.has_key(entry, key)) else {
            // The tier's index contains hashes of 64 bits, not keys. It is improbable that two keys
            // have the same hash, so the copy is removed without reading its key from the tier.
            let was_in_tier = compare.is_none() && self.remove_from_tier(&writer, now_s);
            drop(writer);
            // The store may have evicted the item, but a simulated cache (`miniature.rs`) may still
            // contain it.
            self.sample(hash, now_s, || SampledAccess::Deleted);
            return match was_in_tier {
                true => Deleted::Deleted,
                false => Deleted::NotFound,
            };
        };
        let block_ref = self.block_ref(found.entry().location());
        if self
            .miss_reason(block_ref.location, block_ref.block, now_s)
            .is_some()
        {
            self.unlink_expired_found(&writer, &found, block_ref.block, now_s);
            drop(writer);
            self.sample(hash, now_s, || SampledAccess::Deleted);
            return Deleted::NotFound;
        }
        if compare.is_some_and(|cas| cas != block_ref.block.cas()) {
            return Deleted::Exists;
        }
        writer.remove(&found);
        self.remove_from_tier(&writer, now_s);
        drop(writer);
        self.remember_hole(&block_ref);
        self.resize_index_step();
        self.sample(hash, now_s, || SampledAccess::Deleted);
        Deleted::Deleted
    }
}
