//! Pauses of sessions that visit many items (`prefix`), so that they keep to a rate.
//!
//! A thread exists while sessions pause. Each [`PREFIX_PAUSE`] it completes the tickets that it
//! finds.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use service::Ticket;
use session::TierRead;
use session::limits::PREFIX_PAUSE;

/// The sessions that pause.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    tickets: Vec<Ticket<TierRead>>,
    /// There is a thread that will complete the tickets.
    has_thread: bool,
}

impl Pauses {
    /// Completes `ticket` after a pause, or at once if there can be no thread.
    pub(crate) fn add(self: &Arc<Self>, ticket: Ticket<TierRead>) {
        let mut waiting = self.waiting();
        waiting.tickets.push(ticket);
        if mem::replace(&mut waiting.has_thread, true) {
            return;
        }
        drop(waiting);
        let pauses = Arc::clone(self);
        let thread = thread::Builder::new().name("pauses".to_owned());
        if thread.spawn(move || pauses.run()).is_err() {
            let mut waiting = self.waiting();
            waiting.has_thread = false;
            let tickets = mem::take(&mut waiting.tickets);
            drop(waiting);
            complete(tickets);
        }
    }

    fn run(&self) {
        loop {
            thread::sleep(PREFIX_PAUSE);
            let mut waiting = self.waiting();
            let tickets = mem::take(&mut waiting.tickets);
            if tickets.is_empty() {
                waiting.has_thread = false;
                return;
            }
            drop(waiting);
            complete(tickets);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn complete(tickets: Vec<Ticket<TierRead>>) {
    for ticket in tickets {
        ticket.complete(None);
    }
}
