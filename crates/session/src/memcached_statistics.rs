//! The statistics of memcached 1.6.45: which of them `stats` shows, and which have no meaning in
//! Curtail.
//!
//! Scripts read all of `stats`, and exporters look up statistics by name. So `stats` shows exactly
//! the names that memcached shows with the same flags. `stats curtail` shows the other statistics
//! of this server. Some statistics of memcached never change here, because they describe parts that
//! Curtail does not have. Some contain no more than another statistic. The admin pages (the pages
//! about the server over HTTP) leave out both kinds.

/// A part of memcached that a flag turns off. `stats` then leaves out the statistics of the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionalPart {
    /// The LRU crawler.
    Crawler,
    /// The LRU maintainer, which sorts items into several lists.
    Maintainer,
    /// The thread that moves slab pages.
    PageMover,
}

impl OptionalPart {
    /// The optional part to which a statistic belongs. `None` if the statistic belongs to no such
    /// part.
    #[must_use]
    pub fn of(statistic: &[u8]) -> Option<Self> {
        match statistic {
            b"lru_crawler_running" | b"lru_crawler_starts" => Some(Self::Crawler),
            b"lru_maintainer_juggles"
            | b"evicted_active"
            | b"moves_to_cold"
            | b"moves_to_warm"
            | b"moves_within_lru"
            | b"direct_reclaims"
            | b"lru_bumps_dropped" => Some(Self::Maintainer),
            b"slab_reassign_rescues"
            | b"slab_reassign_chunk_rescues"
            | b"slab_reassign_inline_reclaim"
            | b"slab_reassign_busy_items"
            | b"slab_reassign_busy_deletes"
            | b"slab_reassign_busy_nomem"
            | b"slab_reassign_last_busy_status"
            | b"slab_reassign_running"
            | b"slabs_moved" => Some(Self::PageMover),
            _ => None,
        }
    }
}

/// Whether memcached's `stats` has a statistic of this name. If an optional part is off, `stats`
/// may leave it out.
#[must_use]
pub fn is_of_memcached(statistic: &[u8]) -> bool {
    STATISTICS.iter().any(|name| name.as_bytes() == statistic)
        || OptionalPart::of(statistic).is_some()
}

/// The statistics of memcached that do not belong to an [`OptionalPart`]. They include the
/// statistics of the idle timeout and of the tier (memcached's `extstore`).
const STATISTICS: [&str; 104] = [
    "pid",
    "uptime",
    "time",
    "version",
    "libevent",
    "pointer_size",
    "rusage_user",
    "rusage_system",
    "max_connections",
    "curr_connections",
    "total_connections",
    "rejected_connections",
    "connection_structures",
    "response_obj_oom",
    "response_obj_count",
    "response_obj_bytes",
    "read_buf_count",
    "read_buf_bytes",
    "read_buf_bytes_free",
    "read_buf_oom",
    "reserved_fds",
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "cmd_meta",
    "get_hits",
    "get_misses",
    "get_expired",
    "get_flushed",
    "delete_misses",
    "delete_hits",
    "incr_misses",
    "incr_hits",
    "decr_misses",
    "decr_hits",
    "cas_misses",
    "cas_hits",
    "cas_badval",
    "touch_hits",
    "touch_misses",
    "store_too_large",
    "store_no_memory",
    "auth_cmds",
    "auth_errors",
    "bytes_read",
    "bytes_written",
    "limit_maxbytes",
    "accepting_conns",
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    "threads",
    "conn_yields",
    "hash_power_level",
    "hash_bytes",
    "hash_is_expanding",
    "malloc_fails",
    "log_worker_dropped",
    "log_worker_written",
    "log_watcher_skipped",
    "log_watcher_sent",
    "log_watchers",
    "unexpected_napi_ids",
    "round_robin_fallback",
    "bytes",
    "curr_items",
    "total_items",
    "slab_global_page_pool",
    "expired_unfetched",
    "evicted_unfetched",
    "evictions",
    "reclaimed",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "idle_kicks",
    "get_extstore",
    "get_aborted_extstore",
    "get_oom_extstore",
    "recache_from_extstore",
    "miss_from_extstore",
    "badcrc_from_extstore",
    "extstore_memory_pressure",
    "extstore_compact_lost",
    "extstore_compact_rescues",
    "extstore_compact_resc_cold",
    "extstore_compact_resc_old",
    "extstore_compact_skipped",
    "extstore_page_allocs",
    "extstore_page_evictions",
    "extstore_page_reclaims",
    "extstore_pages_free",
    "extstore_pages_used",
    "extstore_objects_evicted",
    "extstore_objects_read",
    "extstore_objects_written",
    "extstore_objects_used",
    "extstore_bytes_evicted",
    "extstore_bytes_written",
    "extstore_bytes_read",
    "extstore_bytes_used",
    "extstore_bytes_fragmented",
    "extstore_limit_maxbytes",
    "extstore_io_queue",
];

/// Statistics that are always 0, because Curtail does not have what they count: slab pages, LRU
/// lists, a crawler thread, response objects, NAPI ids, and some others.
pub const ZERO_STATISTICS: [&str; 33] = [
    "response_obj_oom",
    "response_obj_count",
    "response_obj_bytes",
    "read_buf_count",
    "read_buf_bytes_free",
    "read_buf_oom",
    "reserved_fds",
    "hash_is_expanding",
    "malloc_fails",
    "slab_reassign_rescues",
    "slab_reassign_chunk_rescues",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "slab_reassign_busy_nomem",
    // Only earlier versions of memcached have the next statistic.
    "slab_reassign_evictions_nomem",
    "slab_reassign_running",
    "slabs_moved",
    "slab_global_page_pool",
    "lru_crawler_running",
    "lru_crawler_starts",
    "lru_maintainer_juggles",
    "unexpected_napi_ids",
    "round_robin_fallback",
    "evicted_active",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "lru_bumps_dropped",
];

/// Statistics whose value is a text that never changes. Curtail does not use libevent, and never
/// moves a slab page.
pub const FIXED_STATISTICS: [(&str, &str); 2] = [
    ("libevent", "none"),
    ("slab_reassign_last_busy_status", "none"),
];

/// Statistics of memcached that contain no more than another statistic: `conn_buffer_bytes` and
/// `hash_bytes`, in this order.
pub const REPEATED_STATISTICS: [&str; 2] = ["read_buf_bytes", "hash_power_level"];

/// Whether a statistic is constant, or contains no more than another statistic.
#[must_use]
pub fn is_uninformative(statistic: &str) -> bool {
    ZERO_STATISTICS.contains(&statistic)
        || REPEATED_STATISTICS.contains(&statistic)
        || FIXED_STATISTICS.iter().any(|(it, _)| *it == statistic)
}
