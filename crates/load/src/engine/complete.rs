//! The receiving half of the loop: answers, and connections lost.

use std::sync::atomic::Ordering;

use sys::clock::monotonic_ns;

use super::{Engine, Source};
use crate::lane::{Broken, InFlight};
use crate::tally::Recorded;
use crate::wire::Answer;
use workload::Op;

impl Engine {
    /// Receives once, counts the answers that came, and sends what they made room for.
    pub(super) fn receive(&mut self, number: usize, buffer: &mut [u8]) {
        let Some(lane) = &mut self.places[number].lane else {
            return;
        };
        let len = match lane.receive(buffer) {
            Ok(0) => return,
            Ok(len) => len,
            Err(broken) => return self.lose(number, &broken),
        };
        let now_ns = monotonic_ns();
        if self.timeline.measures(now_ns) {
            self.totals.bytes_received += len as u64;
        }
        let mut input = &buffer[..len];
        while let Some(lane) = &mut self.places[number].lane {
            match lane.answer(&mut input, self.manner.protocol) {
                Ok(Some((request, answer))) => {
                    self.places[number].room_ns = now_ns;
                    self.complete(&request, answer, now_ns);
                }
                Ok(None) => break,
                Err(broken) => return self.lose(number, &broken),
            }
        }
        if matches!(self.source, Source::Closed(_)) || !self.places[number].queue.is_empty() {
            self.send(number, now_ns);
        }
    }

    fn complete(&mut self, request: &InFlight, answer: Answer, now_ns: u64) {
        let get = u64::from(request.op == Op::Get);
        let hit = u64::from(answer == Answer::Hit);
        let error = u64::from(answer == Answer::Error);
        self.in_flight -= 1;
        self.totals
            .outstanding
            .answered(self.timeline.clamped(now_ns));
        self.part.answered += 1;
        self.part.gets += get;
        self.part.hits += hit;
        self.part.errors += error;
        self.totals.achieved += u64::from(self.timeline.measures(now_ns));
        if request.measured {
            self.owed -= 1;
            self.totals.answered += 1;
            self.totals.errors += error;
            self.totals.gets += get;
            self.totals.hits += hit;
            self.totals.sets += 1 - get;
            if self.recorded.len() < self.manner.recorded_max {
                self.recorded.push(Recorded {
                    opaque: request.opaque,
                    intended_ns: request.intended_ns,
                    sent_ns: request.sent_ns,
                    answered_ns: now_ns,
                });
            }
        } else if now_ns >= self.timeline.measure_ns {
            // Of the warm-up, but late: it belongs to neither.
            return;
        }
        let latencies = &mut self.part.latencies;
        latencies.service.record(now_ns - request.sent_ns);
        if matches!(self.source, Source::Open(_)) {
            latencies.response.record(now_ns - request.intended_ns);
            latencies.slip.record(request.sent_ns - request.intended_ns);
            let picked_up_after_ns = now_ns - self.turn_ns;
            latencies
                .lateness
                .record(u64::from(request.late_ns) + picked_up_after_ns);
        }
    }

    /// Gives up a connection and all that was asked, or was to be asked, on it.
    pub(super) fn lose(&mut self, number: usize, broken: &Broken) {
        let place = &mut self.places[number];
        let Some(lane) = place.lane.take() else {
            return;
        };
        let now_ns = self.timeline.clamped(monotonic_ns());
        for request in &lane.in_flight {
            self.in_flight -= 1;
            self.owed -= u64::from(request.measured);
            self.totals.outstanding.answered(now_ns);
        }
        while let Some(due) = self.waiting.pop(&mut place.queue) {
            self.owed -= u64::from(self.timeline.measures(due.intended_ns));
        }
        self.alive -= 1;
        self.wires.alive.fetch_sub(1, Ordering::Relaxed);
        self.totals.lost_connections += 1;
        self.part.lost_connections += 1;
        self.last_loss = Some(broken.to_string());
    }
}
