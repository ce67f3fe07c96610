//! The figures of the tier, which only a server with a tier has.

use super::{Row, counter, gauge};

/// All figures of the tier.
pub(in super::super) static TIER_ROWS: &[Row] = &[
    counter("get_extstore", "tier_reads", "Reads of the tier."),
    counter(
        "get_aborted_extstore",
        "tier_reads_cancelled",
        "Reads of the tier whose connection was closed before.",
    ),
    counter(
        "get_oom_extstore",
        "tier_reads_refused",
        "Reads of the tier refused because too many were waiting.",
    ),
    counter(
        "recache_from_extstore",
        "tier_restored_items",
        "Items written back from the tier into memory.",
    ),
    counter(
        "miss_from_extstore",
        "tier_reads_missed",
        "Reads of the tier that found another item.",
    ),
    counter(
        "badcrc_from_extstore",
        "tier_reads_damaged",
        "Reads of the tier that failed or found damaged bytes.",
    ),
    counter(
        "extstore_compact_lost",
        "tier_compact_lost",
        "Always 0: the tier has no compaction.",
    ),
    counter(
        "extstore_compact_rescues",
        "tier_renewed_items",
        "Items written to the tier again because their copy was old.",
    ),
    counter(
        "extstore_compact_skipped",
        "tier_kept_items",
        "Evictions that wrote nothing because the copy was current.",
    ),
    counter(
        "extstore_page_allocs",
        "tier_opened_segments",
        "Segments of the tier opened.",
    ),
    counter(
        "extstore_page_evictions",
        "tier_evicted_segments",
        "Segments of the tier reused with items.",
    ),
    counter(
        "extstore_page_reclaims",
        "tier_reused_segments",
        "Segments of the tier reused.",
    ),
    gauge(
        "extstore_pages_free",
        "tier_free_segments",
        "Segments of the tier without items.",
    ),
    gauge(
        "extstore_pages_used",
        "tier_segments",
        "Segments of the tier with items.",
    ),
    counter(
        "extstore_objects_evicted",
        "tier_evicted_items",
        "Items of the tier lost because their segment was reused.",
    ),
    counter(
        "extstore_objects_read",
        "tier_read_items",
        "Items read from the tier.",
    ),
    counter(
        "extstore_objects_written",
        "tier_written_items",
        "Items written to the tier.",
    ),
    gauge("extstore_objects_used", "tier_items", "Items in the tier."),
    counter(
        "extstore_bytes_evicted",
        "tier_evicted_bytes",
        "Bytes of items lost because their segment was reused.",
    ),
    counter(
        "extstore_bytes_written",
        "tier_written_bytes",
        "Bytes written to the tier.",
    ),
    counter(
        "extstore_bytes_read",
        "tier_read_bytes",
        "Bytes read from the tier.",
    ),
    gauge(
        "extstore_bytes_used",
        "tier_item_bytes",
        "Bytes of the items in the tier.",
    ),
    gauge(
        "extstore_bytes_fragmented",
        "tier_fragmented_bytes",
        "Bytes of the used segments that are not of items.",
    ),
    gauge(
        "extstore_limit_maxbytes",
        "tier_limit_bytes",
        "Size of the tier.",
    ),
    gauge(
        "extstore_io_queue",
        "tier_reads_waiting",
        "Reads of the tier that wait or run.",
    ),
    gauge(
        "tier_segments_waiting",
        "tier_segments_waiting",
        "Full segments that are not on the device yet. Beyond four, items are dropped.",
    ),
    gauge(
        "tier_memory_bytes",
        "tier_memory_bytes",
        "Memory of index and write buffers of the tier, apart from -m.",
    ),
    gauge(
        "tier_read_buffer_bytes",
        "tier_read_buffer_bytes",
        "Bytes of records being read, or read and not yet in memory.",
    ),
    counter(
        "tier_segments_failed",
        "tier_failed_segments",
        "Segments lost because a write failed.",
    ),
    counter(
        "tier_objects_displaced",
        "tier_displaced_items",
        "Items lost because the index of the tier was full.",
    ),
    counter(
        "tier_skipped",
        "tier_skipped_items",
        "Evicted items too small or too short-lived for the tier.",
    ),
    counter(
        "tier_dropped_too_large",
        "tier_too_large_items",
        "Evicted items larger than a segment of the tier.",
    ),
    counter(
        "tier_dropped_write_rate",
        "tier_write_rate_dropped_items",
        "Evicted items dropped because of the write rate.",
    ),
    counter(
        "tier_dropped_write_behind",
        "tier_write_behind_dropped_items",
        "Evicted items dropped because the device was too slow.",
    ),
    counter(
        "tier_not_restored",
        "tier_not_restored_items",
        "Items not written back for lack of memory.",
    ),
];
