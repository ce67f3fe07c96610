//! Process-wide statistics and settings, as shown by `stats`.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ::pool::client_thread::ClientThread;
use ::tier::Tier;
use datagrams::Count;
use files::documents::AccessLog;
use files::{FileCount, FileSet, SystemDisk};
use protocol::{DebugTime, Streams, Tuning};
use runtime::{BURST_SIZES, BurstCounts, ConnectionCounts, FrameCount, Traffic, TrafficCounts};
use service::Ticket;
use session::{
    ClassCounts, Clock, ClockRefused, Counter, CounterRegistry, CounterSnapshot, FIXED_STATISTICS,
    LatencySnapshot, Now, OptionalPart, Permissions, PrefixSums, ServerControl, StatWriter,
    TierRead, WatchRefused, Watching, ZERO_STATISTICS,
};
use store::{EVICTED_AGES_S, Statistics, Store};
use sys::poll::Waker;

use crate::class_statistics::{self, ResetClasses};
use crate::command_latencies;
use crate::config::Config;
use crate::datagram_sockets;
use crate::documents::Parts;
use crate::event_collector;
use crate::passwords::PresentPasswords;
use crate::pauses::Pauses;
use crate::settings::{self, CurrentSettings, TunedSettings, yes_or_no};

/// The version reported to clients: the memcached release whose replies Curtail reproduces.
const VERSION: &str = "1.6.45";

/// Size of a slot of the index in bytes.
const SLOT_BYTES: u64 = 8;

/// Number of key prefixes that the worker which resets the statistics drops itself.
const PREFIXES_DROPPED_AT_ONCE: usize = 1024;

/// Process-wide statistics and settings.
#[derive(Debug)]
pub(crate) struct ServerState {
    config: Config,
    items: Items,
    counts: Arc<ConnectionCounts>,
    /// The documents over HTTP, if they are served.
    http: Option<HttpState>,
    counters: Arc<CounterRegistry>,
    clock: Clock,
    pauses: Arc<Pauses>,
    /// The passwords, if clients need one.
    pub(crate) passwords: Option<Arc<PresentPasswords>>,
    datagram_counts: Arc<datagrams::Counts>,
    verbosity: AtomicU32,
    /// Wakes the main thread for maintenance or a changed setting.
    pub(crate) waker: Waker,
    is_stopping: AtomicBool,
    /// Whether `lru_crawler` may be used, and the main thread reclaims expired items.
    is_crawler_enabled: AtomicBool,
    /// The rows of `stats settings` that clients have changed.
    tuned: Mutex<TunedSettings>,
    /// The counts at the last `stats reset`.
    reset: Mutex<Reset>,
}

/// Where the items are.
#[derive(Debug)]
pub(crate) enum Items {
    /// In a store of this process.
    Store {
        store: Arc<Store>,
        /// The tier below it.
        tier: Option<Arc<Tier>>,
    },
    /// In a pool of memory, which these clients reach.
    Pool(Arc<[ClientThread]>),
}

impl Items {
    fn store(&self) -> Option<&Store> {
        match self {
            Self::Store { store, .. } => Some(store),
            Self::Pool(_) => None,
        }
    }
}

/// The sources of the statistics of the documents over HTTP.
#[derive(Debug)]
pub(crate) struct HttpState {
    counts: Arc<ConnectionCounts>,
    files: Arc<FileSet<SystemDisk>>,
    log: Option<Arc<AccessLog>>,
}

impl HttpState {
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            counts: Arc::clone(&parts.counts),
            files: Arc::clone(&parts.files),
            log: parts.log.clone(),
        }
    }
}

/// What the state shares with other parts of the server.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) counts: Arc<ConnectionCounts>,
    pub(crate) counters: Arc<CounterRegistry>,
    pub(crate) datagram_counts: Arc<datagrams::Counts>,
    pub(crate) clock: Clock,
    pub(crate) passwords: Option<Arc<PresentPasswords>>,
}

#[derive(Debug, Clone, Default)]
struct Reset {
    counters: CounterSnapshot,
    traffic: TrafficCounts,
    connections: u64,
    rejected: u64,
    pauses: u64,
    paused_ns: u64,
    bursts: BurstCounts,
    store: Statistics,
    class_counts: ClassCounts,
    latencies: LatencySnapshot,
    classes: ResetClasses,
}

impl ServerState {
    pub(crate) fn new(
        config: &Config,
        items: Items,
        http: Option<HttpState>,
        sources: Sources,
    ) -> io::Result<Self> {
        let Sources {
            counts,
            counters,
            datagram_counts,
            clock,
            passwords,
        } = sources;
        Ok(Self {
            config: config.clone(),
            items,
            counts,
            http,
            counters,
            clock,
            pauses: Arc::default(),
            passwords,
            datagram_counts,
            verbosity: AtomicU32::new(config.verbosity),
            waker: Waker::new()?,
            is_stopping: AtomicBool::new(false),
            is_crawler_enabled: AtomicBool::new(config.setting("lru_crawler") != Some("no")),
            tuned: Mutex::default(),
            reset: Mutex::default(),
        })
    }

    /// Message and remedy if the index of the tier is full.
    pub(crate) fn tier_problem(&self) -> Option<String> {
        match &self.items {
            Items::Store { tier, .. } => crate::tier::index_problem(&tier.as_ref()?.statistics()),
            Items::Pool(_) => None,
        }
    }

    /// Message and remedy for a connection that got no thread or stack, where the runtime needs
    /// one for each connection.
    pub(crate) fn no_tasks(&self) -> &'static str {
        match self.config.runtime {
            Some(runtime::Kind::Fibres) => "out of stacks (raise vm.max_map_count, or lower -c)",
            _ => {
                "out of threads (raise vm.max_map_count, ulimit -u or the container's \
                 pids.max, or lower -c)"
            }
        }
    }

    pub(crate) fn verbosity(&self) -> u32 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// Whether the server stops, by a signal or by a client's `shutdown`.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Opens the files by their names again that can be renamed at run time (SIGHUP).
    pub(crate) fn reopen_files(&self) {
        if let Some(log) = self.http.as_ref().and_then(|http| http.log.as_ref()) {
            log.reopen();
        }
    }

    /// Records that the server stops.
    pub(crate) fn set_stopping(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    fn last_reset(&self) -> Reset {
        let reset = self.reset.lock().unwrap_or_else(PoisonError::into_inner);
        reset.clone()
    }
}

impl ServerControl for ServerState {
    fn write_stats(&self, now: Now, out: &mut dyn StatWriter) {
        let reset = self.last_reset();
        let counters = self.counters.counts().since(&reset.counters);
        process(now, out);
        self.connections(&reset, out);
        for counter in Counter::ALL {
            out.number(counter.name().as_bytes(), counters.of(counter));
        }
        if let Some(passwords) = &self.passwords {
            out.number(b"password_reload_failures", passwords.reload_failures());
        }
        let traffic = self.traffic();
        for (kind, (count, before)) in Traffic::ALL.iter().zip(traffic.iter().zip(reset.traffic)) {
            out.number(kind.name().as_bytes(), count - before);
        }
        write_bursts("", self.counts.bursts(), reset.bursts, out);
        if self.config.runtime == Some(runtime::Kind::Bypass) {
            for (count, value) in FrameCount::ALL.iter().zip(self.counts.frames()) {
                out.number(count.name().as_bytes(), value);
            }
        }
        if self.config.datagrams.is_some() {
            datagram_sockets::write_stats(&self.datagram_counts, out);
        }
        match &self.items {
            Items::Store { store, tier } => {
                memory(&store.statistics(), now, &reset, out);
                self.documents(out);
                if let Some(tier) = tier {
                    crate::tier::write_stats(tier, out);
                }
            }
            Items::Pool(clients) => crate::pool::write_stats(clients, out),
        }
        out.number(b"threads", u64::from(self.config.workers));
        self.log(out);
        for name in ZERO_STATISTICS {
            out.number(name.as_bytes(), 0);
        }
        for (name, text) in FIXED_STATISTICS {
            out.text(name.as_bytes(), text.as_bytes());
        }
        out.text(b"curtail", env!("CARGO_PKG_VERSION").as_bytes());
    }

    fn is_turned_off(&self, statistic: &[u8]) -> bool {
        let is_off = |setting| self.config.setting(setting) == Some("no");
        match OptionalPart::of(statistic) {
            None => false,
            Some(OptionalPart::Crawler) => !self.is_crawler_enabled(),
            Some(OptionalPart::Maintainer) => is_off("lru_maintainer_thread"),
            Some(OptionalPart::PageMover) => is_off("slab_reassign"),
        }
    }

    fn write_items(&self, now: Now, out: &mut dyn StatWriter) {
        if let Some(store) = self.items.store() {
            let counts = self.class_counts();
            let classes = store.class_statistics();
            let oldest_s = oldest_age_s(&store.statistics(), now);
            class_statistics::write_items(
                &classes,
                &self.last_reset().classes,
                &counts,
                oldest_s,
                out,
            );
        }
    }

    fn write_slabs(&self, out: &mut dyn StatWriter) {
        if let Some(store) = self.items.store() {
            let classes = store.class_statistics();
            class_statistics::write_slabs(&classes, &self.class_counts(), out);
        }
    }

    fn write_latencies(&self, out: &mut dyn StatWriter) -> bool {
        if self.items.store().is_none() {
            return false;
        }
        let interval = self.config.latency_recording().burst_interval();
        out.number(b"latency:burst_interval", interval.into());
        let before = &self.last_reset().latencies;
        command_latencies::write(&self.counters.latencies().since(before), out);
        true
    }

    fn write_settings(&self, out: &mut dyn StatWriter) {
        let memory = self.items.store().map_or(0, Store::limit);
        let current = CurrentSettings {
            memory_bytes: memory,
            verbosity: self.verbosity(),
            prefix_counting: self.prefix_counting(),
        };
        let mut rows = self
            .tuned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        rows.insert("lru_crawler", yes_or_no(self.is_crawler_enabled()));
        settings::write(&self.config, &current, &rows, out);
    }

    fn reset_stats(&self) {
        let snapshot = self.counts.snapshot();
        let store = self.items.store().map(Store::statistics);
        let prefixes = self.counters.clear_prefixes();
        if prefixes
            .iter()
            .any(|counts| counts.len() > PREFIXES_DROPPED_AT_ONCE)
        {
            // Without a thread, the closure and with it the prefixes are dropped here.
            let _ = thread::Builder::new().spawn(move || drop(prefixes));
        }
        self.counters.clear_latency_max();
        *self.reset.lock().unwrap_or_else(PoisonError::into_inner) = Reset {
            counters: self.counters.counts(),
            traffic: self.traffic(),
            connections: snapshot.total,
            rejected: snapshot.rejected,
            pauses: snapshot.pauses(),
            paused_ns: snapshot.paused_ns,
            bursts: self.counts.bursts(),
            store: store.unwrap_or_default(),
            class_counts: self.counters.class_counts(),
            latencies: self.counters.latencies(),
            classes: ResetClasses(self.items.store().map(Store::class_statistics)),
        };
    }

    fn set_memory_limit(&self, bytes: u64) -> bool {
        let store = self.items.store();
        let is_set = store.is_some_and(|store| store.set_limit(bytes).is_ok());
        self.waker.wake();
        is_set
    }

    fn wake_maintenance(&self) {
        self.waker.wake();
    }

    fn set_verbosity(&self, level: u32) {
        self.verbosity.store(level, Ordering::Relaxed);
        self.waker.wake();
    }

    fn is_password(&self, user: &[u8], password: &[u8]) -> bool {
        let passwords = self.passwords.as_ref();
        passwords.is_some_and(|it| it.contains(user, password))
    }

    fn permissions(&self) -> Permissions {
        self.config.permissions
    }

    fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    fn tracks_sizes(&self) -> bool {
        self.config.setting("track_sizes") == Some("yes")
    }

    fn watch(&self, streams: Streams, descriptor: i32) -> Result<Watching, WatchRefused> {
        let Items::Store { store, .. } = &self.items else {
            return Err(WatchRefused::Unsupported);
        };
        event_collector::watch(&self.counters, store, streams, descriptor)
    }

    fn prefix_rate(&self) -> Option<u32> {
        self.config.prefix_rate
    }

    fn pause(&self, ticket: Ticket<TierRead>) {
        self.pauses.add(ticket);
    }

    fn change_clock(&self, change: DebugTime) -> Result<Now, ClockRefused> {
        let now = self.clock.change(change, sys::clock::monotonic_ns())?;
        // Items may have expired.
        self.waker.wake();
        Ok(now)
    }

    fn tune(&self, tuning: Tuning) {
        let mut tuned = self.tuned.lock().unwrap_or_else(PoisonError::into_inner);
        settings::tune(tuning, &mut tuned);
    }

    fn set_crawler_enabled(&self, is_enabled: bool) -> bool {
        let is_change = self.is_crawler_enabled.swap(is_enabled, Ordering::Relaxed) != is_enabled;
        // The main thread reclaims expired items again.
        self.waker.wake();
        is_change
    }

    fn is_crawler_enabled(&self) -> bool {
        self.is_crawler_enabled.load(Ordering::Relaxed)
    }

    fn set_prefix_counting(&self, is_on: bool) {
        let (_, delimiter) = self.prefix_counting();
        self.counters.set_prefix_counting(is_on, delimiter);
    }

    fn prefixes(&self, after: Option<&[u8]>, max: usize) -> PrefixSums {
        self.counters.prefixes(after, max)
    }
}

impl ServerState {
    /// The counts of commands by size class since the last reset.
    fn class_counts(&self) -> ClassCounts {
        let before = self.last_reset().class_counts;
        self.counters.class_counts().since(&before)
    }

    /// The traffic of connections and datagrams.
    fn traffic(&self) -> TrafficCounts {
        let mut traffic = self.counts.traffic();
        let of_datagrams = |count| self.datagram_counts.of(count);
        traffic[Traffic::BytesRead as usize] += of_datagrams(Count::BytesRead);
        traffic[Traffic::BytesWritten as usize] += of_datagrams(Count::BytesWritten);
        traffic
    }

    /// Whether counting by key prefix is on, and the delimiter.
    fn prefix_counting(&self) -> (bool, u8) {
        let (is_on, _) = self.counters.prefix_counting();
        (is_on, self.config.prefix_delimiter.unwrap_or(b':'))
    }

    /// The log lines of `watch`.
    fn log(&self, out: &mut dyn StatWriter) {
        let counts = self.counters.log_counts();
        out.number(b"log_worker_dropped", counts.dropped);
        out.number(b"log_worker_written", counts.written);
        out.number(b"log_watcher_skipped", counts.skipped);
        out.number(b"log_watcher_sent", counts.sent);
        out.number(b"log_watchers", counts.watchers);
    }

    fn connections(&self, reset: &Reset, out: &mut dyn StatWriter) {
        let snapshot = self.counts.snapshot();
        out.number(b"max_connections", snapshot.max);
        out.number(b"curr_connections", snapshot.current);
        out.number(b"total_connections", snapshot.total - reset.connections);
        out.number(b"rejected_connections", snapshot.rejected - reset.rejected);
        out.number(b"connection_structures", snapshot.current);
        out.number(b"accepting_conns", u64::from(snapshot.is_accepting));
        out.number(b"listen_disabled_num", snapshot.pauses() - reset.pauses);
        let rested_us = (snapshot.paused_ns - reset.paused_ns) / 1_000;
        out.number(b"time_in_listen_disabled_us", rested_us);
        out.number(b"slow_peers_closed", snapshot.slow_closed);
        if self.config.idle_s.is_some() {
            out.number(b"idle_kicks", snapshot.idle_closed);
        }
        out.number(b"conn_buffer_bytes", snapshot.buffered);
        out.number(b"read_buf_bytes", snapshot.buffered);
        out.number(b"conn_buffer_limit", snapshot.buffered_max);
        out.number(b"conn_buffer_closed", snapshot.buffered_closed);
        out.number(b"conn_panics", snapshot.panics);
        out.number(b"worker_restarts", snapshot.restarts);
        let uncounted = self.counters.accesses_without_prefix();
        out.number(b"prefix_accesses_uncounted", uncounted);
    }

    /// The connections of the documents over HTTP.
    fn documents(&self, out: &mut dyn StatWriter) {
        let Some(http) = &self.http else {
            return;
        };
        let snapshot = http.counts.snapshot();
        out.number(b"http_curr_connections", snapshot.current);
        out.number(b"http_total_connections", snapshot.total);
        out.number(b"http_rejected_connections", snapshot.rejected);
        out.number(b"http_idle_closed", snapshot.idle_closed);
        out.number(b"http_conn_buffer_bytes", snapshot.buffered);
        out.number(b"http_conn_buffer_closed", snapshot.buffered_closed);
        for count in FileCount::ALL {
            let name = format!("http_{}", count.name());
            out.number(name.as_bytes(), http.files.counts().of(count));
        }
        // Never reset: they are counts of another runtime than that of the cache.
        write_bursts("http_", http.counts.bursts(), BurstCounts::default(), out);
        if let Some(log) = &http.log {
            out.number(b"http_log_dropped", log.dropped());
        }
    }
}

/// Writes the statistics of the store.
fn memory(store: &Statistics, now: Now, reset: &Reset, out: &mut dyn StatWriter) {
    out.number(b"limit_maxbytes", store.limit_bytes);
    out.number(b"bytes", store.bytes_live);
    out.number(b"hash_bytes", store.index_bytes);
    let slots = store.index_bytes / SLOT_BYTES;
    out.number(b"hash_power_level", u64::from(slots.max(1).ilog2()));
    out.number(
        b"bytes_dead",
        store.bytes_occupied.saturating_sub(store.bytes_live),
    );
    out.number(b"bytes_resident", store.bytes_used());
    out.number(b"ghost_bytes", store.ghost_bytes);
    out.number(b"miniature_bytes", store.miniature_bytes);
    out.number(b"segment_bytes", store.segment_bytes);
    out.number(b"segments", store.segments);
    out.number(b"segment_age_oldest", oldest_age_s(store, now).into());
    out.number(b"segments_evacuated", store.evacuated);
    out.number(b"bytes_copied", store.copied_bytes);
    out.number(b"blocks_reused", store.holes_filled);
    out.number(b"ghost_hits", store.ghost_hits);
    out.text(b"eviction_policy", store.eviction_policy.as_bytes());
    out.number(b"eviction_policy_changes", store.policy_changes);
    out.number(b"index_displaced", store.evicted_index_full);
    out.number(b"segment_waits", store.waits);
    out.number(b"bytes_pinned", store.bytes_pinned);
    out.number(b"bytes_held", store.bytes_held);
    out.number(b"bytes_spooled", store.bytes_spooled);
    out.number(b"curr_items", store.items);
    let before = &reset.store;
    let stored = store.items_stored - before.items_stored;
    out.number(b"total_items", stored);
    out.number(b"evictions", store.evicted - before.evicted);
    let unfetched = store.evicted_unfetched - before.evicted_unfetched;
    out.number(b"evicted_unfetched", unfetched);
    let main = store.evicted_main - before.evicted_main;
    out.number(b"evicted_main", main);
    let mut below = 0;
    for (number, bound_s) in EVICTED_AGES_S.iter().enumerate() {
        below += store.evicted_ages[number] - before.evicted_ages[number];
        let name = format!("evicted_idle_below_{bound_s}s");
        out.number(name.as_bytes(), below);
    }
    out.number(b"reclaimed", store.expired - before.expired);
    let unfetched = store.expired_unfetched - before.expired_unfetched;
    out.number(b"expired_unfetched", unfetched);
}

/// The age of the oldest segment in seconds.
fn oldest_age_s(store: &Statistics, now: Now) -> u32 {
    let age = |opened_s| now.elapsed_s.saturating_sub(opened_s);
    store.oldest_segment_s.map_or(0, age)
}

/// Writes the number of bursts by size: how many connections were ready when a worker woke up.
fn write_bursts(prefix: &str, bursts: BurstCounts, before: BurstCounts, out: &mut dyn StatWriter) {
    for (power, (count, before)) in bursts.sizes.iter().zip(before.sizes).enumerate() {
        let name = match power {
            0 => format!("{prefix}bursts_of_1"),
            power if power + 1 == BURST_SIZES => format!("{prefix}bursts_of_more"),
            power => format!("{prefix}bursts_to_{}", 1 << power),
        };
        out.number(name.as_bytes(), count - before);
    }
    let name = format!("{prefix}bursts_connections");
    out.number(name.as_bytes(), bursts.connections - before.connections);
}

fn process(now: Now, out: &mut dyn StatWriter) {
    let seconds = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000);
    let (user_ns, system_ns) = sys::cost::own_times_ns();
    out.number(b"pid", u64::from(std::process::id()));
    out.number(b"uptime", u64::from(now.elapsed_s - 1));
    out.number(b"time", now.epoch_unix_s + u64::from(now.elapsed_s));
    out.text(b"version", VERSION.as_bytes());
    out.number(b"pointer_size", usize::BITS.into());
    out.text(b"rusage_user", seconds(user_ns).as_bytes());
    out.text(b"rusage_system", seconds(system_ns).as_bytes());
}
