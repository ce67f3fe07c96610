//! The summary a run ends with on a terminal: a table, what is missing, and what was found.

use crate::across::Across;
use crate::cells::{Cell, Percentile};
use crate::findings::{self, Standing};
use crate::folder::Measurement;
use crate::words::Quantity;
use crate::{Run, cells, limits, notes, words};

/// The run in at most [`limits::TERMINAL_COLUMNS`] columns: a line a cell with medians over the
/// repeats, then what a reader must know beside it. Ends with a line break.
pub fn text_summary(run: &Run) -> String {
    let standings = findings::of(run);
    let mut lines = vec![notes::about(run), String::new()];
    lines.extend(table(&standings));
    lines.push(String::new());
    lines.extend(standings.iter().map(found));
    lines.extend(remarks(run, &standings));
    let mut text = String::new();
    for line in lines {
        for piece in folded(&plain(&line)) {
            text.push_str(piece.trim_end());
            text.push('\n');
        }
    }
    text
}

const HEADS: [&str; 9] = [
    "server", "level", "offered", "achieved", "p50", "p99", "p99.9", "CPU/req", "trials",
];
const WIDTHS: [usize; 9] = [22, 5, 9, 9, 8, 8, 8, 8, 7];

fn table(standings: &[Standing]) -> Vec<String> {
    let mut rows = vec![row(&HEADS.map(str::to_owned))];
    for standing in standings {
        for cell in &standing.cells {
            let middle = |value: fn(&Measurement) -> Option<f64>, words: fn(f64) -> String| {
                cell.spread(value)
                    .map_or("–".to_owned(), |spread| words(spread.median))
            };
            let tail = |percentile: Percentile| {
                let Some(spread) = cell.spread(|m| percentile.value_ns(m)) else {
                    return "–".to_owned();
                };
                let bound = words::lower_bound(cell.lower_bounds(percentile).0);
                format!("{bound}{}", words::duration(spread.median))
            };
            let limited = if cell.limited() > 0 { "*" } else { "" };
            rows.push(row(&[
                named(standing, cell),
                cell.level.map(words::level).unwrap_or_default(),
                cell.offered_rps.map_or("–".to_owned(), words::rate),
                middle(|m| Some(m.achieved_rps), words::rate),
                tail(cells::P50),
                tail(cells::P99),
                tail(cells::P999),
                middle(cells::cpu_ns, words::duration),
                format!("{}/{}{limited}", cell.measured.len(), cell.planned),
            ]));
        }
    }
    rows
}

/// A server and, where something is varied, its value.
fn named(standing: &Standing, cell: &Cell) -> String {
    let name = standing.server.name.as_str();
    let value = cell.setting.zip(standing.vary);
    let Some(value) = value.map(|(value, vary)| vary.value_text(value)) else {
        return words::shortened(name, WIDTHS[0]);
    };
    let room = WIDTHS[0].saturating_sub(value.chars().count() + 3);
    format!("{} · {value}", words::shortened(name, room))
}

/// The first column to the left, numbers to the right.
fn row(fields: &[String; 9]) -> String {
    let mut line = String::new();
    for (index, (field, width)) in fields.iter().zip(WIDTHS).enumerate() {
        let padding = " ".repeat(width.saturating_sub(field.chars().count()));
        if index == 0 {
            line.push_str(field);
            line.push_str(&padding);
        } else {
            line.push_str("  ");
            line.push_str(&padding);
            line.push_str(field);
        }
    }
    line
}

/// Capacity, knee and Little's law of a curve in a line; of one across settings, its tail at them.
fn found(standing: &Standing) -> String {
    let law = standing.littles_law.map(|law| {
        format!(
            ", Little's law in {} of {}",
            law.holding,
            words::plural(law.trials as u64, "trial")
        )
    });
    let law = law.unwrap_or_default();
    let mut name = words::shortened(&standing.server.name, limits::NAME_CHARACTERS);
    if let Some(condition) = &standing.condition {
        name = format!("{name}, {condition}");
    }
    match standing.across {
        Across::Rate => format!("{name}: {}{law}", capacity_and_knee(standing)),
        Across::Setting(_) => format!("{name}: {}{law}", tails(standing)),
    }
}

fn tails(standing: &Standing) -> String {
    let tails: Vec<String> = standing
        .spots
        .iter()
        .map(|spot| match &spot.p99_ns {
            Some(p99) => format!(
                "{}{} {}",
                words::lower_bound(spot.p99_is_lower_bound),
                words::duration(p99.value),
                spot.place
            ),
            None => format!("not known {}", spot.place),
        })
        .collect();
    match tails.is_empty() {
        true => "nothing measured".to_owned(),
        false => format!("p99 {}", words::listed(&tails)),
    }
}

fn capacity_and_knee(standing: &Standing) -> String {
    let capacity = match &standing.capacity {
        Some(capacity) => format!(
            "capacity {}{} {}",
            if capacity.at_least { "at least " } else { "" },
            words::rate(capacity.rps.value),
            Quantity::Rate.range(
                capacity.rps.value,
                capacity.rps.interval.low,
                capacity.rps.interval.high
            ),
        ),
        None => "capacity not measured".to_owned(),
    };
    let knee = match standing.knee {
        Some(knee) => {
            let beyond = if knee.leaves_at.is_none() {
                " or beyond"
            } else {
                ""
            };
            let level = standing
                .level_of(knee.level)
                .map(|level| format!("{level} = "));
            format!(
                "knee {}{}{beyond}",
                level.unwrap_or_default(),
                words::rate(knee.level)
            )
        }
        None => "no knee found".to_owned(),
    };
    let ratio = standing.capacity_ratio.as_ref().zip(standing.beside);
    let ratio = ratio.map(|(times, beside)| {
        let name = words::shortened(beside, limits::NAME_CHARACTERS);
        format!(", {} times {name}'s", Quantity::Factor.words(times.value))
    });
    format!("{capacity}{}, {knee}", ratio.unwrap_or_default())
}

fn remarks(run: &Run, standings: &[Standing]) -> Vec<String> {
    let mut remarks = Vec::new();
    if standings
        .iter()
        .flat_map(|standing| &standing.cells)
        .any(|cell| cell.limited() > 0)
    {
        remarks.push("* the load generator was the limit in some of these trials".to_owned());
    }
    let tails = [cells::P50, cells::P99, cells::P999];
    let cells = || standings.iter().flat_map(|standing| &standing.cells);
    if cells().any(|cell| tails.iter().any(|&tail| cell.lower_bounds(tail).0)) {
        remarks.push("≥ a lower bound: requests never answered may be beyond it".to_owned());
    }
    remarks.extend(notes::of_run(run));
    remarks.extend(run.plan.notes.iter().cloned());
    remarks
}

/// Fit for a terminal: no control characters, no no-break spaces.
fn plain(line: &str) -> String {
    line.chars()
        .map(|c| match c {
            '\u{a0}' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// A line in pieces that fit, broken at spaces where there are any.
fn folded(line: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest: Vec<char> = line.chars().collect();
    while rest.len() > limits::TERMINAL_COLUMNS {
        let head = &rest[..limits::TERMINAL_COLUMNS];
        let cut = head.iter().rposition(|&c| c == ' ').filter(|&at| at > 2);
        let tail = rest.split_off(cut.unwrap_or(limits::TERMINAL_COLUMNS));
        pieces.push(rest.into_iter().collect());
        let tail = tail.into_iter().skip_while(|&c| c == ' ');
        rest = [' ', ' '].into_iter().chain(tail).collect();
    }
    pieces.push(rest.into_iter().collect());
    pieces
}
