//! What a worker records of a request: the access time and the frequency of the item, and samples
//! for the hot keys and for the *miniatures*, which simulate eviction policies (`miniature.rs`).

use std::sync::PoisonError;

use crate::heap::block::Block;
use crate::index::Entry;
use crate::miniature::{Observation, SampleContext, SampledAccess, Traits};
use crate::worker::{KeyHash, Worker};

impl Worker {
    /// Records an access to an item: samples the access, and updates the access time of the block
    /// and the frequency counter of the index entry. `is_read` is false for a read-modify-write.
    ///
    /// Time and counter are written only on the first access in a second. Otherwise every read of a
    /// popular item would write to its cache line, which would then bounce between the cores.
    ///
    /// A counter of zero is incremented on every access, even in the same second. Evacuation lowers
    /// the counter when it moves an item, often to zero. If all memory is evacuated within a
    /// second, the item's next evacuation follows in the same second. It would evict the item,
    /// although the item is requested, if the counter were still zero.
    #[inline]
    pub(crate) fn record_access(
        &self,
        hash: KeyHash,
        entry: Entry,
        block: Block<'_>,
        is_read: bool,
        now_s: u32,
    ) {
        match self.reads_until_sample.get() {
            0 => self.record_hot_key(hash, block.key(), now_s),
            remaining => self.reads_until_sample.set(remaining - 1),
        }
        // If the item was restored from the tier for this request, the miniatures have already
        // observed the request as a miss and a write.
        if !entry.is_restored() {
            self.sample(hash, now_s, || SampledAccess::Hit(traits(block)));
        }
        let access = block.access();
        let updated = match is_read {
            true => access.fetched_at(now_s),
            false => access.accessed_at(now_s),
        };
        if updated != access {
            block.record_access(access, updated);
        }
        if updated != access || entry.frequency() == 0 {
            self.store.index.count_request(hash.0, entry);
        }
    }

    /// Records a sampled read for `stats hotkeys`, and chooses at random the number of reads until
    /// the next sample.
    #[cold]
    pub(crate) fn record_hot_key(&self, hash: KeyHash, key: &[u8], now_s: u32) {
        // The only other user of this lock is `stats hotkeys`, which holds it for a short time.
        let mut sketch = self
            .counters
            .sketch
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.reads_until_sample
            .set(sketch.record(hash.0, key, now_s));
    }

    /// Passes a request to the miniatures, if its key is watched and the key's limit of samples per
    /// second is not reached. `access` is called only then.
    #[inline]
    pub(crate) fn sample(&self, hash: KeyHash, now_s: u32, access: impl FnOnce() -> SampledAccess) {
        if self.store.miniatures.watches(hash.0) && self.sample_limiter.admits(hash.0, now_s) {
            self.sample_watched(hash.0, now_s, access());
        }
    }

    /// Passes a request of a watched key to the miniatures.
    #[cold]
    fn sample_watched(&self, hash: u64, now_s: u32, access: SampledAccess) {
        let log = &self.store.log;
        // Evacuation keeps the reserve free, so the items are in the other segments.
        let segments = log.segment_limit().saturating_sub(log.reserve());
        let context = SampleContext {
            bytes: u64::from(segments) * u64::from(log.heap.segment_size()),
            ghosts: self.store.ghosts.capacity(),
            flushes: log.flush_count(),
        };
        let observation = Observation {
            hash,
            access,
            now_s,
        };
        let set_eviction_policy = |eviction_policy| log.set_eviction_policy(eviction_policy);
        self.store
            .miniatures
            .observe(&observation, &context, set_eviction_policy);
    }
}

/// Returns the properties of an item that the miniatures simulate.
pub(crate) fn traits(block: Block<'_>) -> Traits {
    Traits {
        bytes: u32::try_from(block.len_with_pieces()).unwrap_or(u32::MAX),
        expiry: block.expiry(),
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::expiry::Expiry;
    use crate::{Config, Mode, Store, Write};

    const NOW_S: u32 = 1;

    /// The miniatures compare the lengths of items with the memory of the store, which the headers
    /// of pieces fill too.
    #[test]
    fn the_simulated_length_of_an_item_is_that_of_its_live_blocks() {
        for value_len in [0, 5, 1000, 100_001, 1 << 20, 3_000_003] {
            let config = Config {
                memory_bytes: 64 << 20,
                item_max: 4 << 20,
                hash_seed: 1,
                ..Config::DEFAULT
            };
            let mut worker = Store::new(config).unwrap().worker();
            let hash = worker.hash(b"key");
            let write = Write::plain(Mode::Set, Expiry::NEVER);
            let put = worker.put(b"key", hash, &vec![1; value_len], &write, NOW_S);
            assert!(put.is_ok());
            let has_key = |entry| worker.has_key(entry, b"key");
            let entry = worker.store.index.find(hash.0, has_key).unwrap();
            let traits = traits(worker.block(entry.location()));
            let live = worker.store().statistics().bytes_live;
            assert_eq!(u64::from(traits.bytes), live, "{value_len}");
        }
    }
}
