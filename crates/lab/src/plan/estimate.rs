//! Estimates the duration of a run before its first trial.

use std::time::Duration;

use report::folder::Plan;

use super::order;

/// Starting a server, its first reply, stopping it, writing the record.
const START_STOP: Duration = Duration::from_millis(250);
/// Opening one connection, paced.
const CONNECT: Duration = Duration::from_micros(50);
/// Prefill of one record, and reading a sample back.
const FILL: Duration = Duration::from_nanos(2_200);

/// One trial, on average over the settings.
#[must_use]
pub fn trial(plan: &Plan) -> Duration {
    let settings = plan.settings();
    let all: Duration = (0..settings).map(|setting| under(plan, setting)).sum();
    all / settings.max(1)
}

fn under(plan: &Plan, setting: u32) -> Duration {
    let load = plan.load_at(setting);
    let records = u32::try_from(load.records).unwrap_or(u32::MAX);
    START_STOP
        + CONNECT * load.connections
        + FILL * records
        + Duration::from_nanos(plan.warmup_ns)
        + Duration::from_nanos(plan.trial_ns)
}

/// The whole run.
#[must_use]
pub fn run(plan: &Plan) -> Duration {
    let trials = u32::try_from(order::trials(plan).len()).unwrap_or(u32::MAX);
    trial(plan).saturating_mul(trials)
}
