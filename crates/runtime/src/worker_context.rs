//! The worker context: the part of a worker that is the same in every runtime. It consists of the
//! service's state, counters, the buffers of a burst, and the lists of connections that have to
//! continue. A *burst* is the connections that are served after one wait, its *members*. Each
//! runtime implements the wait itself.

mod deliver;
mod long_sends;
mod send;
mod sweep;
mod wait;

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use service::{
    ConnectionId, Mailbox, Next, Output, Progress, Session as _, Tickets, Worker, recycle,
};
use sys::clock::monotonic_ns;

use crate::buffered::WorkerShare;
use crate::connection::{Connection, ConnectionIo};
use crate::connection_counts::WorkerCounts;
use crate::connection_table::{ConnectionTable, Slot};
use crate::limits::{
    MAINTAIN_INTERVAL_NS, MAINTAIN_ITEMS, MEMORY_RETRY_NS, PREFETCH_ITEMS, SPARE_OUTPUT_LEN,
    SPARE_OUTPUTS, TURNS_PER_SEND,
};
use crate::setup::{Shared, second};
use crate::stop_deadline::StopDeadline;
use crate::transport::Transport;
use long_sends::LongSends;
pub(crate) use sweep::has_limits;

/// The handles with which other threads wake a worker and tell it to stop.
pub(crate) struct WorkerHandles {
    /// Wakes this worker.
    pub(crate) waker: Waker,
    /// The wakers of all workers, including this worker.
    pub(crate) all_wakers: Vec<Waker>,
    /// Whether all workers have to stop. They share this flag.
    pub(crate) stops_workers: Arc<AtomicBool>,
}

/// The state that a worker needs to serve bursts.
pub(crate) struct WorkerContext<S: Worker> {
    pub(crate) setup: Arc<Shared>,
    pub(crate) service: S,
    pub(crate) counts: Arc<WorkerCounts>,
    /// This field and the next two are those of [`WorkerHandles`].
    waker: Waker,
    all_wakers: Vec<Waker>,
    stops_workers: Arc<AtomicBool>,
    /// The mailbox for the results of tickets (results for which connections wait). Created with
    /// the first ticket.
    mailbox: Option<Arc<Mailbox<S::Completion>>>,
    /// Reads the monotonic clock, in nanoseconds, at the end of a burst. `None` if the caller
    /// provides a virtual clock, whose time does not pass during a burst.
    pub(crate) clock_ns: Option<fn() -> u64>,
    /// The sum of the bytes that the worker's connections keep between bursts, and its bound.
    pub(crate) buffered: WorkerShare,
    /// The connections whose output is sent over several rounds.
    long_sends: LongSends,
    /// The time at which the worker last returned from a wait for events.
    last_wake_ns: u64,
    /// The time at which the last burst with at least one connection began.
    last_burst_ns: u64,
    /// Connections that are served in the next burst even without an event, because they can
    /// continue: with input that is left, or with the result of a ticket.
    pub(crate) runnable: Vec<Slot>,
    /// Connections that wait for store memory that other connections hold.
    pub(crate) waiting_for_memory: Vec<Slot>,
    /// The list of prepared requests. It is empty between bursts, and keeps its memory for the next
    /// burst.
    prepared: Vec<S::Request<'static>>,
    /// The replies to the connection that is being answered.
    pub(crate) output: Output<S::Pin>,
    /// Empty output buffers for reuse, so that an output need not grow its buffer again.
    spare: Vec<Vec<u8>>,
    /// Time from which the connections in `waiting_for_memory` may try again.
    memory_retry_ns: u64,
    /// Time of the last step of maintenance.
    last_maintained_ns: u64,
    /// The time at which a stopping worker ends even if connections are open. `None` until the
    /// worker notices that it has to stop.
    stop_deadline: Option<StopDeadline>,
    /// The time of the next check of connections for silent peers and passed deadlines, in
    /// nanoseconds. `u64::MAX` while there is nothing to check.
    sweep_at_ns: u64,
    /// The last check came late, so that it has found nothing.
    has_postponed_sweep: bool,
    /// The slot at which the next check begins.
    sweep_start: Slot,
    /// The number of members of the current burst that have been answered. After a panic, the
    /// members from this index on are prepared again.
    answered: usize,
    /// Index of the burst member whose session is running. If the burst panics, this session has
    /// panicked. `None` while the runtime's own code runs.
    current_member: Option<usize>,
}

/// The result of a burst for one of its connections.
pub(crate) struct Outcome {
    /// The number of requests that were prepared for the connection.
    prepared: usize,
    /// The number of consumed bytes, and what the session needs next.
    pub(crate) progress: Progress,
    /// The connection has to be closed, because sending failed or its session panicked.
    pub(crate) is_lost: bool,
}

impl Outcome {
    /// The outcome of a member that has not been answered.
    fn unanswered(prepared: usize, next: Next) -> Self {
        Self {
            prepared,
            progress: Progress { consumed: 0, next },
            is_lost: false,
        }
    }
}

/// The result of a step of maintenance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Maintained {
    /// Whether another step may find more to do.
    pub(crate) has_more: bool,
    /// Whether work is left that makes system calls. If so, the caller has to wake the service's
    /// maintenance thread, which does this work (`Shared::wake_maintenance`).
    pub(crate) needs_thread: bool,
}

/// The result of an attempt to send the unsent output of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// All output is sent.
    Complete,
    /// A part of the output is sent. The connection waits to send the next one.
    Partial,
    /// Some output is still unsent, and the transport has no space for it.
    Blocked,
    /// Sending failed. The connection has to be closed.
    Lost,
}

impl<S: Worker> WorkerContext<S> {
    /// Creates the context of a worker and registers its counters.
    pub(crate) fn new(setup: &Arc<Shared>, service: S, handles: WorkerHandles) -> Self {
        Self {
            service,
            counts: setup.counts.register_worker(),
            mailbox: None,
            clock_ns: Some(monotonic_ns),
            buffered: WorkerShare::new(&setup.counts, setup.workers),
            long_sends: LongSends::default(),
            last_wake_ns: 0,
            last_burst_ns: 0,
            setup: Arc::clone(setup),
            waker: handles.waker,
            all_wakers: handles.all_wakers,
            stops_workers: handles.stops_workers,
            runnable: Vec::new(),
            waiting_for_memory: Vec::new(),
            prepared: Vec::new(),
            output: Output::default(),
            spare: Vec::new(),
            memory_retry_ns: 0,
            last_maintained_ns: 0,
            has_postponed_sweep: false,
            stop_deadline: None,
            sweep_at_ns: u64::MAX,
            sweep_start: 0,
            answered: 0,
            current_member: None,
        }
    }

    /// Opens the session of an admitted connection, at time `now_ns`. If the service panics, counts
    /// the connection as closed, and returns `None`. The caller then drops the connection.
    pub(crate) fn open(&mut self, transport: &impl Transport, now_ns: u64) -> Option<S::Session> {
        self.begin_sweeps();
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let mut session = self.service.open();
            if S::Session::NEEDS_PEER
                && let Some(peer) = transport.peer()
            {
                session.set_peer(peer);
            }
            let endpoint = S::Session::NEEDS_ENDPOINT.then(|| transport.endpoint());
            if let Some(endpoint) = endpoint.flatten() {
                session.set_endpoint(endpoint, now_ns);
            }
            session
        }));
        if opened.is_err() {
            self.setup.counts.count_panics(1);
            self.setup.counts.count_closed();
        }
        opened.ok()
    }

    /// Returns the time of the last wake-up in seconds.
    pub(crate) fn last_wake_s(&self) -> u32 {
        second(self.last_wake_ns)
    }

    /// Records the return from a wait at time `now_ns`, and counts a burst of `connections`
    /// connections.
    pub(crate) fn woke_up(&mut self, now_ns: u64, connections: usize) {
        self.last_wake_ns = now_ns;
        if connections > 0 {
            self.last_burst_ns = now_ns;
            self.counts.count_burst(connections);
        }
    }

    /// Begins a round (one pass of the worker's loop): moves the connections that continue without
    /// an event to `burst`.
    ///
    /// These are all connections in `runnable` and, once per [`MEMORY_RETRY_NS`], those in
    /// `waiting_for_memory`. Connections of other workers may hold the memory for which the latter
    /// wait. So while any connection waits for memory, all workers are woken once per second, and
    /// each worker closes its slow holders ([`slow_holders`](Self::slow_holders)).
    pub(crate) fn begin_round(&mut self, now_ns: u64, burst: &mut Vec<Slot>) {
        self.long_sends.begin_round();
        burst.append(&mut self.runnable);
        if self.waiting_for_memory.is_empty() || now_ns < self.memory_retry_ns {
            return;
        }
        self.memory_retry_ns = now_ns + MEMORY_RETRY_NS;
        let is_first_in_second = self.setup.counts.request_memory(second(now_ns));
        if is_first_in_second {
            self.all_wakers.iter().for_each(Waker::wake_by_ref);
        }
        burst.append(&mut self.waiting_for_memory);
    }

    /// Returns the slow holders: connections that hold memory of the service and whose peers have
    /// been too slow for some seconds. The caller closes them. Called at least every second.
    /// Returns none unless a connection of any worker waits for memory.
    pub(crate) fn slow_holders<I>(&self, table: &ConnectionTable<S, I>, now_ns: u64) -> Vec<Slot> {
        let (counts, now_s) = (&self.setup.counts, second(now_ns));
        if !counts.is_memory_requested(now_s) {
            return Vec::new();
        }
        let is_slow = |&slot: &Slot| {
            let connection = table.get(slot);
            connection.is_some_and(|connection| connection.is_slow_holder(now_s))
        };
        let slow: Vec<Slot> = table.slots().filter(is_slow).collect();
        slow.iter().for_each(|_| counts.count_closed_slow());
        slow
    }

    /// Serves a burst, or a part of one: prepares the input of all `members`, then answers each
    /// member and calls `send` for its replies. Appends one outcome per member to `outcomes`, which
    /// the caller passes empty, in the order of the members.
    ///
    /// `P` is the runtime's type of a member. `input_of` returns the slot and the input of a
    /// member. `send` returns false if the connection is lost.
    ///
    /// If a session panics, only its connection is lost. Each other member that has not been
    /// answered gets the outcome [`Next::Yield`], so its input is prepared again in its next turn.
    pub(crate) fn serve_burst<'i, P, I: ConnectionIo>(
        &mut self,
        table: &mut ConnectionTable<S, I>,
        members: &'i [P],
        input_of: impl Fn(&'i P) -> (Slot, &'i [u8]),
        now_ns: u64,
        outcomes: &mut Vec<Outcome>,
        send: impl FnMut(&mut Self, &mut Connection<S, I>, Slot) -> bool,
    ) {
        debug_assert!(outcomes.is_empty());
        self.service.begin_burst(now_ns);
        let mut prepared = recycle::<S>(mem::take(&mut self.prepared));
        // One `catch_unwind` for all members. A panic may leave the session and this context
        // inconsistent. The session is dropped with its connection, and the context is reset.
        let served = catch_unwind(AssertUnwindSafe(|| {
            self.serve_members(table, members, &input_of, outcomes, &mut prepared, send);
        }));
        if let Err(panic) = served {
            let Some(panicked) = self.current_member.take() else {
                // The panic is in the runtime's own code, so it ends the worker's loop (`restart`).
                resume_unwind(panic);
            };
            self.setup.counts.count_panics(1);
            self.reset();
            // A service that was reset may be offline, but this thread continues to use it.
            self.service.online();
            outcomes.truncate(self.answered);
            for (number, member) in members.iter().enumerate().skip(self.answered) {
                let is_lost = number == panicked;
                if !is_lost && let Some(connection) = table.get_mut(input_of(member).0) {
                    connection.session.discard_prepared();
                }
                outcomes.push(Outcome {
                    is_lost,
                    ..Outcome::unanswered(0, Next::Yield)
                });
            }
        }
        self.prepared = recycle::<S>(prepared);
        self.end_burst(now_ns);
    }

    /// Tells the service that the burst that began at `began_ns` has ended. If the service records
    /// latencies, also passes the duration of the burst.
    #[inline]
    fn end_burst(&mut self, began_ns: u64) {
        let elapsed_ns = self.service.needs_elapsed_time().then(|| {
            let ended_ns = self.clock_ns.map_or(began_ns, |clock_ns| clock_ns());
            ended_ns.saturating_sub(began_ns)
        });
        self.service.end_burst(elapsed_ns);
    }

    /// Prepares and answers members of a burst. May panic; `answered` and `current_member` then say
    /// which members were answered, and which session was running.
    fn serve_members<'i, P, I: ConnectionIo>(
        &mut self,
        table: &mut ConnectionTable<S, I>,
        members: &'i [P],
        input_of: &impl Fn(&'i P) -> (Slot, &'i [u8]),
        outcomes: &mut Vec<Outcome>,
        prepared: &mut Vec<S::Request<'i>>,
        mut send: impl FnMut(&mut Self, &mut Connection<S, I>, Slot) -> bool,
    ) {
        self.answered = 0;
        for (number, member) in members.iter().enumerate() {
            self.current_member = Some(number);
            let (slot, input) = input_of(member);
            let count = match table.get_mut(slot) {
                Some(connection) => self.prepare(&mut connection.session, input, prepared),
                None => 0,
            };
            // The answer replaces this outcome. Only a member without a connection keeps it.
            outcomes.push(Outcome::unanswered(count, Next::Close));
        }
        let (mut first, mut prefetched) = (0, 0);
        for (number, (member, outcome)) in members.iter().zip(outcomes).enumerate() {
            self.answered = number;
            self.current_member = Some(number);
            let requests = first..first + outcome.prepared;
            first = requests.end;
            // Prefetch the items of this member's requests and of the next `PREFETCH_ITEMS`
            // requests, except those that were prefetched for earlier members.
            let prefetch_end = (requests.end + PREFETCH_ITEMS).min(prepared.len());
            self.service
                .prefetch(&mut prepared[prefetched..prefetch_end]);
            prefetched = prefetch_end;
            let (slot, input) = input_of(member);
            let Some(connection) = table.get_mut(slot) else {
                continue;
            };
            let requests = &prepared[requests];
            let (progress, sends_now) = self.answer_turn(connection, slot, requests, input);
            outcome.progress = progress;
            self.current_member = None;
            outcome.is_lost = sends_now && !send(self, connection, slot);
        }
        self.current_member = None;
    }

    /// Answers one connection, as a burst with a single member. Writes the replies to
    /// `self.output`, and does not send them. The session can issue tickets with `tickets`.
    pub(crate) fn answer_one(
        &mut self,
        session: &mut S::Session,
        input: &[u8],
        tickets: Tickets<'_, S::Completion>,
        now_ns: u64,
    ) -> Progress {
        self.service.begin_burst(now_ns);
        let mut prepared = recycle::<S>(mem::take(&mut self.prepared));
        self.prepare(session, input, &mut prepared);
        self.service.prefetch(&mut prepared);
        let (service, output) = (&mut self.service, &mut self.output);
        let progress = service.answer(session, &prepared, input, tickets, output);
        self.prepared = recycle::<S>(prepared);
        self.end_burst(now_ns);
        progress
    }

    /// Parses the requests of one turn from `input` and appends them to `prepared`. Also prefetches
    /// the memory that each request reads first. Returns the number of appended requests.
    fn prepare<'i>(
        &self,
        session: &mut S::Session,
        input: &'i [u8],
        prepared: &mut Vec<S::Request<'i>>,
    ) -> usize {
        let max = self.setup.requests_per_turn;
        self.service.prepare(session, input, max, prepared)
    }

    /// Answers one turn of a connection. The output begins with the delayed replies of earlier
    /// turns.
    ///
    /// Also returns whether the caller has to send the output now. If not, the session needs
    /// another turn and its replies are delayed until then, so that one system call sends the
    /// replies of several turns. One send contains the replies of at most [`TURNS_PER_SEND`] turns.
    fn answer_turn<I: ConnectionIo>(
        &mut self,
        connection: &mut Connection<S, I>,
        slot: Slot,
        prepared: &[S::Request<'_>],
        input: &[u8],
    ) -> (Progress, bool) {
        if !connection.delayed_replies.is_empty() {
            let replies = mem::take(&mut connection.delayed_replies);
            let unused = self.output.resume_with(replies);
            self.keep_for_reuse(unused);
        }
        self.output
            .set_accepts_files(connection.io.transport().sends_files());
        let tickets = Tickets {
            mailbox: &mut self.mailbox,
            waker: &self.waker,
            connection: ConnectionId {
                // A worker has fewer than 2³² connections.
                slot: slot as u32,
                generation: connection.generation,
            },
            open: &mut connection.tickets,
        };
        let (session, output) = (&mut connection.session, &mut self.output);
        let progress = self
            .service
            .answer(session, prepared, input, tickets, output);
        connection.turns += 1;
        if progress.next == Next::Yield
            && connection.turns < TURNS_PER_SEND
            && self.buffered.has_space_for(self.output.len())
            && let Some(replies) = self.take_bytes()
        {
            connection.delayed_replies = replies;
            return (progress, false);
        }
        connection.turns = 0;
        (progress, true)
    }

    /// Takes the content of the output as bytes, and gives the output a spare buffer. Returns
    /// `None` if the output is empty, refers to values in the store, or has a part of a file.
    pub(crate) fn take_bytes(&mut self) -> Option<Vec<u8>> {
        self.output
            .take_bytes(|| self.spare.pop().unwrap_or_default())
    }

    /// Adds an unused output buffer to the spare buffers, unless it is too large or there are
    /// enough spare buffers.
    pub(crate) fn keep_for_reuse(&mut self, unused: Vec<u8>) {
        if self.spare.len() < SPARE_OUTPUTS && (1..=SPARE_OUTPUT_LEN).contains(&unused.capacity()) {
            self.spare.push(unused);
        }
    }

    /// Gives a connection a turn in the next burst.
    pub(crate) fn queue<I>(&mut self, connection: &mut Connection<S, I>, slot: Slot) {
        connection.is_queued = true;
        self.runnable.push(slot);
    }

    /// Runs a step of the service's maintenance, if at least [`MAINTAIN_INTERVAL_NS`] have passed
    /// since the last step.
    pub(crate) fn maintain(&mut self, now_ns: u64) {
        if now_ns - self.last_maintained_ns >= MAINTAIN_INTERVAL_NS {
            self.last_maintained_ns = now_ns;
            if self.maintain_now(now_ns).needs_thread {
                (self.setup.wake_maintenance)();
            }
        }
    }

    /// Runs one step of the service's maintenance. Makes no system calls.
    pub(crate) fn maintain_now(&mut self, now_ns: u64) -> Maintained {
        Maintained {
            has_more: self.service.maintain(now_ns, MAINTAIN_ITEMS),
            needs_thread: self.service.needs_maintenance_thread(),
        }
    }

    /// Resets the context after a panic: the service's state, the output and the prepared requests.
    pub(crate) fn reset(&mut self) {
        self.service.reset();
        let output = mem::take(&mut self.output);
        self.prepared = Vec::new();
        // Dropping an inconsistent value may panic too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(output)));
    }

    /// Closes all connections of a worker whose loop has failed and will restart. Counts them as
    /// closed by a panic.
    pub(crate) fn close_all<I>(&mut self, table: ConnectionTable<S, I>) {
        self.runnable.clear();
        self.waiting_for_memory.clear();
        self.long_sends.clear();
        if let Some(mailbox) = self.mailbox.take() {
            // The next table begins with the same slots and generations as this table. So a late
            // result could reach a connection of the next table. A closed mailbox drops results.
            mailbox.close();
        }
        self.buffered = WorkerShare::new(&self.setup.counts, self.setup.workers);
        self.report_buffered();
        let counts = Arc::clone(&self.setup.counts);
        counts.count_panics(table.close_all(&counts));
    }

    /// Removes a connection that is about to be closed from the lists of connections that continue.
    /// Otherwise the next connection in the slot would get the turn of the closed one.
    pub(crate) fn remove_from_lists<I>(&mut self, connection: &mut Connection<S, I>, slot: Slot) {
        if mem::take(&mut connection.is_queued) {
            self.runnable.retain(|&queued| queued != slot);
            self.waiting_for_memory.retain(|&queued| queued != slot);
        }
        if mem::take(&mut connection.waits_to_send) {
            self.long_sends.remove(slot);
        }
    }

    /// Updates the count of the bytes that a connection keeps until the next burst. Returns true if
    /// the count has changed and the worker's sum exceeds its share of the bound. The caller then
    /// has to close connections ([`excess_connections`](Self::excess_connections)).
    #[inline]
    pub(crate) fn count_buffered<I: ConnectionIo>(
        &mut self,
        connection: &mut Connection<S, I>,
    ) -> bool {
        let has_changed = self.buffered.count(connection);
        has_changed && self.report_buffered()
    }

    /// Subtracts the bytes of a connection from the worker's sum, before the connection is closed.
    pub(crate) fn release_buffered<I>(&mut self, connection: &mut Connection<S, I>) {
        if self.buffered.release(connection) {
            self.report_buffered();
        }
    }

    /// Returns whether the worker's sum of kept bytes exceeds its share. If not, publishes the sum
    /// for the statistics. Otherwise the caller closes connections, and then their
    /// [`release_buffered`](Self::release_buffered) publishes the reduced sum.
    fn report_buffered(&self) -> bool {
        let is_exceeded = self.buffered.is_exceeded();
        if !is_exceeded {
            self.counts.set_buffered(self.buffered.sum());
        }
        is_exceeded
    }

    /// Returns the connections that the caller has to close because the worker's sum exceeds its
    /// share.
    pub(crate) fn excess_connections<I>(&mut self, table: &ConnectionTable<S, I>) -> Vec<Slot> {
        let now_s = second(self.last_wake_ns);
        let excess_connections = self.buffered.excess_connections(table, now_s);
        excess_connections
            .iter()
            .for_each(|_| self.setup.counts.count_closed_by_bound());
        excess_connections
    }

    /// Returns whether the worker has to stop. The first call that returns true also sets the
    /// deadline.
    pub(crate) fn must_stop(&mut self, now_ns: u64) -> bool {
        let must_stop = self.stops_workers.load(Ordering::Relaxed);
        if must_stop {
            let drain_ns = self.setup.drain_ns;
            self.stop_deadline
                .get_or_insert_with(|| StopDeadline::new(now_ns, drain_ns));
        }
        must_stop
    }

    /// Returns whether the deadline of a stopping worker has passed.
    pub(crate) fn is_out_of_time(&mut self, now_ns: u64) -> bool {
        self.stop_deadline
            .as_mut()
            .is_some_and(|deadline| deadline.is_passed(now_ns))
    }
}
