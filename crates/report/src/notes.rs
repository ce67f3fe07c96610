//! What a reader must know beside the data: what was measured how, and what is not there.

use std::collections::BTreeMap;

use crate::chart::axis::Scale;
use crate::figures::Figure;
use crate::findings::Standing;
use crate::folder::{Phase, Sweep};
use crate::run::{Missing, Run};
use crate::words;

/// What was measured, in a line.
pub(crate) fn about(run: &Run) -> String {
    let plan = &run.plan;
    let sweep = match &plan.sweep {
        Sweep::LoadLevels(_) => "load levels of each server's own capacity",
        Sweep::Rates(_) => "absolute rates",
    };
    format!(
        "{}{} · {} connections · {} of {} a point · {} · updates {}",
        words::shortened(&plan.experiment, 40),
        if plan.quick { " (quick)" } else { "" },
        words::count(u64::from(plan.load.connections)),
        words::plural(u64::from(plan.repeats), "trial"),
        words::duration_tick(plan.trial_ns as f64),
        sweep,
        words::percent(plan.load.update),
    )
}

/// What a figure does not show, or shows differently.
pub(crate) fn of_figure(run: &Run, standings: &[Standing], figure: &dyn Figure) -> Vec<String> {
    let mut notes: Vec<String> = limited(standings).into_iter().collect();
    notes.extend(of_run(run));
    notes.extend(unmeasured(standings, figure));
    notes.extend(lower_bounds(standings, figure));
    if run.plan.repeats > 1 && !figure.follows_offered() {
        notes.push("Trials of one rate are drawn side by side.".to_owned());
    }
    notes
}

/// What holds of all figures, and of the run without any.
pub(crate) fn of_run(run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    if run.plan.quick {
        notes.push(quick(run));
    }
    notes.extend(missing(run));
    notes.extend(skipped(run));
    notes
}

/// What `--quick` costs.
pub(crate) fn quick(run: &Run) -> String {
    format!(
        "Quick run: {} connections, {} a point of {}. Enough to see the shape, not to quote.",
        words::count(u64::from(run.plan.load.connections)),
        words::plural(u64::from(run.plan.repeats), "trial"),
        words::duration_tick(run.plan.trial_ns as f64),
    )
}

/// Which points are hollow, and why.
fn limited(standings: &[Standing]) -> Option<String> {
    let cells = || standings.iter().flat_map(|standing| &standing.cells);
    let limited: u64 = cells().map(|cell| u64::from(cell.limited())).sum();
    let measured: u64 = cells().map(|cell| cell.measured.len() as u64).sum();
    (limited > 0).then(|| {
        format!(
            "Hollow: in {limited} of {} the load generator was the limit (late by itself by more \
             than {} at the 99th percentile); they do not count for tail and knee.",
            words::plural(measured, "trial"),
            words::duration_tick(measure::LATENESS_LIMIT_NS as f64),
        )
    })
}

/// How many trials are missing, and where.
fn missing(run: &Run) -> Option<String> {
    let missing = run.missing();
    if missing.is_empty() {
        return None;
    }
    let mut places: BTreeMap<(usize, u32, u32), (String, u32)> = BTreeMap::new();
    for trial in &missing {
        let server = run
            .plan
            .servers
            .iter()
            .position(|server| server.name == trial.server);
        let phase = u32::from(trial.phase == Phase::Sweep);
        let key = (server.unwrap_or(usize::MAX), phase, trial.cell);
        let entry = places.entry(key).or_insert_with(|| (place(run, trial), 0));
        entry.1 += 1;
    }
    let places: Vec<String> = places
        .into_values()
        .map(|(place, count)| format!("{place} ({count})"))
        .collect();
    let count = missing.len() as u64;
    Some(format!(
        "Missing: {}: {}.",
        words::plural(count, "trial"),
        words::listed(&places)
    ))
}

/// Where a missing trial would be: `memcached at 0.8`.
pub(crate) fn place(run: &Run, missing: &Missing) -> String {
    let name = words::shortened(&missing.server, crate::limits::NAME_CHARACTERS);
    match (missing.phase, &run.plan.sweep) {
        (Phase::Capacity, _) => format!("{name}, capacity"),
        (Phase::Sweep, Sweep::LoadLevels(levels)) => match levels.get(missing.cell as usize) {
            Some(&level) => format!("{name} at level {}", words::level(level)),
            None => name,
        },
        (Phase::Sweep, Sweep::Rates(rates)) => match rates.get(missing.cell as usize) {
            Some(&rate) => format!("{name} at {}", words::rate(rate)),
            None => name,
        },
    }
}

/// Which servers took no part, and why.
fn skipped(run: &Run) -> Vec<String> {
    let skipped = run.plan.servers.iter().filter_map(|server| {
        let why = server.skipped.as_ref()?;
        let name = words::shortened(&server.name, crate::limits::NAME_CHARACTERS);
        Some(format!("Skipped: {name} ({}).", words::shortened(why, 120)))
    });
    skipped.collect()
}

/// Trials that were measured, but not what this figure is of.
fn unmeasured(standings: &[Standing], figure: &dyn Figure) -> Option<String> {
    let values = standings
        .iter()
        .flat_map(|standing| &standing.cells)
        .flat_map(|cell| &cell.measured)
        .map(|(_, measured)| figure.value(measured));
    let absent = values
        .filter(|value| match value {
            Some(value) => figure.scale() == Scale::Log && *value <= 0.0,
            None => true,
        })
        .count() as u64;
    (absent > 0).then(|| {
        format!(
            "Not drawn: {} in which this could not be read.",
            words::plural(absent, "trial")
        )
    })
}

/// Points that stand lower than what they are of.
fn lower_bounds(standings: &[Standing], figure: &dyn Figure) -> Option<String> {
    let measured = || {
        let cells = standings.iter().flat_map(|standing| &standing.cells);
        cells.flat_map(|cell| &cell.measured)
    };
    let bounds = measured().filter(|(_, measured)| figure.is_lower_bound(measured));
    let bounds = bounds.count() as u64;
    (bounds > 0).then(|| {
        format!(
            "Lower bounds: in {bounds} of {} so many requests were never answered that this falls \
             among them; the points stand where it is at least.",
            words::plural(measured().count() as u64, "trial")
        )
    })
}
