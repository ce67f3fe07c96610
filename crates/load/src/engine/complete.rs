//! The receiving half of the loop: answers and lost connections.

use std::sync::atomic::Ordering;

use sys::clock::monotonic_ns;

use super::{Engine, RequestSource};
use crate::connection::{ConnectionError, InFlight};
use crate::metrics::Recorded;
use crate::wire::Answer;
use workload::Op;

/// The arrival of received bytes.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    /// Arrival time: the kernel's time stamp, or the thread's clock where there is none.
    at_ns: u64,
    /// The kernel has stamped the arrival.
    stamped: bool,
    /// When the thread received them.
    received_ns: u64,
}

impl Engine {
    /// Receives once, counts the answers, and sends the requests that were waiting for them.
    /// Returns the time by the thread's clock.
    pub(super) fn receive(&mut self, number: usize, buffer: &mut [u8], before_ns: u64) -> u64 {
        let Some(connection) = &mut self.slots[number].connection else {
            return before_ns;
        };
        let (len, stamp_ns) = match connection.receive(buffer) {
            Ok((0, _)) => return before_ns,
            Ok(received) => received,
            Err(error) => {
                self.lose(number, &error);
                return before_ns;
            }
        };
        let now_ns = monotonic_ns();
        self.has_unread |= len == buffer.len();
        self.totals
            .outstanding_count
            .advance(self.in_flight, now_ns);
        let arrival = Arrival {
            // A stamp cannot be later than now; the clocks' offset may be slightly off.
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
            match connection.answer(&mut input, self.options.protocol) {
                Ok(Some((request, answer))) => {
                    // Only an answer at full depth unblocks the connection. Below its depth,
                    // requests waited for this thread and not for the connection.
                    if connection.in_flight.len() + 1 >= self.options.depth {
                        self.slots[number].unblocked_ns = arrival.at_ns;
                    }
                    self.complete(&request, answer, arrival);
                }
                Ok(None) => break,
                Err(error) => {
                    self.lose(number, &error);
                    return now_ns;
                }
            }
        }
        if matches!(self.source, RequestSource::Closed(_)) || !self.slots[number].queue.is_empty() {
            self.send(number, now_ns);
        }
        now_ns
    }

    fn complete(&mut self, request: &InFlight, answer: Answer, arrival: Arrival) {
        let answered_ns = arrival.at_ns.max(request.sent_ns);
        let get = u64::from(request.op == Op::Get);
        let hit = u64::from(answer == Answer::Hit);
        let error = u64::from(answer == Answer::Error);
        self.in_flight -= 1;
        self.totals
            .outstanding
            .answered(self.timeline.clamped(answered_ns));
        self.totals
            .outstanding_count
            .unread(self.earliest_arrival_ns, arrival.received_ns);
        self.window.counts.answered += 1;
        self.window.counts.gets += get;
        self.window.counts.hits += hit;
        self.window.counts.errors += error;
        if self.timeline.measures(answered_ns) {
            self.totals.achieved += 1;
        }
        self.totals.unstamped += u64::from(!arrival.stamped);
        if request.measured {
            self.unanswered -= 1;
            self.totals.answered += 1;
            self.totals.errors += error;
            self.totals.gets += get;
            self.totals.hits += hit;
            self.totals.sets += 1 - get;
            if self.recorded.len() < self.options.recorded_max {
                self.recorded.push(Recorded {
                    opaque: request.opaque,
                    intended_ns: request.intended_ns,
                    sent_ns: request.sent_ns,
                    answered_ns,
                    interrupted: request.interrupted,
                });
            }
        } else if arrival.received_ns >= self.timeline.measure_ns {
            // A warm-up request that was answered after the warm-up is recorded in no window.
            return;
        }
        let latencies = &mut self.window.latencies;
        latencies.service.record(answered_ns - request.sent_ns);
        if matches!(self.source, RequestSource::Open(_)) {
            latencies.response.record(answered_ns - request.intended_ns);
            latencies.slip.record(request.sent_ns - request.intended_ns);
            // With a kernel time stamp, a late receive does not change this latency. It can only
            // delay the connection's next request, and is part of that request's lateness.
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

    /// Counts a measured request as censored: it is given up, and only a lower bound of its
    /// response time is known.
    pub(super) fn censor(&mut self, intended_ns: u64, given_up_ns: u64) {
        if matches!(self.source, RequestSource::Open(_)) && self.timeline.measures(intended_ns) {
            let lower_bound_ns = self.timeline.lower_bound_ns(intended_ns, given_up_ns);
            self.window.latencies.censored.record(lower_bound_ns);
        }
    }

    /// Drops a lost connection. Its outstanding and queued requests are censored.
    pub(super) fn lose(&mut self, number: usize, error: &ConnectionError) {
        let slot = &mut self.slots[number];
        let Some(connection) = slot.connection.take() else {
            return;
        };
        let lost_ns = monotonic_ns();
        self.totals
            .outstanding_count
            .advance(self.in_flight, lost_ns);
        let now_ns = self.timeline.clamped(lost_ns);
        let mut given_up: Vec<u64> = Vec::new();
        for request in &connection.in_flight {
            self.in_flight -= 1;
            self.unanswered -= u64::from(request.measured);
            self.totals.outstanding.answered(now_ns);
            given_up.push(request.intended_ns);
        }
        while let Some(due) = self.waiting.pop(&mut slot.queue) {
            self.unanswered -= u64::from(self.timeline.measures(due.intended_ns));
            given_up.push(due.intended_ns);
        }
        for intended_ns in given_up {
            self.censor(intended_ns, lost_ns);
        }
        self.alive -= 1;
        self.channels.alive.fetch_sub(1, Ordering::Relaxed);
        self.totals.lost_connections += 1;
        self.window.counts.lost_connections += 1;
        self.last_loss = Some(error.to_string());
    }
}
