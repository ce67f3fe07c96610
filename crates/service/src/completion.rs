//! Completions: how a session waits for a result that another thread produces.
//!
//! ```text
//! answer ── Tickets::issue(number) ──▶ Ticket ──▶ its *source*: a disk, a remote pool, …
//!                                                    │ Ticket::complete(result)
//! complete(number, result) ◀── worker ◀── Mailbox ◀──┘ wakes the worker
//! ```
//!
//! A ticket is *open* from its issue until its result is delivered.
//!
//! Invariants:
//! - Every ticket is completed exactly once. Dropping a ticket completes it with [`Abandoned`],
//!   so no connection waits forever for a source that failed.
//! - A ticket names its connection by slot and generation. A result for a connection that has been
//!   closed is dropped, never delivered to the next connection in its slot.
//! - Results may arrive in any order. A session numbers its tickets, so that it can write the
//!   replies in the order of its requests.
//! - When a connection closes, its tickets are cancelled. A cancelled ticket must still be
//!   completed or dropped, so a source may ignore the cancellation. Memory that a source fills
//!   belongs to the source until it completes the ticket. From then on it belongs to the result,
//!   and dropping the result releases it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::limits::{TICKETS_MAX, TICKETS_PER_MAILBOX_MAX};

/// Identifies a connection among all present and earlier connections of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// The index of the connection in its worker's table.
    pub slot: u32,
    /// Distinguishes the connection from earlier ones in the same slot.
    pub generation: u32,
}

/// The result of a ticket that its source dropped without completing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abandoned;

/// The result of a ticket, with the ticket's connection and number.
#[derive(Debug)]
pub struct Completed<C> {
    /// The connection whose session issued the ticket.
    pub connection: ConnectionId,
    /// The number that the session gave the ticket.
    pub number: u32,
    /// The result.
    pub result: Result<C, Abandoned>,
}

/// The results of a worker's tickets that wait for their delivery. There are at most
/// [`TICKETS_PER_MAILBOX_MAX`] tickets whose result has not been taken, so the mailbox is bounded.
#[derive(Debug)]
pub struct Mailbox<C> {
    results: Mutex<Results<C>>,
    /// The number of issued tickets whose result has not been taken, completed or not.
    untaken: AtomicU32,
    /// Wakes the worker.
    waker: Waker,
}

/// The part of a mailbox behind its lock.
#[derive(Debug)]
struct Results<C> {
    /// In the order of completion.
    completed: VecDeque<Completed<C>>,
    /// The worker takes no more results, so each new result is dropped immediately.
    is_closed: bool,
}

impl<C> Mailbox<C> {
    /// An empty mailbox. `waker` wakes the worker, which then calls [`take`](Self::take).
    #[must_use]
    pub fn new(waker: Waker) -> Self {
        Self {
            results: Mutex::new(Results {
                completed: VecDeque::new(),
                is_closed: false,
            }),
            untaken: AtomicU32::new(0),
            waker,
        }
    }

    /// Takes the oldest result. Called by the worker.
    #[must_use]
    pub fn take(&self) -> Option<Completed<C>> {
        let taken = self.lock_results().completed.pop_front()?;
        self.untaken.fetch_sub(1, Ordering::Relaxed);
        Some(taken)
    }

    /// Closes the mailbox: drops all results, and from now on each new result.
    pub fn close(&self) {
        let mut results = self.lock_results();
        results.is_closed = true;
        let dropped = std::mem::take(&mut results.completed);
        // Release the lock first. Dropping a result may return memory to its source, which is code
        // of the service and may take other locks.
        drop(results);
        drop(dropped);
    }

    /// Counts a new ticket. Returns false if there are too many tickets already.
    fn try_add_ticket(&self) -> bool {
        let untaken = self.untaken.fetch_add(1, Ordering::Relaxed);
        if untaken >= TICKETS_PER_MAILBOX_MAX {
            self.untaken.fetch_sub(1, Ordering::Relaxed);
        }
        untaken < TICKETS_PER_MAILBOX_MAX
    }

    /// Adds a result and wakes the worker, on the thread of the source.
    fn put(&self, completed: Completed<C>) {
        let mut results = self.lock_results();
        if results.is_closed {
            drop(results);
            drop(completed);
            return;
        }
        results.completed.push_back(completed);
        let is_first = results.completed.len() == 1;
        drop(results);
        // Only the first result wakes the worker. If the mailbox was not empty, an earlier result
        // has woken the worker, which has not emptied the mailbox yet and will find this result.
        if is_first {
            self.waker.wake_by_ref();
        }
    }

    fn lock_results(&self) -> MutexGuard<'_, Results<C>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open tickets of one connection: their number, and the flag that cancels them. Dropping this
/// value cancels them.
#[derive(Debug, Default)]
pub struct OpenTickets {
    count: u32,
    is_cancelled: Option<Arc<AtomicBool>>,
}

impl OpenTickets {
    /// The number of tickets that have been issued and whose result has not been delivered.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Records that the result of one ticket has been delivered.
    pub fn record_delivery(&mut self) {
        self.count = self.count.saturating_sub(1);
    }
}

impl Drop for OpenTickets {
    fn drop(&mut self) {
        if let Some(is_cancelled) = &self.is_cancelled {
            is_cancelled.store(true, Ordering::Relaxed);
        }
    }
}

/// Issues tickets to the session of one connection.
#[derive(Debug)]
pub struct Tickets<'a, C> {
    /// The mailbox of the worker. `None` until the worker issues its first ticket.
    pub mailbox: &'a mut Option<Arc<Mailbox<C>>>,
    /// Wakes the worker.
    pub waker: &'a Waker,
    /// The connection whose session issues tickets.
    pub connection: ConnectionId,
    /// The open tickets of that connection.
    pub open: &'a mut OpenTickets,
}

impl<C> Tickets<'_, C> {
    /// Issues a ticket. `number` is the session's own number for it. Returns `None` in two cases:
    ///
    /// - The connection has [`TICKETS_MAX`] tickets, or its worker has [`TICKETS_PER_MAILBOX_MAX`].
    ///   If the connection has open tickets, the session waits for the next completion and then
    ///   tries again.
    /// - The worker has too many tickets, and the connection has none, so no completion will come.
    ///   The session has to refuse the request.
    pub fn issue(&mut self, number: u32) -> Option<Ticket<C>> {
        if self.open.count >= TICKETS_MAX {
            return None;
        }
        let new_mailbox = || Arc::new(Mailbox::new(self.waker.clone()));
        let mailbox = self.mailbox.get_or_insert_with(new_mailbox);
        if !mailbox.try_add_ticket() {
            return None;
        }
        self.open.count += 1;
        Some(Ticket {
            mailbox: Arc::clone(mailbox),
            connection: self.connection,
            number,
            is_cancelled: Arc::clone(self.open.is_cancelled.get_or_insert_default()),
            is_completed: false,
        })
    }
}

/// The obligation to complete one request of one connection with a result. Any thread may do so.
#[derive(Debug)]
#[must_use = "a dropped ticket completes as abandoned"]
pub struct Ticket<C> {
    mailbox: Arc<Mailbox<C>>,
    connection: ConnectionId,
    number: u32,
    is_cancelled: Arc<AtomicBool>,
    is_completed: bool,
}

impl<C> Ticket<C> {
    /// Whether the connection has been closed. The source may then skip the work, but it must still
    /// complete or drop the ticket.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Puts the result into the mailbox of the connection's worker, and wakes that worker.
    pub fn complete(mut self, result: C) {
        self.put(Ok(result));
    }

    fn put(&mut self, result: Result<C, Abandoned>) {
        self.is_completed = true;
        self.mailbox.put(Completed {
            connection: self.connection,
            number: self.number,
            result,
        });
    }
}

impl<C> Drop for Ticket<C> {
    fn drop(&mut self) {
        if !self.is_completed {
            self.put(Err(Abandoned));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct WakeUpCount(AtomicU32);

    impl Wake for WakeUpCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const CONNECTION: ConnectionId = ConnectionId {
        slot: 3,
        generation: 7,
    };

    #[test]
    fn each_ticket_delivers_one_result_and_a_dropped_ticket_delivers_abandoned() {
        let wake_ups = Arc::<WakeUpCount>::default();
        let (mut mailbox, mut open) = (None, OpenTickets::default());
        let mut tickets = Tickets {
            mailbox: &mut mailbox,
            waker: &Waker::from(Arc::clone(&wake_ups)),
            connection: CONNECTION,
            open: &mut open,
        };
        let (first, second) = (tickets.issue(1).unwrap(), tickets.issue(2).unwrap());
        second.complete("two");
        drop(first);
        let wake_ups = wake_ups.0.load(Ordering::Relaxed);
        assert_eq!(wake_ups, 1, "one wake-up for both results");
        let mailbox = mailbox.unwrap();
        let taken: Vec<_> = std::iter::from_fn(|| mailbox.take())
            .map(|it| (it.connection, it.number, it.result))
            .collect();
        let expected = [(CONNECTION, 2, Ok("two")), (CONNECTION, 1, Err(Abandoned))];
        assert_eq!(taken, expected);
        assert_eq!(open.count(), 2);
        open.record_delivery();
        open.record_delivery();
        assert_eq!(open.count(), 0);
    }

    #[test]
    fn closed_mailbox_drops_present_and_later_results() {
        let result = Arc::new(());
        let (mut mailbox, mut open) = (None, OpenTickets::default());
        let mut tickets = Tickets {
            mailbox: &mut mailbox,
            waker: Waker::noop(),
            connection: CONNECTION,
            open: &mut open,
        };
        let (early, late) = (tickets.issue(1).unwrap(), tickets.issue(2).unwrap());
        early.complete(Arc::clone(&result));
        let mailbox = mailbox.unwrap();
        mailbox.close();
        assert_eq!(Arc::strong_count(&result), 1);
        late.complete(Arc::clone(&result));
        assert_eq!(Arc::strong_count(&result), 1);
        assert!(mailbox.take().is_none());
    }

    #[test]
    fn number_of_tickets_is_limited_and_closing_the_connection_cancels_them() {
        let (mut mailbox, mut open) = (None, OpenTickets::default());
        let mut tickets = Tickets::<()> {
            mailbox: &mut mailbox,
            waker: Waker::noop(),
            connection: CONNECTION,
            open: &mut open,
        };
        let held: Vec<_> = (0..TICKETS_MAX).map(|n| tickets.issue(n)).collect();
        assert!(
            tickets.issue(TICKETS_MAX).is_none(),
            "no more than TICKETS_MAX tickets"
        );
        let is_cancelled =
            |ticket: &Option<Ticket<()>>| ticket.as_ref().is_some_and(Ticket::is_cancelled);
        assert!(!held.iter().any(is_cancelled));
        drop(open);
        assert!(held.iter().all(is_cancelled));
    }
}
