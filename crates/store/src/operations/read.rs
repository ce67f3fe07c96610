//! Reads of items, with two optional effects. A *touch* sets the expiry of the item. A *claim*
//! marks the item, so that only one of several clients renews the value.

use std::cell::RefCell;

use crate::expiry::Expiry;
use crate::heap::Location;
use crate::heap::block::Block;
use crate::index::Entry;
use crate::limits::{COPIED_UNDER_LOCK_MAX, TOUCH_MOVES_MAX};
use crate::log::draft::Draft;
use crate::miniature::SampledAccess;
use crate::miss::Miss;
use crate::operations::item::Item;
use crate::operations::pin::Pin;
use crate::rejected::Rejected;
use crate::statistics::size_class::{ItemSize, SizeClass};
use crate::worker::{KeyHash, Worker};

/// The effects of a read on the item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Read {
    /// Set this expiry (get-and-touch). If the item's block has no word for an expiry, the item is
    /// moved to a block that has one. If no memory is free for the new block yet, the read is
    /// deferred. If no memory will become free, the item is returned and then evicted.
    pub touch: Option<Expiry>,
    /// Claim the item if it is stale. The first read that claims it wins ([`Item::won`]).
    pub claim: bool,
    /// Also claim an item that is not stale, under this condition.
    pub recache: Recache,
    /// Do not record the access: keep the access time and the frequency counter, and pass no sample
    /// to the miniatures.
    pub untracked: bool,
    /// The caller's `visit` pins a value that is longer than this number of bytes. `None`: `visit`
    /// pins no value. A read that touches or claims the item takes the pin for `visit` before it
    /// changes the item. So the item is unchanged if no pin is available.
    pub pin_if_longer_than: Option<usize>,
    /// Whether a value that cannot be pinned may be copied instead. A read that touches or claims
    /// the item copies only a short one, because it does so under a lock.
    pub may_copy: bool,
}

/// When a read claims an item that is not stale.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recache {
    /// Claim only stale items.
    #[default]
    Never,
    /// Also claim the item if it expires before this second. An item without expiry is not claimed.
    Before(Expiry),
    /// Always claim the item.
    Always,
}

impl Recache {
    /// Whether a read with this condition claims the item of `block`, stale or not.
    #[inline]
    fn is_due(self, block: Block<'_>) -> bool {
        match self {
            Self::Never => false,
            Self::Before(second) => block.expiry() != Expiry::NEVER && block.expiry() < second,
            Self::Always => true,
        }
    }
}

impl Worker {
    /// Passes the item of `key` to `visit`, which runs at most once, after all locks are released.
    ///
    /// Returns the result of `visit`. `None` means that the caller has to repeat the read later,
    /// for one of four reasons:
    ///
    /// - `visit` returned `None`. If the read has touched or claimed the item before `visit` ran,
    ///   this is not undone.
    /// - The read needs a pin before it may change the item, and none is available
    ///   ([`Read::pin_if_longer_than`]).
    /// - A touch has to wait for memory ([`Rejected::Deferred`]).
    /// - A touch has to move the item to another block, and other workers have replaced the item
    ///   each time.
    ///
    /// # Errors
    /// The reason for the miss, if the key has no valid item.
    pub fn read<R>(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        now_s: u32,
        options: Read,
        visit: impl FnOnce(&Item<'_>) -> Option<R>,
    ) -> Result<Option<R>, Miss> {
        self.ensure_online();
        let Some(entry) = self.find(key, hash) else {
            self.sample_miss(hash, now_s, options);
            return Err(Miss::Absent);
        };
        let location = entry.location();
        let block = self.block(location);
        if let Some(miss) = self.miss_reason(location, block, now_s) {
            // Of several concurrent readers only one unlinks the item and reports why. The others
            // report that the item is absent.
            let is_first = self.unlink_expired(hash.0, location, now_s);
            self.sample_miss(hash, now_s, options);
            return Err(if is_first { miss } else { Miss::Absent });
        }
        let access = block.access();
        let is_claim = options.claim && access.is_stale() || options.recache.is_due(block);
        let (entry, mut item) = if options.touch.is_some() || is_claim {
            match self.find_and_change(key, hash, now_s, options)? {
                Some(changed) => changed,
                None => return Ok(None),
            }
        } else {
            (entry, self.item(location, block, false, now_s))
        };
        item.may_copy = options.may_copy;
        // The only call of `visit`, so that the compiler inlines it.
        let answer = visit(&item);
        drop(item);
        if answer.is_some() && !options.untracked {
            let block = self.block(entry.location());
            self.record_access(hash, entry, block, true, now_s);
        }
        Ok(answer)
    }

    /// Returns the index entry of a key. Tries the position remembered in `hash` first, and
    /// searches the buckets of the key if that fails.
    #[inline]
    fn find(&self, key: &[u8], hash: KeyHash) -> Option<Entry> {
        let index = &self.store.index;
        let remembered = index.reread(hash.0, hash.1).map(|found| found.entry());
        remembered
            .filter(|&entry| self.has_key(entry, key))
            .or_else(|| {
                index.find(hash.0, |entry| {
                    self.store.log.heap.prefetch_rest(entry.location());
                    self.has_key(entry, key)
                })
            })
    }

    /// Finds the item again for a read that touches or claims it, and changes it under the lock of
    /// its index shard, as a write does. Returns the item as it was before the change, with its
    /// index entry. `None` and the errors are those of [`Worker::read`]. A miss has been passed to
    /// the miniatures.
    fn find_and_change(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        now_s: u32,
        options: Read,
    ) -> Result<Option<(Entry, Item<'_>)>, Miss> {
        let (mut moves, mut has_memory) = (0, true);
        // Find the item under the lock. If its block cannot hold the new expiry, release the lock,
        // move the item to another block, and start again, because other workers may have changed
        // the item meanwhile.
        let (writer, found) = loop {
            let writer = self.store.index.lock(hash.0);
            let Some(found) = writer.find(|entry| self.has_key(entry, key)) else {
                drop(writer);
                self.sample_miss(hash, now_s, options);
                return Err(Miss::Absent);
            };
            let location = found.entry().location();
            let block = self.block(location);
            if let Some(miss) = self.miss_reason(location, block, now_s) {
                self.unlink_expired_found(&writer, &found, block, now_s);
                drop(writer);
                self.sample_miss(hash, now_s, options);
                return Err(miss);
            }
            let unstorable_expiry = options
                .touch
                .filter(|&expiry| !block.can_hold_expiry(expiry));
            // If the new expiry is already past, the item is unlinked, so it need not be moved.
            let unstorable_expiry = unstorable_expiry.filter(|expiry| !expiry.is_past(now_s));
            let Some(expiry) = unstorable_expiry.filter(|_| has_memory) else {
                break (writer, found);
            };
            drop(writer);
            if moves == TOUCH_MOVES_MAX {
                // Other workers replaced the item after every move.
                return Ok(None);
            }
            match self.add_expiry_word(key, hash, expiry, now_s) {
                Ok(()) => moves += 1,
                Err(Rejected::Deferred) => return Ok(None),
                Err(_) => has_memory = false,
            }
        };
        let entry = found.entry();
        let location = entry.location();
        let block = self.block(location);
        let pin = match options.pin_if_longer_than {
            Some(copied_max) if block.value_len() > copied_max => {
                let may_copy = options.may_copy && block.value_len() <= COPIED_UNDER_LOCK_MAX;
                match Pin::take(&self.store, location, block, may_copy) {
                    None => return Ok(None),
                    some => some,
                }
            }
            _ => None,
        };
        let access = block.access();
        let is_claim = options.claim && access.is_stale() || options.recache.is_due(block);
        let won = is_claim && !access.is_claimed();
        if won || options.touch.is_some() {
            self.remove_from_tier(&writer, now_s);
        }
        let item = Item {
            pin: RefCell::new(pin),
            ..self.item(location, block, won, now_s)
        };
        if won {
            block.set_access(access.with_stale_and_claimed(access.is_stale(), true));
        }
        match options.touch {
            Some(expiry) if block.can_hold_expiry(expiry) => {
                block.set_expiry(expiry);
                let segment = self.store.log.heap.segment_of(location);
                segment.raise_expiry(expiry);
                drop(writer);
            }
            Some(expiry) if expiry.is_past(now_s) => {
                self.unlink_expired_found(&writer, &found, block, now_s);
                drop(writer);
            }
            // There was no memory to move the item. Its block cannot hold the new expiry, so later
            // reads would return the item after that expiry. Evict it to prevent this.
            Some(_) => {
                let part = self.store.log.heap.segment_of(location).part();
                self.evict_found(writer, &found, part, now_s);
            }
            None => drop(writer),
        }
        Ok(Some((entry, item)))
    }

    /// Moves an item to a block with an expiry word: copies it and makes the index refer to the
    /// copy, as evacuation does. Does nothing if another worker replaces the item in the meantime,
    /// so the caller has to look up the item again in any case. The expiry itself is not changed;
    /// `expiry` only selects the segment of the new block.
    ///
    /// # Errors
    /// There is no memory for the new block, or none yet ([`Rejected::Deferred`]).
    #[cold]
    fn add_expiry_word(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        expiry: Expiry,
        now_s: u32,
    ) -> Result<(), Rejected> {
        let Some(entry) = self.find(key, hash) else {
            return Ok(());
        };
        let current = self.block_ref(entry.location());
        let fields = current.block.header_fields().with_expiry_word();
        let part = current.segment.part();
        let len = fields.block_len();
        self.assist_evacuation(len, now_s);
        let allocation = match self.try_allocate(len, part, expiry, now_s) {
            Some(allocation) => allocation,
            None => self.allocate(len, part, expiry, now_s)?,
        };
        let draft = Draft::new(&self.store.log.heap, allocation);
        let block = draft.block_ref.block;
        block.write_header_and_key(&fields, key);
        // `allocate` may have made the worker quiescent, so `current` may refer to reused memory.
        // Look up the item again, and check that the new block still fits it.
        let found = self.find(key, hash);
        let Some(old) = found.map(|entry| self.block_ref(entry.location())) else {
            return Ok(());
        };
        // The first condition means that the item still has no expiry word.
        let old_fields = old.block.header_fields();
        let is_unchanged = old_fields != fields
            && old_fields.with_expiry_word() == fields
            && old.segment.part() == part;
        if !is_unchanged {
            return Ok(());
        }
        // SAFETY: the memory has just been allocated, and no location refers to it.
        unsafe { block.value_mut() }.copy_from_slice(old.block.value());
        let writer = self.store.index.lock(hash.0);
        let found = writer.find(|entry| entry.location() == old.location);
        if let Some(found) = found
            && self.miss_reason(old.location, old.block, now_s).is_none()
            && !self.is_flushed(draft.block_ref.segment, now_s)
        {
            block.set_cas(old.block.cas());
            block.set_access(old.block.access());
            self.add_live(&draft.block_ref);
            writer.relocate(&found, draft.block_ref.location, found.entry().frequency());
            // Unlike the block of an overwritten item, the old block is neither marked dead nor
            // remembered as a hole, because readers that found it before still use it as the block
            // of a live item.
            self.sub_live(&old);
        }
        Ok(())
    }

    /// Returns the item of a block, to be passed to the closure of a read. `won` is true if this
    /// read has claimed the item.
    #[inline]
    pub(crate) fn item<'a>(
        &'a self,
        location: Location,
        block: Block<'a>,
        won: bool,
        now_s: u32,
    ) -> Item<'a> {
        let access = block.access();
        Item {
            flags: block.flags(),
            cas: block.cas(),
            expiry: block.expiry(),
            last_access_s: access.time_s(now_s),
            fetched: access.is_fetched(),
            stale: access.is_stale(),
            won,
            claimed: access.is_claimed(),
            base64_key: access.has_base64_key(),
            location,
            block,
            store: &self.store,
            may_copy: false,
            pin: RefCell::new(None),
        }
    }

    /// Passes a miss to the miniatures, unless the read is untracked.
    fn sample_miss(&self, hash: KeyHash, now_s: u32, options: Read) {
        if !options.untracked {
            self.sample(hash, now_s, || SampledAccess::Missed);
        }
    }

    /// Sets the expiry of an item, as [`Read::touch`] describes. Returns its size class,
    /// or `None` if the key has no item.
    ///
    /// # Errors
    /// Only [`Rejected::Deferred`].
    pub fn touch(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        expiry: Expiry,
        now_s: u32,
    ) -> Result<Option<SizeClass>, Rejected> {
        let options = Read {
            touch: Some(expiry),
            ..Read::default()
        };
        let size_class = |item: &Item<'_>| Some(item.size_class());
        match self.read(key, hash, now_s, options, size_class) {
            Ok(Some(class)) => Ok(Some(class)),
            Ok(None) => Err(Rejected::Deferred),
            Err(_) => Ok(None),
        }
    }

    /// Returns the size of a key's item in memory, without any effect on it. `None`: there is none,
    /// or it has expired.
    #[must_use]
    pub fn size_of(&self, key: &[u8], hash: KeyHash, now_s: u32) -> Option<ItemSize> {
        self.ensure_online();
        let has_key = |entry| self.has_key(entry, key);
        let location = self.store.index.find(hash.0, has_key)?.location();
        let block = self.block(location);
        let is_valid = self.miss_reason(location, block, now_s).is_none();
        is_valid.then(|| ItemSize::of_block(block))
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::limits::SAMPLES_PER_SECOND;
    use crate::{Config, Deleted, Mode, Store, Write};

    const NOW_S: u32 = 1;

    fn worker() -> Worker {
        let config = Config {
            memory_bytes: 8 << 20,
            hash_seed: 1,
            ..Config::DEFAULT
        };
        Store::new(config).unwrap().worker()
    }

    /// Stores an item, which must succeed.
    fn put(worker: &mut Worker, key: &str, hash: KeyHash, value: &str) {
        let write = Write::plain(Mode::Set, Expiry::NEVER);
        let put = worker.put(key.as_bytes(), hash, value.as_bytes(), &write, NOW_S);
        assert!(put.is_ok());
    }

    /// Returns a copy of the value of a key.
    fn read(worker: &mut Worker, key: &str, hash: KeyHash) -> Result<Vec<u8>, Miss> {
        let copy = |item: &Item<'_>| Some(item.value().collect::<Vec<_>>().concat());
        let read = worker.read(key.as_bytes(), hash, NOW_S, Read::default(), copy);
        read.map(Option::unwrap_or_default)
    }

    /// Returns the hash of a key, in which the present position of its index entry is remembered.
    fn remembered(worker: &Worker, key: &str) -> KeyHash {
        let mut hash = worker.hash(key.as_bytes());
        worker.prefetch_item(&mut hash);
        hash
    }

    /// Another worker may unlink an item after a reader has read its index entry and before the
    /// reader reads its block.
    #[test]
    fn a_reader_that_has_found_an_item_gets_its_metadata_even_if_it_is_then_unlinked() {
        let (mut reader, mut writer) = {
            let reader = worker();
            let writer = reader.store.worker();
            (reader, writer)
        };
        for key in ["overwritten", "deleted"] {
            let hash = reader.hash(key.as_bytes());
            put(&mut reader, key, hash, "old");
            assert!(read(&mut reader, key, hash).is_ok());
            let location = reader.find(key.as_bytes(), hash).unwrap().location();
            match key {
                "overwritten" => put(&mut writer, key, hash, "new"),
                _ => drop(writer.delete(key.as_bytes(), hash, None, NOW_S + 9)),
            }
            let block = reader.block(location);
            assert!(block.is_marked_dead(), "{key}");
            let item = reader.item(location, block, false, NOW_S + 9);
            let metadata = (item.last_access_s, item.fetched, item.stale, item.claimed);
            assert_eq!(metadata, (NOW_S, true, false, false), "{key}");
            // Recording the read must keep the dead mark.
            block.record_access(block.access(), block.access().fetched_at(NOW_S + 1));
            assert!(block.is_marked_dead(), "{key}");
        }
    }

    /// Regression test. The item of a touch may vanish after the read has found it and before the
    /// read locks its index shard. Such a miss was not passed to the miniatures.
    #[test]
    fn a_miss_that_is_found_under_the_lock_is_sampled() {
        let mut worker = worker();
        worker.store.miniatures.start(1);
        let is_watched = |key: &String| {
            let hash = worker.hash(key.as_bytes());
            worker.store.miniatures.watches(hash.0)
        };
        let key = (0..).map(|number| number.to_string()).find(is_watched);
        let key = key.unwrap();
        let hash = worker.hash(key.as_bytes());
        let write = Write::plain(Mode::Set, Expiry::at(NOW_S + 1));
        let put = worker.put(key.as_bytes(), hash, b"value", &write, NOW_S);
        assert!(put.is_ok());
        let touch = Read {
            touch: Some(Expiry::NEVER),
            ..Read::default()
        };
        // The first touch unlinks the expired item.
        for (now_s, miss) in [(10, Miss::Expired), (20, Miss::Absent)] {
            let found = worker.find_and_change(key.as_bytes(), hash, now_s, touch);
            assert_eq!(found.err(), Some(miss));
            let admitted = Cell::new(0);
            for _ in 0..100 {
                worker.sample(hash, now_s, || {
                    admitted.set(admitted.get() + 1);
                    SampledAccess::Missed
                });
            }
            // The miss was the first of the key's samples in this second.
            assert_eq!(admitted.get(), SAMPLES_PER_SECOND - 1, "{miss:?}");
        }
    }

    #[test]
    fn items_are_found_after_splits_and_merges_move_remembered_entries() {
        let mut worker = worker();
        let kept: Vec<String> = (0..2_000).map(|number| format!("kept{number}")).collect();
        let others: Vec<String> = (0..60_000).map(|number| format!("other{number}")).collect();
        for key in &kept {
            let hash = worker.hash(key.as_bytes());
            put(&mut worker, key, hash, key);
        }
        let assert_all_found = |worker: &mut Worker, hashes: &[KeyHash]| {
            for (key, &hash) in kept.iter().zip(hashes) {
                assert_eq!(read(worker, key, hash).as_deref(), Ok(key.as_bytes()));
            }
        };
        let positions = |hashes: &[KeyHash]| hashes.iter().map(|hash| hash.1).collect::<Vec<_>>();
        // Positions remembered before the index grows, after it has grown, and after it has shrunk.
        let small: Vec<KeyHash> = kept.iter().map(|key| remembered(&worker, key)).collect();
        for key in &others {
            let hash = worker.hash(key.as_bytes());
            put(&mut worker, key, hash, "-");
        }
        let large: Vec<KeyHash> = kept.iter().map(|key| remembered(&worker, key)).collect();
        assert!(
            positions(&small) != positions(&large),
            "no bucket was split"
        );
        assert_all_found(&mut worker, &small);
        for key in &others {
            worker.delete(key.as_bytes(), worker.hash(key.as_bytes()), None, NOW_S);
        }
        let merged: Vec<KeyHash> = kept.iter().map(|key| remembered(&worker, key)).collect();
        assert!(
            positions(&large) != positions(&merged),
            "no bucket was merged"
        );
        assert_all_found(&mut worker, &large);
    }

    #[test]
    fn a_tag_collision_neither_returns_nor_overwrites_the_other_item() {
        let mut worker = worker();
        let hash = worker.hash(b"one");
        put(&mut worker, "one", hash, "first");
        let position = remembered(&worker, "one").1;
        let collides = |key: &String| {
            let hash = worker.hash(key.as_bytes());
            worker.store.index.reread(hash.0, position).is_some()
        };
        // Find a key whose tag, the part of the hash that an index entry contains, matches at the
        // position of the first key. About one key in a million has such a tag.
        let other = (0..).map(|number| number.to_string()).find(collides);
        let other = other.unwrap();
        let with_wrong_position = KeyHash(worker.hash(other.as_bytes()).0, position);
        assert_eq!(
            read(&mut worker, &other, with_wrong_position),
            Err(Miss::Absent)
        );
        put(&mut worker, &other, with_wrong_position, "second");
        assert_eq!(
            read(&mut worker, &other, with_wrong_position).as_deref(),
            Ok(&b"second"[..])
        );
        let one = worker.hash(b"one");
        assert_eq!(read(&mut worker, "one", one).as_deref(), Ok(&b"first"[..]));
        let deleted = worker.delete(other.as_bytes(), with_wrong_position, None, NOW_S);
        assert!(matches!(deleted, Deleted::Deleted(Some(_))));
        assert_eq!(
            read(&mut worker, &other, with_wrong_position),
            Err(Miss::Absent)
        );
        assert_eq!(read(&mut worker, "one", one).as_deref(), Ok(&b"first"[..]));
    }
}
