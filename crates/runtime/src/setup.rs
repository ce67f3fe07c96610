//! What a runtime is started with.

use std::sync::Arc;

use session::{Now, ServerControl};
use store::Store;

use crate::connection_counts::ConnectionCounts;

/// What a runtime is started with.
pub struct Setup {
    /// Worker threads.
    pub workers: usize,
    /// Requests of one connection answered before others have their turn.
    pub requests_per_turn: usize,
    /// How a worker waits.
    pub wait_policy: WaitPolicy,
    /// Which fibre runs next, where fibres converse.
    pub fibre_scheduler: fibre::Scheduler,
    /// The cache.
    pub store: Arc<Store>,
    /// The process's statistics and switches.
    pub control: Arc<dyn ServerControl + Send + Sync>,
    /// Who is connected.
    pub counts: Arc<ConnectionCounts>,
    /// The server's time.
    pub clock: Clock,
}

/// How a worker waits for its connections. All zero: it sleeps at once, and wakes at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitPolicy {
    /// So long after the last request it asks again and again before it sleeps, in nanoseconds:
    /// processor time for the latency of waking up.
    pub busy_poll_ns: u64,
    /// So long it lets pass between two wake-ups, in nanoseconds: what comes meanwhile is one
    /// burst. Latency for processor time; what an interrupt delay does, in software.
    pub min_wait_ns: u64,
}

/// The server's time: whole seconds since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    started_ns: u64,
    epoch_unix_s: u64,
}

impl Clock {
    /// A clock that starts now, at second 1: second 0 is before anything was stored.
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

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Now {
        self.at(sys::clock::monotonic_ns())
    }
}
