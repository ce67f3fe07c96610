//! Estimates the duration of a run before its first trial.

use std::time::Duration;

use report::record::{Plan, Stage};

use crate::kind::Kind;

/// All trials of a plan: at least, and at most if the number of repeats depends on the results.
#[must_use]
pub fn run(plan: &Plan, kind: &dyn Kind) -> (Duration, Duration) {
    let sum = |repeats: fn(&Stage) -> u32| {
        let stages = plan.stages.iter();
        stages
            .map(|stage| {
                let cells = stage.cells.iter();
                let once: Duration = cells.map(|cell| kind.estimate(cell)).sum();
                once.saturating_mul(repeats(stage))
            })
            .fold(Duration::ZERO, Duration::saturating_add)
    };
    (sum(|it| it.repeats.least), sum(|it| it.repeats.most))
}

/// One trial, on average.
#[must_use]
pub fn trial(plan: &Plan, kind: &dyn Kind) -> Duration {
    let (_, most) = run(plan, kind);
    let trials = u32::try_from(plan.trials()).unwrap_or(u32::MAX);
    most.checked_div(trials).unwrap_or_default()
}
