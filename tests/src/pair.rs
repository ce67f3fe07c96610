//! A pair: the store and the model, driven together by operations that bytes spell, so that random
//! tests and a fuzzer share them ([`check`]).
//!
//! In a *roomy* world nothing is evicted. In a *tight* one the store evicts, and its limit moves:
//! there the model forgets what the store had to evict, and the store's own count of evictions says
//! how often that may be.

#![expect(clippy::unwrap_used, reason = "a check panics when it fails")]

mod operation;

use std::collections::HashMap;
use std::fmt::Debug;

use model::cache::DeleteOutcome;
use model::{Cache, SetOutcome};
use protocol::SetMode;
use store::{
    Arithmetic, ArithmeticOutcome, Config, Deleted, Direction, Expiry, Item, Mode, Published, Read,
    Rejected, Reserve, Store, Vivify, Worker, Write,
};

use operation::{Bytes, Compare, Operation};

const ITEM_MAX: u32 = 2048;
/// Operations of one input at most.
const OPERATIONS_MAX: usize = 2_000;
/// Items an [`Operation::Fill`] stores.
const FILL: u16 = 500;
/// Memory of the tight world, least and most, in MiB.
const TIGHT_MIB: std::ops::RangeInclusive<u64> = 1..=4;

/// Drives a pair by `input`: its first byte says which world, the rest are operations.
///
/// # Panics
/// The two do not agree.
pub fn check(input: &[u8]) {
    let mut bytes = Bytes(input);
    let Some(world) = bytes.next() else {
        return;
    };
    let mut pair = Pair::new(world % 2 == 1);
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

/// Both, driven together.
struct Pair {
    store: Worker,
    model: Cache,
    is_tight: bool,
    now_s: u32,
    /// The CAS of a key's item in the store and in the model.
    cas: HashMap<u16, (u64, u64)>,
    /// What the store had evicted when the operation under way began.
    evicted_before: u64,
    /// Items the model has forgotten because the store evicted them.
    forgotten: u64,
    /// The next set is of a value that comes behind its line.
    uploads: bool,
}

/// What became of a write, in words that both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Stored { value_len: usize },
    Counted { value: u64, created: bool },
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
    fn new(is_tight: bool) -> Self {
        let mib = if is_tight { *TIGHT_MIB.start() } else { 8 };
        let config = Config {
            memory_bytes: mib << 20,
            memory_max: mib.max(*TIGHT_MIB.end()) << 20,
            item_max: ITEM_MAX,
            hash_seed: 7,
            ..Config::DEFAULT
        };
        Self {
            store: Store::new(config).unwrap().worker(),
            model: Cache::new(ITEM_MAX as usize),
            is_tight,
            now_s: 1,
            cas: HashMap::new(),
            evicted_before: 0,
            forgotten: 0,
            uploads: false,
        }
    }

    fn keys(&self) -> u16 {
        if self.is_tight { 3_000 } else { 6 }
    }

    fn evicted(&self) -> u64 {
        self.store.store().evicted()
    }

    /// Lets the model forget an item that the store has evicted since it was last asked for.
    fn see_eviction(&mut self, key: u16) {
        if !self.is_tight {
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
            self.forget(key);
        }
    }

    fn forget(&mut self, key: u16) {
        let gone = self.model.delete(self.now_s.into(), &name(key), None);
        if gone == DeleteOutcome::Deleted {
            self.forgotten += 1;
            let evicted = self.evicted();
            assert!(
                self.forgotten <= evicted,
                "{key} is gone, and {evicted} were evicted"
            );
        }
    }

    /// Holds what the store did against what the model does. If they differ and the store has
    /// evicted something meanwhile, it may have been this item.
    fn agree<T: Debug + PartialEq>(
        &mut self,
        key: u16,
        ours: &T,
        mut theirs: impl FnMut(&mut Self) -> T,
    ) {
        let mut found = theirs(self);
        if *ours != found && self.evicted() > self.evicted_before {
            self.forget(key);
            found = theirs(self);
        }
        assert_eq!(*ours, found, "key {key} at {} s", self.now_s);
    }

    /// The CAS to compare with, in the store's and the model's numbers.
    fn compare(&self, key: u16, compare: Compare) -> (Option<u64>, Option<u64>) {
        let (ours, theirs) = self.cas.get(&key).copied().unwrap_or((1, 1));
        match compare {
            Compare::None => (None, None),
            Compare::Present => (Some(ours), Some(theirs)),
            Compare::Wrong => (Some(ours + 1_000_000), Some(theirs + 1_000_000)),
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
                let (ours, theirs) = self.compare(key, compare);
                let write = Write {
                    flags,
                    // `Add` and `Replace` do not compare in the store; the session sees to what
                    // `ms` means.
                    compare: ours.filter(|_| compares(mode)),
                    invalidate,
                    ..Write::plain(our_mode(mode), expiry(self.now_s, exptime))
                };
                let their_write = model::Write {
                    client_flags: flags,
                    exptime,
                    compare: theirs.filter(|_| compares(mode)),
                    invalidate,
                    ..model::Write::plain(mode, value)
                };
                self.set(key, value, &write, &their_write);
            }
            Operation::Fill { from, ref value } => {
                let write = Write::plain(Mode::Set, Expiry::NEVER);
                let their_write = model::Write::plain(SetMode::Set, value);
                for key in from..from.saturating_add(FILL).min(self.keys()) {
                    self.set(key, value, &write, &their_write);
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
                self.see_eviction(key);
                let (hash, when) = (self.store.hash(&name(key)), expiry(self.now_s, exptime));
                let ours = self.store.touch(&name(key), hash, when, self.now_s);
                self.agree(key, &ours.ok(), |pair| {
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
                if self.is_tight {
                    self.store.store().set_limit(mib << 20).unwrap();
                }
            }
        }
        self.store.quiescent();
    }

    fn get(&mut self, key: u16, touch: Option<i32>, claim: bool) {
        self.see_eviction(key);
        let now_s = self.now_s;
        let how = Read {
            touch: touch.map(|exptime| expiry(now_s, exptime)),
            claim,
            ..Read::default()
        };
        let hash = self.store.hash(&name(key));
        let seen = |item: &Item<'_>| {
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
        let read = self.store.read(&name(key), hash, now_s, how, seen);
        let ours = read.ok().flatten();
        self.agree(key, &ours, |pair| {
            let now_s = u64::from(now_s);
            let theirs = match touch {
                Some(exptime) => pair.model.get_and_touch(now_s, &name(key), exptime),
                None => pair.model.get(now_s, &name(key)).cloned(),
            };
            theirs.map(|item| {
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

    fn set(&mut self, key: u16, value: &[u8], write: &Write, their_write: &model::Write<'_>) {
        self.see_eviction(key);
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
        let (ours, our_cas) = match published {
            Published::Stored { cas, value_len } => {
                let value_len = value_len as usize;
                (Written::Stored { value_len }, Some(cas))
            }
            // Joined, it would be too long.
            Published::NotStored | Published::NoSpace => (Written::NotStored, None),
            Published::Exists => (Written::Exists, None),
            Published::NotFound => (Written::NotFound, None),
        };
        let mut their_cas = None;
        self.agree(key, &ours, |pair| {
            match pair.model.set(pair.now_s.into(), &name(key), their_write) {
                SetOutcome::Stored { cas, value_len } => {
                    their_cas = Some(cas);
                    Written::Stored { value_len }
                }
                SetOutcome::NotStored => Written::NotStored,
                SetOutcome::Exists => Written::Exists,
                SetOutcome::NotFound => Written::NotFound,
            }
        });
        if let Some(ours) = our_cas {
            let last = self.cas.insert(key, (ours, their_cas.unwrap()));
            assert!(last.is_none_or(|(last, _)| last < ours), "a CAS came again");
        }
    }

    /// As one whose value comes behind its line would set it.
    fn upload(&mut self, key: u16, value: &[u8], write: &Write) -> Result<Published, Rejected> {
        let asked = Reserve {
            value_len: value.len(),
            flags: write.flags,
            expiry: write.expiry,
            whole: false,
        };
        let hash = self.store.hash(&name(key));
        let mut upload = self.store.reserve(&name(key), hash, &asked, self.now_s)?;
        self.store.fill(&mut upload, value, self.now_s)?;
        let published = self.store.publish(upload, write, self.now_s);
        published.map_err(|_| Rejected::Deferred)
    }

    fn delete(&mut self, key: u16, compare: Compare) {
        self.see_eviction(key);
        let (our_cas, their_cas) = self.compare(key, compare);
        let hash = self.store.hash(&name(key));
        let ours = match self.store.delete(&name(key), hash, our_cas, self.now_s) {
            Deleted::Deleted => Written::Deleted,
            Deleted::NotFound => Written::NotFound,
            Deleted::Exists => Written::Exists,
        };
        self.agree(key, &ours, |pair| {
            match pair.model.delete(pair.now_s.into(), &name(key), their_cas) {
                DeleteOutcome::Deleted => Written::Deleted,
                DeleteOutcome::NotFound => Written::NotFound,
                DeleteOutcome::Exists => Written::Exists,
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
        self.see_eviction(key);
        let (our_compare, their_compare) = self.compare(key, compare);
        let arithmetic = Arithmetic {
            delta,
            direction: if up { Direction::Up } else { Direction::Down },
            compare: our_compare,
            explicit_cas: None,
            touch: None,
            vivify: vivify.map(|(initial, exptime)| Vivify {
                initial,
                expiry: expiry(self.now_s, exptime),
            }),
        };
        let hash = self.store.hash(&name(key));
        let (ours, our_cas) = match self.store.arith(&name(key), hash, &arithmetic, self.now_s) {
            ArithmeticOutcome::Done(counted) => {
                let (value, created) = (counted.value, counted.created);
                (Written::Counted { value, created }, Some(counted.cas))
            }
            ArithmeticOutcome::NotFound => (Written::NotFound, None),
            ArithmeticOutcome::Exists => (Written::Exists, None),
            ArithmeticOutcome::NotNumeric => (Written::NotNumeric, None),
            ArithmeticOutcome::NoSpace | ArithmeticOutcome::Deferred => {
                panic!("no room for a counter")
            }
        };
        let theirs = model::Arithmetic {
            mode: if up {
                protocol::ArithMode::Increment
            } else {
                protocol::ArithMode::Decrement
            },
            delta,
            vivify,
            compare: their_compare,
            explicit_cas: None,
        };
        let mut their_cas = None;
        self.agree(key, &ours, |pair| {
            match pair.model.arith(pair.now_s.into(), &name(key), &theirs) {
                model::ArithOutcome::Done {
                    number,
                    cas,
                    created,
                } => {
                    their_cas = Some(cas);
                    Written::Counted {
                        value: number,
                        created,
                    }
                }
                model::ArithOutcome::NotFound => Written::NotFound,
                model::ArithOutcome::Exists => Written::Exists,
                model::ArithOutcome::NonNumeric => Written::NotNumeric,
            }
        });
        if let Some(ours) = our_cas {
            self.cas.insert(key, (ours, their_cas.unwrap()));
        }
    }
}

fn our_mode(mode: SetMode) -> Mode {
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
