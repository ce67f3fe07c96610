//! Runs all benchmarks on all runtimes, interleaved.
//!
//! Each run is a process of its own, so that no run inherits threads or memory from another. A
//! *case* is a benchmark with given numbers of processors and of threads per processor. In a
//! *repeat*, every case is run once on each runtime. The cases are run in random order. Within a
//! case, the runtimes are run one directly after the other, also in random order. So a disturbance
//! of the machine is likely to affect all runtimes alike, and the results of two runtimes in the
//! same repeat and case can be compared as a pair.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, io};

use clap::ValueEnum;

use crate::benchmark::{Benchmark, Line, RuntimeKind};
use crate::random::Random;
use crate::{figure, go, summary};

/// The time that a run may take in addition to the measured duration. A run that takes longer is
/// killed.
const GRACE_PERIOD: Duration = Duration::from_secs(15);
/// A guess of the time that a run takes in addition to the measured duration. Used only until the
/// first run has ended, to show how long the suite will still take.
const OVERHEAD: Duration = Duration::from_millis(30);

/// The runs that the suite makes: `repeats` of each combination of a benchmark, a number of
/// processors, a number of threads per processor, and a runtime.
pub(crate) struct Plan {
    pub(crate) benchmarks: Vec<Benchmark>,
    pub(crate) processors: Vec<usize>,
    /// Numbers of threads per processor.
    pub(crate) per_processor: Vec<usize>,
    /// The measured duration of each run.
    pub(crate) duration: Duration,
    pub(crate) repeats: usize,
    /// The seed of the random orders.
    pub(crate) seed: u64,
}

/// A benchmark with given numbers of processors and of threads per processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) benchmark: Benchmark,
    /// The number of threads per processor.
    pub(crate) per_processor: usize,
    pub(crate) processors: usize,
}

/// One run of a case on a runtime.
pub(crate) struct Trial {
    /// The number of the repeat, from 1.
    pub(crate) repeat: usize,
    pub(crate) case: Case,
    pub(crate) runtime: RuntimeKind,
    /// The results of the run, which it printed as one line of JSON; or the reason why there are no
    /// results.
    pub(crate) line: Result<Line, String>,
}

impl Trial {
    /// The results of the run, if they give a rate. `None` if the run has no results, if it
    /// completed no operation, or if the number of operations is meaningless
    /// ([`Outcome::is_finished`](crate::benchmark::Outcome::is_finished)).
    pub(crate) fn finished(&self) -> Option<&Line> {
        self.line
            .as_ref()
            .ok()
            .filter(|line| line.finished && line.operations > 0)
    }
}

/// Returns the benchmarks to run. `names` are the beginnings of their names, for example `cyc`. If
/// `names` is empty, returns all benchmarks.
///
/// # Errors
/// One of `names` is not the beginning of any benchmark's name.
pub(crate) fn choose(names: &[String]) -> Result<Vec<Benchmark>, String> {
    let all = Benchmark::value_variants();
    for name in names {
        if !all.iter().any(|it| it.name().starts_with(name.as_str())) {
            let known: Vec<&str> = all.iter().map(|it| it.name()).collect();
            let known = known.join(", ");
            return Err(format!(
                "no benchmark has a name that begins with {name:?}; the benchmarks are {known}"
            ));
        }
    }
    let is_chosen = |it: &&Benchmark| {
        names.is_empty()
            || names
                .iter()
                .any(|name| it.name().starts_with(name.as_str()))
    };
    Ok(all.iter().filter(is_chosen).copied().collect())
}

/// Makes all runs of a plan. Prints a summary of the results. Writes a CSV file with a row for each
/// run, and a figure (a chart) for each benchmark.
pub(crate) fn run(plan: &Plan) -> Result<(), String> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let this_program = env::current_exe().map_err(|error| error.to_string())?;
    let go = match go::build(directory) {
        Ok(program) => Some(program),
        Err(reason) => {
            println!("go: {reason}, skipped");
            None
        }
    };
    let all = RuntimeKind::OURS.into_iter().chain(RuntimeKind::THEIRS);
    let mut runtimes: Vec<RuntimeKind> = all
        .filter(|&it| it != RuntimeKind::Go || go.is_some())
        .collect();
    let mut cases = Vec::new();
    for &benchmark in &plan.benchmarks {
        for &per_processor in &plan.per_processor {
            let case = |&processors: &usize| Case {
                benchmark,
                per_processor,
                processors,
            };
            // In most benchmarks, a thread wakes another thread, so one thread is too few.
            let is_alone = |case: &Case| case.per_processor * case.processors == 1;
            let all_sizes = plan.processors.iter().map(case);
            cases.extend(all_sizes.filter(|case| !is_alone(case) || benchmark.works_alone()));
        }
    }
    if cases.is_empty() {
        return Err(
            "a single thread has no other to wake: choose more processors, or more threads for each"
                .to_owned(),
        );
    }

    let mut random = Random::new(plan.seed);
    let not_in_go = cases.iter().filter(|case| !case.benchmark.is_in_go());
    let skipped = if go.is_some() { not_in_go.count() } else { 0 };
    let runs_per_repeat = cases.len() * runtimes.len() - skipped;
    let progress = Progress::new(plan, plan.repeats * runs_per_repeat);
    let mut trials = Vec::new();
    for repeat in 1..=plan.repeats {
        let mut order = cases.clone();
        random.shuffle(&mut order);
        for case in order {
            random.shuffle(&mut runtimes);
            let takes_part =
                |it: &&RuntimeKind| **it != RuntimeKind::Go || case.benchmark.is_in_go();
            for &runtime in runtimes.iter().filter(takes_part) {
                progress.show(trials.len(), case, runtime);
                let program = match runtime {
                    RuntimeKind::Go => go.as_deref().unwrap_or(&this_program),
                    _ => &this_program,
                };
                let line = run_in_process(program, plan, case, runtime);
                trials.push(Trial {
                    repeat,
                    case,
                    runtime,
                    line,
                });
            }
        }
    }
    progress.clear();
    summary::print(plan, &cases, &trials);
    let table = directory.join("scheduling.csv");
    summary::write(&table, &trials)?;
    println!("\nall runs: {}", table.display());
    for &benchmark in &plan.benchmarks {
        let mut cases = cases.clone();
        cases.retain(|case| case.benchmark == benchmark);
        if !cases.is_empty() {
            let path = figure::draw(benchmark, plan, &cases, &trials, directory)?;
            println!("figure: {}", path.display());
        }
    }
    Ok(())
}

/// Makes one run, in a new process. Returns the results that the process prints.
fn run_in_process(
    program: &Path,
    plan: &Plan,
    case: Case,
    runtime: RuntimeKind,
) -> Result<Line, String> {
    let mut command = Command::new(program);
    command
        .args(["--benchmark", case.benchmark.name()])
        .args(["--processors", &case.processors.to_string()])
        .args(["--per-processor", &case.per_processor.to_string()])
        .args(["--seconds", &plan.duration.as_secs_f64().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if runtime != RuntimeKind::Go {
        command.args(["--runtime", runtime.name()]);
    }
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let output = read_output(&mut child, plan.duration + GRACE_PERIOD);
    if output.is_none() {
        // An error means that the process has just ended by itself.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let Some(output) = output else {
        return Err(format!(
            "did not end within {} s after the measured duration",
            GRACE_PERIOD.as_secs()
        ));
    };
    if !status.success() {
        return Err(status.to_string());
    }
    serde_json::from_str(&output).map_err(|error| error.to_string())
}

/// Reads the output of a process until the process ends. Returns `None` if this takes longer than
/// `timeout`.
fn read_output(child: &mut Child, timeout: Duration) -> Option<String> {
    let mut pipe = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        // If reading fails, the text is incomplete, and parsing it fails.
        let _ = pipe.read_to_string(&mut text);
        let _ = sender.send(text);
    });
    receiver.recv_timeout(timeout).ok()
}

/// Shows the progress of the suite on standard error. On a terminal this is one line, which is
/// overwritten; otherwise it is a new line after each tenth of the runs.
struct Progress {
    /// The number of all runs that the suite makes.
    runs: usize,
    /// The estimated time of a run. Used until the first run has ended.
    run_estimate: Duration,
    /// The time at which the suite began.
    began: Instant,
    /// Whether standard error is a terminal.
    is_terminal: bool,
}

impl Progress {
    fn new(plan: &Plan, runs: usize) -> Self {
        Self {
            runs,
            run_estimate: plan.duration + OVERHEAD,
            began: Instant::now(),
            is_terminal: io::stderr().is_terminal(),
        }
    }

    /// Shows that `done` runs are complete, how long the other runs will take, and which run is
    /// next.
    fn show(&self, done: usize, case: Case, runtime: RuntimeKind) {
        if !self.is_terminal && !done.is_multiple_of(self.runs.div_ceil(10)) {
            return;
        }
        let each = if done == 0 {
            self.run_estimate
        } else {
            self.began.elapsed() / done as u32
        };
        let left = (each * (self.runs - done) as u32).as_secs();
        let (name, size) = (case.benchmark.name(), case.per_processor);
        let line = format!(
            "{done}/{} runs, {}:{:02} left: {name} {size} on {}, {} processors",
            self.runs,
            left / 60,
            left % 60,
            runtime.name(),
            case.processors
        );
        if self.is_terminal {
            eprint!("\r{line:<79}");
            let _ = io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    /// Removes the line from the terminal.
    fn clear(&self) {
        if self.is_terminal {
            eprint!("\r{:<79}\r", "");
        }
    }
}
