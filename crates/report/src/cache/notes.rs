//! Notes on the data: what was measured, how, and what is missing.

use std::collections::BTreeMap;

use crate::cache::folder::{Phase, Plan, Sweep};
use crate::cache::settings::Vary;
use crate::cache::{Missing, Run};
use crate::units::{self, Quantity};

/// One line on what was measured.
pub(crate) fn about(run: &Run) -> String {
    let plan = &run.plan;
    let sweep = match &plan.sweep {
        Sweep::LoadLevels(levels) => {
            let level = match levels.as_slice() {
                [level] => format!("load level {}", units::level(*level)),
                _ => "load levels".to_owned(),
            };
            let under = match plan.vary {
                Some(_) => " under each setting",
                None => "",
            };
            format!("{level} of each server's own capacity{under}")
        }
        Sweep::Rates(rates) => match rates.as_slice() {
            [rate_rps] => format!("{} offered", units::rate(*rate_rps)),
            _ => "absolute rates".to_owned(),
        },
    };
    let updates = match &plan.vary {
        Some(vary @ Vary::Update(_)) => range(vary),
        _ => units::percent(plan.load.update),
    };
    let more = match &plan.vary {
        Some(vary @ Vary::Saturating(_)) => format!(" · {} saturating", range(vary)),
        Some(vary @ Vary::Depth(_)) => format!(" · depth {}", range(vary)),
        _ => String::new(),
    };
    let saturating = match plan.load.saturating {
        count if more.is_empty() && count > 0 => {
            format!(" · {} saturating", units::count(count.into()))
        }
        _ => String::new(),
    };
    format!(
        "{}{} · {} · {} of {} per point · {sweep} · updates {updates}{more}{saturating}",
        units::shortened(&plan.experiment, 40),
        if plan.quick { " (quick)" } else { "" },
        connections(plan),
        units::plural(u64::from(plan.repeats), "trial"),
        Quantity::Duration.exact(plan.trial_ns as f64),
    )
}

fn connections(plan: &Plan) -> String {
    let count = match &plan.vary {
        Some(vary @ Vary::Connections(_)) => range(vary),
        _ => units::count(u64::from(plan.load.connections)),
    };
    format!("{count} connections")
}

/// The range of the varied parameter: `16 to 15 360`.
fn range(vary: &Vary) -> String {
    let values = vary.values();
    let ends = [values.first(), values.last()].into_iter().flatten();
    let mut ends: Vec<String> = ends.map(|&value| vary.value_text(value)).collect();
    ends.dedup();
    ends.join(" to ")
}

/// The notes that apply to the whole run.
pub(crate) fn of_run(run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    if run.plan.quick {
        notes.push(quick(run));
    }
    notes.extend(missing(run));
    notes.extend(skipped(run));
    notes
}

/// The warning on a `--quick` run.
pub(crate) fn quick(run: &Run) -> String {
    format!(
        "Quick run: {}, {} of {} per point. Sufficient to see the shape, not to quote.",
        connections(&run.plan),
        units::plural(u64::from(run.plan.repeats), "trial"),
        Quantity::Duration.exact(run.plan.trial_ns as f64),
    )
}

/// The number and the places of missing trials.
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
        units::plural(count, "trial"),
        units::listed(&places)
    ))
}

/// The place of a missing trial: `memcached at level 0.8 with 16 connections`.
pub(crate) fn place(run: &Run, missing: &Missing) -> String {
    let plan = &run.plan;
    let name = units::shortened(&missing.server, crate::limits::NAME_CHARACTERS);
    let setting = plan.setting_of(missing.phase, missing.cell);
    let (_, rate) = plan.setting_and_rate(missing.cell);
    let at = match (missing.phase, &plan.sweep) {
        (Phase::Capacity, _) => Some(", capacity".to_owned()),
        (Phase::Sweep, Sweep::LoadLevels(levels)) => levels
            .get(rate as usize)
            .map(|&level| format!(" at level {}", units::level(level))),
        (Phase::Sweep, Sweep::Rates(rates)) => rates
            .get(rate as usize)
            .map(|&rate_rps| format!(" at {}", units::rate(rate_rps))),
    };
    let with = plan.condition(setting);
    let with = with.map(|with| format!(" with {with}")).unwrap_or_default();
    format!("{name}{}{with}", at.unwrap_or_default())
}

/// Servers that were skipped, with reasons.
fn skipped(run: &Run) -> Vec<String> {
    let skipped = run.plan.servers.iter().filter_map(|server| {
        let why = server.skipped.as_ref()?;
        let name = units::shortened(&server.name, crate::limits::NAME_CHARACTERS);
        Some(format!("Skipped: {name} ({}).", units::shortened(why, 120)))
    });
    skipped.collect()
}
