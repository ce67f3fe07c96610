//! Checks the settings of an experiment of this kind, before anything is started.

use std::collections::BTreeSet;
use std::time::Duration;

use report::record::Factors;

use super::words::CLIENT;
use super::{BUILD, Beside, OWN, Program, disk, energy, extract, histogram, level};
use crate::error::Error;
use crate::relayed;
use crate::hosts_table::HostsTable;
use crate::kind::Violation;
use crate::{limits, placeholder};

/// The placeholders that are no factors.
const PLACEHOLDERS: [&str; 9] =
    ["ip", "port", "seed", "trial", "curtail", BUILD, CLIENT, disk::FILES, level::RATE];

pub(super) fn check(program: &Program, cells: &[Factors]) -> Result<(), Violation> {
    let table = &program.program;
    let violation = |table, nth, key, problem: String| Err(Violation::new(table, nth, key, problem));
    if table.command.is_empty() {
        let problem = "is empty: give the program and its arguments";
        return violation("[program]", 0, "command", problem.to_owned());
    }
    let most = limits::PROGRAM_TIMEOUT;
    let is_timeout = |it: Duration| !it.is_zero() && it <= most;
    let no_timeout = || format!("is not above 0 and at most {}", units::duration_text(most));
    if !is_timeout(table.timeout) {
        return violation("[program]", 0, "timeout", no_timeout());
    }
    if program.before.len() > limits::BEFORE {
        let problem = format!("tables are {}, at most {}", program.before.len(), limits::BEFORE);
        return violation("", 0, "before", problem);
    }
    for (nth, before) in program.before.iter().enumerate() {
        if before.command.is_empty() {
            let problem = "is empty: give the program and its arguments";
            return violation("[[before]]", nth, "command", problem.to_owned());
        }
        if !is_timeout(before.timeout) {
            return violation("[[before]]", nth, "timeout", no_timeout());
        }
    }
    if program.beside.len() > limits::BESIDE {
        let problem = format!("tables are {}, at most {}", program.beside.len(), limits::BESIDE);
        return violation("", 0, "beside", problem);
    }
    for (nth, beside) in program.beside.iter().enumerate() {
        if beside.command.is_empty() {
            let problem = "is empty: give the program and its arguments";
            return violation("[[beside]]", nth, "command", problem.to_owned());
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_again = program.beside[..nth].iter().any(|it| it.name == beside.name);
        if beside.name.is_empty() || !beside.name.chars().all(is_plain) || is_again {
            let problem = "must be letters, digits, `_` or `-`, and of no other process";
            return violation("[[beside]]", nth, "name", problem.to_owned());
        }
        if let Some(line) = &beside.ready.line
            && let Err(error) = regex_lite::Regex::new(line)
        {
            let problem = format!("has a `line` that is no regular expression: {error}");
            return violation("[[beside]]", nth, "ready", problem);
        }
    }
    let beside: Vec<&str> = program.beside.iter().map(|it| it.name.as_str()).collect();
    extract::check(&program.metric, &beside)?;
    let clients = program.hosts.largest(cells).clients;
    histogram::check(&program.histogram, &program.metric, clients)?;
    check_hosts(program, cells)?;
    for metric in &program.metric {
        let is_own = OWN.iter().any(|it| it.0 == metric.name());
        let is_relays = relayed::metrics().iter().any(|it| it.name == metric.name());
        let is_energy = energy::metrics(true).iter().any(|it| it.name == metric.name());
        if is_own || is_energy || (is_relays && program.hosts.has_namespaces()) {
            let problem = format!("`{}` is measured of every program", metric.name());
            return violation("", 0, "metric", problem);
        }
    }
    if let (Some(requests), None) = (&table.requests, program.requests()) {
        let problem = format!("is `{requests}`, which is no [[metric]] with the unit `count` or `/s`");
        return violation("[program]", 0, "requests", problem);
    }
    if let Some(disk) = &program.disk {
        let checked = disk.check(cells);
        checked.map_err(|(key, problem)| Violation::new("[disk]", 0, key, problem))?;
    }
    if let Some(level) = &program.level {
        if !program.metric.iter().any(|it| it.name() == level.metric) {
            let problem = format!("is `{}`, which is no [[metric]]", level.metric);
            return violation("[level]", 0, "metric", problem);
        }
        if !(1..=limits::REPEATS).contains(&level.trials) {
            let problem = format!("is {}, not 1 to {}", level.trials, limits::REPEATS);
            return violation("[level]", 0, "trials", problem);
        }
    }
    check_placeholders(program, cells)
}

/// A process cannot be started on processors that are not there.
pub(super) fn check_cpus(program: &Program, allowed: &[usize]) -> Result<(), Error> {
    let beside = program.beside.iter();
    let beside = beside.map(|it| (format!("[[beside]] `{}`", it.name), &it.cpus));
    let own = ("[program]".to_owned(), &program.program.cpus);
    for (table, cpus) in std::iter::once(own).chain(beside) {
        if let Some(absent) = cpus.iter().find(|it| !allowed.contains(it)) {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            return Err(Error::Experiment {
                place: format!("`cpus` in {table}"),
                problem: format!(
                    "has {absent}, which this process may not use: choose from {}, or remove \
                     `cpus`",
                    allowed.join(", ")
                ),
            });
        }
    }
    Ok(())
}

fn check_hosts(program: &Program, cells: &[Factors]) -> Result<(), Violation> {
    let hosts = &program.hosts;
    if hosts.detect_stalls {
        let problem = "is of kind `cache`: use `curtail load --detect-stalls` as the program";
        return Err(Violation::new("[hosts]", 0, "detect-stalls", problem));
    }
    hosts.check(cells)?;
    for cell in cells {
        let stagger = program.program.stagger(cell);
        stagger.map_err(|problem| Violation::new("[program]", 0, "stagger", problem))?;
    }
    if hosts.largest(cells).clients > 1 {
        for (nth, metric) in program.metric.iter().enumerate() {
            if let Some(key) = metric.of_one_client() {
                let problem = "needs one client: those of several clients are not combined";
                return Err(Violation::new("[[metric]]", nth, key, problem));
            }
        }
    }
    Ok(())
}

/// Each placeholder must be a factor of some cell, and each factor must be used. What a process
/// cannot do without must have a value in every cell.
fn check_placeholders(program: &Program, cells: &[Factors]) -> Result<(), Violation> {
    let table = &program.program;
    // Those of the clients, and those that are the same for all clients.
    let mut words: Vec<&String> = table.command.iter().chain(&table.input).collect();
    words.extend(table.environment.values());
    let mut common: Vec<&String> = Vec::new();
    // The programs, and the addresses of probes.
    let mut needed: Vec<&String> = table.command.first().into_iter().collect();
    needed.extend(table.input.first());
    for before in &program.before {
        words.extend(before.command.iter().chain(&before.input));
        needed.extend(before.command.first().into_iter().chain(before.input.first()));
    }
    for beside in &program.beside {
        common.extend(beside.command.iter().chain(beside.environment.values()));
        common.extend(beside.ready.command.iter().chain(&beside.ready.connect));
        needed.extend(beside.command.first().into_iter().chain(&beside.ready.connect));
        needed.extend(beside.ready.command.first());
    }
    let refuse = |word: &String, problem: String| {
        let (table, nth, key) = place_of(program, word);
        Err(Violation::new(table, nth, key, problem))
    };
    let factors: BTreeSet<&str> = cells.iter().flat_map(Factors::keys).map(String::as_str).collect();
    let is_of_clients = |word: &String| {
        placeholder::names(word).contains(&CLIENT) && !factors.contains(CLIENT)
    };
    if let Some(word) = common.iter().find(|it| is_of_clients(it)) {
        let problem = "has `{client}`, but runs once for all clients: only [program] and \
                       [[before]] have it";
        return refuse(word, problem.to_owned());
    }
    let disks = program.disk.iter();
    let of_disk = disks.flat_map(|it| [&it.law, &it.fill].into_iter().chain(&it.memory));
    common.extend(of_disk.clone());
    needed.extend(of_disk);
    words.append(&mut common);
    words.push(&table.stagger);
    for word in &words {
        // The time between two starts is known before the trial.
        let is_early = **word == table.stagger;
        let mut names = placeholder::names(word).into_iter();
        let is_given = |it: &&str| is_given(program, it) && !is_early;
        if let Some(name) = names.find(|it| !factors.contains(it) && !is_given(it)) {
            let near = crate::error::nearest(name, factors.iter().copied());
            let near = crate::error::did_you_mean(near);
            return refuse(word, format!("has `{{{name}}}`, which is no factor{near}"));
        }
    }
    for cell in cells {
        for word in &needed {
            let mut names = placeholder::names(word).into_iter();
            let has_value = |it: &&str| cell.contains_key(*it) || is_given(program, it);
            if let Some(name) = names.find(|it| !has_value(it)) {
                let problem = "which has no value in some cells: only an argument can be left out";
                return refuse(word, format!("has `{{{name}}}`, {problem}"));
            }
        }
        let is_used = |name: &&String| {
            let holder = format!("{{{name}}}");
            let is_level = program.level.is_some() && name.as_str() == level::LEVEL;
            is_level || HostsTable::is_factor(name) || words.iter().any(|word| word.contains(&holder))
        };
        if let Some(unused) = cell.keys().find(|name| !is_used(name)) {
            let problem = format!("has `{unused}`, but no command contains `{{{unused}}}`");
            return Err(Violation::new("", 0, "factor", problem));
        }
    }
    Ok(())
}

/// Whether a placeholder has a value that is no factor's.
fn is_given(program: &Program, name: &str) -> bool {
    match name {
        disk::FILES => program.disk.is_some(),
        level::RATE => program.level.is_some(),
        name => PLACEHOLDERS.contains(&name),
    }
}

/// The table and key of a word of a command, an environment or a probe.
fn place_of(program: &Program, word: &String) -> (&'static str, usize, &'static str) {
    let of_beside = |it: &Beside| {
        let in_ready = it.ready.command.contains(word) || it.ready.connect.as_ref() == Some(word);
        let is_value = it.environment.values().any(|value| value == word);
        match it.command.contains(word) {
            true => Some("command"),
            false if is_value => Some("environment"),
            false => in_ready.then_some("ready"),
        }
    };
    let table = &program.program;
    if table.command.contains(word) {
        return ("[program]", 0, "command");
    }
    if table.input.contains(word) {
        return ("[program]", 0, "input");
    }
    if let Some(disk) = &program.disk {
        if disk.law == *word {
            return ("[disk]", 0, "law");
        }
        if disk.memory.as_ref() == Some(word) {
            return ("[disk]", 0, "memory");
        }
        if disk.fill == *word {
            return ("[disk]", 0, "fill");
        }
    }
    if table.stagger == *word {
        return ("[program]", 0, "stagger");
    }
    for (nth, before) in program.before.iter().enumerate() {
        if before.command.contains(word) {
            return ("[[before]]", nth, "command");
        }
        if before.input.contains(word) {
            return ("[[before]]", nth, "input");
        }
    }
    let beside = program.beside.iter().enumerate();
    let mut places = beside.filter_map(|(nth, it)| Some(("[[beside]]", nth, of_beside(it)?)));
    places.next().unwrap_or(("[program]", 0, "environment"))
}
