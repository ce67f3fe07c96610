//! Process-wide statistics and settings, as shown by `stats`.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::reply::{stat, stat_number};
use runtime::{BURST_SIZES, BurstCounts, ConnectionCounts};
use session::{Counter, CounterSnapshot, Now, Permissions, PrefixCount, ServerControl};
use store::{EVICTED_AGES_S, Statistics, Store};
use sys::poll::Waker;

use crate::config::Config;

/// The version reported to clients: the memcached release whose replies Curtail reproduces.
const VERSION: &str = "1.6.45";

/// Process-wide statistics and settings.
#[derive(Debug)]
pub(crate) struct ServerState {
    config: Config,
    store: Arc<Store>,
    counts: Arc<ConnectionCounts>,
    verbosity: AtomicU32,
    /// Wakes the main thread for maintenance or a changed setting.
    pub(crate) waker: Waker,
    is_stopping: AtomicBool,
    /// The counts at the last `stats reset`.
    reset: Mutex<Reset>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Reset {
    counts: CounterSnapshot,
    connections: u64,
    rejected: u64,
    pauses: u64,
    paused_ns: u64,
    bursts: BurstCounts,
    store: Statistics,
}

impl ServerState {
    pub(crate) fn new(
        config: &Config,
        store: &Arc<Store>,
        counts: &Arc<ConnectionCounts>,
    ) -> io::Result<Self> {
        Ok(Self {
            config: config.clone(),
            store: Arc::clone(store),
            counts: Arc::clone(counts),
            verbosity: AtomicU32::new(config.verbosity),
            waker: Waker::new()?,
            is_stopping: AtomicBool::new(false),
            reset: Mutex::default(),
        })
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

    /// Whether a client stopped the server by `shutdown`.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn last_reset(&self) -> Reset {
        *self.reset.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerControl for ServerState {
    fn write_stats(&self, now: Now, out: &mut Vec<u8>) {
        let reset = self.last_reset();
        let counts = self.counts.counts().since(&reset.counts);
        process(now, out);
        self.connections(&reset, out);
        for counter in Counter::ALL {
            stat_number(out, counter.name().as_bytes(), counts.of(counter));
        }
        self.bursts(&reset, out);
        self.memory(now, &reset, out);
        stat_number(out, b"threads", u64::from(self.config.workers));
        stat(out, b"curtail", env!("CARGO_PKG_VERSION").as_bytes());
    }

    fn write_settings(&self, out: &mut Vec<u8>) {
        let config = &self.config;
        let port = config.listen.first().map_or(0, std::net::SocketAddr::port);
        let inter: Vec<String> = config.listen.iter().map(|at| at.ip().to_string()).collect();
        let socket = config.unix_socket.as_ref();
        let path = socket.map_or("NULL".to_owned(), |unix| unix.path.display().to_string());
        let mode = socket.map_or(0o700, |unix| unix.mode);
        stat_number(out, b"maxbytes", self.store.limit());
        stat_number(out, b"maxconns", u64::from(config.connections_max));
        stat_number(out, b"tcpport", u64::from(port));
        stat_number(out, b"udpport", 0);
        let inter = if inter.is_empty() {
            "NULL".to_owned()
        } else {
            inter.join(",")
        };
        stat(out, b"inter", inter.as_bytes());
        stat_number(out, b"verbosity", u64::from(self.verbosity()));
        let evictions: &[u8] = if config.evicts { b"on" } else { b"off" };
        stat(out, b"evictions", evictions);
        stat(out, b"domain_socket", path.as_bytes());
        stat(out, b"umask", format!("{mode:o}").as_bytes());
        stat_number(out, b"num_threads", u64::from(config.workers));
        stat_number(out, b"reqs_per_event", u64::from(config.requests_per_turn));
        let (counts_prefixes, delimiter) = self.prefix_counting();
        stat(out, b"stat_key_prefix", &[delimiter]);
        stat(out, b"detail_enabled", yes_or_no(counts_prefixes));
        stat(
            out,
            b"shutdown_command",
            yes_or_no(config.permissions.shutdown),
        );
        stat(out, b"cas_enabled", b"yes");
        stat_number(out, b"tcp_backlog", u64::from(config.backlog));
        stat(out, b"binding_protocol", b"ascii");
        stat(out, b"auth_enabled_sasl", b"no");
        stat(out, b"auth_enabled_ascii", b"no");
        stat_number(out, b"item_size_max", u64::from(config.item_size_max));
        stat(out, b"maxconns_fast", b"yes");
        stat(out, b"flush_enabled", yes_or_no(config.permissions.flush));
        stat(out, b"dump_enabled", yes_or_no(config.permissions.dump));
        stat(out, b"hash_algorithm", b"rapidhash");
        stat_number(out, b"busy_poll_us", config.wait_policy.busy_poll_ns / 1000);
        stat_number(out, b"min_wait_us", config.wait_policy.min_wait_ns / 1000);
        let runtime = config.runtime.map_or("auto", runtime::Kind::name);
        stat(out, b"runtime", runtime.as_bytes());
        for (name, value) in &config.settings {
            stat(out, name.as_bytes(), value.as_bytes());
        }
    }

    fn reset_stats(&self) {
        let (snapshot, store) = (self.counts.snapshot(), self.store.statistics());
        self.counts.clear_prefixes();
        *self.reset.lock().unwrap_or_else(PoisonError::into_inner) = Reset {
            counts: self.counts.counts(),
            connections: snapshot.total,
            rejected: snapshot.rejected,
            pauses: snapshot.pauses(),
            paused_ns: snapshot.paused_ns,
            bursts: self.counts.bursts(),
            store,
        };
    }

    fn set_memory_limit(&self, bytes: u64) -> bool {
        let is_set = self.store.set_limit(bytes).is_ok();
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

    fn permissions(&self) -> Permissions {
        self.config.permissions
    }

    fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    fn set_prefix_counting(&self, is_on: bool) {
        let (_, delimiter) = self.prefix_counting();
        self.counts.set_prefix_counting(is_on, delimiter);
    }

    fn write_prefixes(&self, out: &mut Vec<u8>) {
        for (prefix, count) in self.counts.prefixes() {
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(&prefix);
            let PrefixCount {
                gets,
                hits,
                sets,
                deletes,
            } = count;
            let counts = format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n");
            out.extend_from_slice(counts.as_bytes());
        }
    }
}

impl ServerState {
    /// Whether counting by key prefix is on, and the delimiter.
    fn prefix_counting(&self) -> (bool, u8) {
        let (is_on, _) = self.counts.prefix_counting();
        (is_on, self.config.prefix_delimiter.unwrap_or(b':'))
    }

    fn connections(&self, reset: &Reset, out: &mut Vec<u8>) {
        let snapshot = self.counts.snapshot();
        stat_number(out, b"max_connections", snapshot.max);
        stat_number(out, b"curr_connections", snapshot.current);
        stat_number(
            out,
            b"total_connections",
            snapshot.total - reset.connections,
        );
        stat_number(
            out,
            b"rejected_connections",
            snapshot.rejected - reset.rejected,
        );
        stat_number(out, b"connection_structures", snapshot.current);
        stat_number(out, b"accepting_conns", u64::from(snapshot.accepting));
        stat_number(
            out,
            b"listen_disabled_num",
            snapshot.pauses() - reset.pauses,
        );
        let rested_us = (snapshot.paused_ns - reset.paused_ns) / 1_000;
        stat_number(out, b"time_in_listen_disabled_us", rested_us);
        stat_number(out, b"slow_peers_closed", snapshot.slow_closed);
        stat_number(out, b"conn_buffer_bytes", snapshot.buffered);
        stat_number(out, b"conn_buffer_limit", snapshot.buffered_max);
        stat_number(out, b"conn_buffer_closed", snapshot.buffered_closed);
        stat_number(out, b"conn_panics", snapshot.panics);
        stat_number(out, b"worker_restarts", snapshot.restarts);
    }

    /// The number of bursts by size: how many connections were ready when a worker woke up.
    fn bursts(&self, reset: &Reset, out: &mut Vec<u8>) {
        let bursts = self.counts.bursts();
        for (power, (count, before)) in bursts.sizes.iter().zip(reset.bursts.sizes).enumerate() {
            let name = match power {
                0 => "bursts_of_1".to_owned(),
                power if power + 1 == BURST_SIZES => "bursts_of_more".to_owned(),
                power => format!("bursts_to_{}", 1 << power),
            };
            stat_number(out, name.as_bytes(), count - before);
        }
        let connections = bursts.connections - reset.bursts.connections;
        stat_number(out, b"bursts_connections", connections);
    }

    fn memory(&self, now: Now, reset: &Reset, out: &mut Vec<u8>) {
        let store = self.store.statistics();
        stat_number(out, b"limit_maxbytes", store.limit_bytes);
        stat_number(out, b"bytes", store.bytes_live);
        stat_number(out, b"hash_bytes", store.index_bytes);
        stat_number(
            out,
            b"bytes_dead",
            store.bytes_occupied.saturating_sub(store.bytes_live),
        );
        stat_number(out, b"bytes_resident", store.bytes_used());
        stat_number(out, b"ghost_bytes", store.ghost_bytes);
        stat_number(out, b"miniature_bytes", store.miniature_bytes);
        stat_number(out, b"segment_bytes", store.segment_bytes);
        stat_number(out, b"segments", store.segments);
        let oldest_s = store
            .oldest_segment_s
            .map_or(0, |opened_s| now.elapsed_s.saturating_sub(opened_s));
        stat_number(out, b"segment_age_oldest", u64::from(oldest_s));
        stat_number(out, b"segments_evacuated", store.evacuated);
        stat_number(out, b"bytes_copied", store.copied_bytes);
        stat_number(out, b"blocks_reused", store.holes_filled);
        stat_number(out, b"ghost_hits", store.ghost_hits);
        stat(out, b"eviction_policy", store.eviction_policy.as_bytes());
        stat_number(out, b"eviction_policy_changes", store.policy_changes);
        stat_number(out, b"index_displaced", store.evicted_index_full);
        stat_number(out, b"segment_waits", store.waits);
        stat_number(out, b"bytes_pinned", store.bytes_pinned);
        stat_number(out, b"bytes_held", store.bytes_held);
        stat_number(out, b"curr_items", store.items);
        let before = &reset.store;
        let stored = store.items_stored - before.items_stored;
        stat_number(out, b"total_items", stored);
        stat_number(out, b"evictions", store.evicted - before.evicted);
        let unfetched = store.evicted_unfetched - before.evicted_unfetched;
        stat_number(out, b"evicted_unfetched", unfetched);
        let main = store.evicted_main - before.evicted_main;
        stat_number(out, b"evicted_main", main);
        let mut below = 0;
        for (number, bound_s) in EVICTED_AGES_S.iter().enumerate() {
            below += store.evicted_ages[number] - before.evicted_ages[number];
            let name = format!("evicted_idle_below_{bound_s}s");
            stat_number(out, name.as_bytes(), below);
        }
        stat_number(out, b"reclaimed", store.expired - before.expired);
        let unfetched = store.expired_unfetched - before.expired_unfetched;
        stat_number(out, b"expired_unfetched", unfetched);
    }
}

fn yes_or_no(is: bool) -> &'static [u8] {
    if is { b"yes" } else { b"no" }
}

fn process(now: Now, out: &mut Vec<u8>) {
    let seconds = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000);
    let (user_ns, system_ns) = sys::cost::own_times_ns();
    stat_number(out, b"pid", u64::from(std::process::id()));
    stat_number(out, b"uptime", u64::from(now.elapsed_s - 1));
    stat_number(out, b"time", now.epoch_unix_s + u64::from(now.elapsed_s));
    stat(out, b"version", VERSION.as_bytes());
    stat_number(out, b"pointer_size", usize::BITS.into());
    stat(out, b"rusage_user", seconds(user_ns).as_bytes());
    stat(out, b"rusage_system", seconds(system_ns).as_bytes());
}
