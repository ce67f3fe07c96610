//! Completions: how a session waits for something that another thread finishes.
//!
//! ```text
//! answer ── Tickets::issue(number) ──▶ Ticket ──▶ a disk, a remote pool, …: its *source*
//!                                                    │ Ticket::complete(result)
//! complete(number, result) ◀── worker ◀── Mailbox ◀──┘ wakes the worker
//! ```
//!
//! Invariants:
//! - Every ticket is completed exactly once: one that is dropped is completed with [`Abandoned`],
//!   so no connection waits forever for a source that failed.
//! - A ticket names its connection by slot and generation. A result for a connection that has been
//!   closed is dropped, never delivered to the next connection in its slot.
//! - Results arrive in any order. A session numbers its tickets and answers in the order of its
//!   requests.
//! - When a connection closes, its tickets are cancelled. That is a hint: the memory that a source
//!   is filling belongs to the source until it completes the ticket, and is released when the
//!   result is dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::limits::TICKETS_MAX;

/// A connection among those of its worker, now and before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// Index in the worker's table.
    pub slot: u32,
    /// Distinguishes it from earlier connections in the same slot.
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

/// The results of a worker's tickets that have not been delivered. At most
/// [`TICKETS_MAX`] a connection.
#[derive(Debug)]
pub struct Mailbox<C> {
    completed: Mutex<VecDeque<Completed<C>>>,
    /// Wakes the worker.
    waker: Waker,
}

impl<C> Mailbox<C> {
    /// An empty mailbox. `waker` wakes the worker, which then calls [`take`](Self::take).
    #[must_use]
    pub fn new(waker: Waker) -> Self {
        Self {
            completed: Mutex::default(),
            waker,
        }
    }

    /// Takes the oldest result.
    #[must_use]
    pub fn take(&self) -> Option<Completed<C>> {
        self.completed().pop_front()
    }

    fn put(&self, completed: Completed<C>) {
        let mut list = self.completed();
        list.push_back(completed);
        let is_first = list.len() == 1;
        drop(list);
        // The worker takes all that it finds, so one wake-up is enough for them.
        if is_first {
            self.waker.wake_by_ref();
        }
    }

    fn completed(&self) -> MutexGuard<'_, VecDeque<Completed<C>>> {
        self.completed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The unfinished tickets of one connection. Dropping it cancels them.
#[derive(Debug, Default)]
pub struct Pending {
    count: u32,
    is_cancelled: Option<Arc<AtomicBool>>,
}

impl Pending {
    /// The number of tickets issued and not delivered.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Records that a result is delivered.
    pub fn deliver(&mut self) {
        self.count = self.count.saturating_sub(1);
    }
}

impl Drop for Pending {
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
    /// Its unfinished tickets.
    pub pending: &'a mut Pending,
}

impl<C> Tickets<'_, C> {
    /// Issues a ticket, by the session's own `number` for it. `None`: the connection holds
    /// [`TICKETS_MAX`] already.
    pub fn issue(&mut self, number: u32) -> Option<Ticket<C>> {
        if self.pending.count >= TICKETS_MAX {
            return None;
        }
        self.pending.count += 1;
        let new = || Arc::new(Mailbox::new(self.waker.clone()));
        Some(Ticket {
            mailbox: Arc::clone(self.mailbox.get_or_insert_with(new)),
            connection: self.connection,
            number,
            is_cancelled: Arc::clone(self.pending.is_cancelled.get_or_insert_default()),
            is_completed: false,
        })
    }

    /// The number of tickets issued and not delivered.
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.pending.count
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

    /// Delivers the result, and wakes the worker of the connection.
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
        let (mut mailbox, mut pending) = (None, Pending::default());
        let mut tickets = Tickets {
            mailbox: &mut mailbox,
            waker: &Waker::from(Arc::clone(&wakes)),
            connection: CONNECTION,
            pending: &mut pending,
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
        assert_eq!(pending.count(), 2);
        pending.deliver();
        pending.deliver();
        assert_eq!(pending.count(), 0);
    }

    #[test]
    fn a_connection_that_is_closed_cancels_its_tickets() {
        let (mut mailbox, mut pending) = (None, Pending::default());
        let mut tickets = Tickets::<()> {
            mailbox: &mut mailbox,
            waker: Waker::noop(),
            connection: CONNECTION,
            pending: &mut pending,
        };
        let held: Vec<_> = (0..TICKETS_MAX).map(|n| tickets.issue(n)).collect();
        assert!(tickets.issue(TICKETS_MAX).is_none(), "they are bounded");
        let is_cancelled =
            |ticket: &Option<Ticket<()>>| ticket.as_ref().is_some_and(Ticket::is_cancelled);
        assert!(!held.iter().any(is_cancelled));
        drop(pending);
        assert!(held.iter().all(is_cancelled));
    }
}
