//! Limits the samples per key that a worker passes to the miniatures. Otherwise the most frequent
//! key would dominate them, and all workers would contend to pass it.

use std::cell::Cell;

use crate::limits::SAMPLES_PER_SECOND;

/// Number of cells. Keys that share a cell reset each other's count, and so are sampled more often.
const CELLS: usize = 64;

/// The samples of a key in one second.
#[derive(Debug, Clone, Copy, Default)]
struct KeyCount {
    hash: u64,
    second: u32,
    count: u32,
}

/// Counts of recent samples, one key in each cell.
#[derive(Debug)]
pub(crate) struct SampleLimiter([Cell<KeyCount>; CELLS]);

impl Default for SampleLimiter {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Cell::default()))
    }
}

impl SampleLimiter {
    /// Whether another request of this key may be passed in this second. If so, counts it.
    pub(crate) fn admits(&self, hash: u64, now_s: u32) -> bool {
        let cell = &self.0[hash as usize % CELLS];
        let key_count = cell.get();
        let count = match (key_count.hash, key_count.second) == (hash, now_s) {
            true => key_count.count,
            false => 0,
        };
        if count == SAMPLES_PER_SECOND {
            return false;
        }
        cell.set(KeyCount {
            hash,
            second: now_s,
            count: count + 1,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_of_a_key_per_second_are_limited() {
        let limiter = SampleLimiter::default();
        let count = |hash, now_s| (0..100).filter(|_| limiter.admits(hash, now_s)).count();
        assert_eq!(count(1, 5), SAMPLES_PER_SECOND as usize);
        assert_eq!(count(2, 5), SAMPLES_PER_SECOND as usize);
        assert_eq!(count(1, 5), 0);
        assert_eq!(count(1, 6), SAMPLES_PER_SECOND as usize);
    }
}
