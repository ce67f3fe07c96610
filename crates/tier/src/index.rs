//! The index: from the hash of a key to the address of its current copy.
//!
//! ```text
//! hash ─► shard (low bits): a lock
//!   ├─ first choice ──► bucket ┐  8 hashes in one cache line, then 8 addresses of 16 bytes
//!   └─ second choice ─► bucket ┘
//! ```
//!
//! Its size is fixed at the start. A new entry goes to the emptier of its two buckets. An entry
//! whose segment was reused is invalid, and its slot counts as free. If both buckets are full, the
//! entry of the oldest segment is replaced, and that copy is lost.
//!
//! The lowest bit of the offset in an entry, which is 0 in an address, says that the item was read
//! since it was written. It may have been read after the copy was made.
//!
//! Locks are held for a search of two buckets, never across a system call.

use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{Expiry, TierAddress};

use crate::limits::{BUCKET_ENTRIES, INDEX_SHARDS, RECORD_ALIGN};
use crate::ring::Ring;

/// An address without a copy.
const NOWHERE: TierAddress = TierAddress {
    sequence: 0,
    offset: 0,
    len: 0,
    expiry: Expiry::NEVER,
};

/// The hashes and addresses of some copies. Hash 0 means that the slot is free.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Bucket {
    hashes: [u64; BUCKET_ENTRIES],
    addresses: [TierAddress; BUCKET_ENTRIES],
}

const _: () = assert!(size_of::<Bucket>() == 192);

/// The bit of an entry's offset.
const FETCHED: u32 = 1;
const _: () = assert!(RECORD_ALIGN.is_multiple_of(2));

const EMPTY: Bucket = Bucket {
    hashes: [0; BUCKET_ENTRIES],
    addresses: [NOWHERE; BUCKET_ENTRIES],
};

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Mutex<Box<[Bucket]>>]>,
    buckets_per_shard: u64,
}

/// What an insertion removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// No current copy.
    Nothing,
    /// The earlier copy of the same key.
    Earlier(TierAddress),
    /// The copy of another key, because both buckets were full.
    Other(TierAddress),
}

/// The slot of an entry.
#[derive(Clone, Copy)]
struct Slot {
    bucket: usize,
    number: usize,
}

impl Index {
    /// An index with space for at least `entries`. `None` if there is no memory for it.
    pub(crate) fn new(entries: u64) -> Option<Self> {
        let per_shard = entries / (INDEX_SHARDS * BUCKET_ENTRIES) as u64 + 2;
        // The kernel refuses what it can never provide, if it is asked for all at once.
        let all = per_shard as usize * INDEX_SHARDS * size_of::<Bucket>();
        Vec::<u8>::new().try_reserve_exact(all).ok()?;
        let shard = || Mutex::new(vec![EMPTY; per_shard as usize].into_boxed_slice());
        Some(Self {
            shards: (0..INDEX_SHARDS).map(|_| shard()).collect(),
            buckets_per_shard: per_shard,
        })
    }

    /// The size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.buckets_per_shard * (INDEX_SHARDS * size_of::<Bucket>()) as u64
    }

    /// Returns the address of the current copy of a key.
    pub(crate) fn find(&self, hash: u64, ring: &Ring) -> Option<TierAddress> {
        let hash = hash.max(1);
        let shard = self.lock(hash);
        let slot = find_slot(&shard, self.choices(hash), hash)?;
        Some(address_of(shard[slot.bucket].addresses[slot.number]))
            .filter(|address| ring.is_valid(address.sequence))
    }

    /// Marks the copy at an address as fetched, if it is the current one.
    pub(crate) fn mark_fetched(&self, hash: u64, address: TierAddress) {
        self.with_entry(hash, address, |entry| entry.offset |= FETCHED);
    }

    /// Whether the copy at an address is the current one and is marked as fetched.
    pub(crate) fn is_fetched(&self, hash: u64, address: TierAddress) -> bool {
        let is_fetched = self.with_entry(hash, address, |entry| entry.offset & FETCHED != 0);
        is_fetched == Some(true)
    }

    /// Passes the entry of a key to `visit`, if it has this address.
    fn with_entry<R>(
        &self,
        hash: u64,
        address: TierAddress,
        visit: impl FnOnce(&mut TierAddress) -> R,
    ) -> Option<R> {
        let hash = hash.max(1);
        let mut shard = self.lock(hash);
        let slot = find_slot(&shard, self.choices(hash), hash)?;
        let entry = &mut shard[slot.bucket].addresses[slot.number];
        (address_of(*entry) == address).then(|| visit(entry))
    }

    /// Makes `address` the current copy of a key.
    pub(crate) fn insert(&self, hash: u64, address: TierAddress, ring: &Ring) -> Replaced {
        let hash = hash.max(1);
        let choices = self.choices(hash);
        let mut shard = self.lock(hash);
        if let Some(slot) = find_slot(&shard, choices, hash) {
            let entry = &mut shard[slot.bucket].addresses[slot.number];
            let earlier = address_of(std::mem::replace(entry, address));
            return match ring.is_valid(earlier.sequence) {
                true => Replaced::Earlier(earlier),
                false => Replaced::Nothing,
            };
        }
        let (slot, replaced) = slot_for_new(&shard, choices, ring);
        let bucket = &mut shard[slot.bucket];
        bucket.hashes[slot.number] = hash;
        bucket.addresses[slot.number] = address;
        replaced
    }

    /// Removes the current copy of a key, if `is_wanted` is true for it.
    pub(crate) fn remove(
        &self,
        hash: u64,
        ring: &Ring,
        is_wanted: impl FnOnce(&TierAddress) -> bool,
    ) -> Option<TierAddress> {
        let hash = hash.max(1);
        let mut shard = self.lock(hash);
        let slot = find_slot(&shard, self.choices(hash), hash)?;
        let bucket = &mut shard[slot.bucket];
        let address = address_of(bucket.addresses[slot.number]);
        if !is_wanted(&address) {
            return None;
        }
        bucket.hashes[slot.number] = 0;
        ring.is_valid(address.sequence).then_some(address)
    }

    /// Calls `visit` with each entry, valid or not, and whether it is marked as fetched. Holds one
    /// lock at a time.
    pub(crate) fn for_each<E>(
        &self,
        mut visit: impl FnMut(u64, TierAddress, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for bucket in &*shard {
                for (&hash, &entry) in bucket.hashes.iter().zip(&bucket.addresses) {
                    if hash != 0 {
                        visit(hash, address_of(entry), entry.offset & FETCHED != 0)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn lock(&self, hash: u64) -> MutexGuard<'_, Box<[Bucket]>> {
        let shard = &self.shards[hash as usize % INDEX_SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The two buckets of a hash, which may be the same.
    fn choices(&self, hash: u64) -> [usize; 2] {
        // Multiplication and shift map 32 bits evenly to the buckets.
        let choose = |bits: u64| (((bits & 0xffff_ffff) * self.buckets_per_shard) >> 32) as usize;
        [
            choose(hash >> 32),
            choose(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29),
        ]
    }
}

/// The address in an entry.
fn address_of(entry: TierAddress) -> TierAddress {
    TierAddress {
        offset: entry.offset & !FETCHED,
        ..entry
    }
}

fn find_slot(shard: &[Bucket], choices: [usize; 2], hash: u64) -> Option<Slot> {
    choices.into_iter().find_map(|bucket| {
        let number = shard[bucket].hashes.iter().position(|&it| it == hash)?;
        Some(Slot { bucket, number })
    })
}

/// A free slot in the emptier bucket, or the slot of the copy in the oldest segment.
fn slot_for_new(shard: &[Bucket], choices: [usize; 2], ring: &Ring) -> (Slot, Replaced) {
    let mut best: Option<(usize, Slot)> = None;
    let mut oldest = (
        u32::MAX,
        Slot {
            bucket: choices[0],
            number: 0,
        },
    );
    for bucket in choices {
        let (mut free, mut first) = (0, None);
        for (number, (&hash, address)) in shard[bucket]
            .hashes
            .iter()
            .zip(&shard[bucket].addresses)
            .enumerate()
        {
            if hash == 0 || !ring.is_valid(address.sequence) {
                free += 1;
                first.get_or_insert(number);
            } else if address.sequence < oldest.0 {
                oldest = (address.sequence, Slot { bucket, number });
            }
        }
        if let Some(number) = first
            && best.is_none_or(|(most, _)| free > most)
        {
            best = Some((free, Slot { bucket, number }));
        }
    }
    match best {
        Some((_, slot)) => (slot, Replaced::Nothing),
        None => {
            let Slot { bucket, number } = oldest.1;
            let other = address_of(shard[bucket].addresses[number]);
            (oldest.1, Replaced::Other(other))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(sequence: u32, offset: u32) -> TierAddress {
        TierAddress {
            sequence,
            offset: offset * RECORD_ALIGN as u32,
            len: 64,
            expiry: Expiry::NEVER,
        }
    }

    fn mix(number: u64) -> u64 {
        let mixed = (number + 1).wrapping_mul(0xd134_2543_de82_ef95);
        (mixed ^ mixed >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn entries_are_found_replaced_and_removed() {
        let (index, ring) = (Index::new(1000).unwrap(), Ring::new(8));
        let sequence = ring.open(0).unwrap().sequence;
        for number in 0..1000 {
            index.insert(mix(number), address(sequence, number as u32), &ring);
        }
        for number in 0..1000 {
            assert_eq!(
                index.find(mix(number), &ring),
                Some(address(sequence, number as u32))
            );
        }
        let replaced = index.insert(mix(5), address(sequence, 7777), &ring);
        assert_eq!(replaced, Replaced::Earlier(address(sequence, 5)));
        assert_eq!(
            index.remove(mix(5), &ring, |it| *it == address(sequence, 5)),
            None
        );
        assert_eq!(
            index.remove(mix(5), &ring, |it| *it == address(sequence, 7777)),
            Some(address(sequence, 7777))
        );
        assert_eq!(index.find(mix(5), &ring), None);
    }

    #[test]
    fn entries_of_reused_segments_are_invalid_and_their_slots_free() {
        let (index, ring) = (Index::new(100).unwrap(), Ring::new(2));
        let first = ring.open(0).unwrap().sequence;
        index.insert(mix(1), address(first, 0), &ring);
        let second = ring.open(0).unwrap().sequence;
        assert!(index.find(mix(1), &ring).is_some());
        ring.open(0);
        assert_eq!(index.find(mix(1), &ring), None);
        assert_eq!(index.remove(mix(1), &ring, |_| true), None);
        // More entries than there are slots: the oldest are replaced, and no more of them than
        // there are too many.
        let third = ring.open(0).unwrap().sequence;
        assert!(third > second);
        let mut lost = 0;
        for number in 0..20_000 {
            let replaced = index.insert(mix(number), address(third, number as u32), &ring);
            lost += u64::from(matches!(replaced, Replaced::Other(_)));
        }
        let found = (0..20_000).filter(|&number| index.find(mix(number), &ring).is_some());
        assert_eq!(found.count() as u64 + lost, 20_000);
    }

    /// With as many entries as it was made for, hardly any copy is lost.
    #[test]
    fn the_index_fills_evenly() {
        let (index, ring) = (Index::new(125_000).unwrap(), Ring::new(4));
        let sequence = ring.open(0).unwrap().sequence;
        let lost = (0..100_000).filter(|&number| {
            let replaced = index.insert(mix(number), address(sequence, number as u32), &ring);
            replaced != Replaced::Nothing
        });
        let lost = lost.count();
        assert!(lost < 1000, "{lost} of 100000 copies were lost");
    }
}
