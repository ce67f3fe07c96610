//! Reads the run folders of the first version, `curtail.run/1`, which knew only cache trials.

use std::collections::HashMap;
use std::path::Path;

use super::folder::{Measurement, Outcome, Phase, Plan, Trial};
use super::{plan, trial};
use crate::Error;
use crate::limits;
use crate::read::read_bounded;
use crate::record::{self, Record};

/// A plan of the first version and its trials, in the form of the present one.
pub(crate) fn convert(
    first: &Plan,
    plan_path: &Path,
    trials_path: &Path,
) -> Result<(record::Plan, Vec<Record>, bool), Error> {
    check_plan(first, plan_path)?;
    let (trials, torn) = read_trials(trials_path, first)?;
    let general = plan::general(first);
    let records = trials.iter().map(|it| trial::general(it, first)).collect();
    Ok((general, records, torn))
}

fn check_plan(plan: &Plan, path: &Path) -> Result<(), Error> {
    if plan.servers.len() > limits::SERVERS {
        let what = format!(
            "{} servers, at most {}",
            plan.servers.len(),
            limits::SERVERS
        );
        return Err(Error::content(path, 1, what, "split the experiment"));
    }
    for (what, count, most) in [
        ("settings", plan.settings(), limits::SETTINGS),
        ("rates", plan.sweep.rates(), limits::RATES),
    ] {
        if count > most {
            let what = format!("{count} {what}, at most {most}");
            return Err(Error::content(path, 1, what, "split the experiment"));
        }
    }
    let planned = plan.trials();
    if planned > limits::TRIALS as u64 {
        let what = format!("{planned} trials planned, at most {}", limits::TRIALS);
        return Err(Error::content(path, 1, what, "split the experiment"));
    }
    Ok(())
}

fn read_trials(path: &Path, plan: &Plan) -> Result<(Vec<Trial>, bool), Error> {
    let text = read_bounded(path, limits::TRIALS_BYTES)?;
    let mut trials: Vec<Trial> = Vec::new();
    let mut place_of: HashMap<String, usize> = HashMap::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let number = index + 1;
        let trial: Trial = match serde_json::from_str(line) {
            Ok(trial) => trial,
            Err(_) if !line.ends_with('\n') => return Ok((trials, true)),
            Err(error) => {
                let remedy = "remove the line, and the run measures that trial again on resuming";
                return Err(Error::content(path, number, error.to_string(), remedy));
            }
        };
        check(&trial, plan).map_err(|what| {
            Error::content(
                path,
                number,
                what,
                "plan.toml and trials.jsonl must be of one run",
            )
        })?;
        if let Some(&place) = place_of.get(&trial.id) {
            if matches!(trials[place].outcome, Outcome::Measured(_)) {
                let what = format!("trial {:?} was measured before", trial.id);
                return Err(Error::content(
                    path,
                    number,
                    what,
                    "remove one of the two lines",
                ));
            }
            trials[place] = trial;
            continue;
        }
        if trials.len() == limits::TRIALS {
            let what = format!("more than {} trials", limits::TRIALS);
            return Err(Error::content(path, number, what, "split the experiment"));
        }
        place_of.insert(trial.id.clone(), trials.len());
        trials.push(trial);
    }
    Ok((trials, false))
}

/// Checks a trial against its plan; the error is a fragment.
fn check(trial: &Trial, plan: &Plan) -> Result<(), String> {
    if !plan
        .servers
        .iter()
        .any(|server| server.name == trial.server)
    {
        return Err(format!("server {:?} is not in the plan", trial.server));
    }
    if trial.phase == Phase::Sweep {
        if trial.cell >= plan.cells() {
            return Err(format!(
                "cell {} of a sweep of {}",
                trial.cell,
                plan.cells()
            ));
        }
        if trial.repeat >= plan.repeats {
            return Err(format!(
                "repeat {} (from 0) of {}",
                trial.repeat, plan.repeats
            ));
        }
        if !trial
            .offered_rps
            .is_some_and(|rate| rate.is_finite() && rate > 0.0)
        {
            return Err("offered_rps of a trial of the sweep must be above 0".to_owned());
        }
    }
    if trial.phase == Phase::Capacity && trial.cell >= plan.settings() {
        return Err(format!(
            "cell {} of capacities under {} settings",
            trial.cell,
            plan.settings()
        ));
    }
    let setting = plan.setting_value(plan.setting_of(trial.phase, trial.cell));
    if trial.setting != setting {
        return Err(format!(
            "setting {:?} of cell {}, which has {setting:?}",
            trial.setting, trial.cell
        ));
    }
    match &trial.outcome {
        Outcome::Measured(measurement) => check_measurement(measurement),
        Outcome::Failed(_) => Ok(()),
    }
}

fn check_measurement(measurement: &Measurement) -> Result<(), String> {
    let not_negative = [
        ("achieved_rps", measurement.achieved_rps),
        ("generator_cpu", measurement.generator_cpu),
        ("outstanding_mean", measurement.outstanding_mean),
        ("outstanding_unread", measurement.outstanding_unread),
        ("outstanding_expected", measurement.outstanding_expected),
        (
            "cpu_ns_per_request",
            measurement.cost.map_or(0.0, |cost| cost.cpu_ns_per_request),
        ),
        ("hit_rate", measurement.hit_rate.unwrap_or(0.0)),
        ("saturating_rps", measurement.saturating_rps.unwrap_or(0.0)),
        (
            "bursts.mean",
            measurement.bursts.as_ref().map_or(0.0, |it| it.mean),
        ),
        ("generator_busy", measurement.generator_busy.unwrap_or(0.0)),
        (
            "stolen.server",
            measurement.stolen.map_or(0.0, |stolen| stolen.server),
        ),
        (
            "stolen.load",
            measurement.stolen.map_or(0.0, |stolen| stolen.load),
        ),
    ];
    match not_negative
        .iter()
        .find(|(_, value)| !value.is_finite() || *value < 0.0)
    {
        Some((name, value)) => Err(format!("{name} is {value}, must be a number not below 0")),
        None => Ok(()),
    }
}
