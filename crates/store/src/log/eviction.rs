//! The state of the log on which eviction depends: the current policy, the shares of the two parts
//! (the small part for new items, and the main part), and the mean lifetime of segments.

use super::Log;
use crate::eviction_policy::{EvictionPolicy, MeanLifetime, POLICIES};
use crate::sync::atomic::Ordering;

impl Log {
    /// Returns the current eviction policy.
    #[inline]
    pub(crate) fn eviction_policy(&self) -> &'static EvictionPolicy {
        let number = self.eviction_policy.load(Ordering::Relaxed) as usize;
        POLICIES.get(number).unwrap_or(&POLICIES[0])
    }

    /// Switches to the policy with this index in [`POLICIES`].
    pub(crate) fn set_eviction_policy(&self, number: usize) {
        self.eviction_policy.store(number as u32, Ordering::Relaxed);
    }

    /// Returns the share of each part, in segments. If the small part exceeds its share, eviction
    /// begins there, and otherwise in the main part. Both shares are computed from one load of the
    /// limit, because another thread may change it.
    pub(crate) fn part_shares(&self) -> [u32; 2] {
        let largest_item = self.largest_item.load(Ordering::Relaxed);
        self.eviction_policy()
            .shares(self.segment_limit(), largest_item)
    }

    /// Records the length of a value in pieces, so that the small part's share has space for items
    /// of this size. The writer of the value calls this when the last piece has been allocated.
    pub(crate) fn expect_item_of(&self, value_len: usize) {
        // The first and the last piece of the value may share their segments with other items.
        let segments = (value_len / self.heap.segment_size() as usize + 2) as u32;
        if segments > self.largest_item.load(Ordering::Relaxed) {
            self.largest_item.fetch_max(segments, Ordering::Relaxed);
        }
    }

    /// Adds the lifetime of a main-part segment, in seconds, to the moving average.
    pub(crate) fn record_lifetime(&self, lifetime_s: u32) {
        let MeanLifetime(next) = self.mean_lifetime().after(lifetime_s);
        // If two workers update the mean concurrently, one of the updates may be lost.
        self.mean_lifetime.store(next, Ordering::Relaxed);
    }

    /// Returns the recent mean lifetime of main-part segments, in seconds. 0 if it is not known
    /// yet.
    pub(crate) fn mean_lifetime_s(&self) -> u32 {
        self.mean_lifetime().seconds()
    }

    fn mean_lifetime(&self) -> MeanLifetime {
        MeanLifetime(self.mean_lifetime.load(Ordering::Relaxed))
    }
}
