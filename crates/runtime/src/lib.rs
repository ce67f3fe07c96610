//! Who runs the conversations: threads that wait for sockets, hand what has arrived to sessions,
//! and send what they answer.
//!
//! ```text
//! acceptor ──▶ inbox of the next worker, in turn ──▶ worker: wait → burst → maintain → wait …
//!          └─▶ or a thread, or a fibre, for each
//! ```
//!
//! Each runtime is a folder with the same four files: `accept` (what becomes of a new connection),
//! `worker` (the loop), `wake` (how one thread rouses another), `stop` (how it ends).
//! [`Kind::Events`]: an epoll loop per worker; [`Kind::Rings`]: an io_uring per worker;
//! [`Kind::Threads`]: a thread per connection, and as many bursts at once as there are workers;
//! [`Kind::Fibres`]: a fibre per connection, over as many threads as there are workers.
//! What they have in common lies beside them. Whatever runs a session must give the same answers.
//!
//! Invariants: a connection belongs to one thread, or fibre, for life; nobody makes a system call
//! while answering, unless asked for statistics or told to say more or less; what a slow peer can
//! make the server hold is bounded, for each and for all together (`buffered`), and while a peer
//! does not take its answers its requests are not read, but for what a ring received meanwhile.

#![forbid(unsafe_code)]

mod acceptor;
mod buffered;
mod connection;
mod connection_counts;
mod connection_table;
mod connection_tasks;
mod events;
mod fibres;
mod inbox;
pub mod limits;
mod restart;
mod rings;
mod round_robin;
mod running;
mod setup;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod threads;
mod transport;
mod worker_context;

use std::io;
use std::sync::Arc;

use sys::socket::Listener;

use acceptor::{Acceptor, Dispatch};
use round_robin::RoundRobin;

pub use buffered::buffered_max;
pub use connection_counts::{BURST_SIZES, BurstCounts, ConnectionCounts, ConnectionSnapshot};
pub use fibre::{Scheduler, guards_are_light};
pub use fibres::{fibre_connections_max, fibre_mappings_needed};
pub use running::{Panicked, Running};
pub use setup::{Clock, Setup, WaitPolicy};
pub use threads::{thread_connections_max, thread_mappings_needed};

/// Which runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An epoll loop per worker.
    Events,
    /// An io_uring per worker.
    Rings,
    /// A thread per connection.
    Threads,
    /// A fibre per connection.
    Fibres,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Events, Self::Rings, Self::Threads, Self::Fibres];
    /// What is tried where none is asked for.
    pub const BEST_FIRST: [Self; 2] = [Self::Rings, Self::Events];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Rings => "rings",
            Self::Threads => "threads",
            Self::Fibres => "fibres",
        }
    }

    /// Whether this machine has what it needs.
    ///
    /// # Errors
    /// What is missing.
    pub fn probe(self) -> io::Result<()> {
        match self {
            Self::Events | Self::Threads | Self::Fibres => Ok(()),
            Self::Rings => sys::ring::Ring::probe().map(drop),
        }
    }
}

/// Whether fibres can wait by io_uring here; else they do by epoll.
///
/// # Errors
/// What is missing.
pub fn rings_for_fibres() -> io::Result<()> {
    fibre::Kind::Rings.probe()
}

/// Starts a runtime's threads, and the one that accepts for them.
///
/// # Errors
/// No descriptor or thread left, or the kernel has not what the runtime needs ([`Kind::probe`]).
/// No thread goes on then.
pub fn start(kind: Kind, setup: Setup, listeners: Vec<Listener>) -> io::Result<Running> {
    let setup = Arc::new(setup);
    let inboxes = match kind {
        Kind::Events | Kind::Rings => setup.workers,
        // The attendant's: whoever is to be roused is roused by it.
        Kind::Threads | Kind::Fibres => 1,
    };
    let mut running = Running::new(inboxes, &setup.counts)?;
    match start_threads(kind, &mut running, &setup, listeners) {
        Ok(()) => Ok(running),
        Err(error) => {
            // Those that run have nobody to serve; that one of them panicked is known already.
            let _ = running.stop();
            Err(error)
        }
    }
}

fn start_threads(
    kind: Kind,
    running: &mut Running,
    setup: &Arc<Setup>,
    listeners: Vec<Listener>,
) -> io::Result<()> {
    match kind {
        Kind::Events => events::start(running, setup)?,
        Kind::Rings => rings::start(running, setup)?,
        Kind::Threads => {
            let tasks = threads::start(running, setup)?;
            return accept_for(tasks, running, setup, listeners);
        }
        Kind::Fibres => {
            let tasks = fibres::start(running, setup, setup.fibre_scheduler)?;
            return accept_for(tasks, running, setup, listeners);
        }
    }
    let round_robin = RoundRobin::new(setup, running);
    accept_for(round_robin, running, setup, listeners)
}

fn accept_for(
    dispatch: impl Dispatch + Send + 'static,
    running: &mut Running,
    setup: &Arc<Setup>,
    listeners: Vec<Listener>,
) -> io::Result<()> {
    let acceptor = Acceptor::new(listeners, running, Arc::clone(setup), dispatch)?;
    running.spawn_acceptor(move || acceptor.run())
}
