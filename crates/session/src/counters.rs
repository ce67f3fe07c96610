//! Counters of a worker. Only the worker that owns them increments them, so no increment needs an
//! atomic read-modify-write. Any thread may read the counters. Any thread may also change what the
//! worker observes of its requests beyond these counters: accesses by key prefix (`stats detail`),
//! and log lines of the streams that are watched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use protocol::Streams;
use store::SizeClass;

use crate::event_log::LogBuffer;
use crate::latency::{LatencyHistograms, LatencySnapshot};
use crate::prefixes::{Access, AllPrefixes, PrefixCounts, PrefixSums};

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
    /// All counters, in declaration order. `stats` shows them in this order.
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

/// The bit of [`Counters::observed`] that is set while accesses are counted by key prefix. The bits
/// of the streams are lower ([`Streams::bits`]).
const PREFIXES: u16 = 1 << 15;

/// Number of [`ClassCounter`]s.
const CLASS_COUNTERS: usize = ClassCounter::StoreNoMemory as usize + 1;

/// A cell of type `C` for each counter of each size class.
type ClassCells<C> = [[C; CLASS_COUNTERS]; SizeClass::COUNT];

/// The counters of one worker (events, accesses by key prefix, and latency histograms), and its log
/// lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// The count of each [`Counter`], by its number.
    cells: [AtomicU64; Counter::ALL.len()],
    classes: ClassTable,
    /// The watched streams, as bits, and [`PREFIXES`]. If no bit is set, requests are neither
    /// counted by prefix nor logged.
    observed: AtomicU16,
    /// The log lines that the worker has written and that have not been collected.
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
    /// The counters of a further worker.
    pub(crate) fn counted_in(prefixes: &Arc<AllPrefixes>) -> Self {
        Self {
            prefixes: PrefixCounts::new(prefixes),
            ..Self::default()
        }
    }

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

    /// The present value of `counter`.
    pub(crate) fn of(&self, counter: Counter) -> u64 {
        self.cells[counter as usize].load(Ordering::Relaxed)
    }

    /// The worker's latency histograms, to record times in them or to clear them.
    pub(crate) fn latencies(&self) -> &LatencyHistograms {
        &self.latencies
    }

    /// A copy of the latency histograms, which show how long requests are in the server (from the
    /// wake-up of the worker to the replies).
    #[must_use]
    pub fn latency_snapshot(&self) -> LatencySnapshot {
        self.latencies.snapshot()
    }

    /// Whether accesses are counted by key prefix, or at least one stream is watched. Otherwise
    /// counting by prefix and logging cost a request only this call.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.observed.load(Ordering::Relaxed) != 0
    }

    /// Whether accesses are counted by key prefix.
    pub(crate) fn counts_prefixes(&self) -> bool {
        self.observed.load(Ordering::Relaxed) & PREFIXES != 0
    }

    /// Whether at least one of these streams is watched.
    #[inline]
    pub(crate) fn is_watched(&self, streams: Streams) -> bool {
        self.observed.load(Ordering::Relaxed) & streams.bits() != 0
    }

    /// Sets the streams that are watched.
    pub(crate) fn set_watched(&self, streams: Streams) {
        let bits = streams.bits();
        // This sets the new bits first, and then clears the old ones. The bit of a stream that was
        // watched before and stays watched is set all the time.
        self.observed.fetch_or(bits, Ordering::Relaxed);
        self.observed.fetch_and(PREFIXES | bits, Ordering::Relaxed);
    }

    /// The buffer of the worker's log lines.
    pub(crate) fn log(&self) -> &LogBuffer {
        &self.log
    }

    /// Counts an access (a read, a store or a deletion) by the prefix of `key`. Only the owning
    /// worker may call this.
    #[cold]
    pub(crate) fn count_prefix_of(&self, key: &[u8], access: Access) {
        self.prefixes.count(key, access);
    }

    /// Turns the counting of accesses by key prefix on or off. The prefix of a key ends before the
    /// first byte `delimiter`.
    pub fn set_prefix_counting(&self, is_on: bool, delimiter: u8) {
        self.prefixes.set_delimiter(delimiter);
        match is_on {
            true => self.observed.fetch_or(PREFIXES, Ordering::Relaxed),
            false => self.observed.fetch_and(!PREFIXES, Ordering::Relaxed),
        };
    }

    /// Adds the worker's counts of the first `max` key prefixes after `after` to `sums`.
    pub fn add_prefixes_to(&self, after: Option<&[u8]>, max: usize, sums: &mut PrefixSums) {
        self.prefixes.add_to(after, max, sums);
    }

    /// Removes the counts of accesses by key prefix and returns them.
    #[must_use]
    pub fn clear_prefixes(&self) -> PrefixSums {
        self.prefixes.clear()
    }

    /// The present values of all counters.
    #[must_use]
    pub fn snapshot(&self) -> CounterSnapshot {
        CounterSnapshot {
            counts: std::array::from_fn(|number| self.cells[number].load(Ordering::Relaxed)),
        }
    }

    /// The present values of the counters of all size classes.
    #[must_use]
    pub fn class_snapshot(&self) -> ClassCounts {
        let count = |class: usize, counter: usize| {
            let cell = &self.classes.0[class][counter];
            cell.load(Ordering::Relaxed)
        };
        ClassCounts(std::array::from_fn(|class| {
            std::array::from_fn(|counter| count(class, counter))
        }))
    }
}

/// Adds `by` to a cell that only the calling thread writes. No other thread changes the cell
/// between the load and the store, so the sum need not be computed by an atomic read-modify-write.
#[inline]
pub(crate) fn add_to(cell: &AtomicU64, by: u64) {
    let sum = cell.load(Ordering::Relaxed).wrapping_add(by);
    cell.store(sum, Ordering::Relaxed);
}

/// The values of all counters of all size classes: those of one worker, or the sums over several
/// workers.
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

    /// Returns each count of `self` plus the same count of `other`.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        self.combined(other, |own, other| own + other)
    }

    /// Returns each count of `self` minus the same count of `earlier`, but at least zero.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        self.combined(earlier, u64::saturating_sub)
    }

    fn combined(mut self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        for (own_class, other_class) in self.0.iter_mut().zip(&other.0) {
            for (own, other) in own_class.iter_mut().zip(other_class) {
                *own = combine(*own, *other);
            }
        }
        self
    }
}

/// The values of all counters of events: those of one worker, or the sums over several workers. The
/// counters are read one after the other. A request that increments several of them meanwhile may
/// be counted in some of the values and not in others.
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

    /// Returns each count of `self` plus the same count of `other`.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|number| self.counts[number] + other.counts[number]),
        }
    }

    /// Returns each count of `self` minus the same count of `earlier`, but at least zero.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|number| {
                self.counts[number].saturating_sub(earlier.counts[number])
            }),
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
        // The number of `CmdSet` is 1, so its count is 1 in each of the two summed snapshots.
        assert_eq!(sum.of(Counter::CmdSet), 2);
        assert_eq!(sum.since(&counters.snapshot()), counters.snapshot());
    }
}
