//! A comparison of the store with the model. Both execute the same operations, which are decoded
//! from bytes, so that random tests and a fuzzer can use the same code ([`check`]).
//!
//! With ample memory the store evicts nothing. With scarce memory it evicts items, and its memory
//! limit changes. If an item is then missing from the store, it is deleted from the model too. This
//! happens at most as often as the store has counted evictions.

#[path = "operation.rs"]
mod operation;

use std::collections::HashMap;
use std::fmt::Debug;

use model::cache::DeleteOutcome;
use model::{Cache, SetOutcome};
use protocol::SetMode;

use crate::{
    Arithmetic, ArithmeticOutcome, Config, Deleted, Direction, Expiry, Item, Mode, Published, Read,
    Rejected, Reserve, Store, Vivify, Worker, Write,
};
use operation::{Bytes, Compare, Operation};

const ITEM_MAX: u32 = 2048;
/// The maximum number of operations of one input.
const OPERATIONS_MAX: usize = 2_000;
/// The number of items that an [`Operation::Fill`] stores.
const FILL_ITEMS: u16 = 500;
/// The range of the memory limit when memory is scarce, in MiB.
const SCARCE_MEMORY_MIB: std::ops::RangeInclusive<u64> = 1..=4;

/// Executes the operations of `input` in the store and in the model, and compares the results. The
/// first byte selects ample or scarce memory.
///
/// # Panics
/// The store and the model differ.
pub(crate) fn check(input: &[u8]) {
    let mut bytes = Bytes(input);
    let Some(memory) = bytes.next() else {
        return;
    };
    let mut pair = Pair::new(memory % 2 == 1);
    for _ in 0..OPERATIONS_MAX {
        let Some(operation) = Operation::read(&mut bytes, pair.keys()) else {
            break;
        };
        pair.apply(&operation);
    }
    let written: Vec<u16> = pair.cas.keys().copied().collect();
    for key in written {
        pair.get(key, None, false);
    }
}

/// The store and the model, which have executed the same operations.
struct Pair {
    store: Worker,
    model: Cache,
    memory_is_scarce: bool,
    now_s: u32,
    /// The CAS of a key's item in the store and in the model.
    cas: HashMap<u16, (u64, u64)>,
    /// The store's count of evictions when the present operation began.
    evicted_before: u64,
    /// The number of items deleted from the model because the store had evicted them.
    evictions_applied: u64,
    /// Whether the last set was an upload. Sets alternate between `put` and an upload.
    uploads: bool,
}

/// The outcome of a write, for the store and for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteOutcome {
    Stored { value_len: usize },
    Number { value: u64, created: bool },
    NotStored,
    Exists,
    NotFound,
    NotNumeric,
    Deleted,
}

fn expiry(now_s: u32, exptime: i32) -> Expiry {
    match exptime {
        0 => Expiry::NEVER,
        ..0 => Expiry::at(0),
        seconds => Expiry::at(now_s + seconds.unsigned_abs()),
    }
}

fn name(key: u16) -> [u8; 2] {
    key.to_le_bytes()
}

impl Pair {
    fn new(memory_is_scarce: bool) -> Self {
        let mib = if memory_is_scarce {
            *SCARCE_MEMORY_MIB.start()
        } else {
            8
        };
        let config = Config {
            memory_bytes: mib << 20,
            memory_max: mib.max(*SCARCE_MEMORY_MIB.end()) << 20,
            item_max: ITEM_MAX,
            hash_seed: 7,
            ..Config::DEFAULT
        };
        Self {
            store: Store::new(config).unwrap().worker(),
            model: Cache::new(ITEM_MAX as usize),
            memory_is_scarce,
            now_s: 1,
            cas: HashMap::new(),
            evicted_before: 0,
            evictions_applied: 0,
            uploads: false,
        }
    }

    fn keys(&self) -> u16 {
        if self.memory_is_scarce { 3_000 } else { 6 }
    }

    fn evicted(&self) -> u64 {
        self.store.store().evicted()
    }

    /// Deletes the item of `key` from the model if the store has evicted it.
    fn apply_eviction(&mut self, key: u16) {
        if !self.memory_is_scarce {
            return;
        }
        self.evicted_before = self.evicted();
        let hash = self.store.hash(&name(key));
        let untracked = Read {
            untracked: true,
            ..Read::default()
        };
        let read = self
            .store
            .read(&name(key), hash, self.now_s, untracked, |_| Some(()));
        if read.ok().flatten().is_none() {
            self.evict_from_model(key);
        }
    }

    /// Deletes an item from the model, because the store does not have it. Checks that the store
    /// has evicted enough items.
    fn evict_from_model(&mut self, key: u16) {
        let gone = self.model.delete(self.now_s.into(), &name(key), None);
        if gone == DeleteOutcome::Deleted {
            self.evictions_applied += 1;
            let evicted = self.evicted();
            assert!(
                self.evictions_applied <= evicted,
                "{key} is gone, and {evicted} were evicted"
            );
        }
    }

    /// Compares the result `from_store` with that of the model. The operation itself may have
    /// evicted this item from the store. If the results differ and the store has evicted items
    /// during the operation, the item is therefore deleted from the model, and the model executes
    /// the operation again.
    fn agree<T: Debug + PartialEq>(
        &mut self,
        key: u16,
        from_store: &T,
        mut from_model: impl FnMut(&mut Self) -> T,
    ) {
        let mut found = from_model(self);
        if *from_store != found && self.evicted() > self.evicted_before {
            self.evict_from_model(key);
            found = from_model(self);
        }
        assert_eq!(*from_store, found, "key {key} at {} s", self.now_s);
    }

    /// The CAS to compare with, for the store and for the model, which number their items
    /// differently.
    fn compare(&self, key: u16, compare: Compare) -> (Option<u64>, Option<u64>) {
        let (from_store, from_model) = self.cas.get(&key).copied().unwrap_or((1, 1));
        match compare {
            Compare::None => (None, None),
            Compare::Present => (Some(from_store), Some(from_model)),
            Compare::Wrong => (Some(from_store + 1_000_000), Some(from_model + 1_000_000)),
            Compare::Zero => (Some(0), Some(0)),
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Get { key, touch, claim } => self.get(key, touch, claim),
            Operation::Set {
                key,
                mode,
                ref value,
                flags,
                exptime,
                compare,
                invalidate,
            } => {
                let (from_store, from_model) = self.compare(key, compare);
                let write = Write {
                    flags,
                    // The store ignores the CAS for `Add` and `Replace`. The session implements the
                    // comparison of `ms` by another mode.
                    compare: from_store.filter(|_| compares(mode)),
                    invalidate,
                    ..Write::plain(store_mode(mode), expiry(self.now_s, exptime))
                };
                let model_write = model::Write {
                    client_flags: flags,
                    exptime,
                    compare: from_model.filter(|_| compares(mode)),
                    invalidate,
                    ..model::Write::plain(mode, value)
                };
                self.set(key, value, &write, &model_write);
            }
            Operation::Fill { from, ref value } => {
                let write = Write::plain(Mode::Set, Expiry::NEVER);
                let model_write = model::Write::plain(SetMode::Set, value);
                for key in from..from.saturating_add(FILL_ITEMS).min(self.keys()) {
                    self.set(key, value, &write, &model_write);
                }
            }
            Operation::Delete { key, compare } => self.delete(key, compare),
            Operation::Arith {
                key,
                up,
                delta,
                vivify,
                compare,
            } => self.arith(key, up, delta, vivify, compare),
            Operation::Touch { key, exptime } => {
                self.apply_eviction(key);
                let (hash, when) = (self.store.hash(&name(key)), expiry(self.now_s, exptime));
                let from_store = self.store.touch(&name(key), hash, when, self.now_s);
                let found = from_store.ok().map(|class| class.is_some());
                self.agree(key, &found, |pair| {
                    Some(pair.model.touch(pair.now_s.into(), &name(key), exptime))
                });
            }
            Operation::Flush { exptime } => {
                let at_s = self.now_s.saturating_add_signed(exptime.max(0));
                self.store.flush(at_s, self.now_s);
                self.model.flush_all(self.now_s.into(), exptime);
            }
            Operation::Tick { seconds } => self.now_s += seconds,
            Operation::Maintain => {
                self.store.maintain(self.now_s, 64);
            }
            Operation::Limit { mib } => {
                if self.memory_is_scarce {
                    self.store.store().set_limit(mib << 20).unwrap();
                }
            }
        }
        self.store.quiescent();
    }

    fn get(&mut self, key: u16, touch: Option<i32>, claim: bool) {
        self.apply_eviction(key);
        let now_s = self.now_s;
        let options = Read {
            touch: touch.map(|exptime| expiry(now_s, exptime)),
            claim,
            ..Read::default()
        };
        let hash = self.store.hash(&name(key));
        let visit = |item: &Item<'_>| {
            let value: Vec<u8> = item.value().flatten().copied().collect();
            let left_s = item.expiry.seconds_left(now_s);
            Some((
                value,
                item.flags,
                left_s,
                item.stale,
                item.claimed,
                item.won,
            ))
        };
        let read = self.store.read(&name(key), hash, now_s, options, visit);
        let from_store = read.ok().flatten();
        self.agree(key, &from_store, |pair| {
            let now_s = u64::from(now_s);
            let from_model = match touch {
                Some(exptime) => pair.model.get_and_touch(now_s, &name(key), exptime),
                None => pair.model.get(now_s, &name(key)).cloned(),
            };
            from_model.map(|item| {
                let left_s = item
                    .remaining_s(now_s)
                    .map(|left_s| u32::try_from(left_s).unwrap());
                let won = claim && item.stale && !item.token_sent;
                if won {
                    pair.model.mark_token_sent(now_s, &name(key));
                }
                (
                    item.value,
                    item.client_flags,
                    left_s,
                    item.stale,
                    item.token_sent,
                    won,
                )
            })
        });
    }

    fn set(&mut self, key: u16, value: &[u8], write: &Write, model_write: &model::Write<'_>) {
        self.apply_eviction(key);
        self.uploads = !self.uploads;
        let put = if self.uploads {
            self.upload(key, value, write)
        } else {
            let hash = self.store.hash(&name(key));
            self.store.put(&name(key), hash, value, write, self.now_s)
        };
        let fits = self.model.fits(&name(key), write.flags, value.len());
        let Ok(published) = put else {
            assert_eq!((put.unwrap_err(), fits), (Rejected::TooLarge, false));
            return;
        };
        assert!(fits);
        let (from_store, store_cas) = match published {
            Published::Stored { cas, value_len } => {
                let value_len = value_len as usize;
                (WriteOutcome::Stored { value_len }, Some(cas))
            }
            // `NoSpace`: the joined value would be too long.
            Published::NotStored | Published::NoSpace => (WriteOutcome::NotStored, None),
            Published::Exists => (WriteOutcome::Exists, None),
            Published::NotFound => (WriteOutcome::NotFound, None),
        };
        let mut model_cas = None;
        self.agree(key, &from_store, |pair| {
            match pair.model.set(pair.now_s.into(), &name(key), model_write) {
                SetOutcome::Stored { cas, value_len } => {
                    model_cas = Some(cas);
                    WriteOutcome::Stored { value_len }
                }
                SetOutcome::NotStored => WriteOutcome::NotStored,
                SetOutcome::Exists => WriteOutcome::Exists,
                SetOutcome::NotFound => WriteOutcome::NotFound,
            }
        });
        if let Some(from_store) = store_cas {
            let last = self.cas.insert(key, (from_store, model_cas.unwrap()));
            assert!(
                last.is_none_or(|(last, _)| last < from_store),
                "a CAS came again"
            );
        }
    }

    /// Stores a value as if it arrived after its command line: reserves, fills, publishes.
    fn upload(&mut self, key: u16, value: &[u8], write: &Write) -> Result<Published, Rejected> {
        let reserve = Reserve {
            value_len: value.len(),
            flags: write.flags,
            expiry: write.expiry,
            whole: false,
        };
        let hash = self.store.hash(&name(key));
        let mut upload = self.store.reserve(&name(key), hash, &reserve, self.now_s)?;
        self.store.fill(&mut upload, value, self.now_s)?;
        let published = self.store.publish(upload, write, self.now_s);
        published.map_err(|_| Rejected::Deferred)
    }

    fn delete(&mut self, key: u16, compare: Compare) {
        self.apply_eviction(key);
        let (store_cas, model_cas) = self.compare(key, compare);
        let hash = self.store.hash(&name(key));
        let from_store = match self.store.delete(&name(key), hash, store_cas, self.now_s) {
            Deleted::Deleted(_) => WriteOutcome::Deleted,
            Deleted::NotFound => WriteOutcome::NotFound,
            Deleted::Exists => WriteOutcome::Exists,
        };
        self.agree(key, &from_store, |pair| {
            match pair.model.delete(pair.now_s.into(), &name(key), model_cas) {
                DeleteOutcome::Deleted => WriteOutcome::Deleted,
                DeleteOutcome::NotFound => WriteOutcome::NotFound,
                DeleteOutcome::Exists => WriteOutcome::Exists,
            }
        });
    }

    fn arith(
        &mut self,
        key: u16,
        up: bool,
        delta: u64,
        vivify: Option<(u64, i32)>,
        compare: Compare,
    ) {
        self.apply_eviction(key);
        let (store_compare, model_compare) = self.compare(key, compare);
        let arithmetic = Arithmetic {
            delta,
            direction: if up { Direction::Up } else { Direction::Down },
            compare: store_compare,
            explicit_cas: None,
            touch: None,
            vivify: vivify.map(|(initial, exptime)| Vivify {
                initial,
                expiry: expiry(self.now_s, exptime),
            }),
        };
        let hash = self.store.hash(&name(key));
        let (from_store, store_cas) =
            match self.store.arith(&name(key), hash, &arithmetic, self.now_s) {
                ArithmeticOutcome::Done(counted) => {
                    let (value, created) = (counted.value, counted.created);
                    (WriteOutcome::Number { value, created }, Some(counted.cas))
                }
                ArithmeticOutcome::NotFound => (WriteOutcome::NotFound, None),
                ArithmeticOutcome::Exists => (WriteOutcome::Exists, None),
                ArithmeticOutcome::NotNumeric => (WriteOutcome::NotNumeric, None),
                ArithmeticOutcome::NoSpace | ArithmeticOutcome::Deferred => {
                    panic!("no room for a counter")
                }
            };
        let from_model = model::Arithmetic {
            mode: if up {
                protocol::ArithMode::Increment
            } else {
                protocol::ArithMode::Decrement
            },
            delta,
            vivify,
            compare: model_compare,
            explicit_cas: None,
        };
        let mut model_cas = None;
        self.agree(key, &from_store, |pair| {
            match pair.model.arith(pair.now_s.into(), &name(key), &from_model) {
                model::ArithmeticOutcome::Done {
                    number,
                    cas,
                    created,
                } => {
                    model_cas = Some(cas);
                    WriteOutcome::Number {
                        value: number,
                        created,
                    }
                }
                model::ArithmeticOutcome::NotFound => WriteOutcome::NotFound,
                model::ArithmeticOutcome::Exists => WriteOutcome::Exists,
                model::ArithmeticOutcome::NonNumeric => WriteOutcome::NotNumeric,
            }
        });
        if let Some(from_store) = store_cas {
            self.cas.insert(key, (from_store, model_cas.unwrap()));
        }
    }
}

fn store_mode(mode: SetMode) -> Mode {
    match mode {
        SetMode::Set => Mode::Set,
        SetMode::Add => Mode::Add,
        SetMode::Replace => Mode::Replace,
        SetMode::Append => Mode::Append,
        SetMode::Prepend => Mode::Prepend,
    }
}

fn compares(mode: SetMode) -> bool {
    !matches!(mode, SetMode::Add | SetMode::Replace)
}
