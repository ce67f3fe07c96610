//! The periodic check that ends the waits of connections whose peers are too slow.

use super::Worker;
use crate::connection::{Overdue, is_silent};
use crate::setup::second;

impl<S: service::Worker> Worker<S> {
    /// Closes connections whose peers have been silent for too long. If the input of a connection
    /// was not complete in time, gives the connection a turn, in which its session can close it.
    ///
    /// The progress of a send by the ring is known only at the end of the send. So a peer counts as
    /// silent during a send, even if it reads, and each send may last as long as the limit of
    /// silence.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        for (slot, overdue) in self.context.overdue(&self.table, now_ns) {
            let Some(connection) = self.table.get_mut(slot) else {
                continue;
            };
            match overdue {
                // A closed connection only waits for the end of its operations in the kernel.
                _ if connection.io.is_closed => {}
                // The input is incomplete, but replies to earlier requests are still being sent.
                // Until they are sent, only the limit of silence counts.
                Overdue::Deadline if connection.io.is_sending => {
                    let idle_s = self.context.setup.idle_s;
                    if is_silent(connection.active_s, idle_s, second(now_ns)) {
                        self.context.setup.counts.count_closed_idle();
                        self.close(slot);
                    }
                }
                Overdue::Deadline => self.context.queue(connection, slot),
                Overdue::Idle => {
                    self.context.setup.counts.count_closed_idle();
                    self.close(slot);
                }
            }
        }
    }
}
