//! The sending half of the loop: moves due requests to the queues of their connections
//! ([`Engine::dispatch`]), and sends each connection's requests with one call ([`Engine::flush`]).

use std::cmp::Reverse;

use sys::clock::monotonic_ns;
use sys::poll::Interest;

use super::{Deadline, Engine, RequestSource};
use crate::carrier::{Carrier, CarrierError, InFlight};
use crate::waiting::Due;

impl<C: Carrier> Engine<C> {
    /// Moves up to `sends_max` due requests from the source to the queues of their connections.
    /// Returns whether any request was due.
    pub(super) fn dispatch(&mut self, now_ns: u64, sends_max: usize) -> bool {
        let open_loop = self.open_loop;
        let mut dispatched = 0;
        while dispatched < sends_max {
            let (intended_ns, connection, request) = match &mut self.source {
                RequestSource::Open(source) => {
                    let intended_ns = match source.next_ns() {
                        Some(after_ns) => self.timeline.start_ns + after_ns,
                        None => break,
                    };
                    if intended_ns > now_ns {
                        break;
                    }
                    let Some(planned) = source.pop() else { break };
                    (intended_ns, planned.connection, planned.request)
                }
                RequestSource::Closed(_) => break,
                RequestSource::Script(_) => match self.next_scripted(now_ns) {
                    Some(scripted) => scripted,
                    None => break,
                },
            };
            dispatched += 1;
            // In a closed loop, requests are counted as intended when they are sent.
            let measured = open_loop && intended_ns >= self.timeline.measure_ns;
            self.totals.intended += u64::from(measured);
            let number = connection - self.options.first;
            let slot = &mut self.slots[number as usize];
            let due = Due {
                intended_ns,
                request,
                cas: 0,
            };
            // If the connection is lost or the memory of the queues is full, the request is never
            // sent, and counts as censored.
            if slot.connection.is_some() && self.waiting.push(&mut slot.queue, due) {
                self.unanswered += u64::from(measured);
                if !slot.in_flush_queue {
                    slot.in_flush_queue = true;
                    self.flush_queue.push_back(number);
                }
            } else {
                self.remove_script_item(&request);
                self.censor_unsent(&request, intended_ns, now_ns);
            }
        }
        dispatched > 0
    }

    /// Removes up to `sends_max` connections from the front of the flush queue, and sends on each.
    /// Returns whether the queue had any connection.
    pub(super) fn flush(&mut self, now_ns: u64, sends_max: usize) -> bool {
        let mut flushed = 0;
        while flushed < sends_max {
            let Some(number) = self.flush_queue.pop_front() else {
                break;
            };
            self.slots[number as usize].in_flush_queue = false;
            self.send(number as usize, now_ns);
            flushed += 1;
        }
        flushed > 0
    }

    /// Appends a connection to the flush queue, unless it is already there.
    pub(super) fn schedule_flush(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        if !slot.in_flush_queue {
            slot.in_flush_queue = true;
            self.flush_queue.push_back(number as u32);
        }
    }

    /// Sends as many requests as the connection's depth and the batch allow, in one send. If there
    /// are more and the depth allows them, the connection is appended to the flush queue again.
    pub(super) fn send(&mut self, number: usize, now_ns: u64) {
        let Some(connection) = &self.slots[number].connection else {
            return;
        };
        if connection.is_blocked() || (!self.open_loop && now_ns >= self.timeline.end_ns) {
            return;
        }
        let first_new = connection.in_flight().len();
        let count = self.fill_batch(number, first_new);
        if count == 0 {
            return;
        }
        let sent_ns = self.stamp(number, first_new);
        let slot = &mut self.slots[number];
        let Some(connection) = &mut slot.connection else {
            return;
        };
        let outcome = connection.send(&self.batch, &self.poll, number as u64);
        // A long send means that the thread was interrupted.
        if self.options.recorded_max > 0 && monotonic_ns() - sent_ns > C::UNINTERRUPTED_SEND_MAX_NS
        {
            let sent = connection.in_flight_mut().range_mut(first_new..);
            sent.for_each(|request| request.interrupted = true);
        }
        let blocked = connection.is_blocked();
        let is_limited = count == C::BATCH_MAX || self.batch.is_full();
        let more = first_new + count < self.options.depth
            && (!slot.queue.is_empty() || (!self.open_loop && is_limited));
        self.count_sent(number, outcome, sent_ns);
        if blocked {
            self.set_interest(number, Interest::ReadWrite);
        } else if more {
            self.schedule_flush(number);
        }
    }

    /// Encodes the connection's next requests into the batch and records them as in flight.
    /// `first_new` is the number of requests already in flight, and so the index that the first new
    /// request will have. Returns the number of requests added.
    #[inline]
    fn fill_batch(&mut self, number: usize, first_new: usize) -> usize {
        let slot = &mut self.slots[number];
        let Some(connection) = &mut slot.connection else {
            return 0;
        };
        self.batch.clear();
        let mut count = 0;
        while first_new + count < self.options.depth
            && count < C::BATCH_MAX
            && !self.batch.is_full()
        {
            let due = match &mut self.source {
                // In a closed loop, only follow-up requests are queued. All others are taken from
                // the source when they can be sent.
                RequestSource::Closed(requests) if slot.queue.is_empty() => {
                    requests.next().map(|request| Due {
                        intended_ns: 0,
                        request,
                        cas: 0,
                    })
                }
                _ => self.waiting.pop(&mut slot.queue),
            };
            let Some(Due {
                intended_ns,
                request,
                cas,
            }) = due
            else {
                break;
            };
            let opaque = self.next_opaque;
            self.next_opaque += 1;
            let len_before = self.batch.len();
            self.batch.push(&request, cas, opaque);
            connection.in_flight_mut().push_back(InFlight {
                intended_ns,
                sent_ns: 0,
                opaque,
                request,
                late_ns: 0,
                sent_len: (self.batch.len() - len_before) as u32,
                replies: self.batch.protocol.replies(request.op, request.keys),
                hits: 0,
                datagram: 0,
                measured: false,
                interrupted: self.interruption_ns.contains(&intended_ns),
                has_error: false,
            });
            count += 1;
        }
        count
    }

    /// Records send time, slip (send time − intended time) and lateness of the batch's requests, at
    /// `first_new` and above, and counts them. Called just before the send. Returns the send time.
    #[inline]
    fn stamp(&mut self, number: usize, first_new: usize) -> u64 {
        let sent_ns = monotonic_ns();
        self.totals
            .outstanding_count
            .advance(self.in_flight, sent_ns);
        let slot = &mut self.slots[number];
        let Some(connection) = &mut slot.connection else {
            return sent_ns;
        };
        for request in connection.in_flight_mut().range_mut(first_new..) {
            request.sent_ns = sent_ns;
            if !self.open_loop {
                request.intended_ns = sent_ns;
            }
            request.measured = self.timeline.measures(request.intended_ns);
            let slip_ns = sent_ns.saturating_sub(request.intended_ns);
            self.totals.slip_max_ns = self.totals.slip_max_ns.max(slip_ns);
            let late_ns = sent_ns.saturating_sub(request.intended_ns.max(slot.unblocked_ns));
            request.late_ns = u32::try_from(late_ns).unwrap_or(u32::MAX);
            let measured = u64::from(request.measured);
            self.totals.sent += measured;
            if !self.open_loop {
                self.totals.intended += measured;
                self.unanswered += measured;
            }
            self.totals.outstanding.sent(self.timeline.clamped(sent_ns));
            self.in_flight += 1;
        }
        if C::TIMES_OUT && !slot.has_deadline {
            slot.has_deadline = true;
            self.deadlines.push(Reverse(Deadline {
                at_ns: sent_ns + self.options.timeout_ns,
                connection: number as u32,
            }));
        }
        sent_ns
    }

    /// Sends the bytes that a full socket did not accept before. If the socket now accepts all of
    /// these bytes, also sends the connection's queued requests.
    pub(super) fn send_unsent(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        let Some(connection) = &mut slot.connection else {
            return;
        };
        if !connection.is_blocked() {
            return;
        }
        let outcome = connection.send_unsent();
        let is_unblocked = !connection.is_blocked();
        let now_ns = monotonic_ns();
        self.count_sent(number, outcome, now_ns);
        if is_unblocked {
            self.slots[number].unblocked_ns = now_ns;
            self.set_interest(number, Interest::Read);
            self.send(number, now_ns);
        }
    }

    /// Adds the length of a send to the bytes sent, or handles the error of the send.
    fn count_sent(&mut self, number: usize, outcome: Result<usize, CarrierError>, now_ns: u64) {
        match outcome {
            Ok(len) if self.timeline.measures(now_ns) => self.totals.bytes_sent += len as u64,
            Ok(_) => {}
            Err(error) => self.handle_error(number, &error),
        }
    }

    /// Changes the events that the poll reports for a connection.
    pub(super) fn set_interest(&mut self, number: usize, interest: Interest) {
        let Some(connection) = &self.slots[number].connection else {
            return;
        };
        if let Err(error) = connection.set_interest(&self.poll, number as u64, interest) {
            self.handle_error(number, &error.into());
        }
    }
}
