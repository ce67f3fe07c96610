//! Threads: one for each connection. It sleeps in the kernel until its peer says something.
//!
//! ```text
//! acceptor ──▶ a thread: receive → borrow a desk → prepare, answer → put it back → send → …
//!              attendant: joins who is done, closes slow holders, goes on with maintenance
//! ```
//!
//! A desk (a handle on the store, counters, a list of requests) is tens of KiB and a seat that
//! whoever reclaims memory asks. So there are as many as workers, whatever the connections, and
//! a conversation has one for the length of a burst only: between receiving and sending, without
//! a system call in between. Taking one and putting it back are two short locks, which all
//! conversations share, and a fence, for the desk sleeps meanwhile. Who finds none sleeps until
//! one is put back, and whoever comes by at that moment may be faster: not fair, but no desk lies
//! idle while a sleeper wakes up. One burst answers one connection, so nothing is fetched ahead for
//! others.
//!
//! An idle connection costs what it has touched of its stack (three pages of
//! [`CONVERSATION_STACK_LEN`](crate::limits::CONVERSATION_STACK_LEN)), its receive buffer and its
//! output, both of [`RESTING_LEN`](crate::limits::RESTING_LEN) at most, and a few hundred bytes of
//! state (`cargo xtask bench floor -- idle`). The kernel has a stack of its own for it. An answer
//! longer than that takes memory from the allocator at each burst, and gives it back.
//!
//! The kernel sees four areas of memory in each thread, and allows a process so many
//! (`vm.max_map_count`). A thread whose first two were had and the others not would take the
//! process with it, so there are never more threads than that allows: some fifteen thousand,
//! unless it is raised. One more, or one that cannot be had, is turned away, and accepting rests.

mod accept;
mod attend;
mod desks;
mod stop;
mod wake;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::desk::Desk;
use crate::inbox::Inbox;
use crate::limits::{CONVERSATION_AREAS, MAINTAIN_EVERY_NS, OTHER_AREAS};
use crate::running::Running;
use crate::setup::Setup;
use attend::Attendant;
use desks::{Desks, Which};
use wake::Live;

/// What all conversations share.
pub(crate) struct Hall {
    setup: Arc<Setup>,
    desks: Desks,
    live: Live,
    /// Conversations that memory has areas for.
    conversations_max: usize,
    /// Rouses the attendant.
    inbox: Arc<Inbox>,
    ending: Arc<AtomicBool>,
    /// The attendant has been told that the store has more to do.
    has_more: AtomicBool,
}

impl Hall {
    /// Does a step of the store's maintenance if it is time for one and a desk is free; the
    /// attendant goes on with what is left.
    fn maintain(&self, now_ns: u64) {
        // As often as so many workers of another runtime would, together.
        let every_ns = MAINTAIN_EVERY_NS / self.desks.count().max(1) as u64;
        let lent = self
            .desks
            .borrow_for_maintenance(Which::UsedLast, every_ns, now_ns);
        let Some(mut desk) = lent else { return };
        let has_more = desk.maintain_store(now_ns);
        drop(desk);
        if self.setup.store.wants_tending() {
            self.setup.board.tend_store();
        }
        if has_more && !self.has_more.swap(true, Ordering::Relaxed) {
            self.inbox.waker.wake();
        }
    }
}

/// Starts the attendant; what it returns gives each connection its thread.
///
/// # Errors
/// No descriptor or thread left.
pub(crate) fn start(running: &mut Running, setup: &Arc<Setup>) -> io::Result<Arc<Hall>> {
    let desks = (0..setup.workers).map(|_| Desk::new(setup, running, 0));
    let hall = Arc::new(Hall {
        setup: Arc::clone(setup),
        desks: Desks::new(desks),
        live: Live::default(),
        conversations_max: conversations_max(sys::limits::memory_areas()),
        inbox: Arc::clone(&running.inboxes[0]),
        ending: Arc::clone(&running.ending),
        has_more: AtomicBool::new(false),
    });
    let attendant = Attendant::new(Arc::clone(&hall))?;
    running.spawn("attendant".to_owned(), move || attendant.run())?;
    Ok(hall)
}

/// How many conversations with a thread each so many areas of memory are enough for
/// ([`sys::limits::memory_areas`]).
#[must_use]
pub fn conversations_max(areas: u64) -> usize {
    let areas = usize::try_from(areas).unwrap_or(usize::MAX);
    (areas.saturating_sub(OTHER_AREAS) / CONVERSATION_AREAS).max(1)
}

/// How many areas of memory so many conversations want.
#[must_use]
pub fn memory_areas_wanted(conversations: usize) -> u64 {
    (conversations.saturating_mul(CONVERSATION_AREAS)).saturating_add(OTHER_AREAS) as u64
}

#[cfg(test)]
mod tests;
