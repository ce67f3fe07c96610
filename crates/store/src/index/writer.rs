//! Changes of the index: insertion, replacement and removal of entries, by a thread that holds the
//! lock of a shard.

use std::cell::Cell;

use super::addressing::{BUCKET_WORDS, address};
use super::entry::Entry;
use super::position::{Found, Target};
use super::{Index, MoveGuard, Shard, lock};
use crate::heap::Location;
use crate::limits::KICK_BUCKETS;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;

/// The result of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The entry was stored in a free slot.
    Placed,
    /// The entry was stored in the slot of another entry. The other entry, given here, is no longer
    /// in the index.
    Displaced(Entry),
    /// The entry was not stored, because no slot is free and displacing is not allowed.
    Full,
}

/// The right to change the entries of a shard. It holds the lock of the shard, and is created for
/// the hash of one key.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    /// Number of buckets visited by this writer's searches, without the two of the key.
    visits: Cell<usize>,
    index: &'a Index,
    shard: &'a Shard,
    hash: u64,
    _guard: MutexGuard<'a, ()>,
}

impl Index {
    /// Takes the lock of the shard of this hash. Returns the writer that holds it.
    pub(crate) fn lock(&self, hash: u64) -> Writer<'_> {
        let shard = self.shard(hash);
        let guard = lock(&shard.lock);
        Writer {
            visits: Cell::new(0),
            index: self,
            shard,
            hash,
            _guard: guard,
        }
    }
}

impl Writer<'_> {
    /// Returns the hash of the key.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns true if a worker is [rewriting an item](Index::begin_rewrite) of this shard. Then
    /// only that worker may store items in the shard.
    #[inline]
    pub(crate) fn is_rewriting(&self) -> bool {
        self.shard.is_rewriting.load(Ordering::Relaxed)
    }

    /// Returns the number of buckets visited in addition to the two of the key.
    pub(crate) fn visits(&self) -> usize {
        self.visits.get()
    }

    /// Returns a new CAS (version number of an item), which this shard has not assigned before.
    /// `present` is the CAS of the key's present item. A client may have chosen it, so the new CAS
    /// must also differ from it.
    pub(crate) fn next_cas(&self, present: Option<u64>) -> u64 {
        let mut cas = self.shard.cas.load(Ordering::Relaxed) + 1;
        if present == Some(cas) {
            cas += 1;
        }
        self.shard.cas.store(cas, Ordering::Relaxed);
        cas
    }

    /// Returns the entry for which `matches` is true, among the entries with the key's tag. One
    /// scan suffices, because no entry moves while the lock is held.
    pub(crate) fn find(&self, matches: impl FnMut(Entry) -> bool) -> Option<Found> {
        self.index.scan(self.hash, matches)
    }

    /// Returns the current state of an entry that the caller found before it took the lock. `None`
    /// if the entry has moved, was removed, or refers to another location. The caller must not have
    /// been quiescent since it found the entry (`epochs.rs`).
    pub(crate) fn revalidate(&self, earlier: &Found) -> Option<Found> {
        let word = self.index.word(earlier.bucket, earlier.slot);
        let entry = Entry::from_word(word.load(Ordering::Relaxed))?;
        // An equal location means the same item, because the memory at a location is not reused
        // before the worker is quiescent.
        (entry.location() == earlier.entry.location()).then_some(Found { entry, ..*earlier })
    }

    /// Inserts an entry for the key. The item at `location` must be complete. If both buckets of
    /// the key are full, visits at most `budget` further buckets to free a slot. If that fails and
    /// `may_displace` is true, displaces the entry with the lowest frequency in the two buckets.
    /// The frequency of the new entry is 0. If `is_restored` is true, its restored bit is set
    /// (`entry.rs`).
    pub(crate) fn insert(
        &self,
        location: Location,
        is_restored: bool,
        may_displace: bool,
        budget: usize,
    ) -> Inserted {
        let hashes = self.index.addressing.bucket_hashes(self.hash);
        let buckets = self.index.buckets.load(Ordering::Relaxed);
        let choices = hashes
            .by_role
            .map(|bucket_hash| address(bucket_hash, buckets));
        let free = self
            .slot_in_emptier_bucket(choices)
            .or_else(|| self.free_slot(choices, buckets, budget));
        let entry = |role| {
            let entry = Entry::new(location, 0, hashes.tag, role);
            match is_restored {
                true => entry.as_restored(),
                false => entry,
            }
        };
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

    /// Makes an entry refer to the item at `location`, which replaces the entry's item. Sets the
    /// frequency of the entry and clears its restored bit. A concurrent increment of the frequency
    /// by a reader is lost.
    pub(crate) fn replace(&self, found: &Found, location: Location, frequency: u8) {
        let entry = found.entry.without_restored().with_location(location);
        self.put(found.bucket, found.slot, entry.with_frequency(frequency));
    }

    /// As [`replace`](Self::replace), but for a copy of the same item: the entry keeps its restored
    /// bit.
    pub(crate) fn relocate(&self, found: &Found, location: Location, frequency: u8) {
        let entry = found.entry.with_location(location);
        self.put(found.bucket, found.slot, entry.with_frequency(frequency));
    }

    /// Removes an entry.
    pub(crate) fn remove(&self, found: &Found) {
        let word = self.index.word(found.bucket, found.slot);
        // Release: pairs with the acquire in `scan`. Earlier, a move may have emptied this word,
        // and an insertion filled it again. A reader that looks for the moved entry and now finds
        // the word empty must notice the move. It does so by the version of the shard, which the
        // move changed (`scan_validated`), so the reader must see that change.
        word.store(0, Ordering::Release);
        self.index.items.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Stores an entry in a slot.
    fn put(&self, bucket: u64, slot: usize, entry: Entry) {
        let word = self.index.word(bucket, slot);
        // Release: pairs with the acquire in `scan`. A reader that loads the entry sees the
        // complete item.
        word.store(entry.word(), Ordering::Release);
    }

    /// Returns a free slot of the bucket that has more free slots, the first bucket if both have
    /// the same number. `None` if both are full.
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

    /// Frees a slot in one of the key's two buckets, which are full. A breadth-first search (Li et
    /// al., EuroSys 2014) begins with these buckets. From each visited bucket, it visits the other
    /// buckets of the entries there, until it finds a bucket with a free slot. Then the last entry
    /// on the path moves to the free slot. The entry before it moves to the slot that this move has
    /// freed, and so on. Returns `None` if no free slot was found within `budget` visits.
    fn free_slot(&self, choices: [u64; 2], buckets: u64, budget: usize) -> Option<Target> {
        let mut nodes = [Node::default(); KICK_BUCKETS];
        let mut count = 0;
        for role in 0..2 {
            if role == 0 || choices[1] != choices[0] {
                nodes[count] = Node {
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
                let word = self.index.word(nodes[at].bucket, slot);
                let Some(entry) = Entry::from_word(word.load(Ordering::Relaxed)) else {
                    continue;
                };
                let role = 1 - entry.role();
                let bucket_hash = self.index.bucket_hash_of(nodes[at].bucket, entry, role);
                let bucket = address(bucket_hash, buckets);
                self.visits.set(self.visits.get() + 1);
                if let Some(free) = self.index.first_free(bucket) {
                    return self.kick(
                        &nodes,
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
                if count < KICK_BUCKETS && !nodes[..count].iter().any(|node| node.bucket == bucket)
                {
                    nodes[count] = Node {
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

    /// Moves the entries on the path that the search has found. First the entry in `slot` of the
    /// bucket of `nodes[at]` moves to `target`. Then the entry that led the search to that bucket
    /// moves to the freed slot, and so on. Returns the slot that is free after all moves. It is in
    /// a bucket of the key itself.
    fn kick(
        &self,
        nodes: &[Node; KICK_BUCKETS],
        mut at: usize,
        mut slot: usize,
        mut target: Target,
        choices: [u64; 2],
    ) -> Option<Target> {
        let _moving = MoveGuard::begin(self.shard);
        loop {
            let bucket = nodes[at].bucket;
            let word = self.index.word(bucket, slot);
            let entry = Entry::from_word(word.load(Ordering::Relaxed))?;
            self.put(target.bucket, target.slot, entry.with_role(target.role));
            self.index.walk.note_move(target.bucket);
            // Release: pairs with the acquire in `scan`. A reader that loads the emptied word then
            // sees that the version of the shard has changed, and the entry in its new slot.
            word.store(0, Ordering::Release);
            let Some((parent, parent_slot)) = nodes[at].parent else {
                let role = usize::from(choices[0] != bucket);
                return Some(Target { bucket, slot, role });
            };
            let word = self.index.word(nodes[parent].bucket, parent_slot);
            let parent_entry = Entry::from_word(word.load(Ordering::Relaxed))?;
            target = Target {
                bucket,
                slot,
                role: 1 - parent_entry.role(),
            };
            (at, slot) = (parent, parent_slot);
        }
    }

    /// Stores a new entry in place of the entry with the lowest frequency in the two buckets.
    /// `entry` creates the new entry for a role.
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

/// A bucket that the search for a free slot has visited: a node of the search tree.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    bucket: u64,
    /// The entry that led the search to this bucket, as the index of an earlier node and the slot
    /// in the bucket of that node. `None` for the two buckets of the key.
    parent: Option<(usize, usize)>,
}
