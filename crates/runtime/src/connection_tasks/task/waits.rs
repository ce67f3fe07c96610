//! How a task waits for something other than its peer: for memory that other connections hold, or
//! for the result of a ticket.

use service::Worker as _;
use sys::clock::monotonic_ns;

use super::ConnectionTask;
use crate::connection_tasks::{PeerSocket, TaskRuntime};
use crate::limits::{HANG_UP_CHECK_NS, MEMORY_RETRY_NS};
use crate::setup::second;

impl<C: TaskRuntime> ConnectionTask<C> {
    /// Sleeps until a request that waits for memory may be retried. Once a second, one of the tasks
    /// that wait for memory wakes the supervisor, which closes slow holders. Returns false if the
    /// connection has to be closed.
    pub(super) fn wait_for_memory(&mut self, now_ns: u64) -> bool {
        let setup = &self.tasks.setup;
        let is_first_in_second = setup.counts.request_memory(second(now_ns));
        if is_first_in_second {
            self.tasks.inbox.waker.wake();
        }
        // This connection waits for memory, not for its peer, so it must not be closed as a slow
        // holder.
        self.peer.set_holding(false);
        self.peer.set_waiting_elsewhere(true);
        let stays_open = self.count_buffered() && !self.socket.hangs_up_within(MEMORY_RETRY_NS);
        self.resume();
        stays_open
    }

    /// Waits until at least one result of a ticket has been delivered to the session. Returns false
    /// if the connection has to be closed, for example because the peer has hung up. Closing it
    /// cancels the tickets.
    pub(super) fn wait_for_ticket(&mut self) -> bool {
        let is_stuck = self.tickets.count() == 0;
        // Without an open ticket no result would arrive, and the task would wait forever.
        debug_assert!(!is_stuck, "the session waits for a result without a ticket");
        if is_stuck {
            return false;
        }
        // This connection waits for a result, not for its peer, so it must not be closed as a slow
        // holder. `count_buffered` first closes connections that have an inactive peer and do not
        // wait elsewhere, so set the flag before that call.
        self.peer.set_holding(false);
        self.peer.set_waiting_elsewhere(true);
        if !self.count_buffered() {
            return false;
        }
        while !self.deliver() {
            // A timeout of 0: look whether the peer has hung up, without sleeping.
            if self.peer.is_shut() || self.socket.hangs_up_within(0) {
                return false;
            }
            // Sleep until the mailbox gets a result, or the next such check is due.
            self.socket.wait_woken(HANG_UP_CHECK_NS);
        }
        self.resume();
        true
    }

    /// Records the end of a wait for something other than the peer. The time of this wait does not
    /// count as silence of the peer.
    fn resume(&self) {
        self.peer.set_active(second(monotonic_ns()));
        self.peer.set_waiting_elsewhere(false);
    }

    /// Delivers all results in the mailbox to the session. Returns false if there are none.
    fn deliver(&mut self) -> bool {
        let (session, mut has_delivered) = (&mut self.session, false);
        while let Some(completed) = self.mailbox.as_ref().and_then(|mailbox| mailbox.take()) {
            has_delivered = true;
            self.tickets.record_delivery();
            let runtime = &self.tasks.runtime;
            let session = &mut *session;
            let now_ns = monotonic_ns();
            runtime.with_context(|context| {
                let (number, result) = (completed.number, completed.result);
                context.service.begin_burst(now_ns);
                context.service.complete(session, number, result);
                // `None`: the duration of this burst is not recorded as a latency.
                context.service.end_burst(None);
            });
        }
        has_delivered
    }
}
