//! Where items are: buckets of one cache line, two to choose from, grown one at a time.
//!
//! ```text
//! hash ──► class (low bits) ── one lock and one version for all its buckets
//!   │
//!   ├─ first choice ──► bucket ┐  8 words of 8 bytes: tag, frequency, location
//!   └─ second choice ─► bucket ┘  (`entry.rs`)
//! ```
//!
//! *Linear hashing* (Litwin, VLDB 1980): there are `n` buckets, not a power of two of them; bucket
//! `n - 2^k` is split when the load asks for it, and the last is merged back when it is too low. No
//! step moves more than one bucket. *Two choices* (Azar and others, STOC 1994) fill buckets of
//! eight evenly, although those not yet split would by themselves hold twice what the others hold;
//! where both are full, one of their items moves to its own other choice (a *kick*, as in cuckoo
//! hashing), and where none can, one leaves: this is the index of a cache.
//!
//! Both choices, and the bucket that either is split from, lie in the same *class*: their numbers
//! have the same low bits. So a writer takes one lock, whatever it does.
//!
//! **Readers take no lock.** An entry that moves is written to its new place before it is taken
//! from its old one, so it is always somewhere; a reader that looked here before and there after
//! may still miss it. It then looks again between two readings of the class's version, which every
//! move changes before it takes the entry away. A hit needs no second look.
//!
//! What a location means, and when its memory may be used again, is not known here.

mod addressing;
mod entry;
mod tag_match;
mod writer;

use std::io;
use std::ops::Range;
use std::sync::PoisonError;

use addressing::{BUCKET_WORDS, Shape, address};
pub(crate) use entry::{Entry, Location};
use entry::{key_bits, may_match};
use tag_match::Bucket;
use writer::Target;
pub(crate) use writer::{Found, Inserted, Position, Writer};

use crate::region::Region;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Items in a hundred places from which on a bucket is split. Where a class holds so many more than
/// the average that a search finds none, an item loses its place: the fullest of many does sooner.
const LOAD_MAX: u64 = 80;
/// The same for at most [`CLASSES_FEW`]: a small memory, where bytes count most.
const LOAD_MAX_FEW: u64 = 81;
const CLASSES_FEW: usize = 16;
/// Items in a hundred places below which the last bucket is merged back.
const LOAD_MIN: u64 = 61;
/// Second looks before a reader that keeps being disturbed takes the lock.
const SCANS_MAX: u32 = 4;

/// A bucket's bytes: a cache line. (In models a word is more than a word.)
const BUCKET_BYTES: usize = 64;

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Bucket>() == BUCKET_BYTES);

/// Writers of one class, and whether they have moved entries.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Class {
    lock: Mutex<()>,
    /// Odd while entries move.
    version: AtomicU32,
    /// The last CAS given to an item of this class; changed under the lock.
    cas: AtomicU64,
    /// A worker makes a new value of a present one, and no other may store in this class.
    is_rewriting: AtomicBool,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    region: Region,
    shape: Shape,
    load_max: u64,
    classes: Box<[Class]>,
    buckets: AtomicU64,
    buckets_min: u64,
    buckets_max: u64,
    /// Bytes that the kernel has been asked to find the pages of.
    populated: AtomicU64,
    /// Entries; changed by every insertion, so that it has a line to itself in `Counter`.
    items: Counter,
    resizing: Mutex<()>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Counter(AtomicU64);

/// What a step of growing or shrinking came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is a bucket more, or less: so many bytes of them now.
    Resized(u64),
    /// It has the size it should have, or another thread is at it.
    Still,
    /// It cannot: as many buckets as may, or no room to merge.
    Stuck,
}

impl Index {
    /// An empty index of `classes` (a power of two), each of at least `buckets_a_class` (a power of
    /// two from 2), that may grow to `bytes_max`.
    ///
    /// Keys spread over the classes as chance has it, so that a class has to be large for its load
    /// to be near that of all: with 512 buckets the fullest of 256 has a twentieth more.
    ///
    /// # Errors
    /// The kernel has no room in the address space.
    pub(crate) fn new(
        classes: usize,
        buckets_a_class: usize,
        bytes_max: usize,
    ) -> io::Result<Self> {
        debug_assert!(classes.is_power_of_two() && buckets_a_class.is_power_of_two());
        let least = buckets_a_class * classes;
        let buckets_max = (bytes_max / BUCKET_BYTES).max(least) as u64;
        Ok(Self {
            region: Region::reserve(buckets_max as usize * BUCKET_BYTES)?,
            shape: Shape::new(least.ilog2(), classes.ilog2()),
            load_max: match classes {
                ..=CLASSES_FEW => LOAD_MAX_FEW,
                _ => LOAD_MAX,
            },
            classes: (0..classes).map(|_| Class::default()).collect(),
            buckets: AtomicU64::new(least as u64),
            buckets_min: least as u64,
            buckets_max,
            populated: AtomicU64::new(0),
            items: Counter::default(),
            resizing: Mutex::new(()),
        })
    }

    /// Asks for huge pages from now on. A hint.
    pub(crate) fn advise_huge(&self) {
        self.region.advise_huge();
    }

    /// Asks for no more of them. It calls the kernel.
    pub(crate) fn refuse_huge(&self) {
        self.region.refuse_huge();
    }

    /// Has the kernel find `most` bytes of the pages that the buckets in use and the next `ahead`
    /// bytes of them lie in, once for each page; false: they have been found. It calls the kernel.
    pub(crate) fn populate(&self, ahead: usize, most: usize) -> bool {
        let range = self.next_pages(ahead, most);
        self.region
            .populate(range.start as usize, range.end as usize);
        !range.is_empty()
    }

    /// The bytes to be populated now; they are not again. From the first bucket on: keys lie in all
    /// from the start, and with huge pages the first to come would wait for 2 MiB of zeroes.
    fn next_pages(&self, ahead: usize, most: usize) -> Range<u64> {
        let end = self.buckets_max * BUCKET_BYTES as u64;
        let end = (self.bytes() + ahead as u64).min(end);
        let from = self.populated.load(Ordering::Relaxed);
        let to = end.min(from + most as u64).max(from);
        // Who comes second finds those behind.
        let from = self.populated.fetch_max(to, Ordering::Relaxed);
        from..to.max(from)
    }

    /// Entries.
    pub(crate) fn len(&self) -> u64 {
        self.items.0.load(Ordering::Relaxed)
    }

    /// Bytes of the buckets in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.buckets.load(Ordering::Relaxed) * BUCKET_BYTES as u64
    }

    /// Asks for the memory of both choices of a key.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let buckets = self.buckets.load(Ordering::Relaxed);
        for number in self.shape.numbers(hash).each {
            crate::prefetch::line(std::ptr::from_ref(self.bucket(address(number, buckets))).cast());
        }
    }

    /// Asks for the memory of the lock of a key's class. A hint.
    #[inline]
    pub(crate) fn prefetch_lock(&self, hash: u64) {
        crate::prefetch::line_to_write(std::ptr::from_ref(self.class(hash)).cast());
    }

    /// Asks for the memory of an entry that is to be changed. A hint.
    #[inline]
    pub(crate) fn prefetch_entry(&self, found: &Found) {
        crate::prefetch::line_to_write(std::ptr::from_ref(self.bucket(found.bucket)).cast());
    }

    /// The entry for which `is_it` is true, among those that may be the key's of this hash.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(Entry) -> bool) -> Option<Entry> {
        if let Some(found) = self.scan(hash, &mut is_it) {
            return Some(found.entry);
        }
        self.scan_validated(hash, is_it)
    }

    /// An entry that may be the key's of this hash, which may have been seen at a place before; the
    /// item may be another's: for hints, and for who compares the key later.
    #[inline]
    pub(crate) fn find_candidate(&self, hash: u64, position: Position) -> Option<Found> {
        self.reread(hash, position)
            .or_else(|| self.scan(hash, |_| true))
    }

    /// What lies now where an entry was seen, if it may be the key's of this hash. Whatever lies
    /// somewhere in the index is an entry, in a bucket that was just merged too: one that moves
    /// leads to the same item from here and from there.
    #[inline]
    pub(crate) fn reread(&self, hash: u64, position: Position) -> Option<Found> {
        let words = self.region.words();
        // Acquire: pairs with the release of whoever wrote it, as in `scan`.
        let word = words.get(position.word()?)?.load(Ordering::Acquire);
        let tag = self.shape.numbers(hash).tag;
        let entry = Entry::of_word(word).filter(|entry| entry.tag() == tag)?;
        Some(position.found(entry))
    }

    /// Whether it is really not there.
    fn scan_validated(&self, hash: u64, mut is_it: impl FnMut(Entry) -> bool) -> Option<Entry> {
        let class = self.class(hash);
        for _ in 0..SCANS_MAX {
            // Acquire: pairs with the release in `Moving`: what moved before this is seen below.
            let before = class.version.load(Ordering::Acquire);
            if let Some(found) = self.scan(hash, &mut is_it) {
                return Some(found.entry);
            }
            // The words above were loaded with acquire, which pairs with the release that emptied
            // one: whoever saw that sees the version that the move changed before it.
            let after = class.version.load(Ordering::Acquire);
            if before == after && before.is_multiple_of(2) {
                return None;
            }
        }
        let _guard = lock(&class.lock);
        self.scan(hash, &mut is_it).map(|found| found.entry)
    }

    /// As [`find`](Self::find), in one pass over both choices, which may miss an entry that moves
    /// just now; and where it was seen.
    #[inline]
    pub(crate) fn scan(&self, hash: u64, mut is_it: impl FnMut(Entry) -> bool) -> Option<Found> {
        // Acquire: pairs with the release in `split`.
        let buckets = self.buckets.load(Ordering::Acquire);
        let numbers = self.shape.numbers(hash);
        let choices = numbers.each.map(|number| address(number, buckets));
        let key_bits = [0, 1].map(|role| key_bits(numbers.tag, role));
        let buckets = choices.map(|bucket| self.bucket(bucket));
        // Whoever emptied a word has put its entry elsewhere before (`scan_validated`).
        let mut tag_match = tag_match::positions(buckets, key_bits);
        while tag_match != 0 {
            let position = tag_match.trailing_zeros() as usize;
            tag_match &= tag_match - 1;
            let (role, slot) = (position / BUCKET_WORDS, position % BUCKET_WORDS);
            // Acquire: pairs with the release of whoever wrote it, so that the item it points to is
            // seen whole.
            let word = buckets[role][slot].load(Ordering::Acquire);
            if may_match(word, key_bits[role])
                && let Some(entry) = Entry::of_word(word)
                && is_it(entry)
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

    /// Counts one more request for an entry that was found. It may have moved or gone meanwhile:
    /// then this is forgotten.
    pub(crate) fn count_request(&self, hash: u64, entry: Entry) {
        let more = entry.with_frequency(entry.frequency() + 1);
        if more == entry {
            return;
        }
        let buckets = self.buckets.load(Ordering::Relaxed);
        let number = self.shape.numbers(hash).each[entry.role()];
        for word in self.bucket(address(number, buckets)) {
            if word.load(Ordering::Relaxed) == entry.word() {
                // Relaxed: it publishes nothing that was not published with the entry before.
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

    /// Keeps other writers away from the key of this hash.
    pub(crate) fn lock(&self, hash: u64) -> Writer<'_> {
        let class = self.class(hash);
        Writer::new(self, class, hash, lock(&class.lock))
    }

    /// Keeps all other workers from storing in the class of this hash, without a lock: they look
    /// before they link an item. False: another worker does so already.
    pub(crate) fn begin_rewrite(&self, hash: u64) -> bool {
        let is_rewriting = &self.class(hash).is_rewriting;
        // Relaxed: it orders nothing. Writers look at it under the lock of the class, and so does
        // the one that set it before it links.
        !is_rewriting.swap(true, Ordering::Relaxed)
    }

    /// Lets the others store again.
    pub(crate) fn end_rewrite(&self, hash: u64) {
        let is_rewriting = &self.class(hash).is_rewriting;
        is_rewriting.store(false, Ordering::Relaxed);
    }

    /// Splits a bucket or merges one back if the number of entries asks for it. No lock may be
    /// held.
    pub(crate) fn resize_step(&self) -> Step {
        let buckets = self.buckets.load(Ordering::Relaxed);
        let positions = buckets * BUCKET_WORDS as u64;
        let hundredfold = self.len() * 100;
        let grows = hundredfold > positions * self.load_max;
        let shrinks = hundredfold < positions * LOAD_MIN && buckets > self.buckets_min;
        if !grows && !shrinks {
            return Step::Still;
        }
        let Ok(_resizing) = self.resizing.try_lock() else {
            return Step::Still;
        };
        if buckets != self.buckets.load(Ordering::Relaxed) {
            return Step::Still;
        }
        if grows {
            self.split(buckets)
        } else {
            self.merge(buckets)
        }
    }

    /// Makes bucket `buckets` of what belongs there from now on.
    fn split(&self, buckets: u64) -> Step {
        if buckets == self.buckets_max {
            return Step::Stuck;
        }
        let parent = addressing::parent(buckets);
        let class = &self.classes[self.shape.class(parent)];
        let _guard = lock(&class.lock);
        let (from, to) = (self.bucket(parent), self.bucket(buckets));
        let mut moved = [false; BUCKET_WORDS];
        for (at, word) in from.iter().enumerate() {
            let word = word.load(Ordering::Relaxed);
            let Some(entry) = Entry::of_word(word) else {
                continue;
            };
            if address(self.number_of(parent, entry, entry.role()), buckets + 1) == buckets {
                // Release: pairs with the acquire in `scan`, for one who does because the bucket
                // was in use before.
                to[at].store(word, Ordering::Release);
                moved[at] = true;
            }
        }
        let _moving = Moving::begin(class);
        // Release: pairs with the acquire in `scan`: who addresses the new bucket sees what is in
        // it.
        self.buckets.store(buckets + 1, Ordering::Release);
        for (word, _) in from.iter().zip(moved).filter(|&(_, moved)| moved) {
            // Release: pairs with the acquire in `scan`: who sees it empty sees the new number of
            // buckets, and the version.
            word.store(0, Ordering::Release);
        }
        Step::Resized((buckets + 1) * BUCKET_BYTES as u64)
    }

    /// Puts what is in the last bucket where it belongs without it.
    fn merge(&self, buckets: u64) -> Step {
        let last = buckets - 1;
        let class = &self.classes[self.shape.class(addressing::parent(last))];
        let guard = lock(&class.lock);
        let from = self.bucket(last);
        let mut targets = [None; BUCKET_WORDS];
        // First whether there is room for all: a merge half made cannot be gone back on.
        for (at, word) in from.iter().enumerate() {
            let Some(entry) = Entry::of_word(word.load(Ordering::Relaxed)) else {
                continue;
            };
            let both = [entry.role(), 1 - entry.role()];
            let positions = both.into_iter().flat_map(|role| {
                let bucket = address(self.number_of(last, entry, role), last);
                (0..BUCKET_WORDS).map(move |slot| (bucket, slot, role))
            });
            let mut free = positions.filter(|&(bucket, slot, _)| {
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
                None => return Step::Stuck,
            }
        }
        let moving = Moving::begin(class);
        for (word, target) in from.iter().zip(targets) {
            let entry = Entry::of_word(word.load(Ordering::Relaxed));
            if let (Some(Target { bucket, slot, role }), Some(entry)) = (target, entry) {
                let entry = entry.with_role(role);
                // Release: pairs with the acquire in `scan`, as in `put`.
                self.word(bucket, slot)
                    .store(entry.word(), Ordering::Release);
            }
        }
        // Release: pairs with the acquire in `scan`: who still looks into the last bucket finds its
        // entries there or, emptied, sees this.
        self.buckets.store(last, Ordering::Release);
        for word in from {
            // Release: pairs with the acquire in `scan`, as above.
            word.store(0, Ordering::Release);
        }
        drop(moving);
        drop(guard);
        Step::Resized(last * BUCKET_BYTES as u64)
    }

    /// A number of the key of an entry in `bucket`.
    fn number_of(&self, bucket: u64, entry: Entry, role: usize) -> u64 {
        let numbers = self.shape.numbers_of(bucket, entry.tag(), entry.role());
        numbers.each[role]
    }

    #[inline]
    fn class(&self, hash: u64) -> &Class {
        &self.classes[self.shape.class(hash)]
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
    // Nothing under these locks panics half way; what a panic elsewhere left is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A move of entries: the version is odd until it is over.
struct Moving<'a>(&'a AtomicU32);

impl<'a> Moving<'a> {
    fn begin(class: &'a Class) -> Self {
        // Acquire, so that nothing of the move comes before it. It pairs with `scan_validated` by
        // way of the words that the move empties, which are written with release after it.
        class.version.fetch_add(1, Ordering::AcqRel);
        Self(&class.version)
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `scan_validated`: who reads an even version sees the
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
