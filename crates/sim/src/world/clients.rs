//! A client with what it is to do.

use std::collections::{HashMap, VecDeque};

use measure::Action as Called;
use pool::{Action, Change, Client, ClientConfig, NewItem, Operation, OperationError, Outcome};
use workload::{Popularity, Purpose, RandomStream, RecordSampler};

use super::Histories;

/// What clients do: each has a number of operations outstanding until it has made all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Operations of a client.
    pub operations: u64,
    /// Operations of a client at once.
    pub outstanding: usize,
    /// Number of keys.
    pub keys: u32,
    /// Exponent of Zipf's law over the keys; 0: all are equally popular.
    pub theta: f64,
    /// Greatest length of a value in bytes, at least 8. Each value has its own length, from half of
    /// this on.
    pub value_len: usize,
    /// Operations of a hundred that write.
    pub writes_percent: u64,
    /// Writes of a hundred that are no plain stores: deletions and conditional ones.
    pub others_percent: u64,
    /// Plain stores of a hundred whose value has expired when it is stored, which deletes the key.
    pub expired_percent: u64,
}

/// A client, its load, and what it has seen.
pub(crate) struct ClientHost {
    pub(crate) client: Client,
    /// Its name in histories.
    pub(crate) name: u32,
    /// Operations that it still has to begin.
    pub(crate) left: u64,
    load: Load,
    random: RandomStream,
    sampler: RecordSampler,
    /// Operations that come before those of the load: keys, and whether they are stored or read.
    prepared: VecDeque<(u32, bool)>,
    /// It has crashed, and another one will replace it.
    pub(crate) is_down: bool,
    /// Losses of its connection after which it stops for good; none: it connects again.
    pub(crate) reconnects_max: Option<u64>,
    /// It has stopped for good.
    pub(crate) has_stopped: bool,
    /// Operations that ended with a result.
    pub(crate) completed: u64,
    next_id: u64,
    /// The key of each operation that has not ended.
    open: HashMap<u64, u32>,
    /// The version of each key that was read last: its unique number and its value.
    versions: HashMap<u32, (u64, u64)>,
    /// Operations that ended with an error.
    pub(crate) failed: u64,
}

impl ClientHost {
    pub(crate) fn new(config: ClientConfig, name: u32, load: &Load, seed: u64) -> Self {
        Self {
            client: Client::new(config),
            name,
            left: load.operations,
            load: *load,
            random: RandomStream::new(seed, Purpose::Requests, name.into()),
            sampler: sampler(load),
            prepared: VecDeque::new(),
            is_down: false,
            reconnects_max: None,
            has_stopped: false,
            completed: 0,
            next_id: 0,
            open: HashMap::new(),
            versions: HashMap::new(),
            failed: 0,
        }
    }

    /// Begins another load.
    pub(crate) fn set_load(&mut self, load: &Load) {
        self.load = *load;
        self.left = load.operations;
        self.sampler = sampler(load);
    }

    /// Begins to store or read these keys, one after another.
    pub(crate) fn prepare(&mut self, keys: impl Iterator<Item = u32>, is_stored: bool) {
        self.prepared = keys.map(|key| (key, is_stored)).collect();
        self.left = self.prepared.len() as u64;
    }

    /// Whether all operations have ended, or none will any more.
    pub(crate) fn is_done(&self) -> bool {
        self.has_stopped || (self.left == 0 && self.open.is_empty())
    }

    /// Stops for good if it has lost its connection too often.
    fn check_connection(&mut self, histories: &mut Histories) {
        let reconnects = self.client.counters().reconnects;
        if self.reconnects_max.is_some_and(|most| reconnects > most) {
            self.is_down = true;
            self.has_stopped = true;
            histories.abandon(self.name);
        }
    }

    /// Begins operations, and sends what is due.
    pub(crate) fn poll(
        &mut self,
        now_ns: u64,
        histories: &mut Histories,
        send: &mut impl FnMut(&[u8]),
    ) {
        while !self.is_down {
            while let Some(completion) = self.client.take_completion() {
                self.complete(now_ns, completion.id, completion.result, histories);
            }
            while self.left > 0 && self.open.len() < self.load.outstanding {
                self.begin(now_ns, histories);
            }
            self.client.transmit(now_ns, send);
            self.check_connection(histories);
            match self.client.take_completion() {
                None => return,
                Some(completion) => {
                    self.complete(now_ns, completion.id, completion.result, histories);
                }
            }
        }
    }

    /// Begins to read all keys.
    pub(crate) fn read_all(&mut self, now_ns: u64, keys: u32, histories: &mut Histories) {
        for key in 0..keys {
            self.submit(
                now_ns,
                key,
                Action::Get,
                Called::Read { found: None },
                histories,
            );
        }
    }

    /// A value that no other write has: the client's name and a number, padded.
    fn value(&mut self) -> (u64, NewItem) {
        let number = u64::from(self.name) << 32 | self.next_id;
        let half = self.load.value_len / 2;
        let len = (half + self.random.below(half as u64 + 1) as usize).max(8);
        let mut value = number.to_le_bytes().to_vec();
        value.resize(len, number as u8);
        let item = NewItem {
            value,
            ..NewItem::default()
        };
        (number, item)
    }

    fn begin(&mut self, now_ns: u64, histories: &mut Histories) {
        self.next_id += 1;
        self.left -= 1;
        if let Some((key, is_stored)) = self.prepared.pop_front() {
            let (action, called) = if is_stored {
                self.store()
            } else {
                (Action::Get, Called::Read { found: None })
            };
            self.submit(now_ns, key, action, called, histories);
            return;
        }
        let key = self.sampler.draw(&mut self.random) as u32;
        let is_write = self.random.below(100) < self.load.writes_percent;
        let (action, called) = if is_write {
            self.write(key)
        } else {
            (Action::Get, Called::Read { found: None })
        };
        self.submit(now_ns, key, action, called, histories);
    }

    fn submit(
        &mut self,
        now_ns: u64,
        key: u32,
        action: Action,
        called: Called,
        histories: &mut Histories,
    ) {
        self.next_id += 1;
        let id = self.next_id;
        histories.invoke(self.name, id, key as usize, now_ns, called);
        self.open.insert(id, key);
        let operation = Operation {
            key: format!("key{key:05}").into_bytes(),
            action,
        };
        if self.client.submit(now_ns, id, operation).is_err() {
            // Not begun: it tells nothing.
            self.open.remove(&id);
            histories.answer(self.name, id, now_ns, None);
        }
    }

    /// A plain store.
    fn store(&mut self) -> (Action, Called) {
        let (value, item) = self.value();
        (Action::Set(item), Called::Write { value })
    }

    /// A plain store of a value that lives, or that has expired: readers find nothing then.
    fn store_plain(&mut self, value: u64, item: NewItem) -> (Action, Called) {
        let percent = self.load.expired_percent;
        if percent == 0 || self.random.below(100) >= percent {
            return (Action::Set(item), Called::Write { value });
        }
        let expired = NewItem {
            expiry_s: 1,
            ..item
        };
        let called = Called::Delete { was_present: None };
        (Action::Set(expired), called)
    }

    fn write(&mut self, key: u32) -> (Action, Called) {
        let is_plain = self.random.below(100) >= self.load.others_percent;
        let (value, item) = self.value();
        let swap = |expected| Called::CompareSwap {
            expected,
            value,
            swapped: true,
        };
        match self.random.below(4) {
            _ if is_plain => self.store_plain(value, item),
            0 => (Action::Delete, Called::Delete { was_present: None }),
            1 => (Action::Change(Change::Add(item)), swap(None)),
            2 => (
                Action::Change(Change::Remove),
                Called::Delete { was_present: None },
            ),
            _ => match self.versions.get(&key) {
                None => (Action::Set(item), Called::Write { value }),
                Some(&(unique, expected)) => {
                    let change = Change::CompareSwap { unique, item };
                    (Action::Change(change), swap(Some(expected)))
                }
            },
        }
    }

    fn complete(
        &mut self,
        now_ns: u64,
        id: u64,
        result: Result<Outcome, OperationError>,
        histories: &mut Histories,
    ) {
        let Some(key) = self.open.remove(&id) else {
            return;
        };
        self.failed += u64::from(result.is_err());
        self.completed += u64::from(result.is_ok());
        if let Ok(Outcome::Found(item)) = &result {
            let value = number(&item.content.value);
            self.versions.insert(key, (item.unique, value));
        }
        let Some(called) = histories.called(self.name, id) else {
            return;
        };
        match result {
            Err(OperationError::Unknown) => histories.lose(self.name, id),
            Err(_) => histories.answer(self.name, id, now_ns, None),
            Ok(outcome) => {
                histories.answer(self.name, id, now_ns, Some(answered(called, outcome)));
            }
        }
    }
}

/// All clients agree which keys are popular.
fn sampler(load: &Load) -> RecordSampler {
    let popularity = if load.theta > 0.0 {
        Popularity::Zipf(load.theta)
    } else {
        Popularity::Uniform
    };
    RecordSampler::new(popularity, load.keys.into(), 1)
}

/// The call with its answer.
fn answered(called: Called, outcome: Outcome) -> Called {
    let is_stored = matches!(outcome, Outcome::Stored(_));
    match called {
        Called::Read { .. } => Called::Read {
            found: match outcome {
                Outcome::Found(item) => Some(number(&item.content.value)),
                _ => None,
            },
        },
        Called::CompareSwap {
            expected, value, ..
        } => Called::CompareSwap {
            expected,
            value,
            swapped: is_stored,
        },
        // A deletion that found nothing says so; one that did not look does not.
        Called::Delete { .. } if !is_stored => Called::Delete {
            was_present: Some(false),
        },
        other => other,
    }
}

/// The number at the beginning of a value.
fn number(value: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = value.len().min(8);
    bytes[..len].copy_from_slice(&value[..len]);
    u64::from_le_bytes(bytes)
}
