//! What a request costs beside what the kernel alone costs it, and what else the standing targets
//! name.
//!
//! ```text
//! cargo bench -p curtail --bench floor -- [--quick] [--before PROGRAM [--server S]] [NAME]…
//! ```
//!
//! Runs the shipped experiments whose names contain one of the words NAME (all without one), and
//! prints their targets together at the end. `--quick` takes their short forms. With `--before`,
//! the experiments of processor time compare this build with an older one, which is PROGRAM, in
//! place of their servers; both are run as the first server of this build, which is `rings`, or
//! as the one that `--server` names.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints"
)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use anyhow::{Context, Result, bail};
use lab::{Ending, Laboratory};
use report::Run;
use report::compare::{Bound, compare};

/// The experiments, and whether they are of processor time.
const EXPERIMENTS: [(&str, bool); 6] = [
    ("echo-gets", true),
    ("cost-mixes", true),
    ("idle-memory", false),
    ("fairness", false),
    ("tail-half", false),
    ("tail-nine-tenths", false),
];
const METRIC: &str = "server_cpu_ns_per_request";
/// The target of a change: processor time after it ÷ before it.
const AFTER_TO_BEFORE: f64 = 1.05;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("floor: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What to run.
#[derive(Default)]
struct Flags {
    is_quick: bool,
    before: Option<PathBuf>,
    server: Option<String>,
    names: Vec<String>,
}

impl Flags {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut flags = Self::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                // Cargo gives it to every benchmark.
                "--bench" => {}
                "--quick" => flags.is_quick = true,
                "--before" => {
                    let program = words.next().context("--before needs an older program")?;
                    flags.before = Some(std::path::absolute(program)?);
                }
                "--server" => {
                    let name = words.next().context("--server needs a server's name")?;
                    flags.server = Some(name);
                }
                _ if word.starts_with('-') => bail!(
                    "no option {word}; there are --quick, --before PROGRAM, --server NAME and names"
                ),
                _ => flags.names.push(word),
            }
        }
        if flags.server.is_some() && flags.before.is_none() {
            bail!("--server is of --before: it names the server as which both builds run");
        }
        Ok(flags)
    }

    fn chosen(&self) -> Result<Vec<&'static str>> {
        let possible: Vec<&str> = EXPERIMENTS
            .iter()
            .filter(|(_, is_cost)| self.before.is_none() || *is_cost)
            .map(|(name, _)| *name)
            .collect();
        let is_named = |name: &str| self.names.iter().any(|it| name.contains(it.as_str()));
        let mut chosen = possible.clone();
        chosen.retain(|name| self.names.is_empty() || is_named(name));
        if chosen.is_empty() {
            bail!("no such experiment; there are {}", possible.join(", "));
        }
        Ok(chosen)
    }
}

/// Runs the experiments. Returns whether all of them were complete.
fn run() -> Result<bool> {
    let flags = Flags::parse(env::args().skip(1))?;
    let mut results = Vec::new();
    let mut are_complete = true;
    for name in flags.chosen()? {
        match measure(name, &flags) {
            Ok(text) => results.push(text),
            // Such as one that needs root. The others do not depend on it.
            Err(error) => {
                are_complete = false;
                results.push(format!("{name}: not measured: {error:#}\n"));
            }
        }
    }
    println!("\n{}", results.join("\n"));
    Ok(are_complete)
}

/// Runs one experiment and returns its results: its targets, or the comparison of two builds.
fn measure(name: &str, flags: &Flags) -> Result<String> {
    const LABORATORY: Laboratory = Laboratory {
        kinds: &[],
        shipped: &[],
    };
    const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    let mut experiment = LABORATORY.load(&format!("{FILES}/{name}.toml"))?;
    let mut options = LABORATORY.options()?;
    options.curtail = PathBuf::from(env!("CARGO_BIN_EXE_curtail"));
    options.quick = flags.is_quick;
    options.fresh = true;
    options.runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs");
    if let Some(before) = &flags.before {
        experiment = experiment.of_builds(["before", "after"], flags.server.as_deref())?;
        options.servers = vec![
            ("before".to_owned(), before.clone()),
            ("after".to_owned(), options.curtail.clone()),
        ];
    }
    let plan = experiment.plan(&options)?;
    eprint!("{}", lab::plan_text(&plan, &options)?);
    let outcome = lab::run(&plan, &options, &mut *lab::for_stderr())?;
    if outcome.ending == Ending::Interrupted {
        // The signal is for all experiments, and the laboratory keeps it from ending this process.
        eprintln!(
            "stopped; {} has the trials so far",
            outcome.folder.display()
        );
        process::exit(outcome.exit_code().into());
    }
    if outcome.measured == 0 {
        bail!(
            "no trial was measured; {} has the reasons",
            outcome.folder.display()
        );
    }
    report::render(&outcome.folder)?;
    let run = Run::open(&outcome.folder)?;
    print!("{}", report::text_summary(&run));
    let form = if flags.is_quick { ", short form" } else { "" };
    let folder = outcome.folder.display();
    let results = match flags.before {
        None => report::target_text(&run),
        Some(_) => compared(&run)?,
    };
    Ok(format!("{name}{form} ({folder})\n{results}"))
}

/// The processor time of the two builds.
fn compared(run: &Run) -> Result<String> {
    let bound = Bound {
        metric: METRIC.to_owned(),
        is_upper: true,
        factor: AFTER_TO_BEFORE,
    };
    let compared = compare(run, &[METRIC.to_owned()], &[bound]).map_err(anyhow::Error::msg)?;
    let exceeded = compared
        .exceeded
        .iter()
        .map(|it| format!("exceeded: {it}\n"));
    Ok(compared.text + &exceeded.collect::<String>())
}
