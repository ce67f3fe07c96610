//! Records of evicted items, which a server sends to clients that watch evictions.
//!
//! While recording is on, each worker keeps records of its own evictions until its caller takes
//! them. A worker keeps at most [`EVICTED_MAX`] records, and only counts further evictions. While
//! recording is off, an eviction costs the test of one flag.

use crate::heap::block::Block;
use crate::limits::EVICTED_MAX;
use crate::statistics::size_class::ItemSize;
use crate::store::Store;
use crate::sync::atomic::Ordering;
use crate::worker::Worker;

/// The evicted items that a worker has recorded, and the number of those that it has not recorded.
#[derive(Debug, Default)]
pub(crate) struct EvictedItems {
    recorded: Vec<EvictedItem>,
    unrecorded: u64,
}

/// An evicted item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvictedItem {
    /// The key.
    pub key: Box<[u8]>,
    /// Whether the item was read since it was written.
    pub was_fetched: bool,
    /// Seconds from the eviction until the item's expiry. `None`: the item never expires.
    pub ttl_s: Option<u32>,
    /// Seconds from the item's last request until its eviction.
    pub idle_s: u32,
    /// The size of the item.
    pub size: ItemSize,
}

impl Store {
    /// Turns the recording of evicted items on or off, for all workers. This call itself records no
    /// item.
    pub fn record_evicted(&self, is_on: bool) {
        self.records_evicted.store(is_on, Ordering::Relaxed);
    }
}

impl Worker {
    /// Whether this worker has recorded evicted items.
    #[must_use]
    #[inline]
    pub fn has_evicted(&self) -> bool {
        !self.evicted.borrow().recorded.is_empty()
    }

    /// Passes the recorded items to `visit`, and forgets them. Returns how many further items this
    /// worker has evicted since the last call and not recorded, because there were too many.
    pub fn drain_evicted(&mut self, mut visit: impl FnMut(&EvictedItem)) -> u64 {
        let evicted = self.evicted.get_mut();
        for item in evicted.recorded.drain(..) {
            visit(&item);
        }
        std::mem::take(&mut evicted.unrecorded)
    }

    /// Records an evicted item, if recording is on.
    #[inline]
    pub(crate) fn record_evicted_item(&self, block: Block<'_>, idle_s: u32, now_s: u32) {
        if !self.store.records_evicted.load(Ordering::Relaxed) {
            return;
        }
        let mut evicted = self.evicted.borrow_mut();
        if evicted.recorded.len() < EVICTED_MAX {
            evicted.recorded.push(EvictedItem {
                key: block.key().into(),
                was_fetched: block.access().is_fetched(),
                ttl_s: block.expiry().seconds_left(now_s),
                idle_s,
                size: ItemSize::of_block(block),
            });
        } else {
            evicted.unrecorded += 1;
        }
    }
}
