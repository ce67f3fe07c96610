//! The thread that brings log lines from the workers to the clients that watch them.
//!
//! It exists while there are such clients. Between two rounds it sleeps, the longer the less there
//! is to do, as memcached's does.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use protocol::Streams;
use session::{CounterRegistry, LogConfig, WatchRefused, Watching};
use store::Store;

use crate::config::Config;
use crate::limits::{
    COLLECTOR_SLEEP_MAX, COLLECTOR_SLEEP_MIN, LOG_BUFFER_MIN, WATCHERS_CHECKED_EACH,
};

/// The sizes of memcached's buffers in bytes, without `-o worker_logbuf_size` and
/// `-o watcher_logbuf_size`.
const WORKER_BYTES: usize = 64 << 10;
const WATCHER_BYTES: usize = 256 << 10;

/// Enables the log of a cache.
pub(crate) fn enable(config: &Config, counters: &CounterRegistry) {
    let bytes = |name: &str, default: usize| {
        let given = config.setting(name).and_then(|text| text.parse().ok());
        given.unwrap_or(default).max(LOG_BUFFER_MIN)
    };
    counters.enable_log(LogConfig {
        worker_bytes: bytes("worker_logbuf_size", WORKER_BYTES),
        watcher_bytes: bytes("watcher_logbuf_size", WATCHER_BYTES),
        unix_time,
    });
}

fn unix_time() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Adds a client that receives lines, and starts the thread if it is the first one.
pub(crate) fn watch(
    counters: &Arc<CounterRegistry>,
    store: &Arc<Store>,
    streams: Streams,
    descriptor: i32,
) -> Result<Watching, WatchRefused> {
    let (watching, starts_collector) = counters.watch(streams, descriptor)?;
    record_evicted(counters, store);
    if starts_collector {
        let collector = Collector {
            counters: Arc::clone(counters),
            has_ended: false,
        };
        let store = Arc::clone(store);
        let thread = thread::Builder::new().name("event-log".to_owned());
        let started = thread.spawn(move || collector.run(&store));
        started.map_err(|_| WatchRefused::Unsupported)?;
    }
    Ok(watching)
}

/// The collector from before its start to its end. If it is dropped before it has ended, because
/// the thread did not start or panicked, the next watcher starts another one.
struct Collector {
    counters: Arc<CounterRegistry>,
    has_ended: bool,
}

impl Collector {
    fn run(mut self, store: &Store) {
        collect(&self.counters, store);
        self.has_ended = true;
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if !self.has_ended {
            self.counters.collector_failed();
        }
    }
}

fn collect(counters: &CounterRegistry, store: &Store) {
    let mut sleep = COLLECTOR_SLEEP_MIN;
    let mut checked = Instant::now();
    while let Some(found) = counters.collect_log() {
        record_evicted(counters, store);
        if checked.elapsed() >= WATCHERS_CHECKED_EACH {
            checked = Instant::now();
            counters.close_watchers(sys::hang_up::has_hung_up);
        }
        sleep = match found {
            true => sleep / 2,
            false => sleep + sleep / 8,
        };
        sleep = sleep.clamp(COLLECTOR_SLEEP_MIN, COLLECTOR_SLEEP_MAX);
        thread::sleep(sleep);
    }
    record_evicted(counters, store);
}

/// Makes the store record evictions while they are watched.
fn record_evicted(counters: &CounterRegistry, store: &Store) {
    store.record_evicted(counters.watched_streams().intersects(Streams::EVICTIONS));
}
