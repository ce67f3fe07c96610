//! A seeded permutation of the records, without a table.

use crate::Purpose;
use crate::stream::{key, word};

/// Rounds of mixing.
const ROUNDS: usize = 3;

/// A permutation of 0..`len`: popular ranks land all over the keyspace.
///
/// Each round (xor a key, multiply by an odd number, fold the upper half onto the lower) can be
/// undone within the least power of two that holds `len`, so together they permute it; a place
/// outside `len` is mapped again until it falls inside (cycle walking: less than twice on average,
/// and it must end, for the walk starts inside and a cycle returns to its start).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scatter {
    len: u64,
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); ROUNDS],
}

impl Scatter {
    /// A permutation of 0..`len` (at least 1) by seed.
    #[must_use]
    pub fn new(len: u64, seed: u64) -> Self {
        let len = len.max(1);
        let bits = 64 - (len - 1).leading_zeros();
        let mask = 1_u64.checked_shl(bits).unwrap_or(0).wrapping_sub(1);
        let key = key(seed, Purpose::Scatter);
        let mut words = (0..).map(|i| word(key, i));
        let rounds = core::array::from_fn(|_| {
            let mut next = || words.next().unwrap_or_default();
            (next() & mask, next() | 1)
        });
        Self {
            len,
            mask,
            shift: bits.div_ceil(2).max(1),
            rounds,
        }
    }

    /// Where `rank` (below `len`) lands.
    #[inline]
    #[must_use]
    pub fn place(&self, rank: u64) -> u64 {
        debug_assert!(rank < self.len);
        let mut place = rank;
        loop {
            for (key, factor) in self.rounds {
                place = (place ^ key).wrapping_mul(factor) & self.mask;
                place ^= place >> self.shift;
            }
            if place < self.len {
                return place;
            }
        }
    }
}
