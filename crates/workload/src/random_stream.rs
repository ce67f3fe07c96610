//! Streams of random numbers that are the same on every machine.
//!
//! One seed serves a whole run. Each purpose has a key of its own,
//! `splitmix_output(splitmix_output(seed) ^ purpose)`, and SplitMix64 started at that key is a
//! sequence of distinct words ([`word`]). RandomStream number `i` of a purpose is Xoshiro256++
//! whose four words of state are words `4i … 4i+3` of that sequence: seeding from SplitMix64 is
//! what the authors of Xoshiro advise, streams are found in constant time, and no stream depends on
//! how many others exist. Blackman & Vigna, "Scrambled linear pseudorandom number generators", ACM
//! TOMS 47(4) 2021; Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA
//! 2014.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The purpose of a stream. The numbers are part of every golden sequence: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Purpose {
    /// Lengths of keys.
    KeyLength = 1,
    /// Lengths of values.
    ValueLength = 2,
    /// The letters that fill keys.
    KeyFiller = 3,
    /// Intended times.
    Arrivals = 4,
    /// The record and the operation of each request.
    Requests = 5,
    /// The positions of popular records in the keyspace.
    Permutation = 6,
    /// For callers outside this crate.
    Other = 7,
    /// The further records of a multiget.
    MultiGet = 8,
    /// Lengths of keys in a script of lengths.
    ScriptKeyLength = 9,
    /// Lengths of values in a script of lengths.
    ScriptValueLength = 10,
    /// The bytes of the files of a file set.
    FileBytes = 11,
}

/// A stream of random numbers: Xoshiro256++.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    /// RandomStream number `index` of a purpose (below 2^62, or streams would meet).
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose, index: u64) -> Self {
        let key = key(seed, purpose);
        let mut state = [0; 32];
        for (i, bytes) in (0..).zip(state.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word(key, index.wrapping_mul(4).wrapping_add(i)).to_le_bytes());
        }
        Self(Xoshiro256PlusPlus::from_seed(state))
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number of the open interval (0, 1), at 52 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// A number of 0..`bound`, each equally likely (Lemire, ACM TOMACS 29(1) 2019); 0 where the
    /// bound is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let uneven = bound.wrapping_neg() % bound;
            while (product as u64) < uneven {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }
}

/// The key of a purpose under a seed.
pub(crate) fn key(seed: u64, purpose: Purpose) -> u64 {
    splitmix_output(splitmix_output(seed) ^ purpose as u64)
}

/// Word `index` of SplitMix64 started at `key`: a hash of `index`, without repetition.
#[inline]
pub(crate) fn word(key: u64, index: u64) -> u64 {
    splitmix_output(key.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Random bits as a number of the open interval (0, 1). Half a step is added, so that neither end
/// is reached and every logarithm of a result is finite.
#[inline]
pub(crate) fn unit(bits: u64) -> f64 {
    const STEP: f64 = 1.0 / (1_u64 << 52) as f64;
    ((bits >> 12) as f64 + 0.5) * STEP
}

/// The output function of SplitMix64.
#[inline]
pub(crate) fn splitmix_output(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_the_same_on_every_machine() {
        let mut stream = RandomStream::new(42, Purpose::Requests, 0);
        let drawn: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
        assert_eq!(
            drawn,
            [
                14_218_860_452_817_316_519,
                11_988_360_660_974_940_603,
                15_011_989_911_874_259_044
            ]
        );
    }

    #[test]
    fn splitmix_is_the_published_one() {
        // First outputs of SplitMix64 seeded with 1234567, as its reference code prints them.
        assert_eq!(word(1_234_567, 0), 6_457_827_717_110_365_317);
        assert_eq!(word(1_234_567, 1), 3_203_168_211_198_807_973);
        assert_eq!(word(1_234_567, 2), 9_817_491_932_198_370_423);
    }

    #[test]
    fn unit_reaches_neither_end() {
        assert!(unit(0) > 0.0);
        assert!(unit(u64::MAX) < 1.0);
    }

    #[test]
    fn streams_and_purposes_differ() {
        let first = |seed, purpose, index| RandomStream::new(seed, purpose, index).next_u64();
        let all = [
            first(1, Purpose::Requests, 0),
            first(1, Purpose::Requests, 1),
            first(1, Purpose::Arrivals, 0),
            first(2, Purpose::Requests, 0),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all.iter().skip(i + 1).all(|b| a != b));
        }
    }

    #[test]
    fn below_is_even() {
        let mut stream = RandomStream::new(7, Purpose::Other, 0);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[stream.below(6) as usize] += 1;
        }
        // Chi-squared with 5 degrees of freedom: 20.5 is its 99.9th percentile.
        let chi: f64 = counts
            .iter()
            .map(|&n| (f64::from(n) - 1e4).powi(2) / 1e4)
            .sum();
        assert!(chi < 20.5, "{counts:?}");
        assert_eq!(stream.below(0), 0);
        assert_eq!(stream.below(1), 0);
    }
}
