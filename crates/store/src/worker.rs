//! The store itself, and the handle each thread has on it.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use crate::config::{Config, ConfigError};
use crate::ledger::{Block, Ledger};
use crate::limits::{FLAGS_LEN, ITEM_OVERHEAD, SHARD_MEMORY, SHARDS_MAX, SHARDS_MIN, STEP_ITEMS};
use crate::read::Miss;
use crate::shard::{Shard, SlotIndex};
use crate::statistics::Statistics;

/// A key's hash, so that it is reckoned once a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyHash(pub(crate) u64);

/// The store. Threads reach it through [`Store::worker`].
#[derive(Debug)]
pub struct Store {
    config: Config,
    secrets: RapidSecrets,
    shards: Box<[Mutex<Shard>]>,
    ledger: Arc<Ledger>,
    /// Items of an earlier generation are flushed.
    generation: AtomicU32,
    /// When the next flush is due, in seconds; `NO_FLUSH`: none is.
    flush_due_s: AtomicU64,
    /// Where eviction looks when the writer's own shard has nothing to give.
    hand: AtomicUsize,
    /// Where maintenance goes on.
    maintained: AtomicUsize,
}

const NO_FLUSH: u64 = u64::MAX;

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// The configuration cannot work.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        let wanted = usize::try_from(config.memory_bytes / SHARD_MEMORY).unwrap_or(SHARDS_MAX);
        let count = wanted
            .clamp(SHARDS_MIN, SHARDS_MAX)
            .next_power_of_two()
            .min(SHARDS_MAX);
        let ledger = Ledger::new(config.memory_bytes);
        ledger.charge((count * size_of::<Mutex<Shard>>()) as u64);
        Ok(Arc::new(Self {
            secrets: RapidSecrets::seed(config.hash_seed),
            shards: (0..count).map(|_| Mutex::new(Shard::new())).collect(),
            ledger: Arc::new(ledger),
            generation: AtomicU32::new(0),
            flush_due_s: AtomicU64::new(NO_FLUSH),
            hand: AtomicUsize::new(0),
            maintained: AtomicUsize::new(0),
            config,
        }))
    }

    /// A handle for one thread.
    #[must_use]
    pub fn worker(self: &Arc<Self>) -> Worker {
        Worker {
            store: Arc::clone(self),
        }
    }

    /// What it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Sums over all shards, each read in turn.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut sums = Statistics {
            limit_bytes: self.ledger.limit(),
            bytes_used: self.ledger.used(),
            bytes_pinned: self.ledger.pinned(),
            ..Statistics::default()
        };
        for shard in &self.shards {
            let shard = lock(shard);
            sums.index_bytes += shard.index_bytes();
            sums.items += shard.tally.items;
            sums.items_stored += shard.tally.stored;
            sums.evicted += shard.tally.evicted;
            sums.evicted_unfetched += shard.tally.evicted_unfetched;
            sums.expired += shard.tally.expired;
            sums.expired_unfetched += shard.tally.expired_unfetched;
        }
        sums
    }
}

/// A panic under a shard's lock is a bug that tests must find; the shard's list and table are
/// changed by steps that do not panic, so going on is safe.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One thread's handle on the store.
#[derive(Debug)]
pub struct Worker {
    store: Arc<Store>,
}

impl Worker {
    /// The store it is a handle of.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Reckons a key's hash.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(rapidhash_v3_seeded(key, &self.store.secrets))
    }

    /// Asks for the memory that an operation on this key will visit first. A hint: it never
    /// waits and never fails. Behind sharded locks nothing can be asked for without taking the
    /// lock, so this version leaves the hint unused.
    pub fn prefetch(&self, _hash: KeyHash) {}

    /// Says that the thread holds nothing it read in the burst now over.
    pub fn quiescent(&mut self) {}

    /// Says that the thread goes to sleep; [`Worker::quiescent`] is implied.
    pub fn offline(&mut self) {}

    /// Says that the thread is awake again.
    pub fn online(&mut self) {}

    /// Invalidates every item written before second `at_s`, or now if that is past.
    pub fn flush(&self, at_s: u32, now_s: u32) {
        // One that is due already must not be forgotten for the new one.
        self.generation(now_s);
        if at_s <= now_s {
            self.store.flush_due_s.store(NO_FLUSH, Ordering::Relaxed);
            self.store.generation.fetch_add(1, Ordering::Relaxed);
        } else {
            self.store
                .flush_due_s
                .store(u64::from(at_s), Ordering::Relaxed);
        }
    }

    /// Reclaims what has expired, visiting at most `budget` items; true while there is more to
    /// visit in this round.
    pub fn maintain(&mut self, now_s: u32, budget: usize) -> bool {
        let generation = self.generation(now_s);
        let at = self.store.maintained.load(Ordering::Relaxed) % self.store.shards.len();
        let mut freed: Vec<Block> = Vec::new();
        let is_over = {
            let mut shard = lock(&self.store.shards[at]);
            for index in shard.next_slots(budget.min(STEP_ITEMS)) {
                if shard.slot(index).block.is_some() && is_dead(&shard, index, generation, now_s) {
                    freed.extend(bury(&mut shard, index));
                }
            }
            shard.round_is_over()
        };
        self.drop_blocks(freed);
        if is_over {
            self.store.maintained.store(at + 1, Ordering::Relaxed);
        }
        !is_over || at + 1 < self.store.shards.len()
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.store.ledger
    }

    /// Whether an item is no larger than the largest.
    pub(crate) fn fits(&self, key: &[u8], flags: u32, value_len: usize) -> bool {
        let flags_len = if flags == 0 { 0 } else { FLAGS_LEN };
        let item_len = ITEM_OVERHEAD + key.len() + flags_len + value_len;
        item_len <= self.store.config.item_max as usize
    }

    pub(crate) fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Shard> {
        lock(&self.store.shards[self.shard_index(hash)])
    }

    fn shard_index(&self, hash: KeyHash) -> usize {
        // The table inside uses the low bits for its buckets and the top seven for its tags.
        (hash.0 >> 40) as usize & (self.store.shards.len() - 1)
    }

    /// The flush generation items are written in now. The first to come after a delayed flush
    /// is due carries it out.
    pub(crate) fn generation(&self, now_s: u32) -> u32 {
        let due_s = self.store.flush_due_s.load(Ordering::Relaxed);
        if due_s <= u64::from(now_s) {
            let taken = self.store.flush_due_s.compare_exchange(
                due_s,
                NO_FLUSH,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                self.store.generation.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.store.generation.load(Ordering::Relaxed)
    }

    /// The shard of `key`, locked, and the item's place in it, if it may be shown. One that may
    /// not is reclaimed.
    pub(crate) fn find_live(
        &self,
        key: &[u8],
        hash: KeyHash,
        now_s: u32,
    ) -> Result<(MutexGuard<'_, Shard>, SlotIndex), Miss> {
        let generation = self.generation(now_s);
        let mut shard = self.shard(hash);
        let Some(index) = shard.find(hash.0, key) else {
            return Err(Miss::Absent);
        };
        if !is_dead(&shard, index, generation, now_s) {
            return Ok((shard, index));
        }
        let flushed = shard.slot(index).generation != generation;
        let block = bury(&mut shard, index);
        drop(shard);
        self.drop_blocks(block);
        Err(if flushed {
            Miss::Flushed
        } else {
            Miss::Expired
        })
    }

    /// Lets go of blocks that the index no longer knows. No lock may be held.
    pub(crate) fn drop_blocks(&self, blocks: impl IntoIterator<Item = Block>) {
        for block in blocks {
            self.store.ledger.release(block.charge());
        }
    }

    /// Counts `bytes`, evicting until they fit: first from the shard of `hash`, then from the
    /// others in turn, but never the item of `keep`. False when there is nothing left to evict.
    pub(crate) fn make_room(
        &self,
        bytes: u64,
        hash: KeyHash,
        keep: Option<&Block>,
        now_s: u32,
    ) -> bool {
        if self.store.ledger.try_charge(bytes) {
            return true;
        }
        let mut at = self.shard_index(hash);
        let mut empty = 0;
        while !self.store.ledger.try_charge(bytes) {
            if self.evict_step(at, bytes, keep, now_s) {
                empty = 0;
                continue;
            }
            empty += 1;
            if empty > self.store.shards.len() {
                return false;
            }
            at = self.store.hand.fetch_add(1, Ordering::Relaxed) % self.store.shards.len();
        }
        true
    }

    /// Evicts until what has been counted fits: others than the item just written, if they will do.
    pub(crate) fn settle(&self, hash: KeyHash, written: Option<&Block>, now_s: u32) {
        if !self.make_room(0, hash, written, now_s) {
            self.make_room(0, hash, None, now_s);
        }
    }

    /// Evicts the least recent items of a shard, about `bytes` of them and few enough for one
    /// step; false when there are none.
    fn evict_step(&self, at: usize, bytes: u64, keep: Option<&Block>, now_s: u32) -> bool {
        let generation = self.generation(now_s);
        let mut evicted: Vec<Block> = Vec::new();
        let mut freed = 0;
        {
            let mut shard = lock(&self.store.shards[at]);
            // With nothing to add, room is made for what was counted beyond the limit.
            while freed < bytes.max(1) && evicted.len() < STEP_ITEMS {
                let Some(index) = shard.oldest() else { break };
                // It was made the newest, so nearly always nothing else is left.
                let oldest = shard.slot(index).block.as_ref();
                if keep.zip(oldest).is_some_and(|(keep, it)| it.is_same(keep)) {
                    break;
                }
                let block = if is_dead(&shard, index, generation, now_s) {
                    bury(&mut shard, index)
                } else {
                    evict(&mut shard, index)
                };
                let Some(block) = block else { break };
                freed += block.charge();
                evicted.push(block);
            }
        }
        let any = !evicted.is_empty();
        self.drop_blocks(evicted);
        any
    }
}

/// Whether an item is past its time or its flush.
pub(crate) fn is_dead(shard: &Shard, index: SlotIndex, generation: u32, now_s: u32) -> bool {
    let slot = shard.slot(index);
    slot.generation != generation || slot.expiry.is_past(now_s)
}

/// Unlinks an item that is dead.
pub(crate) fn bury(shard: &mut Shard, index: SlotIndex) -> Option<Block> {
    shard.tally.expired += 1;
    shard.tally.expired_unfetched += u64::from(!shard.slot(index).fetched);
    shard.remove(index)
}

fn evict(shard: &mut Shard, index: SlotIndex) -> Option<Block> {
    shard.tally.evicted += 1;
    shard.tally.evicted_unfetched += u64::from(!shard.slot(index).fetched);
    shard.remove(index)
}
