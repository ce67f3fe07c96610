//! Checks the settings of an experiment.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use load::limits::{CONNECTIONS_MAX, DEPTH_MAX, THREADS_MAX};
use load::{Config, Target};
use report::cache::folder::Load;
use report::cache::{self, LEVEL, RATE, SERVER};
use report::record::{Factors, Value};
use units::duration_text;

use super::{Cache, ServerKind, ServerTable};
use crate::design::check_name;
use crate::error::{Error, did_you_mean, nearest};
use crate::hosts_table::HostsTable;
use crate::kind::Violation;
use crate::limits;
use crate::placeholder;

/// The first problem of the settings under these cells.
pub(super) fn check(cache: &Cache, cells: &[Factors]) -> Result<(), Violation> {
    check_times(cache)?;
    check_servers(&cache.declared)?;
    check_hosts(cache, cells)?;
    if cache.hosts.detect_stalls && cache.settings.server_cpus.is_empty() {
        let problem = "needs `server` in [pins]: stalls are those of the server's first processor";
        return Err(Violation::new("[hosts]", 0, "detect-stalls", problem));
    }
    check_load(&cache.settings.load)?;
    check_capacity(cache, cells)?;
    for cell in cells {
        let load = cache.load_at(cell);
        let load = load.map_err(|problem| Violation::new("", 0, "factor", problem))?;
        check_load(&load).map_err(|it| {
            let cell: Vec<String> = cell.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let problem = format!("`{}` {} (with {})", it.key, it.problem, cell.join(", "));
            Violation::new("", 0, "factor", format!("makes a load in which {problem}"))
        })?;
        check_placeholders(cache, cell)?;
    }
    Ok(())
}

/// A value of a factor as trials use it, or its problem.
pub(super) fn value(cache: &Cache, name: &str, value: Value) -> Result<Value, String> {
    match (name, &value) {
        (SERVER, _) => Err("is set by the [[server]] tables: name servers there".to_owned()),
        (RATE, Value::Text(text)) => {
            let rate_rps = units::rate_rps(text).map_err(|it| format!("has {it}"))?;
            self::value(cache, name, Value::from(rate_rps))
        }
        (RATE, Value::Number(rate)) => in_range(*rate, limits::RATE_RPS).map(|()| value),
        (LEVEL, Value::Number(level)) => in_range(*level, limits::LEVEL).map(|()| value),
        (LEVEL, Value::Text(text)) => Err(format!("has {text:?}, which is no number")),
        _ => {
            let factors = Factors::from([(name.to_owned(), value.clone())]);
            cache::load_with(&cache.settings.load, &factors)?;
            Ok(value)
        }
    }
}

fn in_range(value: f64, most: f64) -> Result<(), String> {
    match value > 0.0 && value <= most {
        true => Ok(()),
        false => Err(format!("has {value}, which is not above 0 and at most {most}")),
    }
}

/// A setting as the value of a factor.
pub(super) fn value_of(setting: &toml::Value) -> Option<Value> {
    Some(match setting {
        toml::Value::Integer(number) => Value::from(*number as f64),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::String(text) => Value::from(text.as_str()),
        _ => return None,
    })
}

/// Each factor must have an effect: it is a rate, a key of the load, or in a server's arguments.
fn check_placeholders(cache: &Cache, cell: &Factors) -> Result<(), Violation> {
    let load = cache::load_table(&cache.settings.load);
    let own = cell.get(SERVER).map(ToString::to_string);
    for name in cell.keys() {
        let is_known = [SERVER, RATE, LEVEL].contains(&name.as_str())
            || load.contains_key(name)
            || HostsTable::is_factor(name);
        let holder = format!("{{{name}}}");
        let mut arguments = cache
            .declared
            .iter()
            .filter(|it| Some(&it.name) == own.as_ref())
            .flat_map(|it| &it.arguments);
        if !is_known && !arguments.any(|it| it.contains(&holder)) {
            let known = load.keys().map(String::as_str).chain([RATE, LEVEL]);
            let problem = format!(
                "has `{name}`, which is neither `rate`, `level` nor a key of [load], and which the \
                 arguments of {} do not contain as `{holder}`{}",
                own.as_deref().unwrap_or("the server"),
                did_you_mean(nearest(name, known)),
            );
            return Err(Violation::new("", 0, "factor", problem));
        }
    }
    check_arguments(cache, cell, own.as_deref())?;
    let has_level = cell.contains_key(LEVEL);
    if has_level && cell.contains_key(RATE) {
        let problem = "has both `rate` and `level`: keep one";
        return Err(Violation::new("", 0, "factor", problem));
    }
    if has_level && cache.capacity_trials == 0 {
        let problem = "must be at least 1: levels are shares of a measured capacity";
        return Err(Violation::new("[capacity]", 0, "trials", problem));
    }
    Ok(())
}

/// Each placeholder in the arguments of the cell's server must have a value: the server would get
/// it literally.
fn check_arguments(cache: &Cache, cell: &Factors, own: Option<&str>) -> Result<(), Violation> {
    let is_own = |it: &(usize, &ServerTable)| Some(it.1.name.as_str()) == own;
    let Some((nth, server)) = cache.declared.iter().enumerate().find(is_own) else {
        return Ok(());
    };
    for name in server.arguments.iter().flat_map(|it| placeholder::names(it)) {
        if !["port", "ip"].contains(&name) && !cell.contains_key(name) {
            let near = did_you_mean(nearest(name, cell.keys().map(String::as_str).chain(["port"])));
            let problem = format!("has `{{{name}}}`, which is no factor of each of its cells{near}");
            return Err(Violation::new("[[server]]", nth, "arguments", problem));
        }
    }
    Ok(())
}

fn check_times(cache: &Cache) -> Result<(), Violation> {
    let settings = &cache.settings;
    let [trial, warmup] = [settings.trial_ns, settings.warmup_ns].map(Duration::from_nanos);
    let (least, most) = (limits::TRIAL_MIN, limits::TRIAL_MAX);
    if trial < least || trial > most {
        let problem = format!(
            "is {}, not {} to {}",
            duration_text(trial),
            duration_text(least),
            duration_text(most)
        );
        return Err(Violation::new("", 0, "trial", problem));
    }
    if warmup > most {
        let problem = format!("is more than {}", duration_text(most));
        return Err(Violation::new("", 0, "warmup", problem));
    }
    Ok(())
}

fn check_load(load: &Load) -> Result<(), Violation> {
    let violation = |key, problem: String| Err(Violation::new("[load]", 0, key, problem));
    let count = |count: u32, most: u32| match (1..=most).contains(&count) {
        true => None,
        false => Some(format!("is {count}, not 1 to {most}")),
    };
    if let Some(problem) = count(load.connections, CONNECTIONS_MAX) {
        return violation("connections", problem);
    }
    if let Some(problem) = count(load.depth, DEPTH_MAX) {
        return violation("depth", problem);
    }
    if let Some(problem) = count(load.threads, THREADS_MAX.min(load.connections)) {
        return violation("threads", format!("{problem} (at most one per connection)"));
    }
    if !(0.0..=1.0).contains(&load.update) {
        return violation(
            "update",
            format!("is {}, not a share from 0 to 1", load.update),
        );
    }
    if load.records == 0 {
        return violation("records", "is 0: gets need at least one record".to_owned());
    }
    check_laws(load)
}

/// Parses the distributions with the generator's own parsers and checks them as one configuration.
fn check_laws(load: &Load) -> Result<(), Violation> {
    let mut config = Config::new(Target::Unix(PathBuf::new()));
    config.connections = load.connections;
    config.depth = load.depth;
    config.threads = load.threads;
    config.saturating_connections = load.saturating;
    config.saturating_depth = load.saturating_depth;
    config.update = load.update;
    config.records = load.records;
    read(&load.keys, "keys", &mut config.keys)?;
    read(&load.values, "values", &mut config.values)?;
    if !load.mix.is_empty() {
        let mut mix = config.mix();
        read(&load.mix, "mix", &mut mix)?;
        config.mix = Some(mix);
    }
    if !load.multiget.is_empty() {
        read(&load.multiget, "multiget", &mut config.multiget)?;
    }
    read(&load.arrivals, "arrivals", &mut config.arrivals)?;
    read(&load.popularity, "popularity", &mut config.popularity)?;
    config.validate().map_err(|error| {
        Violation::new("", 0, "load", format!("cannot be offered: {error}"))
    })
}

fn read<T: FromStr<Err: Display>>(
    text: &str,
    key: &'static str,
    law: &mut T,
) -> Result<(), Violation> {
    let problem = |error: T::Err| Violation::new("[load]", 0, key, format!("is wrong: {error}"));
    *law = text.parse().map_err(problem)?;
    Ok(())
}

/// Capacity trials exclude saturating connections: a capacity is the rate of a server without other
/// load.
fn check_capacity(cache: &Cache, cells: &[Factors]) -> Result<(), Violation> {
    let violation = |problem: String| Err(Violation::new("[capacity]", 0, "trials", problem));
    if cache.capacity_trials > limits::REPEATS {
        return violation(format!("is more than {}", limits::REPEATS));
    }
    let missing = cache.capacity_of.keys().find(|name| {
        let is_rate = [RATE, LEVEL].contains(&name.as_str());
        is_rate || !cells.iter().all(|cell| cell.contains_key(*name))
    });
    if let Some(name) = missing {
        let problem = format!("has `{name}`, which is no factor of all cells besides the rate");
        return Err(Violation::new("[capacity]", 0, "of", problem));
    }
    if let Some(name) = cache.capacity_of.get(SERVER).map(ToString::to_string) {
        let names = || cache.declared.iter().map(|it| it.name.as_str());
        if !names().any(|it| it == name) {
            let near = did_you_mean(nearest(&name, names()));
            let problem = format!("has the server `{name}`, which no [[server]] table declares{near}");
            return Err(Violation::new("[capacity]", 0, "of", problem));
        }
    }
    let is_saturated = |cell: &Factors| cache.load_at(cell).is_ok_and(|it| it.saturating > 0);
    if cache.capacity_trials > 0 && cells.iter().any(is_saturated) {
        return violation(
            "with saturating connections would measure only the capacity they leave: remove it, and \
             give a factor `rate`"
                .to_owned(),
        );
    }
    Ok(())
}

/// Servers must be reachable from the clients' hosts, and each agent needs a connection for each of
/// its threads.
fn check_hosts(cache: &Cache, cells: &[Factors]) -> Result<(), Violation> {
    cache.hosts.check_clients_are_hosts(cells)?;
    cache.hosts.check(cells)?;
    if !cache.hosts.has_namespaces() {
        return Ok(());
    }
    for (nth, server) in cache.declared.iter().enumerate() {
        let local = ["127.0.0.1", "localhost"];
        let is_local = |it: &&&str| server.arguments.iter().any(|word| word.contains(**it));
        if let Some(local) = local.iter().find(is_local) {
            let problem = format!(
                "have `{local}`, which clients on other hosts cannot reach: write `{{ip}}`, the \
                 address of the server's host"
            );
            return Err(Violation::new("[[server]]", nth, "arguments", problem));
        }
    }
    for cell in cells {
        let table = cache.hosts.at(cell);
        let (Ok(table), Ok(load)) = (table, cache.load_at(cell)) else {
            continue;
        };
        let needed = u32::from(table.clients).saturating_mul(load.threads);
        if table.clients > 1 && load.connections < needed {
            let problem = format!(
                "is {}, and {} connections are too few for that many agents of {} threads",
                table.clients, load.connections, load.threads
            );
            return Err(Violation::new("[hosts]", 0, "clients", problem));
        }
    }
    Ok(())
}

fn check_servers(servers: &[ServerTable]) -> Result<(), Violation> {
    const TABLE: &str = "[[server]]";
    if servers.is_empty() || servers.len() > limits::SERVERS {
        let problem = format!("tables are {}, not 1 to {}", servers.len(), limits::SERVERS);
        return Err(Violation::new("", 0, "server", problem));
    }
    let mut names = HashSet::new();
    for (nth, server) in servers.iter().enumerate() {
        let violation = |key, problem: &str| Err(Violation::new(TABLE, nth, key, problem));
        let name = server.name.as_str();
        check_name(name).or_else(|problem| violation("name", &problem))?;
        if !names.insert(name) {
            return violation("name", "is used by another server");
        }
        match (server.kind, &server.program) {
            (ServerKind::Curtail, Some(_)) => {
                return violation("program", "is this build if kind is `curtail`: remove it");
            }
            (ServerKind::Command, None) => {
                return violation(
                    "program",
                    "is missing: name the server's program or its path",
                );
            }
            _ => {}
        }
        if server.arguments.len() > limits::ARGUMENTS {
            return violation("arguments", "has too many entries");
        }
        if !server.arguments.iter().any(|it| it.contains("{port}")) {
            return violation("arguments", "lacks `{port}`: the lab assigns the port");
        }
    }
    Ok(())
}

/// Raises the limit of open files to what the greatest load needs.
pub(super) fn open_files(cache: &Cache, cells: &[Factors]) -> Result<(), Error> {
    let loads = cells.iter().filter_map(|cell| cache.load_at(cell).ok());
    let connections = loads.map(|load| load.connections + load.saturating).max();
    let connections = connections.unwrap_or_default();
    let needed = u64::from(connections) + limits::OTHER_FILES;
    let limit = sys::limits::raise_open_files(needed);
    if limit < needed {
        return Err(Error::OpenFiles {
            connections,
            needed,
            limit,
        });
    }
    Ok(())
}
