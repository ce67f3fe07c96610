//! Runs all benchmarks on all runtimes in turns.
//!
//! Each run is a process of its own, so that none inherits threads, memory or luck from another. A
//! repeat runs every case once, in random order; within a case the runtimes follow each other, in
//! random order too. So what the machine does meanwhile falls on all of them, and figures of the
//! same repeat and case are pairs.

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

/// How much longer than it measures a run may take. A runtime that hangs is then given up.
const GRACE_PERIOD: Duration = Duration::from_secs(15);
/// What a run takes beside measuring, for the time left.
const OVERHEAD: Duration = Duration::from_millis(30);

/// What is run.
pub(crate) struct Plan {
    pub(crate) benchmarks: Vec<Benchmark>,
    pub(crate) processors: Vec<usize>,
    pub(crate) per_processor: Vec<usize>,
    pub(crate) duration: Duration,
    pub(crate) repeats: usize,
    pub(crate) seed: u64,
}

/// A benchmark at a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) benchmark: Benchmark,
    pub(crate) per_processor: usize,
    pub(crate) processors: usize,
}

/// A run.
pub(crate) struct Trial {
    pub(crate) repeat: usize,
    pub(crate) case: Case,
    pub(crate) runtime: RuntimeKind,
    /// What it printed, or why it did not.
    pub(crate) line: Result<Line, String>,
}

impl Trial {
    /// The line of a run whose operations say something.
    pub(crate) fn finished(&self) -> Option<&Line> {
        self.line
            .as_ref()
            .ok()
            .filter(|line| line.finished && line.operations > 0)
    }
}

/// The benchmarks whose names begin with one of these; all where there are none.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Benchmark>, String> {
    let all = Benchmark::value_variants();
    for name in names {
        if !all.iter().any(|it| it.name().starts_with(name.as_str())) {
            let known: Vec<&str> = all.iter().map(|it| it.name()).collect();
            let known = known.join(", ");
            return Err(format!(
                "no benchmark is called {name:?}; there are {known}"
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

/// Runs the plan, prints what came out, and writes it down.
pub(crate) fn run(plan: &Plan) -> Result<(), String> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let this = env::current_exe().map_err(|error| error.to_string())?;
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
            // One thread alone wakes nobody.
            let is_alone = |case: &Case| case.per_processor * case.processors == 1;
            let of_all = plan.processors.iter().map(case);
            cases.extend(of_all.filter(|case| !is_alone(case) || benchmark.may_be_alone()));
        }
    }
    if cases.is_empty() {
        return Err(
            "one thread alone has nobody to wake: more processors, or more for each".to_owned(),
        );
    }

    let mut random = Random::new(plan.seed);
    let without_go = cases.iter().filter(|case| !case.benchmark.is_in_go());
    let missing = if go.is_some() { without_go.count() } else { 0 };
    let a_repeat = cases.len() * runtimes.len() - missing;
    let progress = Progress::new(plan, plan.repeats * a_repeat);
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
                    RuntimeKind::Go => go.as_deref().unwrap_or(&this),
                    _ => &this,
                };
                let line = in_process(program, plan, case, runtime);
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
    println!("\nevery run: {}", table.display());
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

/// Runs one in a process of its own.
fn in_process(
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
    let printed = printed(&mut child, plan.duration + GRACE_PERIOD);
    if printed.is_none() {
        // It may have ended just now, and then there is nothing to end.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let Some(printed) = printed else {
        return Err(format!(
            "did not end within {} s of its time",
            GRACE_PERIOD.as_secs()
        ));
    };
    if !status.success() {
        return Err(status.to_string());
    }
    serde_json::from_str(&printed).map_err(|error| error.to_string())
}

/// All that a process prints until it ends; none where that takes longer.
fn printed(child: &mut Child, at_most: Duration) -> Option<String> {
    let mut output = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        // What cannot be read is seen when it is parsed.
        let _ = output.read_to_string(&mut text);
        let _ = sender.send(text);
    });
    receiver.recv_timeout(at_most).ok()
}

/// Where the suite is: a line that is written over, or a line now and then where nobody looks.
struct Progress {
    runs: usize,
    each: Duration,
    began: Instant,
    is_seen: bool,
}

impl Progress {
    fn new(plan: &Plan, runs: usize) -> Self {
        Self {
            runs,
            each: plan.duration + OVERHEAD,
            began: Instant::now(),
            is_seen: io::stderr().is_terminal(),
        }
    }

    fn show(&self, done: usize, case: Case, runtime: RuntimeKind) {
        if !self.is_seen && !done.is_multiple_of(self.runs.div_ceil(10)) {
            return;
        }
        let each = if done == 0 {
            self.each
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
        if self.is_seen {
            eprint!("\r{line:<79}");
            let _ = io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    fn clear(&self) {
        if self.is_seen {
            eprint!("\r{:<79}\r", "");
        }
    }
}
