//! The lab: runs an experiment file as a plan of trials and records them in a run folder.
//!
//! ```text
//! rate-ladder.toml ──load──▶ Experiment ──plan──▶ Plan ──run──▶ runs/rate-ladder-…/
//!                            checked              resolved on      trials.jsonl, histograms,
//!                                                 this machine     logs, host.json, plan.toml
//! ```
//!
//! A run performs its trials one after another: start a server, prefill it, load it from a separate
//! process, stop it, record the result. Invariants: a record is on disk before the next trial
//! begins; a failed trial is recorded too; no process that a run started outlives it, however the
//! run ends. [`report::folder`] defines the run folder's format; the `report` crate draws it.
#![forbid(unsafe_code)]

mod error;
mod experiment;
pub mod host;
pub mod limits;
pub mod plan;
mod progress;
mod run;
mod run_folder;
mod trial;
pub mod units;

pub use error::Error;
pub use experiment::{Experiment, Shipped, shipped};
pub use plan::{Options, plan_text};
pub use progress::{BarReporter, Event, LineReporter, Progress, Reporter, for_stderr};
pub use run::{Ending, RunOutcome, run};

/// Name and question of each shipped experiment.
///
/// # Errors
/// A shipped experiment is invalid, which is a bug.
pub fn list() -> Result<Vec<(&'static str, String)>, Error> {
    shipped()
        .iter()
        .map(|known| {
            let experiment = Experiment::load(known.name)?;
            Ok((known.name, experiment.question().to_owned()))
        })
        .collect()
}
