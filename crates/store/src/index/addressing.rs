//! The two buckets of a key, and how an entry yields both without its key.
//!
//! A key has two *numbers* of `low + TAG_BITS` bits each. Linear hashing maps a number to a bucket
//! by its low bits, at least `low` of them. The entry stores the remaining bits, its tag, and the
//! role: whether its bucket was selected by the first or the second number. The second number is
//! the first with some bits flipped, and the tag determines which. So bucket and entry together
//! yield both numbers, and an entry can move without access to its item. (This is the partial-key
//! cuckoo hashing of MemC3, NSDI 2013, without its restriction to powers of two.)

/// Entries of a bucket: one cache line.
pub(super) const BUCKET_WORDS: usize = 8;
/// Bits of a key's number that its entry stores.
pub(super) const TAG_BITS: u32 = 20;

/// Parameters that do not depend on the number of buckets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addressing {
    /// The minimum number of buckets is 2^`low_bits`.
    low_bits: u32,
    low_mask: u64,
    hash_mask: u64,
    /// Numbers that agree in these low bits belong to one class.
    class_mask: u64,
}

/// Both numbers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BucketHashes {
    pub(super) by_role: [u64; 2],
    pub(super) tag: u64,
}

impl Addressing {
    /// The parameters for at least 2^`low_bits` buckets and for 2^`class_bits` classes.
    /// `class_bits` is at most `low_bits`.
    pub(super) fn new(low_bits: u32, class_bits: u32) -> Self {
        let mask = |bits: u32| (1 << bits) - 1;
        Self {
            low_bits,
            low_mask: mask(low_bits),
            hash_mask: mask(low_bits + TAG_BITS),
            class_mask: mask(class_bits),
        }
    }

    #[inline]
    pub(super) fn bucket_hashes(self, hash: u64) -> BucketHashes {
        let first = hash & self.hash_mask;
        let tag = first >> self.low_bits;
        BucketHashes {
            by_role: [first, first ^ self.flipped_bits(tag)],
            tag,
        }
    }

    /// Both numbers of the key of an entry in `bucket` with this tag and role.
    #[inline]
    pub(super) fn bucket_hashes_of(self, bucket: u64, tag: u64, role: usize) -> BucketHashes {
        let flipped_bits = self.flipped_bits(tag);
        let low = bucket ^ if role == 0 { 0 } else { flipped_bits };
        let first = low & self.low_mask | tag << self.low_bits;
        BucketHashes {
            by_role: [first, first ^ flipped_bits],
            tag,
        }
    }

    #[inline]
    pub(super) fn class(self, number: u64) -> usize {
        (number & self.class_mask) as usize
    }

    /// The bits in which the numbers of a key with this tag differ. None of them is a bit of the
    /// class.
    #[inline]
    fn flipped_bits(self, tag: u64) -> u64 {
        // Multiplicative hashing with the golden ratio (Knuth, volume 3, 6.4): the highest bits of
        // the product.
        let mixed = (tag + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.rotate_left(self.low_bits + TAG_BITS) & self.hash_mask & !self.class_mask
    }
}

/// The bucket for a number among `buckets` (more than one) by linear hashing.
#[inline]
pub(super) fn address(number: u64, buckets: u64) -> u64 {
    let mask = u64::MAX >> (buckets - 1).leading_zeros();
    let address = number & mask;
    if address < buckets {
        address
    } else {
        address & (mask >> 1)
    }
}

/// The bucket from which bucket `number` (not the first) is split.
pub(super) fn parent(number: u64) -> u64 {
    number & !(1 << number.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_moves_a_number_from_the_parent_to_the_new_bucket_or_nowhere() {
        for buckets in 16..300 {
            for number in (0..1_u64 << 20).step_by(977) {
                let (before, after) = (address(number, buckets), address(number, buckets + 1));
                assert!(before < buckets);
                assert!(after == before || (after == buckets && before == parent(buckets)));
            }
        }
        assert_eq!(parent(8 + 3), 3);
    }

    #[test]
    fn bucket_and_entry_yield_both_numbers_of_the_key() {
        let addressing = Addressing::new(4, 2);
        for seed in 0..1000_u64 {
            let hash = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let hashes = addressing.bucket_hashes(hash);
            for buckets in [16, 17, 31, 32, 77, 5000] {
                for role in 0..2 {
                    let bucket = address(hashes.by_role[role], buckets);
                    assert_eq!(
                        addressing.bucket_hashes_of(bucket, hashes.tag, role),
                        hashes
                    );
                }
            }
        }
    }

    #[test]
    fn both_numbers_of_a_key_select_one_class_and_are_rarely_equal() {
        let addressing = Addressing::new(4, 2);
        let all = (0..1000_u64)
            .map(|seed| addressing.bucket_hashes(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let same = all.filter(|hashes| {
            let [first, second] = hashes.by_role;
            assert_eq!(addressing.class(first), addressing.class(second));
            first == second
        });
        assert!(same.count() < 3);
    }
}
