//! One cell of the table of traces: the hit ratios of all designs for one trace in one memory.

use peers::policy::{Access, Gdsf, Lru, Optimum, Policy, S3Fifo, Sieve, TinyLfu};
use peers::replay::{Charge, Outcome, Pace, Simulated, replay};
use peers::trace::{Operation, Trace};

use crate::overhead::{COMMON, GHOST, LINKS, SKETCH};
use crate::real;

/// Look-ups that come together.
const BURST: usize = 8;
/// A hit ratio of 1, in percentage points.
pub(crate) const POINTS: f64 = 100.0;
/// All reads count: the first read of a key is a miss for every design.
pub(crate) const PACE: Pace = Pace {
    burst: BURST,
    counted_from: 0,
};

/// The designs that a target compares with: [`Cell::by_items`] has them in this order, and GDSF
/// after them.
pub(crate) const SIMPLE: [&str; 4] = ["LRU", "SIEVE", "S3-FIFO", "W-TinyLFU"];

/// Hit ratios of one trace in one memory.
pub(crate) struct Cell {
    /// Most items that the store held.
    pub(crate) items: u64,
    /// The store.
    pub(crate) ours: f64,
    /// The store's eviction policy in the end.
    pub(crate) policy: String,
    /// [`SIMPLE`] and GDSF, each with as many items as the store held.
    pub(crate) by_items: [f64; 5],
    /// The same in the same memory, each charged what it spends on an item.
    pub(crate) by_bytes: [f64; 5],
    /// What no policy can exceed with as many items, if items have one size.
    pub(crate) optimum: f64,
    /// A memcached of the same `-m`.
    pub(crate) memcached: Option<f64>,
}

impl Cell {
    /// Measures a trace, whose requests have sizes and seconds, in `memory` bytes. `kept` is about
    /// how many items fit. Items are charged one by one if `is_uniform`; otherwise a policy with as
    /// many items as the store gets as many bytes as they have on average.
    ///
    /// # Errors
    /// The store refuses this memory.
    pub(crate) fn measure(
        trace: &Trace,
        memory: u64,
        with_memcached: bool,
    ) -> Result<Self, String> {
        let (ours, policy) = ours(trace, memory)?;
        let items = ours.items_max.max(1);
        let simulate = |policy: &mut dyn Policy, charge| {
            let mut cache = Simulated::new(policy, trace.keys, charge);
            replay(&trace.requests, &mut cache, PACE).ratio()
        };
        let keys = trace.keys;
        let all = |capacity: u64, kept: u32, charge: fn(u32) -> Charge| {
            [
                simulate(&mut Lru::new(capacity, keys), charge(LINKS)),
                simulate(&mut Sieve::new(capacity, keys), charge(LINKS)),
                simulate(&mut S3Fifo::new(capacity, keys), charge(LINKS + GHOST)),
                simulate(
                    &mut TinyLfu::new(capacity, keys, kept),
                    charge(LINKS + SKETCH),
                ),
                simulate(&mut Gdsf::new(capacity, keys), charge(LINKS)),
            ]
        };
        let mut optimum = Optimum::new(items, keys, &accesses(trace));
        Ok(Self {
            items,
            ours: ours.ratio(),
            policy,
            by_items: all(items, items as u32, |_| Charge::Item),
            by_bytes: all(memory, items as u32, |own| Charge::Bytes(COMMON + own)),
            optimum: simulate(&mut optimum, Charge::Item),
            memcached: with_memcached
                .then(|| real::replay_on_memcached(&trace.requests, memory, PACE))
                .flatten(),
        })
    }

    /// The best of [`SIMPLE`] with as many items as the store held.
    pub(crate) fn best_by_items(&self) -> f64 {
        best(&self.by_items)
    }

    /// The best of [`SIMPLE`] in the same memory.
    pub(crate) fn best_by_bytes(&self) -> f64 {
        best(&self.by_bytes)
    }
}

fn best(ratios: &[f64; 5]) -> f64 {
    ratios[..SIMPLE.len()].iter().copied().fold(0.0, f64::max)
}

/// Replays on the store itself. Also returns its eviction policy in the end.
pub(crate) fn ours(trace: &Trace, memory: u64) -> Result<(Outcome, String), String> {
    let mut store = real::Ours::new(memory, 1).map_err(|error| error.to_string())?;
    let outcome = replay(&trace.requests, &mut store, PACE);
    Ok((outcome, store.eviction_policy().to_owned()))
}

/// The requests that the optimum sees.
fn accesses(trace: &Trace) -> Vec<Access> {
    let seen = trace
        .requests
        .iter()
        .filter(|request| request.operation != Operation::Delete);
    seen.map(|request| Access {
        record: request.key,
        is_read: request.operation == Operation::Read,
    })
    .collect()
}
