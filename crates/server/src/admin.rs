//! The admin address: a second runtime with one worker of its own, for the pages of the service
//! `admin`.

use std::net::SocketAddr;
use std::sync::Arc;

use admin::limits::{BUFFERED_MAX, CONNECTIONS_MAX, REQUESTS_PER_TURN};
use admin::{AdminService, Source};
use runtime::{ConnectionCounts, Running, Scheduler, Setup, WaitPolicy};
use session::{Clock, CounterRegistry, LatencySnapshot, ServerControl, StatWriter};
use sys::socket::Bound;

use crate::config::Config;
use crate::error::Error;
use crate::state::ServerState;

/// How long a connection to the admin address may be silent, in seconds. Longer than the interval
/// at which a monitor reads the metrics.
const IDLE_S: u32 = 75;
/// Open files that the pages need.
pub(crate) const FILES_NEEDED: u64 = CONNECTIONS_MAX as u64 + 8;
/// Connections that wait in the kernel to be accepted.
const BACKLOG: i32 = 64;

/// Binds the admin address. It needs root for a port below 1024.
pub(crate) fn bind(address: SocketAddr) -> Result<Bound, Error> {
    Bound::tcp(address).map_err(|source| Error::ListenAdmin { address, source })
}

/// Serves the pages with the figures of a cache.
pub(crate) fn start(
    bound: Bound,
    figures: Figures,
    state: &Arc<ServerState>,
    config: &Config,
) -> Result<Running, Error> {
    let state = Arc::clone(state);
    let service = AdminService::new(Arc::new(StateFigures { figures, state }))
        .with_host_names(&config.host_names);
    let setup = Setup {
        workers: 1,
        requests_per_turn: REQUESTS_PER_TURN,
        wait_policy: WaitPolicy::default(),
        idle_s: Some(IDLE_S),
        drain_ns: config.drain_ns,
        fibre_scheduler: Scheduler::Fair,
        counts: Arc::new(ConnectionCounts::new(CONNECTIONS_MAX.into(), BUFFERED_MAX)),
    };
    let address = bound.address();
    let listener = bound.listen(BACKLOG).map_err(|source| match address {
        Some(address) => Error::ListenAdmin { address, source },
        None => Error::Start(source),
    })?;
    let listeners = vec![listener.into()];
    runtime::start_threads(&service, setup, listeners).map_err(Error::Start)
}

/// The sources of the pages, besides the state of the server.
pub(crate) struct Figures {
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<CounterRegistry>,
    pub(crate) records_latency: bool,
}

/// All sources of the pages.
struct StateFigures {
    figures: Figures,
    state: Arc<ServerState>,
}

impl Source for StateFigures {
    fn write_stats(&self, out: &mut dyn StatWriter) {
        let now = self.figures.clock.at(sys::clock::monotonic_ns());
        self.state.write_stats(now, out);
    }

    fn write_settings(&self, out: &mut dyn StatWriter) {
        self.state.write_settings(out);
    }

    fn latencies(&self) -> Option<LatencySnapshot> {
        self.figures
            .records_latency
            .then(|| self.figures.counters.latencies())
    }

    fn is_ready(&self) -> bool {
        !self.state.is_stopping()
    }
}
