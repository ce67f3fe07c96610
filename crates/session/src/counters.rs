//! Counters of a worker. Only the owning worker counts, so counting needs no atomic
//! read-modify-write. Any thread may read the counters. Any thread may also turn counting by key
//! prefix on or off, and change which streams of log lines are watched.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use protocol::Streams;
use store::SizeClass;

use crate::event_log::LogBuffer;
use crate::latency::{LatencyHistograms, LatencySnapshot};
use crate::prefixes::{Access, PrefixCounts, PrefixSums};

/// A counted event, named as in memcached's `stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
#[allow(missing_docs, reason = "the names are memcached's own")]
pub enum Counter {
    CmdGet,
    CmdSet,
    CmdFlush,
    CmdTouch,
    CmdMeta,
    GetHits,
    GetMisses,
    GetExpired,
    GetFlushed,
    DeleteMisses,
    DeleteHits,
    IncrMisses,
    IncrHits,
    DecrMisses,
    DecrHits,
    CasMisses,
    CasHits,
    CasBadval,
    TouchHits,
    TouchMisses,
    StoreTooLarge,
    StoreNoMemory,
    AuthCmds,
    AuthErrors,
}

impl Counter {
    /// All counters, in the order of `stats`.
    pub const ALL: [Self; 24] = [
        Self::CmdGet,
        Self::CmdSet,
        Self::CmdFlush,
        Self::CmdTouch,
        Self::CmdMeta,
        Self::GetHits,
        Self::GetMisses,
        Self::GetExpired,
        Self::GetFlushed,
        Self::DeleteMisses,
        Self::DeleteHits,
        Self::IncrMisses,
        Self::IncrHits,
        Self::DecrMisses,
        Self::DecrHits,
        Self::CasMisses,
        Self::CasHits,
        Self::CasBadval,
        Self::TouchHits,
        Self::TouchMisses,
        Self::StoreTooLarge,
        Self::StoreNoMemory,
        Self::AuthCmds,
        Self::AuthErrors,
    ];

    /// The counter's name in `stats`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CmdGet => "cmd_get",
            Self::CmdSet => "cmd_set",
            Self::CmdFlush => "cmd_flush",
            Self::CmdTouch => "cmd_touch",
            Self::CmdMeta => "cmd_meta",
            Self::GetHits => "get_hits",
            Self::GetMisses => "get_misses",
            Self::GetExpired => "get_expired",
            Self::GetFlushed => "get_flushed",
            Self::DeleteMisses => "delete_misses",
            Self::DeleteHits => "delete_hits",
            Self::IncrMisses => "incr_misses",
            Self::IncrHits => "incr_hits",
            Self::DecrMisses => "decr_misses",
            Self::DecrHits => "decr_hits",
            Self::CasMisses => "cas_misses",
            Self::CasHits => "cas_hits",
            Self::CasBadval => "cas_badval",
            Self::TouchHits => "touch_hits",
            Self::TouchMisses => "touch_misses",
            Self::StoreTooLarge => "store_too_large",
            Self::StoreNoMemory => "store_no_memory",
            Self::AuthCmds => "auth_cmds",
            Self::AuthErrors => "auth_errors",
        }
    }
}

/// An event that is counted for each size class of the item, for `stats slabs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
#[allow(missing_docs, reason = "the names are memcached's own")]
pub enum ClassCounter {
    GetHits,
    CmdSet,
    DeleteHits,
    IncrHits,
    DecrHits,
    CasHits,
    CasBadval,
    TouchHits,
    StoreNoMemory,
}

/// The bit of [`Counters::observed`] for the counting by key prefix. Streams use lower bits.
const PREFIXES: u16 = 1 << 15;

/// Number of [`ClassCounter`]s.
const CLASS_COUNTERS: usize = ClassCounter::StoreNoMemory as usize + 1;

/// The counts of every size class.
type ClassCells<C> = [[C; CLASS_COUNTERS]; SizeClass::COUNT];

/// The counters of one worker: events, accesses by key prefix, and latency histograms.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    cells: [AtomicU64; Counter::ALL.len()],
    classes: ClassTable,
    /// The reasons to observe requests, as bits: the watched streams of log lines, and
    /// [`PREFIXES`].
    observed: AtomicU16,
    log: LogBuffer,
    prefixes: PrefixCounts,
    latencies: LatencyHistograms,
}

/// The counters of all size classes.
#[derive(Debug)]
struct ClassTable(ClassCells<AtomicU64>);

impl Default for ClassTable {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Default::default()))
    }
}

impl Counters {
    /// Increments a counter of a size class. Only the owning worker may call this.
    #[inline]
    pub fn count_in_class(&self, counter: ClassCounter, class: SizeClass) {
        add_to(&self.classes.0[class.index()][counter as usize], 1);
    }

    /// Increments a counter. Only the owning worker may call this.
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `by` to a counter. Only the owning worker may call this.
    pub fn add(&self, counter: Counter, by: u64) {
        add_to(&self.cells[counter as usize], by);
    }

    /// Increments `hits` if `is_hit`, or else `misses`. Only the owning worker may call this.
    pub(crate) fn count_outcome(&self, is_hit: bool, hits: Counter, misses: Counter) {
        self.count(if is_hit { hits } else { misses });
    }

    /// The present value of one counter.
    pub(crate) fn of(&self, counter: Counter) -> u64 {
        self.cells[counter as usize].load(Ordering::Relaxed)
    }

    /// The worker's latency histograms.
    pub(crate) fn latencies(&self) -> &LatencyHistograms {
        &self.latencies
    }

    /// The present latency histograms: how long requests are in the server.
    #[must_use]
    pub fn latency_snapshot(&self) -> LatencySnapshot {
        self.latencies.snapshot()
    }

    /// Whether requests are counted by key prefix (`stats detail on`), or logged. While neither is
    /// on, this test is the only cost for a request.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.observed.load(Ordering::Relaxed) != 0
    }

    /// Whether accesses are counted by key prefix.
    pub(crate) fn counts_prefixes(&self) -> bool {
        self.observed.load(Ordering::Relaxed) & PREFIXES != 0
    }

    /// Whether one of these streams of log lines is watched.
    #[inline]
    pub(crate) fn is_watched(&self, streams: Streams) -> bool {
        self.observed.load(Ordering::Relaxed) & streams.bits() != 0
    }

    /// Sets the streams that are watched.
    pub(crate) fn set_watched(&self, streams: Streams) {
        let bits = streams.bits();
        // Bits are set first and cleared afterwards, so a stream that stays watched keeps its bit.
        self.observed.fetch_or(bits, Ordering::Relaxed);
        self.observed.fetch_and(PREFIXES | bits, Ordering::Relaxed);
    }

    /// The worker's log lines.
    pub(crate) fn log(&self) -> &LogBuffer {
        &self.log
    }

    /// Counts an access under the prefix of `key`. Only the owning worker may call this.
    #[cold]
    pub(crate) fn count_prefix_of(&self, key: &[u8], access: Access) {
        self.prefixes.count(key, access);
    }

    /// Turns counting by key prefix on or off. `delimiter` ends a prefix.
    pub fn set_prefix_counting(&self, is_on: bool, delimiter: u8) {
        self.prefixes.set_delimiter(delimiter);
        match is_on {
            true => self.observed.fetch_or(PREFIXES, Ordering::Relaxed),
            false => self.observed.fetch_and(!PREFIXES, Ordering::Relaxed),
        };
    }

    /// Adds the counts by key prefix to `sums`.
    pub fn add_prefixes_to(&self, sums: &mut PrefixSums) {
        self.prefixes.add_to(sums);
    }

    /// Clears the counts by key prefix.
    pub fn clear_prefixes(&self) {
        self.prefixes.clear();
    }

    /// The present values of all counters.
    #[must_use]
    pub fn snapshot(&self) -> CounterSnapshot {
        CounterSnapshot {
            counts: std::array::from_fn(|at| self.cells[at].load(Ordering::Relaxed)),
        }
    }

    /// The present values of the counters of all size classes.
    #[must_use]
    pub fn class_snapshot(&self) -> ClassCounts {
        let cell = |class: usize, at: usize| self.classes.0[class][at].load(Ordering::Relaxed);
        ClassCounts(std::array::from_fn(|class| {
            std::array::from_fn(|at| cell(class, at))
        }))
    }
}

/// Adds to a cell that only the calling thread writes. A load and a store suffice, because no other
/// thread changes the cell between them.
#[inline]
pub(crate) fn add_to(cell: &AtomicU64, by: u64) {
    let sum = cell.load(Ordering::Relaxed).wrapping_add(by);
    cell.store(sum, Ordering::Relaxed);
}

/// The values of the counters of all size classes, of one worker or summed over several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassCounts(ClassCells<u64>);

impl Default for ClassCounts {
    fn default() -> Self {
        Self([[0; CLASS_COUNTERS]; SizeClass::COUNT])
    }
}

impl ClassCounts {
    /// The count of `counter` in `class`.
    #[must_use]
    pub fn of(&self, class: SizeClass, counter: ClassCounter) -> u64 {
        self.0[class.index()][counter as usize]
    }

    /// The sum of `self` and `other`.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        self.combined(other, |own, other| own + other)
    }

    /// The counts since `earlier`, or zero where the difference is negative.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        self.combined(earlier, u64::saturating_sub)
    }

    fn combined(mut self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            for (own, other) in own.iter_mut().zip(other) {
                *own = combine(*own, *other);
            }
        }
        self
    }
}

/// The values of all counters of one worker, or summed over several. They are read one after the
/// other, so a request counted meanwhile may be in some of them only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterSnapshot {
    counts: [u64; Counter::ALL.len()],
}

impl CounterSnapshot {
    /// The count of `counter`.
    #[must_use]
    pub fn of(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// The sum of `self` and `other`.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|at| self.counts[at] + other.counts[at]),
        }
    }

    /// The counts since `earlier`: the difference of each counter, or zero where it is negative.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|at| self.counts[at].saturating_sub(earlier.counts[at])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_the_counters_in_declaration_order_and_snapshots_add_and_subtract() {
        let counters = Counters::default();
        for (index, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, index);
            counters.add(counter, index as u64);
        }
        let sum = counters.snapshot().plus(&counters.snapshot());
        // `CmdSet` is counter 1, so each snapshot has 1.
        assert_eq!(sum.of(Counter::CmdSet), 2);
        assert_eq!(sum.since(&counters.snapshot()), counters.snapshot());
    }
}
