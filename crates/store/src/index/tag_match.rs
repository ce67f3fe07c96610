//! Branch-free comparison of a key's tag with the words of its two buckets.
//!
//! A branch cannot predict the slot of a key. After a misprediction the processor would discard its
//! speculative work on this item and on the following requests. So all slots are compared, four at
//! a time where the processor has the instructions.

use super::addressing::BUCKET_WORDS;
use crate::sync::atomic::AtomicU64;

/// The words of a bucket.
pub(super) type Bucket = [AtomicU64; BUCKET_WORDS];

/// Returns a bit for each slot of both buckets, the first slot in the lowest bit. A bit is set if
/// the tag and role of the word are the `key_bits` of its bucket. Each word is loaded once, with
/// acquire.
#[inline]
pub(super) fn matching_slots(buckets: [&Bucket; 2], key_bits: [u64; 2]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(loom), not(shuttle), not(miri)))]
    // SAFETY: every processor of this architecture has these instructions.
    let matching_slots = unsafe { simd::matching_slots(buckets, key_bits) };
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(shuttle), not(miri))))]
    let matching_slots = matching_slots_portable(buckets, key_bits);
    matching_slots
}

/// As [`matching_slots`], without SIMD instructions.
#[cfg(any(test, not(target_arch = "x86_64"), loom, shuttle, miri))]
fn matching_slots_portable(buckets: [&Bucket; 2], key_bits: [u64; 2]) -> u32 {
    use super::entry::may_match;
    use crate::sync::atomic::Ordering;

    let mut matching_slots = 0;
    for (number, (bucket, key_bits)) in buckets.into_iter().zip(key_bits).enumerate() {
        for (slot, word) in bucket.iter().enumerate() {
            // Acquire: pairs with the release of the entry's writer (`Index::scan_validated`).
            let does_match = may_match(word.load(Ordering::Acquire), key_bits);
            matching_slots |= u32::from(does_match) << (number * BUCKET_WORDS + slot);
        }
    }
    matching_slots
}

#[cfg(all(target_arch = "x86_64", not(loom), not(shuttle), not(miri)))]
mod simd {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m128i, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_movemask_epi8,
        _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_shuffle_ps, _mm_srli_epi32,
    };

    use super::Bucket;
    use crate::index::entry::ROLE_SHIFT;

    /// Bits below tag and role in the upper half of a word.
    const BITS_BELOW_ROLE: i32 = ROLE_SHIFT as i32 - 32;

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn matching_slots(buckets: [&Bucket; 2], key_bits: [u64; 2]) -> u32 {
        let [first, second] = [0, 1].map(|role| match_bucket(buckets[role], key_bits[role]));
        _mm_movemask_epi8(_mm_packs_epi16(first, second)) as u32
    }

    /// For each word of a bucket 16 bits, all set if tag and role match.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn match_bucket(bucket: &Bucket, key_bits: u64) -> __m128i {
        let wanted = _mm_set1_epi32((key_bits >> ROLE_SHIFT) as i32);
        let match_words = |two: __m128i, two_more: __m128i| {
            // The upper halves of four words.
            let (two, two_more) = (_mm_castsi128_ps(two), _mm_castsi128_ps(two_more));
            let upper = _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(two, two_more));
            _mm_cmpeq_epi32(_mm_srli_epi32::<BITS_BELOW_ROLE>(upper), wanted)
        };
        let [a, b, c, d] = load(bucket);
        _mm_packs_epi32(match_words(a, b), match_words(c, d))
    }

    /// The current words of a bucket, in pairs, each as if loaded with acquire.
    #[inline]
    fn load(bucket: &Bucket) -> [__m128i; 4] {
        let (a, b, c, d): (__m128i, __m128i, __m128i, __m128i);
        // Other threads may write concurrently, so these cannot be ordinary loads. The compared
        // part of a word is an aligned group of four bytes, which processors never load in parts; a
        // matching word is loaded again by itself. No load moves before an earlier one, and the
        // compiler moves no access across this.
        // SAFETY: reads the bucket's 64 bytes and writes nothing.
        unsafe {
            asm!(
                "movdqu {a}, [{from}]",
                "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + 32]",
                "movdqu {d}, [{from} + 48]",
                from = in(reg) bucket.as_ptr(),
                a = out(xmm_reg) a,
                b = out(xmm_reg) b,
                c = out(xmm_reg) c,
                d = out(xmm_reg) d,
                options(nostack, preserves_flags),
            );
        }
        [a, b, c, d]
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::index::addressing::TAG_BITS;
    use crate::index::entry::key_bits;

    /// Slots of both buckets.
    const SLOTS: usize = 2 * BUCKET_WORDS;

    fn bucket(words: &[u64]) -> Bucket {
        std::array::from_fn(|slot| AtomicU64::new(words[slot]))
    }

    proptest! {
        /// Words that differ from the key's in one or two bits, and arbitrary ones.
        #[test]
        fn simd_and_portable_comparison_agree(
            tag in 0_u64..1 << TAG_BITS,
            cases in prop::collection::vec((0_u64..4, 0_u32..64, any::<u64>()), SLOTS),
        ) {
            let keys = [0, 1].map(|role| key_bits(tag, role));
            let words: Vec<u64> = (0..).zip(&cases).map(|(at, &(kind, bit, any))| {
                let location = any & ((1 << 43) - 1);
                match kind {
                    0 => any,
                    1 => (keys[at / BUCKET_WORDS] | location) ^ 1 << bit,
                    2 => 0,
                    _ => keys[at / BUCKET_WORDS] | location,
                }
            }).collect();
            let (first, second) = (bucket(&words), bucket(&words[BUCKET_WORDS..]));
            let found = matching_slots([&first, &second], keys);
            prop_assert_eq!(found, matching_slots_portable([&first, &second], keys));
            for (at, (kind, ..)) in cases.iter().enumerate() {
                prop_assert!(*kind < 3 || found >> at & 1 == 1, "{} of {:b}", at, found);
            }
            prop_assert!(found < 1 << SLOTS);
        }
    }
}
