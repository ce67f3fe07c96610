//! Limits how many requests of one key a worker passes to the miniatures in a second. Without the
//! limit, a very frequent watched key would determine the scores, and all workers that serve the
//! key would contend for the lock of the miniatures.

use std::cell::Cell;

use crate::limits::SAMPLES_PER_SECOND;

/// Number of cells. If requests of two watched keys with the same cell alternate, each resets the
/// count of the other key, so more requests of both are passed than the limit allows.
const CELLS: usize = 64;

/// The number of samples of one key in one second.
#[derive(Debug, Clone, Copy, Default)]
struct KeyCount {
    hash: u64,
    second: u32,
    count: u32,
}

/// The sample counts of recently requested keys. A key's hash selects its cell, which has the count
/// of the key that used the cell last.
#[derive(Debug)]
pub struct SampleLimiter([Cell<KeyCount>; CELLS]);

impl Default for SampleLimiter {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Cell::default()))
    }
}

impl SampleLimiter {
    /// Returns whether a request of this key may be passed to the miniatures. If so, counts it.
    pub fn admits(&self, hash: u64, now_s: u32) -> bool {
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
