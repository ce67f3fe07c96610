//! `curtail power`: energy under a latency objective.

mod machine;
mod model;
mod tune;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Energy under a latency objective.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say which knobs and meters this machine has, and what is missing
    Doctor(machine::Doctor),
    /// Set knobs, run a command, tell its energy, and restore the knobs however it ends
    Run(machine::Run),
    /// Restore knobs after a run that was killed together with its guard
    Restore(machine::Restore),
    /// Search the setting with the least energy that keeps p99 below an objective
    Tune(tune::Tune),
    /// Print the published savings beside those of the model, fitted and predicted
    Residuals(model::Residuals),
    /// Search the model's parameters again, from the published savings
    Fit(model::Fit),
    /// Test the study's findings against its printed table and against the model
    Audit(model::Audit),
    /// The process that restores the knobs of a run
    #[command(hide = true)]
    Guard(machine::Restore),
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    match &flags.verb {
        Verb::Doctor(flags) => flags.print(),
        Verb::Run(flags) => return flags.run(),
        Verb::Restore(flags) => return flags.restore(),
        Verb::Tune(flags) => return flags.run(),
        Verb::Residuals(flags) => flags.print(),
        Verb::Fit(flags) => flags.print(),
        Verb::Audit(flags) => flags.print(),
        Verb::Guard(flags) => return flags.guard(),
    }
    Ok(ExitCode::SUCCESS)
}
