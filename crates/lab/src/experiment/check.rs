//! What a well-formed file can still have wrong.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use load::limits::{CONNECTIONS_MAX, DEPTH_MAX, THREADS_MAX};
use load::{Config, Target};

use super::{Content, Experiment, Load, Server, ServerKind, place};
use crate::error::Error;
use crate::limits;
use crate::units::duration_text;

/// One complaint: table header, which of that name, key, what is wrong.
type Complaint = (&'static str, usize, &'static str, String);

/// Checks every value.
pub(super) fn check(experiment: &Experiment) -> Result<(), Error> {
    let content = &experiment.content;
    let complaint = check_times(content)
        .or_else(|| check_load(content))
        .or_else(|| check_sweep(content))
        .or_else(|| check_quick(content))
        .or_else(|| check_servers(&content.server));
    let Some((table, nth, key, problem)) = complaint else {
        return Ok(());
    };
    let path = &experiment.path;
    let place = match place::line_of(&experiment.text, table, nth, key) {
        Some(line) => format!("{path}:{line}"),
        None => path.clone(),
    };
    let table = if table.is_empty() {
        String::new()
    } else {
        format!(" in {table}")
    };
    Err(Error::Experiment {
        place,
        problem: format!("`{key}`{table} {problem}"),
    })
}

fn check_times(content: &Content) -> Option<Complaint> {
    if content.question.trim().is_empty() {
        return Some((
            "",
            0,
            "question",
            "is empty: say what the experiment asks".to_owned(),
        ));
    }
    if i64::try_from(content.seed).is_err() {
        return Some(("", 0, "seed", "is beyond 2^63 - 1".to_owned()));
    }
    repeats("", "repeats", content.repeats)
        .or_else(|| trial("", content.trial))
        .or_else(|| warmup("", content.warmup))
        .or_else(|| {
            let distinct: HashSet<_> = content.figures.iter().collect();
            (distinct.len() != content.figures.len())
                .then(|| ("", 0, "figures", "names a figure twice".to_owned()))
        })
}

fn check_load(content: &Content) -> Option<Complaint> {
    const TABLE: &str = "[load]";
    let load = &content.load;
    let complaint = |key, problem: String| Some((TABLE, 0, key, problem));
    if let Some(found) = connections(TABLE, load.connections) {
        return Some(found);
    }
    if !(1..=DEPTH_MAX).contains(&load.depth) {
        return complaint(
            "depth",
            format!("is {}, not 1 to {}", load.depth, DEPTH_MAX),
        );
    }
    if load.threads == 0 || load.threads > THREADS_MAX.min(load.connections) {
        let most = THREADS_MAX.min(load.connections);
        return complaint(
            "threads",
            format!(
                "is {}, not 1 to {most} (at most one a connection)",
                load.threads
            ),
        );
    }
    if !(0.0..=1.0).contains(&load.update) {
        return complaint(
            "update",
            format!("is {}, not a share from 0 to 1", load.update),
        );
    }
    records(TABLE, load.records).or_else(|| check_laws(load))
}

/// The laws are read by who will follow them, and checked together.
fn check_laws(load: &Load) -> Option<Complaint> {
    let mut config = Config::new(Target::Unix(PathBuf::new()));
    config.connections = load.connections;
    config.depth = load.depth;
    config.threads = load.threads;
    config.update = load.update;
    config.records = load.records;
    let laws = read(&load.keys, "keys", &mut config.keys)
        .or_else(|| read(&load.values, "values", &mut config.values))
        .or_else(|| read(&load.arrivals, "arrivals", &mut config.arrivals))
        .or_else(|| read(&load.popularity, "popularity", &mut config.popularity));
    laws.or_else(|| {
        let error = config.validate().err()?;
        Some(("", 0, "load", format!("cannot be offered: {error}")))
    })
}

fn read<T: FromStr<Err: Display>>(text: &str, key: &'static str, law: &mut T) -> Option<Complaint> {
    match text.parse() {
        Ok(read) => {
            *law = read;
            None
        }
        Err(error) => Some(("[load]", 0, key, format!("is wrong: {error}"))),
    }
}

fn check_sweep(content: &Content) -> Option<Complaint> {
    const TABLE: &str = "[sweep]";
    let sweep = &content.sweep;
    let complaint = |key, problem: String| Some((TABLE, 0, key, problem));
    let (key, cells, most) = match (&sweep.levels, &sweep.rates) {
        (Some(levels), None) => ("levels", levels, limits::LEVEL),
        (None, Some(rates)) => ("rates", rates, limits::RATE_RPS),
        (Some(_), Some(_)) => {
            return complaint(
                "rates",
                "and `levels` exclude each other: keep one".to_owned(),
            );
        }
        (None, None) => {
            return complaint(
                "levels",
                "is missing, and so is `rates`: give one".to_owned(),
            );
        }
    };
    if cells.is_empty() || cells.len() > limits::CELLS {
        return complaint(
            key,
            format!("has {} entries, not 1 to {}", cells.len(), limits::CELLS),
        );
    }
    if let Some(wrong) = cells.iter().find(|&&cell| !(cell > 0.0 && cell <= most)) {
        return complaint(
            key,
            format!("holds {wrong}, which is not above 0 and at most {most}"),
        );
    }
    if cells.windows(2).any(|pair| pair[0] >= pair[1]) {
        return complaint(key, "must ascend, each once".to_owned());
    }
    if sweep.levels.is_some() && sweep.capacity_trials == 0 {
        return complaint(
            "capacity-trials",
            "must be at least 1: levels are shares of a measured capacity".to_owned(),
        );
    }
    if sweep.capacity_trials > limits::REPEATS {
        return complaint(
            "capacity-trials",
            format!("is more than {}", limits::REPEATS),
        );
    }
    None
}

fn check_quick(content: &Content) -> Option<Complaint> {
    const TABLE: &str = "[quick]";
    let quick = content.quick.as_ref()?;
    let by_levels = content.sweep.levels.is_some();
    quick
        .connections
        .and_then(|count| {
            connections(TABLE, count).or_else(|| {
                (count < content.load.threads).then(|| {
                    (
                        TABLE,
                        0,
                        "connections",
                        "is less than `threads` in [load]".to_owned(),
                    )
                })
            })
        })
        .or_else(|| quick.records.and_then(|count| records(TABLE, count)))
        .or_else(|| {
            check_laws(&Load {
                connections: quick.connections.unwrap_or(content.load.connections),
                records: quick.records.unwrap_or(content.load.records),
                ..content.load.clone()
            })
        })
        .or_else(|| {
            quick
                .repeats
                .and_then(|count| repeats(TABLE, "repeats", count))
        })
        .or_else(|| quick.trial.and_then(|length| trial(TABLE, length)))
        .or_else(|| quick.warmup.and_then(|length| warmup(TABLE, length)))
        .or_else(|| {
            let count = quick
                .capacity_trials
                .filter(|&count| count > 0 || by_levels)?;
            repeats(TABLE, "capacity-trials", count)
        })
}

fn check_servers(servers: &[Server]) -> Option<Complaint> {
    const TABLE: &str = "[[server]]";
    if servers.is_empty() || servers.len() > limits::SERVERS {
        let problem = format!("tables are {}, not 1 to {}", servers.len(), limits::SERVERS);
        return Some(("", 0, "server", problem));
    }
    let mut names = HashSet::new();
    for (nth, server) in servers.iter().enumerate() {
        let complaint = |key, problem: &str| Some((TABLE, nth, key, problem.to_owned()));
        let name = server.name.as_str();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return complaint("name", "must be 1 to 64 letters, digits, `.`, `_` or `-`");
        }
        if !names.insert(name) {
            return complaint("name", "is another server's too");
        }
        match (server.kind, &server.program) {
            (ServerKind::Curtail, Some(_)) => {
                return complaint(
                    "program",
                    "is this build where kind is `curtail`: remove it",
                );
            }
            (ServerKind::Command, None) => {
                return complaint(
                    "program",
                    "is missing: name the server's program or its path",
                );
            }
            _ => {}
        }
        if server.arguments.len() > limits::ARGUMENTS {
            return complaint("arguments", "has too many entries");
        }
        if !server
            .arguments
            .iter()
            .any(|argument| argument.contains("{port}"))
        {
            return complaint("arguments", "lacks `{port}`: the lab chooses the port");
        }
    }
    None
}

fn repeats(table: &'static str, key: &'static str, count: u32) -> Option<Complaint> {
    (count == 0 || count > limits::REPEATS).then(|| {
        (
            table,
            0,
            key,
            format!("is {count}, not 1 to {}", limits::REPEATS),
        )
    })
}

fn trial(table: &'static str, length: Duration) -> Option<Complaint> {
    let (least, most) = (limits::TRIAL_MIN, limits::TRIAL_MAX);
    (length < least || length > most).then(|| {
        let problem = format!(
            "is {}, not {} to {}",
            duration_text(length),
            duration_text(least),
            duration_text(most)
        );
        (table, 0, "trial", problem)
    })
}

fn warmup(table: &'static str, length: Duration) -> Option<Complaint> {
    (length > limits::TRIAL_MAX).then(|| {
        let problem = format!("is more than {}", duration_text(limits::TRIAL_MAX));
        (table, 0, "warmup", problem)
    })
}

fn connections(table: &'static str, count: u32) -> Option<Complaint> {
    (count == 0 || count > CONNECTIONS_MAX).then(|| {
        (
            table,
            0,
            "connections",
            format!("is {count}, not 1 to {}", CONNECTIONS_MAX),
        )
    })
}

fn records(table: &'static str, count: u64) -> Option<Complaint> {
    (count == 0).then(|| {
        (
            table,
            0,
            "records",
            "is 0: there would be nothing to get".to_owned(),
        )
    })
}
