//! Counts by key prefix, for `stats detail`.
//!
//! The prefix of a key ends before the first delimiter (`-D`, a colon by default). A key without a
//! delimiter is not counted. Each worker has its own table with its own lock. Besides the worker,
//! only commands about statistics take this lock, for some prefixes at a time. Counting is off by
//! default. While it is off,
//! it costs a request only one branch: a request tests whether it has to be counted by prefix or
//! logged for `watch`, with one flag for both.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::{PREFIXES_MAX, PREFIXES_MAX_OF_ALL};

/// A kind of access to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// A read that hit.
    Hit,
    /// A read that missed.
    Miss,
    /// A storage command, whether it stored or not.
    Set,
    /// A delete, whether the key had an item or not.
    Delete,
}

impl Access {
    /// The kind of a read that hit or missed.
    pub(crate) fn of_read(is_hit: bool) -> Self {
        if is_hit { Self::Hit } else { Self::Miss }
    }
}

/// The accesses to the keys of one prefix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrefixCount {
    /// The number of reads.
    pub gets: u64,
    /// The number of reads that hit.
    pub hits: u64,
    /// The number of storage commands.
    pub sets: u64,
    /// The number of deletes.
    pub deletes: u64,
}

/// Counts by prefix, in the order of the prefixes' bytes.
pub type PrefixSums = BTreeMap<Box<[u8]>, PrefixCount>;

/// What the tables of all workers have in common.
#[derive(Debug, Default)]
pub(crate) struct AllPrefixes {
    /// The number of their prefixes.
    len: AtomicUsize,
    /// The number of accesses under prefixes for which there was no space.
    pub(crate) uncounted: AtomicU64,
}

/// The counts by prefix of one worker.
#[derive(Debug, Default)]
pub(crate) struct PrefixCounts {
    delimiter: AtomicU8,
    table: Mutex<PrefixSums>,
    all: Arc<AllPrefixes>,
}

impl PrefixCounts {
    /// Empty counts of a further worker.
    pub(crate) fn new(all: &Arc<AllPrefixes>) -> Self {
        Self {
            all: Arc::clone(all),
            ..Self::default()
        }
    }

    /// Sets the byte that ends a prefix.
    pub(crate) fn set_delimiter(&self, delimiter: u8) {
        self.delimiter.store(delimiter, Ordering::Relaxed);
    }

    /// Counts an access under the prefix of `key`. Does nothing if the key has no delimiter, or if
    /// the prefix is new and there are too many.
    pub(crate) fn count(&self, key: &[u8], access: Access) {
        let delimiter = self.delimiter.load(Ordering::Relaxed);
        let Some(end) = key.iter().position(|&byte| byte == delimiter) else {
            return;
        };
        let mut table = self.table();
        let prefix = &key[..end];
        if !table.contains_key(prefix) {
            let len = self.all.len.load(Ordering::Relaxed);
            if table.len() >= PREFIXES_MAX || len >= PREFIXES_MAX_OF_ALL {
                self.all.uncounted.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // Other workers may add one at the same time, so the bound may be exceeded by as many.
            self.all.len.fetch_add(1, Ordering::Relaxed);
            table.insert(prefix.into(), PrefixCount::default());
        }
        let Some(count) = table.get_mut(prefix) else {
            return;
        };
        match access {
            Access::Hit => {
                count.gets += 1;
                count.hits += 1;
            }
            Access::Miss => count.gets += 1,
            Access::Set => count.sets += 1,
            Access::Delete => count.deletes += 1,
        }
    }

    /// Adds the counts of the first `max` prefixes after `after` to `sums`.
    pub(crate) fn add_to(&self, after: Option<&[u8]>, max: usize, sums: &mut PrefixSums) {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let table = self.table();
        for (prefix, count) in table.range::<[u8], _>((start, Bound::Unbounded)).take(max) {
            let sum = sums.entry(prefix.clone()).or_default();
            sum.gets += count.gets;
            sum.hits += count.hits;
            sum.sets += count.sets;
            sum.deletes += count.deletes;
        }
    }

    /// Removes all prefixes and returns them. It takes milliseconds to drop many.
    #[must_use]
    pub(crate) fn clear(&self) -> PrefixSums {
        let old = std::mem::take(&mut *self.table());
        self.all.len.fetch_sub(old.len(), Ordering::Relaxed);
        old
    }

    fn table(&self) -> MutexGuard<'_, PrefixSums> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(counts: &PrefixCounts) -> Vec<(String, PrefixCount)> {
        let mut sums = PrefixSums::new();
        counts.add_to(None, usize::MAX, &mut sums);
        let text = |prefix: &[u8]| String::from_utf8_lossy(prefix).into_owned();
        sums.iter()
            .map(|(prefix, count)| (text(prefix), *count))
            .collect()
    }

    #[test]
    fn accesses_are_counted_by_the_prefix_of_their_key() {
        let counts = PrefixCounts::default();
        counts.set_delimiter(b':');
        counts.count(b"a:1", Access::Hit);
        counts.count(b"a:2:3", Access::Miss);
        counts.count(b":4", Access::Set);
        counts.count(b"none", Access::Set);
        counts.count(b"a:", Access::Delete);
        let a = PrefixCount {
            gets: 2,
            hits: 1,
            sets: 0,
            deletes: 1,
        };
        // The prefix of `:4` is empty.
        let empty = PrefixCount {
            sets: 1,
            ..PrefixCount::default()
        };
        assert_eq!(sums(&counts), [(String::new(), empty), ("a".to_owned(), a)]);
        drop(counts.clear());
        assert_eq!(sums(&counts), []);
    }

    #[test]
    fn prefixes_beyond_the_maximum_are_not_counted() {
        let counts = PrefixCounts::default();
        counts.set_delimiter(b'/');
        for number in 0..PREFIXES_MAX + 10 {
            counts.count(format!("{number}/").as_bytes(), Access::Set);
        }
        assert_eq!(sums(&counts).len(), PREFIXES_MAX);
        counts.count(b"0/", Access::Set);
        let zero = sums(&counts).into_iter().find(|(prefix, _)| prefix == "0");
        assert_eq!(
            zero.map(|(_, count)| count.sets),
            Some(2),
            "a known prefix is still counted"
        );
        assert_eq!(counts.all.len.load(Ordering::Relaxed), PREFIXES_MAX);
        assert_eq!(counts.all.uncounted.load(Ordering::Relaxed), 10);
        drop(counts.clear());
        assert_eq!(counts.all.len.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn all_workers_together_have_a_maximum() {
        let all = Arc::default();
        let workers: Vec<_> = (0..6).map(|_| PrefixCounts::new(&all)).collect();
        let mut sums = PrefixSums::new();
        for (worker, counts) in workers.iter().enumerate() {
            counts.set_delimiter(b'/');
            for number in 0..PREFIXES_MAX {
                counts.count(format!("{worker} {number}/").as_bytes(), Access::Set);
            }
            counts.add_to(None, usize::MAX, &mut sums);
        }
        assert_eq!(sums.len(), PREFIXES_MAX_OF_ALL);
    }
}
