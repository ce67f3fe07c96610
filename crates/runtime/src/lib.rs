//! The runtimes: threads that wait for connections, pass received bytes to the sessions of a
//! [`Service`](service::Service), and send the replies. A runtime is compiled for each service and
//! knows none.
//!
//! ```text
//! acceptor ──▶ inbox of the next worker, round robin ──▶ worker: wait → burst → maintain → wait …
//!          └─▶ or a new thread or fibre for each connection
//! ```
//!
//! Each runtime is a folder with the same four files: `accept` (a new connection), `worker` (the
//! loop), `wake` (how threads wake each other) and `stop`. [`Kind::Events`] has an epoll loop per
//! worker, [`Kind::Rings`] an io_uring per worker, [`Kind::Threads`] a thread per connection with
//! at most as many concurrent bursts as workers, and [`Kind::Fibres`] a fibre per connection over
//! as many kernel threads as workers. Their common parts are the modules next to these folders.
//! Every runtime gives the same replies.
//!
//! Invariants: a connection stays with one worker, thread or fibre until it is closed. Answering
//! makes no system call, except for `stats` and `verbosity`. The memory that slow peers can occupy
//! is bounded, per connection and in total (`buffered`). While a peer does not take its replies,
//! its requests are not read; only a ring may receive some of them.

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
pub mod memory;
mod readiness;
mod restart;
mod rings;
mod round_robin;
mod running;
mod setup;
#[cfg(test)]
mod testing;
mod threads;
mod transform;
mod transport;
mod worker_context;

use std::io;
use std::sync::Arc;

use service::Service;

use acceptor::{Acceptor, Dispatch};
use round_robin::RoundRobin;
use setup::Shared;

pub use acceptor::Listening;
pub use buffered::buffered_max;
pub use connection_counts::{
    BURST_SIZES, BurstCounts, ConnectionCounts, ConnectionSnapshot, Traffic, TrafficCounts,
};
pub use fibre::{Scheduler, has_lightweight_guard_pages};
pub use fibres::{fibre_connections_max, fibre_mappings_needed};
pub use running::{Panicked, Running};
pub use setup::{Setup, WaitPolicy};
pub use threads::{thread_connections_max, thread_mappings_needed};
pub use transform::{NewTransform, Transform, TransformError};

/// A kind of runtime.
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
    /// All runtimes.
    pub const ALL: [Self; 4] = [Self::Events, Self::Rings, Self::Threads, Self::Fibres];
    /// The runtimes tried if none is selected, in this order.
    pub const BEST_FIRST: [Self; 2] = [Self::Rings, Self::Events];

    /// The name for the command line and `stats settings`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Rings => "rings",
            Self::Threads => "threads",
            Self::Fibres => "fibres",
        }
    }

    /// Checks whether this machine supports the runtime.
    ///
    /// # Errors
    /// The missing kernel feature.
    pub fn probe(self) -> io::Result<()> {
        match self {
            Self::Events | Self::Threads | Self::Fibres => Ok(()),
            Self::Rings => sys::ring::Ring::probe().map(drop),
        }
    }
}

/// Checks whether fibres can wait by io_uring here. Otherwise they wait by epoll.
///
/// # Errors
/// The missing kernel feature.
pub fn rings_for_fibres() -> io::Result<()> {
    fibre::IoBackend::Rings.probe()
}

/// Starts the threads of a runtime for a service, and the acceptor.
///
/// # Errors
/// The limit of descriptors or threads is reached, or the kernel lacks a feature that the runtime
/// needs ([`Kind::probe`]). No thread keeps running then.
pub fn start(
    kind: Kind,
    service: &impl Service,
    setup: Setup,
    listeners: Vec<Listening>,
) -> io::Result<Running> {
    let setup = Shared::new(setup, service);
    let inboxes = match kind {
        Kind::Events | Kind::Rings => setup.workers,
        // Only the supervisor has an inbox.
        Kind::Threads | Kind::Fibres => 1,
    };
    start_or_stop(inboxes, &setup, |running| match kind {
        Kind::Events => {
            events::start(running, &setup, service)?;
            accept_for(RoundRobin::new(&setup, running), running, &setup, listeners)
        }
        Kind::Rings => {
            rings::start(running, &setup, service)?;
            accept_for(RoundRobin::new(&setup, running), running, &setup, listeners)
        }
        Kind::Threads => {
            let tasks = threads::start(running, &setup, service, None)?;
            accept_for(tasks, running, &setup, listeners)
        }
        Kind::Fibres => {
            let tasks = fibres::start(running, &setup, service)?;
            accept_for(tasks, running, &setup, listeners)
        }
    })
}

/// As [`start`] of [`Kind::Threads`], for a service that is compiled for no other runtime. A
/// connection whose peer neither sends nor takes anything for `idle_ns` nanoseconds is closed.
///
/// # Errors
/// As [`start`].
pub fn start_threads(
    service: &impl Service,
    setup: Setup,
    idle_ns: Option<u64>,
    listeners: Vec<Listening>,
) -> io::Result<Running> {
    let setup = Shared::new(setup, service);
    start_or_stop(1, &setup, |running| {
        let tasks = threads::start(running, &setup, service, idle_ns)?;
        accept_for(tasks, running, &setup, listeners)
    })
}

fn start_or_stop(
    inboxes: usize,
    setup: &Shared,
    start: impl FnOnce(&mut Running) -> io::Result<()>,
) -> io::Result<Running> {
    let mut running = Running::new(inboxes, &setup.counts)?;
    match start(&mut running) {
        Ok(()) => Ok(running),
        Err(error) => {
            // The started threads have no connections. Their panics, if any, are already counted.
            let _ = running.stop();
            Err(error)
        }
    }
}

fn accept_for(
    dispatch: impl Dispatch + Send + 'static,
    running: &mut Running,
    setup: &Arc<Shared>,
    listeners: Vec<Listening>,
) -> io::Result<()> {
    let acceptor = Acceptor::new(listeners, running, Arc::clone(setup), dispatch)?;
    running.spawn_acceptor(move || acceptor.run())
}
