//! The rows of the page's tables, as text.

use crate::cache::cells::{self, Cell, Percentile, Spread};
use crate::cache::findings::CurveFindings;
use crate::cache::folder::{Measurement, Outcome, Phase, Trial};
use crate::cache::sweep_axis::SweepAxis;
use crate::cache::{Run, notes};
use crate::units::Quantity;
use crate::{page, units};

/// A value with its range in the same unit, as text.
pub(super) struct Value {
    pub(super) median: String,
    pub(super) range: String,
    /// Of the range, where it is an interval of less than 95 %.
    pub(super) confidence: String,
}

impl Value {
    /// A value without a range.
    pub(super) fn text(text: &str) -> Self {
        Self {
            median: text.to_owned(),
            range: String::new(),
            confidence: String::new(),
        }
    }

    fn of(spread: Option<Spread>, quantity: Quantity) -> Self {
        let Some(Spread { median, min, max }) = spread else {
            return Self::text("–");
        };
        let range = if min == max {
            String::new()
        } else {
            quantity.range(median, min, max)
        };
        Self {
            median: quantity.words(median),
            range,
            confidence: String::new(),
        }
    }

    /// A percentile of response time, with `≥` before a lower bound.
    fn of_percentile(cell: &Cell, percentile: Percentile) -> Self {
        let value = Self::of(
            cell.spread(|measured| percentile.value_ns(measured)),
            Quantity::Duration,
        );
        let (median, greatest) = cell.lower_bounds(percentile);
        Self {
            median: format!("{}{}", units::lower_bound(median), value.median),
            range: match value.range.rsplit_once(' ') {
                Some((low, high)) => format!("{low} {}{high}", units::lower_bound(greatest)),
                None => value.range,
            },
            confidence: value.confidence,
        }
    }
}

/// The columns that only some runs have.
#[derive(Debug, Clone, Copy)]
pub(super) struct OptionalColumns {
    bursts: bool,
    saturating: bool,
}

impl OptionalColumns {
    pub(super) fn of(run: &Run) -> Self {
        let has = |is_there: fn(&Measurement) -> bool| {
            let mut measured = run.trials.iter().filter_map(cells::measured);
            measured.any(|(_, measured)| is_there(measured))
        };
        Self {
            bursts: has(|measured| measured.bursts.is_some()),
            saturating: has(|measured| measured.saturating_rps.is_some()),
        }
    }
}

/// The column heads of a cell's values: (quantity, detail).
pub(super) fn heads(more: OptionalColumns) -> Vec<(&'static str, &'static str)> {
    let mut heads = vec![
        ("Achieved", ""),
        ("Response", "median"),
        ("Response", "p99"),
        ("Response", "p99.9"),
        ("Slip", "p99"),
        ("CPU user", "per request"),
        ("CPU system", "per request"),
        ("Resident memory", ""),
        ("Switches", "voluntary"),
        ("Switches", "involuntary"),
        ("Hit rate", ""),
        ("Censored", ""),
    ];
    if more.bursts {
        heads.push(("Burst", "connections per wake-up"));
    }
    if more.saturating {
        heads.push(("Saturating connections", "rate"));
    }
    heads
}

/// One cell of a server.
pub(super) struct CellRow {
    /// Of a curve over settings; else empty.
    pub(super) setting: String,
    pub(super) level: String,
    pub(super) offered: String,
    /// In the order of [`heads`].
    pub(super) values: Vec<Value>,
    /// `14 of 15`.
    pub(super) measured: String,
    pub(super) limited: String,
}

type Reading = (fn(&Measurement) -> Option<f64>, Quantity);

impl CellRow {
    pub(super) fn of(curve: &CurveFindings, cell: &Cell, more: OptionalColumns) -> Self {
        let mut readings: Vec<Reading> = vec![
            (|m| m.slip.map(|slip| slip.p99 as f64), Quantity::Duration),
            (cells::user_ns, Quantity::Duration),
            (cells::system_ns, Quantity::Duration),
            (
                |m| m.cost.map(|cost| cost.resident_bytes as f64),
                Quantity::Bytes,
            ),
            (
                |m| per_second(m, m.cost?.voluntary_switches?),
                Quantity::Rate,
            ),
            (
                |m| per_second(m, m.cost?.involuntary_switches?),
                Quantity::Rate,
            ),
            (|m| m.hit_rate, Quantity::Share),
            (censored_share, Quantity::Share),
        ];
        if more.bursts {
            readings.push((|m| m.bursts.as_ref().map(|it| it.mean), Quantity::Factor));
        }
        if more.saturating {
            readings.push((|m| m.saturating_rps, Quantity::Rate));
        }
        let achieved = cell.spread(|measured| Some(measured.achieved_rps));
        let mut values = vec![Value::of(achieved, Quantity::Rate)];
        let percentiles = [cells::P50, cells::P99, cells::P999];
        values.extend(percentiles.map(|percentile| Value::of_percentile(cell, percentile)));
        let readings = readings.into_iter();
        values.extend(readings.map(|(value, quantity)| Value::of(cell.spread(value), quantity)));
        let setting = match curve.axis {
            SweepAxis::Rate => None,
            SweepAxis::Setting(vary) => cell.setting.map(|value| vary.condition(value)),
        };
        Self {
            setting: setting.unwrap_or_default(),
            level: cell.level.map(units::level).unwrap_or_default(),
            offered: cell.offered_rps.map_or("–".to_owned(), units::rate),
            values,
            measured: format!("{} of {}", cell.measured.len(), cell.planned),
            limited: cell.limited().to_string(),
        }
    }
}

fn per_second(measured: &Measurement, count: u64) -> Option<f64> {
    (measured.duration_ns > 0).then(|| count as f64 * 1e9 / measured.duration_ns as f64)
}

fn censored_share(measured: &Measurement) -> Option<f64> {
    (measured.intended > 0).then(|| measured.censored as f64 / measured.intended as f64)
}

/// Little's law of one server.
pub(super) struct LawRow {
    pub(super) server: String,
    pub(super) trials: String,
    pub(super) worst: String,
    pub(super) holds: bool,
}

pub(super) fn laws(curves: &[CurveFindings]) -> Vec<LawRow> {
    let rows = curves.iter().filter_map(|curve| {
        let law = curve.littles_law?;
        Some(LawRow {
            server: curve.name.clone(),
            trials: format!("{} of {}", law.holding, law.trials),
            worst: units::share(law.worst),
            holds: law.holding == law.trials,
        })
    });
    rows.collect()
}

/// A trial that has no measurement.
pub(super) struct MissingRow {
    pub(super) place: String,
    pub(super) repeat: String,
    pub(super) why: String,
}

pub(super) fn missing(run: &Run) -> Vec<MissingRow> {
    let rows = run.missing().into_iter().map(|missing| MissingRow {
        place: notes::place(run, &missing),
        repeat: (missing.repeat + 1).to_string(),
        why: match missing.failure {
            Some(why) => format!("failed: {why}"),
            None => "not run: the run was stopped, or has not finished".to_owned(),
        },
    });
    rows.collect()
}

/// One trial.
pub(super) struct TrialRow {
    pub(super) id: String,
    pub(super) server: String,
    pub(super) setting: String,
    pub(super) level: String,
    pub(super) offered: String,
    pub(super) achieved: String,
    pub(super) p99: String,
    pub(super) cpu: String,
    pub(super) generator_busy: String,
    /// Steal time on the server's and on the generator's processors.
    pub(super) stolen: String,
    pub(super) remarks: String,
}

pub(super) fn trials(run: &Run) -> Vec<TrialRow> {
    let none = || "–".to_owned();
    let rows = run.trials.iter().map(|trial| {
        let mut remarks = Vec::new();
        if trial.phase == Phase::Capacity {
            remarks.push("closed loop".to_owned());
        }
        let measured = match &trial.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Failed(why) => {
                remarks.push(format!("failed: {why}"));
                None
            }
        };
        if measured.is_some_and(|measured| measured.generator_limited) {
            remarks.push("generator-limited".to_owned());
        }
        if let Some(lost) = measured
            .and_then(|measured| measured.lost_connections)
            .filter(|&lost| lost > 0)
        {
            remarks.push(format!("{} lost", units::plural(lost, "connection")));
        }
        if let Some(errors) = measured
            .map(|measured| measured.errors)
            .filter(|&errors| errors > 0)
        {
            remarks.push(format!("{} error replies", units::count(errors)));
        }
        remarks.extend(trial.notes.iter().cloned());
        TrialRow {
            id: trial.id.clone(),
            server: trial.server.clone(),
            setting: condition(run, trial),
            level: trial.level.map(units::level).unwrap_or_default(),
            offered: trial.offered_rps.map_or_else(none, units::rate),
            achieved: measured.map_or_else(none, |m| units::rate(m.achieved_rps)),
            p99: measured.and_then(|m| p99(m)).unwrap_or_else(none),
            cpu: measured
                .and_then(|m| cells::cpu_ns(m))
                .map_or_else(none, units::duration),
            generator_busy: measured
                .and_then(|m| m.generator_busy)
                .map_or_else(none, units::share),
            stolen: measured.and_then(|m| m.stolen).map_or_else(none, |stolen| {
                format!(
                    "{}, {}",
                    units::share(stolen.server),
                    units::share(stolen.load)
                )
            }),
            remarks: remarks.join("; "),
        }
    });
    rows.collect()
}

fn condition(run: &Run, trial: &Trial) -> String {
    let vary = run.plan.vary.as_ref().zip(trial.setting);
    let condition = vary.map(|(vary, value)| vary.condition(value));
    condition.unwrap_or_default()
}

fn p99(measured: &Measurement) -> Option<String> {
    let bound = units::lower_bound(cells::is_lower_bound(measured, cells::P99));
    Some(format!(
        "{bound}{}",
        units::duration(cells::p99_ns(measured)?)
    ))
}

/// The description of the machine.
pub(super) fn host(run: &Run) -> Vec<(&'static str, String)> {
    let mut rows = page::host_rows(&run.host);
    let mut own = vec![
        ("Servers on processors", processors(&run.plan.server_cpus)),
        ("Generator on processors", processors(&run.plan.load_cpus)),
        ("Their priority", priority(run.plan.goes_first)),
    ];
    if !run.plan.hosts.is_empty() {
        own.push(("Hosts", run.plan.hosts.clone()));
    }
    // The last row is the build that measured.
    let before_last = rows.len() - 1;
    rows.splice(before_last..before_last, own);
    rows
}

fn priority(goes_first: bool) -> String {
    let words = match goes_first {
        true => "before all else that is not real time (nice -20)",
        false => "as all else",
    };
    words.to_owned()
}

fn processors(cpus: &[usize]) -> String {
    if cpus.is_empty() {
        return "not pinned".to_owned();
    }
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    units::listed(&cpus)
}
