//! The lab: runs an experiment file as a plan of trials and records them in a run folder.
//!
//! ```text
//! rate-ladder.toml ──load──▶ Experiment ──plan──▶ Plan ──run──▶ runs/rate-ladder-…/
//!                            checked              resolved on      trials.jsonl, histograms,
//!                                                 this machine     logs, host.json, plan.toml
//! ```
//!
//! An experiment is of one *kind* of trial ([`Entry`]), which says what a trial does: load a cache,
//! run a program, evaluate a model. A run makes its trials one after another. Invariants: a record
//! is on disk before the next trial begins; a failed trial is recorded too; no process that a run
//! started outlives it, however the run ends, unless it has left its process group (as a daemon
//! does). [`report::record`] defines the run folder's format;
//! the `report` crate draws it.
#![forbid(unsafe_code)]

mod builds;
mod commands;
mod design;
mod error;
mod experiment;
mod health;
mod host;
mod hosts_table;
mod interval;
mod kind;
mod laboratory;
pub mod limits;
mod list;
mod location;
mod measured;
pub mod model;
mod overlay;
mod pilot;
mod placeholder;
mod plan;
mod port;
mod process;
mod progress;
mod rates;
mod relayed;
mod run;
mod run_folder;
#[cfg(test)]
mod tests;

pub use commands::{Commands, Written};
pub use error::Error;
pub use experiment::Experiment;
pub use health::complaints;
pub use kind::Entry;
pub use laboratory::{Laboratory, Shipped};
pub use measured::{MEASURED, NeededServer, Needs, needs};
pub use pilot::pilot_text;
pub use plan::{Options, plan_text};
pub use progress::{BarReporter, Event, LineReporter, Progress, Reporter, for_stderr};
pub use run::{Ending, RunOutcome, run};
