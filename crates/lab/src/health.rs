//! Why a complete run does not deserve exit status 0.

use std::collections::HashSet;

use report::Run;
use report::record::{FaultClass, Record};

use crate::plan::text::factors_text;

/// Why a run does not deserve exit status 0, as sentences. `fail_above` is the share of failing
/// trials that is allowed.
#[must_use]
pub fn complaints(run: &Run, fail_above: Option<f64>) -> Vec<String> {
    let mut complaints = Vec::new();
    let health = report::health(run);
    let mut contradictions = run
        .records
        .iter()
        .filter(|it| is_of(it, FaultClass::Instrument));
    if let (Some(reason), Some(record)) = (health.instrument.reasons.first(), contradictions.next())
    {
        let (reason, trial) = (&reason.reason, &record.id);
        complaints.push(format!(
            "fault of the instrument: {reason} in trial {trial}"
        ));
    }
    if let [first, others @ ..] = &broken(run)[..] {
        let others = match others.len() {
            0 => String::new(),
            more => format!(", and in {}", report::plural(more as u64, "other cell")),
        };
        complaints.push(format!("no trial succeeded: {first}{others}"));
    }
    let trials = run.records.len() as u64;
    let failing = health.failing.trials + (trials - health.measured);
    let share = failing as f64 / trials.max(1) as f64;
    if let Some(most) = fail_above.filter(|most| share > *most) {
        let trials = report::plural(trials, "trial");
        let most = units::show_share(most);
        complaints.push(format!("{failing} of {trials} failed, more than {most}"));
    }
    complaints
}

fn broken(run: &Run) -> Vec<String> {
    let sound = run.records.iter().filter(|it| !is_failing(it));
    let sound: HashSet<(&str, u32)> = sound.map(|it| (it.stage.as_str(), it.cell)).collect();
    let mut broken = Vec::new();
    for stage in &run.plan.stages {
        for (number, cell) in (0..).zip(&stage.cells) {
            if sound.contains(&(stage.name.as_str(), number)) {
                continue;
            }
            broken.push(match factors_text(&run.plan, cell) {
                words if words.is_empty() => stage.name.clone(),
                words => words,
            });
        }
    }
    broken
}

fn is_of(record: &Record, class: FaultClass) -> bool {
    let fault = record.measured().and_then(|it| it.fault.as_ref());
    fault.is_some_and(|it| it.class == class)
}

/// Whether a trial counts against what it measures: it failed, or had too many errors.
fn is_failing(record: &Record) -> bool {
    record.failure().is_some() || is_of(record, FaultClass::Failing)
}

#[cfg(test)]
mod tests {
    use report::record::{Fault, Measured, Outcome};

    use super::*;
    use crate::plan::tests::plan;
    use crate::tests::records::record;

    fn measured(class: Option<FaultClass>) -> Outcome {
        let reason = "answers are missing".to_owned();
        let fault = class.map(|class| Fault {
            class,
            reason,
            spares: Vec::new(),
        });
        Outcome::Measured(Measured {
            fault,
            ..Measured::default()
        })
    }

    #[test]
    fn a_cell_is_broken_if_no_trial_succeeds_and_invalid_ones_do_not_count_against_it() {
        let mut plan = plan(2);
        plan.stages.remove(0);
        let failing = measured(Some(FaultClass::Failing));
        let outcomes = [
            (0, measured(Some(FaultClass::Invalid))),
            (1, failing.clone()),
            (1, Outcome::Failed("refused".to_owned())),
            (2, failing),
            (2, measured(None)),
            (3, measured(None)),
        ];
        let records = outcomes.map(|(cell, outcome)| record(&plan, "sweep", cell, 0, outcome));
        let cell = factors_text(&plan, &plan.stages[0].cells[1]);
        let mut run = Run {
            folder: std::path::PathBuf::new(),
            plan,
            host: crate::host::inventory(std::path::Path::new("/bin/sh")).unwrap(),
            records: records.to_vec(),
            torn: false,
        };
        let broken = format!("no trial succeeded: {cell}");
        assert_eq!(complaints(&run, Some(0.5)), std::slice::from_ref(&broken));
        let share = "3 of 6 trials failed, more than 10%";
        assert_eq!(complaints(&run, Some(0.1)), [broken, share.to_owned()]);

        run.records.pop();
        run.records[0].outcome = measured(Some(FaultClass::Instrument));
        let complaints = complaints(&run, None);
        let instrument = "fault of the instrument: answers are missing in trial sweep-000-00";
        assert_eq!(complaints[0], instrument);
        assert!(
            complaints[1].ends_with(", and in 1 other cell"),
            "{complaints:?}"
        );
    }
}
