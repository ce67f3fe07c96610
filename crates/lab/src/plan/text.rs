//! A plan as text: which trials would run, in which order, and for how long.

use std::fmt::Write;

use report::record::{Factors, Plan};

use super::estimate::Total;
use super::order::PlannedTrial;
use super::{Options, kind_of, order};
use crate::error::Error;
use crate::kind::Kind;
use crate::limits;

/// Describes a run of `plan`: question, settings, factors, order and time.
pub fn plan_text(plan: &Plan, options: &Options) -> Result<String, Error> {
    let kind = kind_of(plan, options)?;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_plan(&mut text, plan, &*kind);
    Ok(text)
}

fn write_plan(out: &mut String, plan: &Plan, kind: &dyn Kind) -> std::fmt::Result {
    let quick = if plan.quick { " (quick)" } else { "" };
    writeln!(out, "{}{quick}: {}", plan.experiment, plan.question)?;
    for line in kind.describe() {
        writeln!(out, "  {line}")?;
    }
    for factor in &plan.factors {
        let values = factor.values.iter().map(|it| factor.value_text(it));
        let values: Vec<String> = values.collect();
        let values = values.join(", ").replace('\u{a0}', " ");
        writeln!(out, "  factor   {}: {values}", factor.name)?;
    }
    for stage in &plan.stages {
        let repeats = &stage.repeats;
        let count = match &repeats.until {
            None => format!("{} of each", repeats.most),
            Some(until) => format!(
                "{} to {} of each, until the interval of {} is at most {} of its median",
                repeats.least, repeats.most, until.metric, until.width
            ),
        };
        writeln!(
            out,
            "  stage    {}: {} cells, {count}",
            stage.name,
            stage.cells.len()
        )?;
    }
    for note in &plan.notes {
        writeln!(out, "  note     {note}")?;
    }
    let trials = order::trials(plan, kind);
    let first: Vec<String> = trials
        .iter()
        .take(limits::ORDER_SHOWN)
        .map(|it| cell_text(plan, it))
        .collect();
    let more = if trials.len() > first.len() {
        "; …"
    } else {
        ""
    };
    writeln!(out, "  order    {}{more}", first.join("; "))?;
    writeln!(out, "  time     {}", Total::of(plan, kind).words())
}

/// A trial's cell as text, such as `curtail, 16 connections, load level 0.8`.
pub(crate) fn cell_text(plan: &Plan, planned: &PlannedTrial) -> String {
    let stage = &plan.stages[planned.stage];
    let cell = stage.cells.get(planned.cell as usize);
    let text = cell.map_or_else(String::new, |cell| factors_text(plan, cell));
    match planned.stage + 1 == plan.stages.len() {
        true => text,
        false => format!("{text}, {}", stage.name),
    }
}

pub(crate) fn factors_text(plan: &Plan, cell: &Factors) -> String {
    let words: Vec<String> = plan
        .factors
        .iter()
        .filter_map(|factor| {
            let value = cell.get(&factor.name)?;
            let words = factor.words(value);
            // Without the preposition, which a list does not need.
            let words = words.strip_prefix("with ").or(words.strip_prefix("at "));
            Some(words.map_or_else(|| factor.words(value), str::to_owned))
        })
        .collect();
    words.join(", ").replace('\u{a0}', " ")
}
