//! The statistics of memcached 1.6.45 that `stats` has only because memcached has them.
//!
//! Exporters look up statistics by name, and some of them fail if a name is missing. `stats`
//! therefore contains all names. The statistics listed here never change, because they describe
//! parts that Curtail does not have, or they repeat another statistic. The admin pages leave them
//! out.

/// Statistics that are always 0: there are no slab pages, no LRU lists, no crawler thread, no
/// response objects and no NAPI ids.
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

/// Statistics whose value is a text that never changes: no libevent is used, and no slab page is
/// ever moved.
pub const FIXED_STATISTICS: [(&str, &str); 2] = [
    ("libevent", "none"),
    ("slab_reassign_last_busy_status", "none"),
];

/// Statistics that repeat another statistic under memcached's name.
pub const REPEATED_STATISTICS: [&str; 2] = ["read_buf_bytes", "hash_power_level"];

/// Whether a statistic of `stats` is constant, or repeats another statistic.
#[must_use]
pub fn is_uninformative(statistic: &str) -> bool {
    ZERO_STATISTICS.contains(&statistic)
        || REPEATED_STATISTICS.contains(&statistic)
        || FIXED_STATISTICS.iter().any(|(it, _)| *it == statistic)
}
