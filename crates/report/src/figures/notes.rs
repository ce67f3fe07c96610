//! Notes on the data of figures: what was measured, and what is missing, marked or displaced.

use std::collections::BTreeMap;

use super::dimension::{Dimension, labels};
use super::panel::Panel;
use super::point::{Summary, Trial};
use crate::chart::mark::{State, listed};
use crate::record::{Factor, Plan};
use crate::run::MissingTrial;
use crate::{Run, answer, limits, units};

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
    /// The metric that is told instead of the one asked, whose figures come first.
    pub(crate) told: Option<String>,
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
        let stages = answer::stages(run);
        let told = stages.last().and_then(|it| answer::instead(run, it));
        Self {
            told: told.map(|(_, told)| told.name.clone()),
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
    let most = units::plural(repeats.most.into(), "trial");
    match repeats.least == repeats.most {
        true => format!("{most} per cell"),
        false => format!("{} to {most} per cell", repeats.least),
    }
}

/// The number and the cells of missing trials.
fn missing(plan: &Plan, missing: &[MissingTrial]) -> Option<String> {
    let mut cells: BTreeMap<(usize, u32), u32> = BTreeMap::new();
    for trial in missing {
        let stage = plan.stages.iter().position(|it| it.name == trial.stage);
        let cell = (stage.unwrap_or_default(), trial.cell);
        *cells.entry(cell).or_default() += 1;
    }
    let place = |(&(stage, cell), count): (&(usize, u32), &u32)| {
        let cell = cell_words(plan, stage, cell).unwrap_or_default();
        format!("{cell} ({count})")
    };
    let mut places: Vec<String> = cells.iter().take(limits::PLACES).map(place).collect();
    let more = cells.len().saturating_sub(places.len()) as u64;
    places.extend((more > 0).then(|| units::plural(more, "other cell")));
    let count = units::plural(missing.len() as u64, "trial");
    let places = units::listed(&places);
    (!missing.is_empty()).then(|| format!("Missing: {count}: {places}."))
}

/// A cell in words: `curtail, 16 connections`. The stage is named unless it is the last.
fn cell_words(plan: &Plan, stage: usize, cell: u32) -> Option<String> {
    let of = plan.stages.get(stage)?;
    let is_last = stage + 1 == plan.stages.len();
    let stage = (!is_last).then(|| of.name.clone()).into_iter();
    let cell = of.cells.get(cell as usize);
    let cell = cell.map(|cell| labels(plan.factors.iter(), cell));
    let words = stage.chain(cell.unwrap_or_default());
    let words = words.map(|it| units::shortened(&it, limits::NAME_CHARACTERS));
    Some(words.collect::<Vec<String>>().join(", "))
}

/// What the reader must know of the trials: what does not count or fails, and why. Each reason is
/// said once.
pub(super) fn faults(panel: &Panel) -> Vec<String> {
    let mut drawn: Vec<&str> = panel.figure.drawn().map(String::as_str).collect();
    if drawn.is_empty() {
        drawn.push("");
    }
    let (mut grey, mut failing) = (BTreeMap::new(), BTreeMap::new());
    for trial in panel.trials() {
        let states = drawn.iter().map(|name| trial.state(name));
        match states.max_by_key(|it| *it != State::Counts) {
            Some(State::Grey(reason)) => *grey.entry(reason).or_insert(0) += 1,
            Some(State::Failing(reason)) => *failing.entry(reason).or_insert(0) += 1,
            _ => {}
        }
    }
    let trials = units::plural(panel.trials().count() as u64, "trial");
    let note = |reasons: BTreeMap<String, u64>, what: &str, but: &str| {
        let reason = |it: &String| units::shortened(it, limits::REASON_CHARACTERS);
        let words = |(of, count): (&String, &u64)| format!("{count} ({})", reason(of));
        let words = listed(reasons.iter().map(words).collect(), "other reason", ", ");
        words.map(|words| format!("{what}: {words} of {trials}. {but}"))
    };
    let but = "A cell has no median if most do not.";
    let grey = note(grey, "Grey, do not count", but);
    let but = "Times there are lower bounds, not medians.";
    let failing = note(failing, "Fails here", but);
    grey.into_iter().chain(failing).collect()
}

/// Curves without the quantity of the figure.
pub(super) fn lacking(panel: &Panel) -> Option<String> {
    let name = |name: &String| units::shortened(name, limits::NAME_CHARACTERS);
    let names: Vec<String> = panel.lacking.iter().map(name).collect();
    let names = units::listed(&names);
    (!names.is_empty()).then(|| format!("Not drawn: {names}, without this measurement."))
}

/// Cells that lack a factor of the figure.
pub(super) fn omitted(panel: &Panel) -> Vec<String> {
    let note = |&(title, count): &(&str, u64)| {
        let cells = units::plural(count, "cell");
        format!("Not drawn: {cells} without {title}.")
    };
    panel.omitted.iter().map(note).collect()
}

/// What is missing of a quantity, and its lower bounds.
pub(super) fn values(panel: &Panel, of: Dimension) -> Vec<String> {
    let without = without_value(panel, of).into_iter();
    without.chain(bounds(panel, of)).collect()
}

/// Cells without a value, and trials that were measured, but without the quantity of the figure.
pub(super) fn without_value(panel: &Panel, of: Dimension) -> Vec<String> {
    let absent = panel.points().filter(|it| Summary::of(it, of).is_none());
    let names = absent.map(|point| panel.point_name(point)).collect();
    let cells = listed(names, "other cell", "; ").map(|names| format!("No value: {names}."));
    let is_without = |it: &Trial| of.of_record(it.record).is_none();
    let trials = panel.trials().filter(is_without).count() as u64;
    let trials = unfit(trials, "without this measurement");
    cells.into_iter().chain(trials).collect()
}

/// Values that may be higher.
pub(super) fn bounds(panel: &Panel, of: Dimension) -> Option<String> {
    let Dimension::Metric(metric) = of else {
        return None;
    };
    let is_bound = |trial: &Trial| trial.measured.is_lower_bound(&metric.name);
    let bounds = panel.trials().filter(is_bound).count() as u64;
    let trials = units::plural(panel.trials().count() as u64, "trial");
    let why = metric.bounded.as_deref();
    let why = why.unwrap_or("the value is a lower bound");
    (bounds > 0).then(|| {
        let title = &metric.title;
        format!("Lower bounds: in {bounds} of {trials}, {why} ({title}). An arrow or ≥ marks them.")
    })
}

/// Trials that cannot be drawn, and why.
pub(super) fn unfit(count: u64, why: &str) -> Option<String> {
    (count > 0).then(|| format!("Not drawn: {} {why}.", units::plural(count, "trial")))
}

/// Factors whose values are not told apart: cells that differ in them are one `what`.
pub(super) fn merged(panel: &Panel, what: &str) -> Option<String> {
    let differs = |factor: &&Factor| {
        panel.points().any(|point| {
            let value = |it: &Trial<'_>| it.record.factors.get(&factor.name).cloned();
            let first = point.trials.first().and_then(value);
            point.trials.iter().any(|it| value(it) != first)
        })
    };
    let factors = panel.plan.factors.iter().filter(differs);
    let titles: Vec<String> = factors.map(|factor| factor.title.clone()).collect();
    let titles = units::listed(&titles);
    (!titles.is_empty()).then(|| format!("Each {what} combines all values of {titles}."))
}
