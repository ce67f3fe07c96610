//! Resolves an experiment into an effective plan: the processors and servers of this machine, and
//! every default.

use std::path::{Path, PathBuf};
use std::time::Duration;

use measure::{Capacity, CapacityTrial};
use report::folder;

use crate::error::Error;
use crate::experiment::{Content, Experiment};
use crate::limits::Timeouts;

pub mod estimate;
pub mod order;
mod pins;
mod servers;
pub(crate) mod text;

pub use text::plan_text;

/// Options of a run, in addition to the experiment.
#[derive(Debug, Clone)]
pub struct Options {
    /// The experiment's short form.
    pub quick: bool,
    /// Begin a new run even if an unfinished one of the same plan exists.
    pub fresh: bool,
    /// Seed that replaces the file's.
    pub seed: Option<u64>,
    /// Programs that replace those of the file: (server, path).
    pub servers: Vec<(String, PathBuf)>,
    /// The run folder itself, instead of one named after experiment and time in `runs`.
    pub into: Option<PathBuf>,
    /// The folder of run folders.
    pub runs: PathBuf,
    /// The program with `serve` and `load`: this build.
    pub curtail: PathBuf,
    /// Timeouts for servers and generators.
    pub timeouts: Timeouts,
}

impl Options {
    /// The defaults: the running program, `runs` in the working directory.
    ///
    /// # Errors
    /// The running program's path is not known (`/proc` is not mounted).
    pub fn new() -> Result<Self, Error> {
        let curtail = std::env::current_exe().map_err(Error::system("find the running program"))?;
        Ok(Self {
            quick: false,
            fresh: false,
            seed: None,
            servers: Vec::new(),
            into: None,
            runs: PathBuf::from("runs"),
            curtail,
            timeouts: Timeouts::default(),
        })
    }
}

impl Experiment {
    /// The effective plan on this machine. It contains servers that are not installed as skipped,
    /// with the reason.
    ///
    /// # Errors
    /// An option contradicts the experiment, or every server is skipped.
    pub fn plan(&self, options: &Options) -> Result<folder::Plan, Error> {
        let allowed = sys::thread::allowed_cpus()
            .map_err(Error::system("read the processors this process may use"))?;
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let environment = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let servers = servers::resolve(self, options, &search_path, &environment)?;
        self.plan_for(options, &allowed, servers)
    }

    fn plan_for(
        &self,
        options: &Options,
        allowed: &[usize],
        servers: Vec<folder::Server>,
    ) -> Result<folder::Plan, Error> {
        let content = match options.quick {
            true => self.quick()?,
            false => self.content.clone(),
        };
        let seed = options.seed.unwrap_or(content.seed);
        if i64::try_from(seed).is_err() {
            return Err(Error::Option {
                option: format!("--seed {seed}"),
                problem: "the largest seed is 2^63 - 1".to_owned(),
            });
        }
        let (pins, mut notes) = pins::resolve(&content.pins, allowed);
        let goes_first = pins.go_first && sys::thread::may_go_first();
        if pins.go_first && !goes_first {
            notes.push(NOT_FIRST.to_owned());
        }
        Ok(folder::Plan {
            schema: folder::SCHEMA.to_owned(),
            experiment: self.name.clone(),
            question: content.question,
            quick: options.quick,
            seed,
            repeats: content.repeats,
            trial_ns: nanoseconds(content.trial),
            warmup_ns: nanoseconds(content.warmup),
            load: content.load.planned(),
            server_cpus: pins.server,
            load_cpus: pins.load,
            goes_first,
            sweep: match (content.sweep.levels, content.sweep.rates) {
                (Some(levels), _) => folder::Sweep::LoadLevels(levels),
                (None, rates) => folder::Sweep::Rates(rates.unwrap_or_default()),
            },
            vary: content.vary,
            capacity_trials: content.sweep.capacity_trials,
            servers,
            figures: content.figures,
            notes,
        })
    }

    /// The experiment with the changes of `--quick`.
    fn quick(&self) -> Result<Content, Error> {
        let Some(quick) = &self.content.quick else {
            return Err(Error::Option {
                option: "--quick".to_owned(),
                problem: format!(
                    "{} has no [quick] table, which defines the short form: add one, or run without \
                     --quick",
                    self.path
                ),
            });
        };
        Ok(self.content.clone().quickened(quick))
    }
}

const NOT_FIRST: &str = "This user cannot raise priorities (that needs root or CAP_SYS_NICE): other \
    processes share the processors of server and generator, and latencies include their time.";

/// The offered rate of a cell for a server of that capacity, in whole requests per second if the
/// sweep is in levels. None: the sweep is in levels and the capacity is not known.
#[must_use]
pub fn offered_rps(plan: &folder::Plan, cell: u32, capacity_rps: Option<f64>) -> Option<f64> {
    match &plan.sweep {
        folder::Sweep::LoadLevels(_) => Some((plan.level(cell)? * capacity_rps?).round().max(1.0)),
        folder::Sweep::Rates(rates) => rates.get(plan.setting_and_rate(cell).1 as usize).copied(),
    }
}

/// A server's capacity under a setting, as in the report ([`measure::Capacity`]). None: not
/// measured.
#[must_use]
pub fn capacity_rps(trials: &[folder::Trial], server: &str, setting: u32) -> Option<f64> {
    let is_of = |trial: &&folder::Trial| {
        trial.phase == folder::Phase::Capacity && trial.server == server && trial.cell == setting
    };
    let trials: Vec<CapacityTrial> = trials
        .iter()
        .filter(is_of)
        .filter_map(|trial| match &trial.outcome {
            folder::Outcome::Measured(measured) => Some(CapacityTrial {
                achieved_rps: measured.achieved_rps,
                generator_limited: measured.generator_limited,
            }),
            folder::Outcome::Failed(_) => None,
        })
        .collect();
    Capacity::of(&trials, CONFIDENCE).map(|capacity| capacity.rps.value)
}

/// Confidence of [`Capacity`]'s interval; the median, used here, does not depend on it.
const CONFIDENCE: f64 = 0.95;

fn nanoseconds(duration: Duration) -> u64 {
    // Bounded by `limits::TRIAL_MAX`.
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// `path` as text in a command.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
pub(crate) mod tests;
