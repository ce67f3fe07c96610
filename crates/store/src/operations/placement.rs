//! The present item of a key, and the part of the log for a new item: the small part, or the main
//! part for items that were requested again.

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
    /// Returns an index entry with the *tag* of a key, which is a part of the hash, and the item of
    /// this entry. Looks first at the position that `hash` remembers. The item probably has this
    /// key. The caller uses the item as a hint only, or compares the keys later.
    #[inline]
    pub(crate) fn candidate(&self, hash: KeyHash) -> Option<CurrentItem<'_>> {
        let found = self.store.index.find_candidate(hash.0, hash.1)?;
        let block_ref = self.block_ref(found.entry().location());
        Some(CurrentItem { found, block_ref })
    }

    /// Chooses the part for a new value of a key. Under a policy with probation, a key with a
    /// present item stays in the part of that item. A key without an item goes to the main part if
    /// it has a ghost (the remembered hash of an evicted item), and otherwise to the small part.
    /// Under a policy without probation, all values go to the main part. `present` was found by its
    /// tag, without comparing keys. So about once in a million lookups, `present` is the item of
    /// another key. This affects only the choice of the part.
    #[inline]
    pub(crate) fn part_for(&self, present: Option<&CurrentItem<'_>>, hash: KeyHash) -> Part {
        let policy = self.store.log.eviction_policy();
        match present {
            Some(present) if policy.probation => present.block_ref.segment.part(),
            Some(_) => Part::Main,
            // The ghost of an item that is being restored from the tier is ignored.
            None => policy.part_of_new(|| self.restoring.is_none() && self.has_ghost(hash.0)),
        }
    }

    /// Returns true if the hash has a ghost within the ghost window of the current policy.
    pub(crate) fn has_ghost(&self, hash: u64) -> bool {
        let includes_older = self.store.log.eviction_policy().long_ghost_window;
        self.store.ghosts.contains(hash, includes_older)
    }
}
