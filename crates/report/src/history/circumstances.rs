//! Which runs of an experiment have a common history, and what else changed between two of them.
//!
//! All runs are compared with the latest one. Runs on another machine, or whose file stated other
//! settings, are left out: their level would be another one without a change of what is measured.
//! Builds, the kernel, and versions of servers are what a history is about; they are listed at the
//! changes.

use toml::{Table, Value};

use crate::compare::check_comparable;
use crate::record::Difference;
use crate::{Run, units};

/// The part of the settings that says which programs were found and started.
const PROGRAMS: [&str; 2] = ["servers", "builds"];
/// Differences that a reason names.
const NAMED: usize = 3;
/// Characters of a value within a reason.
const VALUE_CHARACTERS: usize = 48;

/// Leaves out the runs that the latest one cannot be compared with.
pub(super) fn leave_out(runs: &mut Vec<Run>, metric: &str, left_out: &mut Vec<(String, String)>) {
    let Some(latest) = runs.last().cloned() else {
        return;
    };
    runs.retain(|run| match reason(&latest, run, metric) {
        None => true,
        Some(reason) => {
            left_out.push((run.folder.display().to_string(), reason));
            false
        }
    });
}

/// Why a run has no place in the history of the latest one, as a clause.
fn reason(latest: &Run, run: &Run, metric: &str) -> Option<String> {
    if let Err(reason) = check_comparable(&latest.plan, &run.plan) {
        return Some(reason);
    }
    let metrics = latest
        .plan
        .metric(metric)
        .map(|it| (it, run.plan.metric(metric)));
    match metrics {
        Some((_, None)) => return Some("it does not have the metric".to_owned()),
        Some((own, Some(other))) if own.unit != other.unit => {
            return Some("its metric has another unit".to_owned());
        }
        _ => {}
    }
    let machine = run.host.differences(&latest.host);
    let machine: Vec<Difference> = machine.into_iter().filter(|it| !is_kernel(it)).collect();
    if !machine.is_empty() {
        return Some(format!("another machine: {}", listed(&machine)));
    }
    let mut settings = Vec::new();
    for (key, own) in &latest.plan.settings {
        let other = run.plan.settings.get(key);
        if let Some(other) = other.filter(|_| !PROGRAMS.contains(&key.as_str())) {
            compare(key, other, own, &mut settings);
        }
    }
    (!settings.is_empty()).then(|| format!("other settings: {}", listed(&settings)))
}

fn is_kernel(difference: &Difference) -> bool {
    difference.what == "kernel"
}

/// Adds the values that both have under a key and that differ.
fn compare(key: &str, first: &Value, second: &Value, found: &mut Vec<Difference>) {
    match (first, second) {
        (Value::Table(first), Value::Table(second)) => {
            for (name, first) in first {
                if let Some(second) = second.get(name) {
                    compare(&format!("{key}.{name}"), first, second, found);
                }
            }
        }
        (Value::Array(firsts), Value::Array(seconds))
            if firsts.len() == seconds.len() && firsts.iter().all(Value::is_table) =>
        {
            for (index, (first, second)) in firsts.iter().zip(seconds).enumerate() {
                // A server's name says more than its place.
                let name = first.get("name").and_then(Value::as_str);
                let name = name.map_or_else(|| index.to_string(), str::to_owned);
                compare(&format!("{key}.{name}"), first, second, found);
            }
        }
        _ if first != second => found.push(Difference {
            what: key.to_owned(),
            first: first.to_string(),
            second: second.to_string(),
        }),
        _ => {}
    }
}

/// `load.connections 512 (latest run: 1024), …`.
fn listed(differences: &[Difference]) -> String {
    let short = |text: &str| units::shortened(text, VALUE_CHARACTERS);
    let named = differences.iter().take(NAMED);
    let mut clauses: Vec<String> = named
        .map(|it| {
            let (first, second) = (short(&it.first), short(&it.second));
            format!("{} {first} (latest run: {second})", it.what)
        })
        .collect();
    let others = differences.len().saturating_sub(NAMED);
    if others > 0 {
        clauses.push(units::plural(others as u64, "other"));
    }
    clauses.join(", ")
}

/// What else differs between two runs of a history: the build, the kernel, the programs, and
/// settings that only one of them has.
pub(super) fn differences(before: &Run, after: &Run) -> Vec<Difference> {
    let mut found = before.host.differences(&after.host);
    found.retain(is_kernel);
    found.extend(before.host.build_difference(&after.host));
    for key in PROGRAMS {
        let [first, second] = [before, after].map(|run| run.plan.settings.get(key));
        if let Some((first, second)) = first.zip(second) {
            compare(key, first, second, &mut found);
        }
    }
    one_sided("", &before.plan.settings, &after.plan.settings, &mut found);
    found
}

/// Adds the settings that only one of two runs has.
fn one_sided(path: &str, before: &Table, after: &Table, found: &mut Vec<Difference>) {
    let absent = || "absent".to_owned();
    let mut add = |name: &str, first: String, second: String| {
        let what = format!("{path}{name}");
        found.push(Difference {
            what,
            first,
            second,
        });
    };
    for (name, value) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        add(name, value.to_string(), absent());
    }
    for (name, value) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
        add(name, absent(), value.to_string());
    }
    for (name, before) in before
        .iter()
        .filter_map(|(name, it)| Some((name, it.as_table()?)))
    {
        if let Some(after) = after.get(name).and_then(Value::as_table) {
            one_sided(&format!("{path}{name}."), before, after, found);
        }
    }
}

/// Differences as a clause: `kernel Linux 6.1 → Linux 6.12; …`. Empty: there are none.
pub(super) fn words(differences: &[Difference]) -> String {
    let short = |text: &str| units::shortened(text, VALUE_CHARACTERS);
    let clauses = differences
        .iter()
        .map(|it| format!("{} {} → {}", it.what, short(&it.first), short(&it.second)));
    clauses.collect::<Vec<_>>().join("; ")
}
