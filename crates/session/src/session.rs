//! The state of one client connection, and the second half of a turn (one pass in which a session
//! answers its input): `answer`, which executes prepared requests. The first half, `prepare`, is in
//! `prepare.rs`.

use std::sync::Arc;

use protocol::{AfterKeys, Keys, next_keys};
use service::{Endpoint, Next, Progress, Ticket, Tickets};
use store::Worker;

use crate::cache::ValuePin;
use crate::connections::{Activity, ConnectionList, Connections, Listed};
use crate::control::ServerControl;
use crate::counters::Counters;
use crate::execute::{self, PrefixList};
use crate::item_walk::ItemWalk;
use crate::login::LoginOutcome;
use crate::now::Now;
use crate::prepare::Prepared;
use crate::protocols::{Access, Encoder, OwnedEncoder, Protocol};
use crate::size_histogram::SizeHistogram;
use crate::tier_reads::{Fetch, TierAccess, TierRead};
use crate::upload::{PendingUpload, Unready};
use crate::watching::Watching;

/// The state of one client connection.
#[derive(Debug, Default)]
pub struct Session {
    pub(crate) state: State,
    /// The number of bytes, from the start of the next command in the input, that do not contain
    /// the end of that command. `prepare` sets the number when the command is incomplete, so that
    /// these bytes are not searched again. Otherwise the number is zero.
    pub(crate) scanned: u32,
    /// The protocol of the connection. `None`: the first byte of input selects the protocol, but
    /// has not arrived.
    pub(crate) protocol: Option<Protocol>,
    /// Whether the client has to log in. Used only when the first byte selects the protocol.
    pub(crate) needs_login: bool,
    /// Whether the session answers the requests of one datagram. Such a session refuses long lists.
    is_datagram: bool,
    /// The reads of items from the tier (the files below the store) for which the request at the
    /// front of the input waits.
    pub(crate) fetch: Option<Box<Fetch>>,
    /// The list of all connections. `None`: there is no such list.
    connections: Option<Arc<Connections>>,
    /// The session's entry in the list of all connections.
    listed: Option<Listed>,
}

/// What the bytes at the front of the input are.
#[derive(Debug, Default)]
pub(crate) enum State {
    /// The start of a command.
    #[default]
    Command,
    /// Bytes that stay in the input until all items have been visited.
    Walk(Box<ItemWalk>),
    /// Bytes that stay in the input until the sizes of all items have been counted.
    Sizes(Box<SizeHistogram>),
    /// Bytes that stay in the input until all connections have been listed.
    Connections(Box<ConnectionList>),
    /// Bytes that stay in the input until all key prefixes have been listed.
    Prefixes(Box<PrefixList>),
    /// Bytes that are discarded, because the client receives log lines until it disconnects.
    Watch(Box<Watching>),
    /// Unanswered keys of a read of several keys, whose command has been decoded.
    Keys(RemainingKeys),
    /// The missing part of a value that is being stored.
    Upload(Box<PendingUpload>),
    /// The rest of the value of a rejected command, which is skipped (memcached's `conn_swallow`).
    Swallow {
        /// The number of bytes that are still to be skipped.
        missing: u64,
    },
    /// Bytes that are ignored, because the connection closes.
    Closed {
        /// Whether the connection closes because of invalid input. If false, the client has
        /// requested it.
        has_failed: bool,
    },
}

impl State {
    /// The activity of the connection that `stats conns` shows.
    #[inline]
    fn activity(&self) -> Activity {
        match self {
            Self::Command | Self::Keys(_) => Activity::Read,
            Self::Upload(_) => Activity::Upload,
            Self::Swallow { .. } => Activity::Swallow,
            Self::Walk(_)
            | Self::Sizes(_)
            | Self::Connections(_)
            | Self::Prefixes(_)
            | Self::Watch(_) => Activity::Watch,
            Self::Closed { has_failed: false } => Activity::Closing,
            Self::Closed { has_failed: true } => Activity::Failed,
        }
    }
}

/// The unanswered part of a read of several keys. It is at the front of the input. If the line of
/// keys is long, a part of it may not have arrived.
#[derive(Debug)]
pub(crate) struct RemainingKeys {
    /// Length of the unanswered keys at the front of the input, in bytes, spaces included.
    pub(crate) keys_len: u32,
    /// `None`: the rest of the line, which is skipped.
    pub(crate) after: Option<AfterKeys>,
    /// The new time to live of the items (`gat`).
    pub(crate) touch: Option<i32>,
    pub(crate) encoder: OwnedEncoder,
}

impl RemainingKeys {
    /// The keys of a command whose line is `line`, or the front of it if the line is long. Also
    /// returns the length of the line before the first key: the name of the command and, of a
    /// `gat`, the new time to live.
    pub(crate) fn begin(
        keys: Keys<'_>,
        touch: Option<i32>,
        encoder: Encoder<'_>,
        line: &[u8],
    ) -> (usize, Self) {
        let keys_len = keys.as_bytes().len();
        let (line_end_len, after) = match line {
            [.., b'\r', b'\n'] => (2, AfterKeys::LineEnd(2)),
            [.., b'\n'] => (1, AfterKeys::LineEnd(1)),
            _ => (0, AfterKeys::More),
        };
        let remaining = Self {
            keys_len: keys_len as u32,
            after: Some(after),
            touch,
            encoder: encoder.to_owned(),
        };
        (line.len() - line_end_len - keys_len, remaining)
    }

    /// Goes on after the keys when all of them are answered, and the error that follows them too.
    /// `input` begins there. Returns the number of consumed bytes, and what the session needs next,
    /// or `None` at the end of the line.
    pub(crate) fn advance(&mut self, input: &[u8]) -> (usize, Option<Next>) {
        self.keys_len = 0;
        match self.after {
            Some(AfterKeys::LineEnd(len)) => (len.into(), None),
            Some(AfterKeys::More) => match next_keys(input) {
                None => (0, Some(Next::Input)),
                Some(next) => {
                    self.keys_len = next.keys.as_bytes().len() as u32;
                    self.after = Some(next.after);
                    (0, Some(Next::Yield))
                }
            },
            Some(AfterKeys::BadKey) | None => {
                self.after = None;
                match input.iter().position(|&byte| byte == b'\n') {
                    Some(at) => (at + 1, None),
                    None => (input.len(), Some(Next::Input)),
                }
            }
        }
    }
}

/// The output of a session.
pub type Output = service::Output<ValuePin>;

/// The time, the store handle, the counters and the process control that a session uses to execute
/// requests.
pub struct RequestContext<'a> {
    /// The time of the burst.
    pub now: Now,
    /// The thread's handle to the store.
    pub worker: &'a mut Worker,
    /// The thread's counters.
    pub counters: &'a Counters,
    /// Process-wide statistics and settings.
    pub control: &'a dyn ServerControl,
    /// Access to the tier. `None`: the store has no tier.
    pub tier: Option<TierAccess<'a>>,
    /// Issues tickets for the session's connection. (A ticket stands for a result that the session
    /// waits for.) `None` if `tier` is given, which then issues the tickets. If both are `None`,
    /// the session cannot receive log lines.
    pub tickets: Option<Tickets<'a, TierRead>>,
    /// The file descriptor of the connection, as log lines show it. Negative: the connection has no
    /// socket of its own.
    pub(crate) connection: i32,
    /// Whether the request came in a datagram. The reply to a datagram is complete before the next
    /// datagram is answered, so long lists are refused.
    pub(crate) is_datagram: bool,
}

impl<'a> RequestContext<'a> {
    /// The context of a turn, without a tier and without tickets. [`Session::answer`] sets the
    /// fields that describe the connection.
    #[inline]
    #[must_use]
    pub fn new(
        now: Now,
        worker: &'a mut Worker,
        counters: &'a Counters,
        control: &'a dyn ServerControl,
    ) -> Self {
        Self {
            now,
            worker,
            counters,
            control,
            tier: None,
            tickets: None,
            connection: -1,
            is_datagram: false,
        }
    }

    /// Issues a ticket that only gives the session a turn when it is completed. Its result is not
    /// used. Returns `None` if no ticket is free.
    pub(crate) fn issue_ticket(&mut self) -> Option<Ticket<TierRead>> {
        match &mut self.tier {
            Some(tier) => tier.tickets.issue(0),
            None => self.tickets.as_mut()?.issue(0),
        }
    }
}

impl Session {
    /// The session of a new connection. `access` says which protocols the client may use, and
    /// whether it has to log in.
    #[must_use]
    pub fn new(access: Access) -> Self {
        Self {
            protocol: access.of_new_connection(),
            needs_login: access.needs_login,
            ..Self::default()
        }
    }

    /// Makes this the session of one datagram.
    #[must_use]
    pub(crate) fn of_datagram(mut self) -> Self {
        self.is_datagram = true;
        self
    }

    /// Makes the session add itself to `connections` when the endpoint of its connection is known.
    #[must_use]
    pub(crate) fn listed_in(mut self, connections: &Arc<Connections>) -> Self {
        self.connections = Some(Arc::clone(connections));
        self
    }

    /// Executes, in order, the requests that [`Session::prepare`] prepared from `input`. Appends
    /// the replies to `out`. Stops early when the output is full, or when a request has to wait
    /// (for example for memory or for the tier). The caller must prepare the unconsumed input
    /// again.
    #[inline]
    pub fn answer(
        &mut self,
        prepared: &[Prepared<'_>],
        input: &[u8],
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> Progress {
        context.is_datagram = self.is_datagram;
        context.connection = self.listed.as_ref().map_or(-1, Listed::descriptor);
        let progress = self.answer_all(prepared, input, context, out);
        if let Some(listed) = &mut self.listed {
            listed.record(context.now.elapsed_s, self.state.activity());
        }
        progress
    }

    #[inline(always)]
    fn answer_all(
        &mut self,
        prepared: &[Prepared<'_>],
        input: &[u8],
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> Progress {
        let mut consumed = 0;
        // If the first request waits for the tier: ends the wait, or says what is still missing.
        if let Some(fetch) = &mut self.fetch {
            if let Some(next) = fetch.finish(context) {
                return self.stop(consumed, next, context, out);
            }
            self.fetch = None;
        }
        if let Some(next) = self.resume_pending(input, &mut consumed, context, out) {
            return self.stop(consumed, next, context, out);
        }
        for request in prepared {
            if out.is_full() {
                return self.stop(consumed, Next::OutputSpace, context, out);
            }
            let step = execute::request(request, &input[consumed..], context, out);
            match step {
                Step::Done { len } => consumed += len,
                Step::EnterState { len, state } => {
                    consumed += len;
                    self.state = state;
                    if let Some(next) = self.resume(input, &mut consumed, context, out) {
                        return self.stop(consumed, next, context, out);
                    }
                }
                Step::Login { len, outcome } => {
                    consumed += len;
                    self.protocol = self.protocol.map(|it| it.after_login(outcome));
                }
                Step::NeedsMemory => return self.stop(consumed, Next::Memory, context, out),
            }
            context.note_progress();
        }
        // All prepared requests are answered. The remaining input is either an incomplete command
        // line, in which case `prepare` has set `scanned`, or it was not decoded. The second case
        // occurs if `prepare` reached its maximum number of requests, if the input began with
        // unanswered keys, or after a login or the front of a long line. The session then needs
        // another turn, because new input may never arrive.
        let has_unparsed = consumed < input.len() && self.scanned == 0;
        Progress {
            consumed,
            next: if has_unparsed {
                Next::Yield
            } else {
                Next::Input
            },
        }
    }

    /// Calls [`resume`](Self::resume) if a request is unfinished. Most turns begin with a new
    /// command and need only the comparison in this function, which can be inlined.
    #[inline]
    fn resume_pending(
        &mut self,
        input: &[u8],
        consumed: &mut usize,
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        if matches!(self.state, State::Command) {
            return None;
        }
        self.resume(input, consumed, context, out)
    }

    /// Continues an unfinished request with the input from offset `consumed`, and advances
    /// `consumed`. Returns `None` if the request is complete. Otherwise returns what the session
    /// needs next.
    fn resume(
        &mut self,
        input: &[u8],
        consumed: &mut usize,
        context: &mut RequestContext<'_>,
        out: &mut Output,
    ) -> Option<Next> {
        let next = match &mut self.state {
            State::Command => None,
            State::Closed { .. } => Some(Next::Close),
            State::Walk(walk) => walk.resume(context, out),
            State::Sizes(sizes) => sizes.resume(context, out),
            State::Connections(list) => {
                list.resume(self.connections.as_ref(), context.now, out.bytes_mut())
            }
            State::Prefixes(list) => list.resume(context.control, out),
            State::Watch(watching) => {
                *consumed = input.len();
                Some(watching.resume(out.bytes_mut(), || context.issue_ticket()))
            }
            State::Swallow { missing } => {
                let len = (*missing).min((input.len() - *consumed) as u64);
                *consumed += len as usize;
                *missing -= len;
                (*missing > 0).then_some(Next::Input)
            }
            State::Upload(pending) => {
                let (worker, now_s) = (&mut *context.worker, context.now.elapsed_s);
                let missing_before = pending.missing();
                let received = pending.receive(&input[*consumed..], worker, now_s);
                // `receive` may have copied some bytes before memory ran out. These bytes count as
                // consumed. Otherwise a deferred upload would receive them twice. And after a
                // rejection, the number of bytes to skip would be too small, so that the end of the
                // value would be parsed as commands.
                *consumed += missing_before - pending.missing();
                match received {
                    Ok(()) => {}
                    Err(Unready::Memory) => return Some(Next::Memory),
                    Err(Unready::Yield) => return Some(Next::Yield),
                    Err(Unready::Rejected) => {
                        let missing = pending.missing() as u64;
                        execute::reject_upload(pending, context, out);
                        self.state = State::Swallow { missing };
                        return self.resume_pending(input, consumed, context, out);
                    }
                }
                if pending.missing() > 0 {
                    return Some(Next::Upload);
                }
                if let State::Upload(pending) = std::mem::take(&mut self.state)
                    && let Some(pending) = execute::publish_upload(*pending, context, out)
                {
                    self.state = State::Upload(pending);
                    return Some(Next::Memory);
                }
                None
            }
            State::Keys(remaining) => {
                let (len, next) =
                    execute::resume_keys(remaining, &input[*consumed..], context, out);
                *consumed += len;
                next
            }
        };
        if next.is_none() {
            self.state = State::Command;
        }
        next
    }

    /// Ends a call of [`answer`](Self::answer) early. Resets `scanned`, which describes the command
    /// after the prepared requests: the next turn decodes again from the first unanswered request,
    /// where the number would be wrong.
    ///
    /// If the replies so far pin values, the request waits until these have been sent, and not for
    /// memory that slower connections hold.
    ///
    /// If the request that was not executed needs an item that is only in the tier, the session
    /// waits for this item and not for memory. The read of the item begins only when the client has
    /// received the replies so far. Otherwise, clients that receive nothing could fill the memory
    /// with records from the tier.
    fn stop(
        &mut self,
        consumed: usize,
        mut next: Next,
        context: &mut RequestContext<'_>,
        out: &Output,
    ) -> Progress {
        self.scanned = 0;
        if next == Next::Memory && (out.has_pins() || !out.is_empty() && context.wants_items()) {
            next = Next::OutputSpace;
        } else if next == Next::Memory
            && let Some((fetch, needed)) = context.begin_fetch()
        {
            self.fetch = Some(fetch);
            next = needed;
        }
        Progress { consumed, next }
    }
}

impl service::Session for Session {
    const NEEDS_ENDPOINT: bool = true;

    fn set_endpoint(&mut self, endpoint: Endpoint, opened_ns: u64) {
        if let Some(connections) = &self.connections {
            self.listed = Some(connections.add(endpoint, opened_ns));
        }
    }

    fn discard_prepared(&mut self) {
        self.scanned = 0;
    }

    /// Returns an empty slice if no value is being received, if only the line end of the value is
    /// missing, or if the store has to allocate memory before it can receive more.
    fn upload_buffer(&mut self) -> &mut [u8] {
        match &mut self.state {
            State::Upload(pending) => pending.unfilled(),
            _ => &mut [],
        }
    }

    fn advance_upload(&mut self, len: usize) {
        if let State::Upload(pending) = &mut self.state {
            pending.advance(len);
        }
    }

    fn holds_memory(&self) -> bool {
        matches!(self.state, State::Upload(_))
    }
}

/// The effect of one request on its session.
pub(crate) enum Step {
    /// The request is answered. The next command follows it.
    Done {
        /// The number of bytes of input that the request consumed.
        len: usize,
    },
    /// The request is not finished, or nothing is to be executed after it. The session enters
    /// another state.
    EnterState {
        /// The number of bytes of input that the request consumed.
        len: usize,
        /// The interpretation of the input after these bytes.
        state: State,
    },
    /// The client has tried to log in. The outcome determines the grammar of the input after the
    /// login.
    Login {
        /// The number of bytes of input that the request consumed.
        len: usize,
        /// Whether the login succeeded, failed or continues with a further message.
        outcome: LoginOutcome,
    },
    /// The request had no effect, because it has to wait for memory ([`Next::Memory`]), or for an
    /// item that is only in the tier ([`Next::Completion`]).
    NeedsMemory,
}

impl Step {
    /// Consumes the last command, which has `len` bytes, and closes the connection.
    pub(crate) fn close(len: usize) -> Self {
        let state = State::Closed { has_failed: false };
        Self::EnterState { len, state }
    }

    /// Consumes input of `len` bytes that does not follow the protocol, and closes the connection.
    pub(crate) fn fail(len: usize) -> Self {
        let state = State::Closed { has_failed: true };
        Self::EnterState { len, state }
    }

    /// Consumes a command line of `len` bytes, and skips the `missing` bytes after it.
    pub(crate) fn swallow(len: usize, missing: u64) -> Self {
        match missing {
            0 => Self::Done { len },
            _ => Self::EnterState {
                len,
                state: State::Swallow { missing },
            },
        }
    }
}
