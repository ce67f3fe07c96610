//! An experiment file: one question, in TOML.
//!
//! An unknown key is an error with file, line and the most similar known key. Every value is
//! checked before any process is started.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use report::Vary;
use report::folder::{self, FigureKind};
use serde::Deserialize;

use crate::error::{Error, nearest};
use crate::limits;

mod check;
mod location;

/// An experiment, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// The file's stem.
    pub name: String,
    /// The file's name in messages.
    pub(crate) path: String,
    /// The file's text.
    pub(crate) text: String,
    pub(crate) content: Content,
}

/// An experiment inside this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

/// The experiments inside this program.
#[must_use]
pub fn shipped() -> &'static [Shipped] {
    &[
        Shipped {
            name: "connections",
            text: include_str!("../../../experiments/connections.toml"),
        },
        Shipped {
            name: "fairness",
            text: include_str!("../../../experiments/fairness.toml"),
        },
        Shipped {
            name: "rate-ladder",
            text: include_str!("../../../experiments/rate-ladder.toml"),
        },
        Shipped {
            name: "runtimes",
            text: include_str!("../../../experiments/runtimes.toml"),
        },
        Shipped {
            name: "smoke",
            text: include_str!("../../../experiments/smoke.toml"),
        },
        Shipped {
            name: "updates",
            text: include_str!("../../../experiments/updates.toml"),
        },
    ]
}

/// The file, key by key.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Content {
    pub(crate) question: String,
    pub(crate) seed: u64,
    pub(crate) repeats: u32,
    #[serde(deserialize_with = "location::duration")]
    pub(crate) trial: Duration,
    #[serde(deserialize_with = "location::duration")]
    pub(crate) warmup: Duration,
    pub(crate) figures: Vec<FigureKind>,
    pub(crate) load: Load,
    #[serde(default)]
    pub(crate) pins: Pins,
    pub(crate) sweep: Sweep,
    pub(crate) vary: Option<Vary>,
    pub(crate) server: Vec<Server>,
    pub(crate) quick: Option<Quick>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Load {
    pub(crate) connections: u32,
    pub(crate) depth: u32,
    pub(crate) threads: u32,
    pub(crate) keys: String,
    pub(crate) values: String,
    pub(crate) arrivals: String,
    pub(crate) popularity: String,
    pub(crate) update: f64,
    pub(crate) records: u64,
    #[serde(default, alias = "greedy")]
    pub(crate) saturating: u32,
    #[serde(default = "saturating_depth", alias = "greedy-depth")]
    pub(crate) saturating_depth: u32,
}

/// The default of `curtail load`.
fn saturating_depth() -> u32 {
    512
}

/// Processors; an empty list: not pinned.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct Pins {
    pub(crate) server: Vec<usize>,
    pub(crate) load: Vec<usize>,
    /// Raise the scheduling priority of server and generator.
    pub(crate) go_first: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Sweep {
    #[serde(default)]
    pub(crate) capacity_trials: u32,
    pub(crate) levels: Option<Vec<f64>>,
    #[serde(default, deserialize_with = "location::rates")]
    pub(crate) rates: Option<Vec<f64>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) kind: ServerKind,
    pub(crate) program: Option<String>,
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServerKind {
    /// This build's `serve`.
    Curtail,
    /// Any other server that speaks the protocol.
    Command,
}

/// The changes of `--quick`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Quick {
    pub(crate) connections: Option<u32>,
    pub(crate) records: Option<u64>,
    pub(crate) repeats: Option<u32>,
    #[serde(default, deserialize_with = "location::optional_duration")]
    pub(crate) trial: Option<Duration>,
    #[serde(default, deserialize_with = "location::optional_duration")]
    pub(crate) warmup: Option<Duration>,
    pub(crate) capacity_trials: Option<u32>,
    pub(crate) levels: Option<Vec<f64>>,
    #[serde(default, deserialize_with = "location::rates")]
    pub(crate) rates: Option<Vec<f64>>,
    pub(crate) vary: Option<Vary>,
}

impl Content {
    /// The content with the values of `[quick]` applied and the table removed.
    pub(crate) fn quickened(mut self, quick: &Quick) -> Self {
        self.quick = None;
        let load = &mut self.load;
        load.connections = quick.connections.unwrap_or(load.connections);
        load.records = quick.records.unwrap_or(load.records);
        self.repeats = quick.repeats.unwrap_or(self.repeats);
        self.trial = quick.trial.unwrap_or(self.trial);
        self.warmup = quick.warmup.unwrap_or(self.warmup);
        let sweep = &mut self.sweep;
        sweep.capacity_trials = quick.capacity_trials.unwrap_or(sweep.capacity_trials);
        sweep.levels = quick.levels.clone().or(sweep.levels.take());
        sweep.rates = quick.rates.clone().or(sweep.rates.take());
        self.vary = quick.vary.clone().or(self.vary);
        self
    }
}

impl Load {
    /// The load as a plan states it.
    pub(crate) fn planned(&self) -> folder::Load {
        folder::Load {
            connections: self.connections,
            depth: self.depth,
            threads: self.threads,
            keys: self.keys.clone(),
            values: self.values.clone(),
            arrivals: self.arrivals.clone(),
            popularity: self.popularity.clone(),
            update: self.update,
            records: self.records,
            saturating: self.saturating,
            saturating_depth: self.saturating_depth,
        }
    }
}

impl Experiment {
    /// Loads an experiment by its shipped name or by the path of a file (which contains a `/` or
    /// ends in `.toml`).
    ///
    /// # Errors
    /// There is no such experiment, or it is unreadable or invalid; the message names the place.
    pub fn load(name_or_path: &str) -> Result<Self, Error> {
        if let Some(known) = shipped().iter().find(|known| known.name == name_or_path) {
            return Self::parse(known.name, &format!("{}.toml", known.name), known.text);
        }
        let path = Path::new(name_or_path);
        let is_toml = path
            .extension()
            .is_some_and(|extension| extension == "toml");
        if !is_toml && !name_or_path.contains('/') && !path.is_file() {
            return Err(Error::NoSuchExperiment {
                name: name_or_path.to_owned(),
                shipped: shipped()
                    .iter()
                    .map(|known| known.name)
                    .collect::<Vec<_>>()
                    .join(", "),
                suggestion: nearest(name_or_path, shipped().iter().map(|known| known.name))
                    .map(str::to_owned),
            });
        }
        let mut text = String::new();
        let file = File::open(path).map_err(Error::file("open", path))?;
        file.take(limits::EXPERIMENT_LEN + 1)
            .read_to_string(&mut text)
            .map_err(Error::file("read", path))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, name_or_path, &text)
    }

    /// Parses an experiment from `text`; messages call it `path`.
    ///
    /// # Errors
    /// It is invalid; the message names the place.
    pub fn parse(name: &str, path: &str, text: &str) -> Result<Self, Error> {
        if text.len() as u64 > limits::EXPERIMENT_LEN {
            return Err(Error::Experiment {
                place: path.to_owned(),
                problem: format!("longer than {} bytes", limits::EXPERIMENT_LEN),
            });
        }
        let content =
            toml::from_str(text).map_err(|error| location::explain(&error, path, text))?;
        let experiment = Self {
            name: name.to_owned(),
            path: path.to_owned(),
            text: text.to_owned(),
            content,
        };
        check::check(&experiment)?;
        Ok(experiment)
    }

    /// The question of the experiment.
    #[must_use]
    pub fn question(&self) -> &str {
        &self.content.question
    }

    /// The file's text.
    #[must_use]
    pub fn toml(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests;
