//! What is wrong with the trials of a run: what a program that runs experiments ends with, and what
//! a page says first.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::StageResults;
use crate::record::{Factors, FaultClass, Value, names};
use crate::{Run, findings, limits, units};

/// What is wrong with the trials of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Trials in which the instrument contradicts itself.
    pub instrument: Faults,
    /// Trials that do not count, for a cause outside the server.
    pub invalid: Faults,
    /// Trials in which the server fails.
    pub failing: Faults,
    /// Trials without a measurement.
    pub missing: Faults,
    /// Trials that were measured, whatever is wrong with them.
    pub measured: u64,
    /// Trials that were expected.
    pub planned: u64,
}

/// The trials of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// The number of trials.
    pub trials: u64,
    /// The number of cells that have such a trial.
    pub cells: u64,
    /// The reasons, those of the most trials first.
    pub reasons: Vec<Reason>,
}

/// A reason that some trials share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// A clause.
    pub reason: String,
    /// The number of trials.
    pub trials: u64,
    /// The number of cells that have such a trial.
    pub cells: u64,
}

/// Why a trial that has not run is missing.
pub(crate) const NOT_RUN: &str = "not run";

/// What is wrong with the trials of a run.
#[must_use]
pub fn health(run: &Run) -> Health {
    let of_class = |class: FaultClass| {
        let records = run.records.iter().filter_map(|record| {
            let fault = record.measured()?.fault.as_ref()?;
            let is_of = fault.class == class;
            is_of.then_some((record.stage.as_str(), record.cell, fault.reason.as_str()))
        });
        Faults::of(records)
    };
    let missing = run.missing();
    let missing = missing
        .iter()
        .map(|it| (it.stage, it.cell, it.failure.unwrap_or(NOT_RUN)));
    let missing = Faults::of(missing);
    let measured = run.records.iter().filter(|it| it.measured().is_some());
    let measured = measured.count() as u64;
    Health {
        instrument: of_class(FaultClass::Instrument),
        invalid: of_class(FaultClass::Invalid),
        failing: of_class(FaultClass::Failing),
        planned: measured + missing.trials,
        missing,
        measured,
    }
}

/// What must be said before the answer: a class and a sentence each, the gravest first.
pub(crate) fn alerts(run: &Run, last: Option<&StageResults>) -> Vec<(&'static str, String)> {
    let health = health(run);
    let of_all = |count: u64, all: u64| {
        format!("{} of {}", units::count(count), units::plural(all, "trial"))
    };
    let reasons = |faults: &Faults| {
        let shown = faults.reasons.iter().take(limits::REASONS);
        let mut shown: Vec<String> = shown
            .map(|it| {
                let reason = units::shortened(&it.reason, limits::REASON_CHARACTERS);
                match faults.reasons.len() {
                    1 => reason,
                    _ => format!("{reason} ({})", units::count(it.trials)),
                }
            })
            .collect();
        let more = faults.reasons.len().saturating_sub(limits::REASONS) as u64;
        shown.extend((more > 0).then(|| units::plural(more, "other reason")));
        units::listed(&shown)
    };
    let mut alerts = Vec::new();
    let measured = health.measured;
    if health.instrument.trials > 0 {
        alerts.push((
            "fault",
            format!(
                "The instrument contradicts itself in {}, which do not count: {}.",
                of_all(health.instrument.trials, measured),
                reasons(&health.instrument)
            ),
        ));
    } else if let Some(law) = findings::law(run).filter(|it| it.holding < it.trials) {
        let failing = of_all(law.trials - law.holding, law.trials);
        alerts.push((
            "fault",
            format!("Little's law, which checks the instrument, fails in {failing}."),
        ));
    }
    alerts.extend(failing(run, last).into_iter().map(|it| ("fault", it)));
    if health.invalid.trials > 0 {
        let are = match health.invalid.trials {
            1 => "is invalid and does",
            _ => "are invalid and do",
        };
        let mut faults = run
            .records
            .iter()
            .filter_map(|it| it.measured()?.fault.as_ref());
        let but = match faults.any(|it| !it.spares.is_empty()) {
            true => " but for the server's processor time, wakes and memory",
            false => "",
        };
        alerts.push((
            "notice",
            format!(
                "{} {are} not count{but}: {}.{}",
                of_all(health.invalid.trials, measured),
                reasons(&health.invalid),
                remedy(health.invalid.reasons.iter().map(|it| it.reason.as_str()))
            ),
        ));
    }
    if health.missing.trials > 0 {
        let are = if health.missing.trials == 1 {
            "is"
        } else {
            "are"
        };
        alerts.push((
            "missing",
            format!(
                "{} {are} missing: {}.",
                of_all(health.missing.trials, health.planned),
                reasons(&health.missing)
            ),
        ));
    }
    alerts
}

/// Which servers fail, in how many trials and why.
fn failing(run: &Run, last: Option<&StageResults>) -> Vec<String> {
    let server = run.plan.factor(names::SERVER);
    let factor = server.or_else(|| last?.comparisons.as_ref().map(|it| it.factor));
    let name = |value: Option<&Value>| match (factor, value) {
        (Some(factor), Some(value)) => factor.label(value),
        _ => "the server".to_owned(),
    };
    let of = |factors: &Factors| name(factor.and_then(|it| factors.get(&it.name)));
    let measured: Vec<(String, Option<&str>)> = run
        .records
        .iter()
        .filter_map(|it| Some((of(&it.factors), it.measured()?.failing())))
        .collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in measured.iter().filter(|(_, why)| why.is_some()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let sentences = names.into_iter().map(|name| {
        let own: Vec<Option<&str>> = measured
            .iter()
            .filter(|(of, _)| of == name)
            .map(|(_, why)| *why)
            .collect();
        let failing: Vec<&str> = own.iter().flatten().copied().collect();
        let reason = failing.first().copied().unwrap_or_default();
        let reason = units::shortened(reason, limits::REASON_CHARACTERS);
        let such = if failing.iter().all(|it| *it == failing[0]) {
            ""
        } else {
            ", and others"
        };
        let trials = units::plural(own.len() as u64, "trial");
        let count = units::count(failing.len() as u64);
        format!("{name} fails in {count} of {trials}: {reason}{such}.")
    });
    sentences.collect()
}

/// What helps against invalid trials: ` Give the generator …`. Empty: not known.
pub(crate) fn remedy<'a>(mut reasons: impl Iterator<Item = &'a str>) -> &'static str {
    let is_late = |it: &str| it.contains("generator") || it.contains("relay");
    match reasons.any(is_late) {
        true => {
            " Give the generator processors of its own ([pins]), raise its priority (as root), or \
             generate the load on another host."
        }
        false => "",
    }
}

impl Faults {
    /// Of the stage, the cell and the reason of each trial.
    pub(crate) fn of<'a>(trials: impl Iterator<Item = (&'a str, u32, &'a str)>) -> Self {
        let mut all = Self::default();
        let mut by_reason: BTreeMap<&str, Vec<(&str, u32)>> = BTreeMap::new();
        for (stage, cell, reason) in trials {
            by_reason.entry(reason).or_default().push((stage, cell));
        }
        let distinct = |cells: &mut dyn Iterator<Item = &(&str, u32)>| {
            cells.collect::<BTreeSet<_>>().len() as u64
        };
        all.cells = distinct(&mut by_reason.values().flatten());
        all.trials = by_reason.values().map(|it| it.len() as u64).sum();
        let reasons = by_reason.iter().map(|(reason, trials)| Reason {
            reason: (*reason).to_owned(),
            trials: trials.len() as u64,
            cells: distinct(&mut trials.iter()),
        });
        all.reasons = reasons.collect();
        all.reasons.sort_by_key(|it| std::cmp::Reverse(it.trials));
        all
    }
}
