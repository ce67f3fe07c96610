//! Deletion of an item, in memory and in the tier, the storage below the store (`lower_tier.rs`).

use crate::heap::Location;
use crate::index::Found;
use crate::index::writer::Writer;
use crate::miniature::SampledAccess;
use crate::statistics::size_class::ItemSize;
use crate::worker::{KeyHash, Worker};

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// The item was deleted. The size is `None` if the item was in the tier only.
    Deleted(Option<ItemSize>),
    /// The key had no item.
    NotFound,
    /// The item's CAS differs from the one to compare.
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
                true => Deleted::Deleted(None),
                false => Deleted::NotFound,
            };
        };
        self.delete_under_lock(writer, &found, hash, compare, now_s)
    }

    /// Deletes the item at `location`, if the index still refers to it.
    pub(crate) fn delete_found(&self, hash: KeyHash, location: Location, now_s: u32) -> Deleted {
        let writer = self.store.index.lock(hash.0);
        match writer.find(|entry| entry.location() == location) {
            Some(found) => self.delete_under_lock(writer, &found, hash, None, now_s),
            None => Deleted::NotFound,
        }
    }

    /// Deletes the item of an entry that was found under the lock of its shard.
    fn delete_under_lock(
        &self,
        writer: Writer<'_>,
        found: &Found,
        hash: KeyHash,
        compare: Option<u64>,
        now_s: u32,
    ) -> Deleted {
        let block_ref = self.block_ref(found.entry().location());
        // An expired or flushed item is unlinked too, but the client gets the answer that there was
        // no item.
        if self
            .miss_reason(block_ref.location, block_ref.block, now_s)
            .is_some()
        {
            self.unlink_expired_found(&writer, found, block_ref.block, now_s);
            drop(writer);
            self.sample(hash, now_s, || SampledAccess::Deleted);
            return Deleted::NotFound;
        }
        if compare.is_some_and(|cas| cas != block_ref.block.cas()) {
            return Deleted::Exists;
        }
        let deleted = ItemSize::of_block(block_ref.block);
        writer.remove(found);
        self.remove_from_tier(&writer, now_s);
        drop(writer);
        // A later write may use the space of the block (`worker/holes.rs`).
        self.remember_hole(&block_ref);
        self.resize_index_step();
        self.sample(hash, now_s, || SampledAccess::Deleted);
        Deleted::Deleted(Some(deleted))
    }
}
