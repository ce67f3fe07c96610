//! A plan as text: what would run, and for how long.

use std::fmt::Write;
use std::time::Duration;

use load::units::show_rate;
use report::folder::{Load, Phase, Plan, Sweep};

use super::estimate;
use super::order::{self, PlannedTrial};
use crate::units::duration_text;

/// Describes a run of `plan`: question, servers, load, sweep, time.
#[must_use]
pub fn plan_text(plan: &Plan) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_plan(&mut text, plan);
    text
}

fn write_plan(out: &mut String, plan: &Plan) -> std::fmt::Result {
    let quick = if plan.quick { " (quick)" } else { "" };
    writeln!(out, "{}{quick}: {}", plan.experiment, plan.question)?;
    for server in &plan.servers {
        match &server.skipped {
            Some(reason) => writeln!(out, "  skipped  {}: {reason}", server.name)?,
            None => writeln!(
                out,
                "  server   {}: {}",
                server.name,
                server.command.join(" ")
            )?,
        }
    }
    let load = &plan.load;
    writeln!(
        out,
        "  load     {} connections of depth {}, {} thread{}; keys {}, values {}, arrivals {}, \
         popularity {}, updates {} %, {} records{}",
        load.connections,
        load.depth,
        load.threads,
        if load.threads == 1 { "" } else { "s" },
        load.keys,
        load.values,
        load.arrivals,
        load.popularity,
        (load.update * 1e4).round() / 1e2,
        load.records,
        saturating(load),
    )?;
    writeln!(out, "  pinned   {}", pinned(plan))?;
    writeln!(out, "  sweep    {}", sweep(plan))?;
    if let Some(varied) = varied(plan) {
        writeln!(out, "  under    {varied}")?;
    }
    for note in &plan.notes {
        writeln!(out, "  note     {note}")?;
    }
    let trials = order::trials(plan).len();
    writeln!(
        out,
        "  time     {trials} trials of about {}: {} in all",
        duration_text(estimate::trial(plan)),
        duration_text(estimate::run(plan)),
    )
}

fn pinned(plan: &Plan) -> String {
    let list = |cpus: &[usize]| match cpus {
        [] => "not pinned".to_owned(),
        cpus => format!("on {}", cpu_list(cpus)),
    };
    let first = if plan.goes_first {
        ", both at nice -20"
    } else {
        ""
    };
    format!(
        "server {}, generator {}{first}",
        list(&plan.server_cpus),
        list(&plan.load_cpus)
    )
}

fn saturating(load: &Load) -> String {
    match load.saturating {
        0 => String::new(),
        count => format!("; {count} saturating of depth {}", load.saturating_depth),
    }
}

/// The values of the varied parameter.
fn varied(plan: &Plan) -> Option<String> {
    let conditions: Option<Vec<String>> =
        (0..plan.settings()).map(|at| plan.condition(at)).collect();
    let conditions = conditions?.join(", ").replace('\u{a0}', " ");
    Some(format!("{conditions}: the whole sweep under each"))
}

fn sweep(plan: &Plan) -> String {
    let cells_text = match &plan.sweep {
        Sweep::LoadLevels(levels) => {
            let levels: Vec<String> = levels.iter().map(ToString::to_string).collect();
            format!("{} of each server's capacity", levels.join(", "))
        }
        Sweep::Rates(rates) => {
            let rates: Vec<String> = rates.iter().map(|&rate| show_rate(rate)).collect();
            format!("{} requests per second", rates.join(", "))
        }
    };
    format!(
        "{cells_text}; {} repeat{} of {} after {} of warm-up; {} capacity trial{} per \
         server{}",
        plan.repeats,
        plural(plan.repeats),
        duration_text(Duration::from_nanos(plan.trial_ns)),
        duration_text(Duration::from_nanos(plan.warmup_ns)),
        plan.capacity_trials,
        plural(plan.capacity_trials),
        if plan.vary.is_some() {
            " and setting"
        } else {
            ""
        },
    )
}

/// The plural ending of a noun after `count`.
fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Processors as `taskset` writes them.
pub(crate) fn cpu_list(cpus: &[usize]) -> String {
    let words: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    words.join(",")
}

/// A trial's cell as text, such as `level 0.8` or `16 connections, level 0.8`.
pub(crate) fn cell_text(plan: &Plan, planned: &PlannedTrial) -> String {
    let (Sweep::LoadLevels(rates) | Sweep::Rates(rates)) = &plan.sweep;
    let rate = rates.get(plan.setting_and_rate(planned.cell).1 as usize);
    let rate = match (planned.phase, rate, planned.level) {
        (Phase::Capacity, ..) | (_, None, _) => "capacity".to_owned(),
        (Phase::Sweep, _, Some(level)) => format!("level {level}"),
        (Phase::Sweep, Some(&rate), None) => format!("{}/s", show_rate(rate)),
    };
    match plan.condition(planned.setting) {
        Some(condition) => format!("{}, {rate}", condition.replace('\u{a0}', " ")),
        None => rate,
    }
}
