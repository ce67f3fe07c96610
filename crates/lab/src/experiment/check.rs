//! Checks the values of a well-formed experiment file.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use load::limits::{CONNECTIONS_MAX, DEPTH_MAX, THREADS_MAX};
use load::{Config, Target};
use report::Vary;
use report::folder::Load;

use super::{Content, Experiment, Server, ServerKind, Sweep, location};
use crate::error::Error;
use crate::limits;
use crate::units::duration_text;

/// One violation: table header, index among the tables of that name, key, problem.
type Violation = (&'static str, usize, &'static str, String);

/// Checks every value, with and without the changes of `[quick]`.
pub(super) fn check(experiment: &Experiment) -> Result<(), Error> {
    let Some((table, place, key, problem)) = violation(experiment) else {
        return Ok(());
    };
    let path = &experiment.path;
    let place = match place {
        Some(line) => format!("{path}:{line}"),
        None => path.clone(),
    };
    let table = match table {
        "" => String::new(),
        table => format!(" in {table}"),
    };
    Err(Error::Experiment {
        place,
        problem: format!("`{key}`{table} {problem}"),
    })
}

/// The first violation: table header, line, key, problem.
fn violation(
    experiment: &Experiment,
) -> Option<(&'static str, Option<usize>, &'static str, String)> {
    let (content, text) = (&experiment.content, experiment.text.as_str());
    if let Some((table, nth, key, problem)) = check_content(content) {
        return Some((
            table,
            location::line_of(text, table, nth, key),
            key,
            problem,
        ));
    }
    let quick = content.clone().quickened(content.quick.as_ref()?);
    let (table, nth, key, problem) = check_content(&quick)?;
    let quick_table = match table {
        "[vary]" => "[quick.vary]",
        _ => "[quick]",
    };
    // The invalid value may be in [quick] itself, or be invalid only with its changes.
    Some(match location::line_of(text, quick_table, 0, key) {
        Some(line) => (quick_table, Some(line), key, problem),
        None => {
            let problem = format!("{problem}, with the changes of [quick]");
            (
                table,
                location::line_of(text, table, nth, key),
                key,
                problem,
            )
        }
    })
}

fn check_content(content: &Content) -> Option<Violation> {
    check_times(content)
        .or_else(|| check_load(&content.load.planned()))
        .or_else(|| check_sweep(&content.sweep))
        .or_else(|| check_vary(content))
        .or_else(|| check_saturating(content))
        .or_else(|| check_servers(&content.server))
        .or_else(|| check_count(content))
}

fn check_times(content: &Content) -> Option<Violation> {
    if content.question.trim().is_empty() {
        return Some((
            "",
            0,
            "question",
            "is empty: state the question of the experiment".to_owned(),
        ));
    }
    if i64::try_from(content.seed).is_err() {
        return Some(("", 0, "seed", "is beyond 2^63 - 1".to_owned()));
    }
    let most = limits::REPEATS;
    if !(1..=most).contains(&content.repeats) {
        let problem = format!("is {}, not 1 to {most}", content.repeats);
        return Some(("", 0, "repeats", problem));
    }
    trial(content.trial)
        .or_else(|| warmup(content.warmup))
        .or_else(|| {
            let distinct: HashSet<_> = content.figures.iter().collect();
            (distinct.len() != content.figures.len())
                .then(|| ("", 0, "figures", "names a figure twice".to_owned()))
        })
}

fn check_load(load: &Load) -> Option<Violation> {
    let violation = |key, problem: String| Some(("[load]", 0, key, problem));
    if !(1..=CONNECTIONS_MAX).contains(&load.connections) {
        return violation(
            "connections",
            format!("is {}, not 1 to {CONNECTIONS_MAX}", load.connections),
        );
    }
    if !(1..=DEPTH_MAX).contains(&load.depth) {
        return violation(
            "depth",
            format!("is {}, not 1 to {}", load.depth, DEPTH_MAX),
        );
    }
    if load.threads == 0 || load.threads > THREADS_MAX.min(load.connections) {
        let most = THREADS_MAX.min(load.connections);
        return violation(
            "threads",
            format!(
                "is {}, not 1 to {most} (at most one per connection)",
                load.threads
            ),
        );
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
fn check_laws(load: &Load) -> Option<Violation> {
    let mut config = Config::new(Target::Unix(PathBuf::new()));
    config.connections = load.connections;
    config.depth = load.depth;
    config.threads = load.threads;
    config.saturating_connections = load.saturating;
    config.saturating_depth = load.saturating_depth;
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

fn read<T: FromStr<Err: Display>>(text: &str, key: &'static str, law: &mut T) -> Option<Violation> {
    match text.parse() {
        Ok(read) => {
            *law = read;
            None
        }
        Err(error) => Some(("[load]", 0, key, format!("is wrong: {error}"))),
    }
}

fn check_sweep(sweep: &Sweep) -> Option<Violation> {
    const TABLE: &str = "[sweep]";
    let violation = |key, problem: String| Some((TABLE, 0, key, problem));
    let (key, cells, most) = match (&sweep.levels, &sweep.rates) {
        (Some(levels), None) => ("levels", levels, limits::LEVEL),
        (None, Some(rates)) => ("rates", rates, limits::RATE_RPS),
        (Some(_), Some(_)) => {
            return violation(
                "rates",
                "and `levels` exclude each other: keep one".to_owned(),
            );
        }
        (None, None) => {
            return violation(
                "levels",
                "is missing, and so is `rates`: give one".to_owned(),
            );
        }
    };
    if cells.is_empty() || cells.len() > limits::CELLS {
        return violation(
            key,
            format!("has {} entries, not 1 to {}", cells.len(), limits::CELLS),
        );
    }
    if let Some(wrong) = cells.iter().find(|&&cell| !(cell > 0.0 && cell <= most)) {
        return violation(
            key,
            format!("holds {wrong}, which is not above 0 and at most {most}"),
        );
    }
    if cells.windows(2).any(|pair| pair[0] >= pair[1]) {
        return violation(key, "must ascend, each once".to_owned());
    }
    if sweep.levels.is_some() && sweep.capacity_trials == 0 {
        return violation(
            "capacity-trials",
            "must be at least 1: levels are shares of a measured capacity".to_owned(),
        );
    }
    if sweep.capacity_trials > limits::REPEATS {
        return violation(
            "capacity-trials",
            format!("is more than {}", limits::REPEATS),
        );
    }
    None
}

fn check_vary(content: &Content) -> Option<Violation> {
    let vary = content.vary.as_ref()?;
    let violation = |problem: String| Some(("[vary]", 0, vary.key(), problem));
    let values = vary.values();
    if values.len() < 2 || values.len() > limits::SETTINGS {
        let most = limits::SETTINGS;
        return violation(format!("has {} entries, not 2 to {most}", values.len()));
    }
    if values.windows(2).any(|pair| pair[0] >= pair[1]) {
        return violation("must ascend, each once".to_owned());
    }
    let load = content.load.planned();
    let own = vary.own(&load);
    if !values.contains(&own) {
        return violation(format!(
            "lacks {own}, which [load] has: the others are compared with it"
        ));
    }
    (0..values.len() as u32).find_map(|setting| {
        let (_, _, key, problem) = check_load(&vary.applied(&load, setting))?;
        let value = vary.values()[setting as usize];
        violation(match key == vary.key() {
            true => format!("holds a value that {problem}"),
            false => format!("holds {value}, with which `{key}` {problem}"),
        })
    })
}

/// Capacity trials exclude saturating connections: a capacity is the rate of a server without other
/// load.
fn check_saturating(content: &Content) -> Option<Violation> {
    let is_saturated =
        content.load.saturating > 0 || matches!(content.vary, Some(Vary::Saturating(_)));
    (is_saturated && content.sweep.capacity_trials > 0).then(|| {
        let problem = "with saturating connections would measure only the capacity they leave: \
                       remove it, and give `rates`";
        ("[sweep]", 0, "capacity-trials", problem.to_owned())
    })
}

fn check_count(content: &Content) -> Option<Violation> {
    let sweep = &content.sweep;
    let rates = sweep.levels.as_ref().or(sweep.rates.as_ref());
    let rates = rates.map_or(0, Vec::len) as u64;
    let settings = content.vary.as_ref().map_or(1, |it| it.values().len()) as u64;
    let each = u64::from(sweep.capacity_trials) + rates * u64::from(content.repeats);
    let trials = settings * each * content.server.len() as u64;
    (trials > report::limits::TRIALS as u64).then(|| {
        let most = report::limits::TRIALS;
        let problem = format!("makes {trials} trials in all, more than {most}");
        ("", 0, "repeats", problem)
    })
}

fn check_servers(servers: &[Server]) -> Option<Violation> {
    const TABLE: &str = "[[server]]";
    if servers.is_empty() || servers.len() > limits::SERVERS {
        let problem = format!("tables are {}, not 1 to {}", servers.len(), limits::SERVERS);
        return Some(("", 0, "server", problem));
    }
    let mut names = HashSet::new();
    for (nth, server) in servers.iter().enumerate() {
        let violation = |key, problem: &str| Some((TABLE, nth, key, problem.to_owned()));
        let name = server.name.as_str();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return violation("name", "must be 1 to 64 letters, digits, `.`, `_` or `-`");
        }
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
        if !server
            .arguments
            .iter()
            .any(|argument| argument.contains("{port}"))
        {
            return violation("arguments", "lacks `{port}`: the lab assigns the port");
        }
    }
    None
}

fn trial(length: Duration) -> Option<Violation> {
    let (least, most) = (limits::TRIAL_MIN, limits::TRIAL_MAX);
    (length < least || length > most).then(|| {
        let problem = format!(
            "is {}, not {} to {}",
            duration_text(length),
            duration_text(least),
            duration_text(most)
        );
        ("", 0, "trial", problem)
    })
}

fn warmup(length: Duration) -> Option<Violation> {
    (length > limits::TRIAL_MAX).then(|| {
        let problem = format!("is more than {}", duration_text(limits::TRIAL_MAX));
        ("", 0, "warmup", problem)
    })
}
