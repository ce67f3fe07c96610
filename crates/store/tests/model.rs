//! The store against the model: the same random operations, the same answers.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::HashMap;

use model::{Cache, SetOutcome};
use proptest::prelude::*;
use protocol::SetMode;
use store::{
    ArithOutcome, Arithmetic, Config, Deleted, Direction, Expiry, Item, Mode, Published, Read,
    Refused, Reserve, Store, Vivify, Worker, Write,
};

const KEYS: u8 = 6;
const ITEM_MAX: u32 = 2048;

/// CAS numbers differ between the two; operations name them by the write that made them.
#[derive(Debug, Clone, Copy)]
enum Compare {
    None,
    Present,
    Wrong,
    Zero,
}

#[derive(Debug, Clone)]
enum Operation {
    Get {
        key: u8,
        touch: Option<i32>,
        claim: bool,
    },
    Set {
        key: u8,
        mode: SetMode,
        value: Vec<u8>,
        flags: u32,
        exptime: i32,
        compare: Compare,
        invalidate: bool,
    },
    Delete {
        key: u8,
        compare: Compare,
    },
    Arith {
        key: u8,
        up: bool,
        delta: u64,
        vivify: Option<(u64, i32)>,
        compare: Compare,
    },
    Touch {
        key: u8,
        exptime: i32,
    },
    Flush {
        exptime: i32,
    },
    Tick {
        seconds: u32,
    },
    Maintain,
}

fn exptime() -> impl Strategy<Value = i32> {
    prop_oneof![4 => Just(0), 1 => Just(-1), 4 => 1..6_i32]
}

fn compare() -> impl Strategy<Value = Compare> {
    prop_oneof![
        3 => Just(Compare::None),
        2 => Just(Compare::Present),
        1 => Just(Compare::Wrong),
        1 => Just(Compare::Zero),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0..2_000_u64).prop_map(|number| number.to_string().into_bytes()),
        Just(u64::MAX.to_string().into_bytes()),
        Just(b"".to_vec()),
        Just(b"9 lives".to_vec()),
        (1990..2010_usize).prop_map(|len| vec![b'v'; len]),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let mode = prop_oneof![
        4 => Just(SetMode::Set),
        1 => Just(SetMode::Add),
        1 => Just(SetMode::Replace),
        1 => Just(SetMode::Append),
        1 => Just(SetMode::Prepend),
    ];
    let set = (
        0..KEYS,
        mode,
        value(),
        0..3_u32,
        exptime(),
        compare(),
        any::<bool>(),
    )
        .prop_map(
            |(key, mode, value, flags, exptime, compare, invalidate)| Operation::Set {
                key,
                mode,
                value,
                flags,
                exptime,
                compare,
                invalidate,
            },
        );
    let vivify = proptest::option::of((0..100_u64, exptime()));
    let delta = prop_oneof![0..2_000_u64, Just(u64::MAX)];
    prop_oneof![
        4 => (0..KEYS, proptest::option::of(exptime()), any::<bool>())
            .prop_map(|(key, touch, claim)| Operation::Get { key, touch, claim }),
        6 => set,
        1 => (0..KEYS, compare()).prop_map(|(key, compare)| Operation::Delete { key, compare }),
        3 => (0..KEYS, any::<bool>(), delta, vivify, compare()).prop_map(
            |(key, up, delta, vivify, compare)| Operation::Arith { key, up, delta, vivify, compare }
        ),
        1 => (0..KEYS, exptime()).prop_map(|(key, exptime)| Operation::Touch { key, exptime }),
        1 => (-1..4_i32).prop_map(|exptime| Operation::Flush { exptime }),
        2 => (1..4_u32).prop_map(|seconds| Operation::Tick { seconds }),
        1 => Just(Operation::Maintain),
    ]
}

/// Both, driven together.
struct Pair {
    store: Worker,
    model: Cache,
    now_s: u32,
    /// The CAS of a key's item in the store and in the model.
    cas: HashMap<u8, (u64, u64)>,
}

fn expiry(now_s: u32, exptime: i32) -> Expiry {
    match exptime {
        0 => Expiry::NEVER,
        ..0 => Expiry::at(0),
        seconds => Expiry::at(now_s + seconds.unsigned_abs()),
    }
}

impl Pair {
    fn new() -> Self {
        let config = Config {
            memory_bytes: 8 << 20,
            item_max: ITEM_MAX,
            hash_seed: 7,
            ..Config::DEFAULT
        };
        Self {
            store: Store::new(config).unwrap().worker(),
            model: Cache::new(ITEM_MAX as usize),
            now_s: 1,
            cas: HashMap::new(),
        }
    }

    /// The CAS to compare with, in the store's and the model's numbers.
    fn compare(&self, key: u8, compare: Compare) -> (Option<u64>, Option<u64>) {
        let (ours, theirs) = self.cas.get(&key).copied().unwrap_or((1, 1));
        match compare {
            Compare::None => (None, None),
            Compare::Present => (Some(ours), Some(theirs)),
            Compare::Wrong => (Some(ours + 1_000_000), Some(theirs + 1_000_000)),
            Compare::Zero => (Some(0), Some(0)),
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Get { key, touch, claim } => self.get(*key, *touch, *claim),
            Operation::Set {
                key,
                mode,
                value,
                flags,
                exptime,
                compare,
                invalidate,
            } => {
                self.set(*key, *mode, value, *flags, *exptime, *compare, *invalidate);
            }
            Operation::Delete { key, compare } => self.delete(*key, *compare),
            Operation::Arith {
                key,
                up,
                delta,
                vivify,
                compare,
            } => {
                self.arith(*key, *up, *delta, *vivify, *compare);
            }
            Operation::Touch { key, exptime } => {
                let name = [*key];
                let hash = self.store.hash(&name);
                let when = expiry(self.now_s, *exptime);
                let ours = self.store.touch(&name, hash, when, self.now_s);
                assert_eq!(ours, self.model.touch(self.now_s.into(), &name, *exptime));
            }
            Operation::Flush { exptime } => {
                let at_s = self.now_s.saturating_add_signed((*exptime).max(0));
                self.store.flush(at_s, self.now_s);
                self.model.flush_all(self.now_s.into(), *exptime);
            }
            Operation::Tick { seconds } => self.now_s += seconds,
            Operation::Maintain => {
                self.store.maintain(self.now_s, 64);
            }
        }
    }

    fn get(&mut self, key: u8, touch: Option<i32>, claim: bool) {
        let name = [key];
        let how = Read {
            touch: touch.map(|exptime| expiry(self.now_s, exptime)),
            claim,
            unnoticed: false,
        };
        let hash = self.store.hash(&name);
        let seen = |item: &Item<'_>| {
            let value: Vec<u8> = item.value().flatten().copied().collect();
            let left_s = item.expiry.seconds_left(self.now_s);
            Some((
                value,
                item.flags,
                left_s,
                item.stale,
                item.claimed,
                item.won,
            ))
        };
        let read = self.store.read(&name, hash, self.now_s, how, seen);
        let ours = read.ok().flatten();
        let now_s = u64::from(self.now_s);
        let theirs = match touch {
            Some(exptime) => self.model.get_and_touch(now_s, &name, exptime),
            None => self.model.get(now_s, &name).cloned(),
        };
        let theirs = theirs.map(|item| {
            let left_s = item
                .left_s(now_s)
                .map(|left_s| u32::try_from(left_s).unwrap());
            let won = claim && item.stale && !item.token_sent;
            if won {
                self.model.mark_token_sent(now_s, &name);
            }
            (
                item.value,
                item.client_flags,
                left_s,
                item.stale,
                item.token_sent,
                won,
            )
        });
        assert_eq!(ours, theirs);
    }

    #[expect(clippy::too_many_arguments, reason = "an operation has as many parts")]
    fn set(
        &mut self,
        key: u8,
        mode: SetMode,
        value: &[u8],
        flags: u32,
        exptime: i32,
        compare: Compare,
        invalidate: bool,
    ) {
        let name = [key];
        let (our_compare, their_compare) = self.compare(key, compare);
        // `Add` and `Replace` do not compare in the store; the session sees to what `ms` means.
        let compares = !matches!(mode, SetMode::Add | SetMode::Replace);
        let hash = self.store.hash(&name);
        let asked = Reserve {
            value_len: value.len(),
            flags,
            expiry: expiry(self.now_s, exptime),
            whole: true,
        };
        let reserved = self.store.reserve(&name, hash, &asked, self.now_s);
        let fits = self.model.fits(&name, flags, value.len());
        let Ok(mut upload) = reserved else {
            assert_eq!((reserved.unwrap_err(), fits), (Refused::TooLarge, false));
            return;
        };
        assert!(fits);
        self.store.fill(&mut upload, value, self.now_s).unwrap();
        let write = Write {
            mode: match mode {
                SetMode::Set => Mode::Set,
                SetMode::Add => Mode::Add,
                SetMode::Replace => Mode::Replace,
                SetMode::Append => Mode::Append,
                SetMode::Prepend => Mode::Prepend,
            },
            flags,
            expiry: expiry(self.now_s, exptime),
            compare: our_compare.filter(|_| compares),
            invalidate,
            explicit_cas: None,
        };
        let ours = self.store.publish(upload, &write, self.now_s);
        let theirs = model::Store {
            mode,
            value,
            client_flags: flags,
            exptime,
            compare: their_compare.filter(|_| compares),
            explicit_cas: None,
            invalidate,
        };
        let theirs = self.model.set(self.now_s.into(), &name, &theirs);
        match (ours, theirs) {
            (
                Published::Stored { cas, value_len },
                SetOutcome::Stored {
                    cas: their_cas,
                    value_len: their_len,
                },
            ) => {
                assert_eq!(value_len, their_len);
                let before = self.cas.insert(key, (cas, their_cas));
                assert!(
                    before.is_none_or(|(before, _)| before < cas),
                    "a CAS came again"
                );
            }
            (Published::NotStored | Published::NoRoom, SetOutcome::NotStored)
            | (Published::Exists, SetOutcome::Exists)
            | (Published::NotFound, SetOutcome::NotFound) => {}
            different => panic!("{different:?}"),
        }
    }

    fn delete(&mut self, key: u8, compare: Compare) {
        let name = [key];
        let (ours, theirs) = self.compare(key, compare);
        let ours = self
            .store
            .delete(&name, self.store.hash(&name), ours, self.now_s);
        let theirs = self.model.delete(self.now_s.into(), &name, theirs);
        match (ours, theirs) {
            (Deleted::Deleted, model::cache::DeleteOutcome::Deleted)
            | (Deleted::NotFound, model::cache::DeleteOutcome::NotFound)
            | (Deleted::Exists, model::cache::DeleteOutcome::Exists) => {}
            different => panic!("{different:?}"),
        }
    }

    fn arith(
        &mut self,
        key: u8,
        up: bool,
        delta: u64,
        vivify: Option<(u64, i32)>,
        compare: Compare,
    ) {
        let name = [key];
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
        let hash = self.store.hash(&name);
        let ours = self.store.arith(&name, hash, &arithmetic, self.now_s);
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
        match (ours, self.model.arith(self.now_s.into(), &name, &theirs)) {
            (
                ArithOutcome::Counted(counted),
                model::ArithOutcome::Done {
                    number,
                    cas,
                    created,
                },
            ) => {
                assert_eq!((counted.value, counted.created), (number, created));
                self.cas.insert(key, (counted.cas, cas));
            }
            (ArithOutcome::NotFound, model::ArithOutcome::NotFound)
            | (ArithOutcome::Exists, model::ArithOutcome::Exists)
            | (ArithOutcome::NotNumeric, model::ArithOutcome::NonNumeric) => {}
            different => panic!("{different:?}"),
        }
    }
}

proptest! {
    #[test]
    fn the_store_answers_as_the_model_does(operations in prop::collection::vec(operation(), 1..120)) {
        let mut pair = Pair::new();
        for operation in &operations {
            pair.apply(operation);
        }
        for key in 0..KEYS {
            pair.get(key, None, false);
        }
    }
}
