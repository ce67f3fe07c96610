//! The index: a hash table that grows by one bucket at a time. A bucket is one cache line. An entry
//! refers to an item by its location. A key has two buckets, and its entry is in one of them.
//!
//! ```text
//! hash ──► shard (low bits) ── a lock and a version for all buckets of the shard
//!   │
//!   ├─ first choice ──► bucket ┐  8 words of 8 bytes: tag, frequency, location
//!   └─ second choice ─► bucket ┘  (`entry.rs`)
//! ```
//!
//! - *Linear hashing* (Litwin, VLDB 1980): the number of buckets `n` need not be a power of two. If
//!   the load (the share of slots that are in use) is high, a step splits bucket `n - 2^k`, where
//!   `2^k` is the largest power of two up to `n`, and moves some of its entries to the new bucket
//!   `n`. If the load is low, a step removes the last bucket, and moves its entries to the buckets
//!   that their keys then select.
//! - *Two choices* (Azar et al., STOC 1994): a new entry goes to the emptier of its two buckets, so
//!   that all buckets fill evenly. With one choice, a bucket that is not split yet would hold twice
//!   as many entries as a split bucket.
//! - *Kicks*, as in cuckoo hashing: if both buckets of a key are full, an entry of one of them
//!   moves to that entry's other bucket. If no entry can move, the new entry *displaces* another
//!   one, and the item of the displaced entry is evicted.
//!
//! The buckets are divided into *shards* by the low bits of their numbers. Both buckets of a key,
//! and the buckets from which they were split, belong to one shard. Therefore a writer takes only
//! one lock, that of the shard.
//!
//! **Readers take no lock.** A writer that moves an entry first stores it in the new slot, and then
//! empties the old slot. So at least one slot always contains the entry. A reader may still miss
//! the entry, if it scans the new slot before the writer's first step and the old slot after the
//! second. Therefore the writer also changes the version of the shard, before it empties the old
//! slot. A reader that finds nothing loads the version, scans again, and loads the version once
//! more. If the version has changed or is odd, entries moved meanwhile, and the reader repeats
//! this. A reader that finds its entry needs no second scan.
//!
//! There are several kinds of lookup:
//!
//! | verb | result |
//! |---|---|
//! | `find` | the entry for which a predicate is true; does not miss an entry that moves |
//! | `scan` | the same in one pass over both buckets; may miss an entry that moves |
//! | `scan_validated` | the same in repeated passes, until the version shows that no entry moved |
//! | `find_candidate` | an entry with the key's tag, possibly of another key |
//! | `reread` | the entry at a remembered position, if it has the key's tag |
//! | `Writer::revalidate` | an entry found before the lock was taken, if it has the same location |
//!
//! The index never accesses the memory to which locations refer. The caller ensures that a location
//! is used only while its memory is not reused (`epochs.rs`).

mod addressing;
mod entry;
mod position;
mod tag_match;
pub(crate) mod walk;
mod walk_state;
pub(crate) mod writer;

use std::io;
use std::ops::Range;
use std::sync::PoisonError;

use addressing::{Addressing, BUCKET_WORDS, address};
pub(crate) use entry::Entry;
use entry::{key_bits, may_match};
use position::Target;
pub(crate) use position::{Found, Position};
use tag_match::Bucket;
pub(crate) use walk_state::WalkNumber;
use walk_state::WalkState;

use crate::limits::CAS_PER_SHARD;
use crate::region::Region;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// The load, in percent of all slots, above which a bucket is split. Some shards are fuller than
/// the average. With a higher value, it would be more likely that an insertion into a full shard
/// finds no free slot and has to evict an item.
const LOAD_MAX: u64 = 80;
/// Replaces [`LOAD_MAX`] in an index of at most [`SHARDS_FEW`] shards. The higher value saves
/// memory.
const LOAD_MAX_FEW: u64 = 81;
/// The maximum number of shards for which [`LOAD_MAX_FEW`] applies.
const SHARDS_FEW: usize = 16;
/// The load, in percent of all slots, from which writers wait for each other to split buckets.
/// Without that, the kernel may stop the writer that is splitting one while others insert, and they
/// would find the index full, although it can grow.
const LOAD_URGENT: u64 = 88;
/// The load, in percent of all slots, below which the last bucket is merged into another.
const LOAD_MIN: u64 = 61;
/// Maximum number of validated scans of a lookup. If entries moved during each of them, the reader
/// takes the lock of the shard.
const SCANS_MAX: u32 = 4;

/// Size of a bucket in bytes: a cache line. (In the models, atomic words are larger.)
const BUCKET_BYTES: usize = 64;

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Bucket>() == BUCKET_BYTES);

/// The lock, version and counters of a shard.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    /// Held by the writer that changes the buckets of this shard.
    lock: Mutex<()>,
    /// The version, incremented before and after a move of entries. It is odd during a move.
    version: AtomicU32,
    /// The CAS (version number) assigned last to an item of this shard. Changed under the lock.
    cas: AtomicU64,
    /// Whether a worker is rewriting an item of this shard, that is, deriving a new value from the
    /// present one (`operations/rewrite.rs`). No other worker may then store an item in this shard.
    is_rewriting: AtomicBool,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    /// The memory of all buckets.
    region: Region,
    addressing: Addressing,
    /// [`LOAD_MAX`] or [`LOAD_MAX_FEW`].
    load_max: u64,
    shards: Box<[Shard]>,
    /// Number of buckets in use.
    buckets: AtomicU64,
    buckets_min: u64,
    buckets_max: u64,
    /// Number of bytes, from the first bucket on, that [`populate`](Self::populate) made resident.
    populated: AtomicU64,
    /// Number of entries. Every insertion and removal changes it, so it has a cache line of its
    /// own.
    items: PaddedCounter,
    /// Held by the thread that splits or merges a bucket.
    resizing: Mutex<()>,
    /// The state of the walk that visits all entries (`walk.rs`).
    walk: WalkState,
}

/// A counter on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct PaddedCounter(AtomicU64);

/// The result of a resize step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResizeStep {
    /// A bucket was added or removed. The value is the new size of all buckets in bytes.
    Resized(u64),
    /// No resizing is needed, or another thread is resizing.
    Idle,
    /// Resizing is needed but impossible, because the maximum number of buckets is reached, or
    /// because the entries of the last bucket do not fit into other buckets.
    Blocked,
}

impl Index {
    /// Creates an empty index of `shards` shards, each with `buckets_per_shard` buckets. Both
    /// numbers are powers of two, and `buckets_per_shard` is at least 2. The index never shrinks
    /// below this size, and grows to at most `bytes_max` bytes.
    ///
    /// The hash assigns keys to shards at random. So the load of a shard is close to the average
    /// only if the shard has many buckets. With 512 buckets per shard, the fullest of 256 shards
    /// has 5 % more entries than the average.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub(crate) fn new(
        shards: usize,
        buckets_per_shard: usize,
        bytes_max: usize,
    ) -> io::Result<Self> {
        debug_assert!(shards.is_power_of_two() && buckets_per_shard.is_power_of_two());
        let least = buckets_per_shard * shards;
        let buckets_max = (bytes_max / BUCKET_BYTES).max(least) as u64;
        let index = Self {
            region: Region::reserve(buckets_max as usize * BUCKET_BYTES)?,
            addressing: Addressing::new(least.ilog2(), shards.ilog2()),
            load_max: match shards {
                ..=SHARDS_FEW => LOAD_MAX_FEW,
                _ => LOAD_MAX,
            },
            shards: (0..shards).map(|_| Shard::default()).collect(),
            buckets: AtomicU64::new(least as u64),
            buckets_min: least as u64,
            buckets_max,
            populated: AtomicU64::new(0),
            items: PaddedCounter::default(),
            resizing: Mutex::new(()),
            walk: WalkState::default(),
        };
        index.begin_cas_after(0);
        Ok(index)
    }

    /// Makes each shard assign only CAS above `cas`. Called before the index is used. Each shard
    /// starts [`CAS_PER_SHARD`] above the shard before it. So items of different shards have
    /// different CAS until a shard has assigned [`CAS_PER_SHARD`] of them.
    pub(crate) fn begin_cas_after(&self, cas: u64) {
        for (number, shard) in (0..).zip(&self.shards) {
            let start = cas + number * CAS_PER_SHARD;
            shard.cas.store(start, Ordering::Relaxed);
        }
    }

    /// Requests huge pages. A hint.
    pub(crate) fn advise_huge(&self) {
        self.region.advise_huge();
    }

    /// Stops requesting huge pages. Makes a system call.
    pub(crate) fn disable_huge(&self) {
        self.region.disable_huge();
    }

    /// Makes the next bytes of the index resident that were not populated yet, at most `len_max`.
    /// The bytes to be populated are the buckets in use and `ahead_bytes` after them. Returns false
    /// if all of these were populated before. Makes a system call.
    pub(crate) fn populate(&self, ahead_bytes: usize, len_max: usize) -> bool {
        let range = self.next_pages(ahead_bytes, len_max);
        self.region
            .populate(range.start as usize, range.end as usize);
        !range.is_empty()
    }

    /// Returns the next bytes to populate. No byte is returned twice. The first range begins with
    /// the first bucket, because keys are in all buckets from the start. Without population, the
    /// first access to a huge page would wait until the kernel has zeroed 2 MiB.
    fn next_pages(&self, ahead_bytes: usize, len_max: usize) -> Range<u64> {
        let region_end = self.buckets_max * BUCKET_BYTES as u64;
        let needed_end = (self.bytes() + ahead_bytes as u64).min(region_end);
        let start = self.populated.load(Ordering::Relaxed);
        let end = needed_end.min(start + len_max as u64).max(start);
        // `fetch_max` marks the range as populated, so that a concurrent caller gets the next
        // range.
        let start = self.populated.fetch_max(end, Ordering::Relaxed);
        start..end.max(start)
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.items.0.load(Ordering::Relaxed)
    }

    /// Returns the size of the buckets in use, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.buckets.load(Ordering::Relaxed) * BUCKET_BYTES as u64
    }

    /// Prefetches both buckets of a key. A hint.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let buckets = self.buckets.load(Ordering::Relaxed);
        for bucket_hash in self.addressing.bucket_hashes(hash).by_role {
            let bucket = self.bucket(address(bucket_hash, buckets));
            crate::prefetch::line(std::ptr::from_ref(bucket).cast());
        }
    }

    /// Prefetches the lock of a key's shard. A hint.
    #[inline]
    pub(crate) fn prefetch_lock(&self, hash: u64) {
        crate::prefetch::line_to_write(std::ptr::from_ref(self.shard(hash)).cast());
    }

    /// Prefetches the bucket of an entry that is about to be changed. A hint.
    #[inline]
    pub(crate) fn prefetch_entry(&self, found: &Found) {
        crate::prefetch::line_to_write(std::ptr::from_ref(self.bucket(found.bucket)).cast());
    }

    /// Searches the two buckets of a key. Among the entries with the key's tag, returns one for
    /// which `matches` is true. Does not miss an entry that moves concurrently.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut matches: impl FnMut(Entry) -> bool) -> Option<Entry> {
        if let Some(found) = self.scan(hash, &mut matches) {
            return Some(found.entry);
        }
        self.scan_validated(hash, matches)
    }

    /// Returns an entry with the key's tag, preferably the one at a remembered position. Its item
    /// may have another key, and an entry that moves may be missed. So the caller uses the result
    /// as a hint only, or compares the key later.
    #[inline]
    pub(crate) fn find_candidate(&self, hash: u64, position: Position) -> Option<Found> {
        self.reread(hash, position)
            .or_else(|| self.scan(hash, |_| true))
    }

    /// Returns the entry that is now at a remembered position, if it has the key's tag. Any word of
    /// the index may be read, even in a bucket that is being merged. While an entry moves, it is in
    /// two slots, and both refer to the same item.
    #[inline]
    pub(crate) fn reread(&self, hash: u64, position: Position) -> Option<Found> {
        let words = self.region.words();
        // Acquire: pairs with the release of the entry's writer, so that the complete item is
        // visible.
        let word = words.get(position.word_index()?)?.load(Ordering::Acquire);
        let tag = self.addressing.bucket_hashes(hash).tag;
        let entry = Entry::from_word(word).filter(|entry| entry.tag() == tag)?;
        Some(position.found(entry))
    }

    /// Continues [`find`](Self::find) after a scan that found nothing: repeats the scan until it
    /// finds the entry, or until the version shows that no entry moved during the scan.
    fn scan_validated(&self, hash: u64, mut matches: impl FnMut(Entry) -> bool) -> Option<Entry> {
        let shard = self.shard(hash);
        for _ in 0..SCANS_MAX {
            // Acquire: pairs with the release in `MoveGuard`. The scan below sees all moves that
            // this version counts as completed.
            let before = shard.version.load(Ordering::Acquire);
            if let Some(found) = self.scan(hash, &mut matches) {
                return Some(found.entry);
            }
            // The scan loaded all words with acquire. This pairs with the release by which a move
            // empties a word. So if the scan has read a word that a move emptied, the load below
            // returns the version that this move had set before, or a later one. If the version is
            // even and equal to `before`, every such move was complete before the scan.
            let after = shard.version.load(Ordering::Acquire);
            if before == after && before.is_multiple_of(2) {
                return None;
            }
        }
        let _guard = lock(&shard.lock);
        self.scan(hash, &mut matches).map(|found| found.entry)
    }

    /// As [`find`](Self::find), in one pass over both buckets. May miss an entry that moves.
    /// Returns the entry with its position.
    #[inline]
    pub(crate) fn scan(&self, hash: u64, mut matches: impl FnMut(Entry) -> bool) -> Option<Found> {
        // Acquire: pairs with the release in `split` and `merge`. The entries are visible in the
        // buckets that this number selects.
        let bucket_count = self.buckets.load(Ordering::Acquire);
        let hashes = self.addressing.bucket_hashes(hash);
        let choices = hashes
            .by_role
            .map(|bucket_hash| address(bucket_hash, bucket_count));
        let key_bits = [0, 1].map(|role| key_bits(hashes.tag, role));
        let buckets = choices.map(|bucket| self.bucket(bucket));
        // `matching_slots` loads every word with acquire, on which `scan_validated` relies.
        let mut tag_match = tag_match::matching_slots(buckets, key_bits);
        while tag_match != 0 {
            let bit = tag_match.trailing_zeros() as usize;
            tag_match &= tag_match - 1;
            let (role, slot) = (bit / BUCKET_WORDS, bit % BUCKET_WORDS);
            // Acquire: pairs with the release of the entry's writer, so that the complete item is
            // visible.
            let word = buckets[role][slot].load(Ordering::Acquire);
            if may_match(word, key_bits[role])
                && let Some(entry) = Entry::from_word(word)
                && matches(entry)
            {
                return Some(Found {
                    bucket: choices[role],
                    slot,
                    entry,
                });
            }
        }
        None
    }

    /// Increments the frequency counter of an entry. The first request after the item was restored
    /// from the lower tier (slower storage for evicted items) clears the entry's restored bit
    /// instead. Does nothing if the entry has moved, was changed or was removed since it was read.
    pub(crate) fn count_request(&self, hash: u64, entry: Entry) {
        let more = entry.requested();
        if more == entry {
            return;
        }
        let buckets = self.buckets.load(Ordering::Relaxed);
        let bucket_hash = self.addressing.bucket_hashes(hash).by_role[entry.role()];
        for word in self.bucket(address(bucket_hash, buckets)) {
            if word.load(Ordering::Relaxed) == entry.word() {
                // Relaxed: the new word refers to the same item. The store that published this item
                // begins a release sequence, which a compare-exchange continues.
                let _ = word.compare_exchange(
                    entry.word(),
                    more.word(),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                return;
            }
        }
    }

    /// Prevents other workers from storing items in the shard of this hash until
    /// [`end_rewrite`](Self::end_rewrite). Sets a flag that each worker checks before it links an
    /// item. Between the two calls, the caller holds no lock. Returns false if another worker has
    /// set the flag.
    pub(crate) fn begin_rewrite(&self, hash: u64) -> bool {
        let is_rewriting = &self.shard(hash).is_rewriting;
        // Relaxed: the flag orders nothing. All workers check it under the lock of the shard before
        // they link an item, and the lock orders their changes.
        !is_rewriting.swap(true, Ordering::Relaxed)
    }

    /// Allows other workers to store items in the shard again.
    pub(crate) fn end_rewrite(&self, hash: u64) {
        let is_rewriting = &self.shard(hash).is_rewriting;
        is_rewriting.store(false, Ordering::Relaxed);
    }

    /// Splits a bucket if the load is high, or merges one if it is low. Waits for another thread
    /// that is doing so only if the load is at [`LOAD_URGENT`]. The caller holds no lock.
    pub(crate) fn resize_step(&self) -> ResizeStep {
        let buckets = self.buckets.load(Ordering::Relaxed);
        let is_due = self.load_is_above(buckets, self.load_max) || self.shrinks(buckets);
        if !is_due {
            return ResizeStep::Idle;
        }
        let resizing = if self.load_is_above(buckets, LOAD_URGENT) && self.can_grow() {
            Ok(lock(&self.resizing))
        } else {
            self.resizing.try_lock()
        };
        let Ok(_resizing) = resizing else {
            return ResizeStep::Idle;
        };
        let buckets = self.buckets.load(Ordering::Relaxed);
        if self.load_is_above(buckets, self.load_max) {
            self.split(buckets)
        } else if self.shrinks(buckets) {
            self.merge(buckets)
        } else {
            ResizeStep::Idle
        }
    }

    /// Whether more than `percent` of the slots of this many buckets would be in use.
    fn load_is_above(&self, buckets: u64, percent: u64) -> bool {
        self.len() * 100 > buckets * BUCKET_WORDS as u64 * percent
    }

    fn shrinks(&self, buckets: u64) -> bool {
        buckets > self.buckets_min && self.len() * 100 < buckets * BUCKET_WORDS as u64 * LOAD_MIN
    }

    /// Whether the index has fewer buckets than the memory allows.
    pub(crate) fn can_grow(&self) -> bool {
        self.buckets.load(Ordering::Relaxed) < self.buckets_max
    }

    /// Adds a bucket to the `buckets` buckets in use, and moves the entries that belong there from
    /// its parent bucket. The order of the stores is: the entries to the new bucket, the version,
    /// the number of buckets, 0 to the old words, the version.
    fn split(&self, buckets: u64) -> ResizeStep {
        if buckets == self.buckets_max {
            return ResizeStep::Blocked;
        }
        let parent = addressing::parent(buckets);
        let shard = &self.shards[self.addressing.shard(parent)];
        let _guard = lock(&shard.lock);
        let (from, to) = (self.bucket(parent), self.bucket(buckets));
        let mut moved = [false; BUCKET_WORDS];
        for (at, word) in from.iter().enumerate() {
            let word = word.load(Ordering::Relaxed);
            let Some(entry) = Entry::from_word(word) else {
                continue;
            };
            if address(
                self.bucket_hash_of(parent, entry, entry.role()),
                buckets + 1,
            ) == buckets
            {
                // Release: pairs with the acquire in `scan`. A reader that loaded the number of
                // buckets before an earlier merge may already scan the new bucket. Such a reader
                // sees the complete item.
                to[at].store(word, Ordering::Release);
                moved[at] = true;
            }
        }
        let _moving = MoveGuard::begin(shard);
        self.walk.note_move(buckets);
        // Release: pairs with the acquire in `scan`. A reader that loads this number, and so scans
        // the new bucket, sees the entries in it.
        self.buckets.store(buckets + 1, Ordering::Release);
        for (word, _) in from.iter().zip(moved).filter(|&(_, moved)| moved) {
            // Release: pairs with the acquire in `scan`. A reader that loads the emptied word then
            // sees the changed version and the new number of buckets.
            word.store(0, Ordering::Release);
        }
        ResizeStep::Resized((buckets + 1) * BUCKET_BYTES as u64)
    }

    /// Removes the last of the `buckets` buckets in use. Moves each of its entries to one of the
    /// two buckets that the entry's key has without the last bucket.
    fn merge(&self, buckets: u64) -> ResizeStep {
        let last = buckets - 1;
        let shard = &self.shards[self.addressing.shard(addressing::parent(last))];
        let guard = lock(&shard.lock);
        let from = self.bucket(last);
        let mut targets = [None; BUCKET_WORDS];
        // First find a free slot for every entry. If there is none for an entry, the merge ends and
        // has changed nothing.
        for (at, word) in from.iter().enumerate() {
            let Some(entry) = Entry::from_word(word.load(Ordering::Relaxed)) else {
                continue;
            };
            let roles = [entry.role(), 1 - entry.role()];
            let slots = roles.into_iter().flat_map(|role| {
                let bucket = address(self.bucket_hash_of(last, entry, role), last);
                (0..BUCKET_WORDS).map(move |slot| (bucket, slot, role))
            });
            let mut free = slots.filter(|&(bucket, slot, _)| {
                let is_empty = self.word(bucket, slot).load(Ordering::Relaxed) == 0;
                let is_taken = |target: &Option<Target>| {
                    target.is_some_and(|target| (target.bucket, target.slot) == (bucket, slot))
                };
                is_empty && !targets.iter().any(is_taken)
            });
            match free.next() {
                Some((bucket, slot, role)) => {
                    targets[at] = Some(Target { bucket, slot, role });
                }
                None => return ResizeStep::Blocked,
            }
        }
        let moving = MoveGuard::begin(shard);
        for (at, word) in from.iter().enumerate() {
            let entry = Entry::from_word(word.load(Ordering::Relaxed));
            if let (Some(Target { bucket, slot, role }), Some(entry)) = (targets[at], entry) {
                let entry = entry.with_role(role);
                // Release: pairs with the acquire in `scan`. A reader that finds the entry here
                // sees the complete item.
                self.word(bucket, slot)
                    .store(entry.word(), Ordering::Release);
                // Most entries move to the same bucket. It is noted only once, so that a walk
                // visits it again only once.
                let mut before = targets[..at].iter().flatten();
                if !before.any(|target| target.bucket == bucket) {
                    self.walk.note_move(bucket);
                }
            }
        }
        // Release: pairs with the acquire in `scan`. A reader that loads this number sees the
        // entries in their new slots.
        self.buckets.store(last, Ordering::Release);
        for word in from {
            // Release: pairs with the acquire in `scan`. A reader that loads the emptied word then
            // sees the changed version, the new number of buckets, and the entry in its new slot.
            word.store(0, Ordering::Release);
        }
        drop(moving);
        drop(guard);
        ResizeStep::Resized(last * BUCKET_BYTES as u64)
    }

    /// Returns the first (`role` 0) or second (`role` 1) bucket hash of the key of an entry in
    /// `bucket`. Bucket hashes select buckets (`addressing.rs`).
    fn bucket_hash_of(&self, bucket: u64, entry: Entry, role: usize) -> u64 {
        let hashes = self
            .addressing
            .bucket_hashes_of(bucket, entry.tag(), entry.role());
        hashes.by_role[role]
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[self.addressing.shard(hash)]
    }

    #[inline]
    fn bucket(&self, number: u64) -> &Bucket {
        &self.region.words().as_chunks::<BUCKET_WORDS>().0[number as usize]
    }

    #[inline]
    fn word(&self, bucket: u64, slot: usize) -> &AtomicU64 {
        &self.bucket(bucket)[slot]
    }

    /// Returns the first free slot of a bucket.
    fn first_free(&self, bucket: u64) -> Option<usize> {
        let mut words = self.bucket(bucket).iter();
        words.position(|word| word.load(Ordering::Relaxed) == 0)
    }
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    // No code that holds these locks panics while the state is inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks a move of entries, like the writer of a sequence lock: the version of the shard is
/// incremented when this value is created and again when it is dropped, and is odd between. The
/// caller holds the lock of the shard.
struct MoveGuard<'a>(&'a AtomicU32);

impl<'a> MoveGuard<'a> {
    fn begin(shard: &'a Shard) -> Self {
        // Acquire: the stores of the move, which follow, cannot come before this addition. A reader
        // learns of the addition through the words that the move then empties with release, which
        // pairs with the acquire in `scan` (see `scan_validated`).
        shard.version.fetch_add(1, Ordering::AcqRel);
        Self(&shard.version)
    }
}

impl Drop for MoveGuard<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `scan_validated`. A reader that loads this even
        // version sees the complete move.
        self.0.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod models;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
