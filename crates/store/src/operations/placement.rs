//! The present item of a key, and the part of the log for a new one.

use crate::eviction_policy::Part;
use crate::heap::BlockRef;
use crate::index::Found;
use crate::worker::{KeyHash, Worker};

/// The index entry of a key and the item to which it refers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurrentItem<'s> {
    pub(crate) found: Found,
    pub(crate) block_ref: BlockRef<'s>,
}

impl Worker {
    /// Returns an entry with the tag of a key, and its item. The item probably has this key. The
    /// caller uses it as a hint only, or compares the key later.
    #[inline]
    pub(crate) fn candidate(&self, hash: KeyHash) -> Option<CurrentItem<'_>> {
        let found = self.store.index.find_candidate(hash.0, hash.1)?;
        let block_ref = self.block_ref(found.entry().location());
        Some(CurrentItem { found, block_ref })
    }

    /// Chooses the part for a new value of a key. A key with a present item stays in the part of
    /// that item. A new key goes to the main part if it has a ghost, and otherwise to the small
    /// part. `present` was found by its tag, without comparing keys. About once in a million
    /// lookups it belongs to another key. This affects nothing but the choice of the part.
    #[inline]
    pub(crate) fn part_for(&self, present: Option<&CurrentItem<'_>>, hash: KeyHash) -> Part {
        let policy = self.store.log.eviction_policy();
        match present {
            Some(present) if policy.probation => present.block_ref.segment.part(),
            Some(_) => Part::Main,
            None => policy.part_of_new(|| self.restoring.is_none() && self.has_ghost(hash.0)),
        }
    }

    /// Returns true if the hash has a ghost within the ghost window of the current policy.
    pub(crate) fn has_ghost(&self, hash: u64) -> bool {
        let includes_older = self.store.log.eviction_policy().long_ghost_window;
        self.store.ghosts.contains(hash, includes_older)
    }
}
