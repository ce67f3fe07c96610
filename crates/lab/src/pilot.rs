//! A pilot: a few repeats of each cell, from whose spread follows how many would decide what.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

use measure::{pooled_spread, repeats_to_decide};
use report::record::{Better, Metric, Plan, Record, Repeats};

use crate::error::Error;
use crate::experiment::Experiment;
use crate::limits;
use crate::plan::Options;

const EFFECTS: [f64; 3] = [0.02, 0.05, 0.10];

impl Experiment {
    /// The plan of a pilot, with this many repeats of each cell.
    ///
    /// # Errors
    /// As [`Experiment::plan`].
    pub fn pilot(&self, options: &Options, repeats: u32) -> Result<Plan, Error> {
        let mut plan = self.plan(options)?;
        plan.experiment.push_str("-pilot");
        if let Some(stage) = plan.stages.last_mut() {
            stage.repeats = Repeats::fixed(repeats);
        }
        let repeats = report::plural(u64::from(repeats), "repeat");
        plan.notes.push(format!("A pilot: {repeats} of each cell."));
        Ok(plan)
    }
}

/// How many repeats of each cell would decide effects of 2 %, 5 % and 10 %, for the
/// metric of the answer, or else for each that a figure draws.
#[must_use]
pub fn pilot_text(plan: &Plan, records: &[Record]) -> String {
    let mut text = format!("{:36}{:>8}", "repeats that would decide", "spread");
    for effect in EFFECTS {
        let _ = write!(text, "{:>9}", units::show_share(effect));
    }
    text.push('\n');
    for metric in metrics(plan) {
        let Some(spread) = spread(plan, records, &metric.name) else {
            continue;
        };
        let title: String = metric.title.chars().take(35).collect();
        let spread_text = format!("{:.1}%", spread * 100.0);
        let _ = write!(text, "{title:36}{spread_text:>8}");
        for effect in EFFECTS {
            let repeats = match repeats_to_decide(spread, effect) {
                Some(repeats) => repeats.to_string(),
                None => format!("> {}", measure::limits::REPEATS_MAX),
            };
            let _ = write!(text, "{repeats:>9}");
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "Of each cell, so that the 95 % interval of a ratio excludes 1 in {:.0} % of all runs.",
        measure::POWER * 100.0
    );
    text
}

/// The metric of the answer; without an answer those that figures draw, or else the first that are
/// better in one direction.
fn metrics(plan: &Plan) -> Vec<&Metric> {
    let is_judged = |it: &&Metric| it.better != Better::Neither;
    if let Some(answer) = &plan.answer {
        return plan.metric(&answer.metric).into_iter().collect();
    }
    let mut seen = HashSet::new();
    let drawn = plan
        .figures
        .iter()
        .filter_map(|it| plan.metric(&it.y))
        .filter(is_judged);
    let drawn: Vec<&Metric> = drawn.filter(|it| seen.insert(&it.name)).collect();
    match drawn.is_empty() {
        true => plan
            .metrics
            .iter()
            .filter(is_judged)
            .take(limits::PILOT_METRICS)
            .collect(),
        false => drawn,
    }
}

/// The spread of a metric within the cells of the last stage.
fn spread(plan: &Plan, records: &[Record], metric: &str) -> Option<f64> {
    let stage = plan.last_stage()?;
    let mut cells: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for record in records.iter().filter(|it| it.stage == stage.name) {
        let measured = record.measured().filter(|it| it.fault.is_none());
        let counts = measured.filter(|it| !it.is_lower_bound(metric));
        let value = counts.and_then(|it| it.valid(metric));
        cells.entry(record.cell).or_default().extend(value);
    }
    pooled_spread(cells.values().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use report::record::{Measured, Outcome};

    use super::*;
    use crate::plan::tests::plan;
    use crate::tests::records::record;

    #[test]
    fn a_pilot_has_few_repeats_of_the_last_stage() {
        let experiment = Experiment::load("rate-ladder").unwrap();
        let plan = experiment.pilot(&Options::new().unwrap(), 3).unwrap();
        assert_eq!(plan.experiment, "rate-ladder-pilot");
        assert_eq!(plan.last_stage().unwrap().repeats, Repeats::fixed(3));
        assert!(
            plan.notes
                .iter()
                .any(|it| it == "A pilot: 3 repeats of each cell.")
        );
    }

    #[test]
    fn the_table_says_what_the_spread_asks_for() {
        let plan = plan(2);
        let stage = plan.last_stage().unwrap();
        let outcome = |repeat: u32| {
            let value = 1e6 * (1.0 + 0.05 * f64::from(repeat));
            Outcome::Measured(Measured {
                metrics: [("response_p99_ns".to_owned(), value)].into(),
                ..Measured::default()
            })
        };
        let trial = |cell, repeat| record(&plan, &stage.name, cell, repeat, outcome(repeat));
        let records: Vec<Record> = (0..6).map(|nth| trial(nth / 3, nth % 3)).collect();
        let text = pilot_text(&plan, &records);
        let line = text.lines().nth(1).unwrap();
        let fields: Vec<&str> = line.split_whitespace().rev().take(4).collect();
        // Within each cell: 1, 1.05 and 1.1.
        assert_eq!(fields, ["6", "17", "97", "4.8%"], "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        // An answer asks for its own metric alone.
        let answer = report::record::Answer {
            metric: "errors".to_owned(),
            baseline: [].into(),
            cells: [].into(),
        };
        let mut asked = plan.clone();
        asked.answer = Some(answer);
        assert!(!pilot_text(&asked, &records).contains("4.8%"));
        assert!(text.lines().all(|it| it.chars().count() <= 100));
    }
}
