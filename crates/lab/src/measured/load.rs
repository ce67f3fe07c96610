//! The load of a trial: `curtail load` of this build.
//!
//! ```toml
//! [load]
//! connections = 64          # any key below; what is left out has the default of `curtail load`
//! protocol = "http"
//! arguments = ["--files", "{data}"]
//! ```
//!
//! A key may be a factor instead. Several clients are agents of one load; with `separate = true`,
//! or with `input`, each client's host runs a generator of its own.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use load::limits::{CONNECTIONS_MAX, DEPTH_MAX, THREADS_MAX};
use load::{Config, Target};
use report::record::{Factor, Factors, Unit, Value};
use serde::{Deserialize, Serialize};

use crate::error::suggestion;
use crate::kind::Violation;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct LoadTable {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) arguments: Vec<String>,
    /// A program and its arguments that run the generator, such as `chrt`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) under: Vec<String>,
    /// A program whose standard output is the generator's standard input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) input: Vec<String>,
    /// Whether each client's host runs a generator of its own, which knows nothing of the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    separate: bool,
    #[serde(flatten)]
    keys: Factors,
}

/// A key of `[load]`, which is a flag of `curtail load` too.
struct Key {
    name: &'static str,
    /// Of a factor of this name: the title, the words of a value, and the unit.
    title: &'static str,
    label: &'static str,
    unit: &'static str,
    set: Set,
}

type Set = fn(&mut Config, &Value) -> Result<(), String>;

const fn of(
    name: &'static str,
    title: &'static str,
    label: &'static str,
    unit: &'static str,
    set: Set,
) -> Key {
    Key {
        name,
        title,
        label,
        unit,
        set,
    }
}

#[rustfmt::skip]
const KEYS: [Key; 14] = [
    of("connections", "connections", "{} connections", "count", |to, it| count(it, CONNECTIONS_MAX, &mut to.connections)),
    of("depth", "outstanding requests per connection", "depth\u{a0}{}", "count", |to, it| count(it, DEPTH_MAX, &mut to.depth)),
    of("threads", "threads of the generator", "{} threads", "count", |to, it| count(it, THREADS_MAX, &mut to.threads)),
    of("keys", "lengths of keys", "", "", |to, it| parse(it, &mut to.keys)),
    of("values", "lengths of values", "", "", |to, it| parse(it, &mut to.values)),
    of("arrivals", "arrivals", "", "", |to, it| parse(it, &mut to.arrivals)),
    of("popularity", "popularity", "", "", |to, it| parse(it, &mut to.popularity)),
    of("update", "share of updates", "updates\u{a0}{}", "share", |to, it| share(it, &mut to.update)),
    of("mix", "operations", "", "", |to, it| parse(it, to.mix.insert(to.mix()))),
    of("multiget", "keys of a multiget", "{} keys per multiget", "", |to, it| parse(it, &mut to.multiget)),
    of("records", "records", "{} records", "count", |to, it| records(it, &mut to.records)),
    of("saturating", "saturating connections, in addition to the measured ones", "{} saturating connections", "count", |to, it| saturating(it, to)),
    of("saturating-depth", "outstanding requests per saturating connection", "saturating depth\u{a0}{}", "count", |to, it| count(it, DEPTH_MAX, &mut to.saturating_depth)),
    of("protocol", "protocol", "", "", |to, it| parse(it, &mut to.protocol)),
];

fn share(value: &Value, target: &mut f64) -> Result<(), String> {
    let share = value.number().filter(|it| (0.0..=1.0).contains(it));
    *target = share.ok_or_else(|| format!("is {value}, not a share from 0 to 1"))?;
    Ok(())
}

fn records(value: &Value, target: &mut u64) -> Result<(), String> {
    *target = match value {
        Value::Number(number) if number.fract() == 0.0 && *number > 0.0 => *number as u64,
        Value::Text(text) => units::count(text).map_err(|error| format!("has {error}"))?,
        Value::Number(_) => return Err(format!("is {value}, not 1 or more")),
    };
    Ok(())
}

fn saturating(value: &Value, config: &mut Config) -> Result<(), String> {
    config.saturating_connections = 0;
    match value.number() {
        Some(0.0) => Ok(()),
        _ => count(value, CONNECTIONS_MAX, &mut config.saturating_connections),
    }
}

/// The key whose value is the offered rate of all trials.
const RATE: &str = "rate";
/// The rate of a closed loop.
pub(super) const MAX: &str = "max";

fn count(value: &Value, most: u32, target: &mut u32) -> Result<(), String> {
    let wrong = || format!("is {value}, not 1 to {most}");
    let number = value.number().ok_or_else(wrong)?;
    if number.fract() != 0.0 || !(1.0..=f64::from(most)).contains(&number) {
        return Err(wrong());
    }
    *target = number as u32;
    Ok(())
}

fn parse<T: FromStr<Err: Display>>(value: &Value, target: &mut T) -> Result<(), String> {
    *target = value
        .to_string()
        .parse()
        .map_err(|error| format!("is wrong: {error}"))?;
    Ok(())
}

fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|it| it.name == name)
}

pub(super) fn is_key(name: &str) -> bool {
    key(name).is_some()
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|it| it.name).chain([RATE])
}

pub(super) fn describe(mut factor: Factor) -> Factor {
    let Some(key) = key(&factor.name) else {
        return factor;
    };
    factor.title = key.title.to_owned();
    factor.unit = (!key.unit.is_empty()).then(|| Unit::from(key.unit.to_owned()));
    if !key.label.is_empty() {
        factor.label = Some(key.label.to_owned());
        factor.phrase = Some("with {label}".to_owned());
        for value in &factor.values {
            let singular = match value.number() {
                Some(1.0) => key.label.strip_suffix('s').unwrap_or(key.label),
                _ => continue,
            };
            factor
                .labels
                .insert(value.to_string(), singular.replace("{}", "1"));
        }
    }
    factor
}

/// Keys, and what follows each in a sentence.
type Problems = Vec<(&'static str, String)>;

#[derive(Debug)]
pub(super) struct Load<'a> {
    table: &'a LoadTable,
    /// The keys that were set, in the order of [`KEYS`].
    set: Vec<(&'static str, String)>,
    pub(super) config: Config,
}

impl LoadTable {
    /// The keys of a cell, each alone: the settings, which were set, and all problems.
    fn read(&self, cell: &Factors) -> (Config, Vec<(&'static str, String)>, Problems) {
        let mut config = Config::new(Target::Unix(PathBuf::new()));
        let (mut set, mut problems) = (Vec::new(), Vec::new());
        for key in &KEYS {
            let Some(value) = cell.get(key.name).or_else(|| self.keys.get(key.name)) else {
                continue;
            };
            match (key.set)(&mut config, value) {
                Ok(()) => set.push((key.name, value.to_string())),
                Err(problem) => problems.push((key.name, problem)),
            }
        }
        (config, set, problems)
    }

    /// What is wrong with this value of a key alone.
    pub(super) fn problem_of(&self, name: &str, value: &Value) -> Option<String> {
        let cell = Factors::from([(name.to_owned(), value.clone())]);
        let problems = self.read(&cell).2;
        let own = problems.into_iter().find(|(key, _)| *key == name);
        own.map(|(_, problem)| problem)
    }

    /// The load of a cell.
    ///
    /// # Errors
    /// All problems: the key, and what follows it in a sentence.
    pub(super) fn at(&self, cell: &Factors) -> Result<Load<'_>, Problems> {
        let (config, set, problems) = self.read(cell);
        if !problems.is_empty() {
            return Err(problems);
        }
        if config.threads > config.connections {
            let connections = config.connections;
            let problem = format!("is {}, above the {connections} connections", config.threads);
            return Err(vec![("threads", problem)]);
        }
        if config.mix.is_some() && cell.contains_key("update") {
            return Err(vec![(
                "update",
                "is of gets and sets, and there is a mix".to_owned(),
            )]);
        }
        // With more arguments, only the generator knows what they make of it.
        if self.arguments.is_empty() && self.input.is_empty() {
            config.validate().map_err(|error| {
                let problem = format!("makes a load that cannot be offered: {error}");
                let last = set.last().map_or("connections", |it: &(&str, _)| it.0);
                vec![(last, problem)]
            })?;
        }
        Ok(Load {
            table: self,
            set,
            config,
        })
    }

    /// The offered rate of all trials. None: factors set it, or the loop is closed.
    pub(super) fn rate_rps(&self) -> Result<Option<f64>, String> {
        match self.keys.get(RATE) {
            None => Ok(None),
            Some(Value::Number(rate)) => Ok(Some(*rate)),
            Some(Value::Text(text)) if text == MAX => Ok(None),
            Some(Value::Text(text)) => units::rate_rps(text)
                .map(Some)
                .map_err(|error| format!("has {error}")),
        }
    }

    pub(super) fn check(&self, cells: &[Factors]) -> Result<(), Violation> {
        let mut problems = Vec::new();
        let mut problem = |key: &str, problem: String| {
            problems.push(Violation::new("[load]", 0, key, problem));
        };
        for name in self.keys.keys() {
            if key(name).is_none() && name != RATE {
                let near = suggestion(name, names());
                problem(name, format!("is no key of [load]{near}"));
            } else if cells.iter().all(|cell| cell.contains_key(name)) {
                let what = "is a factor too, which sets it in every cell: remove it here, and name \
                            the value that others are compared with in `reference` of the factor";
                problem(name, what.to_owned());
            }
        }
        for (name, text) in self.read(&Factors::new()).2 {
            problem(name, text);
        }
        if let Err(text) = self.rate_rps() {
            problem(RATE, text);
        }
        for word in &self.arguments {
            let flag = word.strip_prefix("--").unwrap_or_default();
            let flag = flag.split('=').next().unwrap_or_default();
            if names().any(|it| it == flag) {
                problem(
                    "arguments",
                    format!("has `{word}`, which is a key: write `{flag} = …`"),
                );
            }
        }
        let mut problems = problems.into_iter();
        if let Some(first) = problems.next() {
            let others = problems.collect();
            return Err(Violation { others, ..first });
        }
        for cell in cells {
            if let Some((key, text)) = self.at(cell).err().unwrap_or_default().pop() {
                if !cell.contains_key(key) && self.keys.contains_key(key) {
                    return Err(Violation::new("[load]", 0, key, text));
                }
                let words = cell.iter().map(|(name, value)| format!("{name} {value}"));
                let words = words.collect::<Vec<_>>().join(", ");
                let problem = format!("makes a load in which `{key}` {text} (with {words})");
                return Err(Violation::new("", 0, "factor", problem));
            }
        }
        Ok(())
    }

    /// Whether several clients are agents of one load.
    pub(super) fn has_agents(&self) -> bool {
        self.input.is_empty() && !self.separate
    }

    pub(super) fn words(&self) -> String {
        let keys = self
            .keys
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        let arguments = (!self.arguments.is_empty()).then(|| self.arguments.join(" "));
        let input = (!self.input.is_empty()).then(|| format!("input {}", self.input.join(" ")));
        let words: Vec<String> = keys.chain(arguments).chain(input).collect();
        match words.is_empty() {
            true => "the defaults of curtail load".to_owned(),
            false => words.join(", "),
        }
    }
}

impl Load<'_> {
    pub(super) fn connections(&self) -> u32 {
        self.config.connections + self.config.saturating_connections
    }

    /// Whether each client's host runs a generator of its own, which draws its requests.
    pub(super) fn is_separate(&self) -> bool {
        self.table.separate && self.table.input.is_empty()
    }

    /// Whether its requests are memcached's: the server can then be filled, and asked.
    pub(super) fn is_memcached(&self) -> bool {
        use load::Protocol;
        !matches!(self.config.protocol, Protocol::Http | Protocol::Textile)
    }

    /// The program and its first arguments: `under`, and the keys as flags.
    pub(super) fn command(&self, rate: &str, seed: u64) -> Vec<String> {
        let mut words = self.table.under.clone();
        words.extend(["{curtail}", "load", "{ip}:{port}", "--rate", rate].map(str::to_owned));
        let has_mix = self.set.iter().any(|(name, _)| *name == "mix");
        for (name, value) in &self.set {
            let is_needless =
                (*name == "update" && has_mix) || (*name == "saturating" && value == "0");
            if !is_needless {
                words.extend([format!("--{name}"), value.clone()]);
            }
        }
        words.extend(["--seed".to_owned(), seed.to_string()]);
        words.extend(self.table.arguments.iter().cloned());
        words
    }
}
