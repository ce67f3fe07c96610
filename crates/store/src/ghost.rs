//! Ghosts: hashes of items that were evicted from the small part (the ghost queue of S3-FIFO, SOSP
//! 2023). An item that returns soon after its eviction skips probation.
//!
//! Sixteen bits of each hash are kept, in sets of eight: a set remembers about its last eight
//! evictions. One in eight thousand lookups is a false positive, by which an item goes to the main
//! part without having been requested before.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Ghosts in a set: four in each of two words.
const GHOSTS_PER_SET: usize = 8;
const GHOSTS_PER_WORD: usize = 4;
/// Bits of the hash that are kept for a ghost, its tag.
const TAG_BITS: u32 = 16;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

/// Size of a set.
const SET_BYTES: usize = GHOSTS_PER_SET * TAG_BITS as usize / 8;

/// The ghosts of a store. Each word is loaded and stored separately, without a lock: concurrent
/// updates of a set may lose a ghost.
#[derive(Debug)]
pub(crate) struct Ghosts {
    sets: Box<[[AtomicU64; GHOSTS_PER_SET / GHOSTS_PER_WORD]]>,
}

impl Ghosts {
    /// Creates sets in at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let sets = (bytes / SET_BYTES).max(1);
        Self {
            sets: (0..sets).map(|_| Default::default()).collect(),
        }
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.sets.len() * SET_BYTES) as u64
    }

    /// Capacity in ghosts.
    pub(crate) fn capacity(&self) -> u64 {
        (self.sets.len() * GHOSTS_PER_SET) as u64
    }

    /// Whether the item of this hash was evicted recently. Unless `includes_older`, only the
    /// younger half of the ghosts counts.
    pub(crate) fn contains(&self, hash: u64, includes_older: bool) -> bool {
        let (set, tag) = self.set_and_tag(hash);
        let words = if includes_older { set.len() } else { 1 };
        set[..words]
            .iter()
            .any(|word| shift_of(word.load(Ordering::Relaxed), tag).is_some())
    }

    /// Removes the ghost of an item that has returned. Returns true if there was one.
    pub(crate) fn take(&self, hash: u64) -> bool {
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

    /// Adds a ghost in place of the oldest of its set.
    pub(crate) fn remember(&self, hash: u64) {
        let ([young, old], tag) = self.set_and_tag(hash);
        let word = young.load(Ordering::Relaxed);
        // The two words form a queue of eight tags. A new tag enters at the low end of the first
        // word and moves its highest tag into the second word, which drops its own highest tag.
        let moved_tag = word >> ((GHOSTS_PER_WORD as u32 - 1) * TAG_BITS);
        young.store(word << TAG_BITS | tag, Ordering::Relaxed);
        old.store(
            old.load(Ordering::Relaxed) << TAG_BITS | moved_tag,
            Ordering::Relaxed,
        );
    }

    fn set_and_tag(&self, hash: u64) -> (&[AtomicU64; GHOSTS_PER_SET / GHOSTS_PER_WORD], u64) {
        // The hash is mixed first, so that set and tag do not depend only on the bits that select
        // the index class.
        let mixed = hash.wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(32);
        let number = ((mixed & 0xffff_ffff) * self.sets.len() as u64) >> 32;
        let set = &self.sets[number as usize];
        // Zero means "no ghost": the initial state of a set.
        (set, (mixed >> 48).max(1))
    }
}

/// The number of bits below a tag in a word of tags. `None` if the word does not contain the tag.
fn shift_of(tags: u64, tag: u64) -> Option<u32> {
    let mut shifts = (0..GHOSTS_PER_WORD as u32).map(|at| at * TAG_BITS);
    shifts.find(|&shift| tags >> shift & TAG_MASK == tag)
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn a_set_remembers_its_last_eight_ghosts_until_they_are_taken() {
        let ghosts = Ghosts::new(16);
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
        assert!(!hashes.iter().any(|&hash| ghosts.take(hash)), "only once");
    }

    #[test]
    fn all_sets_are_used_even_if_their_number_is_not_a_power_of_two() {
        let ghosts = Ghosts::new(100 * SET_BYTES);
        let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..100_000).for_each(|n| ghosts.remember(hash(n)));
        let newest = (99_000..100_000).filter(|&n| ghosts.take(hash(n))).count();
        assert!((790..=800).contains(&newest), "{newest}");
    }
}
