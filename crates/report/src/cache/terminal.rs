//! The summary of a run for a terminal: a table, the findings, and what is missing.

use crate::cache::cells::{Cell, Percentile};
use crate::cache::findings::{self, CurveFindings};
use crate::cache::folder::Measurement;
use crate::cache::sweep_axis::SweepAxis;
use crate::cache::{Run, cells, notes};
use crate::units::Quantity;
use crate::{limits, terminal, units};

/// The run in at most [`limits::TERMINAL_COLUMNS`] columns: a line a cell with medians over the
/// repeats, then what a reader must know besides it. Ends with a line break.
pub(crate) fn text_summary(run: &Run) -> String {
    let curves = findings::of(run);
    let mut lines = vec![notes::about(run), String::new()];
    lines.extend(table(&curves));
    lines.push(String::new());
    lines.extend(curves.iter().map(found));
    lines.extend(remarks(run, &curves));
    terminal::wrapped(&lines)
}

const HEADS: [&str; 9] = [
    "server", "level", "offered", "achieved", "p50", "p99", "p99.9", "CPU/req", "trials",
];
const WIDTHS: [usize; 9] = [22, 5, 9, 9, 8, 8, 8, 8, 7];

fn table(curves: &[CurveFindings]) -> Vec<String> {
    let mut rows = vec![row(&HEADS.map(str::to_owned))];
    for curve in curves {
        for cell in &curve.cells {
            let middle = |value: fn(&Measurement) -> Option<f64>, words: fn(f64) -> String| {
                cell.spread(value)
                    .map_or("–".to_owned(), |spread| words(spread.median))
            };
            let tail = |percentile: Percentile| {
                let Some(spread) = cell.spread(|m| percentile.value_ns(m)) else {
                    return "–".to_owned();
                };
                let bound = units::lower_bound(cell.lower_bounds(percentile).0);
                format!("{bound}{}", units::duration(spread.median))
            };
            let limited = if cell.limited() > 0 { "*" } else { "" };
            rows.push(row(&[
                named(curve, cell),
                cell.level.map(units::level).unwrap_or_default(),
                cell.offered_rps.map_or("–".to_owned(), units::rate),
                middle(|m| Some(m.achieved_rps), units::rate),
                tail(cells::P50),
                tail(cells::P99),
                tail(cells::P999),
                middle(cells::cpu_ns, units::duration),
                format!("{}/{}{limited}", cell.measured.len(), cell.planned),
            ]));
        }
    }
    rows
}

/// The name of a server and, if the run varies a parameter, its value.
fn named(curve: &CurveFindings, cell: &Cell) -> String {
    let name = curve.server.name.as_str();
    let value = cell.setting.zip(curve.vary);
    let Some(value) = value.map(|(value, vary)| vary.value_text(value)) else {
        return units::shortened(name, WIDTHS[0]);
    };
    let room = WIDTHS[0].saturating_sub(value.chars().count() + 3);
    format!("{} · {value}", units::shortened(name, room))
}

fn row(fields: &[String; 9]) -> String {
    terminal::row(fields.iter().zip(WIDTHS))
}

/// Capacity, knee and Little's law of a curve in one line; the tail for a curve over settings.
fn found(curve: &CurveFindings) -> String {
    let law = curve.littles_law.map(|law| {
        format!(
            ", Little's law in {} of {}",
            law.holding,
            units::plural(law.trials as u64, "trial")
        )
    });
    let law = law.unwrap_or_default();
    let mut name = units::shortened(&curve.server.name, limits::NAME_CHARACTERS);
    if let Some(condition) = &curve.condition {
        name = format!("{name}, {condition}");
    }
    match curve.axis {
        SweepAxis::Rate => format!("{name}: {}{law}", capacity_and_knee(curve)),
        SweepAxis::Setting(_) => format!("{name}: {}{law}", tails(curve)),
    }
}

fn tails(curve: &CurveFindings) -> String {
    let tails: Vec<String> = curve
        .highlights
        .iter()
        .map(|highlight| match &highlight.p99_ns {
            Some(p99) => format!(
                "{}{} {}",
                units::lower_bound(highlight.p99_is_lower_bound),
                units::duration(p99.value),
                highlight.place
            ),
            None => format!("not known {}", highlight.place),
        })
        .collect();
    match tails.is_empty() {
        true => "nothing measured".to_owned(),
        false => format!("p99 {}", units::listed(&tails)),
    }
}

fn capacity_and_knee(curve: &CurveFindings) -> String {
    let capacity = match &curve.capacity {
        Some(capacity) => format!(
            "capacity {}{} {}",
            if capacity.at_least { "at least " } else { "" },
            units::rate(capacity.rps.value),
            Quantity::Rate.range(
                capacity.rps.value,
                capacity.rps.interval.low,
                capacity.rps.interval.high
            ),
        ),
        None => "capacity not measured".to_owned(),
    };
    let knee = match curve.knee {
        Some(knee) => {
            let beyond = if knee.leaves_at.is_none() {
                " or beyond"
            } else {
                ""
            };
            let level = curve
                .level_of(knee.level)
                .map(|level| format!("{level} = "));
            format!(
                "knee {}{}{beyond}",
                level.unwrap_or_default(),
                units::rate(knee.level)
            )
        }
        None => "no knee found".to_owned(),
    };
    let ratio = curve.capacity_ratio.as_ref().zip(curve.baseline);
    let ratio = ratio.map(|(times, baseline)| {
        let name = units::shortened(baseline, limits::NAME_CHARACTERS);
        format!(", {} times {name}'s", Quantity::Factor.words(times.value))
    });
    format!("{capacity}{}, {knee}", ratio.unwrap_or_default())
}

fn remarks(run: &Run, curves: &[CurveFindings]) -> Vec<String> {
    let mut remarks = Vec::new();
    if curves
        .iter()
        .flat_map(|curve| &curve.cells)
        .any(|cell| cell.limited() > 0)
    {
        remarks.push("* some of these trials are generator-limited".to_owned());
    }
    let tails = [cells::P50, cells::P99, cells::P999];
    let cells = || curves.iter().flat_map(|curve| &curve.cells);
    if cells().any(|cell| tails.iter().any(|&tail| cell.lower_bounds(tail).0)) {
        remarks
            .push("≥ lower bound: requests that were never answered may lie above it".to_owned());
    }
    remarks.extend(notes::of_run(run));
    remarks.extend(run.plan.notes.iter().cloned());
    remarks
}
