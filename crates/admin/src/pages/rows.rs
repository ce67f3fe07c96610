//! The table from memcached's names to metrics.
//!
//! A figure without a row here is exported all the same, as `curtail_unlisted_…` of unknown type. A
//! test of the whole server fails if there is one, so that the table stays complete.

mod bypass;
mod pool;
mod tier;

use super::openmetrics::Kind;
use bypass::BYPASS_ROWS;
use pool::POOL_ROWS;
use tier::TIER_ROWS;

/// How a figure is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum As {
    /// A count that only grows, until the server starts again or `stats reset`.
    Counter,
    /// The same, of microseconds; or of seconds, where the figure is a decimal fraction.
    CounterOfSeconds,
    /// A value that rises and falls.
    Gauge,
    /// A label of `curtail_info`.
    Label,
}

/// One figure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Its name in `stats` or `stats curtail`.
    pub(super) stat: &'static str,
    /// The name of its family, without `curtail_` and without `_total`; or of its label.
    pub(super) name: &'static str,
    pub(super) exported: As,
    /// A label that tells it from the other figures of its family.
    pub(super) label: Option<(&'static str, &'static str)>,
    pub(super) help: &'static str,
}

impl Row {
    /// The type of its family; `None` for a label.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self.exported {
            As::Counter | As::CounterOfSeconds => Some(Kind::Counter),
            As::Gauge => Some(Kind::Gauge),
            As::Label => None,
        }
    }
}

const fn row(stat: &'static str, name: &'static str, exported: As, help: &'static str) -> Row {
    Row {
        stat,
        name,
        exported,
        label: None,
        help,
    }
}

const fn counter(stat: &'static str, name: &'static str, help: &'static str) -> Row {
    row(stat, name, As::Counter, help)
}

const fn gauge(stat: &'static str, name: &'static str, help: &'static str) -> Row {
    row(stat, name, As::Gauge, help)
}

const fn label(stat: &'static str, name: &'static str) -> Row {
    row(stat, name, As::Label, "")
}

const fn cpu(stat: &'static str, mode: &'static str) -> Row {
    let help = "CPU time of the process.";
    Row {
        label: Some(("mode", mode)),
        ..row(stat, "cpu_seconds", As::CounterOfSeconds, help)
    }
}

/// All figures, in the order of the page. Those of one family are next to each other.
pub(super) fn listed() -> impl Iterator<Item = &'static Row> {
    ROWS.iter()
        .chain(BYPASS_ROWS)
        .chain(TIER_ROWS)
        .chain(POOL_ROWS)
}

/// The figures that every server has.
static ROWS: &[Row] = &[
    // The process.
    label("curtail", "version"),
    label("version", "memcached_version"),
    label("pid", "pid"),
    label("pointer_size", "pointer_bits"),
    gauge("uptime", "uptime_seconds", "Time since the server started."),
    gauge("time", "clock_seconds", "The server's clock, as Unix time."),
    cpu("rusage_user", "user"),
    cpu("rusage_system", "system"),
    gauge("threads", "worker_threads", "Worker threads (-t)."),
    // Connections.
    gauge(
        "max_connections",
        "connections_limit",
        "Limit of open connections (-c).",
    ),
    gauge("curr_connections", "connections", "Open connections."),
    counter(
        "total_connections",
        "accepted_connections",
        "Connections accepted.",
    ),
    counter(
        "rejected_connections",
        "rejected_connections",
        "Connections rejected because of the limit.",
    ),
    gauge(
        "connection_structures",
        "connection_structures",
        "Connections with a state in memory.",
    ),
    gauge(
        "accepting_conns",
        "accepting_connections",
        "1 while connections are accepted; 0 during a pause for lack of a resource.",
    ),
    counter(
        "listen_disabled_num",
        "listen_disabled",
        "Pauses of accepting.",
    ),
    row(
        "time_in_listen_disabled_us",
        "listen_disabled_seconds",
        As::CounterOfSeconds,
        "Total duration of the pauses of accepting.",
    ),
    counter(
        "slow_peers_closed",
        "slow_peers_closed",
        "Stalled connections closed because they held memory that others needed.",
    ),
    gauge(
        "conn_buffer_bytes",
        "connection_buffer_bytes",
        "Incomplete requests and unsent replies of all connections.",
    ),
    gauge(
        "conn_buffer_limit",
        "connection_buffer_limit_bytes",
        "Bound of curtail_connection_buffer_bytes.",
    ),
    counter(
        "conn_buffer_closed",
        "connection_buffer_closed",
        "Connections closed because that bound was reached.",
    ),
    counter(
        "conn_panics",
        "connection_panics",
        "Connections closed after a panic: a bug.",
    ),
    counter(
        "worker_restarts",
        "worker_restarts",
        "Workers restarted after a panic: a bug.",
    ),
    counter(
        "prefix_accesses_uncounted",
        "prefix_accesses_uncounted",
        "Accesses under prefixes for which there is no space in stats detail.",
    ),
    counter(
        "conn_yields",
        "connection_yields",
        "Turns of connections that ended at -R requests.",
    ),
    counter("bytes_read", "read_bytes", "Bytes received from clients."),
    counter("bytes_written", "written_bytes", "Bytes sent to clients."),
    counter(
        "held_waits",
        "held_waits",
        "Requests deferred for lack of memory.",
    ),
    // Commands.
    counter("cmd_get", "cmd_get", "Keys requested by get commands."),
    counter(
        "cmd_set",
        "cmd_set",
        "Storage commands whose value arrived.",
    ),
    counter("cmd_flush", "cmd_flush", "flush_all commands."),
    counter(
        "cmd_touch",
        "cmd_touch",
        "Touch and get-and-touch commands.",
    ),
    counter("cmd_meta", "cmd_meta", "Meta commands counted by cmd_meta."),
    counter("get_hits", "get_hits", "Requested keys that were present."),
    counter(
        "get_misses",
        "get_misses",
        "Requested keys that were absent.",
    ),
    counter(
        "get_expired",
        "get_expired",
        "Misses because the item had expired.",
    ),
    counter(
        "get_flushed",
        "get_flushed",
        "Misses because the item had been flushed.",
    ),
    counter("delete_hits", "delete_hits", "Deletions of present keys."),
    counter(
        "delete_misses",
        "delete_misses",
        "Deletions of absent keys.",
    ),
    counter("incr_hits", "incr_hits", "Increments of present keys."),
    counter("incr_misses", "incr_misses", "Increments of absent keys."),
    counter("decr_hits", "decr_hits", "Decrements of present keys."),
    counter("decr_misses", "decr_misses", "Decrements of absent keys."),
    counter("cas_hits", "cas_hits", "CAS commands that stored."),
    counter("cas_misses", "cas_misses", "CAS commands for absent keys."),
    counter(
        "cas_badval",
        "cas_badval",
        "CAS commands whose item had changed.",
    ),
    counter("touch_hits", "touch_hits", "Touches of present keys."),
    counter("touch_misses", "touch_misses", "Touches of absent keys."),
    counter(
        "store_too_large",
        "store_too_large",
        "Values rejected because of their size (-I).",
    ),
    counter(
        "store_no_memory",
        "store_no_memory",
        "Values rejected for lack of memory.",
    ),
    counter("auth_cmds", "logins", "Logins, with those that failed."),
    counter(
        "auth_errors",
        "login_failures",
        "Logins that failed: wrong, malformed, or by an unknown mechanism.",
    ),
    counter(
        "password_reload_failures",
        "password_reload_failures",
        "Failures to read the passwords again on SIGHUP.",
    ),
    // Log lines.
    gauge(
        "log_watchers",
        "log_watchers",
        "Clients that receive log lines (watch).",
    ),
    counter(
        "log_worker_written",
        "log_lines_written",
        "Log lines written by workers.",
    ),
    counter(
        "log_worker_dropped",
        "log_lines_dropped",
        "Log lines for which a worker had no space.",
    ),
    counter(
        "log_watcher_sent",
        "log_lines_sent",
        "Log lines given to a client.",
    ),
    counter(
        "log_watcher_skipped",
        "log_lines_skipped",
        "Log lines that a client was too slow for.",
    ),
    // Memory and items.
    gauge(
        "limit_maxbytes",
        "limit_bytes",
        "Limit of curtail_resident_bytes (-m).",
    ),
    gauge(
        "bytes_resident",
        "resident_bytes",
        "Segments, index, ghosts and miniatures.",
    ),
    gauge("bytes", "item_bytes", "Live items: key, value and header."),
    gauge(
        "bytes_dead",
        "dead_bytes",
        "Dead items in segments that are not evacuated yet.",
    ),
    gauge("hash_bytes", "index_bytes", "The index."),
    gauge("ghost_bytes", "ghost_bytes", "Hashes of evicted items."),
    gauge(
        "miniature_bytes",
        "miniature_bytes",
        "Simulations that choose the eviction policy.",
    ),
    gauge(
        "bytes_pinned",
        "pinned_bytes",
        "Values that are being sent from their place.",
    ),
    gauge(
        "bytes_held",
        "held_bytes",
        "Segments that connections keep from being reused.",
    ),
    gauge(
        "bytes_spooled",
        "spooled_bytes",
        "Values outside the segments that are being received or sent.",
    ),
    gauge("segment_bytes", "segment_size_bytes", "Size of a segment."),
    gauge("segments", "segments", "Resident segments."),
    gauge(
        "segment_age_oldest",
        "segment_age_oldest_seconds",
        "Age of the oldest segment.",
    ),
    counter(
        "segments_evacuated",
        "segments_evacuated",
        "Segments evacuated.",
    ),
    counter(
        "segment_waits",
        "segment_waits",
        "Waits of a worker for a free segment.",
    ),
    counter(
        "bytes_copied",
        "copied_bytes",
        "Bytes copied by evacuation.",
    ),
    counter(
        "blocks_reused",
        "blocks_reused",
        "Values written into the space of an old one.",
    ),
    gauge("curr_items", "items", "Items present."),
    counter("total_items", "stored_items", "Items stored."),
    counter("evictions", "evictions", "Items evicted."),
    counter(
        "evicted_unfetched",
        "evicted_unfetched",
        "Evicted items that were never read.",
    ),
    counter(
        "evicted_main",
        "evicted_main",
        "Items evicted from the main part.",
    ),
    counter(
        "reclaimed",
        "reclaimed",
        "Items reclaimed after they expired or were flushed.",
    ),
    counter(
        "expired_unfetched",
        "expired_unfetched",
        "Reclaimed items that were never read.",
    ),
    counter(
        "ghost_hits",
        "ghost_hits",
        "New items that had been evicted shortly before.",
    ),
    counter(
        "index_displaced",
        "index_displaced",
        "Items evicted because the index was full.",
    ),
    counter(
        "eviction_policy_changes",
        "eviction_policy_changes",
        "Changes of the policy.",
    ),
    // Documents over HTTP, and silent clients.
    counter(
        "idle_kicks",
        "idle_closed",
        "Connections closed because the client was silent for too long (-o idle_timeout).",
    ),
    gauge(
        "http_curr_connections",
        "http_connections",
        "Open connections of the documents (--http).",
    ),
    counter(
        "http_total_connections",
        "http_accepted_connections",
        "Connections of the documents accepted.",
    ),
    counter(
        "http_rejected_connections",
        "http_rejected_connections",
        "Connections of the documents rejected.",
    ),
    counter(
        "http_idle_closed",
        "http_idle_closed",
        "Connections of the documents closed because the client was silent for too long.",
    ),
    counter(
        "http_slow_heads",
        "http_slow_heads",
        "Requests for documents whose head did not arrive in time.",
    ),
    counter(
        "http_sendfile_bytes",
        "http_sendfile_bytes",
        "Bytes of documents sent from the page cache without a copy.",
    ),
    gauge(
        "http_conn_buffer_bytes",
        "http_connection_buffer_bytes",
        "Incomplete requests and unsent replies of the documents.",
    ),
    counter(
        "http_conn_buffer_closed",
        "http_connection_buffer_closed",
        "Connections of the documents closed because the bound of these bytes was reached.",
    ),
    counter(
        "http_opened_elsewhere",
        "http_opened_elsewhere",
        "Files that were not opened by a worker, because it might have waited.",
    ),
    counter(
        "http_read_elsewhere",
        "http_read_elsewhere",
        "Reads of files that were not made by a worker, because it might have waited.",
    ),
    counter(
        "http_refused_elsewhere",
        "http_refused_elsewhere",
        "Such operations refused because too many waited already.",
    ),
    counter(
        "http_openers_lost",
        "http_openers_lost",
        "Processes that open files and have ended. Threads open files in their place.",
    ),
    counter(
        "http_ring_lost",
        "http_ring_lost",
        "1 if the io_uring that reads files has ended. Threads read in its place.",
    ),
    counter(
        "http_log_dropped",
        "http_log_dropped",
        "Lines of the log of requests that were dropped.",
    ),
];

/// The figure that names the eviction policy, one of [`session::eviction_policies`].
pub(super) const POLICY: &str = "eviction_policy";

/// A histogram that `stats curtail` has as one figure for each bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct SplitHistogram {
    /// The name of its family, without `curtail_`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    /// The figures of the buckets, with their bounds.
    pub(super) buckets: &'static [(&'static str, &'static str)],
    /// Whether the figure of a bucket contains those of the buckets below.
    pub(super) is_cumulative: bool,
    /// The figure that is the sum of what is counted.
    pub(super) sum: Option<&'static str>,
}

pub(super) static SPLIT_HISTOGRAMS: [SplitHistogram; 3] = [
    SplitHistogram {
        name: "burst_connections",
        help: "Connections that were ready when a worker woke up.",
        buckets: &[
            ("bursts_of_1", "1.0"),
            ("bursts_to_2", "2.0"),
            ("bursts_to_4", "4.0"),
            ("bursts_to_8", "8.0"),
            ("bursts_to_16", "16.0"),
            ("bursts_to_32", "32.0"),
            ("bursts_to_64", "64.0"),
            ("bursts_to_128", "128.0"),
            ("bursts_to_256", "256.0"),
            ("bursts_to_512", "512.0"),
            ("bursts_of_more", "+Inf"),
        ],
        is_cumulative: false,
        sum: Some("bursts_connections"),
    },
    SplitHistogram {
        name: "http_burst_connections",
        help: "Connections of the documents that were ready when a worker woke up.",
        buckets: &[
            ("http_bursts_of_1", "1.0"),
            ("http_bursts_to_2", "2.0"),
            ("http_bursts_to_4", "4.0"),
            ("http_bursts_to_8", "8.0"),
            ("http_bursts_to_16", "16.0"),
            ("http_bursts_to_32", "32.0"),
            ("http_bursts_to_64", "64.0"),
            ("http_bursts_to_128", "128.0"),
            ("http_bursts_to_256", "256.0"),
            ("http_bursts_to_512", "512.0"),
            ("http_bursts_of_more", "+Inf"),
        ],
        is_cumulative: false,
        sum: Some("http_bursts_connections"),
    },
    SplitHistogram {
        name: "evicted_idle_seconds",
        help: "Time since the last request for an evicted item, in whole seconds below the bound.",
        buckets: &[
            ("evicted_idle_below_1s", "1.0"),
            ("evicted_idle_below_10s", "10.0"),
            ("evicted_idle_below_60s", "60.0"),
            ("evicted_idle_below_600s", "600.0"),
            ("evicted_idle_below_3600s", "3600.0"),
            ("evicted_idle_below_86400s", "86400.0"),
            ("evictions", "+Inf"),
        ],
        is_cumulative: true,
        sum: None,
    },
];

/// Whether a figure appears in one of the tables, or is left out because it is constant or repeats
/// another one.
pub(super) fn is_listed(stat: &str) -> bool {
    let is_in_histogram = |histogram: &SplitHistogram| {
        histogram.sum == Some(stat) || histogram.buckets.iter().any(|(it, _)| *it == stat)
    };
    stat == POLICY
        || session::is_uninformative(stat)
        || listed().any(|row| row.stat == stat)
        || SPLIT_HISTOGRAMS.iter().any(is_in_histogram)
}

/// Whether a figure that `stats` writes as text is a number.
pub(super) fn is_number(stat: &str) -> bool {
    let is_number = |row: &Row| row.stat == stat && row.exported == As::CounterOfSeconds;
    listed().any(is_number)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_counter_of_a_worker_has_a_row() {
        for counter in session::Counter::ALL {
            assert!(is_listed(counter.name()), "{}", counter.name());
        }
    }

    #[test]
    fn no_figure_or_family_occurs_twice_and_families_are_not_torn_apart() {
        let stats: HashSet<&str> = listed().map(|row| row.stat).collect();
        assert_eq!(stats.len(), listed().count());
        let mut names: Vec<&str> = listed().map(|row| row.name).collect();
        names.dedup();
        names.extend(SPLIT_HISTOGRAMS.iter().map(|histogram| histogram.name));
        names.push(POLICY);
        let unique: HashSet<&str> = names.iter().copied().collect();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn names_and_helps_follow_openmetrics() {
        for row in listed() {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(row.name.bytes().all(is_plain), "{}", row.name);
            let reserved = ["_total", "_created", "_count", "_sum", "_bucket", "_info"];
            assert!(
                !reserved.iter().any(|end| row.name.ends_with(end)),
                "{}",
                row.name
            );
            assert!(!row.help.contains(['"', '\\', '\n']), "{}", row.help);
            assert_eq!(
                row.help.is_empty(),
                row.exported == As::Label,
                "{}",
                row.name
            );
            let is_seconds = row.exported == As::CounterOfSeconds;
            assert!(
                !is_seconds || row.name.ends_with("_seconds"),
                "{}",
                row.name
            );
        }
    }
}
