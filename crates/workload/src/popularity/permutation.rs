//! A seeded permutation of the records, without a table.

use crate::Purpose;
use crate::random_stream::{key, word};

/// Rounds of mixing.
const ROUNDS: usize = 3;

/// A permutation of 0..`len`: it spreads popular ranks over the whole keyspace.
///
/// Each round (xor a key, multiply by an odd number, fold the upper half onto the lower) is
/// invertible on the least power of two that holds `len`, so the rounds together permute that
/// range. A result outside `len` is mapped again until it falls inside (cycle walking). That takes
/// less than two maps on average, and it ends, because the walk starts inside and a cycle returns
/// to its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    len: u64,
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); ROUNDS],
}

impl Permutation {
    /// A permutation of 0..`len` (at least 1) by seed.
    #[must_use]
    pub fn new(len: u64, seed: u64) -> Self {
        let len = len.max(1);
        let bits = 64 - (len - 1).leading_zeros();
        let mask = 1_u64.checked_shl(bits).unwrap_or(0).wrapping_sub(1);
        let key = key(seed, Purpose::Permutation);
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

    /// The image of `rank` (below `len`).
    #[inline]
    #[must_use]
    pub fn apply(&self, rank: u64) -> u64 {
        debug_assert!(rank < self.len);
        let mut image = rank;
        loop {
            for (key, factor) in self.rounds {
                image = (image ^ key).wrapping_mul(factor) & self.mask;
                image ^= image >> self.shift;
            }
            if image < self.len {
                return image;
            }
        }
    }
}
