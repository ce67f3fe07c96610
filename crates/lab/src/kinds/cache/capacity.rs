//! The capacities that a run has measured.

use measure::{Capacity, CapacityTrial};
use report::cache::{CAPACITY, LEVEL, RATE};
use report::record::{Factors, Record};

/// The remark on a rate that is a share of a capacity of which only a lower bound is known.
pub(super) const AT_LEAST: &str = "the capacity of which the rate is a share is only a lower bound, \
    because the generator or the relay was the limit: levels of different servers are not comparable; use \
    absolute rates (a factor `rate`)";

/// Confidence of [`Capacity`]'s interval; the median, used here, does not depend on it.
const CONFIDENCE: f64 = 0.95;

/// The factors of a cell that its capacity depends on: all but the rate.
pub(super) fn factors(cell: &Factors) -> Factors {
    let mut factors = cell.clone();
    factors.remove(RATE);
    factors.remove(LEVEL);
    factors
}

/// The same, with the values `of` in place of the cell's own.
pub(super) fn factors_with(cell: &Factors, of: &Factors) -> Factors {
    let mut factors = factors(cell);
    factors.extend(of.clone());
    factors
}

/// The capacity that trials with these factors have measured. None: not measured.
pub(super) fn of(done: &[Record], wanted: &Factors) -> Option<Capacity> {
    let is_of = |it: &&Record| it.stage == CAPACITY && it.factors == *wanted;
    let trials: Vec<CapacityTrial> = done
        .iter()
        .filter(is_of)
        .filter_map(|it| {
            let measured = it.measured()?;
            Some(CapacityTrial {
                achieved_rps: measured.metric("achieved_rps")?,
                generator_limited: measured.suspect.is_some(),
            })
        })
        .collect();
    Capacity::of(&trials, CONFIDENCE)
}
