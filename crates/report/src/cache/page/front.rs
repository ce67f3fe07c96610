//! The table that stands directly below the answer: one row for each server.

use measure::Estimate;

use super::tables::Value;
use crate::cache::Run;
use crate::cache::answer::{Answer, Ratio, ServerAtPoint};
use crate::cache::cells::{self, Cell, Percentile};
use crate::cache::findings::CONFIDENCE;
use crate::cache::verdict::has_full_confidence;
use crate::limits;
use crate::units::{self, Quantity};

/// The answer as the template takes it.
pub(super) struct Front {
    pub(super) sentence: String,
    /// The point compared, at which all columns but the capacity are measured.
    pub(super) point: String,
    /// Head of the first column of figures: `Capacity` or `Achieved`.
    pub(super) rate_head: &'static str,
    /// Head of the ratio's column; none where fewer than two servers took part.
    pub(super) ratio_head: Option<String>,
    pub(super) rows: Vec<FrontRow>,
}

/// One server that took part.
pub(super) struct FrontRow {
    pub(super) name: String,
    pub(super) class: &'static str,
    pub(super) shape: &'static str,
    /// Capacity where the run measured capacities, else the rate achieved at the point compared.
    pub(super) rate: Value,
    pub(super) offered: String,
    pub(super) percentiles: Vec<Value>,
    /// Its 99th percentile ÷ the baseline's.
    pub(super) ratio: Value,
    pub(super) cpu: Value,
    /// `14 of 15`.
    pub(super) measured: String,
    /// Caveats: generator-limited and missing trials, lower bounds.
    pub(super) marks: Vec<String>,
}

impl Front {
    pub(super) fn of(run: &Run, answer: Answer) -> Self {
        let has_capacities = answer
            .servers
            .iter()
            .any(|server| server.capacity.is_some());
        Self {
            rate_head: if has_capacities {
                "Capacity"
            } else {
                "Achieved"
            },
            ratio_head: answer.baseline.map(|name| {
                let name = units::shortened(name, limits::NAME_CHARACTERS);
                format!("÷ {name}'s")
            }),
            rows: answer
                .servers
                .iter()
                .map(|server| row(run, server, has_capacities))
                .collect(),
            sentence: answer.sentence,
            point: answer.point,
        }
    }
}

fn row(run: &Run, server: &ServerAtPoint, has_capacities: bool) -> FrontRow {
    let ServerAtPoint { curve, cell, .. } = server;
    let achieved = cell.values(|measured| Some(measured.achieved_rps));
    let rate = match (&server.capacity, has_capacities) {
        (Some(capacity), _) => {
            let rate = estimate(Some(capacity.rps), Quantity::Rate);
            bounded(rate, capacity.at_least, false)
        }
        (None, true) => estimate(None, Quantity::Rate),
        (None, false) => estimate(median(&achieved), Quantity::Rate),
    };
    let percentiles = [cells::P50, cells::P99, cells::P999];
    FrontRow {
        name: curve.server.name.clone(),
        class: curve.style.class,
        shape: curve.style.shape,
        rate,
        offered: cell.offered_rps.map_or("–".to_owned(), units::rate),
        percentiles: percentiles.map(|it| percentile(cell, it)).into(),
        ratio: match &server.p99 {
            Ratio::None => Value::text("baseline"),
            Ratio::Decided(ratio) | Ratio::Undecided(ratio) => {
                estimate(Some(*ratio), Quantity::Factor)
            }
            Ratio::Unknown(_) => estimate(None, Quantity::Factor),
        },
        cpu: estimate(median(&cell.values(cells::cpu_ns)), Quantity::Duration),
        measured: format!("{} of {}", cell.measured.len(), cell.planned),
        marks: marks(run, server),
    }
}

fn median(values: &[f64]) -> Option<Estimate> {
    measure::median_of_trials(values, CONFIDENCE)
}

/// A percentile over the trials that are not generator-limited. Missing if more than half are.
fn percentile(cell: &Cell, percentile: Percentile) -> Value {
    if cell.mostly_limited() {
        return estimate(None, Quantity::Duration);
    }
    let values = cell.unlimited(|measured| percentile.value_ns(measured));
    let unlimited = cell.measured.iter().map(|(_, measured)| *measured);
    let unlimited = unlimited.filter(|measured| !measured.generator_limited);
    let (is_median, is_any) = cells::lower_bounds(unlimited, percentile);
    bounded(
        estimate(median(&values), Quantity::Duration),
        is_median,
        is_any,
    )
}

/// A value and its interval; `–` where there is none.
fn estimate(estimate: Option<Estimate>, quantity: Quantity) -> Value {
    let Some(estimate) = estimate else {
        return Value::text("–");
    };
    let interval = estimate.interval;
    let range = match estimate.samples {
        0 | 1 => "one trial".to_owned(),
        _ => quantity.range(estimate.value, interval.low, interval.high),
    };
    let confidence = match estimate.samples < 2 || has_full_confidence(&estimate) {
        true => String::new(),
        false => format!("({:.0}\u{a0}%)", interval.confidence * 100.0),
    };
    Value {
        median: quantity.words(estimate.value),
        range,
        confidence,
    }
}

/// `≥` before a median that is a lower bound, and before the upper end of an interval that holds
/// lower bounds.
fn bounded(value: Value, is_median: bool, is_any: bool) -> Value {
    Value {
        median: format!("{}{}", units::lower_bound(is_median), value.median),
        range: match is_any {
            true => value.range.replacen(", ", ", ≥", 1),
            false => value.range,
        },
        confidence: value.confidence,
    }
}

/// The caveats of a row: those of the point compared, and trials missing elsewhere.
fn marks(run: &Run, server: &ServerAtPoint) -> Vec<String> {
    let cell = server.cell;
    let mut marks = Vec::new();
    if server.capacity.is_some_and(|capacity| capacity.at_least) {
        marks.push("capacity is a lower bound".to_owned());
    }
    let count = |count: u32| units::count(count.into());
    if cell.limited() > 0 {
        marks.push(format!("{} generator-limited", count(cell.limited())));
    }
    if cell.missing() > 0 {
        marks.push(format!("{} missing", count(cell.missing())));
    }
    let name = &server.curve.server.name;
    let elsewhere = run
        .missing()
        .iter()
        .filter(|missing| missing.server == *name)
        .count();
    let elsewhere = elsewhere.saturating_sub(cell.missing() as usize) as u64;
    if elsewhere > 0 {
        marks.push(format!("{} missing elsewhere", units::count(elsewhere)));
    }
    if matches!(server.p99, Ratio::Undecided(_)) {
        marks.push("undecided".to_owned());
    }
    marks
}
