//! The state that every worker has, independent of how it waits: its handle on the store, its
//! counters, and the buffers of a burst.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use session::{
    Counter, Counters, Next, Now, Output, Prepared, Progress, RequestContext, Session,
    prefetch_items, recycle,
};

use crate::buffered::WorkerShare;
use crate::connection::{Connection, Unsent};
use crate::connection_counts::WorkerCounts;
use crate::connection_table::{ConnectionTable, Slot};
use crate::inbox::Inbox;
use crate::limits::{
    DRAIN_CHECK_NS, DRAIN_NS, MAINTAIN_INTERVAL_NS, MAINTAIN_ITEMS, MEMORY_RETRY_NS,
    PREFETCH_ITEMS, SPARE_OUTPUT_LEN, SPARE_OUTPUTS, TURNS_PER_SEND,
};
use crate::running::Running;
use crate::setup::Setup;
use crate::transport::Sent;

/// The state of a worker.
pub(crate) struct WorkerContext {
    pub(crate) setup: Arc<Setup>,
    pub(crate) inbox: Arc<Inbox>,
    /// The inboxes of all workers.
    inboxes: Vec<Arc<Inbox>>,
    ending: Arc<AtomicBool>,
    pub(crate) store: store::Worker,
    pub(crate) counters: Arc<Counters>,
    counts: Arc<WorkerCounts>,
    /// Memory that its connections occupy between bursts.
    pub(crate) buffered: WorkerShare,
    /// Times of the last wake-up, and of the last wake-up with work.
    woke_ns: u64,
    worked_ns: u64,
    /// Connections whose turn ended with unanswered input.
    pub(crate) again: Vec<Slot>,
    /// Connections that wait for store memory held by other connections.
    pub(crate) waiting: Vec<Slot>,
    /// The prepared requests of a burst.
    prepared: Vec<Prepared<'static>>,
    /// The replies to the current connection.
    pub(crate) output: Output,
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

impl WorkerContext {
    /// Creates the context of worker `number`.
    pub(crate) fn new(setup: &Arc<Setup>, running: &Running, number: usize) -> Self {
        let (counters, counts) = setup.counts.register_worker();
        Self {
            inbox: Arc::clone(&running.inboxes[number]),
            store: setup.store.worker(),
            counters,
            counts,
            buffered: WorkerShare::new(&setup.counts, setup.workers),
            woke_ns: 0,
            worked_ns: 0,
            setup: Arc::clone(setup),
            inboxes: running.inboxes.clone(),
            ending: Arc::clone(&running.ending),
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
            self.counts.count(connections);
        }
    }

    /// Moves connections that continue without an event to the burst: those whose next turn is due,
    /// and, once per retry interval, those that wait for store memory. That memory may be held by
    /// connections of other workers, so all workers are woken once per second to look for slow
    /// holders.
    pub(crate) fn take_runnable(&mut self, now_ns: u64, burst: &mut Vec<Slot>) {
        burst.append(&mut self.again);
        if self.waiting.is_empty() || now_ns < self.retry_ns {
            return;
        }
        self.retry_ns = now_ns + MEMORY_RETRY_NS;
        let now_s = self.setup.clock.at(now_ns).elapsed_s;
        if self.setup.counts.request_memory(now_s) {
            for inbox in &self.inboxes {
                inbox.waker.wake();
            }
        }
        burst.append(&mut self.waiting);
    }

    /// Handles the inbox event. Returns the current second and the connections to close: those that
    /// hold store memory which others need, and have been inactive for a long time. New connections
    /// stay in the inbox.
    pub(crate) fn read_inbox<W>(
        &self,
        table: &ConnectionTable<W>,
        now_ns: u64,
    ) -> (u32, Vec<Slot>) {
        self.inbox.waker.clear();
        let (counts, now_s) = (&self.setup.counts, self.setup.clock.at(now_ns).elapsed_s);
        if !counts.is_memory_requested(now_s) {
            return (now_s, Vec::new());
        }
        let is_slow = |&slot: &Slot| {
            let connection = table.get(slot);
            connection.is_some_and(|connection| connection.is_slow_holder(now_s))
        };
        let slow: Vec<Slot> = table.slots().filter(is_slow).collect();
        slow.iter().for_each(|_| counts.count_closed_slow());
        (now_s, slow)
    }

    /// Prepares all input of a burst, then answers each connection and calls `send` for its
    /// replies. `send` returns false if the connection is lost. `input_of` gives the slot and the
    /// input of a part.
    ///
    /// If a session panics, only its connection is lost. The connections behind it in the burst get
    /// another turn.
    pub(crate) fn serve_burst<'i, P, W>(
        &mut self,
        table: &mut ConnectionTable<W>,
        parts: &'i [P],
        input_of: impl Fn(&'i P) -> (Slot, &'i [u8]),
        now: Now,
        outcomes: &mut Vec<Outcome>,
        send: impl FnMut(&mut Self, &mut Connection<W>, Slot) -> bool,
    ) {
        let mut prepared = recycle(mem::take(&mut self.prepared));
        // One `catch_unwind` for the whole burst. A panic may leave two things inconsistent: the
        // session, which is dropped, and this context, which is reset.
        let served = catch_unwind(AssertUnwindSafe(|| {
            self.serve_parts(table, parts, &input_of, now, outcomes, &mut prepared, send);
        }));
        if let Err(panic) = served {
            let Some(panicked) = self.current_part.take() else {
                // The runtime's own code panicked: restart the worker.
                resume_unwind(panic);
            };
            self.setup.counts.count_panics(1);
            self.reset();
            self.store.online();
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
        self.prepared = recycle(prepared);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the body of `serve_burst`, apart for `catch_unwind`"
    )]
    fn serve_parts<'i, P, W>(
        &mut self,
        table: &mut ConnectionTable<W>,
        parts: &'i [P],
        input_of: &impl Fn(&'i P) -> (Slot, &'i [u8]),
        now: Now,
        outcomes: &mut Vec<Outcome>,
        prepared: &mut Vec<Prepared<'i>>,
        mut send: impl FnMut(&mut Self, &mut Connection<W>, Slot) -> bool,
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
            prefetch_items(&mut prepared[fetched..ahead], &self.store);
            fetched = ahead;
            let (slot, input) = input_of(part);
            let Some(connection) = table.get_mut(slot) else {
                continue;
            };
            let requests = &prepared[first..first + outcome.prepared];
            first += requests.len();
            let (progress, sends_now) = self.answer_turn(connection, requests, input, now);
            outcome.progress = progress;
            self.current_part = None;
            outcome.is_lost = sends_now && !send(self, connection, slot);
        }
        self.current_part = None;
    }

    /// Answers one connection into `output`, as [`WorkerContext::serve_burst`], without
    /// sending.
    pub(crate) fn answer_one(&mut self, session: &mut Session, input: &[u8], now: Now) -> Progress {
        let mut prepared = recycle(mem::take(&mut self.prepared));
        self.prepare(session, input, &mut prepared);
        prefetch_items(&mut prepared, &self.store);
        let progress = self.answer(session, &prepared, input, now);
        self.prepared = recycle(prepared);
        progress
    }

    /// Parses the input of a connection and prefetches the memory of its requests. Returns the
    /// number of requests.
    fn prepare<'i>(
        &self,
        session: &mut Session,
        input: &'i [u8],
        prepared: &mut Vec<Prepared<'i>>,
    ) -> usize {
        session.prepare(input, self.setup.requests_per_turn, &self.store, prepared)
    }

    /// Answers prepared requests into `output`.
    fn answer(
        &mut self,
        session: &mut Session,
        prepared: &[Prepared<'_>],
        input: &[u8],
        now: Now,
    ) -> Progress {
        let mut context = RequestContext {
            now,
            worker: &mut self.store,
            counters: &self.counters,
            control: &*self.setup.control,
        };
        session.answer(prepared, input, &mut context, &mut self.output)
    }

    /// Answers a turn, with the pending replies of earlier turns first. Returns true if the replies
    /// are to be sent now, and false if another turn follows whose replies are sent together with
    /// these.
    fn answer_turn<W>(
        &mut self,
        connection: &mut Connection<W>,
        prepared: &[Prepared<'_>],
        input: &[u8],
        now: Now,
    ) -> (Progress, bool) {
        if !connection.pending.is_empty() {
            let memory = self.output.resume_with(mem::take(&mut connection.pending));
            self.keep(memory);
        }
        let progress = self.answer(&mut connection.session, prepared, input, now);
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
    pub(crate) fn send<W>(&mut self, connection: &mut Connection<W>, now_s: u32) -> bool {
        if self.output.is_empty() {
            return true;
        }
        let (sent, is_kept) = match connection.transport.send(&self.output, 0) {
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
    pub(crate) fn send_unsent<W>(
        &mut self,
        connection: &mut Connection<W>,
        now_s: u32,
    ) -> Option<Flushed> {
        let mut unsent = connection.unsent.take()?;
        let before = unsent.sent;
        let (sent, rest) = match connection.transport.send(&unsent.output, before) {
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

    fn count_sent<W>(&mut self, connection: &mut Connection<W>, len: usize, now_s: u32) {
        if len > 0 {
            connection.active_s = now_s;
        }
        self.counters.add(Counter::BytesWritten, len as u64);
    }

    /// Runs a step of maintenance between bursts, if the interval is over.
    pub(crate) fn maintain(&mut self, now_ns: u64) {
        if now_ns - self.maintained_ns >= MAINTAIN_INTERVAL_NS {
            self.maintained_ns = now_ns;
            self.maintain_store(now_ns);
            if self.store.store().needs_page_maintenance() {
                self.setup.control.wake_maintenance();
            }
        }
    }

    /// Runs one step of store maintenance without system calls. Returns true if more work may
    /// remain.
    pub(crate) fn maintain_store(&mut self, now_ns: u64) -> bool {
        let now_s = self.setup.clock.at(now_ns).elapsed_s;
        self.store.maintain(now_s, MAINTAIN_ITEMS)
    }

    /// Resets the context after a panic. It gets a new handle on the store, so that the old one
    /// does not delay reclamation.
    pub(crate) fn reset(&mut self) {
        let store = mem::replace(&mut self.store, self.setup.store.worker());
        let output = mem::take(&mut self.output);
        self.prepared = Vec::new();
        // Dropping an inconsistent value may panic too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(output)));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(store)));
    }

    /// Closes all connections of a worker that restarts.
    pub(crate) fn close_all<W>(&mut self, table: ConnectionTable<W>) {
        self.again.clear();
        self.waiting.clear();
        self.buffered = WorkerShare::new(&self.setup.counts, self.setup.workers);
        self.report_buffered();
        let counts = Arc::clone(&self.setup.counts);
        counts.count_panics(table.close_all(&counts));
    }

    /// Counts the memory that a connection occupies until the next burst. Returns true if the
    /// worker's share is exceeded.
    #[inline]
    pub(crate) fn count_buffered<W>(&mut self, connection: &mut Connection<W>) -> bool {
        self.buffered.count(connection) && self.report_buffered()
    }

    /// Removes a connection from the count before it is closed.
    pub(crate) fn release_buffered<W>(&mut self, connection: &mut Connection<W>) {
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
    pub(crate) fn overflow<W>(&mut self, table: &ConnectionTable<W>) -> Vec<Slot> {
        let now_s = self.setup.clock.at(self.woke_ns).elapsed_s;
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
