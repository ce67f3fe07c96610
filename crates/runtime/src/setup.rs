//! The parameters of a runtime.

use std::ops::Deref;
use std::sync::Arc;

use crate::connection_counts::ConnectionCounts;

/// The parameters of a runtime.
#[derive(Debug)]
pub struct Setup {
    /// The number of worker threads of `events`, `rings` and `bypass`, or of worker contexts of
    /// `threads`, or of processors (threads that run fibres) of `fibres`.
    pub workers: usize,
    /// Maximum number of requests of one connection that are answered before another connection
    /// gets a turn.
    pub requests_per_turn: usize,
    /// How workers of `events`, `rings` and `bypass` wait for events.
    pub wait_policy: WaitPolicy,
    /// How many seconds a peer may be silent, which means that it neither sends a byte nor takes a
    /// byte of its replies. After this time the connection is closed, up to three seconds late.
    /// `None` if connections are never closed for silence. Time in which the server waits for
    /// something other than the peer (memory, or a result that another thread produces) does not
    /// count.
    pub idle_s: Option<u32>,
    /// How long connections may take to finish after the runtime was told to stop, in nanoseconds.
    /// Then they are closed.
    pub drain_ns: u64,
    /// The scheduler of the fibres, for [`Kind::Fibres`](crate::Kind::Fibres).
    pub fibre_scheduler: fibre::Scheduler,
    /// The counters of connections.
    pub counts: Arc<ConnectionCounts>,
}

/// The parameters of a runtime, and the values that the runtime gets from the service once at its
/// start. All threads of the runtime share them.
pub(crate) struct Shared {
    setup: Setup,
    /// The message sent to a connection that is rejected.
    pub(crate) rejection: &'static [u8],
    /// Wakes the service's maintenance thread.
    pub(crate) wake_maintenance: Box<dyn Fn() + Send + Sync>,
}

impl Shared {
    pub(crate) fn new(setup: Setup, service: &impl service::Service) -> Arc<Self> {
        Arc::new(Self {
            setup,
            rejection: service.rejection(),
            wake_maintenance: service.maintenance_waker(),
        })
    }
}

impl Deref for Shared {
    type Target = Setup;

    fn deref(&self) -> &Setup {
        &self.setup
    }
}

/// Converts a time of the monotonic clock to whole seconds. The first second is 1, so 0 can mean
/// "never".
pub(crate) fn second(now_ns: u64) -> u32 {
    u32::try_from(now_ns / 1_000_000_000 + 1).unwrap_or(u32::MAX)
}

/// How a worker waits for events of its connections. If both values are zero, a worker sleeps as
/// soon as it is idle and wakes up as soon as a request arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitPolicy {
    /// How long a worker polls after the last burst before it sleeps, in nanoseconds. (A burst is
    /// the connections that are served after one wait.) A larger value costs processor time and
    /// saves the latency of wake-ups.
    pub busy_poll_ns: u64,
    /// Minimum time between two bursts, in nanoseconds. Requests that arrive in this time are
    /// answered together, in the next burst. A larger value costs latency and saves processor time,
    /// as interrupt coalescing does.
    pub min_wait_ns: u64,
}
