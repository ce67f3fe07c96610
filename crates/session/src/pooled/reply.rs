//! A reply that waits for the result of an operation on the pool, and its encoding.

use pool::{Action, Change, Item, NewItem, OperationError, Outcome as PoolOutcome, Refusal};
use protocol::Rejection;
use service::{Abandoned, NoPin, Output};
use store::{Direction, Mode};

use super::Completed;
use super::item::{PooledItem, expiry};
use super::plan::{TOO_MANY, failure};
use crate::counters::{Counter, Counters};
use crate::encode::Encode;
use crate::limits::VIVIFY_TRIES_MAX;
use crate::now::Now;
use crate::operation::{ArithOptions, ReadOptions, StoreOptions};
use crate::outcome::{ArithOutcome, DeleteOutcome, FoundItem, Outcome, StoreOutcome, Times};
use crate::prefixes::Access;
use crate::protocols::{OwnedEncoder, WithEncoder};

/// The command that an operation on the pool executes.
pub(super) enum Command {
    Read(ReadOptions),
    /// The read of one key of a request with several keys.
    ReadOne {
        touch: Option<i32>,
    },
    /// The end of a read of several keys: its reply is the line after the items. It has no
    /// operation on the pool.
    EndOfKeys {
        /// A key that is too long follows the others.
        has_bad_key: bool,
    },
    Store(StoreOptions),
    /// A storage command whose value was too long to be stored. The operation deletes the item that
    /// the command should have replaced.
    StoreTooLong,
    Delete,
    Arith(ArithOptions),
    Touch,
}

impl Command {
    /// Whether the command only reads. A read that sets the time to live does not.
    pub(super) fn is_read(&self) -> bool {
        match self {
            Self::Read(options) => options.touch.is_none(),
            Self::ReadOne { touch } => touch.is_none(),
            Self::EndOfKeys { .. } => true,
            _ => false,
        }
    }
}

/// A change that creates the item if it is missing (flag `N`). Other servers may store and delete
/// the item meanwhile, so the change and the creation are tried alternately.
pub(super) struct Vivify {
    change: Change,
    item: NewItem,
    /// Whether the last operation was the creation. If false, it was the change.
    is_creating: bool,
    /// The number of operations after the first.
    tries: u32,
}

impl Vivify {
    pub(super) fn new(change: &Change, item: NewItem) -> Box<Self> {
        Box::new(Self {
            change: change.clone(),
            item,
            is_creating: false,
            tries: 0,
        })
    }

    /// Returns the operation that follows a result. `None`: the result is final.
    fn next(&mut self, done: &PoolOutcome) -> Option<Action> {
        let change = match (self.is_creating, done) {
            (false, PoolOutcome::Missing) => Change::Add(self.item.clone()),
            (true, PoolOutcome::Refused(Refusal::Exists)) => self.change.clone(),
            _ => return None,
        };
        if self.tries == VIVIFY_TRIES_MAX {
            return None;
        }
        self.tries += 1;
        self.is_creating = !self.is_creating;
        Some(Action::Change(change))
    }
}

/// Why an operation has no result.
#[derive(Debug, Clone, Copy)]
pub(super) enum Failure {
    Operation(OperationError),
    /// The operation was not begun: the worker has no client of the pool, no ticket was free, or
    /// the client refused the operation.
    NotAccepted,
}

impl Failure {
    /// The outcome of a command whose operation has failed.
    fn outcome(self, command: &Command) -> Outcome {
        match (self, command) {
            (Self::Operation(OperationError::Full), Command::Store(_)) => {
                Outcome::Store(StoreOutcome::NoMemory)
            }
            (Self::Operation(error), _) => Outcome::Failed {
                reply: failure(error),
            },
            (Self::NotAccepted, _) => Outcome::Failed { reply: TOO_MANY },
        }
    }
}

/// Whether the operation of a reply is complete, and its result.
pub(super) enum Progress {
    Waiting,
    Done(Result<PoolOutcome, Failure>),
}

/// A reply that is not written yet.
pub(super) struct Reply {
    pub(super) encoder: OwnedEncoder,
    /// The decoded key.
    pub(super) key: Box<[u8]>,
    pub(super) command: Command,
    pub(super) vivify: Option<Box<Vivify>>,
    pub(super) progress: Progress,
}

/// The parts of a turn (one call of the session) that writing a reply uses.
pub(super) struct Writing<'a> {
    pub(super) now: Now,
    pub(super) counters: &'a Counters,
    /// Why a key of the present request with several keys could not be read. The reply then ends
    /// with the error line of this failure, instead of the line that ends the values.
    pub(super) keys_failed: &'a mut Option<Failure>,
    pub(super) out: &'a mut Output<NoPin>,
}

impl Reply {
    /// Stores the result of the operation. Returns the length of the value that the reply now
    /// holds, in bytes.
    pub(super) fn complete(&mut self, result: Result<Completed, Abandoned>) -> usize {
        let result = match result {
            Ok(Some(reply)) => reply.map_err(Failure::Operation),
            Ok(None) => Err(Failure::NotAccepted),
            // The client of the pool ended while the operation was in progress.
            Err(Abandoned) if self.command.is_read() => {
                Err(Failure::Operation(OperationError::Unavailable))
            }
            Err(Abandoned) => Err(Failure::Operation(OperationError::Unknown)),
        };
        self.progress = Progress::Done(result);
        self.held_len()
    }

    /// Length in bytes of the value that the reply holds until it is written. 0 if it holds none.
    pub(super) fn held_len(&self) -> usize {
        match &self.progress {
            Progress::Done(Ok(PoolOutcome::Found(item) | PoolOutcome::Stored(item))) => {
                item.content.value.len()
            }
            _ => 0,
        }
    }

    /// Returns a further operation that has to be performed before the reply can be written.
    pub(super) fn next_action(&mut self) -> Option<Action> {
        let Progress::Done(Ok(done)) = &self.progress else {
            return None;
        };
        if let Some(action) = self.vivify.as_mut().and_then(|vivify| vivify.next(done)) {
            return Some(action);
        }
        match (&self.command, done) {
            (Command::Store(options), PoolOutcome::Refused(Refusal::TooLong))
                if options.delete_old_if_rejected && !extends(options) =>
            {
                self.command = Command::StoreTooLong;
                Some(Action::Change(Change::Remove))
            }
            _ => None,
        }
    }

    /// Writes the reply, and counts the request. Called when the operation is complete.
    pub(super) fn write(self, writing: Writing<'_>) {
        let Self {
            encoder,
            key,
            command,
            vivify,
            progress,
        } = self;
        let Progress::Done(result) = progress else {
            return;
        };
        let has_created = vivify.is_some_and(|vivify| vivify.is_creating);
        encoder.borrow().dispatch(Write {
            key: &key,
            command: &command,
            has_created,
            result,
            writing,
        });
    }
}

/// Whether the command is an append or a prepend.
fn extends(options: &StoreOptions) -> bool {
    matches!(options.mode, Mode::Append | Mode::Prepend)
}

/// The arguments of [`Reply::write`]. `run` is compiled separately for each encoder.
struct Write<'r, 'a> {
    key: &'r [u8],
    command: &'r Command,
    /// The key had no item, and the command has created it.
    has_created: bool,
    result: Result<PoolOutcome, Failure>,
    writing: Writing<'a>,
}

impl WithEncoder for Write<'_, '_> {
    type Result = ();

    fn run(mut self, encoder: &impl Encode) {
        // Takes the result out of `self`. `Missing` is only a placeholder.
        let outcome = match std::mem::replace(&mut self.result, Ok(PoolOutcome::Missing)) {
            Ok(done) => self.outcome(encoder, &done),
            Err(failure) if matches!(self.command, Command::ReadOne { .. }) => {
                self.writing.keys_failed.get_or_insert(failure);
                return;
            }
            Err(failure) => {
                let outcome = failure.outcome(self.command);
                if matches!(outcome, Outcome::Store(StoreOutcome::NoMemory)) {
                    self.writing.counters.count(Counter::StoreNoMemory);
                }
                Some(outcome)
            }
        };
        if let Some(outcome) = outcome {
            encoder.outcome(self.key, outcome, self.writing.out.bytes_mut());
        }
    }
}

impl Write<'_, '_> {
    /// Writes the item that was read, if any, and counts the request. Returns the outcome that the
    /// caller writes: `None` for one key of several, because only `EndOfKeys` has an outcome.
    fn outcome(&mut self, encoder: &impl Encode, done: &PoolOutcome) -> Option<Outcome> {
        let counters = self.writing.counters;
        match self.command {
            Command::Read(options) => {
                let found = self.read(encoder, options, done);
                Some(Outcome::Read { found })
            }
            Command::ReadOne { touch } => {
                self.read(encoder, &ReadOptions::plain(*touch), done);
                None
            }
            Command::EndOfKeys { has_bad_key } => Some(match self.writing.keys_failed.take() {
                None if *has_bad_key => Outcome::Rejected(Rejection::BadGetKey),
                None => Outcome::ReadMany,
                Some(failure) => failure.outcome(self.command),
            }),
            Command::Store(options) => Some(Outcome::Store(self.stored(options, done))),
            Command::StoreTooLong => {
                counters.count(Counter::StoreTooLarge);
                Some(Outcome::Store(StoreOutcome::TooLarge))
            }
            Command::Delete => {
                let outcome = match done {
                    PoolOutcome::Stored(_) => DeleteOutcome::Done,
                    PoolOutcome::Refused(_) => DeleteOutcome::Exists,
                    PoolOutcome::Missing | PoolOutcome::Found(_) => DeleteOutcome::NotFound,
                };
                let is_hit = outcome == DeleteOutcome::Done;
                self.count(is_hit, Counter::DeleteHits, Counter::DeleteMisses);
                self.count_prefix(Access::Delete);
                Some(Outcome::Delete(outcome))
            }
            Command::Arith(options) => Some(Outcome::Arith(self.counted(options, done))),
            Command::Touch => {
                let found = matches!(done, PoolOutcome::Stored(_));
                counters.count(Counter::CmdTouch);
                self.count(found, Counter::TouchHits, Counter::TouchMisses);
                Some(Outcome::Touch { found })
            }
        }
    }

    /// Writes the item, if the read has found one. Returns whether it has.
    fn read(&mut self, encoder: &impl Encode, options: &ReadOptions, done: &PoolOutcome) -> bool {
        let item = match done {
            // A read that sets the time to live is a change, and its result is `Stored`.
            PoolOutcome::Found(item) | PoolOutcome::Stored(item) => Some(item),
            PoolOutcome::Missing | PoolOutcome::Refused(_) => None,
        };
        self.count_read(options, item.is_some());
        let Some(item) = item else {
            return false;
        };
        let known_cas = options.rare.and_then(|rare| rare.known_cas);
        let found = FoundItem {
            key: self.key,
            item: &PooledItem {
                item,
                now: self.writing.now,
            },
            with_value: options.with_value && known_cas != Some(item.unique),
            options,
            now: &self.writing.now,
        };
        // An item of the pool needs no pin, so it is always written.
        encoder.item(&found, self.writing.out).is_some()
    }

    /// Counts a read as the cache with a store does. A read that sets the time to live counts as a
    /// touch. The exception is a miss of the meta protocol, whose reads always have rare options.
    fn count_read(&self, options: &ReadOptions, is_hit: bool) {
        let is_touch = options.touch.is_some() && (is_hit || options.rare.is_none());
        self.count_prefix(Access::of_read(is_hit));
        if is_touch {
            self.writing.counters.count(Counter::CmdTouch);
            self.count(is_hit, Counter::TouchHits, Counter::TouchMisses);
        } else {
            self.writing.counters.count(Counter::CmdGet);
            self.count(is_hit, Counter::GetHits, Counter::GetMisses);
        }
    }

    fn stored(&self, options: &StoreOptions, done: &PoolOutcome) -> StoreOutcome {
        let value_len = options.value_len;
        let compares = options.cas.compare().is_some();
        self.writing.counters.count(Counter::CmdSet);
        self.count_prefix(Access::Set);
        match done {
            PoolOutcome::Stored(item) => {
                if compares {
                    self.writing.counters.count(Counter::CasHits);
                }
                StoreOutcome::Stored {
                    cas: item.unique,
                    value_len: stored_len(options, item),
                }
            }
            PoolOutcome::Refused(Refusal::Different) => {
                self.writing.counters.count(Counter::CasBadval);
                StoreOutcome::Exists { value_len }
            }
            PoolOutcome::Missing if compares => {
                self.writing.counters.count(Counter::CasMisses);
                StoreOutcome::NotFound { value_len }
            }
            // As in the cache with a store, the outcome of an append whose result would be too long
            // is `NotStored`.
            PoolOutcome::Refused(Refusal::TooLong) if !extends(options) => {
                self.writing.counters.count(Counter::StoreTooLarge);
                StoreOutcome::TooLarge
            }
            PoolOutcome::Missing | PoolOutcome::Found(_) | PoolOutcome::Refused(_) => {
                StoreOutcome::NotStored { value_len }
            }
        }
    }

    fn counted(&self, options: &ArithOptions, done: &PoolOutcome) -> ArithOutcome {
        let (hits, misses) = match options.direction {
            Direction::Up => (Counter::IncrHits, Counter::IncrMisses),
            Direction::Down => (Counter::DecrHits, Counter::DecrMisses),
        };
        match done {
            PoolOutcome::Stored(item) => {
                if !self.has_created {
                    self.writing.counters.count(hits);
                }
                let value = std::str::from_utf8(&item.content.value);
                let now = self.writing.now;
                let vivify = options.vivify.filter(|_| self.has_created);
                ArithOutcome::Counted {
                    // The stored value is a number: the result of the arithmetic, or the initial
                    // value.
                    value: value.map_or(0, |digits| digits.parse().unwrap_or(0)),
                    cas: item.unique,
                    times: Times {
                        now_s: now.elapsed_s,
                        before: expiry(item.content.expiry_s, now),
                        touched: None,
                        vivified: vivify.map(|vivify| now.expiry(vivify.reply_exptime)),
                    },
                }
            }
            PoolOutcome::Refused(Refusal::NotANumber) => ArithOutcome::NotNumeric,
            PoolOutcome::Refused(Refusal::TooLong) => ArithOutcome::NoMemory,
            PoolOutcome::Missing | PoolOutcome::Found(_) | PoolOutcome::Refused(_) => {
                self.writing.counters.count(misses);
                ArithOutcome::NotFound
            }
        }
    }

    fn count(&self, is_hit: bool, hits: Counter, misses: Counter) {
        let counters = self.writing.counters;
        counters.count(if is_hit { hits } else { misses });
    }

    fn count_prefix(&self, access: Access) {
        if self.writing.counters.counts_prefixes() {
            self.writing.counters.count_prefix_of(self.key, access);
        }
    }
}

/// Length in bytes of the item's complete value after a storage command. For a set, the pool leaves
/// the content out of the result, so the length is that of the command's value.
fn stored_len(options: &StoreOptions, item: &Item) -> u32 {
    if extends(options) {
        item.content.value.len() as u32
    } else {
        options.value_len
    }
}
