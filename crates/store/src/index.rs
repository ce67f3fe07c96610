//! The index: buckets of one cache line, two choices per key, grown one bucket at a time.
//!
//! ```text
//! hash ──► class (low bits) ── one lock and one version for all its buckets
//!   │
//!   ├─ first choice ──► bucket ┐  8 words of 8 bytes: tag, frequency, location
//!   └─ second choice ─► bucket ┘  (`entry.rs`)
//! ```
//!
//! *Linear hashing* (Litwin, VLDB 1980): the number of buckets `n` need not be a power of two. When
//! the load is high, bucket `n - 2^k` is split; when it is low, the last bucket is merged back. A
//! step moves at most one bucket. *Two choices* (Azar et al., STOC 1994) fill the buckets evenly,
//! although buckets not yet split would otherwise hold twice as many entries. If both buckets of a
//! key are full, one of their entries moves to its own other bucket (a *kick*, as in cuckoo
//! hashing). If no entry can move, one is displaced, since this is the index of a cache.
//!
//! Both buckets of a key, and the buckets they are split from, belong to the same *class*: their
//! numbers have the same low bits. So a writer takes only one lock.
//!
//! **Readers take no lock.** A moving entry is written to its new slot before it is removed from
//! the old one, so at any moment at least one slot contains it. A reader misses it if it scans the
//! new slot before the move and the old slot after the move. After a miss, a reader therefore scans
//! again between two reads of the class's version, which every move changes before it removes the
//! entry. A hit needs no second scan.
//!
//! The distinct lookups:
//!
//! | verb | result |
//! |---|---|
//! | `find` | the entry for which a predicate holds; reliable during moves |
//! | `scan` | one pass over both buckets; may miss a moving entry |
//! | `scan_validated` | repeated passes, validated by the version of the class |
//! | `find_candidate` | an entry with the key's tag, possibly of another key: a hint |
//! | `reread` | the entry at a remembered position, if it has the key's tag |
//! | `Writer::revalidate` | an entry found before the lock was taken, if it is unchanged |
//!
//! The index does not interpret locations and does not know when their memory is reused.

mod addressing;
mod entry;
mod tag_match;
mod writer;

use std::io;
use std::ops::Range;
use std::sync::PoisonError;

use addressing::{Addressing, BUCKET_WORDS, address};
pub(crate) use entry::{Entry, Location};
use entry::{key_bits, may_match};
use tag_match::Bucket;
use writer::Target;
pub(crate) use writer::{Found, Inserted, Position, Writer};

use crate::region::Region;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Load in percent above which a bucket is split. If a class is so much fuller than the average
/// that a search finds no free slot, an item is displaced. A higher value would make that more
/// likely.
const LOAD_MAX: u64 = 80;
/// As [`LOAD_MAX`], for at most [`CLASSES_FEW`] classes: in a small memory, bytes matter most.
const LOAD_MAX_FEW: u64 = 81;
const CLASSES_FEW: usize = 16;
/// Load in percent below which the last bucket is merged back.
const LOAD_MIN: u64 = 61;
/// Maximum number of validated scans, each repeated because of concurrent moves, before a reader
/// takes the lock.
const SCANS_MAX: u32 = 4;

/// Size of a bucket: a cache line. (In models a word is larger.)
const BUCKET_BYTES: usize = 64;

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Bucket>() == BUCKET_BYTES);

/// The state of a class.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Class {
    lock: Mutex<()>,
    /// The version. Odd while entries move.
    version: AtomicU32,
    /// The last CAS assigned in this class. Changed under the lock.
    cas: AtomicU64,
    /// A worker is rewriting an item, and no other may store in this class.
    is_rewriting: AtomicBool,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    region: Region,
    addressing: Addressing,
    load_max: u64,
    classes: Box<[Class]>,
    buckets: AtomicU64,
    buckets_min: u64,
    buckets_max: u64,
    /// Number of bytes, from the first bucket, that were populated.
    populated: AtomicU64,
    /// Number of entries. Every insertion changes it, so it has a cache line of its own.
    items: PaddedCounter,
    resizing: Mutex<()>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct PaddedCounter(AtomicU64);

/// The result of a resize step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResizeStep {
    /// A bucket was added or removed. The new size of all buckets in bytes.
    Resized(u64),
    /// No resizing is needed, or another thread is resizing.
    Idle,
    /// Resizing is needed but impossible: the maximum is reached, or a merge finds no space.
    Blocked,
}

impl Index {
    /// Creates an empty index of `classes` classes (a power of two), each with at least
    /// `buckets_per_class` buckets (a power of two from 2), that grows to at most `bytes_max`.
    ///
    /// The hash assigns keys to classes at random, so the load of a class is near the average only
    /// if the class is large: with 512 buckets, the fullest of 256 classes has 5 % more entries
    /// than the average.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub(crate) fn new(
        classes: usize,
        buckets_per_class: usize,
        bytes_max: usize,
    ) -> io::Result<Self> {
        debug_assert!(classes.is_power_of_two() && buckets_per_class.is_power_of_two());
        let least = buckets_per_class * classes;
        let buckets_max = (bytes_max / BUCKET_BYTES).max(least) as u64;
        Ok(Self {
            region: Region::reserve(buckets_max as usize * BUCKET_BYTES)?,
            addressing: Addressing::new(least.ilog2(), classes.ilog2()),
            load_max: match classes {
                ..=CLASSES_FEW => LOAD_MAX_FEW,
                _ => LOAD_MAX,
            },
            classes: (0..classes).map(|_| Class::default()).collect(),
            buckets: AtomicU64::new(least as u64),
            buckets_min: least as u64,
            buckets_max,
            populated: AtomicU64::new(0),
            items: PaddedCounter::default(),
            resizing: Mutex::new(()),
        })
    }

    /// Requests huge pages. A hint.
    pub(crate) fn advise_huge(&self) {
        self.region.advise_huge();
    }

    /// Stops requesting huge pages. Makes a system call.
    pub(crate) fn disable_huge(&self) {
        self.region.disable_huge();
    }

    /// Populates up to `len_max` bytes of the buckets in use and the `ahead_bytes` behind them,
    /// once per page. Returns false if all are populated. Makes a system call.
    pub(crate) fn populate(&self, ahead_bytes: usize, len_max: usize) -> bool {
        let range = self.next_pages(ahead_bytes, len_max);
        self.region
            .populate(range.start as usize, range.end as usize);
        !range.is_empty()
    }

    /// The next bytes to populate; each range is returned once. The first range begins with the
    /// first bucket: keys are in all buckets from the start, and with huge pages the first accesses
    /// would wait for 2 MiB to be zeroed.
    fn next_pages(&self, ahead_bytes: usize, len_max: usize) -> Range<u64> {
        let region_end = self.buckets_max * BUCKET_BYTES as u64;
        let needed_end = (self.bytes() + ahead_bytes as u64).min(region_end);
        let start = self.populated.load(Ordering::Relaxed);
        let end = needed_end.min(start + len_max as u64).max(start);
        // A concurrent caller gets the next range.
        let start = self.populated.fetch_max(end, Ordering::Relaxed);
        start..end.max(start)
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.items.0.load(Ordering::Relaxed)
    }

    /// Bytes of the buckets in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.buckets.load(Ordering::Relaxed) * BUCKET_BYTES as u64
    }

    /// Prefetches both buckets of a key. A hint.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let buckets = self.buckets.load(Ordering::Relaxed);
        for number in self.addressing.bucket_hashes(hash).by_role {
            crate::prefetch::line(std::ptr::from_ref(self.bucket(address(number, buckets))).cast());
        }
    }

    /// Prefetches the lock of a key's class. A hint.
    #[inline]
    pub(crate) fn prefetch_lock(&self, hash: u64) {
        crate::prefetch::line_to_write(std::ptr::from_ref(self.class(hash)).cast());
    }

    /// Prefetches an entry that is about to be changed. A hint.
    #[inline]
    pub(crate) fn prefetch_entry(&self, found: &Found) {
        crate::prefetch::line_to_write(std::ptr::from_ref(self.bucket(found.bucket)).cast());
    }

    /// Returns the entry for which `matches` is true, among those with the key's tag.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut matches: impl FnMut(Entry) -> bool) -> Option<Entry> {
        if let Some(found) = self.scan(hash, &mut matches) {
            return Some(found.entry);
        }
        self.scan_validated(hash, matches)
    }

    /// Returns an entry with the key's tag, preferably at a remembered position. Its item may
    /// belong to another key: use it as a hint, or compare the key later.
    #[inline]
    pub(crate) fn find_candidate(&self, hash: u64, position: Position) -> Option<Found> {
        self.reread(hash, position)
            .or_else(|| self.scan(hash, |_| true))
    }

    /// Returns the entry now at a remembered position, if it has the key's tag. Every word of the
    /// index is a valid entry, even in a bucket that was just merged: a moving entry refers to the
    /// same item in both slots.
    #[inline]
    pub(crate) fn reread(&self, hash: u64, position: Position) -> Option<Found> {
        let words = self.region.words();
        // Acquire: pairs with the release of the writer of the entry, as in `scan`.
        let word = words.get(position.word()?)?.load(Ordering::Acquire);
        let tag = self.addressing.bucket_hashes(hash).tag;
        let entry = Entry::from_word(word).filter(|entry| entry.tag() == tag)?;
        Some(position.found(entry))
    }

    /// As [`find`](Self::find), after a scan that missed: repeats the scan until no move
    /// interferes.
    fn scan_validated(&self, hash: u64, mut matches: impl FnMut(Entry) -> bool) -> Option<Entry> {
        let class = self.class(hash);
        for _ in 0..SCANS_MAX {
            // Acquire: pairs with the release in `Moving`: the scan below sees moves that were
            // completed before this load.
            let before = class.version.load(Ordering::Acquire);
            if let Some(found) = self.scan(hash, &mut matches) {
                return Some(found.entry);
            }
            // The words above were loaded with acquire, which pairs with the release that emptied
            // one of them: a reader of an emptied word sees the version that the move changed
            // before.
            let after = class.version.load(Ordering::Acquire);
            if before == after && before.is_multiple_of(2) {
                return None;
            }
        }
        let _guard = lock(&class.lock);
        self.scan(hash, &mut matches).map(|found| found.entry)
    }

    /// As [`find`](Self::find), in one pass over both buckets. May miss an entry that is moving.
    /// Returns its position too.
    #[inline]
    pub(crate) fn scan(&self, hash: u64, mut matches: impl FnMut(Entry) -> bool) -> Option<Found> {
        // Acquire: pairs with the release in `split`.
        let buckets = self.buckets.load(Ordering::Acquire);
        let hashes = self.addressing.bucket_hashes(hash);
        let choices = hashes.by_role.map(|number| address(number, buckets));
        let key_bits = [0, 1].map(|role| key_bits(hashes.tag, role));
        let buckets = choices.map(|bucket| self.bucket(bucket));
        // An entry is copied before its old word is emptied (`scan_validated`).
        let mut tag_match = tag_match::matching_slots(buckets, key_bits);
        while tag_match != 0 {
            let position = tag_match.trailing_zeros() as usize;
            tag_match &= tag_match - 1;
            let (role, slot) = (position / BUCKET_WORDS, position % BUCKET_WORDS);
            // Acquire: pairs with the release of the entry's writer, so that the whole item is
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

    /// Counts a request for an entry. If the entry has moved or was removed, the count is lost.
    pub(crate) fn count_request(&self, hash: u64, entry: Entry) {
        let more = entry.with_frequency(entry.frequency() + 1);
        if more == entry {
            return;
        }
        let buckets = self.buckets.load(Ordering::Relaxed);
        let number = self.addressing.bucket_hashes(hash).by_role[entry.role()];
        for word in self.bucket(address(number, buckets)) {
            if word.load(Ordering::Relaxed) == entry.word() {
                // Relaxed: the store publishes nothing beyond what was published with the entry.
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

    /// Locks the class of this hash for writing.
    pub(crate) fn lock(&self, hash: u64) -> Writer<'_> {
        let class = self.class(hash);
        Writer::new(self, class, hash, lock(&class.lock))
    }

    /// Prevents other workers from storing in the class of this hash: sets a flag that they check
    /// before they link an item, and holds no lock. Returns false if another worker has set the
    /// flag.
    pub(crate) fn begin_rewrite(&self, hash: u64) -> bool {
        let is_rewriting = &self.class(hash).is_rewriting;
        // Relaxed: no ordering is needed. All writers, and the worker that set the flag, read it
        // under the lock of the class before they link.
        !is_rewriting.swap(true, Ordering::Relaxed)
    }

    /// Allows other workers to store in the class again.
    pub(crate) fn end_rewrite(&self, hash: u64) {
        let is_rewriting = &self.class(hash).is_rewriting;
        is_rewriting.store(false, Ordering::Relaxed);
    }

    /// Splits or merges a bucket if the number of entries requires it. The caller holds no lock.
    pub(crate) fn resize_step(&self) -> ResizeStep {
        let buckets = self.buckets.load(Ordering::Relaxed);
        let slots = buckets * BUCKET_WORDS as u64;
        let load_times_100 = self.len() * 100;
        let grows = load_times_100 > slots * self.load_max;
        let shrinks = load_times_100 < slots * LOAD_MIN && buckets > self.buckets_min;
        if !grows && !shrinks {
            return ResizeStep::Idle;
        }
        let Ok(_resizing) = self.resizing.try_lock() else {
            return ResizeStep::Idle;
        };
        if buckets != self.buckets.load(Ordering::Relaxed) {
            return ResizeStep::Idle;
        }
        if grows {
            self.split(buckets)
        } else {
            self.merge(buckets)
        }
    }

    /// Creates bucket `buckets` from the entries that belong there.
    fn split(&self, buckets: u64) -> ResizeStep {
        if buckets == self.buckets_max {
            return ResizeStep::Blocked;
        }
        let parent = addressing::parent(buckets);
        let class = &self.classes[self.addressing.class(parent)];
        let _guard = lock(&class.lock);
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
                // Release: pairs with the acquire in `scan`, for a reader to which the bucket was
                // in use before.
                to[at].store(word, Ordering::Release);
                moved[at] = true;
            }
        }
        let _moving = Moving::begin(class);
        // Release: pairs with the acquire in `scan`: a reader that addresses the new bucket sees
        // its content.
        self.buckets.store(buckets + 1, Ordering::Release);
        for (word, _) in from.iter().zip(moved).filter(|&(_, moved)| moved) {
            // Release: pairs with the acquire in `scan`: a reader of the emptied word sees the new
            // number of buckets, and the version.
            word.store(0, Ordering::Release);
        }
        ResizeStep::Resized((buckets + 1) * BUCKET_BYTES as u64)
    }

    /// Removes the last bucket: moves its entries to the buckets that their numbers then select.
    fn merge(&self, buckets: u64) -> ResizeStep {
        let last = buckets - 1;
        let class = &self.classes[self.addressing.class(addressing::parent(last))];
        let guard = lock(&class.lock);
        let from = self.bucket(last);
        let mut targets = [None; BUCKET_WORDS];
        // First check that there is space for all: a partial merge cannot be undone.
        for (at, word) in from.iter().enumerate() {
            let Some(entry) = Entry::from_word(word.load(Ordering::Relaxed)) else {
                continue;
            };
            let both = [entry.role(), 1 - entry.role()];
            let slots = both.into_iter().flat_map(|role| {
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
        let moving = Moving::begin(class);
        for (word, target) in from.iter().zip(targets) {
            let entry = Entry::from_word(word.load(Ordering::Relaxed));
            if let (Some(Target { bucket, slot, role }), Some(entry)) = (target, entry) {
                let entry = entry.with_role(role);
                // Release: pairs with the acquire in `scan`, as in `put`.
                self.word(bucket, slot)
                    .store(entry.word(), Ordering::Release);
            }
        }
        // Release: pairs with the acquire in `scan`: a reader that still scans the last bucket
        // finds its entries there or, if emptied, sees this number.
        self.buckets.store(last, Ordering::Release);
        for word in from {
            // Release: pairs with the acquire in `scan`, as above.
            word.store(0, Ordering::Release);
        }
        drop(moving);
        drop(guard);
        ResizeStep::Resized(last * BUCKET_BYTES as u64)
    }

    /// The first or second number (`role`) of the key of an entry in `bucket`.
    fn bucket_hash_of(&self, bucket: u64, entry: Entry, role: usize) -> u64 {
        let hashes = self
            .addressing
            .bucket_hashes_of(bucket, entry.tag(), entry.role());
        hashes.by_role[role]
    }

    #[inline]
    fn class(&self, hash: u64) -> &Class {
        &self.classes[self.addressing.class(hash)]
    }

    #[inline]
    fn bucket(&self, number: u64) -> &Bucket {
        &self.region.words().as_chunks::<BUCKET_WORDS>().0[number as usize]
    }

    #[inline]
    fn word(&self, bucket: u64, slot: usize) -> &AtomicU64 {
        &self.bucket(bucket)[slot]
    }

    fn first_free(&self, bucket: u64) -> Option<usize> {
        let mut words = self.bucket(bucket).iter();
        words.position(|word| word.load(Ordering::Relaxed) == 0)
    }
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    // No code that holds these locks panics while the state is inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A move of entries. The version of the class is odd until this value is dropped.
struct Moving<'a>(&'a AtomicU32);

impl<'a> Moving<'a> {
    fn begin(class: &'a Class) -> Self {
        // Acquire, so that no part of the move comes before this addition. It pairs with
        // `scan_validated` through the words that the move empties, with release, afterwards.
        class.version.fetch_add(1, Ordering::AcqRel);
        Self(&class.version)
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `scan_validated`: a reader of an even version sees the
        // whole move.
        self.0.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod models;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
