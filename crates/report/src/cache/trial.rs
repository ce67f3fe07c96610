//! Converts trials between the first version and the present records.

use std::collections::BTreeMap;

use super::encode::{OFFERED_RPS, decode, encode};
use super::folder::{self, Phase, Plan, Trial};
use super::plan::{CAPACITY, LEVEL, RATE, SERVER, SWEEP, cell_factors, setting_factors};
use super::settings::Vary;
use crate::record::{Outcome, Record, Value};

/// A trial of the first version as a record.
pub(super) fn general(trial: &Trial, plan: &Plan) -> Record {
    let servers = || plan.servers.iter().filter(|it| it.skipped.is_none());
    let server = servers().position(|it| it.name == trial.server);
    let (stage, factors, cells) = match trial.phase {
        Phase::Capacity => (
            CAPACITY,
            setting_factors(plan, &trial.server, trial.cell),
            plan.settings(),
        ),
        Phase::Sweep => (
            SWEEP,
            cell_factors(plan, &trial.server, trial.cell),
            plan.cells(),
        ),
    };
    let cell = server.unwrap_or_default() as u32 * cells + trial.cell;
    let resolved = trial.offered_rps.map(|rate| (OFFERED_RPS.to_owned(), rate));
    let outcome = match &trial.outcome {
        folder::Outcome::Failed(reason) => Outcome::Failed(reason.clone()),
        folder::Outcome::Measured(measurement) => {
            let mut measured = encode(measurement);
            measured.artefacts = artefacts(&trial.id, measurement);
            Outcome::Measured(measured)
        }
    };
    Record {
        id: trial.id.clone(),
        stage: stage.to_owned(),
        cell,
        repeat: trial.repeat,
        retries: 0,
        factors,
        resolved: resolved.into_iter().collect(),
        started_unix_ns: trial.started_unix_ns,
        outcome,
        notes: trial.notes.clone(),
    }
}

/// The histograms of a trial, each an entry of one file.
#[must_use]
pub fn artefacts(id: &str, measurement: &folder::Measurement) -> BTreeMap<String, String> {
    let names = [
        ("response", measurement.response.is_some()),
        ("service", true),
        ("slip", measurement.slip.is_some()),
    ];
    let present = names.into_iter().filter(|&(_, is_there)| is_there);
    let entry = |(name, _): (&str, bool)| {
        let path = format!("histograms/{id}.hist#{name}");
        (name.to_owned(), path)
    };
    present.map(entry).collect()
}

/// A record as a trial of the plan.
///
/// # Errors
/// A metric that every cache trial has is missing; the error names the trial.
pub(super) fn classic(record: &Record, plan: &Plan) -> Result<Trial, String> {
    let number = |name: &str| record.factors.get(name).and_then(Value::number);
    let setting = plan.vary.as_ref().and_then(|vary| number(vary.key()));
    let settings = plan.vary.as_ref().map(Vary::values);
    let index_of = |values: &[f64], value: Option<f64>| {
        let at = values.iter().position(|&it| Some(it) == value);
        at.unwrap_or_default() as u32
    };
    let setting_index = settings.map_or(0, |values| index_of(&values, setting));
    let level = number(LEVEL);
    let (folder::Sweep::LoadLevels(rates) | folder::Sweep::Rates(rates)) = &plan.sweep;
    let (phase, cell) = if record.stage == CAPACITY {
        (Phase::Capacity, setting_index)
    } else {
        let rate = index_of(rates, level.or_else(|| number(RATE)));
        (Phase::Sweep, plan.cell(setting_index, rate))
    };
    let server = record.factors.get(SERVER);
    let outcome = match &record.outcome {
        Outcome::Failed(reason) => folder::Outcome::Failed(reason.clone()),
        Outcome::Measured(measured) => {
            let decoded = decode(measured).map_err(|what| format!("trial {}: {what}", record.id));
            folder::Outcome::Measured(Box::new(decoded?))
        }
    };
    Ok(Trial {
        id: record.id.clone(),
        phase,
        server: server.map(ToString::to_string).unwrap_or_default(),
        cell,
        repeat: record.repeat,
        setting,
        level,
        offered_rps: record.resolved.get(OFFERED_RPS).copied(),
        started_unix_ns: record.started_unix_ns,
        outcome,
        notes: record.notes.clone(),
    })
}
