//! Resolves an experiment into an effective plan: the cells, and the settings on this machine.

use std::path::PathBuf;

use report::record::Plan;
use report::shell_word;
use toml::de::DeTable;

use crate::error::Error;
use crate::experiment::Experiment;
use crate::kind::{Entry, Kind};
use crate::limits::Timeouts;

pub(crate) mod estimate;
pub(crate) mod order;
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
    /// The kinds of trial ([`crate::Laboratory::kinds`]).
    pub kinds: &'static [Entry],
}

impl Experiment {
    /// The effective plan on this machine.
    ///
    /// # Errors
    /// An option contradicts the experiment, or the machine lacks what every trial needs.
    pub fn plan(&self, options: &Options) -> Result<Plan, Error> {
        if options.quick && !self.has_quick() {
            let path = self.path();
            return Err(Error::Refused(format!(
                "--quick: {path} has no [quick] table, which defines the short form: add one, or \
                 run without --quick"
            )));
        }
        let mut content = self.content(options.quick)?;
        let seed = options.seed.unwrap_or(content.general.seed);
        if i64::try_from(seed).is_err() {
            let problem = "the largest seed is 2^63 - 1";
            return Err(Error::at(format_args!("--seed {seed}"), problem));
        }
        let notes = content.kind.resolve(options)?;
        // The servers that take part are factors, so the design follows the machine.
        let plan = content.plan();
        Ok(Plan {
            experiment: self.name.clone(),
            quick: options.quick,
            seed,
            notes,
            rerun: Some(self.rerun(options, seed)),
            ..plan.map_err(|violation| self.explain(&violation, options.quick))?
        })
    }
}

impl Experiment {
    /// The command that repeats a run of these options.
    fn rerun(&self, options: &Options, seed: u64) -> String {
        let what = if self.is_shipped {
            &self.name
        } else {
            self.path()
        };
        let mut words = vec![shell_word(what)];
        words.extend(options.quick.then(|| "--quick".to_owned()));
        words.extend(["--seed".to_owned(), seed.to_string()]);
        for (server, path) in &options.servers {
            let server = shell_word(&format!("{server}={}", path.display()));
            words.extend(["--server".to_owned(), server]);
        }
        format!("curtail lab run {}", words.join(" "))
    }
}

/// The kind of a plan, with the plan's settings.
pub(crate) fn kind_of(plan: &Plan, options: &Options) -> Result<Box<dyn Kind>, Error> {
    let bad = |problem: String| Error::encode("the plan's settings", problem);
    let entry = options.kinds.iter().find(|it| it.name == plan.kind);
    let entry = entry.ok_or_else(|| bad(format!("no kind of trial `{}`", plan.kind)))?;
    let text = toml::to_string(&plan.settings).map_err(|error| bad(error.to_string()))?;
    let settings = DeTable::parse(&text).map_err(|error| bad(error.message().to_owned()))?;
    (entry.read)(settings.into()).map_err(|error| bad(error.message().to_owned()))
}

#[cfg(test)]
pub(crate) mod tests;
