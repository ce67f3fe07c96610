//! Restoring an item to memory from the tier, the storage below the store (`lower_tier.rs`).

use crate::lower_tier::{TierAddress, TierItem};
use crate::operations::request::{Mode, Published, Write};
use crate::rejected::Rejected;
use crate::worker::tier::Restoring;
use crate::worker::{KeyHash, Worker};

impl Worker {
    /// Whether the key has an item in memory, which may have expired.
    #[must_use]
    pub fn is_in_memory(&self, key: &[u8], hash: KeyHash) -> bool {
        self.ensure_online();
        let has_key = |entry| self.has_key(entry, key);
        self.store.index.find(hash.0, has_key).is_some()
    }

    /// Writes an item from its copy in the tier back into memory. Does nothing and returns false if
    /// the copy at `address` is not the key's current one any more, or if the key has an item in
    /// memory. The copy stays current.
    ///
    /// The item is stored where new items are: in the small part of the log (`Part::Small`), unless
    /// the eviction policy has none. If the item is requested there, eviction keeps it in memory.
    ///
    /// # Errors
    /// Those of [`Worker::put`], and [`Rejected::NoMemory`] if the index or the memory is full.
    pub fn restore(
        &mut self,
        item: &TierItem<'_>,
        hash: KeyHash,
        value: &[u8],
        address: TierAddress,
        now_s: u32,
    ) -> Result<bool, Rejected> {
        let write = Write {
            flags: item.flags,
            explicit_cas: Some(item.cas),
            claimed: item.marks.claimed,
            base64_key: item.marks.base64_key,
            ..Write::plain(Mode::Add, address.expiry)
        };
        self.restoring = Some(Restoring {
            address,
            marks: item.marks,
            is_fetched: item.is_fetched,
        });
        let put = self.put(item.key, hash, value, &write, now_s);
        self.restoring = None;
        match put? {
            Published::Stored { .. } => Ok(true),
            Published::NoSpace => Err(Rejected::NoMemory),
            Published::NotStored | Published::Exists | Published::NotFound => Ok(false),
        }
    }
}
