//! The counts of a tier. They change once for a record that is written or read, which is seldom
//! compared with requests, so all threads share them.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of a tier since its start, and its present content.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The same as atomic numbers.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Counters {
            pub(crate) fn statistics(&self) -> Statistics {
                Statistics { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Segments opened.
    segments_opened,
    /// Segments reused.
    segments_reused,
    /// Segments reused that had current copies.
    segments_evicted,
    /// Segments that were not written because the device failed.
    segments_failed,
    /// Full segments that are not on the device yet.
    segments_waiting,
    /// Segments with items.
    segments_used,
    /// All segments.
    segments,
    /// Bytes of a segment.
    segment_bytes,
    /// Copies lost because their segment was reused.
    objects_evicted,
    /// Their bytes.
    bytes_evicted,
    /// Copies lost because the index had no space.
    objects_displaced,
    /// Copies read.
    objects_read,
    /// Their bytes.
    bytes_read,
    /// Copies appended.
    objects_written,
    /// Their bytes.
    bytes_written,
    /// Of these, copies of items whose older copy would soon have been lost.
    objects_renewed,
    /// Evictions that wrote nothing, because the item's copy was still current.
    objects_kept,
    /// Current copies.
    objects_used,
    /// Their bytes.
    bytes_used,
    /// Evicted items that were not taken by the rules of size and time to live.
    skipped,
    /// Evicted items that are longer than a segment.
    dropped_too_large,
    /// Evicted items above the write rate.
    dropped_write_rate,
    /// Evicted items dropped because the device writes too slowly.
    dropped_write_behind,
    /// Reads that found damaged bytes, or failed.
    reads_damaged,
    /// Reads that found the record of another key, or one whose segment has been reused.
    reads_missed,
    /// Reads refused because too many were waiting.
    reads_refused,
    /// Reads whose connection was closed before.
    reads_cancelled,
    /// Reads that are waiting or running.
    reads_waiting,
    /// Bytes of the records that are being read, or have been read and are not restored yet.
    reads_bytes,
    /// Items written back into memory.
    restored,
    /// Items that could not be written back for lack of memory.
    not_restored,
    /// Bytes of index and write buffers in memory.
    memory_bytes,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// Subtracts from a counter.
pub(crate) fn sub(counter: &AtomicU64, amount: u64) {
    counter.fetch_sub(amount, Ordering::Relaxed);
}
