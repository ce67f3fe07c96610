//! The loop of one generator thread.
//!
//! ```text
//!  ┌─► tick       end the measurement windows whose time is over
//!  │   dispatch   move due requests to the queues of their connections
//!  │   flush      one send for each of these connections
//!  │   wait       until connections have answers
//!  └── receive    one recv from each connection that has answers
//! ```
//!
//! An iteration sends a bounded number of requests, then receives once from each connection that
//! the wait reported (over UDP, a bounded number of datagrams). Sending and receiving therefore
//! never delay each other for long.
//!
//! The delay that the thread itself adds is its *lateness*. It is measured for sends and receives:
//!
//! - A request can be sent once its intended time has come, its connection is below its depth (the
//!   maximum of outstanding requests), and the socket has space. The lateness lasts from the latest
//!   of these three times until just before the send.
//! - An answer can be received once a wait has reported it. The lateness lasts from the return of
//!   that wait until just after the recv.
//!
//! Between a send and the next recv, the thread takes no lock and allocates no memory.

mod complete;
mod saturating;
mod scripted;
mod sending;
mod setup;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod udp_tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) use saturating::Saturating;
pub(crate) use setup::{Channels, EndedWindow, EngineOptions, Outcome, RequestSource};
use sys::clock::{monotonic_ns, thread_cpu_ns, unix_less_monotonic_ns};
use sys::poll::{Events, Poll};
use workload::Request;

use crate::arrivals::Arrivals;
use crate::batch::Batch;
use crate::carrier::Carrier;
use crate::error::Error;
use crate::limits::{
    EVENTS_MAX, RECEIVE_BYTES_MAX, SCRIPT_REST_NS, SENDS_PER_ITERATION_MAX, SIZED_SAMPLE_MAX,
    SPIN_NS, STOP_CHECK_NS, UNINTERRUPTED_MAX_NS, WAITING_MAX,
};
use crate::metrics::{Recorded, Totals, Window};
use crate::sized_sample::SizedSample;
use crate::timeline::Timeline;
use crate::waiting::{Queue, Waiting};

/// A measured connection and its queue of due requests.
struct ConnectionSlot<C> {
    /// None: the connection was lost.
    connection: Option<C>,
    /// Requests that are due, which means that their intended time has come, but are not sent yet.
    queue: Queue,
    /// When the connection last became able to send, after it had been at its depth or its socket
    /// had been full. The lateness of a request that was already due at that time begins at that
    /// time.
    unblocked_ns: u64,
    /// Whether the connection is in the flush queue.
    in_flush_queue: bool,
    /// Whether the connection has an entry in [`Engine::deadlines`].
    has_deadline: bool,
}

/// The state of one generator thread.
pub(crate) struct Engine<C: Carrier> {
    poll: Poll,
    /// The measured connections; the index is the poll token. Saturating connection `n` has the
    /// token `slots.len() + n`.
    slots: Vec<ConnectionSlot<C>>,
    saturating: Option<Saturating<C>>,
    source: RequestSource,
    /// Whether the load is an open loop, in which requests have intended times.
    open_loop: bool,
    options: EngineOptions,
    timeline: Timeline,
    channels: Channels,
    /// The buffer in which the requests of the next send are encoded.
    batch: Batch,
    /// The memory of all connections' queues.
    waiting: Waiting,
    /// The slot numbers (indices in `slots`) of the connections on which to send next.
    flush_queue: VecDeque<u32>,
    /// The connections whose requests can time out, ordered by the time of the next check. Each has
    /// at most one entry, so the length is bounded by the number of connections.
    deadlines: BinaryHeap<Reverse<Deadline>>,
    /// The measurements since the last window boundary.
    window: Window,
    window_number: usize,
    /// The counts of the complete run.
    totals: Totals,
    /// The times of single requests, as many as [`EngineOptions::recorded_max`] permits.
    recorded: Vec<Recorded>,
    /// The sizes and latencies of some requests for files.
    sized: SizedSample,
    /// The error with which the most recent connection was lost.
    last_loss: Option<String>,
    /// The opaque token of the next request.
    next_opaque: u64,
    /// Number of requests that were sent and are neither answered nor failed yet, on all measured
    /// connections.
    in_flight: u64,
    /// Number of requests of the measured interval that are not yet answered, failed or censored.
    unanswered: u64,
    /// Number of this thread's measured connections that are not lost.
    alive: usize,
    /// When the last wait returned.
    wait_end_ns: u64,
    /// When the bytes that are not yet read can have arrived.
    arrivals: Arrivals,
    /// The time span of the last wait with a zero timeout that took longer than
    /// [`UNINTERRUPTED_MAX_NS`]. A request that became due within it counts as interrupted.
    interruption_ns: RangeInclusive<u64>,
    /// Unix time − monotonic time, to convert the kernel's receive time stamps.
    unix_offset_ns: u64,
    /// The thread's processor time at the start of the measured interval, and at the end.
    cpu_at_start_ns: Option<u64>,
    cpu_at_end_ns: Option<u64>,
}

/// The next check of one connection for requests that have timed out. It is set for the time-out of
/// a request in flight, and is not changed if that request is answered earlier. Each check sets the
/// next one for the oldest request in flight. A newer request may have a shorter time-out, so the
/// next check is at most [`EngineOptions::timeout_ns`], the shortest time-out, after this one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Deadline {
    at_ns: u64,
    /// The slot number of the connection.
    connection: u32,
}

impl<C: Carrier> Engine<C> {
    pub(crate) fn new(
        poll: Poll,
        connections: Vec<C>,
        saturating: Option<Saturating<C>>,
        source: RequestSource,
        options: EngineOptions,
        channels: Channels,
        batch: Batch,
    ) -> Self {
        let slot = |connection| ConnectionSlot {
            connection: Some(connection),
            queue: Queue::EMPTY,
            unblocked_ns: 0,
            in_flush_queue: false,
            has_deadline: false,
        };
        let alive = connections.len();
        let waiting_max = match source {
            RequestSource::Open(_) | RequestSource::Script(_) => WAITING_MAX,
            // Only requests that answers cause are queued: at most one for each request in flight.
            RequestSource::Closed(_) => alive * options.depth,
        };
        Self {
            poll,
            slots: connections.into_iter().map(slot).collect(),
            saturating,
            open_loop: source.is_open_loop(),
            source,
            timeline: Timeline::default(),
            channels,
            batch,
            waiting: Waiting::new(waiting_max),
            flush_queue: VecDeque::with_capacity(alive),
            deadlines: BinaryHeap::with_capacity(if C::TIMES_OUT { alive } else { 0 }),
            window: Window::preallocated(&options.operations, options.files),
            window_number: 0,
            totals: Totals::new(0, 0),
            recorded: preallocated_records(options.recorded_max),
            sized: SizedSample::new(if options.files { SIZED_SAMPLE_MAX } else { 0 }),
            last_loss: None,
            next_opaque: options.opaque,
            options,
            in_flight: 0,
            unanswered: 0,
            alive,
            wait_end_ns: 0,
            arrivals: Arrivals::default(),
            interruption_ns: 0..=0,
            unix_offset_ns: unix_less_monotonic_ns(),
            cpu_at_start_ns: None,
            cpu_at_end_ns: None,
        }
    }

    /// Runs the loop. The loop ends in one of these cases:
    ///
    /// - the measured interval is over, and no request that counts in it is still unanswered;
    /// - the grace period is over;
    /// - all measured connections of the run are lost, over all threads;
    /// - a script has ended, and all its requests are answered or failed;
    /// - the run is stopped.
    pub(crate) fn run(mut self, timeline: Timeline) -> Result<Outcome, Error> {
        self.totals = Totals::new(timeline.measure_ns, timeline.end_ns);
        self.timeline = timeline;
        if !self.options.spin {
            self.arrivals.watch_run_delay();
        }
        if !self.open_loop {
            // No request is sent before the start. Without a warm-up, its answer would be recorded
            // in the first measured window.
            let early_ns = self.timeline.start_ns.saturating_sub(monotonic_ns());
            std::thread::sleep(Duration::from_nanos(early_ns));
            (0..self.slots.len()).for_each(|slot| self.schedule_flush(slot));
        }
        self.start_saturating();
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut buffer = vec![0; RECEIVE_BYTES_MAX];
        let mut now_ns = monotonic_ns();
        loop {
            self.tick(now_ns);
            if self.is_over(now_ns) {
                break;
            }
            let sends_max = SENDS_PER_ITERATION_MAX;
            let sent = self.dispatch(now_ns, sends_max) | self.flush(now_ns, sends_max);
            let timeout_ns = self.timeout_ns(now_ns);
            // After a send that is followed by a wait with a zero timeout, `now_ns` is recent
            // enough to serve as the start of the wait. This saves a clock reading.
            let is_recent = sent && timeout_ns == 0;
            let waits_from_ns = if is_recent { now_ns } else { monotonic_ns() };
            self.poll
                .wait(&mut events, Some(timeout_ns))
                .map_err(Error::system("wait for answers"))?;
            let previous_ns = now_ns;
            now_ns = monotonic_ns();
            self.wait_end_ns = now_ns;
            self.arrivals
                .record_wait(waits_from_ns, now_ns, timeout_ns > 0);
            self.arrivals.has_unread = events.len() == EVENTS_MAX;
            // `expire` may receive answers, including those that arrived after the wait returned.
            if C::TIMES_OUT {
                self.expire(now_ns, &mut buffer);
            }
            if !sent && timeout_ns == 0 && now_ns - waits_from_ns > UNINTERRUPTED_MAX_NS {
                self.interruption_ns = waits_from_ns..=now_ns;
            }
            if events.is_empty() {
                if !sent {
                    self.totals.idle_ns += self.timeline.overlap_ns(previous_ns, now_ns);
                    self.generate_while_idle(now_ns);
                }
                continue;
            }
            for event in events.iter() {
                let slot = event.token as usize;
                if let Some(number) = slot.checked_sub(self.slots.len()) {
                    now_ns = self.serve_saturating(number, event.writable, &mut buffer);
                } else {
                    if event.writable {
                        self.send_unsent(slot);
                    }
                    if !event.readable {
                        continue;
                    }
                    now_ns = self.receive(slot, &mut buffer, now_ns);
                }
                // A request that became due during this receive is sent before the receive from the
                // next connection.
                let _ = self.dispatch(now_ns, 1) | self.flush(now_ns, 1);
            }
            now_ns = monotonic_ns();
        }
        Ok(self.finish())
    }

    /// Ends the windows whose boundary has passed. Reads the thread's processor time at both ends
    /// of the measured interval.
    fn tick(&mut self, now_ns: u64) {
        while self
            .timeline
            .boundary(self.window_number)
            .is_some_and(|at_ns| at_ns <= now_ns)
        {
            self.end_window();
        }
        if self.cpu_at_start_ns.is_none() && now_ns >= self.timeline.measure_ns {
            self.cpu_at_start_ns = Some(thread_cpu_ns());
        }
        if self.cpu_at_end_ns.is_none() && now_ns >= self.timeline.end_ns {
            self.cpu_at_end_ns = Some(thread_cpu_ns());
        }
    }

    /// Sends the current window to the main thread and begins the next one.
    fn end_window(&mut self) {
        self.unix_offset_ns = unix_less_monotonic_ns();
        self.window.counts.outstanding = self.in_flight;
        self.window.counts.waiting = self.waiting.len() as u64;
        let next = self.channels.spare.try_recv().unwrap_or_default();
        let window = std::mem::replace(&mut self.window, next);
        let ended = EndedWindow {
            thread: self.channels.thread,
            number: self.window_number,
            window,
        };
        // The send fails only if the main thread has stopped receiving because the run is aborted.
        let _ = self.channels.windows.send(ended);
        self.window_number += 1;
    }

    /// Whether the loop ends now, for one of the reasons that [`Engine::run`] lists.
    fn is_over(&self, now_ns: u64) -> bool {
        // `channels.alive` counts the connections of all threads.
        let all_lost = self.alive == 0 && self.channels.alive.load(Ordering::Relaxed) == 0;
        // A late thread may not yet have dispatched all requests that were due before the end.
        let dispatched = match &self.source {
            RequestSource::Open(source) => source.next_ns().is_none(),
            RequestSource::Closed(_) | RequestSource::Script(_) => true,
        };
        let done = now_ns >= self.timeline.end_ns && dispatched && self.unanswered == 0;
        all_lost
            || done
            || now_ns >= self.timeline.grace_end_ns
            || self.is_script_done()
            || self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.channels.stop.load(Ordering::Relaxed)
    }

    /// The timeout of the next wait, at most [`STOP_CHECK_NS`]. It is 0 if the thread polls instead
    /// of sleeping. If [`EngineOptions::spin`] is set, the thread polls while requests are in
    /// flight, and else sleeps until [`SPIN_NS`] before the next due request, boundary or time-out.
    fn timeout_ns(&mut self, now_ns: u64) -> u64 {
        if !self.flush_queue.is_empty() {
            return 0;
        }
        let next_ns = match &self.source {
            RequestSource::Open(source) => source.next_ns().map(|ns| self.timeline.start_ns + ns),
            RequestSource::Closed(_) => None,
            RequestSource::Script(_) => Some(self.script_wake_up_ns(now_ns)),
        };
        let next_ns = next_ns
            .unwrap_or(u64::MAX)
            .min(now_ns + STOP_CHECK_NS)
            .min(self.timeline.next_event_ns(self.window_number))
            .min(self.deadlines.peek().map_or(u64::MAX, |it| it.0.at_ns));
        let until_ns = next_ns.saturating_sub(now_ns);
        match self.options.spin {
            true if self.in_flight > 0 => 0,
            true => until_ns.saturating_sub(SPIN_NS),
            false => until_ns,
        }
    }

    /// Generates one more batch of the schedule, if no request is due within the next 10 µs.
    fn generate_while_idle(&mut self, now_ns: u64) {
        if let RequestSource::Open(source) = &mut self.source {
            let next_ns = source
                .next_ns()
                .map_or(u64::MAX, |ns| self.timeline.start_ns + ns);
            // A batch takes a few microseconds to generate. It must not delay the next request.
            if next_ns.saturating_sub(now_ns) > 10_000 {
                source.generate_more();
            }
        }
    }

    /// Counts as censored the requests that are in flight or still queued at the end.
    fn censor_outstanding(&mut self, now_ns: u64) {
        let mut in_flight: Vec<(Request, u64)> = Vec::new();
        let mut never_sent: Vec<(Request, u64)> = Vec::new();
        for slot in &mut self.slots {
            if let Some(connection) = &slot.connection {
                let requests = connection.in_flight().iter();
                in_flight.extend(requests.map(|it| (it.request, it.intended_ns)));
            }
            while let Some(due) = self.waiting.pop(&mut slot.queue) {
                never_sent.push((due.request, due.intended_ns));
            }
        }
        for (request, intended_ns) in in_flight {
            self.censor(&request, intended_ns, now_ns);
        }
        for (request, intended_ns) in never_sent {
            self.censor_unsent(&request, intended_ns, now_ns);
        }
    }

    /// Counts the requests without an answer as censored, sends the remaining windows, and returns
    /// the thread's result.
    fn finish(mut self) -> Outcome {
        let now_ns = monotonic_ns();
        self.totals
            .outstanding_count
            .advance(self.in_flight, now_ns);
        let cpu_ns = thread_cpu_ns();
        let at_start_ns = self.cpu_at_start_ns.unwrap_or(cpu_ns);
        self.totals.cpu_ns = self.cpu_at_end_ns.unwrap_or(cpu_ns) - at_start_ns;
        // Requests of the schedule or of an open-loop script that were never dispatched count as
        // intended and censored.
        let all_lost = self.channels.alive.load(Ordering::Relaxed) == 0;
        if let RequestSource::Open(source) = &mut self.source
            && !all_lost
            && !self.channels.stop.load(Ordering::Relaxed)
        {
            let mut never_sent = Vec::new();
            while let Some(planned) = source.pop() {
                let intended_ns = self.timeline.start_ns + planned.intended_ns;
                self.totals.intended += u64::from(self.timeline.measures(intended_ns));
                never_sent.push((planned.request, intended_ns));
            }
            for (request, intended_ns) in never_sent {
                self.censor(&request, intended_ns, now_ns);
            }
        }
        if let RequestSource::Script(source) = &mut self.source
            && source.open
            && !all_lost
            && !self.channels.stop.load(Ordering::Relaxed)
        {
            let mut never_sent = Vec::new();
            while let Some(scripted) = source.pop_until(now_ns + SCRIPT_REST_NS) {
                let intended_ns = self.timeline.start_ns + scripted.intended_ns;
                self.totals.intended += u64::from(self.timeline.measures(intended_ns));
                never_sent.push((Request::new(scripted.op, 0), intended_ns));
            }
            for (request, intended_ns) in never_sent {
                self.censor(&request, intended_ns, now_ns);
            }
        }
        self.censor_outstanding(now_ns);
        let connections = self
            .slots
            .iter()
            .filter_map(|slot| slot.connection.as_ref());
        connections.for_each(|connection| connection.add_counts_to(&mut self.totals.carriers));
        // If the run ends early, the remaining windows are sent too, because the main thread
        // expects every window of every thread.
        while self.window_number <= self.timeline.boundaries() && !self.is_stopped() {
            self.end_window();
        }
        Outcome {
            totals: self.totals,
            recorded: self.recorded,
            sized: self.sized,
            alive: self.alive,
            last_loss: self.last_loss,
            ended_ns: now_ns,
        }
    }
}

/// Returns an empty list with capacity for `len_max` records. The pages of its memory are already
/// mapped, because a page fault during the measurement would add to the measured latency.
fn preallocated_records(len_max: usize) -> Vec<Recorded> {
    let mut records = vec![Recorded::default(); len_max];
    // The allocator may return zeroed memory whose pages are not mapped yet. Writing other values
    // maps them.
    records.fill(Recorded {
        opaque: 1,
        ..Recorded::default()
    });
    records.clear();
    records
}
