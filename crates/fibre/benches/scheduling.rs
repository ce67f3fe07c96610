//! The scheduler benchmarks of T. Delisle's thesis (*The Cforall Scheduler*, University of Waterloo
//! 2022, chapter 6). They run on fibres, on tokio and, in `go/`, on Go.
//!
//! A *thread* here is a user-level thread: a fibre, a task or a goroutine. A *processor* is a
//! kernel thread that runs them.
//!
//! | benchmark | one operation | what it shows |
//! |---|---|---|
//! | *cycle* | wake the next thread in a ring of five, then wait | cost of a wake-up and a wait |
//! | *yield* | yield | cost of a switch |
//! | *churn* | release a random *spot* (a semaphore), then acquire it | cost across processors |
//! | *locality* | write to a working set, then do as in *churn* | do threads stay near their data? |
//! | *transfer* | a *round*: all threads see the leader's signal, the next leads | fairness |
//! | *turns* | as in *transfer*, with the time of each wait | the longest wait |
//!
//! In *turns*, the times in which the processors did not run are subtracted from the waits.
//!
//! *cycle* is as published. An atomic word says whether a fibre must park or be unparked; a task
//! waits at a tokio semaphore, a goroutine at a channel. (One difference: the members of a ring are
//! spawned one after the other here, and far from each other in the original.) In *cycle-bare*
//! there is no such word, and tasks are woken by their `Waker` without a semaphore. In
//! *cycle-semaphores* fibres and tasks wait at semaphores.
//!
//! In *locality-share* a thread hands its working set to the thread that it wakes. In
//! *locality-noshare* every thread keeps its working set.
//!
//! Each benchmark runs with 100 threads (in *cycle*, rings) per processor, and with 1. With 1,
//! processors fall asleep and are woken all the time. A benchmark that needs a second thread is not
//! run with one thread in total.
//!
//! With `--benchmark` this program runs one benchmark, in this process and on one runtime, and
//! prints a line of JSON. Otherwise it starts itself and the Go program many times, in random
//! order, and prints a summary of the results: see [`suite`].
//!
//! ```text
//! scheduling.rs ┬ suite           starts all runs
//!               │   └ go (builds the Go program), summary (tables, CSV), figure
//!               └ fibres, tasks   the benchmark loops, in two files of the same structure
//!                   └ benchmark, clock, rounds, turns, gaps, spots, random   shared by both
//! ```
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

#[path = "scheduling/benchmark.rs"]
mod benchmark;
#[path = "scheduling/clock.rs"]
mod clock;
#[path = "scheduling/fibres.rs"]
mod fibres;
#[path = "scheduling/figure.rs"]
mod figure;
#[path = "scheduling/gaps.rs"]
mod gaps;
#[path = "scheduling/go.rs"]
mod go;
#[path = "scheduling/random.rs"]
mod random;
#[path = "scheduling/rounds.rs"]
mod rounds;
#[path = "scheduling/spots.rs"]
mod spots;
#[path = "scheduling/suite.rs"]
mod suite;
#[path = "scheduling/summary.rs"]
mod summary;
#[path = "scheduling/tasks.rs"]
mod tasks;
#[path = "scheduling/turns.rs"]
mod turns;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use benchmark::{Benchmark, Line, RuntimeKind, Setting};
use clap::Parser;

/// Scheduler benchmarks of fibres, compared with tokio and Go.
#[derive(Parser)]
struct Arguments {
    /// Run only this benchmark, in this process, and print a line of JSON
    #[arg(long, value_enum, requires = "runtime")]
    benchmark: Option<Benchmark>,
    /// The runtime on which --benchmark runs
    #[arg(long, value_enum)]
    runtime: Option<RuntimeKind>,
    /// Number of kernel threads that run fibres, tasks or goroutines; several numbers as in 1,2,4
    /// [default: the number of CPUs; for the suite 1, 2, 4 … up to that number]
    #[arg(long, value_delimiter = ',')]
    processors: Vec<usize>,
    /// Number of rings or threads for each processor [default: 100; for the suite 1 and 100]
    #[arg(long, value_delimiter = ',')]
    per_processor: Vec<usize>,
    /// Duration of a run, in seconds [default: 1; with --quick 0.5]
    #[arg(long)]
    seconds: Option<f64>,
    /// Run all benchmarks on all runtimes and compare them; this is the default without --benchmark
    #[arg(long, conflicts_with = "benchmark")]
    suite: bool,
    /// Make 3 repeats of half a second each
    #[arg(long)]
    quick: bool,
    /// Number of runs of each benchmark on each runtime [default: 15; with --quick 3]
    #[arg(long)]
    repeats: Option<usize>,
    /// Seed of the random order of runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only the benchmarks whose names begin with one of these words
    benchmarks: Vec<String>,
    /// Passed by `cargo bench`; ignored
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scheduling: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let (repeats, seconds) = if arguments.quick { (3, 0.5) } else { (15, 1.0) };
    let seconds = arguments.seconds.unwrap_or(seconds);
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    let positive = |&count: &usize| count > 0;
    let sorted = |counts: &[usize]| {
        let mut counts = counts.to_vec();
        counts.sort_unstable();
        counts.dedup();
        counts
    };
    let processors = sorted(&arguments.processors);
    let per_processor = sorted(&arguments.per_processor);
    let mut counts = processors.iter().chain(&per_processor);
    if !counts.all(positive) || seconds == 0.0 {
        return Err("--processors, --per-processor and --seconds must be positive".to_owned());
    }
    if let (Some(benchmark), Some(runtime)) = (arguments.benchmark, arguments.runtime) {
        if processors.len() > 1 || per_processor.len() > 1 {
            return Err(
                "--benchmark takes only one value of --processors and of --per-processor"
                    .to_owned(),
            );
        }
        let setting = Setting {
            processors: processors.first().copied().unwrap_or(cpus),
            per_processor: per_processor.first().copied().unwrap_or(100),
            duration,
        };
        let outcome = match runtime.scheduler() {
            Some(scheduler) => fibres::run(benchmark, setting, scheduler)?,
            None => tasks::run(benchmark, setting)?,
        };
        let line = Line::new(runtime, benchmark, setting, &outcome);
        let line = serde_json::to_string(&line).map_err(|error| error.to_string())?;
        println!("{line}");
        return Ok(());
    }
    let per_processor = match &per_processor[..] {
        [] => vec![1, 100],
        given => given.to_vec(),
    };
    let processors = match &processors[..] {
        [] => up_to(cpus),
        given => given.to_vec(),
    };
    suite::run(&suite::Plan {
        benchmarks: suite::choose(&arguments.benchmarks)?,
        processors,
        per_processor,
        duration,
        repeats: arguments.repeats.unwrap_or(repeats),
        seed: arguments.seed,
    })
}

/// Returns the powers of two below `max`, and `max`.
fn up_to(max: usize) -> Vec<usize> {
    let doubled = |count: &usize| count.checked_mul(2);
    let below = std::iter::successors(Some(1), doubled).take_while(|&count| count < max);
    below.chain([max]).collect()
}
