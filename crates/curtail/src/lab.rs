//! `curtail lab`: experiments planned, run, shown.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::lab::{Ending, Experiment, Options};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use report::Run;

#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run an experiment, or go on with a run that was interrupted
    Run(RunFlags),
    /// Say what a run would do and how long it would take
    Plan(RunFlags),
    /// List the experiments that come with the program
    List,
    /// Show an experiment's file, or what a run folder says
    Show {
        /// An experiment's name, or a run folder
        #[arg(value_name = "NAME|RUN")]
        what: String,
        /// Print the experiment's file, to start one's own
        #[arg(long)]
        toml: bool,
    },
    /// Draw a run folder's figures and page again
    Report {
        /// The run folder
        #[arg(value_name = "RUN")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
struct RunFlags {
    /// A shipped experiment's name, or the path of a file
    #[arg(value_name = "EXPERIMENT")]
    experiment: String,

    /// The experiment's short form: minutes instead of an hour, and the report says so
    #[arg(long)]
    quick: bool,

    /// Begin anew though an unfinished run of the same plan exists
    #[arg(long)]
    fresh: bool,

    /// Instead of the file's seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// A program to start instead of the one the file names; may be given more than once
    #[arg(long, value_name = "SERVER=PATH", value_parser = server)]
    server: Vec<(String, PathBuf)>,

    /// The run folder, instead of one named after experiment and time
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,

    /// Where run folders are made
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    runs: PathBuf,
}

fn server(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(path)))
        }
        _ => Err("give NAME=PATH, such as memcached=/usr/local/bin/memcached".to_owned()),
    }
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    match &flags.verb {
        Verb::Run(flags) => run_experiment(flags),
        Verb::Plan(flags) => {
            let (experiment, options) = flags.open()?;
            print!("{}", ::lab::plan_text(&experiment.plan(&options)?));
            Ok(ExitCode::SUCCESS)
        }
        Verb::List => {
            for (name, question) in ::lab::list()? {
                println!("{name:16} {question}");
            }
            Ok(ExitCode::SUCCESS)
        }
        Verb::Show { what, toml } => show(what, *toml),
        Verb::Report { folder } => {
            draw(folder)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl RunFlags {
    fn open(&self) -> anyhow::Result<(Experiment, Options)> {
        let experiment = Experiment::load(&self.experiment)?;
        let mut options = Options::new()?;
        options.quick = self.quick;
        options.fresh = self.fresh;
        options.seed = self.seed;
        options.servers.clone_from(&self.server);
        options.into.clone_from(&self.into);
        options.runs.clone_from(&self.runs);
        Ok((experiment, options))
    }
}

fn run_experiment(flags: &RunFlags) -> anyhow::Result<ExitCode> {
    let (experiment, options) = flags.open()?;
    let plan = experiment.plan(&options)?;
    eprint!("{}", ::lab::plan_text(&plan));
    let outcome = ::lab::run(&plan, &options, &mut *::lab::for_stderr())?;
    // One that was stopped is drawn when it is whole.
    if outcome.ending == Ending::Complete {
        draw(&outcome.folder)?;
    }
    Ok(ExitCode::from(outcome.exit_code()))
}

fn show(what: &str, toml: bool) -> anyhow::Result<ExitCode> {
    if Path::new(what).is_dir() {
        if toml {
            bail!("--toml prints an experiment, and {what} is a run folder");
        }
        print!("{}", report::text_summary(&Run::open(what)?));
        return Ok(ExitCode::SUCCESS);
    }
    let experiment = Experiment::load(what)?;
    if toml {
        print!("{}", experiment.toml());
    } else {
        println!("{}", experiment.question());
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws a run's figures and page, and says what they show.
fn draw(folder: &Path) -> anyhow::Result<()> {
    let context = || format!("the trials are kept in {}", folder.display());
    report::render(folder).with_context(context)?;
    print!(
        "{}",
        report::text_summary(&Run::open(folder).with_context(context)?)
    );
    println!("\nreport: {}", folder.join("report.html").display());
    Ok(())
}
