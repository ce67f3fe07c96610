//! Delivery of the results of tickets to the sessions that wait for them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use service::{Mailbox, OpenTickets, Worker};

use super::WorkerContext;
use crate::connection::ConnectionIo;
use crate::connection_table::{ConnectionTable, Slot};
use crate::limits::COMPLETIONS_PER_WAIT;

impl<S: Worker> WorkerContext<S> {
    /// Passes at most [`COMPLETIONS_PER_WAIT`] results from the mailbox to the sessions that wait
    /// for them. Each of these sessions gets a turn when its earlier output has been sent. Returns
    /// the connections whose sessions panicked; the caller closes them.
    ///
    /// With the results for peers that take no output, the connections may keep more bytes than the
    /// worker's share. So the caller then checks [`is_share_exceeded`](Self::is_share_exceeded).
    pub(crate) fn deliver<I: ConnectionIo>(
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

    /// Returns whether the bytes that the worker's connections keep exceed the worker's share of
    /// the bound on such bytes.
    pub(crate) fn is_share_exceeded(&self) -> bool {
        self.buffered.is_exceeded()
    }

    /// Does the work of [`deliver`](Self::deliver) within a burst of the service.
    fn deliver_from<I: ConnectionIo>(
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
                // The session that issued the ticket no longer exists or is no longer used: its
                // connection is closed but keeps its slot (`rings`), or the session panicked in an
                // earlier delivery. Drop the result.
                continue;
            }
            connection.tickets.record_delivery();
            let (session, number) = (&mut connection.session, completed.number);
            let delivered = catch_unwind(AssertUnwindSafe(|| {
                self.service.complete(session, number, completed.result);
            }));
            if delivered.is_err() {
                self.setup.counts.count_panics(1);
                // From now on the connection has no open tickets, so its further results are
                // dropped.
                connection.tickets = OpenTickets::default();
                failed.push(id.slot as Slot);
                self.service.reset();
                self.service.online();
                continue;
            }
            connection.continues_without_input = true;
            connection.waits_for_ticket = false;
            // The result counts towards the worker's share. Usually the bytes of a connection are
            // counted after its turn, but a session whose peer takes no output gets no turn.
            self.count_buffered(connection);
            if !connection.is_queued && connection.unsent.is_none() {
                self.queue(connection, id.slot as Slot);
            }
        }
        // More results may be left in the mailbox. It wakes the worker only for a result that
        // arrives while it is empty. So the worker has to wake itself for the other results.
        self.waker.wake_by_ref();
        failed
    }
}
