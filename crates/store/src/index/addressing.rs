//! Computes the two buckets of a key, from the hash of the key or from one of its entries.
//!
//! A key has two *bucket hashes* of `low_bits + TAG_BITS` bits each. The lowest bits of a bucket
//! hash select a bucket. Linear hashing uses more of these bits while there are more buckets, but
//! always at least `low_bits`. The entry of the key stores two things:
//!
//! - the tag: the highest `TAG_BITS` bits of the first bucket hash;
//! - the role, 0 or 1: which of the two bucket hashes selected the entry's bucket.
//!
//! The second bucket hash is the first with some bits flipped, and the tag alone determines which
//! bits. Therefore both bucket hashes can be computed from an entry and the number of its bucket,
//! and an entry can be moved to its other bucket without access to its item. This is the
//! partial-key cuckoo hashing of MemC3 (NSDI 2013), but the number of buckets need not be a power
//! of two.

/// Number of words in a bucket, which is one cache line.
pub(super) const BUCKET_WORDS: usize = crate::limits::BUCKET_ENTRIES;
/// Number of bits of a tag.
pub(super) const TAG_BITS: u32 = 20;

/// The parameters of the computation. They do not depend on the current number of buckets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addressing {
    /// The minimum number of buckets is 2^`low_bits`.
    low_bits: u32,
    /// A mask of the lowest `low_bits` bits.
    low_mask: u64,
    /// A mask of all bits of a bucket hash.
    hash_mask: u64,
    /// A mask of the low bits that are the number of the shard, in a bucket hash or a bucket
    /// number.
    shard_mask: u64,
}

/// The two bucket hashes of a key, and its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BucketHashes {
    /// The bucket hashes, indexed by role.
    pub(super) by_role: [u64; 2],
    pub(super) tag: u64,
}

impl Addressing {
    /// Returns the parameters for at least 2^`low_bits` buckets and for 2^`shard_bits` shards.
    /// `shard_bits` is at most `low_bits`.
    pub(super) fn new(low_bits: u32, shard_bits: u32) -> Self {
        let mask = |bits: u32| (1 << bits) - 1;
        Self {
            low_bits,
            low_mask: mask(low_bits),
            hash_mask: mask(low_bits + TAG_BITS),
            shard_mask: mask(shard_bits),
        }
    }

    /// Returns both bucket hashes of a key with this hash.
    #[inline]
    pub(super) fn bucket_hashes(self, hash: u64) -> BucketHashes {
        let first = hash & self.hash_mask;
        let tag = first >> self.low_bits;
        BucketHashes {
            by_role: [first, first ^ self.flipped_bits(tag)],
            tag,
        }
    }

    /// Returns both bucket hashes of the key of an entry, given its bucket number, tag and role.
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

    /// Returns the shard of a bucket hash, of a key's hash, or of a bucket number.
    #[inline]
    pub(super) fn shard(self, hash: u64) -> usize {
        (hash & self.shard_mask) as usize
    }

    /// Returns the bits in which the two bucket hashes of a key with this tag differ. No bit of the
    /// shard is among them, so both bucket hashes select the same shard.
    #[inline]
    fn flipped_bits(self, tag: u64) -> u64 {
        // Multiplicative hashing with the golden ratio (Knuth, volume 3, section 6.4). The rotation
        // moves the highest bits of the product, the best mixed ones, to the bits of a bucket hash.
        let mixed = (tag + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.rotate_left(self.low_bits + TAG_BITS) & self.hash_mask & !self.shard_mask
    }
}

/// Returns the number of the bucket that linear hashing selects for a bucket hash. There are
/// `buckets` buckets, at least two.
#[inline]
pub(super) fn address(hash: u64, buckets: u64) -> u64 {
    let mask = u64::MAX >> (buckets - 1).leading_zeros();
    let address = hash & mask;
    if address < buckets {
        address
    } else {
        // This bucket does not exist yet, so its parent contains the entries.
        address & (mask >> 1)
    }
}

/// Returns the number of the bucket from which bucket `number` is split. `number` is not 0.
pub(super) fn parent(number: u64) -> u64 {
    number & !(1 << number.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_changes_the_bucket_of_a_hash_only_from_the_parent_to_the_new_bucket() {
        for buckets in 16..300 {
            for hash in (0..1_u64 << 20).step_by(977) {
                let (before, after) = (address(hash, buckets), address(hash, buckets + 1));
                assert!(before < buckets);
                assert!(after == before || (after == buckets && before == parent(buckets)));
            }
        }
        assert_eq!(parent(8 + 3), 3);
    }

    #[test]
    fn bucket_number_and_entry_yield_both_bucket_hashes_of_the_key() {
        let (low_bits, shard_bits) = (4, 2);
        let addressing = Addressing::new(low_bits, shard_bits);
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
    fn both_bucket_hashes_of_a_key_select_one_shard_and_are_rarely_equal() {
        let (low_bits, shard_bits) = (4, 2);
        let addressing = Addressing::new(low_bits, shard_bits);
        let all = (0..1000_u64)
            .map(|seed| addressing.bucket_hashes(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let same = all.filter(|hashes| {
            let [first, second] = hashes.by_role;
            assert_eq!(addressing.shard(first), addressing.shard(second));
            first == second
        });
        assert!(same.count() < 3);
    }
}
