//! Ghosts: remembered hashes of items that were evicted from the small part (the ghost queue of
//! S3-FIFO, Yang et al., SOSP 2023). The small part contains new items on probation. An item that
//! is written again soon after its eviction skips the probation: it goes directly to the main part,
//! the queue of items that were requested again.
//!
//! A hash selects a set, and 16 other bits of the hash, its tag, are stored there. A set has space
//! for eight tags, and a new tag replaces the oldest one. About one in 8000 lookups is a false
//! positive (eight tags of 16 bits). Its only effect is that a new item starts in the main part.
//!
//! *How many sets are used.* The size of the table is a fixed share of the memory, but the number
//! of items in the store depends on their sizes. If the items are large, the table has many more
//! ghosts than the store has items. If all sets were used then, an evicted key would be remembered
//! for very long, and nearly every key that returns would skip its probation. So only as many sets
//! are used as are needed for [`GHOSTS_PER_ITEM`] ghosts per item.

use std::io;

use crate::limits::{GHOST_PART, GHOST_SETS_TOLERANCE, GHOSTS_PER_ITEM};
use crate::region::{Table, Zeroed};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Number of ghosts in a set. A set has two words of four ghosts.
const GHOSTS_PER_SET: usize = 8;
const GHOSTS_PER_WORD: usize = 4;
/// Number of bits of a tag, the part of an item's hash that is stored as its ghost.
const TAG_BITS: u32 = 16;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

/// Size of a set in bytes.
const SET_BYTES: usize = GHOSTS_PER_SET * TAG_BITS as usize / 8;

/// The ghosts whose hashes select the same place. The first word contains the younger half.
#[derive(Debug, Default)]
struct Set([AtomicU64; GHOSTS_PER_SET / GHOSTS_PER_WORD]);

// SAFETY: an atomic integer of zero bytes is 0, its default.
unsafe impl Zeroed for Set {}

/// The ghosts of a store, as a table of sets. Threads update a set without a lock, by separate
/// loads and stores of its words, so concurrent updates may lose a ghost.
#[derive(Debug)]
pub struct Ghosts {
    sets: Table<Set>,
    /// Number of sets in use, at least one. The sets in use are the first ones of the table.
    used: AtomicU64,
}

impl Ghosts {
    /// Size in bytes of the table of a store whose memory limit is `memory` bytes.
    #[must_use]
    pub fn bytes_in(memory: u64) -> u64 {
        memory / GHOST_PART
    }

    /// Creates an empty table of at most `bytes` bytes, but at least one set.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let sets = (bytes / SET_BYTES).max(1);
        let table = Table::reserve(sets)?;
        // A page becomes resident when a worker remembers a ghost there, which must not take long.
        table.disable_huge();
        Ok(Self {
            sets: table,
            used: AtomicU64::new(sets as u64),
        })
    }

    /// Size of the table in bytes.
    pub fn bytes(&self) -> u64 {
        (self.sets.all().len() * SET_BYTES) as u64
    }

    /// Maximum number of ghosts in the sets that are used.
    pub fn capacity(&self) -> u64 {
        self.used.load(Ordering::Relaxed) * GHOSTS_PER_SET as u64
    }

    /// Sets the number of sets in use to the number that a store of `items` items needs. If the two
    /// numbers differ by a factor of at most `GHOST_SETS_TOLERANCE`, changes nothing. A change
    /// loses most ghosts, because their hashes then select other sets. A set that is used again
    /// still contains its old ghosts, which newer ghosts soon replace.
    pub fn fit(&self, items: u64) {
        let wanted = (items * GHOSTS_PER_ITEM).div_ceil(GHOSTS_PER_SET as u64);
        let wanted = wanted.clamp(1, self.sets.all().len() as u64);
        let used = self.used.load(Ordering::Relaxed);
        if wanted > used * GHOST_SETS_TOLERANCE || wanted * GHOST_SETS_TOLERANCE < used {
            // If two workers change the number concurrently, either number will do.
            self.used.store(wanted, Ordering::Relaxed);
        }
    }

    /// Returns true if the hash is remembered as a ghost. If `includes_older` is false, only the
    /// younger half of the set is searched.
    pub fn contains(&self, hash: u64, includes_older: bool) -> bool {
        let (set, tag) = self.set_and_tag(hash);
        let words = if includes_older { set.len() } else { 1 };
        set[..words]
            .iter()
            .any(|word| shift_of(word.load(Ordering::Relaxed), tag).is_some())
    }

    /// Removes the ghost of a hash. Returns true if there was one.
    pub fn take(&self, hash: u64) -> bool {
        let (set, tag) = self.set_and_tag(hash);
        for word in set {
            let tags = word.load(Ordering::Relaxed);
            if let Some(shift) = shift_of(tags, tag) {
                word.store(tags & !(TAG_MASK << shift), Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Adds a ghost for this hash. It replaces the oldest ghost of its set.
    pub fn remember(&self, hash: u64) {
        let ([young, old], tag) = self.set_and_tag(hash);
        let word = young.load(Ordering::Relaxed);
        // The two words form a queue of eight tags. The new tag becomes the lowest tag of the first
        // word. The highest tag of the first word becomes the lowest of the second word. The
        // highest tag of the second word, the oldest of the set, is dropped.
        let moved_tag = word >> ((GHOSTS_PER_WORD as u32 - 1) * TAG_BITS);
        young.store(word << TAG_BITS | tag, Ordering::Relaxed);
        old.store(
            old.load(Ordering::Relaxed) << TAG_BITS | moved_tag,
            Ordering::Relaxed,
        );
    }

    /// Returns the set that the hash selects, and the tag of the hash.
    fn set_and_tag(&self, hash: u64) -> (&[AtomicU64; GHOSTS_PER_SET / GHOSTS_PER_WORD], u64) {
        // The low bits of the hash alone do not suffice: they select the index shard. The product
        // mixes them with the other bits. Its upper half selects the set, and the tag is taken from
        // its lower half.
        let mixed = hash.wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(32);
        let number = ((mixed & 0xffff_ffff) * self.used.load(Ordering::Relaxed)) >> 32;
        let Set(set) = &self.sets.all()[number as usize];
        // A tag is never 0, because 0 in a set means "no ghost".
        (set, (mixed >> 48).max(1))
    }
}

/// Returns the number of bits below `tag` in the word `tags`. `None` if the word does not contain
/// the tag.
fn shift_of(tags: u64, tag: u64) -> Option<u32> {
    let mut shifts = (0..GHOSTS_PER_WORD as u32).map(|at| at * TAG_BITS);
    shifts.find(|&shift| tags >> shift & TAG_MASK == tag)
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn a_set_remembers_its_last_eight_ghosts_until_each_is_removed() {
        let ghosts = Ghosts::new(16).unwrap();
        assert_eq!(ghosts.bytes(), 16);
        let hashes: Vec<u64> = (1..=9_u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        hashes.iter().for_each(|&hash| {
            assert!(!ghosts.take(hash));
            ghosts.remember(hash);
        });
        assert!(!ghosts.take(hashes[0]));
        assert!(hashes[1..].iter().all(|&hash| ghosts.contains(hash, true)));
        let young = |hash: &&u64| ghosts.contains(**hash, false);
        assert_eq!(hashes.iter().filter(young).count(), GHOSTS_PER_WORD);
        assert!(hashes[5..].iter().all(|hash| young(&hash)));
        assert!(hashes[1..].iter().all(|&hash| ghosts.take(hash)));
        assert!(
            !hashes.iter().any(|&hash| ghosts.take(hash)),
            "every ghost is removed already"
        );
    }

    #[test]
    fn ghosts_for_which_there_is_no_memory_are_refused() {
        assert!(Ghosts::new(usize::MAX).is_err());
    }

    #[test]
    fn the_number_of_ghosts_follows_the_number_of_items() {
        let ghosts = Ghosts::new(1000 * SET_BYTES).unwrap();
        let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let remembered = |items| {
            ghosts.fit(items);
            (0..100_000).for_each(|n| ghosts.remember(hash(n)));
            (0..100_000)
                .filter(|&n| ghosts.contains(hash(n), true))
                .count() as u64
        };
        // The numbers include about 12 false positives, because each of 100 000 lookups compares
        // the tag with eight tags of 16 bits.
        let expected = |ghosts: u64| ghosts..ghosts + 20;
        for items in [100, 400] {
            assert!(
                expected(GHOSTS_PER_ITEM * items).contains(&remembered(items)),
                "{items}"
            );
        }
        // The table has 1000 sets of eight ghosts, too few for two million ghosts.
        assert!(expected(8000).contains(&remembered(1_000_000)));
        // A small change of the number of items does not change the number of sets, which would
        // lose ghosts.
        let before = ghosts.capacity();
        ghosts.fit(8000 / GHOSTS_PER_ITEM - 100);
        assert_eq!(ghosts.capacity(), before);
        ghosts.fit(0);
        assert_eq!(ghosts.capacity(), GHOSTS_PER_SET as u64);
    }

    #[test]
    fn all_sets_are_used_if_their_number_is_not_a_power_of_two() {
        let ghosts = Ghosts::new(100 * SET_BYTES).unwrap();
        let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..100_000).for_each(|n| ghosts.remember(hash(n)));
        let newest = (99_000..100_000).filter(|&n| ghosts.take(hash(n))).count();
        assert!((790..=800).contains(&newest), "{newest}");
    }
}
