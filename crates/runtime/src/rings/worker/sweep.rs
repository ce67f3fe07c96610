//! What a worker does with the connections that have been waiting for their peers for too long.

use super::Worker;
use crate::connection::{Overdue, is_silent};
use crate::setup::second;

impl<S: service::Worker> Worker<S> {
    /// Closes connections whose peers have been silent for too long, and gives a turn to those
    /// whose input was not complete in time.
    ///
    /// The progress of a send by the ring is not known before its end. So a peer counts as silent
    /// during a send, even if it reads, and each send may last as long as the limit of silence.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        for (slot, overdue) in self.context.overdue(&self.table, now_ns) {
            let Some(connection) = self.table.get_mut(slot) else {
                continue;
            };
            match overdue {
                // A closed connection only waits for the end of its operations in the kernel.
                _ if connection.io.is_closed => {}
                // The input is incomplete, but replies to earlier requests are not sent yet. Only
                // the limit of silence counts until then.
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
