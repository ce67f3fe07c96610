//! Delivering the results of tickets.

use std::panic::{AssertUnwindSafe, catch_unwind};

use service::{Mailbox, OpenTickets, Worker};

use super::WorkerContext;
use crate::connection_table::{ConnectionTable, Slot};
use crate::limits::COMPLETIONS_PER_WAIT;

impl<S: Worker> WorkerContext<S> {
    /// Delivers the results of tickets to their sessions. Each of these connections gets a turn.
    /// Returns the connections to close, whose sessions panicked.
    pub(crate) fn deliver<I>(
        &mut self,
        table: &mut ConnectionTable<S, I>,
        now_ns: u64,
    ) -> Vec<Slot> {
        let Some(mailbox) = self.mailbox.clone() else {
            return Vec::new();
        };
        self.service.begin_burst(now_ns);
        let failed = self.deliver_from(&mailbox, table);
        self.service.end_burst(None);
        failed
    }

    fn deliver_from<I>(
        &mut self,
        mailbox: &Mailbox<S::Completion>,
        table: &mut ConnectionTable<S, I>,
    ) -> Vec<Slot> {
        let mut failed = Vec::new();
        for _ in 0..COMPLETIONS_PER_WAIT {
            let Some(completed) = mailbox.take() else {
                return failed;
            };
            let id = completed.connection;
            // The result for a connection that has been closed is dropped here.
            let Some(connection) = table.find(id) else {
                continue;
            };
            if connection.tickets.count() == 0 {
                // It is being closed, and has a session that issued no ticket.
                continue;
            }
            connection.tickets.deliver();
            let (session, number) = (&mut connection.session, completed.number);
            let delivered = catch_unwind(AssertUnwindSafe(|| {
                self.service.complete(session, number, completed.result);
            }));
            if delivered.is_err() {
                self.setup.counts.count_panics(1);
                // Its other results are dropped.
                connection.tickets = OpenTickets::default();
                failed.push(id.slot as Slot);
                self.service.reset();
                self.service.online();
                continue;
            }
            connection.continues_without_input = true;
            connection.waits_for_ticket = false;
            if !connection.is_queued && connection.unsent.is_none() {
                connection.is_queued = true;
                self.runnable.push(id.slot as Slot);
            }
        }
        // The mailbox wakes the worker only when it was empty.
        self.waker.wake_by_ref();
        failed
    }
}
