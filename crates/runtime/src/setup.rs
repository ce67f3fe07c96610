//! Parameters of a runtime.

use std::sync::Arc;

use session::{Now, ServerControl};
use store::Store;

use crate::connection_counts::ConnectionCounts;

/// Parameters of a runtime.
pub struct Setup {
    /// Number of worker threads.
    pub workers: usize,
    /// Requests of one connection answered before the next connection gets its turn.
    pub requests_per_turn: usize,
    /// How workers wait.
    pub wait_policy: WaitPolicy,
    /// Scheduler of the fibres, for [`Kind::Fibres`](crate::Kind::Fibres).
    pub fibre_scheduler: fibre::Scheduler,
    /// The cache.
    pub store: Arc<Store>,
    /// Process-wide statistics and settings.
    pub control: Arc<dyn ServerControl + Send + Sync>,
    /// Counts of connections.
    pub counts: Arc<ConnectionCounts>,
    /// The server's clock.
    pub clock: Clock,
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

/// The server's clock, in whole seconds since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    started_ns: u64,
    epoch_unix_s: u64,
}

impl Clock {
    /// Starts a clock at second 1. Second 0 means "before any item was stored".
    #[must_use]
    pub fn start() -> Self {
        const NS_PER_S: u64 = 1_000_000_000;
        Self {
            started_ns: sys::clock::monotonic_ns() - NS_PER_S,
            epoch_unix_s: sys::clock::unix_ns() / NS_PER_S - 1,
        }
    }

    /// The time at `monotonic_ns` of the system's monotonic clock.
    #[must_use]
    pub fn at(&self, monotonic_ns: u64) -> Now {
        let elapsed_s = monotonic_ns.saturating_sub(self.started_ns) / 1_000_000_000;
        Now {
            elapsed_s: u32::try_from(elapsed_s).unwrap_or(u32::MAX),
            epoch_unix_s: self.epoch_unix_s,
        }
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Now {
        self.at(sys::clock::monotonic_ns())
    }
}
