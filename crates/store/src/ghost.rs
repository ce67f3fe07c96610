//! Ghosts: hashes of items that were evicted from the small part (the ghost queue of S3-FIFO, SOSP
//! 2023). An item that returns soon after its eviction skips probation.
//!
//! Sixteen bits of each hash are kept, in sets of eight: a set remembers about its last eight
//! evictions. One in eight thousand lookups is a false positive, whose only cost is a place in the
//! main part.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Ghosts in a set: two words of four.
const POLICY_COUNT: usize = 8;
const NAMES_A_WORD: usize = 4;
const NAME_BITS: u32 = 16;
const NAME_MASK: u64 = (1 << NAME_BITS) - 1;

/// Size of a set.
const SET_BYTES: usize = POLICY_COUNT * NAME_BITS as usize / 8;

/// The sets. All words are read and written with single atomics; a ghost lost to a race is
/// forgotten.
#[derive(Debug)]
pub(crate) struct Ghosts {
    sets: Box<[[AtomicU64; POLICY_COUNT / NAMES_A_WORD]]>,
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
    pub(crate) fn names(&self) -> u64 {
        (self.sets.len() * POLICY_COUNT) as u64
    }

    /// Whether the item of this hash was evicted recently. Unless `is_long`, only the younger half
    /// of the ghosts counts.
    pub(crate) fn contains(&self, hash: u64, is_long: bool) -> bool {
        let (set, name) = self.position(hash);
        let words = if is_long { set.len() } else { 1 };
        set[..words]
            .iter()
            .any(|word| shift_of(word.load(Ordering::Relaxed), name).is_some())
    }

    /// Removes the ghost of an item that has returned. Returns true if there was one.
    /// was known.
    pub(crate) fn take(&self, hash: u64) -> bool {
        let (set, name) = self.position(hash);
        for word in set {
            let names = word.load(Ordering::Relaxed);
            if let Some(shift) = shift_of(names, name) {
                word.store(names & !(NAME_MASK << shift), Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Adds a ghost in place of the oldest of its set.
    pub(crate) fn remember(&self, hash: u64) {
        let ([young, old], name) = self.position(hash);
        let word = young.load(Ordering::Relaxed);
        // The words form a queue: in at the low end, from the high end of the first into the
        // second.
        let out = word >> ((NAMES_A_WORD as u32 - 1) * NAME_BITS);
        young.store(word << NAME_BITS | name, Ordering::Relaxed);
        old.store(
            old.load(Ordering::Relaxed) << NAME_BITS | out,
            Ordering::Relaxed,
        );
    }

    fn position(&self, hash: u64) -> (&[AtomicU64; POLICY_COUNT / NAMES_A_WORD], u64) {
        // Uses other bits than those that select the class, mixed so that neither selection is the
        // whole hash.
        let mixed = hash.wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(32);
        let number = ((mixed & 0xffff_ffff) * self.sets.len() as u64) >> 32;
        let set = &self.sets[number as usize];
        // Zero means "no ghost": the initial state of a set.
        (set, (mixed >> 48).max(1))
    }
}

/// The position of a ghost in a word.
fn shift_of(names: u64, name: u64) -> Option<u32> {
    let mut shifts = (0..NAMES_A_WORD as u32).map(|at| at * NAME_BITS);
    shifts.find(|&shift| names >> shift & NAME_MASK == name)
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn the_last_eight_of_a_set_are_remembered_until_they_come_back() {
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
        assert_eq!(hashes.iter().filter(young).count(), NAMES_A_WORD);
        assert!(hashes[5..].iter().all(|hash| young(&hash)));
        assert!(hashes[1..].iter().all(|&hash| ghosts.take(hash)));
        assert!(!hashes.iter().any(|&hash| ghosts.take(hash)), "only once");
    }

    #[test]
    fn any_number_of_sets_is_used_to_the_full() {
        let ghosts = Ghosts::new(100 * SET_BYTES);
        let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..100_000).for_each(|n| ghosts.remember(hash(n)));
        let newest = (99_000..100_000).filter(|&n| ghosts.take(hash(n))).count();
        assert!((790..=800).contains(&newest), "{newest}");
    }
}
