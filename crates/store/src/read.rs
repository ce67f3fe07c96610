//! Reading.

use crate::item::{Expiry, Item};
use crate::worker::{KeyHash, Worker};

/// How a read leaves the item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Read {
    /// Give it this expiry (get and touch).
    pub touch: Option<Expiry>,
    /// If it is stale, take or lose the right to make it anew.
    pub claim: bool,
    /// Leave it as unread and as old as it is.
    pub unnoticed: bool,
}

/// Why a read has nothing to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// No item has the key.
    Absent,
    /// It expired, and this read found it first.
    Expired,
    /// It was flushed, and this read found it first.
    Flushed,
}

impl Worker {
    /// Shows the item of `key` to `visit`, which runs at most once, must be short, and must not
    /// call the store again. A visit that comes to nothing (none) leaves the item as it was: the
    /// read will be made again.
    ///
    /// # Errors
    /// There is nothing to show.
    pub fn read<R>(
        &self,
        key: &[u8],
        hash: KeyHash,
        now_s: u32,
        how: Read,
        visit: impl FnOnce(&Item<'_>) -> Option<R>,
    ) -> Result<Option<R>, Miss> {
        let ledger = self.ledger();
        let (mut shard, index) = self.find_live(key, hash, now_s)?;
        let slot = shard.slot_mut(index);
        let won = how.claim && slot.stale && !slot.claimed;
        let Some(block) = slot.block.as_ref() else {
            return Err(Miss::Absent);
        };
        let item = Item {
            flags: slot.flags,
            cas: slot.cas,
            expiry: slot.expiry,
            last_access_s: slot.last_access_s,
            fetched: slot.fetched,
            stale: slot.stale,
            won,
            claimed: slot.claimed,
            block,
            ledger,
        };
        let Some(answer) = visit(&item) else {
            return Ok(None);
        };
        slot.claimed |= won;
        if let Some(expiry) = how.touch {
            slot.expiry = expiry;
        }
        if !how.unnoticed {
            shard.touch(index, now_s);
        }
        Ok(Some(answer))
    }

    /// Gives an item a new expiry; false where there is none.
    pub fn touch(&self, key: &[u8], hash: KeyHash, expiry: Expiry, now_s: u32) -> bool {
        let how = Read {
            touch: Some(expiry),
            ..Read::default()
        };
        self.read(key, hash, now_s, how, |_| Some(())).is_ok()
    }
}
