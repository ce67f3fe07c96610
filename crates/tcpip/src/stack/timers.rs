//! What is sent, and what happens when time has passed.

use smoltcp::iface::PollResult;
use smoltcp::socket::tcp::State;

use super::{Stack, instant};
use crate::connection::Phase;
use crate::limits::{
    KEEPALIVE_NS, PROBE_NS, PROBES_MAX, TIMER_MIN_NS, TIMERS_PER_CALL, UNACKNOWLEDGED_NS,
};
use crate::link::Link;

impl Stack {
    /// Does what is due at time `now_ns`: retransmissions, delayed acknowledgements, and the ends
    /// of half-open and closing connections. The frames are ready after [`Stack::flush`].
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        for _ in 0..TIMERS_PER_CALL {
            let Some(is_dropped) = self.half_open.advance(now_ns) else {
                break;
            };
            self.counts.half_open_dropped += u64::from(is_dropped);
        }
        for _ in 0..TIMERS_PER_CALL {
            let Some(id) = self.closing.pop_due(now_ns) else {
                break;
            };
            self.reset(id, Phase::Closing);
        }
        for _ in 0..TIMERS_PER_CALL {
            let Some(slot) = self.timers.pop_due(now_ns) else {
                return;
            };
            let Some(connection) = self.in_slot(slot) else {
                continue;
            };
            let silent_ns = now_ns.saturating_sub(connection.last_frame_ns);
            let silent_max_ns = if connection.socket().send_queue() > 0 {
                UNACKNOWLEDGED_NS
            } else {
                KEEPALIVE_NS + PROBES_MAX * PROBE_NS
            };
            if silent_ns > silent_max_ns {
                connection.socket_mut().abort();
                self.counts.reset += 1;
                self.queue_ready(slot);
            } else if silent_ns >= KEEPALIVE_NS {
                connection.probe();
            }
            self.queue_pending(slot);
        }
    }

    /// Returns when [`Stack::advance`] has to be called next if no frame arrives. `None` if it need
    /// not be.
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let deadlines = [
            self.timers.next_ns(),
            self.half_open.next_ns(),
            self.closing.next_ns(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Returns whether connections have more to send than there was space for in
    /// [`Stack::frames`].
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty() || self.half_open.has_unanswered()
    }

    /// Adds the segments that connections have to send to [`Stack::frames`], as far as there is
    /// space.
    pub fn flush(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.half_open.flush(&self.config, &mut self.frames);
        let mut pending = std::mem::take(&mut self.pending);
        for slot in pending.drain(..) {
            let Some(connection) = self.in_slot(slot) else {
                continue;
            };
            connection.is_in_pending = false;
            if self.frames.is_full() {
                self.queue_pending(slot);
                continue;
            }
            self.send_segments(slot);
            self.arm_timer(slot);
        }
        // Those that were added meanwhile have more to send. The memory of the list is used again.
        pending.append(&mut self.pending);
        self.pending = pending;
    }

    /// Sends the segments of a connection, as far as there is space for frames.
    pub(super) fn send_segments(&mut self, slot: u32) {
        let connection = self.connections.get_mut(slot as usize);
        let Some(connection) = connection.and_then(Option::as_deref_mut) else {
            return;
        };
        let (frames, sent_end) = (&mut self.frames, &mut connection.sent_end);
        let mut link = Link::new(&self.config, connection.peer, None, frames, sent_end);
        let (now, sockets) = (instant(self.now_ns), &mut connection.sockets);
        while self.interface.poll_egress(now, &mut link, sockets) != PollResult::None {}
    }

    /// Sets the timer of a connection after it has sent, or removes the connection if it has ended.
    fn arm_timer(&mut self, slot: u32) {
        let now_ns = self.now_ns;
        let connection = self.connections.get_mut(slot as usize);
        let Some(connection) = connection.and_then(Option::as_deref_mut) else {
            return;
        };
        let now = instant(now_ns);
        let due = self.interface.poll_at(now, &connection.sockets);
        if connection.phase == Phase::Closing
            && connection.state() == State::Closed
            && due.is_none()
        {
            return self.remove(slot);
        }
        if due.is_some_and(|due| due <= now) && self.frames.is_full() {
            return self.queue_pending(slot);
        }
        let due_ns = due.map(|due| {
            let due_us = u64::try_from(due.total_micros()).unwrap_or(0);
            due_us.saturating_mul(1000).max(now_ns + TIMER_MIN_NS)
        });
        let probe_ns = connection.probe_at_ns(now_ns);
        let Some(due_ns) = due_ns.into_iter().chain(probe_ns).min() else {
            return;
        };
        // If an earlier timer is set, the connection is looked at again then. So a connection that
        // is busy does not set a timer for each segment.
        self.timers.set_earlier(slot, due_ns);
    }
}
