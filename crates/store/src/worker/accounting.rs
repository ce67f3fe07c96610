//! What a worker counts when an item is linked or unlinked. Linking a block makes the index refer
//! to it. The worker counts live bytes (the bytes of linked blocks), items, and events such as
//! evictions.

use crate::eviction_policy::Part;
use crate::expiry::Expiry;
use crate::heap::BlockRef;
use crate::heap::block::{Block, pieces_of};
use crate::statistics::counters::{ClassCounter, Counter};
use crate::statistics::size_class::{SizeClass, item_len};
use crate::worker::Worker;

impl Worker {
    /// Adds the length of a block to the live bytes, when the block is linked.
    #[inline]
    pub(crate) fn add_live(&self, block_ref: &BlockRef<'_>) {
        let heap = &self.store.log.heap;
        let (number, len) = (heap.number_of(block_ref.location), block_ref.block.len());
        heap.live.add(&self.column, number, len);
        self.counters.add(Counter::LiveBytes, len as u64);
    }

    /// Subtracts the length of a block from the live bytes, when the block is unlinked.
    #[inline]
    pub(crate) fn sub_live(&self, block_ref: &BlockRef<'_>) {
        let heap = &self.store.log.heap;
        let (number, len) = (heap.number_of(block_ref.location), block_ref.block.len());
        heap.live.sub(&self.column, number, len);
        self.counters
            .add(Counter::LiveBytes, (len as u64).wrapping_neg());
    }

    /// Counts an item that is being linked, by its size.
    #[inline]
    pub(crate) fn count_linked(&self, block: Block<'_>) {
        self.count_item(block, 1);
    }

    /// Counts an item that was unlinked, by its size.
    #[inline]
    fn count_unlinked(&self, block: Block<'_>) {
        self.count_item(block, 1_u64.wrapping_neg());
    }

    /// Adds an item `count` times to its size class, modulo 2^64. A `count` of -1, which wraps,
    /// subtracts it.
    #[inline]
    fn count_item(&self, block: Block<'_>, count: u64) {
        let len = item_len(block.key().len(), block.flags(), block.value_len());
        let class = SizeClass::of_len(len);
        let bytes = count.wrapping_mul(len as u64);
        self.counters
            .add_to_class(class, ClassCounter::Items, count);
        self.counters
            .add_to_class(class, ClassCounter::Bytes, bytes);
    }

    /// Subtracts an unlinked item, with its pieces, from the live bytes, and marks its head block
    /// dead. Returns the length of the head block in bytes.
    #[inline]
    pub(crate) fn account_unlinked(&self, block_ref: &BlockRef<'_>) -> usize {
        let block = block_ref.block;
        let len = block.len();
        self.sub_live(block_ref);
        self.count_unlinked(block);
        block.mark_dead();
        if block.is_in_pieces() {
            let pieces = pieces_of(block).map(|piece| self.block_ref(piece));
            pieces.for_each(|piece| self.sub_live(&piece));
        }
        len
    }

    /// Counts the eviction of the item of `block`, which was stored in `part`.
    pub(crate) fn count_evicted(&self, block: Block<'_>, part: Part, now_s: u32) {
        let (access, class) = (block.access(), SizeClass::of_block(block));
        let idle_s = now_s.saturating_sub(access.time_s(now_s));
        self.counters.count(Counter::Evicted);
        self.counters.add_to_class(class, ClassCounter::Evicted, 1);
        self.counters.set_evicted_idle(class, idle_s);
        if block.expiry() != Expiry::NEVER {
            self.counters
                .add_to_class(class, ClassCounter::EvictedExpiring, 1);
        }
        if !access.is_fetched() {
            self.counters.count(Counter::EvictedUnfetched);
            self.counters
                .add_to_class(class, ClassCounter::EvictedUnfetched, 1);
        }
        if part == Part::Main {
            self.counters.count(Counter::EvictedMain);
        }
        self.counters.count_age(idle_s);
        self.record_evicted_item(block, idle_s, now_s);
    }

    /// Counts an expired or flushed item that leaves the index.
    pub(crate) fn count_expired(&self, block: Block<'_>) {
        let class = SizeClass::of_block(block);
        self.counters.count(Counter::Expired);
        self.counters.add_to_class(class, ClassCounter::Expired, 1);
        if !block.access().is_fetched() {
            self.counters.count(Counter::ExpiredUnfetched);
            self.counters
                .add_to_class(class, ClassCounter::ExpiredUnfetched, 1);
        }
    }
}
