//! Positions of entries in the index.

use super::addressing::BUCKET_WORDS;
use super::entry::Entry;

/// A free slot for the entry of a key. `role` is 0 if the slot is in the first of the key's two
/// buckets, and 1 if it is in the second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) bucket: u64,
    pub(super) slot: usize,
    pub(super) role: usize,
}

/// An entry that a lookup has found, as it was at that time, and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(super) bucket: u64,
    pub(super) slot: usize,
    pub(super) entry: Entry,
}

/// The position of an entry in the index, remembered for a later lookup. The default value means
/// "no position".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position(
    /// Index of the entry's word among all words, plus one. 0: no position.
    usize,
);

impl Position {
    /// Returns the index of the entry's word. `None` for "no position".
    #[inline]
    pub(super) fn word_index(self) -> Option<usize> {
        self.0.checked_sub(1)
    }

    /// Combines `entry` with this position, which must not be "no position".
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
    /// Returns the position of the entry.
    #[inline]
    pub(crate) fn position(&self) -> Position {
        Position(self.bucket as usize * BUCKET_WORDS + self.slot + 1)
    }

    /// Returns the entry as it was when the lookup found it.
    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }
}
