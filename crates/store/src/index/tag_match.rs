//! Branch-free comparison of a key's tag with the words of its two buckets.
//!
//! The *tag* of a key is a part of its hash. The index word of an item contains the tag of the
//! item's key, and a *role* of one bit: 0 if the word is in the first bucket of that key, and 1 if
//! it is in the second. Role and tag are the highest bits of a word, from bit `ROLE_SHIFT` up.
//!
//! The processor cannot predict in which slot a key is found. A loop that stops at the first match
//! would end with a mispredicted branch, and the processor would discard its speculative work on
//! this item and on the following requests. Therefore all 16 slots are compared, and the result is
//! a bit set. On x86-64, SIMD instructions compare four slots at a time.

use super::addressing::BUCKET_WORDS;
use crate::sync::atomic::AtomicU64;

/// The words of a bucket.
pub(super) type Bucket = [AtomicU64; BUCKET_WORDS];

/// Returns a bit set of the slots whose word has the tag of the key and the role of the bucket. The
/// lowest eight bits are for the first bucket, and the next eight for the second. `key_bits` has a
/// value for each bucket: a word in which only the bits of this tag and role are set. Each word of
/// the buckets is loaded once, with acquire.
#[inline]
pub(super) fn matching_slots(buckets: [&Bucket; 2], key_bits: [u64; 2]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(loom), not(shuttle), not(miri)))]
    // SAFETY: every x86-64 processor has the SSE2 instructions.
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
            // Acquire: pairs with the release stores of index words. `Index::scan_validated` relies
            // on it.
            let does_match = may_match(word.load(Ordering::Acquire), key_bits);
            matching_slots |= u32::from(does_match) << (number * BUCKET_WORDS + slot);
        }
    }
    matching_slots
}

#[cfg(all(target_arch = "x86_64", not(loom), not(shuttle), not(miri)))]
#[expect(
    clippy::missing_safety_doc,
    reason = "functions that need SSE2 are no unsafe ones, and every x86_64 has it"
)]
mod simd {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m128i, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_movemask_epi8,
        _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_shuffle_ps, _mm_srli_epi32,
    };

    use super::Bucket;
    use crate::index::entry::ROLE_SHIFT;

    /// Number of bits below the role in the upper half (32 bits) of a word. The tag is above the
    /// role.
    const BITS_BELOW_ROLE: i32 = ROLE_SHIFT as i32 - 32;

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn matching_slots(buckets: [&Bucket; 2], key_bits: [u64; 2]) -> u32 {
        let [first, second] = [0, 1].map(|role| match_bucket(buckets[role], key_bits[role]));
        _mm_movemask_epi8(_mm_packs_epi16(first, second)) as u32
    }

    /// Compares the eight words of a bucket. Returns 16 bits for each word, all set if its tag and
    /// role match, and all clear otherwise.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn match_bucket(bucket: &Bucket, key_bits: u64) -> __m128i {
        let wanted = _mm_set1_epi32((key_bits >> ROLE_SHIFT) as i32);
        let match_words = |low_pair: __m128i, high_pair: __m128i| {
            // A pair is two words. Collect the upper halves of the four words, which contain tag
            // and role.
            let (low_pair, high_pair) = (_mm_castsi128_ps(low_pair), _mm_castsi128_ps(high_pair));
            let upper = _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(low_pair, high_pair));
            _mm_cmpeq_epi32(_mm_srli_epi32::<BITS_BELOW_ROLE>(upper), wanted)
        };
        let [a, b, c, d] = load(bucket);
        _mm_packs_epi32(match_words(a, b), match_words(c, d))
    }

    /// Loads the words of a bucket in pairs. Only the upper half of each word, which contains tag
    /// and role, is compared. It is loaded as by an atomic acquire load.
    #[inline]
    fn load(bucket: &Bucket) -> [__m128i; 4] {
        let (a, b, c, d): (__m128i, __m128i, __m128i, __m128i);
        // Other threads may store to the words concurrently, so ordinary loads would be a data
        // race. There are no atomic loads of 16 bytes in Rust, so assembly is used. It has these
        // effects:
        //
        // - Atomicity: the upper half of a word is an aligned group of four bytes. An x86-64
        //   processor never loads such a group in parts. The caller loads a matching word again, as
        //   a single atomic word.
        // - Acquire: an x86-64 processor does not reorder loads, and the compiler moves no memory
        //   access across an `asm!` block that may access memory.
        // SAFETY: the code reads the 64 bytes of the bucket and writes no memory.
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
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::index::addressing::TAG_BITS;
    use crate::index::entry::{ROLE_SHIFT, key_bits};

    /// Slots of both buckets.
    const SLOTS: usize = 2 * BUCKET_WORDS;

    fn bucket(words: &[u64]) -> Bucket {
        std::array::from_fn(|slot| AtomicU64::new(words[slot]))
    }

    proptest! {
        /// The words of the two buckets match the key, differ in one bit, are empty, or are
        /// arbitrary.
        #[test]
        fn simd_and_portable_comparison_agree(
            tag in 0_u64..1 << TAG_BITS,
            cases in prop::collection::vec((0_u64..4, 0_u32..64, any::<u64>()), SLOTS),
        ) {
            let keys = [0, 1].map(|role| key_bits(tag, role));
            let words: Vec<u64> = (0..).zip(&cases).map(|(at, &(kind, bit, any))| {
                // The bits below role and tag, which are not compared.
                let low_bits = any & ((1_u64 << ROLE_SHIFT) - 1);
                match kind {
                    0 => any,
                    1 => (keys[at / BUCKET_WORDS] | low_bits) ^ 1 << bit,
                    2 => 0,
                    _ => keys[at / BUCKET_WORDS] | low_bits,
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
