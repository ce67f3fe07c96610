//! The exclusive writer of a class: insertion, replacement, removal.

use std::cell::Cell;

use super::addressing::{BUCKET_WORDS, address};
use super::entry::{Entry, Location};
use super::{Class, Index, Moving};
use crate::limits::KICK_BUCKETS;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;

/// The result of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The entry is in a slot that was free.
    Placed,
    /// The entry is in the slot of this entry, which was displaced.
    Displaced(Entry),
    /// No slot is free, and displacing is not allowed. Nothing was changed.
    Full,
}

/// The destination of a moving entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) bucket: u64,
    pub(super) slot: usize,
    pub(super) role: usize,
}

/// An entry and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(super) bucket: u64,
    pub(super) slot: usize,
    pub(super) entry: Entry,
}

/// The position of an entry, remembered for a later lookup. The default is "none".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position(
    /// Index of the entry's word plus one.
    usize,
);

impl Position {
    /// Index of the word.
    #[inline]
    pub(super) fn word(self) -> Option<usize> {
        self.0.checked_sub(1)
    }

    /// The entry at this position, which must not be "none".
    #[inline]
    pub(super) fn found(self, entry: Entry) -> Found {
        let word = self.0 - 1;
        Found {
            bucket: (word / BUCKET_WORDS) as u64,
            slot: word % BUCKET_WORDS,
            entry,
        }
    }
}

impl Found {
    /// The position of the entry.
    #[inline]
    pub(crate) fn position(&self) -> Position {
        Position(self.bucket as usize * BUCKET_WORDS + self.slot + 1)
    }

    /// The entry as read at the time of the search.
    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }
}

/// The exclusive writer of a class.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    /// Buckets visited in addition to the two of the key.
    visits: Cell<usize>,
    index: &'a Index,
    class: &'a Class,
    hash: u64,
    _guard: MutexGuard<'a, ()>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        index: &'a Index,
        class: &'a Class,
        hash: u64,
        guard: MutexGuard<'a, ()>,
    ) -> Self {
        Self {
            visits: Cell::new(0),
            index,
            class,
            hash,
            _guard: guard,
        }
    }

    /// The hash of the key.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether only the worker that [began a rewrite](Index::begin_rewrite) may store.
    #[inline]
    pub(crate) fn is_rewriting(&self) -> bool {
        self.class.is_rewriting.load(Ordering::Relaxed)
    }

    /// Buckets visited in addition to the two of the key.
    pub(crate) fn visits(&self) -> usize {
        self.visits.get()
    }

    /// A CAS that was not assigned in this class before and differs from `present`, which a client
    /// may have chosen.
    pub(crate) fn next_cas(&self, present: Option<u64>) -> u64 {
        let mut cas = self.class.cas.load(Ordering::Relaxed) + 1;
        if present == Some(cas) {
            cas += 1;
        }
        self.class.cas.store(cas, Ordering::Relaxed);
        cas
    }

    /// The entry for which `matches` is true.
    pub(crate) fn find(&self, matches: impl FnMut(Entry) -> bool) -> Option<Found> {
        self.index.scan(self.hash, matches)
    }

    /// The current state of an entry found before the lock was taken, by a worker that has not been
    /// quiescent since. `None` if it has moved, was removed, or refers to another location.
    pub(crate) fn revalidate(&self, earlier: &Found) -> Option<Found> {
        let word = self.index.word(earlier.bucket, earlier.slot);
        let entry = Entry::from_word(word.load(Ordering::Relaxed))?;
        // A location is not reused before the worker is quiescent.
        (entry.location() == earlier.entry.location()).then_some(Found { entry, ..*earlier })
    }

    /// Inserts an entry, whose item must be complete. Visits at most `budget` further buckets to
    /// free a slot.
    pub(crate) fn insert(
        &self,
        location: Location,
        frequency: u8,
        may_displace: bool,
        budget: usize,
    ) -> Inserted {
        let hashes = self.index.addressing.bucket_hashes(self.hash);
        let buckets = self.index.buckets.load(Ordering::Relaxed);
        let choices = hashes.by_role.map(|number| address(number, buckets));
        let free = self
            .slot_in_emptier_bucket(choices)
            .or_else(|| self.free_slot(choices, buckets, budget));
        let entry = |role| Entry::new(location, frequency, hashes.tag, role);
        match free {
            Some(Target { bucket, slot, role }) => {
                self.put(bucket, slot, entry(role));
                self.index.items.0.fetch_add(1, Ordering::Relaxed);
                Inserted::Placed
            }
            None if may_displace => self.displace(choices, entry),
            None => Inserted::Full,
        }
    }

    /// Changes the location and the frequency of an entry. If a reader counts a request at the same
    /// time, that count is lost.
    pub(crate) fn replace(&self, found: &Found, location: Location, frequency: u8) {
        let entry = found.entry.with_location(location);
        self.put(found.bucket, found.slot, entry.with_frequency(frequency));
    }

    /// Removes an entry.
    pub(crate) fn remove(&self, found: &Found) {
        let word = self.index.word(found.bucket, found.slot);
        // Release: pairs with the acquire in `scan`: the word may have been emptied by a move
        // before, and a reader that sees it empty again also sees that move's version
        // (`scan_validated`).
        word.store(0, Ordering::Release);
        self.index.items.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn put(&self, bucket: u64, slot: usize, entry: Entry) {
        let word = self.index.word(bucket, slot);
        // Release: pairs with the acquire in `scan`: a reader of the entry sees the whole item.
        word.store(entry.word(), Ordering::Release);
    }

    /// A free slot in the bucket that has more free slots.
    fn slot_in_emptier_bucket(&self, choices: [u64; 2]) -> Option<Target> {
        let free = |role: usize| {
            let bucket = choices[role];
            let words = self.index.bucket(bucket).iter();
            let mut free = words
                .enumerate()
                .filter(|(_, word)| word.load(Ordering::Relaxed) == 0)
                .map(|(slot, _)| slot);
            let slot = free.next()?;
            Some((1 + free.count(), Target { bucket, slot, role }))
        };
        match (free(0), free(1)) {
            (Some(first), Some(second)) if second.0 > first.0 => Some(second.1),
            (Some(first), _) => Some(first.1),
            (None, second) => second.map(|(_, target)| target),
        }
    }

    /// Frees a slot in one of two full buckets by moving entries to their other buckets. A
    /// breadth-first search (Li et al., EuroSys 2014) finds the nearest bucket with a free slot.
    /// Then the entries on the path to it move, the last one first.
    fn free_slot(&self, choices: [u64; 2], buckets: u64, budget: usize) -> Option<Target> {
        let mut visits = [Visit::default(); KICK_BUCKETS];
        let mut count = 0;
        for role in 0..2 {
            if role == 0 || choices[1] != choices[0] {
                visits[count] = Visit {
                    bucket: choices[role],
                    parent: None,
                };
                count += 1;
            }
        }
        let mut at = 0;
        while at < count {
            for slot in 0..BUCKET_WORDS {
                if self.visits.get() == budget {
                    return None;
                }
                let word = self.index.word(visits[at].bucket, slot);
                let Some(entry) = Entry::from_word(word.load(Ordering::Relaxed)) else {
                    continue;
                };
                let role = 1 - entry.role();
                let number = self.index.bucket_hash_of(visits[at].bucket, entry, role);
                let bucket = address(number, buckets);
                self.visits.set(self.visits.get() + 1);
                if let Some(free) = self.index.first_free(bucket) {
                    return self.kick(
                        &visits,
                        at,
                        slot,
                        Target {
                            bucket,
                            slot: free,
                            role,
                        },
                        choices,
                    );
                }
                if count < KICK_BUCKETS
                    && !visits[..count].iter().any(|visit| visit.bucket == bucket)
                {
                    visits[count] = Visit {
                        bucket,
                        parent: Some((at, slot)),
                    };
                    count += 1;
                }
            }
            at += 1;
        }
        None
    }

    /// Moves the entry in `slot` of the visited bucket `at` to `target`, then the entry that led to
    /// that bucket into its slot, and so on. Returns the slot that is free in the end.
    fn kick(
        &self,
        visits: &[Visit; KICK_BUCKETS],
        mut at: usize,
        mut slot: usize,
        mut target: Target,
        choices: [u64; 2],
    ) -> Option<Target> {
        let _moving = Moving::begin(self.class);
        loop {
            let bucket = visits[at].bucket;
            let word = self.index.word(bucket, slot);
            let entry = Entry::from_word(word.load(Ordering::Relaxed))?;
            self.put(target.bucket, target.slot, entry.with_role(target.role));
            // Release: pairs with the acquire in `scan`: a reader of the emptied word sees the
            // entry in its new slot, and the version.
            word.store(0, Ordering::Release);
            let Some((parent, parent_slot)) = visits[at].parent else {
                let role = usize::from(choices[0] != bucket);
                return Some(Target { bucket, slot, role });
            };
            let word = self.index.word(visits[parent].bucket, parent_slot);
            let parent_entry = Entry::from_word(word.load(Ordering::Relaxed))?;
            target = Target {
                bucket,
                slot,
                role: 1 - parent_entry.role(),
            };
            (at, slot) = (parent, parent_slot);
        }
    }

    /// Replaces the entry with the lowest frequency in both buckets.
    fn displace(&self, choices: [u64; 2], entry: impl Fn(usize) -> Entry) -> Inserted {
        let slots = (0..2).flat_map(|role| (0..BUCKET_WORDS).map(move |slot| (role, slot)));
        let least = slots.min_by_key(|&(role, slot)| {
            let word = self.index.word(choices[role], slot).load(Ordering::Relaxed);
            Entry::from_word(word).map_or(0, Entry::frequency)
        });
        let (role, slot) = least.unwrap_or_default();
        let word = self.index.word(choices[role], slot);
        let old = Entry::from_word(word.load(Ordering::Relaxed));
        self.put(choices[role], slot, entry(role));
        old.map_or(Inserted::Placed, Inserted::Displaced)
    }
}

/// A bucket that the search for a free slot has visited.
#[derive(Debug, Clone, Copy, Default)]
struct Visit {
    bucket: u64,
    /// The entry that led to this bucket: the index of an earlier visit, and the slot in its
    /// bucket. `None` for the buckets of the key itself.
    parent: Option<(usize, usize)>,
}
