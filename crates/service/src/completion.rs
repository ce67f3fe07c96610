//! Completions: how a session waits for something that another thread finishes.
//!
//! ```text
//! answer ── Tickets::issue(number) ──▶ Ticket ──▶ a disk, a remote pool, …: its *source*
//!                                                    │ Ticket::complete(result)
//! complete(number, result) ◀── worker ◀── Mailbox ◀──┘ wakes the worker
//! ```
//!
//! A ticket is *open* from its issue until its result is delivered.
//!
//! Invariants:
//! - Every ticket is completed exactly once. A ticket that is dropped is completed with
//!   [`Abandoned`], so no connection waits forever for a source that failed.
//! - A ticket names its connection by slot and generation. A result for a connection that has been
//!   closed is dropped, never delivered to the next connection in its slot.
//! - Results arrive in any order. A session numbers its tickets and answers in the order of its
//!   requests.
//! - When a connection closes, its tickets are cancelled. A cancellation is a hint: the memory that
//!   a source is filling belongs to the source until it completes the ticket, and is released when
//!   the result is dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::limits::{TICKETS_MAX, TICKETS_PER_MAILBOX_MAX};

/// Identifies a connection among all that its worker has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// Index in the worker's table.
    pub slot: u32,
    /// Distinguishes the connection from earlier ones in the same slot.
    pub generation: u32,
}

/// The source dropped the ticket without completing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abandoned;

/// The result of a ticket.
#[derive(Debug)]
pub struct Completed<C> {
    /// The connection of the ticket.
    pub connection: ConnectionId,
    /// The session's number of the ticket.
    pub number: u32,
    /// The result.
    pub result: Result<C, Abandoned>,
}

/// The results of a worker's tickets that have not been delivered, at most
/// [`TICKETS_PER_MAILBOX_MAX`].
#[derive(Debug)]
pub struct Mailbox<C> {
    results: Mutex<Results<C>>,
    /// Tickets that have been issued and whose results have not been taken.
    untaken: AtomicU32,
    /// Wakes the worker.
    waker: Waker,
}

#[derive(Debug)]
struct Results<C> {
    completed: VecDeque<Completed<C>>,
    /// No result is taken any more, so each is dropped at once.
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

    /// Takes the oldest result.
    #[must_use]
    pub fn take(&self) -> Option<Completed<C>> {
        let taken = self.lock_results().completed.pop_front()?;
        self.untaken.fetch_sub(1, Ordering::Relaxed);
        Some(taken)
    }

    /// Drops all results, and those still to come.
    pub fn close(&self) {
        let mut results = self.lock_results();
        results.is_closed = true;
        let dropped = std::mem::take(&mut results.completed);
        // Results are dropped without the lock: they may return memory to their source.
        drop(results);
        drop(dropped);
    }

    /// Counts a new ticket, unless there are too many.
    fn try_add_ticket(&self) -> bool {
        let untaken = self.untaken.fetch_add(1, Ordering::Relaxed);
        if untaken >= TICKETS_PER_MAILBOX_MAX {
            self.untaken.fetch_sub(1, Ordering::Relaxed);
        }
        untaken < TICKETS_PER_MAILBOX_MAX
    }

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
        // The worker takes all that it finds, so one wake-up is enough for them.
        if is_first {
            self.waker.wake_by_ref();
        }
    }

    fn lock_results(&self) -> MutexGuard<'_, Results<C>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open tickets of one connection. Dropping this value cancels them.
#[derive(Debug, Default)]
pub struct OpenTickets {
    count: u32,
    is_cancelled: Option<Arc<AtomicBool>>,
}

impl OpenTickets {
    /// The number of open tickets.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Records that a result is delivered.
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
    /// The mailbox of the worker, which is created with the first ticket.
    pub mailbox: &'a mut Option<Arc<Mailbox<C>>>,
    /// Wakes the worker.
    pub waker: &'a Waker,
    /// The connection.
    pub connection: ConnectionId,
    /// The open tickets of the connection.
    pub open: &'a mut OpenTickets,
}

impl<C> Tickets<'_, C> {
    /// Issues a ticket, by the session's own `number` for it. `None`: the connection has
    /// [`TICKETS_MAX`] already, and continues with the next completion; or, if it has none, its
    /// worker has [`TICKETS_PER_MAILBOX_MAX`], and the request has to be refused.
    pub fn issue(&mut self, number: u32) -> Option<Ticket<C>> {
        if self.open.count >= TICKETS_MAX {
            return None;
        }
        let new = || Arc::new(Mailbox::new(self.waker.clone()));
        let mailbox = self.mailbox.get_or_insert_with(new);
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

/// A promise of one result to one connection. Any thread may complete it.
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
    /// Whether the connection has been closed. The source may then skip the work, and must still
    /// complete or drop the ticket.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Puts the result into the mailbox, and wakes the worker of the connection.
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
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const CONNECTION: ConnectionId = ConnectionId {
        slot: 3,
        generation: 7,
    };

    #[test]
    fn results_are_delivered_once_and_a_dropped_ticket_is_abandoned() {
        let wakes = Arc::<Wakes>::default();
        let (mut mailbox, mut open) = (None, OpenTickets::default());
        let mut tickets = Tickets {
            mailbox: &mut mailbox,
            waker: &Waker::from(Arc::clone(&wakes)),
            connection: CONNECTION,
            open: &mut open,
        };
        let (first, second) = (tickets.issue(1).unwrap(), tickets.issue(2).unwrap());
        second.complete("two");
        drop(first);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "one wake-up for both");
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
    fn a_closed_mailbox_drops_results() {
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
    fn a_connection_that_is_closed_cancels_its_tickets() {
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
            "more tickets than TICKETS_MAX"
        );
        let is_cancelled =
            |ticket: &Option<Ticket<()>>| ticket.as_ref().is_some_and(Ticket::is_cancelled);
        assert!(!held.iter().any(is_cancelled));
        drop(open);
        assert!(held.iter().all(is_cancelled));
    }
}
