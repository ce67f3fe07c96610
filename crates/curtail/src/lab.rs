//! `curtail lab`: plans, runs and shows experiments.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::lab::{Ending, Experiment, Options, RunOutcome};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use report::Run;
use report::compare::{self, Bound};
use report::record::Plan;
use report::target::Verdict;

mod ab;
#[cfg(test)]
mod pages;
mod shipped;
mod without_file;

pub(crate) use shipped::LABORATORY;

#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run an experiment, or resume an interrupted run
    #[command(after_help = EXIT_STATUS)]
    Run {
        #[command(flatten)]
        run: RunFlags,
        #[command(flatten)]
        bounds: Bounds,
    },
    /// Compare servers that are command lines, and write the experiment file that does it
    #[command(after_help = EXIT_STATUS)]
    Try(without_file::TryFlags),
    /// Make a few trials, and say how many repeats would decide what
    Pilot(without_file::PilotFlags),
    /// Show what a run would do, and how long it would take
    Plan(RunFlags),
    /// List the built-in experiments by study: time, need of root, question, what they repeat
    List,
    /// Show an experiment's question, or the summary of a run folder
    Show {
        /// An experiment's name, or a run folder
        #[arg(value_name = "NAME|RUN")]
        what: String,
        /// Print the experiment's file, as a template for another
        #[arg(long)]
        toml: bool,
    },
    /// Compare two runs of one experiment, or the cells of one run
    Compare(CompareFlags),
    /// Compare two builds of this program in one run, interleaved
    Ab(ab::Flags),
    /// Show how a metric developed over the runs of an experiment, and where its level changed
    History(HistoryFlags),
    /// Redraw the figures and the page of a run folder
    Report {
        /// The run folder
        #[arg(value_name = "RUN")]
        folder: PathBuf,
    },
    /// Write one page over all runs of a folder, with search and side by side
    Gallery {
        /// The folder of run folders
        #[arg(value_name = "FOLDER", default_value = "runs")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
struct RunFlags {
    /// Name of a built-in experiment, or path of a file
    #[arg(value_name = "EXPERIMENT")]
    experiment: String,

    /// Run the experiment's short form, which takes minutes; the report states it
    #[arg(long)]
    quick: bool,

    /// Begin a new run even if an unfinished run of the same plan exists
    #[arg(long)]
    fresh: bool,

    /// Seed, instead of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Program of a server, instead of the file's; may be repeated
    #[arg(long, value_name = "SERVER=PATH", value_parser = server)]
    server: Vec<(String, PathBuf)>,

    /// Run folder, instead of a new one named by experiment and time
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,

    /// Folder in which run folders are created
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    runs: PathBuf,
}

/// When a complete run ends with status 1.
#[derive(Debug, Default, Args)]
struct Bounds {
    /// Exit with status 1 if a [[target]] of the experiment is missed
    #[arg(long)]
    fail_if_missed: bool,

    /// Exit with status 1 if more than this share of the trials fail, such as 10%
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    fail_above: Option<f64>,
}

const EXIT_STATUS: &str = "\
Exit status: 0 if the run is complete; 1 if it could not be made, if all trials of a cell failed, if \
the instrument contradicted itself, or beyond --fail-if-missed and --fail-above; 2 if the command \
line is wrong; 130 if the run was stopped.";

#[derive(Debug, Args)]
struct CompareFlags {
    /// The run folder that is the baseline, or the only one: its cells are then compared with those
    /// of the first value of its first factor, such as the first server
    #[arg(value_name = "RUN")]
    baseline: PathBuf,

    /// The run folder that is compared with it
    #[arg(value_name = "RUN")]
    other: Option<PathBuf>,

    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Args)]
struct HistoryFlags {
    /// Name of the experiment
    #[arg(value_name = "EXPERIMENT")]
    experiment: String,

    /// Name of the metric
    #[arg(value_name = "METRIC")]
    metric: String,

    /// The folder of run folders
    #[arg(value_name = "FOLDER", default_value = "runs")]
    folder: PathBuf,

    /// The runs of the short form, instead of the others
    #[arg(long)]
    quick: bool,
}

/// What is shown of a comparison, and when it fails.
#[derive(Debug, Args)]
struct Shown {
    /// Metric to show, instead of all that have a better direction; may be repeated
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,

    /// Exit with status 1 if a ratio is beyond a factor with its whole 95 % interval, such as
    /// `response_p99_ns > 1.05x`; may be repeated
    #[arg(long, value_name = "METRIC > FACTORx")]
    fail_if: Vec<Bound>,
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
        Verb::Run { run, bounds } => run_experiment(run, bounds),
        Verb::Try(flags) => without_file::run_commands(flags),
        Verb::Pilot(flags) => without_file::pilot(flags),
        Verb::Plan(flags) => {
            let (experiment, options) = flags.open()?;
            let plan = experiment.plan(&options)?;
            print!("{}", ::lab::plan_text(&plan, &options)?);
            Ok(ExitCode::SUCCESS)
        }
        Verb::List => {
            print!("{}", LABORATORY.list()?);
            Ok(ExitCode::SUCCESS)
        }
        Verb::Show { what, toml } => show(what, *toml),
        Verb::Compare(flags) => compare_runs(flags),
        Verb::Ab(flags) => ab::run(flags),
        Verb::History(flags) => history(flags),
        Verb::Gallery { folder } => {
            let gallery = report::gallery(folder)?;
            for (name, why) in &gallery.unreadable {
                eprintln!("not shown: {name}: {why}");
            }
            let runs = report::plural(gallery.runs as u64, "run");
            println!("{runs}: {}", gallery.page.display());
            Ok(ExitCode::SUCCESS)
        }
        Verb::Report { folder } => {
            draw(folder)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl RunFlags {
    fn open(&self) -> anyhow::Result<(Experiment, Options)> {
        let experiment = LABORATORY.load(&self.experiment)?;
        let mut options = LABORATORY.options()?;
        options.quick = self.quick;
        options.fresh = self.fresh;
        options.seed = self.seed;
        options.servers.clone_from(&self.server);
        options.into.clone_from(&self.into);
        options.runs.clone_from(&self.runs);
        Ok((experiment, options))
    }
}

fn run_experiment(flags: &RunFlags, bounds: &Bounds) -> anyhow::Result<ExitCode> {
    let (experiment, options) = flags.open()?;
    let outcome = perform(&experiment.plan(&options)?, &options)?;
    finish(&outcome, bounds)
}

/// Shows a plan and runs it.
fn perform(plan: &Plan, options: &Options) -> anyhow::Result<RunOutcome> {
    eprint!("{}", ::lab::plan_text(plan, options)?);
    Ok(::lab::run(plan, options, &mut *::lab::for_stderr())?)
}

/// Draws a run if it is complete (an interrupted one is drawn then), and says what is wrong.
fn finish(outcome: &RunOutcome, bounds: &Bounds) -> anyhow::Result<ExitCode> {
    if outcome.ending != Ending::Complete {
        return Ok(ExitCode::from(outcome.exit_code()));
    }
    let run = draw(&outcome.folder)?;
    let mut complaints = ::lab::complaints(&run, bounds.fail_above);
    if bounds.fail_if_missed {
        let judged = report::target::judged(&run).into_iter();
        let missed = judged.filter(|it| it.verdict == Verdict::Missed);
        complaints.extend(missed.map(|it| format!("target missed: {}", it.name)));
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    Ok(match complaints.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn show(what: &str, toml: bool) -> anyhow::Result<ExitCode> {
    if Path::new(what).is_dir() {
        if toml {
            bail!("--toml prints an experiment's file, but {what} is a run folder");
        }
        print!("{}", report::text_summary(&Run::open(what)?));
        return Ok(ExitCode::SUCCESS);
    }
    let experiment = LABORATORY.load(what)?;
    if toml {
        print!("{}", experiment.toml());
    } else {
        println!("{}", experiment.question()?);
    }
    Ok(ExitCode::SUCCESS)
}

fn compare_runs(flags: &CompareFlags) -> anyhow::Result<ExitCode> {
    let baseline = Run::open(&flags.baseline)?;
    let (run, sentences) = match &flags.other {
        None => (baseline, Vec::new()),
        Some(other) => {
            let other = Run::open(other)?;
            let joined = compare::joined(&[&baseline, &other]).map_err(anyhow::Error::msg)?;
            (joined, compare::circumstances(&baseline, &other))
        }
    };
    let ending = print_compared(&run, &flags.shown)?;
    for sentence in sentences {
        println!("{sentence}");
    }
    Ok(ending)
}

fn history(flags: &HistoryFlags) -> anyhow::Result<ExitCode> {
    let history = report::history(&flags.folder, &flags.experiment, flags.quick, &flags.metric)?;
    for (name, why) in &history.left_out {
        eprintln!("not shown: {name}: {why}");
    }
    print!("{}", history.text);
    println!("\npage: {}", history.page.display());
    Ok(ExitCode::SUCCESS)
}

/// Prints the comparisons of a run. Fails if one exceeds a bound.
fn print_compared(run: &Run, shown: &Shown) -> anyhow::Result<ExitCode> {
    let compared = compare::compare(run, &shown.metric, &shown.fail_if);
    let compared = compared.map_err(anyhow::Error::msg)?;
    print!("{}", compared.text);
    for bound in &compared.exceeded {
        println!("exceeded: {bound}");
    }
    Ok(match compared.exceeded.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Draws a run's figures and page, and prints its summary.
fn draw(folder: &Path) -> anyhow::Result<Run> {
    let context = || format!("the trials are kept in {}", folder.display());
    report::render(folder).with_context(context)?;
    let run = Run::open(folder).with_context(context)?;
    print!("{}", report::text_summary(&run));
    println!("\nreport: {}", folder.join("report.html").display());
    Ok(run)
}
