//! The runtimes: threads that accept connections, receive, pass the input to the sessions of a
//! [`Service`](service::Service), and send the replies. A runtime is generic over the service and
//! does not depend on any particular service.
//!
//! ```text
//! acceptor ──▶ inbox of the next worker, round robin ──▶ worker: wait → burst → maintain → wait …
//!          └─▶ or a new thread or fibre for each connection
//! ```
//!
//! Terms of this crate:
//! - *session*: the service's state of one connection.
//! - *burst*: the set of connections that became ready during one wait. The worker answers these
//!   connections together.
//! - *turn*: the answering of a bounded number of requests of one connection. The input of one
//!   receive may need several turns.
//! - *prepare*: parse a request, and prefetch the memory that it needs first.
//! - *maintain*: one step of the service's background work.
//! - *ticket*: stands for a result that another thread produces and a session waits for. It is
//!   *open* until the result is delivered to the session.
//! - *pin*: memory of the service, such as a large value, that is sent without a copy.
//! - *slow holder*: a connection that keeps memory of the service in use (a pin, or a value that it
//!   is receiving) for a peer that has been slow for some seconds while other connections wait for
//!   memory. It is then closed.
//! - *task*: the thread or fibre that serves only one connection, in `threads` and `fibres`.
//!
//! There are five runtimes ([`Kind`]), which all give the same replies:
//!
//! - `events`: an epoll loop per worker;
//! - `rings`: an io_uring per worker;
//! - `threads`: a thread per connection; the configured number of workers limits how many of these
//!   threads answer requests at the same time;
//! - `fibres`: a fibre (a thread of user space) per connection, on one kernel thread per worker;
//! - [`bypass`]: a TCP/IP stack in this process per worker, in place of the kernel's TCP.
//!
//! A sixth, [`memory`], serves connections in memory for tests. Each runtime is a folder with at
//! least these four files: `accept` (a new connection), `worker` (the loop), `wake` (how threads
//! wake each other) and `stop`. The modules next to these folders are shared by several runtimes.
//!
//! Invariants:
//! - A connection stays with one worker, thread or fibre until it is closed.
//! - Answering a request of the cache makes no system call, except for `stats` and `verbosity`.
//!   Answering a request for a document may read its file.
//! - The memory that slow peers can occupy is bounded, per connection and in total (module
//!   `buffered`).
//! - While a peer does not read its replies, the server receives no further requests from this
//!   peer. Only `rings` may receive some, because a receive may be in progress already.

#![deny(unsafe_code)]

mod acceptor;
mod buffered;
pub mod bypass;
mod connection;
mod connection_counts;
mod connection_table;
mod connection_tasks;
mod events;
mod fibres;
mod frame_counts;
mod inbox;
pub mod limits;
pub mod memory;
mod readiness;
mod restart;
mod rings;
mod round_robin;
mod running;
mod setup;
mod stop_deadline;
#[cfg(test)]
mod testing;
mod threads;
mod transfer;
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
pub use frame_counts::{FrameCount, FrameCounts};
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
    /// A TCP/IP stack in this process per worker.
    Bypass,
}

impl Kind {
    /// All kinds of runtime.
    pub const ALL: [Self; 5] = [
        Self::Events,
        Self::Rings,
        Self::Threads,
        Self::Fibres,
        Self::Bypass,
    ];
    /// The runtimes that use sockets of the kernel. [`start`] starts only these.
    pub const OVER_SOCKETS: [Self; 4] = [Self::Events, Self::Rings, Self::Threads, Self::Fibres];
    /// The runtimes to try, in this order, if the user selects none. The first that this machine
    /// supports is used.
    pub const BEST_FIRST: [Self; 2] = [Self::Rings, Self::Events];

    /// Returns the name of the runtime on the command line and in `stats settings`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Rings => "rings",
            Self::Threads => "threads",
            Self::Fibres => "fibres",
            Self::Bypass => "bypass",
        }
    }

    /// Checks whether this machine supports the runtime.
    ///
    /// # Errors
    /// The kernel lacks a feature that the runtime needs. The error names the feature.
    pub fn probe(self) -> io::Result<()> {
        match self {
            Self::Events | Self::Threads | Self::Fibres | Self::Bypass => Ok(()),
            Self::Rings => sys::ring::Ring::probe().map(drop),
        }
    }
}

/// Checks whether fibres can wait by io_uring on this machine. If not, they wait by epoll.
///
/// # Errors
/// The kernel lacks a feature that this wait needs. The error names the feature.
pub fn rings_for_fibres() -> io::Result<()> {
    fibre::IoBackend::Rings.probe()
}

/// Starts the threads of a runtime for a service, and the acceptor thread for `listeners`.
///
/// # Errors
/// The limit of descriptors or threads is reached, the kernel lacks a feature that the runtime
/// needs ([`Kind::probe`]), or the kind is not one of [`Kind::OVER_SOCKETS`]. After an error, none
/// of the threads runs.
pub fn start(
    kind: Kind,
    service: &impl Service,
    setup: Setup,
    listeners: Vec<Listening>,
) -> io::Result<Running> {
    let setup = Shared::new(setup, service);
    let inboxes = match kind {
        Kind::Events | Kind::Rings => setup.workers,
        // One inbox, for the supervisor. The supervisor is the thread that joins the threads or
        // fibres of connections.
        Kind::Threads | Kind::Fibres => 1,
        // `start_bypass` starts this runtime. It has a network interface instead of listeners.
        Kind::Bypass => return Err(io::ErrorKind::InvalidInput.into()),
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
            let tasks = threads::start(running, &setup, service)?;
            accept_for(tasks, running, &setup, listeners)
        }
        Kind::Fibres => {
            let tasks = fibres::start(running, &setup, service)?;
            accept_for(tasks, running, &setup, listeners)
        }
        Kind::Bypass => Err(io::ErrorKind::InvalidInput.into()),
    })
}

/// Starts the threads of the runtime [`Kind::Bypass`] for a service.
///
/// # Errors
/// The limit of descriptors or threads is reached, or the interface was not opened for
/// `setup.workers` workers. After an error, none of the threads runs.
pub fn start_bypass(
    service: &impl Service,
    setup: Setup,
    interface: bypass::Interface,
) -> io::Result<Running> {
    let setup = Shared::new(setup, service);
    start_or_stop(setup.workers, &setup, |running| {
        bypass::start(running, &setup, service, interface)
    })
}

/// Starts the runtime [`Kind::Threads`] as [`start`] does. Runtimes are generic over the service:
/// [`start`] brings the code of all of them for the type of the service, this function only that of
/// `threads`.
///
/// # Errors
/// Those of [`start`].
pub fn start_threads(
    service: &impl Service,
    setup: Setup,
    listeners: Vec<Listening>,
) -> io::Result<Running> {
    let setup = Shared::new(setup, service);
    start_or_stop(1, &setup, |running| {
        let tasks = threads::start(running, &setup, service)?;
        accept_for(tasks, running, &setup, listeners)
    })
}

/// Starts the runtime [`Kind::Rings`], as [`start_threads`] starts `threads`.
///
/// # Errors
/// Those of [`start`].
pub fn start_rings(
    service: &impl Service,
    setup: Setup,
    listeners: Vec<Listening>,
) -> io::Result<Running> {
    let setup = Shared::new(setup, service);
    start_or_stop(setup.workers, &setup, |running| {
        rings::start(running, &setup, service)?;
        accept_for(RoundRobin::new(&setup, running), running, &setup, listeners)
    })
}

/// Creates a [`Running`] with `inboxes` inboxes, and calls `start`, which adds threads to it. If
/// `start` fails, stops the threads that it has started.
fn start_or_stop(
    inboxes: usize,
    setup: &Shared,
    start: impl FnOnce(&mut Running) -> io::Result<()>,
) -> io::Result<Running> {
    let mut running = Running::new(inboxes, &setup.counts)?;
    match start(&mut running) {
        Ok(()) => Ok(running),
        Err(error) => {
            // The result is not needed: it says whether a thread panicked, and the caller gets the
            // error of the failed start.
            let _ = running.stop();
            Err(error)
        }
    }
}

/// Starts the acceptor thread, which passes new connections to `dispatch`.
fn accept_for(
    dispatch: impl Dispatch + Send + 'static,
    running: &mut Running,
    setup: &Arc<Shared>,
    listeners: Vec<Listening>,
) -> io::Result<()> {
    let acceptor = Acceptor::new(listeners, running, Arc::clone(setup), dispatch)?;
    running.spawn_acceptor(move || acceptor.run())
}
