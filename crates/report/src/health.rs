//! What is wrong with the trials of a run: what a program that runs experiments ends with, and what
//! a page says first.

use std::collections::{BTreeMap, BTreeSet};

use crate::Run;
use crate::record::FaultClass;

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
