//! The translation of a request into one operation on the pool, or into a reply if the pool cannot
//! execute the request.

use pool::{Action, Change, NewItem, is_storable};
use protocol::reply;
use store::{Direction, Mode};

use super::item::expiry_s;
use super::reply::{Command, Vivify};
use crate::login::Login;
use crate::now::Now;
use crate::operation::{
    ArithOptions, MarkOptions, Operation, ReadCount, ReadOptions, ReadVivify, ServerCommand,
    StoreOptions,
};
use crate::outcome::{Outcome, StoreOutcome};
use crate::protocols::Encoder;

/// The replies to requests that a pool cannot execute.
mod refused {
    pub(super) const FLUSH: &[u8] = b"SERVER_ERROR a memory pool cannot be flushed\r\n";
    pub(super) const MEMORY_LIMIT: &[u8] =
        b"SERVER_ERROR the memory limit is that of the pool's memory node\r\n";
    pub(super) const STATES: &[u8] =
        b"CLIENT_ERROR a memory pool has no stale or claimed items (flags I, N and R)\r\n";
    pub(super) const EXPLICIT_CAS: &[u8] =
        b"CLIENT_ERROR a memory pool gives items their CAS itself (flag E)\r\n";
    pub(super) const ACCESSES: &[u8] =
        b"CLIENT_ERROR a memory pool records no reads (me, flags h and l)\r\n";
    pub(super) const COMPARES: &[u8] =
        b"CLIENT_ERROR a memory pool compares the CAS only to set, replace and delete (flag C)\r\n";
    pub(super) const ARITH_TOUCH: &[u8] =
        b"CLIENT_ERROR arithmetic in a memory pool changes no time to live (flag T)\r\n";
}

/// How a session answers a request.
pub(super) enum Plan<'i> {
    /// Perform an operation on the key.
    Submit(Submission),
    /// Read several keys.
    ReadMany,
    /// Reply without an operation on the pool.
    Reply(Outcome),
    /// Execute a command to the server.
    Server(ServerCommand<'i>),
    /// Check a password.
    Login(Login<'i>),
    /// Reply, then close the connection.
    Close(Outcome),
}

/// An operation on the pool, and the command that it executes.
pub(super) struct Submission {
    pub(super) action: Action,
    pub(super) command: Command,
    /// How to create the item if the key has none (memcached's vivify). `None`: do not create it.
    pub(super) vivify: Option<Box<Vivify>>,
}

impl Submission {
    fn new(action: Action, command: Command) -> Self {
        Self {
            action,
            command,
            vivify: None,
        }
    }

    fn change(change: Change, command: Command) -> Self {
        Self::new(Action::Change(change), command)
    }
}

/// The bytes between the command line of a request and the next command: a value and its line end.
#[derive(Clone, Copy)]
pub(super) struct Data<'i> {
    /// The part of these bytes that is in the input.
    pub(super) bytes: &'i [u8],
    /// The total number of these bytes. Some of them may not have arrived yet.
    pub(super) len: u64,
}

/// Returns the plan of a request. If the request has a value, and a pool can store a value of that
/// length, then all bytes of `data` must have arrived.
pub(super) fn plan<'i>(
    operation: &Operation<'i>,
    encoder: &Encoder<'_>,
    key: &[u8],
    data: Data<'_>,
    now: Now,
) -> Plan<'i> {
    let failed = |reply| Plan::Reply(Outcome::Failed { reply });
    let submission = match operation {
        Operation::Read(options) => read(options, encoder, now),
        Operation::ReadMany { .. } => return Plan::ReadMany,
        Operation::Store(options) => match value(key, options, data, encoder.value_end()) {
            Ok(value) => store(options, value, now),
            Err(plan) => return plan,
        },
        Operation::Delete { compare } => Ok(delete(*compare)),
        Operation::Mark(options) => mark(options, now),
        Operation::Arith(options) => arith(options, now),
        Operation::Touch { exptime } => {
            let expiry_s = expiry_s(*exptime, now);
            Ok(Submission::change(
                Change::Touch { expiry_s },
                Command::Touch,
            ))
        }
        Operation::Flush { .. } => Err(refused::FLUSH),
        Operation::Server(ServerCommand::MemoryLimit { .. }) => Err(refused::MEMORY_LIMIT),
        Operation::Server(command) => return Plan::Server(*command),
        Operation::Noop => return Plan::Reply(Outcome::Noop),
        Operation::Quit => return Plan::Close(Outcome::Quit),
        Operation::Login(login) => return Plan::Login(*login),
        Operation::ListMechanisms => return Plan::Reply(Outcome::Mechanisms),
        Operation::RejectAndClose { rejection } => {
            return Plan::Close(Outcome::Rejected(*rejection));
        }
        Operation::Reject { rejection, .. } => return Plan::Reply(Outcome::Rejected(*rejection)),
    };
    submission.map_or_else(failed, Plan::Submit)
}

/// The operation for a request, or the reply to a request that the pool cannot execute.
type SubmissionResult = Result<Submission, &'static [u8]>;

/// Returns the value of a storage command. If the value cannot be stored, returns the plan of the
/// command.
fn value<'d, 'i>(
    key: &[u8],
    options: &StoreOptions,
    data: Data<'d>,
    value_end: &[u8],
) -> Result<&'d [u8], Plan<'i>> {
    let len = options.value_len as usize;
    if !is_storable(key.len(), len) {
        return Err(if options.delete_old_if_rejected {
            Plan::Submit(Submission::change(Change::Remove, Command::StoreTooLong))
        } else {
            Plan::Reply(Outcome::Store(StoreOutcome::TooLarge))
        });
    }
    match data.bytes.split_at_checked(len) {
        Some((value, end)) if end == value_end => Ok(value),
        _ => Err(Plan::Reply(Outcome::Store(StoreOutcome::BadDataChunk))),
    }
}

fn read(options: &ReadOptions, encoder: &Encoder<'_>, now: Now) -> SubmissionResult {
    let shows_accesses = |flag| matches!(flag, b'h' | b'l');
    if matches!(options.count, ReadCount::Metadata) || encoder.has_meta_flag(shows_accesses) {
        return Err(refused::ACCESSES);
    }
    if let Some(rare) = &options.rare {
        if rare.recache.is_some() || !matches!(rare.vivify, ReadVivify::Never) {
            return Err(refused::STATES);
        }
        if rare.explicit_cas.is_some() {
            return Err(refused::EXPLICIT_CAS);
        }
    }
    Ok(Submission::new(
        read_action(options.touch, now),
        Command::Read(*options),
    ))
}

/// The operation of a read that sets the time to live `touch`, if given.
pub(super) fn read_action(touch: Option<i32>, now: Now) -> Action {
    match touch {
        None => Action::Get,
        Some(exptime) => Action::Change(Change::Touch {
            expiry_s: expiry_s(exptime, now),
        }),
    }
}

fn store(options: &StoreOptions, value: &[u8], now: Now) -> SubmissionResult {
    if options.invalidate {
        return Err(refused::STATES);
    }
    if options.cas.explicit().is_some() {
        return Err(refused::EXPLICIT_CAS);
    }
    let item = || NewItem {
        value: value.to_vec(),
        client_flags: options.flags,
        expiry_s: expiry_s(options.exptime, now),
    };
    let command = Command::Store(*options);
    let change = match (options.mode, options.cas.compare()) {
        (Mode::Set, None) => return Ok(Submission::new(Action::Set(item()), command)),
        (Mode::Set, Some(unique)) => Change::CompareSwap {
            unique,
            item: item(),
        },
        (_, Some(_)) => return Err(refused::COMPARES),
        (Mode::Add, None) => Change::Add(item()),
        (Mode::Replace, None) => Change::Replace(item()),
        (Mode::Append, None) => Change::Append(value.to_vec()),
        (Mode::Prepend, None) => Change::Prepend(value.to_vec()),
    };
    let is_extension = matches!(options.mode, Mode::Append | Mode::Prepend);
    let vivify = (options.vivify && is_extension).then(|| Vivify::new(&change, item()));
    let submission = Submission::change(change, command);
    Ok(Submission {
        vivify,
        ..submission
    })
}

fn delete(compare: Option<u64>) -> Submission {
    let change = match compare {
        None => Change::Remove,
        // The pool compares the CAS (its name there is `unique`) only when it stores an item. So
        // the deletion stores an item that expired in second 1, which is always past.
        Some(unique) => Change::CompareSwap {
            unique,
            item: NewItem {
                expiry_s: 1,
                ..NewItem::default()
            },
        },
    };
    Submission::change(change, Command::Delete)
}

/// Returns the operation of `md` with the flag `x`: the item remains, but its value becomes empty.
fn mark(options: &MarkOptions, now: Now) -> SubmissionResult {
    if options.invalidate {
        return Err(refused::STATES);
    }
    if options.cas.explicit().is_some() {
        return Err(refused::EXPLICIT_CAS);
    }
    let item = NewItem {
        value: Vec::new(),
        client_flags: options.remove_value_and_set_flags.unwrap_or(0),
        expiry_s: options.exptime.map_or(0, |exptime| expiry_s(exptime, now)),
    };
    let change = match options.cas.compare() {
        None => Change::Replace(item),
        Some(unique) => Change::CompareSwap { unique, item },
    };
    Ok(Submission::change(change, Command::Delete))
}

fn arith(options: &ArithOptions, now: Now) -> SubmissionResult {
    // As in memcached, if an arithmetic command contains the CAS 0, the item may have any CAS.
    if options.cas.compare().is_some_and(|compare| compare != 0) {
        return Err(refused::COMPARES);
    }
    if options.cas.explicit().is_some() {
        return Err(refused::EXPLICIT_CAS);
    }
    if options.touch.is_some() {
        return Err(refused::ARITH_TOUCH);
    }
    let change = match options.direction {
        Direction::Up => Change::Increment(options.delta),
        Direction::Down => Change::Decrement(options.delta),
    };
    let vivify = options.vivify.map(|vivify| {
        let item = NewItem {
            value: options.initial.to_string().into_bytes(),
            client_flags: 0,
            expiry_s: expiry_s(vivify.exptime, now),
        };
        Vivify::new(&change, item)
    });
    let submission = Submission::change(change, Command::Arith(*options));
    Ok(Submission {
        vivify,
        ..submission
    })
}

/// The reply to an operation that has failed.
pub(super) const fn failure(error: pool::OperationError) -> &'static [u8] {
    use pool::OperationError::{Contended, Full, Unavailable, Unknown};
    match error {
        Full => reply::NO_MEMORY,
        Contended => {
            b"SERVER_ERROR others changed the key too often meanwhile; nothing was stored\r\n"
        }
        Unavailable => {
            b"SERVER_ERROR the memory pool did not answer in time; nothing was stored\r\n"
        }
        Unknown => {
            b"SERVER_ERROR the memory pool did not answer in time; whether the value was stored is \
              unknown\r\n"
        }
    }
}

/// The reply if an operation was not accepted.
pub(super) const TOO_MANY: &[u8] =
    b"SERVER_ERROR too many operations on the memory pool are in progress; nothing was stored\r\n";
