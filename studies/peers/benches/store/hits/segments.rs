//! The simulated segments (`peers::segments`) beside the store itself: how well a policy
//! does on each trace if it is the only one, and how far the simulation is from the store.

use peers::replay::replay;
use peers::segments::{Segments, Shape};
use peers::trace::Trace;
use store::eviction::{POLICIES, POLICY_COUNT};

use crate::cell::{PACE, POINTS, ours};

/// The hit ratios of one trace in one memory.
pub(crate) struct Simulation {
    /// Most items that the store held.
    items: u64,
    /// The store.
    store: f64,
    /// The segments, with the policy that their miniatures choose.
    chosen: f64,
    /// The segments with each of [`POLICIES`] alone.
    fixed: [f64; POLICY_COUNT],
}

impl Simulation {
    /// Replays a trace on a store of `memory` bytes, then on segments of as many items.
    ///
    /// # Errors
    /// The store refuses this memory.
    pub(crate) fn measure(trace: &Trace, memory: u64) -> Result<Self, String> {
        let (outcome, _) = ours(trace, memory)?;
        let items = outcome.items_max.max(1);
        let shape = Shape::of_store(memory, items);
        let simulate = |policy| {
            let mut segments = Segments::new(shape, trace.keys, policy);
            replay(&trace.requests, &mut segments, PACE).ratio()
        };
        Ok(Self {
            items,
            store: outcome.ratio(),
            chosen: simulate(None),
            fixed: std::array::from_fn(|policy| simulate(Some(policy))),
        })
    }

    /// Prints the heading of the table.
    pub(crate) fn print_heading() {
        let names = POLICIES.each_ref().map(|policy| policy.name);
        println!(
            "  size     items   store  chosen - store  alone: {}",
            names.join(", ")
        );
    }

    /// Prints its row.
    pub(crate) fn print(&self, share: f64) {
        let fixed = self.fixed.map(|ratio| format!("{ratio:.4}"));
        println!(
            "{:5.0} % {:9}  {:.4}  {:.4}  {:+6.2}  {}",
            share * 100.0,
            self.items,
            self.store,
            self.chosen,
            self.error(),
            fixed.join(" ")
        );
    }

    /// The simulation's hit ratio less the store's, in points.
    fn error(&self) -> f64 {
        (self.chosen - self.store) * POINTS
    }
}

/// Prints how far the simulation is from the store.
pub(crate) fn summarise(cells: &[Simulation]) {
    if cells.is_empty() {
        return;
    }
    let distances = cells.iter().map(|cell| cell.error().abs());
    let mean = distances.clone().sum::<f64>() / cells.len() as f64;
    let most = distances.fold(0.0, f64::max);
    println!(
        "\nsimulated segments and store: {} cells, {mean:.2} points apart on average, {most:.2} at most",
        cells.len()
    );
}
