//! Saving a tier at an orderly stop, and continuing it at the next start.

use std::io;
use std::path::Path;

use store::{Expiry, TierAddress};

use crate::counters::add;
use crate::record;
use crate::saved::{self, Head};
use crate::tier::Tier;

/// What a stopping server knows and a tier does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// The seed of the hash of keys.
    pub hash_seed: u64,
    /// Second 0 of the server's clock, as Unix time.
    pub epoch_unix_s: u64,
    /// The number of flushes.
    pub generation: u32,
}

/// What a starting server has to use, because a tier was continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Continued {
    /// The seed of the hash of keys.
    pub hash_seed: u64,
    /// The number of current copies.
    pub objects: u64,
}

impl Tier {
    /// Saves the index. All segments must have been written, so call [`Tier::stop`] before and let
    /// the thread that writes end.
    ///
    /// # Errors
    /// A device or the file failed. The next start then finds an empty tier.
    pub fn save(&self, path: &Path, stopped: &Stopped) -> io::Result<()> {
        self.sync()?;
        let head = Head {
            id: self.id,
            hash_seed: stopped.hash_seed,
            epoch_unix_s: stopped.epoch_unix_s,
            segment_bytes: self.segment_bytes as u64,
            slots: u64::from(self.ring.len()),
            next_sequence: u64::from(self.ring.next()),
            greatest_cas: self.greatest_cas_seen(),
        };
        let generation = stopped.generation;
        saved::write_file(path, head, &self.ring, generation, |writer| {
            self.index.for_each(|hash, address, is_fetched| {
                match self.ring.is_of(address.sequence, generation) {
                    true => writer.entry(hash, address, is_fetched),
                    false => Ok(()),
                }
            })
        })
    }

    /// Continues the tier that an earlier process has saved, with this one's rules. Removes the
    /// file first, so that a crash later leaves none. Returns `None` if there is no file, or if it
    /// is damaged or of a tier of another shape; the tier is then empty.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn continue_saved(
        &mut self,
        path: &Path,
        epoch_unix_s: u64,
    ) -> io::Result<Option<Continued>> {
        let Some((reader, head)) = saved::take_file(path)? else {
            return Ok(None);
        };
        let is_same_shape = head.segment_bytes == self.segment_bytes as u64
            && head.slots == u64::from(self.ring.len());
        let (true, Ok(next)) = (is_same_shape, u32::try_from(head.next_sequence)) else {
            return Ok(None);
        };
        // Before the entries, and whatever follows: those of a damaged file stay in the index, and
        // are invalid only because no later segment has the number of theirs.
        self.ring.set_next(next);
        let this: &Self = self;
        let outcome = reader.read_all(
            |sequence| {
                if (1..next).contains(&sequence) {
                    this.ring.restore(sequence);
                }
            },
            |hash, address, is_fetched| {
                if let Some(address) = this.moved_to(address, head.epoch_unix_s, epoch_unix_s) {
                    this.insert(hash, address);
                    if is_fetched {
                        this.index.mark_fetched(hash, address);
                    }
                }
            },
        );
        if outcome.is_err() {
            for (sequence, _) in self.ring.segments() {
                self.count_lost(self.ring.discard(sequence));
            }
            return Ok(None);
        }
        let restored = self.ring.segments().count() as u64;
        add(&self.counters.segments_used, restored);
        self.id = head.id;
        self.note_cas(head.greatest_cas);
        Ok(Some(Continued {
            hash_seed: head.hash_seed,
            objects: self.statistics().objects_used,
        }))
    }

    /// The address with its expiry on another clock. `None` if it is not one of this tier, or if
    /// the item has expired.
    fn moved_to(
        &self,
        address: TierAddress,
        from_unix_s: u64,
        to_unix_s: u64,
    ) -> Option<TierAddress> {
        let end = u64::from(address.offset) + record::padded(address.len as usize) as u64;
        if end > self.segment_bytes as u64 || !self.ring.is_valid(address.sequence) {
            return None;
        }
        let expiry = match address.expiry.seconds_left(0) {
            None => Expiry::NEVER,
            Some(second) => {
                let second = (from_unix_s + u64::from(second)).checked_sub(to_unix_s)?;
                Expiry::at(u32::try_from(second).unwrap_or(u32::MAX))
            }
        };
        (!expiry.is_past(0)).then_some(TierAddress { expiry, ..address })
    }
}
