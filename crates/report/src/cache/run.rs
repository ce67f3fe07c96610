//! A run whose cells are servers under one varied setting at several rates: the form of which the
//! page tells capacities, knees and tails.

use std::collections::HashMap;

use super::folder::{Outcome, Phase, Plan, Sweep, Trial};
use super::{plan, trial};
use crate::record::Host;

/// The trials of servers under one varied setting at several rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The plan.
    pub plan: Plan,
    /// The machine.
    pub host: Host,
    /// The trials in the order in which they ended, one per identity.
    pub trials: Vec<Trial>,
    /// As [`crate::Run::torn`].
    pub torn: bool,
}

/// A trial of the plan without a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Missing {
    /// A name of [`Plan::servers`].
    pub server: String,
    /// The trial's phase.
    pub phase: Phase,
    /// As [`Trial::cell`].
    pub cell: u32,
    /// From 0.
    pub repeat: u32,
    /// Offered rate, where it is known.
    pub offered_rps: Option<f64>,
    /// Why it failed. None: it has not run (the run was stopped, or has not finished).
    pub failure: Option<String>,
}

impl Run {
    /// The servers, settings and rates of a run. None: its trials are of another kind, or its
    /// factors are others.
    ///
    /// # Errors
    /// A record lacks a metric that every cache trial has; the error names the trial.
    pub fn of(run: &crate::Run) -> Result<Option<Self>, String> {
        let Some(plan) = plan::classic(&run.plan) else {
            return Ok(None);
        };
        let trials: Result<Vec<Trial>, String> = run
            .records
            .iter()
            .map(|record| trial::classic(record, &plan))
            .collect();
        Ok(Some(Self {
            plan,
            host: run.host.clone(),
            trials: trials?,
            torn: run.torn,
        }))
    }

    /// The trials of the plan without a measurement, by server, capacity trials first. Skipped
    /// servers have no trials.
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        for server in self
            .plan
            .servers
            .iter()
            .filter(|server| server.skipped.is_none())
        {
            self.missing_capacity(&server.name, &mut missing);
            self.missing_sweep(&server.name, &mut missing);
        }
        missing
    }

    fn missing_capacity(&self, server: &str, missing: &mut Vec<Missing>) {
        let planned = match self.plan.sweep {
            // A load level requires a capacity, so at least one capacity trial is expected.
            Sweep::LoadLevels(_) => self.plan.capacity_trials.max(1),
            Sweep::Rates(_) => self.plan.capacity_trials,
        };
        let ended = self.ended(Phase::Capacity, server);
        for (cell, repeat) in (0..self.plan.settings())
            .flat_map(|cell| (0..planned).map(move |repeat| (cell, repeat)))
        {
            if let Some(failure) = failure(ended.get(&(cell, repeat)).copied()) {
                missing.push(Missing {
                    server: server.to_owned(),
                    phase: Phase::Capacity,
                    cell,
                    repeat,
                    offered_rps: None,
                    failure,
                });
            }
        }
    }

    fn missing_sweep(&self, server: &str, missing: &mut Vec<Missing>) {
        let ended = self.ended(Phase::Sweep, server);
        for cell in 0..self.plan.cells() {
            let offered_rps = (0..self.plan.repeats).find_map(|repeat| {
                ended
                    .get(&(cell, repeat))
                    .and_then(|trial| trial.offered_rps)
            });
            for repeat in 0..self.plan.repeats {
                if let Some(failure) = failure(ended.get(&(cell, repeat)).copied()) {
                    missing.push(Missing {
                        server: server.to_owned(),
                        phase: Phase::Sweep,
                        cell,
                        repeat,
                        offered_rps,
                        failure,
                    });
                }
            }
        }
    }

    /// The recorded trials of a server, by cell and repeat.
    fn ended(&self, phase: Phase, server: &str) -> HashMap<(u32, u32), &Trial> {
        self.trials
            .iter()
            .filter(|trial| trial.phase == phase && trial.server == server)
            .map(|trial| ((trial.cell, trial.repeat), trial))
            .collect()
    }
}

/// None: the trial was measured. Else the reason of its failure, if it was recorded.
fn failure(trial: Option<&Trial>) -> Option<Option<String>> {
    match trial.map(|trial| &trial.outcome) {
        Some(Outcome::Measured(_)) => None,
        Some(Outcome::Failed(why)) => Some(Some(why.clone())),
        None => Some(None),
    }
}
