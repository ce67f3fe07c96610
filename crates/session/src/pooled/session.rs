//! The session of one connection to a server that keeps its items in a memory pool. Its main part
//! is a queue of replies in the order of the requests. Some replies wait for operations on the
//! pool.

use std::collections::VecDeque;

use pool::client_thread::ClientThread;
use pool::{Action, Operation as PoolOperation};
use protocol::{AfterKeys, Keys};
use service::limits::OUTPUT_SOFT_MAX;
use service::{Abandoned, Next, NoPin, Output, Progress, Tickets};

use super::plan::{Data, Plan, Submission, plan, read_action};
use super::reply::{Command, Failure, Progress as ReplyProgress, Reply, Writing};
use super::{Completed, PoolTicket};
use crate::control::ServerControl;
use crate::counters::{Counter, Counters};
use crate::encode::Encode;
use crate::execute::{ServerContext, execute_server_command};
use crate::limits::POOL_READS_MAX;
use crate::login;
use crate::now::Now;
use crate::operation::{Operation, ServerCommand};
use crate::outcome::{Outcome, StoreOutcome};
use crate::prepare::Prepared;
use crate::protocols::{Access, Decoded, Protocol, WithEncoder};
use crate::session::RemainingKeys;

/// The state of one client connection.
#[derive(Default)]
pub struct PoolSession {
    state: State,
    /// The number of bytes, from the start of the next command in the input, that do not contain
    /// the end of that command.
    scanned: u32,
    /// The protocol of the connection. `None` before the first byte of input.
    protocol: Option<Protocol>,
    /// Whether the client has to log in. Used only when the first byte selects the protocol.
    needs_login: bool,
    /// Whether the value of the next command has not arrived completely. The command stays in the
    /// input until the value is complete, because a client of the pool stores only complete values.
    awaits_value: bool,
    /// The replies that are not written yet, in the order of their requests.
    replies: VecDeque<Reply>,
    /// The number of the first reply in `replies`. Each further reply has the next number. The
    /// ticket for which a reply waits has the reply's number.
    first_number: u32,
    /// The total length in bytes of the values that `replies` hold.
    held_len: usize,
    /// The length in bytes that is assumed for each value that is being read. A longer result
    /// raises it to its own length. A shorter result reduces it by an eighth, but not below the
    /// length of that result.
    likely_len: usize,
    /// Why a key of the present request with several keys could not be read. `None`: all keys so
    /// far could be read.
    keys_failed: Option<Failure>,
}

/// The interpretation of the bytes at the front of the input.
#[derive(Default)]
enum State {
    /// The start of a command.
    #[default]
    Command,
    /// The remaining keys of a request with several keys: those whose reads have not begun.
    Keys(RemainingKeys),
    /// The rest of a value that is skipped, because its command was rejected.
    Swallow {
        /// The number of bytes that are still to be skipped.
        missing: u64,
    },
    /// Nothing. The connection closes after the last reply.
    Closed,
}

/// The time and the parts of the worker that a session uses in one turn.
pub(super) struct Turn<'a> {
    pub(super) now: Now,
    pub(super) client: Option<&'a ClientThread>,
    pub(super) counters: &'a Counters,
    pub(super) control: &'a dyn ServerControl,
    pub(super) tickets: Tickets<'a, Completed>,
    pub(super) out: &'a mut Output<NoPin>,
}

impl service::Session for PoolSession {
    fn discard_prepared(&mut self) {
        self.scanned = 0;
    }

    /// The bytes of values that wait to be written. Values that are still being read are not
    /// counted, because their lengths are not known.
    fn result_bytes(&self) -> usize {
        self.held_len
    }
}

impl PoolSession {
    /// The session of a new connection. `access` says which protocols the client may use, and
    /// whether it has to log in.
    pub(super) fn new(access: Access) -> Self {
        Self {
            protocol: access.of_new_connection(),
            needs_login: access.needs_login,
            ..Self::default()
        }
    }

    /// Decodes at most `max` requests at the front of `input` and appends them to `prepared`.
    /// Returns their number. The value of each of these requests has arrived completely, unless the
    /// session will skip it.
    pub(super) fn prepare<'i>(
        &mut self,
        input: &'i [u8],
        max: usize,
        prepared: &mut Vec<Prepared<'i>>,
    ) -> usize {
        let first = prepared.len();
        self.awaits_value = false;
        let (Some(mut at), Some(&first_byte)) = (self.next_command_at(input), input.first()) else {
            return 0;
        };
        let needs_login = self.needs_login;
        let detect = || Protocol::detect(first_byte).of_new_client(needs_login);
        let protocol = *self.protocol.get_or_insert_with(detect);
        while prepared.len() - first < max && at < input.len() {
            prepared.push(Prepared::undecoded());
            let Some(request) = prepared.last_mut() else {
                break;
            };
            let decoded = protocol.decode(&input[at..], self.scanned as usize, request);
            if let Decoded::Incomplete { scanned } = decoded {
                prepared.pop();
                self.scanned = scanned as u32;
                break;
            }
            self.scanned = 0;
            at += request.len();
            let Decoded::Command { data_len } = decoded else {
                break;
            };
            if data_len <= (input.len() - at) as u64 {
                at += data_len as usize;
            } else {
                self.awaits_value = has_storable_value(request);
                if self.awaits_value {
                    prepared.pop();
                }
                break;
            }
        }
        prepared.len() - first
    }

    /// Returns the offset of the next command in `input`. `None`: the next command has not begun to
    /// arrive, or no command is next.
    fn next_command_at(&self, input: &[u8]) -> Option<usize> {
        match &self.state {
            State::Command => Some(0),
            State::Swallow { missing } => usize::try_from(*missing)
                .ok()
                .filter(|&missing| missing < input.len()),
            State::Keys(_) | State::Closed => None,
        }
    }

    /// Stores the result of an operation in the reply with the number `number`.
    pub(super) fn complete(&mut self, number: u32, result: Result<Completed, Abandoned>) {
        let index = number.wrapping_sub(self.first_number) as usize;
        if let Some(reply) = self.replies.get_mut(index) {
            let len = reply.complete(result);
            self.held_len += len;
            self.likely_len = len.max(self.likely_len - self.likely_len / 8);
        }
    }

    /// The bytes of the values that replies hold, plus an assumed length for each value that is
    /// being read.
    fn expected_len(&self) -> usize {
        let is_waiting = |reply: &&Reply| matches!(reply.progress, ReplyProgress::Waiting);
        let waiting = self.replies.iter().filter(is_waiting).count();
        self.held_len + waiting * self.likely_len
    }

    /// Writes the replies that are ready, and begins the next requests.
    pub(super) fn answer(
        &mut self,
        requests: &[Prepared<'_>],
        input: &[u8],
        turn: &mut Turn<'_>,
    ) -> Progress {
        let mut consumed = 0;
        let stopped = self.run(requests, input, &mut consumed, turn);
        let next = stopped.unwrap_or_else(|| {
            // Whether the input may contain another complete command, which `prepare` did not
            // decode.
            let has_undecoded = consumed < input.len() && self.scanned == 0 && !self.awaits_value;
            if has_undecoded {
                Next::Yield
            } else {
                Next::Input
            }
        });
        if stopped.is_some() {
            // The next turn decodes again from the first request that has not begun.
            self.scanned = 0;
        }
        Progress { consumed, next }
    }

    /// Begins the requests, and writes the replies that are ready. Returns what the session needs
    /// next, or `None` if it only needs further input.
    fn run(
        &mut self,
        requests: &[Prepared<'_>],
        input: &[u8],
        consumed: &mut usize,
        turn: &mut Turn<'_>,
    ) -> Option<Next> {
        self.write_ready(turn);
        if let Some(next) = self.resume(input, consumed, turn) {
            return Some(next);
        }
        for request in requests {
            match self.begin(request, &input[*consumed..], turn) {
                Ok(len) => *consumed += len,
                Err(next) => return Some(next),
            }
            if let Some(next) = self.resume(input, consumed, turn) {
                return Some(next);
            }
            self.write_ready(turn);
        }
        self.is_ready().then_some(Next::OutputSpace)
    }

    /// If the front of the input is not a command: begins the reads of the keys there, or skips the
    /// rest of a value. Returns what the session needs before it can begin the next command.
    fn resume(&mut self, input: &[u8], consumed: &mut usize, turn: &mut Turn<'_>) -> Option<Next> {
        match &mut self.state {
            State::Command => None,
            State::Closed if self.replies.is_empty() => Some(Next::Close),
            State::Closed => Some(self.needs()),
            State::Swallow { missing } => {
                let len = (*missing).min((input.len() - *consumed) as u64);
                *consumed += len as usize;
                *missing -= len;
                if *missing > 0 {
                    return Some(Next::Input);
                }
                self.state = State::Command;
                None
            }
            State::Keys(_) => self.begin_keys(input, consumed, turn),
        }
    }

    /// Begins the reads of as many of the remaining keys as possible. Returns what the session
    /// needs before it can begin the next one. `None`: the reads of all keys have begun.
    fn begin_keys(
        &mut self,
        input: &[u8],
        consumed: &mut usize,
        turn: &mut Turn<'_>,
    ) -> Option<Next> {
        let State::Keys(mut remaining) = std::mem::take(&mut self.state) else {
            return None;
        };
        let all = &input[*consumed..][..remaining.keys_len as usize];
        let mut keys = Keys::new(all);
        let mut next = None;
        loop {
            let before = keys;
            let Some(key) = keys.next() else {
                break;
            };
            let touch = remaining.touch;
            let submission = Submission {
                action: read_action(touch, turn.now),
                command: Command::ReadOne { touch },
                vivify: None,
            };
            let is_begun = self.may_begin_key(turn).and_then(|()| {
                let encoder = remaining.encoder.borrow().to_owned();
                self.submit(key.into(), submission, encoder, turn)
            });
            if let Err(needed) = is_begun {
                keys = before;
                next = Some(needed);
                break;
            }
        }
        let rest_len = keys.as_bytes().len();
        *consumed += all.len() - rest_len;
        remaining.keys_len = rest_len as u32;
        if next.is_some() {
            self.state = State::Keys(remaining);
            return next;
        }
        *consumed += rest_len;
        let is_bad = match remaining.after {
            Some(AfterKeys::LineEnd(_)) => Some(false),
            Some(AfterKeys::BadKey) => Some(true),
            Some(AfterKeys::More) | None => None,
        };
        if let Some(has_bad_key) = is_bad {
            // This reply writes the line after the items, when all keys before it have been
            // written.
            self.replies.push_back(Reply {
                encoder: remaining.encoder.borrow().to_owned(),
                key: Box::default(),
                command: Command::EndOfKeys { has_bad_key },
                vivify: None,
                progress: ReplyProgress::Done(Ok(pool::Outcome::Missing)),
            });
            self.write_ready(turn);
        }
        let (len, next) = remaining.advance(&input[*consumed..]);
        *consumed += len;
        if next.is_some() {
            self.state = State::Keys(remaining);
        }
        // What is ready has no space yet, and the client may wait for it.
        if next == Some(Next::Input) && self.is_ready() {
            return Some(Next::OutputSpace);
        }
        next
    }

    /// Begins a request. Returns the number of bytes of input that the request has consumed, or
    /// what the session needs before it can begin the request.
    fn begin(
        &mut self,
        request: &Prepared<'_>,
        input: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<usize, Next> {
        if is_read(&request.operation) {
            self.may_begin_read(turn)?;
        } else if !self.replies.is_empty() {
            return Err(self.needs());
        } else if turn.out.is_full() {
            return Err(Next::OutputSpace);
        }
        let (line, rest) = input.split_at(request.len());
        let data_len = data_len(request);
        let data = Data {
            bytes: &rest[..rest
                .len()
                .min(usize::try_from(data_len).unwrap_or(usize::MAX))],
            len: data_len,
        };
        let mut buffer = None;
        let key = request.key().decode(&mut buffer);
        let planned = plan(&request.operation, &request.encoder, key, data, turn.now);
        let has_operation = matches!(planned, Plan::Submit(_) | Plan::ReadMany);
        if !has_operation && !self.replies.is_empty() {
            // The pool cannot execute this read, so its reply is an error. The replies to the reads
            // before it have to be written first.
            return Err(self.needs());
        }
        let write = |outcome: Outcome, bytes: &mut Vec<u8>| {
            request.encoder.dispatch(WriteOutcome {
                key,
                outcome,
                bytes,
            });
        };
        match planned {
            Plan::Submit(submission) => {
                let encoder = request.encoder.to_owned();
                self.submit(key.into(), submission, encoder, turn)?;
            }
            Plan::ReadMany => return Ok(self.enter_keys(request, line)),
            Plan::Reply(outcome) => {
                count_known(&outcome, turn.counters);
                write(outcome, turn.out.bytes_mut());
            }
            Plan::Server(command) => {
                let is_open = request.encoder.dispatch(ExecuteServer { command, turn });
                if !is_open {
                    self.state = State::Closed;
                }
            }
            Plan::Login(login) => {
                let outcome = login::execute(login, turn.control, turn.counters);
                write(Outcome::Login(outcome), turn.out.bytes_mut());
                self.protocol = self.protocol.map(|it| it.after_login(outcome));
            }
            Plan::Close(outcome) => {
                write(outcome, turn.out.bytes_mut());
                self.state = State::Closed;
            }
        }
        let missing = data.len - data.bytes.len() as u64;
        if missing > 0 {
            self.state = State::Swallow { missing };
        }
        Ok(line.len() + data.bytes.len())
    }

    /// Enters the state in which the keys of a read of several keys are at the front of the input.
    /// Returns the number of bytes of the command line before the first key.
    fn enter_keys(&mut self, request: &Prepared<'_>, line: &[u8]) -> usize {
        let Operation::ReadMany { keys, touch } = request.operation else {
            return line.len();
        };
        let (len, remaining) = RemainingKeys::begin(keys, touch, request.encoder, line);
        self.state = State::Keys(remaining);
        len
    }

    /// Checks whether a read may begin while other requests are in progress. The error is what the
    /// session needs before the read may begin.
    fn may_begin_read(&self, turn: &Turn<'_>) -> Result<(), Next> {
        let front = self.replies.front();
        if front.is_some_and(|reply| !reply.command.is_read()) {
            return Err(self.needs());
        }
        self.may_begin_key(turn)
    }

    /// Checks whether a further operation may begin, and whether the output has space. All
    /// operations in progress must be reads, or must belong to the same request with several keys.
    /// The error is what the session needs first.
    fn may_begin_key(&self, turn: &Turn<'_>) -> Result<(), Next> {
        let is_at_bound =
            self.replies.len() >= POOL_READS_MAX || self.expected_len() >= OUTPUT_SOFT_MAX;
        if is_at_bound && !self.replies.is_empty() {
            return Err(self.needs());
        }
        if turn.out.is_full() {
            return Err(Next::OutputSpace);
        }
        Ok(())
    }

    /// Begins an operation, and appends a reply that waits for it to `replies`. The error is what
    /// the session needs before it can begin the operation.
    fn submit(
        &mut self,
        key: Box<[u8]>,
        submission: Submission,
        encoder: crate::protocols::OwnedEncoder,
        turn: &mut Turn<'_>,
    ) -> Result<(), Next> {
        let Submission {
            action,
            command,
            vivify,
        } = submission;
        let number = self.first_number.wrapping_add(self.replies.len() as u32);
        let is_write = !command.is_read();
        let progress = match issue(number, &key, action, is_write, turn) {
            true => ReplyProgress::Waiting,
            // No ticket is free, but earlier operations of this session are in progress. When one
            // is complete, the session tries again.
            false if !self.replies.is_empty() => return Err(self.needs()),
            false => ReplyProgress::Done(Err(Failure::NotAccepted)),
        };
        self.replies.push_back(Reply {
            encoder,
            key,
            command,
            vivify,
            progress,
        });
        Ok(())
    }

    /// Writes replies until one waits for its operation or the output is full.
    fn write_ready(&mut self, turn: &mut Turn<'_>) {
        while self.is_ready() && !turn.out.is_full() {
            let Some(mut reply) = self.replies.pop_front() else {
                return;
            };
            self.held_len -= reply.held_len();
            if let Some(action) = reply.next_action() {
                // Only storage commands and arithmetic have a second operation. They begin when no
                // other operation of this session is in progress, so no other reply waits for one.
                let number = self.first_number;
                reply.progress = match issue(number, &reply.key, action, true, turn) {
                    true => ReplyProgress::Waiting,
                    false => ReplyProgress::Done(Err(Failure::NotAccepted)),
                };
                self.replies.push_front(reply);
                continue;
            }
            self.first_number = self.first_number.wrapping_add(1);
            reply.write(Writing {
                now: turn.now,
                counters: turn.counters,
                keys_failed: &mut self.keys_failed,
                out: turn.out,
            });
        }
    }

    /// Whether the first reply can be written.
    fn is_ready(&self) -> bool {
        let front = self.replies.front();
        front.is_some_and(|reply| matches!(reply.progress, ReplyProgress::Done(_)))
    }

    /// What the session needs before it can write its first reply.
    fn needs(&self) -> Next {
        if self.is_ready() {
            Next::OutputSpace
        } else {
            Next::Completion
        }
    }
}

/// Counts a request whose outcome is known without the pool, in the same way as the cache with a
/// store.
fn count_known(outcome: &Outcome, counters: &Counters) {
    match outcome {
        Outcome::Store(StoreOutcome::TooLarge) => counters.count(Counter::StoreTooLarge),
        Outcome::Store(StoreOutcome::BadDataChunk) => counters.count(Counter::CmdSet),
        _ => {}
    }
}

/// Passes an operation to the client of the pool, with a ticket. Returns false if there is no
/// client or no free ticket.
fn issue(number: u32, key: &[u8], action: Action, is_write: bool, turn: &mut Turn<'_>) -> bool {
    let (Some(client), Some(ticket)) = (turn.client, turn.tickets.issue(number)) else {
        return false;
    };
    let operation = PoolOperation {
        key: key.to_vec(),
        action,
    };
    client.submit(operation, Box::new(PoolTicket { ticket, is_write }));
    true
}

/// Whether the operation only reads. A read that sets the time to live does not.
fn is_read(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Read(options) => options.touch.is_none(),
        Operation::ReadMany { touch, .. } => touch.is_none(),
        _ => false,
    }
}

/// Whether the request has a value that is short enough for a pool.
fn has_storable_value(request: &Prepared<'_>) -> bool {
    let Operation::Store(options) = &request.operation else {
        return false;
    };
    let mut buffer = None;
    let key = request.key().decode(&mut buffer);
    pool::is_storable(key.len(), options.value_len as usize)
}

/// The number of bytes between the command line of a request and the next command.
fn data_len(request: &Prepared<'_>) -> u64 {
    match &request.operation {
        Operation::Store(options) => {
            u64::from(options.value_len) + request.encoder.value_end().len() as u64
        }
        Operation::Reject { swallow, .. } => *swallow,
        _ => 0,
    }
}

/// The arguments for writing an outcome that is known without the pool. `run` is compiled
/// separately for each encoder.
struct WriteOutcome<'r> {
    key: &'r [u8],
    outcome: Outcome,
    bytes: &'r mut Vec<u8>,
}

impl WithEncoder for WriteOutcome<'_> {
    type Result = ();

    fn run(self, encoder: &impl Encode) {
        encoder.outcome(self.key, self.outcome, self.bytes);
    }
}

/// The arguments for executing a command to the server. `run` is compiled separately for each
/// encoder.
struct ExecuteServer<'r, 'a, 'i> {
    command: ServerCommand<'i>,
    turn: &'r mut Turn<'a>,
}

impl WithEncoder for ExecuteServer<'_, '_, '_> {
    /// Whether the connection stays open.
    type Result = bool;

    fn run(self, encoder: &impl Encode) -> bool {
        let Self { command, turn } = self;
        let mut context = ServerContext {
            now: turn.now,
            control: turn.control,
        };
        execute_server_command(encoder, command, &mut context, turn.out.bytes_mut())
    }
}

#[cfg(test)]
mod tests;
