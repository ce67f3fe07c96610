//! Parameters of a runtime.

use std::ops::Deref;
use std::sync::Arc;

use crate::connection_counts::ConnectionCounts;

/// Parameters of a runtime.
#[derive(Debug)]
pub struct Setup {
    /// Number of worker threads.
    pub workers: usize,
    /// Requests of one connection answered before the next connection gets its turn.
    pub requests_per_turn: usize,
    /// How workers wait.
    pub wait_policy: WaitPolicy,
    /// Scheduler of the fibres, for [`Kind::Fibres`](crate::Kind::Fibres).
    pub fibre_scheduler: fibre::Scheduler,
    /// Counts of connections.
    pub counts: Arc<ConnectionCounts>,
}

/// The parameters, and what the service adds to them.
pub(crate) struct Shared {
    setup: Setup,
    /// The bytes sent to a connection above the limit.
    pub(crate) rejection: &'static [u8],
    /// Wakes the thread of the service's maintenance.
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

/// The second that contains a time of the monotonic clock, counted from 1.
pub(crate) fn second(now_ns: u64) -> u32 {
    u32::try_from(now_ns / 1_000_000_000 + 1).unwrap_or(u32::MAX)
}

/// How a worker waits for its connections. If both fields are zero, a worker
/// sleeps as soon as it is idle and wakes as soon as a request arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitPolicy {
    /// How long a worker polls after the last request before it sleeps, in nanoseconds. Trades
    /// processor time for wake-up latency.
    pub busy_poll_ns: u64,
    /// Minimum time between two wake-ups, in nanoseconds. Requests that arrive in between form one
    /// burst. Trades latency for processor time, as interrupt coalescing does.
    pub min_wait_ns: u64,
}
