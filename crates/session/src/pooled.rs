//! The cache whose items are in a memory pool ([`pool`]), as a [`Service`]. A memory pool is the
//! memory of another host, and takes the place of a store. Several servers may serve one pool.
//!
//! Requests are decoded, and replies encoded, as for the cache with a store. Between decoding and
//! encoding, a client of the pool performs the operation on its own thread. The session waits for
//! the result with a ticket, which the client's thread completes:
//!
//! ```text
//! prepare ── decode ─▶ Prepared ─▶ plan.rs ── Action, ticket ──▶ pool::ClientThread
//! answer  ◀─ encode ── reply.rs ◀── complete ── Outcome ───────────┘
//! ```
//!
//! A session replies in the order of its requests. The operations of consecutive reads are in
//! progress at the same time, and so are the operations for the keys of one request. Any other
//! request begins when all requests before it are complete.

mod item;
mod plan;
mod reply;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pool::client_thread::{ClientThread, Reply, ReplyTo};
use protocol::reply::TOO_MANY_CONNECTIONS;
use service::{Abandoned, NoPin, Output, Progress, Service, Ticket, Tickets};

use crate::control::ServerControl;
use crate::counters::Counters;
use crate::now::{Clock, NS_PER_S, Now};
use crate::prepare::Prepared;
use crate::protocols::Access;
use crate::registry::CounterRegistry;
pub use session::PoolSession;
use session::Turn;

/// The result of an operation on the pool. `None`: the client of the pool refused the operation, so
/// nothing was done.
type Completed = Option<Reply>;

/// The cache in a memory pool.
pub struct PoolService {
    /// The clients of the pool, at least one. Workers share them evenly.
    pub clients: Arc<[ClientThread]>,
    /// Process-wide statistics and settings.
    pub control: Arc<dyn ServerControl + Send + Sync>,
    /// The counters of all workers.
    pub counters: Arc<CounterRegistry>,
    /// The server's clock.
    pub clock: Clock,
    /// Unix time at time 0 of the monotonic clock, in nanoseconds. The clients must use the same
    /// value, because they decide which items have expired.
    pub unix_start_ns: u64,
    /// The protocols that connections may use, and whether they need a password.
    pub access: Access,
    /// The number of workers so far.
    pub workers: AtomicUsize,
}

/// The state of one worker of a runtime.
pub struct PoolWorker {
    clients: Arc<[ClientThread]>,
    /// The index in `clients` of the client that performs this worker's operations.
    client: usize,
    access: Access,
    control: Arc<dyn ServerControl + Send + Sync>,
    counters: Arc<Counters>,
    clock: Clock,
    unix_start_ns: u64,
    now: Now,
}

impl Service for PoolService {
    type Worker = PoolWorker;

    fn worker(&self) -> PoolWorker {
        let number = self.workers.fetch_add(1, Ordering::Relaxed);
        PoolWorker {
            clients: Arc::clone(&self.clients),
            client: number % self.clients.len().max(1),
            access: self.access,
            control: Arc::clone(&self.control),
            counters: self.counters.register(),
            clock: self.clock.clone(),
            unix_start_ns: self.unix_start_ns,
            now: self.clock.at(0),
        }
    }

    fn rejection(&self) -> &'static [u8] {
        TOO_MANY_CONNECTIONS
    }
}

impl service::Worker for PoolWorker {
    type Session = PoolSession;
    type Request<'i> = Prepared<'i>;
    type Pin = NoPin;
    type Completion = Completed;

    fn open(&self) -> PoolSession {
        PoolSession::new(self.access)
    }

    fn begin_burst(&mut self, now_ns: u64) {
        self.now = self.clock.at(now_ns);
        // The pool compares the expiry of items with Unix seconds, computed from `unix_start_ns`.
        // This epoch makes the session's second the same as the pool's.
        let unix_s = self.unix_start_ns.saturating_add(now_ns) / NS_PER_S;
        self.now.epoch_unix_s = unix_s.saturating_sub(u64::from(self.now.elapsed_s));
    }

    fn prepare<'i>(
        &self,
        session: &mut PoolSession,
        input: &'i [u8],
        max: usize,
        requests: &mut Vec<Prepared<'i>>,
    ) -> usize {
        session.prepare(input, max, requests)
    }

    fn answer(
        &mut self,
        session: &mut PoolSession,
        requests: &[Prepared<'_>],
        input: &[u8],
        tickets: Tickets<'_, Completed>,
        out: &mut Output<NoPin>,
    ) -> Progress {
        let mut turn = Turn {
            now: self.now,
            client: self.clients.get(self.client),
            counters: &self.counters,
            control: &*self.control,
            tickets,
            out,
        };
        session.answer(requests, input, &mut turn)
    }

    fn complete(
        &mut self,
        session: &mut PoolSession,
        number: u32,
        result: Result<Completed, Abandoned>,
    ) {
        session.complete(number, result);
    }
}

/// The ticket that an operation on the pool completes with its result.
struct PoolTicket {
    ticket: Ticket<Completed>,
    /// Whether the operation is a write. A write is performed even if the connection is closed,
    /// because a client may close its connection after the last request without waiting for the
    /// reply.
    is_write: bool,
}

impl ReplyTo for PoolTicket {
    fn is_cancelled(&self) -> bool {
        !self.is_write && self.ticket.is_cancelled()
    }

    fn complete(self: Box<Self>, reply: Reply) {
        self.ticket.complete(Some(reply));
    }

    fn refuse(self: Box<Self>) {
        self.ticket.complete(None);
    }
}
