//! Whether the trials of a run can be relied on.

use std::collections::BTreeMap;

use report::record::{FaultClass, Plan, Record};

use crate::plan::text::factors_text;

/// What is wrong with the trials of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Health {
    /// Trials recorded.
    pub trials: usize,
    /// Trials that count against what they measure: they failed, or had too many errors.
    pub failing: usize,
    /// Cells all of whose trials do, or that have none.
    pub broken: Vec<String>,
    /// What the instrument contradicted itself in, with the first trial.
    pub contradiction: Option<String>,
}

impl Health {
    /// The health of all stages.
    #[must_use]
    pub fn of(plan: &Plan, records: &[Record]) -> Self {
        let fault = |it: &Record| it.measured().and_then(|it| it.fault.clone());
        let is_failing = |it: &Record| {
            it.failure().is_some() || fault(it).is_some_and(|it| it.class == FaultClass::Failing)
        };
        let mut sound: BTreeMap<(&str, u32), bool> = BTreeMap::new();
        for stage in &plan.stages {
            for cell in 0..stage.cells.len() as u32 {
                sound.insert((&stage.name, cell), false);
            }
        }
        let mut health = Self {
            trials: records.len(),
            ..Self::default()
        };
        for record in records {
            match is_failing(record) {
                true => health.failing += 1,
                false => {
                    sound.insert((&record.stage, record.cell), true);
                }
            }
            let contradiction = fault(record).filter(|it| it.class == FaultClass::Instrument);
            if let (Some(fault), None) = (contradiction, &health.contradiction) {
                health.contradiction = Some(format!("{} in trial {}", fault.reason, record.id));
            }
        }
        for ((stage, cell), _) in sound.into_iter().filter(|it| !it.1) {
            let factors = plan.stage(stage).and_then(|it| it.cells.get(cell as usize));
            let words = factors.map(|it| factors_text(plan, it));
            let words = words.filter(|it| !it.is_empty());
            health
                .broken
                .push(words.unwrap_or_else(|| stage.to_owned()));
        }
        health
    }

    /// Why the run does not deserve exit status 0, as sentences. `fail_above` is the share of
    /// failing trials that is allowed.
    #[must_use]
    pub fn complaints(&self, fail_above: Option<f64>) -> Vec<String> {
        let mut complaints = Vec::new();
        if let Some(contradiction) = &self.contradiction {
            complaints.push(format!("fault of the instrument: {contradiction}"));
        }
        if let [first, others @ ..] = &self.broken[..] {
            let others = match others.len() {
                0 => String::new(),
                more => format!(", and in {}", report::plural(more as u64, "other cell")),
            };
            complaints.push(format!("no trial succeeded: {first}{others}"));
        }
        if let Some(most) = fail_above {
            let share = self.failing as f64 / self.trials.max(1) as f64;
            if share > most {
                complaints.push(format!(
                    "{} of {} failed, more than {}",
                    self.failing,
                    report::plural(self.trials as u64, "trial"),
                    units::show_share(most)
                ));
            }
        }
        complaints
    }
}

#[cfg(test)]
mod tests {
    use report::record::{Fault, Measured, Outcome};

    use super::*;
    use crate::plan::tests::plan;

    fn record(plan: &Plan, cell: u32, outcome: Outcome) -> Record {
        let stage = plan.last_stage().unwrap();
        Record {
            id: format!("sweep-{cell}"),
            stage: stage.name.clone(),
            cell,
            repeat: 0,
            retries: 0,
            factors: stage.cells[cell as usize].clone(),
            resolved: BTreeMap::new(),
            started_unix_ns: 0,
            outcome,
            notes: Vec::new(),
        }
    }

    fn measured(class: Option<FaultClass>) -> Outcome {
        let reason = "answers are missing".to_owned();
        let fault = class.map(|class| Fault { class, reason });
        Outcome::Measured(Measured {
            fault,
            ..Measured::default()
        })
    }

    #[test]
    fn a_cell_is_broken_if_no_trial_succeeds_and_invalid_ones_do_not_count_against_it() {
        let mut plan = plan(2);
        let sweep = plan.stages.pop().unwrap();
        plan.stages = vec![sweep];
        let failing = measured(Some(FaultClass::Failing));
        let mut records = vec![
            record(&plan, 0, measured(Some(FaultClass::Invalid))),
            record(&plan, 1, failing.clone()),
            record(&plan, 1, Outcome::Failed("refused".to_owned())),
            record(&plan, 2, failing),
            record(&plan, 2, measured(None)),
            record(&plan, 3, measured(None)),
        ];
        let health = Health::of(&plan, &records);
        assert_eq!((health.trials, health.failing), (6, 3));
        let cell = factors_text(&plan, &plan.stages[0].cells[1]);
        assert_eq!(health.broken, std::slice::from_ref(&cell));
        let broken = format!("no trial succeeded: {cell}");
        assert_eq!(health.complaints(Some(0.5)), std::slice::from_ref(&broken));
        let share = "3 of 6 trials failed, more than 10%";
        assert_eq!(health.complaints(Some(0.1)), [broken, share.to_owned()]);

        records.remove(5);
        records[0].outcome = measured(Some(FaultClass::Instrument));
        let complaints = Health::of(&plan, &records).complaints(None);
        let instrument = "fault of the instrument: answers are missing in trial sweep-0";
        assert_eq!(complaints[0], instrument);
        assert!(
            complaints[1].ends_with(", and in 1 other cell"),
            "{complaints:?}"
        );
    }
}
