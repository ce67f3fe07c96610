//! The state that every worker has, independent of how it waits: the service's state, counts, and
//! the buffers of a burst.

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
use crate::connection::{Connection, ConnectionIo, Unsent};
use crate::connection_counts::{Traffic, WorkerCounts};
use crate::connection_table::{ConnectionTable, Slot};
use crate::limits::{
    COMPLETIONS_PER_WAIT, DRAIN_CHECK_NS, DRAIN_NS, MAINTAIN_INTERVAL_NS, MAINTAIN_ITEMS,
    MEMORY_RETRY_NS, PREFETCH_ITEMS, SPARE_OUTPUT_LEN, SPARE_OUTPUTS, TURNS_PER_SEND,
};
use crate::setup::{Shared, second};
use crate::transport::Sent;

/// How a worker is woken and told to end.
pub(crate) struct WorkerHandles {
    /// Wakes this worker.
    pub(crate) waker: Waker,
    /// Wakes all workers, one each.
    pub(crate) all: Vec<Waker>,
    /// The worker has to end.
    pub(crate) ending: Arc<AtomicBool>,
}

/// The state of a worker.
pub(crate) struct WorkerContext<S: Worker> {
    pub(crate) setup: Arc<Shared>,
    pub(crate) service: S,
    pub(crate) counts: Arc<WorkerCounts>,
    waker: Waker,
    /// Wakes all workers.
    wakers: Vec<Waker>,
    ending: Arc<AtomicBool>,
    /// Results of tickets, once one has been issued.
    mailbox: Option<Arc<Mailbox<S::Completion>>>,
    /// Reads the clock at the end of a burst; none with a virtual clock, which stands still.
    pub(crate) clock_ns: Option<fn() -> u64>,
    /// Memory that its connections occupy between bursts.
    pub(crate) buffered: WorkerShare,
    /// Times of the last wake-up, and of the last wake-up with work.
    woke_ns: u64,
    worked_ns: u64,
    /// Connections whose turn ended with unanswered input.
    pub(crate) again: Vec<Slot>,
    /// Connections that wait for memory held by other connections.
    pub(crate) waiting: Vec<Slot>,
    /// The prepared requests of a burst.
    prepared: Vec<S::Request<'static>>,
    /// The replies to the current connection.
    pub(crate) output: Output<S::Pin>,
    /// Emptied output buffers for reuse, so that outputs need not grow from empty.
    spare: Vec<Vec<u8>>,
    /// When the connections in `waiting` try again.
    retry_ns: u64,
    maintained_ns: u64,
    /// Deadline of a stopping worker.
    stop_by_ns: Option<u64>,
    /// The number of answered parts of the burst.
    answered: usize,
    /// The part whose session is running. `None` while the runtime's own code runs.
    current_part: Option<usize>,
}

/// The result of one connection's part in a burst.
pub(crate) struct Outcome {
    /// The number of prepared requests.
    prepared: usize,
    pub(crate) progress: Progress,
    pub(crate) is_lost: bool,
}

/// The result of sending unsent output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// All output is sent.
    Complete,
    /// Some output is still unsent.
    Partial,
    /// The connection is lost.
    Lost,
}

impl<S: Worker> WorkerContext<S> {
    /// Creates the context of a worker.
    pub(crate) fn new(setup: &Arc<Shared>, service: S, handles: WorkerHandles) -> Self {
        Self {
            service,
            counts: setup.counts.register_worker(),
            mailbox: None,
            clock_ns: Some(monotonic_ns),
            buffered: WorkerShare::new(&setup.counts, setup.workers),
            woke_ns: 0,
            worked_ns: 0,
            setup: Arc::clone(setup),
            waker: handles.waker,
            wakers: handles.all,
            ending: handles.ending,
            again: Vec::new(),
            waiting: Vec::new(),
            prepared: Vec::new(),
            output: Output::default(),
            spare: Vec::new(),
            retry_ns: 0,
            maintained_ns: 0,
            stop_by_ns: None,
            answered: 0,
            current_part: None,
        }
    }

    /// Called once on the worker's own thread.
    pub(crate) fn begin(&self) {
        if self.setup.wait_policy.min_wait_ns > 0 {
            sys::thread::sleep_precisely();
        }
    }

    /// Whether the worker must pause before it waits again (`min_wait_ns`).
    pub(crate) fn must_pause(&self) -> bool {
        self.setup.wait_policy.min_wait_ns > 0 && self.again.is_empty()
    }

    /// Pauses until `min_wait_ns` after the last burst. The first request after a longer idle time
    /// is therefore answered without a pause.
    pub(crate) fn rest(&self) {
        sys::clock::sleep_until_ns(self.worked_ns + self.setup.wait_policy.min_wait_ns);
    }

    /// Timeout of the next wait in nanoseconds. `None`: no timeout.
    pub(crate) fn wait_timeout_ns(&self) -> Option<u64> {
        let is_polling = self.woke_ns < self.worked_ns + self.setup.wait_policy.busy_poll_ns;
        if !self.again.is_empty() || is_polling {
            Some(0)
        } else if !self.waiting.is_empty() {
            Some(MEMORY_RETRY_NS)
        } else {
            self.stop_by_ns.map(|_| DRAIN_CHECK_NS)
        }
    }

    /// Counts a wake-up, by the number of connections that were ready.
    pub(crate) fn woke_up(&mut self, now_ns: u64, connections: usize) {
        self.woke_ns = now_ns;
        if connections > 0 {
            self.worked_ns = now_ns;
            self.counts.count_burst(connections);
        }
    }

    /// Moves connections that continue without an event to the burst: those whose next turn is due,
    /// and, once per retry interval, those that wait for memory. That memory may be held by
    /// connections of other workers, so all workers are woken once per second to look for slow
    /// holders.
    pub(crate) fn take_runnable(&mut self, now_ns: u64, burst: &mut Vec<Slot>) {
        burst.append(&mut self.again);
        if self.waiting.is_empty() || now_ns < self.retry_ns {
            return;
        }
        self.retry_ns = now_ns + MEMORY_RETRY_NS;
        if self.setup.counts.request_memory(second(now_ns)) {
            self.wakers.iter().for_each(Waker::wake_by_ref);
        }
        burst.append(&mut self.waiting);
    }

    /// The connections to close: those that hold memory of the service which others need, and have
    /// been inactive for a long time.
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

    /// Delivers the results of tickets to their sessions. Each of these connections gets a turn.
    /// Returns the connections to close, whose sessions panicked.
    pub(crate) fn deliver<I>(&mut self, table: &mut ConnectionTable<S, I>) -> Vec<Slot> {
        let mut failed = Vec::new();
        let Some(mailbox) = self.mailbox.clone() else {
            return failed;
        };
        for _ in 0..COMPLETIONS_PER_WAIT {
            let Some(completed) = mailbox.take() else {
                return failed;
            };
            let id = completed.connection;
            // The result for a connection that has been closed is dropped here.
            let Some(connection) = table.named(id) else {
                continue;
            };
            connection.tickets.deliver();
            let (session, number) = (&mut connection.session, completed.number);
            let delivered = catch_unwind(AssertUnwindSafe(|| {
                self.service.complete(session, number, completed.result);
            }));
            if delivered.is_err() {
                self.setup.counts.count_panics(1);
                failed.push(id.slot as Slot);
                continue;
            }
            connection.wants_turn = true;
            connection.waits_for_completion = false;
            if !connection.queued && connection.unsent.is_none() {
                connection.queued = true;
                self.again.push(id.slot as Slot);
            }
        }
        // The mailbox wakes the worker only when it was empty.
        self.waker.wake_by_ref();
        failed
    }

    /// Prepares all input of a burst, then answers each connection and calls `send` for its
    /// replies. `send` returns false if the connection is lost. `input_of` gives the slot and the
    /// input of a part.
    ///
    /// If a session panics, only its connection is lost. The connections behind it in the burst get
    /// another turn.
    pub(crate) fn serve_burst<'i, P, I>(
        &mut self,
        table: &mut ConnectionTable<S, I>,
        parts: &'i [P],
        input_of: impl Fn(&'i P) -> (Slot, &'i [u8]),
        now_ns: u64,
        outcomes: &mut Vec<Outcome>,
        send: impl FnMut(&mut Self, &mut Connection<S, I>, Slot) -> bool,
    ) {
        self.service.begin_burst(now_ns);
        let mut prepared = recycle::<S>(mem::take(&mut self.prepared));
        // One `catch_unwind` for the whole burst. A panic may leave two things inconsistent: the
        // session, which is dropped, and this context, which is reset.
        let served = catch_unwind(AssertUnwindSafe(|| {
            self.serve_parts(table, parts, &input_of, outcomes, &mut prepared, send);
        }));
        if let Err(panic) = served {
            let Some(panicked) = self.current_part.take() else {
                // The runtime's own code panicked: restart the worker.
                resume_unwind(panic);
            };
            self.setup.counts.count_panics(1);
            self.reset();
            self.service.online();
            outcomes.truncate(self.answered);
            for (number, part) in parts.iter().enumerate().skip(self.answered) {
                let is_lost = number == panicked;
                if !is_lost && let Some(connection) = table.get_mut(input_of(part).0) {
                    connection.session.discard_prepared();
                }
                outcomes.push(Outcome {
                    prepared: 0,
                    progress: Progress {
                        consumed: 0,
                        next: Next::Yield,
                    },
                    is_lost,
                });
            }
        }
        self.prepared = recycle::<S>(prepared);
        self.end_burst(now_ns);
    }

    #[inline]
    fn end_burst(&mut self, began_ns: u64) {
        let elapsed_ns = self.service.is_timed().then(|| {
            let ended_ns = self.clock_ns.map_or(began_ns, |clock_ns| clock_ns());
            ended_ns.saturating_sub(began_ns)
        });
        self.service.end_burst(elapsed_ns);
    }

    fn serve_parts<'i, P, I>(
        &mut self,
        table: &mut ConnectionTable<S, I>,
        parts: &'i [P],
        input_of: &impl Fn(&'i P) -> (Slot, &'i [u8]),
        outcomes: &mut Vec<Outcome>,
        prepared: &mut Vec<S::Request<'i>>,
        mut send: impl FnMut(&mut Self, &mut Connection<S, I>, Slot) -> bool,
    ) {
        self.answered = 0;
        for (number, part) in parts.iter().enumerate() {
            self.current_part = Some(number);
            let (slot, input) = input_of(part);
            let count = match table.get_mut(slot) {
                Some(connection) => self.prepare(&mut connection.session, input, prepared),
                None => 0,
            };
            outcomes.push(Outcome {
                prepared: count,
                progress: Progress {
                    consumed: 0,
                    next: Next::Close,
                },
                is_lost: false,
            });
        }
        let (mut first, mut fetched) = (0, 0);
        for (number, (part, outcome)) in parts.iter().zip(outcomes).enumerate() {
            self.answered = number;
            self.current_part = Some(number);
            let ahead = (first + outcome.prepared + PREFETCH_ITEMS).min(prepared.len());
            self.service.prefetch(&mut prepared[fetched..ahead]);
            fetched = ahead;
            let (slot, input) = input_of(part);
            let Some(connection) = table.get_mut(slot) else {
                continue;
            };
            let requests = &prepared[first..first + outcome.prepared];
            first += requests.len();
            let (progress, sends_now) = self.answer_turn(connection, slot, requests, input);
            outcome.progress = progress;
            self.current_part = None;
            outcome.is_lost = sends_now && !send(self, connection, slot);
        }
        self.current_part = None;
    }

    /// Answers one connection into `output`, as a whole burst, without sending.
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

    /// Parses the input of a connection and prefetches the memory of its requests. Returns the
    /// number of requests.
    fn prepare<'i>(
        &self,
        session: &mut S::Session,
        input: &'i [u8],
        prepared: &mut Vec<S::Request<'i>>,
    ) -> usize {
        let max = self.setup.requests_per_turn;
        self.service.prepare(session, input, max, prepared)
    }

    /// Answers a turn, with the pending replies of earlier turns first. Returns true if the replies
    /// are to be sent now, and false if another turn follows whose replies are sent together with
    /// these.
    fn answer_turn<I>(
        &mut self,
        connection: &mut Connection<S, I>,
        slot: Slot,
        prepared: &[S::Request<'_>],
        input: &[u8],
    ) -> (Progress, bool) {
        if !connection.pending.is_empty() {
            let memory = self.output.resume_with(mem::take(&mut connection.pending));
            self.keep(memory);
        }
        let tickets = Tickets {
            mailbox: &mut self.mailbox,
            waker: &self.waker,
            connection: ConnectionId {
                // A worker has fewer connections than that.
                slot: slot as u32,
                generation: connection.generation,
            },
            pending: &mut connection.tickets,
        };
        let (session, output) = (&mut connection.session, &mut self.output);
        let progress = self
            .service
            .answer(session, prepared, input, tickets, output);
        connection.turns += 1;
        if progress.next == Next::Yield
            && connection.turns < TURNS_PER_SEND
            && self.buffered.has_room_for(self.output.len())
            && let Some(pending) = self.take_bytes()
        {
            connection.pending = pending;
            return (progress, false);
        }
        connection.turns = 0;
        (progress, true)
    }

    /// Takes the output as bytes. `None` if it is empty or pins values.
    pub(crate) fn take_bytes(&mut self) -> Option<Vec<u8>> {
        self.output
            .take_bytes(|| self.spare.pop().unwrap_or_default())
    }

    /// Keeps an emptied output buffer for reuse.
    pub(crate) fn keep(&mut self, memory: Vec<u8>) {
        if self.spare.len() < SPARE_OUTPUTS && (1..=SPARE_OUTPUT_LEN).contains(&memory.capacity()) {
            self.spare.push(memory);
        }
    }

    /// Sends the output to a connection. The part that the socket does not accept stays with the
    /// connection as unsent output. Returns false if the connection is lost.
    pub(crate) fn send<I: ConnectionIo>(
        &mut self,
        connection: &mut Connection<S, I>,
        now_s: u32,
    ) -> bool {
        if self.output.is_empty() && !connection.io.has_unsent() {
            return true;
        }
        let (sent, is_kept) = match connection.io.send(&self.output, 0) {
            Ok(Sent::All) => (self.output.len(), true),
            Ok(Sent::Part(sent)) => {
                let output = mem::take(&mut self.output);
                connection.unsent = Some(Box::new(Unsent { output, sent }));
                (sent, true)
            }
            Err(_) => (0, false),
        };
        self.count_sent(connection, sent, now_s);
        self.output.clear();
        is_kept
    }

    /// Sends the unsent output of an earlier burst. `None` if there is none.
    pub(crate) fn send_unsent<I: ConnectionIo>(
        &mut self,
        connection: &mut Connection<S, I>,
        now_s: u32,
    ) -> Option<Flushed> {
        let mut unsent = connection.unsent.take()?;
        let before = unsent.sent;
        let (sent, rest) = match connection.io.send(&unsent.output, before) {
            Ok(Sent::All) => (unsent.output.len(), Flushed::Complete),
            Ok(Sent::Part(sent)) => (sent, Flushed::Partial),
            Err(_) => return Some(Flushed::Lost),
        };
        self.count_sent(connection, sent - before, now_s);
        if rest == Flushed::Partial {
            unsent.sent = sent;
            connection.unsent = Some(unsent);
        }
        Some(rest)
    }

    fn count_sent<I>(&mut self, connection: &mut Connection<S, I>, len: usize, now_s: u32) {
        if len > 0 {
            connection.active_s = now_s;
        }
        self.counts.add(Traffic::BytesWritten, len as u64);
    }

    /// Runs a step of maintenance between bursts, if the interval is over.
    pub(crate) fn maintain(&mut self, now_ns: u64) {
        if now_ns - self.maintained_ns >= MAINTAIN_INTERVAL_NS {
            self.maintained_ns = now_ns;
            self.maintain_now(now_ns);
        }
    }

    /// Runs one step of the service's maintenance. Returns true if more work may remain.
    pub(crate) fn maintain_now(&mut self, now_ns: u64) -> bool {
        let has_more = self.service.maintain(now_ns, MAINTAIN_ITEMS);
        self.service.request_maintenance();
        has_more
    }

    /// Resets the context after a panic.
    pub(crate) fn reset(&mut self) {
        self.service.reset();
        let output = mem::take(&mut self.output);
        self.prepared = Vec::new();
        // Dropping an inconsistent value may panic too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(output)));
    }

    /// Closes all connections of a worker that restarts.
    pub(crate) fn close_all<I>(&mut self, table: ConnectionTable<S, I>) {
        self.again.clear();
        self.waiting.clear();
        self.buffered = WorkerShare::new(&self.setup.counts, self.setup.workers);
        self.report_buffered();
        let counts = Arc::clone(&self.setup.counts);
        counts.count_panics(table.close_all(&counts));
    }

    /// Removes a connection that is about to be closed from the lists of connections that continue,
    /// because its slot will be reused.
    pub(crate) fn forget_queued(&mut self, slot: Slot) {
        self.again.retain(|&queued| queued != slot);
        self.waiting.retain(|&queued| queued != slot);
    }

    /// Counts the memory that a connection occupies until the next burst. Returns true if the
    /// worker's share is exceeded.
    #[inline]
    pub(crate) fn count_buffered<I: ConnectionIo>(
        &mut self,
        connection: &mut Connection<S, I>,
    ) -> bool {
        self.buffered.count(connection) && self.report_buffered()
    }

    /// Removes a connection from the count before it is closed.
    pub(crate) fn release_buffered<I>(&mut self, connection: &mut Connection<S, I>) {
        if self.buffered.release(connection) {
            self.report_buffered();
        }
    }

    /// Publishes the sum for `stats` unless the share is exceeded, and returns whether it is. An
    /// exceeded sum is published once connections have been closed.
    fn report_buffered(&self) -> bool {
        let is_over = self.buffered.is_over();
        if !is_over {
            self.counts.set_buffered(self.buffered.sum());
        }
        is_over
    }

    /// The connections to close because the worker's share is exceeded. They are removed from the
    /// lists of connections that continue.
    pub(crate) fn overflow<I>(&mut self, table: &ConnectionTable<S, I>) -> Vec<Slot> {
        let now_s = second(self.woke_ns);
        let overflow = self.buffered.overflow(table, now_s);
        // Their slots will be reused.
        self.again.retain(|slot| !overflow.contains(slot));
        self.waiting.retain(|slot| !overflow.contains(slot));
        overflow
            .iter()
            .for_each(|_| self.setup.counts.count_closed_by_bound());
        overflow
    }

    /// Whether the worker is stopping. Sets the deadline the first time.
    pub(crate) fn is_ending(&mut self, now_ns: u64) -> bool {
        let is_ending = self.ending.load(Ordering::Relaxed);
        if is_ending {
            self.stop_by_ns.get_or_insert(now_ns + DRAIN_NS);
        }
        is_ending
    }

    /// Whether the deadline of a stopping worker has passed.
    pub(crate) fn is_out_of_time(&self, now_ns: u64) -> bool {
        self.stop_by_ns.is_some_and(|by_ns| now_ns >= by_ns)
    }
}
