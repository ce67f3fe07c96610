//! Notes on the data of figures: what was measured, and what is missing, marked or displaced.

use std::collections::BTreeMap;

use super::dimension::Dimension;
use super::panel::{Panel, Point, Trial};
use crate::chart::axis::Axis;
use crate::chart::legend::{Entry, Sample};
use crate::record::{Factor, Plan};
use crate::run::MissingTrial;
use crate::{Run, limits, units};

/// What stopping once an interval is narrow does to that interval.
pub(crate) const SEQUENTIAL: &str = "The number of trials depended on the width of an interval, so \
                                     its coverage is somewhat below 95\u{a0}%.";

/// The words on a run that each of its figures has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    /// One line on what was measured.
    pub(crate) about: String,
    /// Sentences that apply to the whole run.
    pub(crate) notes: Vec<String>,
}

impl Context {
    /// The words on any run.
    pub(crate) fn of(run: &Run) -> Self {
        let plan = &run.plan;
        let mut notes = Vec::new();
        if plan.quick {
            let trials = trials_per_cell(plan);
            let what = "Sufficient to see the shape, not to quote.";
            notes.push(format!("Quick run: {trials}. {what}"));
        }
        notes.extend(missing(plan, &run.missing()));
        let is_sequential = plan.stages.iter().any(|it| it.repeats.is_sequential());
        notes.extend(is_sequential.then(|| SEQUENTIAL.to_owned()));
        Self {
            about: format!(
                "{}{} · {}",
                units::shortened(&plan.experiment, 40),
                if plan.quick { " (quick)" } else { "" },
                trials_per_cell(plan),
            ),
            notes,
        }
    }
}

/// `9 trials per cell`.
fn trials_per_cell(plan: &Plan) -> String {
    let Some(repeats) = plan.last_stage().map(|stage| &stage.repeats) else {
        return "no trials".to_owned();
    };
    match (repeats.least, repeats.most) {
        (least, most) if least == most => {
            format!("{} per cell", units::plural(most.into(), "trial"))
        }
        (least, most) => format!(
            "{least} to {} per cell",
            units::plural(most.into(), "trial")
        ),
    }
}

/// The number and the cells of missing trials.
fn missing(plan: &Plan, missing: &[MissingTrial]) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    let mut cells: BTreeMap<(usize, u32), u32> = BTreeMap::new();
    for trial in missing {
        let stage = plan.stages.iter().position(|it| it.name == trial.stage);
        *cells
            .entry((stage.unwrap_or_default(), trial.cell))
            .or_default() += 1;
    }
    let place = |(&(stage, cell), count): (&(usize, u32), &u32)| {
        let words = cell_words(plan, stage, cell);
        format!("{words} ({count})")
    };
    let mut places: Vec<String> = cells.iter().take(limits::PLACES).map(place).collect();
    if cells.len() > places.len() {
        let more = (cells.len() - places.len()) as u64;
        places.push(units::plural(more, "other cell"));
    }
    let count = units::plural(missing.len() as u64, "trial");
    Some(format!("Missing: {count}: {}.", units::listed(&places)))
}

/// A cell in words: `curtail, 16 connections`. The stage is named unless it is the last.
fn cell_words(plan: &Plan, stage: usize, cell: u32) -> String {
    let Some(of) = plan.stages.get(stage) else {
        return String::new();
    };
    let factors = of.cells.get(cell as usize);
    let label = |factor: &Factor| Some(factor.label(factors?.get(&factor.name)?));
    let mut words: Vec<String> = plan.factors.iter().filter_map(label).collect();
    if stage + 1 < plan.stages.len() {
        words.insert(0, of.name.clone());
    }
    for word in &mut words {
        *word = units::shortened(word, limits::NAME_CHARACTERS);
    }
    words.join(", ")
}

/// The sources of the published values that a figure shows.
pub(super) fn published(panel: &Panel) -> Option<String> {
    let mut sources: Vec<String> = Vec::new();
    for (_, source) in panel.points().filter_map(|it| panel.published(it)) {
        let source = units::shortened(source, limits::REASON_CHARACTERS);
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    (!sources.is_empty()).then(|| format!("Published: {}.", units::listed(&sources)))
}

/// Explains hollow markers.
pub(super) fn hollow(panel: &Panel) -> Option<String> {
    suspects(panel).map(|parts| format!("Hollow: {parts}."))
}

/// States suspect trials, in figures without markers.
pub(super) fn suspect(panel: &Panel) -> Option<String> {
    suspects(panel).map(|parts| format!("Suspect: {parts}."))
}

/// Explains markers that stand for several trials, or states suspect trials if none is hollow.
pub(super) fn hollow_cells(panel: &Panel) -> Option<String> {
    if !panel.points().any(Point::is_suspect) {
        return suspect(panel);
    }
    let hollow = hollow(panel)?;
    let rule = "A marker is hollow if more than half of its trials are suspect.";
    Some(format!("{hollow} {rule}"))
}

/// The number of suspect trials by reason, with what the reason means.
fn suspects(panel: &Panel) -> Option<String> {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for reason in panel
        .trials()
        .filter_map(|it| it.measured.suspect.as_deref())
    {
        *reasons.entry(reason).or_default() += 1;
    }
    if reasons.is_empty() {
        return None;
    }
    let trials = units::plural(panel.trials().count() as u64, "trial");
    let part = |(reason, count): (&str, u64)| {
        let meaning = panel.plan.suspects.get(reason);
        let meaning = meaning.map(|meaning| format!(" {meaning}"));
        let reason = units::shortened(reason, 120);
        format!(
            "{count} of {trials} are {reason}{}",
            meaning.unwrap_or_default()
        )
    };
    let parts: Vec<String> = reasons.into_iter().map(part).collect();
    Some(parts.join("; "))
}

/// The words of a legend for hollow markers: the reasons.
pub(super) fn reasons(panel: &Panel) -> Option<String> {
    let mut reasons: Vec<&str> = panel
        .trials()
        .filter_map(|it| it.measured.suspect.as_deref())
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    match reasons.as_slice() {
        [] => None,
        [reason] => Some(units::shortened(reason, limits::NAME_CHARACTERS)),
        _ => Some("suspect".to_owned()),
    }
}

/// The entries of a legend for hollow markers, lower bounds and missing trials, if there are any.
pub(super) fn marked(panel: &Panel, has_bound: bool) -> Vec<Entry> {
    let mut key: Vec<Entry> = Vec::new();
    key.extend(reasons(panel).map(|reasons| (Sample::Hollow, reasons)));
    key.extend(has_bound.then(|| (Sample::Bound, "lower bound".to_owned())));
    let has_missing = panel.points().any(|point| point.missing() > 0);
    key.extend(has_missing.then(|| (Sample::Missing, "missing".to_owned())));
    key
}

/// Curves without the quantity of the figure.
pub(super) fn lacking(panel: &Panel) -> Option<String> {
    let names = panel.lacking.iter();
    let names: Vec<String> = names
        .map(|name| units::shortened(name, limits::NAME_CHARACTERS))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "Not drawn: {}, without this measurement.",
            units::listed(&names)
        )
    })
}

/// Trials that were measured, but without the quantity of the figure; and those with a value that
/// the axis cannot hold.
pub(super) fn unmeasured(panel: &Panel, axis: &Axis) -> Vec<String> {
    let values = || panel.trials().map(|it| panel.y.of_record(it.record));
    let absent = values().filter(Option::is_none).count() as u64;
    let outside = |value: &f64| axis.position(*value).is_none();
    let outside = values().flatten().filter(outside).count() as u64;
    let absent = unfit(absent, "without this measurement");
    let outside = unfit(outside, "with a value that the axis cannot hold");
    absent.into_iter().chain(outside).collect()
}

/// Trials with an `x` that the axis cannot hold.
pub(super) fn beside(panel: &Panel, x: Dimension, axis: &Axis) -> Option<String> {
    let values = panel.trials().filter_map(|it| x.of_record(it.record));
    let beside = values.filter(|&value| axis.position(value).is_none());
    let title = x.title();
    let why = format!("with a value of {title} that the axis cannot hold");
    unfit(beside.count() as u64, &why)
}

/// Cells that lack a factor of the figure.
pub(super) fn omitted(panel: &Panel) -> Vec<String> {
    let note = |&(title, count): &(&str, u64)| {
        let cells = units::plural(count, "cell");
        format!("Not drawn: {cells} without {title}.")
    };
    panel.omitted.iter().map(note).collect()
}

/// Points whose true values may be higher.
pub(super) fn lower_bounds(panel: &Panel) -> Option<String> {
    bounds(panel, "An upward arrow marks these points")
}

/// Values that may be higher, and how the figure marks them.
pub(super) fn bounds(panel: &Panel, marked: &str) -> Option<String> {
    bounds_of(panel, panel.y.name(), marked)
}

/// [`bounds`] of a metric.
pub(super) fn bounds_of(panel: &Panel, name: &str, marked: &str) -> Option<String> {
    let is_bound = |trial: &Trial| trial.measured.is_lower_bound(name);
    let bounds = panel.trials().filter(is_bound).count() as u64;
    let why = panel.plan.metric(name).and_then(|it| it.bounded.as_deref());
    (bounds > 0).then(|| {
        format!(
            "Lower bounds: in {bounds} of {}, {}. {marked}; the true values may be higher.",
            units::plural(panel.trials().count() as u64, "trial"),
            why.unwrap_or("the value is a lower bound"),
        )
    })
}

/// Points without a value.
pub(super) fn without_value(mut names: Vec<String>) -> Option<String> {
    let more = names.len().saturating_sub(limits::PLACES) as u64;
    names.truncate(limits::PLACES);
    if more > 0 {
        names.push(units::plural(more, "other cell"));
    }
    (!names.is_empty()).then(|| format!("No value: {}.", units::listed(&names)))
}

/// Trials that cannot be drawn, and why.
pub(super) fn unfit(count: u64, why: &str) -> Option<String> {
    (count > 0).then(|| format!("Not drawn: {} {why}.", units::plural(count, "trial")))
}

/// Factors whose values are not told apart: cells that differ in them are one `what`.
pub(super) fn merged(panel: &Panel, what: &str) -> Option<String> {
    let differs = |factor: &&Factor| {
        panel.points().any(|point| {
            let mut values = point
                .trials
                .iter()
                .map(|it| it.record.factors.get(&factor.name));
            let first = values.next();
            values.any(|value| Some(value) != first)
        })
    };
    let factors = panel.plan.factors.iter().filter(differs);
    let titles: Vec<String> = factors.map(|factor| factor.title.clone()).collect();
    (!titles.is_empty()).then(|| {
        let titles = units::listed(&titles);
        format!("Each {what} combines all values of {titles}.")
    })
}

/// The text alternative of named values: at most [`limits::PLACES`] of them.
pub(super) fn values_of(name: &str, mut values: Vec<String>) -> String {
    if values.is_empty() {
        return format!("{name}: no measurement.");
    }
    let more = values.len().saturating_sub(limits::PLACES) as u64;
    values.truncate(limits::PLACES);
    if more > 0 {
        values.push(units::plural(more, "other value"));
    }
    format!("{name}: {}.", values.join("; "))
}

/// Values that do not count in medians.
pub(super) fn left_out(panel: &Panel) -> Option<String> {
    left_out_of(panel, panel.y.name())
}

/// [`left_out`] of a metric.
pub(super) fn left_out_of(panel: &Panel, name: &str) -> Option<String> {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for trial in panel.trials() {
        let flag = trial.measured.flags.get(name);
        if let Some(reason) = flag.and_then(|flag| flag.invalid.as_deref()) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let part = |(reason, count): (&str, u64)| {
        format!(
            "{} ({})",
            units::plural(count, "trial"),
            units::shortened(reason, 120)
        )
    };
    let parts: Vec<String> = reasons.into_iter().map(part).collect();
    let what = "a cell in which more than half are left out has no median";
    (!parts.is_empty()).then(|| format!("Left out: {}; {what}.", units::listed(&parts)))
}
