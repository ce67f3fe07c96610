//! The laboratory: experiment file to plan to trials to run folder.
//!
//! ```text
//! rate-ladder.toml ──load──▶ Experiment ──plan──▶ Plan ──run──▶ runs/rate-ladder-…/
//!                            checked              this machine's   trials.jsonl, histograms,
//!                                                 processors and   logs, host.json, plan.toml
//!                                                 servers
//! ```
//!
//! A run makes one trial after another: start a server, fill it, load it from a process of its
//! own, stop it, keep the record. Invariants: a record is on disk before the next trial begins; a
//! trial that fails is a record too; nothing that a run started outlives it, however it ends.
//! What the types of a run folder mean stands in [`report::folder`]; drawing it is `report`'s.
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

/// The shipped experiments, a line each: name and question.
///
/// # Errors
/// A shipped experiment is wrong. It would be a bug.
pub fn list() -> Result<Vec<(&'static str, String)>, Error> {
    shipped()
        .iter()
        .map(|known| {
            let experiment = Experiment::load(known.name)?;
            Ok((known.name, experiment.question().to_owned()))
        })
        .collect()
}
