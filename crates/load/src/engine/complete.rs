//! The receiving half of the loop: records answers, failed requests and lost connections.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use sys::clock::monotonic_ns;

use super::{Deadline, Engine};
use crate::carrier::{Answered, Carrier, CarrierError, Failure, InFlight};
use crate::metrics::Recorded;
use crate::waiting::Due;
use crate::wire::Outcome;
use sys::poll::Interest;
use workload::{Op, Request, WebFiles};

/// When the bytes of one receive arrived at this host, and when the thread received them.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    /// The kernel's time stamp of the arrival, on the monotonic clock. Without a time stamp, the
    /// same as `received_ns`.
    at_ns: u64,
    /// Whether there was a time stamp.
    stamped: bool,
    /// The time just after the receive.
    received_ns: u64,
}

impl<C: Carrier> Engine<C> {
    /// Receives from a connection, counts the answers, and sends further requests. Returns the time
    /// just after the last receive, or `before_ns` if nothing was received.
    ///
    /// A receive from a stream returns all bytes that have arrived. A receive from a UDP socket
    /// returns only one datagram. It is repeated, at most [`Carrier::RECEIVES_MAX`] times, while
    /// requests are in flight whose answers may have arrived too.
    pub(super) fn receive(&mut self, number: usize, buffer: &mut [u8], before_ns: u64) -> u64 {
        let mut received_ns = None;
        for count in 1..=C::RECEIVES_MAX {
            let Some(now_ns) = self.receive_once(number, buffer) else {
                break;
            };
            received_ns = Some(now_ns);
            if C::RECEIVES_MAX > 1 {
                let connection = self.slots[number].connection.as_ref();
                if connection.is_none_or(|it| it.in_flight().is_empty()) {
                    break;
                }
                self.arrivals.has_unread |= count == C::RECEIVES_MAX;
            }
        }
        let Some(now_ns) = received_ns else {
            return before_ns;
        };
        if !self.open_loop || !self.slots[number].queue.is_empty() {
            self.send(number, now_ns);
        }
        now_ns
    }

    /// Receives once from a connection and counts the answers. Returns the time just after the
    /// receive. None: nothing was received, or the connection had an error, which was handled.
    fn receive_once(&mut self, number: usize, buffer: &mut [u8]) -> Option<u64> {
        let connection = self.slots[number].connection.as_mut()?;
        let (len, stamp_ns) = match connection.receive(buffer) {
            Ok((0, _)) => return None,
            Ok(received) => received,
            Err(error) => {
                // A UDP socket reports an error before it returns datagrams that have arrived.
                self.arrivals.has_unread |= C::RECEIVES_MAX > 1;
                self.handle_error(number, &error);
                return None;
            }
        };
        let now_ns = monotonic_ns();
        self.arrivals.has_unread |= len == buffer.len();
        self.totals
            .outstanding_count
            .advance(self.in_flight, now_ns);
        let arrival = Arrival {
            // The bytes arrived before `now_ns`. A converted time stamp may nevertheless be later,
            // because the offset between the two clocks is slightly inexact.
            at_ns: stamp_ns.map_or(now_ns, |unix_ns| {
                unix_ns.saturating_sub(self.unix_offset_ns).min(now_ns)
            }),
            stamped: stamp_ns.is_some(),
            received_ns: now_ns,
        };
        if self.timeline.measures(arrival.at_ns) {
            self.totals.bytes_received += len as u64;
        }
        let mut input = &buffer[..len];
        while let Some(connection) = &mut self.slots[number].connection {
            let is_at_depth = connection.in_flight().len() >= self.options.depth;
            // Matched by reference, to avoid a copy of the answer, which is large.
            match &connection.next(&mut input) {
                Ok(Some(answered)) => {
                    // An answer unblocks only a connection that is at its depth. A connection below
                    // its depth was not blocked: its due requests waited for this thread.
                    if is_at_depth {
                        self.slots[number].unblocked_ns = arrival.at_ns;
                    }
                    self.complete(number, answered, arrival);
                    if input.is_empty() {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.handle_error(number, error);
                    return None;
                }
            }
        }
        Some(now_ns)
    }

    /// Counts an answer, queues the follow-up request if it causes one, and records the latency of
    /// the answered request.
    fn complete(&mut self, number: usize, answered: &Answered, arrival: Arrival) {
        let Answered {
            request, answer, ..
        } = answered;
        let answered_ns = arrival.at_ns.max(request.sent_ns);
        let timeout_ns = C::timeout_ns(request.request.op, self.options.timeout_ns);
        if C::TIMES_OUT && answered_ns - request.sent_ns > timeout_ns {
            // The answer arrived after the time-out of its request, but the thread received it
            // before it gave the request up.
            self.totals.carriers.late_or_duplicate += 1;
            let given_up_ns = request.sent_ns + timeout_ns;
            self.fail(request, Failure::TimedOut, given_up_ns, arrival.received_ns);
            return;
        }
        let op = request.request.op;
        let keys = u64::from(request.request.keys);
        let hits = u64::from(answer.hits);
        let error = u64::from(answer.outcome == Outcome::Error);
        self.in_flight -= 1;
        self.totals
            .outstanding
            .answered(self.timeline.clamped(answered_ns));
        // No answer arrives before its request was sent.
        let earliest_ns = self.arrivals.earliest_ns.max(request.sent_ns);
        self.totals
            .outstanding_count
            .unread(earliest_ns, arrival.received_ns);
        self.window.counts.answered += 1;
        self.window.counts.errors += error;
        if op.reads() {
            self.window.counts.gets += keys;
            self.window.counts.hits += hits;
        }
        if self.timeline.measures(answered_ns) {
            self.totals.achieved += 1;
        }
        self.totals.unstamped += u64::from(!arrival.stamped);
        if !(op.has_follow_up() && self.queue_follow_up(number, answered, answered_ns)) {
            self.remove_script_item(&request.request);
        }
        if request.measured {
            self.unanswered -= 1;
            let counts = &mut self.totals.operations[op as usize];
            counts.answered += 1;
            counts.further_keys += keys - 1;
            counts.hits += hits;
            match answer.outcome {
                Outcome::Found | Outcome::Missed => counts.misses += keys - hits,
                Outcome::Stored => {}
                Outcome::Conflicted => counts.conflicts += 1,
                Outcome::Error => counts.errors += 1,
            }
            counts.bytes_sent += u64::from(request.sent_len);
            counts.bytes_received += u64::from(answered.len);
            self.record_times(request, answered_ns);
        } else if arrival.received_ns >= self.timeline.measure_ns {
            // This request does not count in the measured interval, usually because it belongs to
            // the warm-up, but its answer was received after the warm-up. The windows after the
            // warm-up must not include its latency.
            return;
        }
        let open_loop = self.open_loop;
        if self.options.files {
            self.record_file(request, answer.outcome, answered_ns);
        }
        let latencies = &mut self.window.latencies;
        let of_operation = latencies.of(op);
        of_operation.service.record(answered_ns - request.sent_ns);
        if open_loop {
            let response_ns = answered_ns - request.intended_ns;
            of_operation.response.record(response_ns);
            latencies.slip.record(request.sent_ns - request.intended_ns);
            // If the kernel stamped the arrival, a late receive does not change this latency. The
            // delay can postpone the connection's next request, and counts in its lateness.
            let receive_delay_ns = if arrival.stamped {
                0
            } else {
                arrival.received_ns - self.wait_end_ns
            };
            latencies
                .lateness
                .record(u64::from(request.late_ns) + receive_delay_ns);
        }
    }

    /// Records the times of an answered request, as long as there is space for them.
    #[inline]
    fn record_times(&mut self, request: &InFlight, answered_ns: u64) {
        if self.recorded.len() < self.options.recorded_max {
            self.recorded.push(Recorded {
                opaque: request.opaque,
                intended_ns: request.intended_ns,
                sent_ns: request.sent_ns,
                answered_ns,
                interrupted: request.interrupted,
            });
        }
    }

    /// Records the latency of a request for a file by the size of the file.
    fn record_file(&mut self, request: &InFlight, outcome: Outcome, answered_ns: u64) {
        let file = request.request.record;
        let service_ns = answered_ns - request.sent_ns;
        let mut latency_ns = service_ns;
        let of_class = self.window.latencies.of_class(WebFiles::class(file));
        of_class.service.record(service_ns);
        if self.open_loop {
            latency_ns = answered_ns - request.intended_ns;
            of_class.response.record(latency_ns);
        }
        // Only an answer to a GET that found the file contains the bytes of the file.
        if request.measured && outcome == Outcome::Found && request.request.op == Op::Get {
            self.sized
                .add(request.opaque, WebFiles::size(file), latency_ns);
        }
    }

    /// Queues the follow-up request of an answer, if there is one. A `gets` that found a value
    /// causes a `cas`. A read-through get that found no value causes a set. The intended time of
    /// the follow-up is the arrival of the answer. If the answer arrived after the end of the
    /// measured interval, nothing is queued. Returns whether a request was queued.
    fn queue_follow_up(&mut self, number: usize, answered: &Answered, answered_ns: u64) -> bool {
        let Some(request) = answered.request.request.follow_up() else {
            return false;
        };
        let cas = match request.op {
            Op::Cas => (answered.answer.hits > 0).then_some(answered.cas),
            _ => (answered.answer.outcome == Outcome::Missed).then_some(0),
        };
        let Some(cas) = cas.filter(|_| answered_ns < self.timeline.end_ns) else {
            return false;
        };
        let due = Due {
            intended_ns: answered_ns,
            request,
            cas,
        };
        let measured = u64::from(self.timeline.measures(answered_ns));
        self.totals.follow_ups += measured;
        let is_queued = self.waiting.push(&mut self.slots[number].queue, due);
        // In a closed loop, requests are counted as intended when they are sent.
        if self.open_loop {
            self.totals.intended += measured;
            if is_queued {
                self.unanswered += measured;
            } else {
                self.censor(&request, answered_ns, answered_ns);
            }
        }
        is_queued
    }

    /// Counts a request that failed without an answer. The time from its intended time to
    /// `given_up_ns` is recorded as a lower bound of its latency.
    fn fail(&mut self, request: &InFlight, failure: Failure, given_up_ns: u64, now_ns: u64) {
        self.totals
            .outstanding_count
            .advance(self.in_flight, now_ns);
        self.in_flight -= 1;
        self.totals
            .outstanding
            .answered(self.timeline.clamped(now_ns));
        self.window.counts.failed += 1;
        self.remove_script_item(&request.request);
        if !request.measured {
            return;
        }
        self.unanswered -= 1;
        let op = request.request.op;
        self.totals.operations[op as usize].failures[failure as usize] += 1;
        let lower_bound_ns = given_up_ns.saturating_sub(request.intended_ns);
        self.record_lower_bound(&request.request, lower_bound_ns);
    }

    /// Records a lower bound of the latency of a request without an answer.
    fn record_lower_bound(&mut self, request: &Request, lower_bound_ns: u64) {
        let latencies = &mut self.window.latencies;
        let of_operation = latencies.of(request.op);
        of_operation.censored.record(lower_bound_ns);
        if self.options.files {
            let of_class = latencies.of_class(WebFiles::class(request.record));
            of_class.censored.record(lower_bound_ns);
        }
    }

    /// Gives up the requests whose time-out has passed. Receives from their connections first: an
    /// answer that arrived in time must count, even if this thread reads it too late.
    pub(super) fn expire(&mut self, now_ns: u64, buffer: &mut [u8]) {
        while self.deadlines.peek().is_some_and(|it| it.0.at_ns <= now_ns) {
            let Some(Reverse(deadline)) = self.deadlines.pop() else {
                return;
            };
            let number = deadline.connection as usize;
            let at_ns = self.expire_on(number, now_ns, buffer);
            self.slots[number].has_deadline = at_ns.is_some();
            if let Some(at_ns) = at_ns {
                let connection = deadline.connection;
                self.deadlines.push(Reverse(Deadline { at_ns, connection }));
            }
        }
    }

    /// Gives up those requests of one connection whose time-out has passed. Returns the time of the
    /// next check, which is the earlier of two times: the time-out of the oldest request in flight,
    /// and `now_ns` plus the shortest time-out. None: no request is in flight.
    fn expire_on(&mut self, number: usize, now_ns: u64, buffer: &mut [u8]) -> Option<u64> {
        loop {
            let connection = self.slots[number].connection.as_ref()?;
            let oldest = connection.in_flight().front()?;
            let timeout_ns = C::timeout_ns(oldest.request.op, self.options.timeout_ns);
            let (opaque, at_ns) = (oldest.opaque, oldest.sent_ns + timeout_ns);
            if at_ns > now_ns {
                return Some(at_ns.min(now_ns + self.options.timeout_ns));
            }
            if self.receive(number, buffer, 0) > 0 {
                continue;
            }
            let connection = self.slots[number].connection.as_mut()?;
            // If `receive` found an error, this request may already have failed because of it.
            let Some(request) = connection.give_up(opaque) else {
                continue;
            };
            self.fail(&request, Failure::TimedOut, at_ns, monotonic_ns());
            self.resume(number);
        }
    }

    /// Lets a connection send again after one of its requests has failed.
    fn resume(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        slot.unblocked_ns = monotonic_ns();
        if !self.open_loop || !slot.queue.is_empty() {
            self.schedule_flush(number);
        }
    }

    /// Counts a request without an answer as censored, if its intended time (closed loop: send
    /// time) lies in the measured interval. Only a lower bound of its response time (closed loop:
    /// service time) is known.
    pub(super) fn censor(&mut self, request: &Request, intended_ns: u64, given_up_ns: u64) {
        if self.timeline.measures(intended_ns) {
            let lower_bound_ns = self.timeline.lower_bound_ns(intended_ns, given_up_ns);
            self.record_lower_bound(request, lower_bound_ns);
        }
    }

    /// Counts a request that was never sent as censored. In a closed loop, such a request does not
    /// count as intended, so nothing is recorded.
    pub(super) fn censor_unsent(&mut self, request: &Request, intended_ns: u64, given_up_ns: u64) {
        if self.open_loop {
            self.censor(request, intended_ns, given_up_ns);
        }
    }

    /// Handles an error of a connection. If the carrier can continue, only the requests that it
    /// returns fail. Otherwise the connection is lost, and its outstanding and queued requests are
    /// censored.
    pub(super) fn handle_error(&mut self, number: usize, error: &CarrierError) {
        let slot = &mut self.slots[number];
        let Some(connection) = &mut slot.connection else {
            return;
        };
        let was_blocked = connection.is_blocked();
        if let Some((failed, failure)) = connection.recover(error) {
            if was_blocked && !connection.is_blocked() {
                // If the socket is still open, the poll no longer needs to report that it is
                // writable. If the carrier closed the socket, this call has no effect.
                let _ = connection.set_interest(&self.poll, number as u64, Interest::Read);
            }
            let now_ns = monotonic_ns();
            for request in &failed {
                self.fail(request, failure, now_ns, now_ns);
            }
            self.resume(number);
            return;
        }
        let Some(connection) = slot.connection.take() else {
            return;
        };
        connection.add_counts_to(&mut self.totals.carriers);
        let lost_ns = monotonic_ns();
        self.totals
            .outstanding_count
            .advance(self.in_flight, lost_ns);
        let now_ns = self.timeline.clamped(lost_ns);
        let mut given_up: Vec<(Request, u64)> = Vec::new();
        for request in connection.in_flight() {
            self.in_flight -= 1;
            self.unanswered -= u64::from(request.measured);
            self.totals.outstanding.answered(now_ns);
            given_up.push((request.request, request.intended_ns));
        }
        let open_loop = self.open_loop;
        let mut never_sent: Vec<Due> = Vec::new();
        while let Some(due) = self.waiting.pop(&mut slot.queue) {
            self.unanswered -= u64::from(open_loop && self.timeline.measures(due.intended_ns));
            never_sent.push(due);
        }
        for (request, intended_ns) in given_up {
            self.censor(&request, intended_ns, lost_ns);
            self.remove_script_item(&request);
        }
        for due in never_sent {
            self.censor_unsent(&due.request, due.intended_ns, lost_ns);
            self.remove_script_item(&due.request);
        }
        self.alive -= 1;
        self.channels.alive.fetch_sub(1, Ordering::Relaxed);
        self.totals.lost_connections += 1;
        self.window.counts.lost_connections += 1;
        self.last_loss = Some(error.to_string());
    }
}
