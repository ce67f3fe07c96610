//! `curtail lab try` and `curtail lab pilot`: an answer before there is an experiment file, or
//! before its repeats are known.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use ::lab::{Commands, Ending};
use anyhow::Context;
use clap::Args;
use report::Run;

use super::{Bounds, LABORATORY, RunFlags, finish, perform};

#[derive(Debug, Args)]
pub(super) struct TryFlags {
    /// A server as a command line. `{port}` stands for the port that the laboratory chooses;
    /// without it, memcached and `curtail serve` get `-p {port} -l 127.0.0.1`
    #[arg(value_name = "COMMAND", required = true)]
    commands: Vec<String>,

    /// Offered rates [default: closed loop, as fast as answers come]
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = rate)]
    rates: Vec<String>,

    /// Connections
    #[arg(long, short = 'c', value_name = "N", default_value_t = 16)]
    connections: u32,

    /// Measured time of a trial
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    trial: String,

    /// Time before it, which is not measured
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    warmup: String,

    /// Trials of each server at each rate
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: u32,

    /// Records that are set before
    #[arg(long, short = 'r', value_name = "N", default_value = "10k", value_parser = units::count)]
    records: u64,

    /// Share of requests that are sets
    #[arg(long, short = 'u', value_name = "SHARE", default_value = "0.1",
          value_parser = units::share)]
    update: f64,

    /// Write the experiment file, to change it and run it with `curtail lab run`
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    /// Run folder, instead of a new one named by time
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,

    /// Folder in which run folders are created
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    runs: PathBuf,

    #[command(flatten)]
    bounds: Bounds,
}

#[derive(Debug, Args)]
pub(super) struct PilotFlags {
    #[command(flatten)]
    run: RunFlags,

    /// Trials of each cell
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=100))]
    repeats: u32,
}

fn rate(text: &str) -> Result<String, units::UnitError> {
    units::rate_rps(text).map(|_| text.to_owned())
}

fn duration(text: &str) -> Result<String, units::UnitError> {
    units::duration_ns(text).map(|_| text.to_owned())
}

pub(super) fn run_commands(flags: &TryFlags) -> anyhow::Result<ExitCode> {
    let written = Commands {
        commands: flags.commands.clone(),
        rates: flags.rates.clone(),
        connections: flags.connections,
        trial: flags.trial.clone(),
        warmup: flags.warmup.clone(),
        repeats: flags.repeats,
        records: flags.records,
        update: flags.update,
        processors: halves(),
        is_root: sys::privileges::is_root(),
    };
    let written = written.write().map_err(anyhow::Error::msg)?;
    for note in &written.notes {
        eprintln!("{note}");
    }
    if let Some(path) = &flags.write {
        let context = || format!("failed to write {}", path.display());
        fs::write(path, &written.text).with_context(context)?;
    }
    let experiment = LABORATORY.parse("try", "experiment.toml", &written.text)?;
    let mut options = LABORATORY.options()?;
    options.into.clone_from(&flags.into);
    options.runs.clone_from(&flags.runs);
    let outcome = perform(&experiment.plan(&options)?, &options)?;
    let path = outcome.folder.join("experiment.toml");
    let context = || format!("failed to write {}", path.display());
    fs::write(&path, &written.text).with_context(context)?;
    finish(&outcome, &flags.bounds)
}

/// One half of the processors for the server and one for the load. None if there is only one.
fn halves() -> [Vec<u32>; 2] {
    let count = std::thread::available_parallelism().map_or(1, |it| it.get() as u32);
    match count {
        1 => [Vec::new(), Vec::new()],
        _ => [(0..count / 2).collect(), (count / 2..count).collect()],
    }
}

pub(super) fn pilot(flags: &PilotFlags) -> anyhow::Result<ExitCode> {
    let (experiment, options) = flags.run.open()?;
    let plan = experiment.pilot(&options, flags.repeats)?;
    let outcome = perform(&plan, &options)?;
    let ending = finish(&outcome, &Bounds::default())?;
    if outcome.ending == Ending::Complete {
        let run = Run::open(&outcome.folder)?;
        print!("\n{}", ::lab::pilot_text(&run.plan, &run.records));
    }
    Ok(ending)
}
