//! Checks the settings of an experiment of this kind, before anything is started.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use report::record::Factors;
use report::record::names::{CAPACITY_RPS, LEVEL, OFFERED_RPS, RATE, SERVER};
use units::duration_text;

use super::beside::Ready;
use super::task::SUMMARY;
use super::words::CLIENT;
use super::{BUILD, Setup, disk, energy, extract, load, summary};
use crate::design::check_name;
use crate::error::{Error, suggestion};
use crate::hosts_table::HostsTable;
use crate::kind::Violation;
use crate::{limits, placeholder, relayed};

/// The placeholders that are no factors.
const PLACEHOLDERS: [&str; 8] = [
    "ip",
    "port",
    "seed",
    "trial",
    "curtail",
    BUILD,
    CLIENT,
    disk::FILES,
];

pub(super) fn check(setup: &Setup, cells: &[Factors]) -> Result<(), Violation> {
    let at_top = |key: &str, problem: String| Err(Violation::new("", 0, key, problem));
    match (&setup.load, &setup.program) {
        (None, None) => {
            let problem = "or [program] is missing: an empty [load] has the defaults of `curtail \
                           load`";
            return at_top("load", problem.to_owned());
        }
        (Some(_), Some(_)) => {
            let problem = "is there beside [load]: keep one of them as the load";
            return at_top("program", problem.to_owned());
        }
        (Some(_), None) if setup.server.is_empty() && setup.beside.is_empty() => {
            let problem = "is missing: a [load] needs a [[server]], or a [[beside]] process that \
                           listens at `{port}`";
            return at_top("server", problem.to_owned());
        }
        _ => {}
    }
    if !(0.0..=1.0).contains(&setup.failures_max) {
        let problem = format!("is {}, not a share from 0 to 1", setup.failures_max);
        return at_top("failures-max", problem);
    }
    if let Some(name) = setup
        .labels
        .iter()
        .find(|it| !cells.iter().any(|cell| cell.contains_key(*it)))
    {
        return at_top("labels", format!("has `{name}`, which is no factor"));
    }
    check_times(setup)?;
    check_commands(setup)?;
    check_servers(setup)?;
    check_metrics(setup, cells)?;
    check_hosts(setup, cells)?;
    if let Some(load) = &setup.load {
        load.check(cells)?;
    }
    if let Some(disk) = &setup.disk {
        let checked = disk.check(cells);
        checked.map_err(|(key, problem)| Violation::new("[disk]", 0, key, problem))?;
    }
    check_capacity(setup, cells)?;
    check_placeholders(setup, cells)
}

fn check_times(setup: &Setup) -> Result<(), Violation> {
    let at_top = |key: &str, problem: String| Err(Violation::new("", 0, key, problem));
    let (least, most) = (limits::TRIAL_MIN, limits::TRIAL_MAX);
    let is_load = setup.load.is_some();
    for (key, time) in [("trial", setup.trial), ("warmup", setup.warmup)] {
        if time.is_some() && !is_load {
            let problem = "is of a [load]: a [program] takes its own time";
            return at_top(key, problem.to_owned());
        }
    }
    if let Some(trial) = setup.trial
        && !(least..=most).contains(&trial)
    {
        let [trial, least, most] = [trial, least, most].map(duration_text);
        return at_top("trial", format!("is {trial}, not {least} to {most}"));
    }
    if setup.warmup.is_some_and(|it| it > most) {
        return at_top("warmup", format!("is more than {}", duration_text(most)));
    }
    Ok(())
}

fn check_commands(setup: &Setup) -> Result<(), Violation> {
    let violation = |table, nth, key, problem: &str| Err(Violation::new(table, nth, key, problem));
    let most = limits::PROGRAM_TIMEOUT;
    // A process beside the load runs until it is stopped.
    let is_started = |table, nth, command: &[String], timeout: Option<Duration>| {
        if command.is_empty() {
            return violation(
                table,
                nth,
                "command",
                "is empty: give the program and its arguments",
            );
        }
        if timeout.is_some_and(|it| it.is_zero() || it > most) {
            let problem = format!("is not above 0 and at most {}", duration_text(most));
            return violation(table, nth, "timeout", &problem);
        }
        Ok(())
    };
    if let Some(program) = &setup.program {
        is_started("[program]", 0, &program.command, Some(program.timeout))?;
        let counts = |name: &&String| {
            let of = setup.metric.iter().find(|it| it.name == **name);
            of.is_some_and(|it| ["count", "/s"].contains(&it.unit.as_str()))
        };
        if let Some(name) = program.requests.as_ref().filter(|it| !counts(it)) {
            let problem =
                format!("is `{name}`, which is no [[metric]] with the unit `count` or `/s`");
            return violation("[program]", 0, "requests", &problem);
        }
    }
    for (key, count, most) in [
        ("before", setup.before.len(), limits::BEFORE),
        ("beside", setup.beside.len(), limits::BESIDE),
    ] {
        if count > most {
            return violation("", 0, key, &format!("tables are {count}, at most {most}"));
        }
    }
    for (nth, before) in setup.before.iter().enumerate() {
        is_started("[[before]]", nth, &before.command, Some(before.timeout))?;
    }
    for (nth, beside) in setup.beside.iter().enumerate() {
        is_started("[[beside]]", nth, &beside.command, None)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_again = setup.beside[..nth].iter().any(|it| it.name == beside.name)
            || (beside.name == SERVER && !setup.server.is_empty());
        if beside.name.is_empty() || !beside.name.chars().all(is_plain) || is_again {
            let problem = "must be letters, digits, `_` or `-`, and of no other process";
            return violation("[[beside]]", nth, "name", problem);
        }
        check_ready("[[beside]]", nth, &beside.ready)?;
    }
    Ok(())
}

fn check_ready(table: &str, nth: usize, ready: &Ready) -> Result<(), Violation> {
    let regex = ready.line.as_ref().map(|it| regex_lite::Regex::new(it));
    match regex {
        Some(Err(error)) => {
            let problem = format!("has a `line` that is no regular expression: {error}");
            Err(Violation::new(table, nth, "ready", problem))
        }
        _ => Ok(()),
    }
}

fn check_servers(setup: &Setup) -> Result<(), Violation> {
    const TABLE: &str = "[[server]]";
    let count = setup.server.len();
    if count > limits::SERVERS {
        let problem = format!("tables are {count}, at most {}", limits::SERVERS);
        return Err(Violation::new("", 0, "server", problem));
    }
    let mut names = HashSet::new();
    for (nth, server) in setup.server.iter().enumerate() {
        let violation = |key, problem: &str| Err(Violation::new(TABLE, nth, key, problem));
        check_name(&server.name).or_else(|problem| violation("name", &problem))?;
        if !names.insert(&server.name) {
            return violation("name", "is used by another server");
        }
        if server.arguments.len() > limits::ARGUMENTS {
            return violation("arguments", "has too many entries");
        }
        match &server.ready {
            Some(ready) => check_ready(TABLE, nth, ready)?,
            None if !server.arguments.iter().any(|it| it.contains("{port}")) => {
                return violation("arguments", "lacks `{port}`: the lab assigns the port");
            }
            None => {}
        }
        let local = ["127.0.0.1", "localhost"];
        let is_local = |it: &&&str| server.arguments.iter().any(|word| word.contains(**it));
        if let Some(local) = local.iter().find(is_local)
            && setup.hosts.has_namespaces()
        {
            let problem = format!(
                "have `{local}`, which clients on other hosts cannot reach: write `{{ip}}`, the \
                 address of the server's host"
            );
            return violation("arguments", &problem);
        }
    }
    Ok(())
}

fn check_metrics(setup: &Setup, cells: &[Factors]) -> Result<(), Violation> {
    let beside: Vec<&str> = setup.beside.iter().map(|it| it.name.as_str()).collect();
    extract::check(&setup.metric, &beside)?;
    let clients = setup.hosts.largest(cells).clients;
    let mut known = vec![OFFERED_RPS.to_owned(), CAPACITY_RPS.to_owned()];
    if setup.program.is_some() {
        known.extend(super::OWN.iter().map(|it| it.0.to_owned()));
    }
    known.extend(super::AROUND.iter().map(|it| it.0.to_owned()));
    let mut own = energy::metrics(true);
    own.extend(relayed::metrics());
    if setup.has_summary() {
        own.extend(summary::metrics());
    }
    if setup.disk.is_some() {
        own.extend(disk::metrics());
    }
    known.extend(own.into_iter().map(|it| it.name));
    for (nth, metric) in setup.metric.iter().enumerate() {
        if known.contains(&metric.name) {
            let problem = "is measured of every trial: remove the table, or choose another name";
            return Err(Violation::new("[[metric]]", nth, "name", problem));
        }
        if metric.series && clients > 1 {
            let problem = "needs one client: those of several clients are not combined";
            return Err(Violation::new("[[metric]]", nth, "series", problem));
        }
    }
    Ok(())
}

fn check_hosts(setup: &Setup, cells: &[Factors]) -> Result<(), Violation> {
    let hosts = &setup.hosts;
    hosts.check(cells)?;
    if hosts.detect_stalls {
        let problem = match (&setup.load, setup.pins.server.is_empty()) {
            (Some(_), false) => None,
            (Some(_), true) => {
                Some("needs `server` in [pins]: stalls are those of the server's first processor")
            }
            (None, _) => Some("is of a [load]: use `curtail load --detect-stalls` as the program"),
        };
        if let Some(problem) = problem {
            return Err(Violation::new("[hosts]", 0, "detect-stalls", problem));
        }
    }
    let Some(load) = setup.load.as_ref().filter(|it| it.has_agents()) else {
        return Ok(());
    };
    hosts.check_clients_are_hosts(cells)?;
    for cell in cells {
        let (Ok(table), Ok(load)) = (hosts.at(cell), load.at(cell)) else {
            continue;
        };
        let (clients, config) = (table.clients, &load.config);
        let needed = u32::from(clients).saturating_mul(config.threads);
        if clients > 1 && config.connections < needed {
            let problem = format!(
                "is {clients}, and {} connections are too few for that many agents of {} threads",
                config.connections, config.threads
            );
            return Err(Violation::new("[hosts]", 0, "clients", problem));
        }
    }
    Ok(())
}

/// Capacity trials exclude saturating connections: a capacity is the rate of a server without other
/// load.
fn check_capacity(setup: &Setup, cells: &[Factors]) -> Result<(), Violation> {
    let table = &setup.capacity;
    let violation = |key: &str, problem: String| Err(Violation::new("[capacity]", 0, key, problem));
    if table.trials > limits::REPEATS {
        return violation("trials", format!("is more than {}", limits::REPEATS));
    }
    let missing = table.of.keys().find(|name| {
        let is_rate = [RATE, LEVEL].contains(&name.as_str());
        is_rate || !cells.iter().all(|cell| cell.contains_key(*name))
    });
    if let Some(name) = missing {
        let problem = format!("has `{name}`, which is no factor of all cells besides the rate");
        return violation("of", problem);
    }
    if let Some(name) = table.of.get(SERVER).map(ToString::to_string) {
        let names = || setup.server.iter().map(|it| it.name.as_str());
        if !setup.server.is_empty() && !names().any(|it| it == name) {
            let near = suggestion(&name, names());
            return violation(
                "of",
                format!("has the server `{name}`, which no [[server]] table declares{near}"),
            );
        }
    }
    let has = |name: &str| cells.iter().any(|it| it.contains_key(name));
    if has(LEVEL) {
        let both = cells
            .iter()
            .any(|it| it.contains_key(LEVEL) && it.contains_key(RATE));
        let of_all = setup.rate_of_all().is_some();
        if both || of_all {
            let problem = "has both `rate` and `level`: keep one";
            return Err(Violation::new("", 0, "factor", problem));
        }
        if table.trials == 0 && setup.load.is_some() {
            let problem = "must be at least 1: levels are shares of a measured capacity";
            return violation("trials", problem.to_owned());
        }
    }
    if table.trials == 0 {
        return Ok(());
    }
    if !setup.has_summary() && !setup.metric.iter().any(|it| it.name == table.metric()) {
        let problem = match &table.metric {
            Some(name) => format!("is `{name}`, which is no [[metric]]"),
            None => "is missing: name the [[metric]] that is the rate of the program".to_owned(),
        };
        return violation("metric", problem);
    }
    let is_saturated = |cell: &Factors| {
        let load = setup.load.as_ref().and_then(|it| it.at(cell).ok());
        load.is_some_and(|it| it.config.saturating_connections > 0)
    };
    if cells.iter().any(is_saturated) {
        let problem = "with saturating connections would measure only the capacity they leave: \
                       remove it, and give a factor `rate`";
        return violation("trials", problem.to_owned());
    }
    Ok(())
}

/// Where a word stands: table, number, key.
type Place = (&'static str, usize, &'static str);

/// A word of a command, an environment or a probe.
struct Word<'a> {
    text: &'a str,
    place: Place,
    /// A process cannot do without it: programs, and the addresses of probes.
    is_needed: bool,
    /// Runs on each client.
    is_of_client: bool,
    /// The server whose word it is.
    server: Option<&'a str>,
}

/// Words of which those after the first `needed` may be left out.
fn of<'a>(
    needed: usize,
    place: Place,
    texts: impl IntoIterator<Item = &'a String>,
) -> impl Iterator<Item = Word<'a>> {
    texts.into_iter().enumerate().map(move |(at, text)| Word {
        text,
        place,
        is_needed: at < needed,
        is_of_client: false,
        server: None,
    })
}

const ALL: usize = usize::MAX;

fn ready(place: Place, ready: &Ready) -> impl Iterator<Item = Word<'_>> {
    of(ALL, place, &ready.connect).chain(of(1, place, &ready.command))
}

/// All words that may have placeholders.
fn words(setup: &Setup) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    if let Some(load) = &setup.load {
        words.extend(of(0, ("[load]", 0, "arguments"), &load.arguments));
        words.extend(of(1, ("[load]", 0, "under"), &load.under));
        words.extend(of(1, ("[load]", 0, "input"), &load.input));
    }
    if let Some(program) = &setup.program {
        words.extend(of(1, ("[program]", 0, "command"), &program.command));
        words.extend(of(1, ("[program]", 0, "input"), &program.input));
        let values = program.environment.values();
        words.extend(of(0, ("[program]", 0, "environment"), values));
    }
    for (nth, before) in setup.before.iter().enumerate() {
        words.extend(of(1, ("[[before]]", nth, "command"), &before.command));
        words.extend(of(1, ("[[before]]", nth, "input"), &before.input));
    }
    words.iter_mut().for_each(|word| word.is_of_client = true);
    for (nth, beside) in setup.beside.iter().enumerate() {
        let place = |key| ("[[beside]]", nth, key);
        words.extend(of(1, place("command"), &beside.command));
        words.extend(of(0, place("environment"), beside.environment.values()));
        words.extend(ready(place("ready"), &beside.ready));
    }
    for (nth, server) in setup.server.iter().enumerate() {
        let place = |key| ("[[server]]", nth, key);
        let mut own: Vec<Word<'_>> = of(0, place("arguments"), &server.arguments).collect();
        own.extend(of(0, place("environment"), server.environment.values()));
        let probes = server.ready.iter();
        own.extend(probes.flat_map(|it| ready(place("ready"), it)));
        let name = Some(server.name.as_str());
        words.extend(own.into_iter().map(|word| Word {
            server: name,
            ..word
        }));
    }
    if let Some(disk) = &setup.disk {
        words.extend(of(ALL, ("[disk]", 0, "law"), [&disk.law]));
        words.extend(of(ALL, ("[disk]", 0, "fill"), [&disk.fill]));
        words.extend(of(ALL, ("[disk]", 0, "memory"), &disk.memory));
    }
    for (nth, metric) in setup.metric.iter().enumerate() {
        words.extend(of(ALL, ("[[metric]]", nth, "file"), &metric.file));
    }
    words
}

/// Each placeholder must be a factor of some cell, and each factor must be used. What a process
/// cannot do without must have a value in every cell.
fn check_placeholders(setup: &Setup, cells: &[Factors]) -> Result<(), Violation> {
    let words = words(setup);
    let refuse = |word: &Word<'_>, problem: String| {
        let (table, nth, key) = word.place;
        Err(Violation::new(table, nth, key, problem))
    };
    let is_given = |word: &Word<'_>, name: &str| match name {
        disk::FILES => setup.disk.is_some(),
        CLIENT => word.is_of_client,
        SUMMARY => false,
        RATE => setup.capacity.trials > 0 || setup.rate_of_all().is_some(),
        name => PLACEHOLDERS.contains(&name),
    };
    let factors: BTreeSet<&str> = cells
        .iter()
        .flat_map(Factors::keys)
        .map(String::as_str)
        .collect();
    for word in &words {
        for name in placeholder::names(word.text) {
            if factors.contains(name) || is_given(word, name) {
                continue;
            }
            if name == CLIENT {
                let problem = "has `{client}`, but runs once for all clients: only the load and \
                               [[before]] have it";
                return refuse(word, problem.to_owned());
            }
            let near = suggestion(name, factors.iter().copied().chain(PLACEHOLDERS));
            return refuse(word, format!("has `{{{name}}}`, which is no factor{near}"));
        }
    }
    for cell in cells {
        let own = cell.get(SERVER).map(ToString::to_string);
        let is_own = |word: &&Word<'_>| word.server.is_none() || word.server == own.as_deref();
        for word in words.iter().filter(|it| it.is_needed).filter(is_own) {
            let mut names = placeholder::names(word.text).into_iter();
            let has_value = |it: &&str| cell.contains_key(*it) || is_given(word, it);
            if let Some(name) = names.find(|it| !has_value(it)) {
                let problem = "which has no value in some cells: only an argument can be left out";
                return refuse(word, format!("has `{{{name}}}`, {problem}"));
            }
        }
        let is_used = |name: &str| {
            let holder = format!("{{{name}}}");
            let is_known = match name {
                // Other factors may say what it is.
                SERVER => true,
                name if setup.labels.iter().any(|it| it == name) => true,
                RATE => setup.load.is_some(),
                LEVEL => {
                    let reads_rate = |word: &Word<'_>| word.text.contains("{rate}");
                    setup.load.is_some()
                        || (setup.capacity.trials > 0 && words.iter().any(reads_rate))
                        || words.iter().any(|word| word.text.contains("{level}"))
                }
                name => HostsTable::is_factor(name) || (setup.load.is_some() && load::is_key(name)),
            };
            is_known
                || words
                    .iter()
                    .filter(is_own)
                    .any(|word| word.text.contains(&holder))
        };
        if let Some(unused) = cell.keys().find(|name| !is_used(name)) {
            let known = load::names().chain([RATE, LEVEL]);
            let near = suggestion(unused, known);
            let problem = format!(
                "has `{unused}`, which no command contains as `{{{unused}}}`, and which is no key of \
                 [load]{near}"
            );
            return Err(Violation::new("", 0, "factor", problem));
        }
    }
    Ok(())
}

/// Raises the limit of open files to what the greatest load needs.
pub(super) fn open_files(setup: &Setup, cells: &[Factors]) -> Result<(), Error> {
    let Some(load) = &setup.load else {
        return Ok(());
    };
    let loads = cells.iter().filter_map(|cell| load.at(cell).ok());
    let connections = loads.map(|it| it.connections()).max().unwrap_or_default();
    let needed = u64::from(connections) + limits::OTHER_FILES;
    let limit = sys::limits::raise_open_files(needed);
    if limit < needed {
        return Err(Error::Refused(format!(
            "{connections} connections need {needed} open files and the limit here is {limit}: \
             raise it (`ulimit -n {needed}`, or LimitNOFILE= of the service) or use fewer \
             connections"
        )));
    }
    Ok(())
}
