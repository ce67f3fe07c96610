//! The scheduler benchmarks of T. Delisle's thesis (*The Cforall Scheduler*, University of
//! Waterloo 2022, chapter 6) on fibres, on tokio and, in `go/`, on Go.
//!
//! | benchmark | an operation | what it asks of a scheduler |
//! |---|---|---|
//! | *cycle* | wake the next of a ring of five, wait to be woken | the cost of waking and waiting |
//! | *yield* | yield | the same without another thread |
//! | *churn* | release a random spot (a semaphore), acquire it | wakes from any processor |
//! | *locality* | the same, then touch a working set | threads stay near what they touch |
//! | *transfer* | a leader is seen by everyone, and the next one leads | that nobody starves |
//! | *turns* | the same, watched | that nobody is forgotten while all processors run |
//!
//! *cycle* is as published: fibres park and unpark behind a word of their own, tasks wait at
//! tokio's semaphores, goroutines at channels. (The rings' members are spawned side by side here,
//! and apart there.) In *cycle-bare* fibres do without the word, and tasks are woken by their bare
//! wakers; in *cycle-semaphores* both wait at semaphores.
//!
//! In *locality-share* whoever wakes hands its working set over; in *locality-noshare* everyone
//! keeps their own. Each runs with 100 rings or threads for each processor, and with 1, where
//! processors fall asleep and are woken all the time; those in which one thread alone would do
//! nothing are not run with one.
//!
//! With `--benchmark` one of them runs in this process on one runtime and prints a line of JSON.
//! Without, this program starts itself and the Go program again and again, in random order, and
//! prints what came out: see [`suite`].
//!
//! ```text
//! scheduling.rs ┬ suite     repeats, interleaves ─ go (builds it) ─ summary (tables, CSV), figure
//!               └ fibres, tasks   the loops, in two files of the same shape
//!                   └ benchmark, clock, rounds, turns, machine, spots, random   what they share
//! ```
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark speaks to the terminal"
)]

#[path = "scheduling/benchmark.rs"]
mod benchmark;
#[path = "scheduling/clock.rs"]
mod clock;
#[path = "scheduling/fibres.rs"]
mod fibres;
#[path = "scheduling/figure.rs"]
mod figure;
#[path = "scheduling/go.rs"]
mod go;
#[path = "scheduling/machine.rs"]
mod machine;
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

/// Scheduler benchmarks: fibres beside tokio and Go.
#[derive(Parser)]
struct Arguments {
    /// Run this one here, and print a line of JSON
    #[arg(long, value_enum, requires = "runtime")]
    benchmark: Option<Benchmark>,
    /// Where --benchmark runs
    #[arg(long, value_enum)]
    runtime: Option<RuntimeKind>,
    /// Kernel threads that run fibres, tasks or goroutines; 1,2,4 are several [default: those of
    /// the machine; with --suite 1, 2, 4 … up to those]
    #[arg(long, value_delimiter = ',')]
    processors: Vec<usize>,
    /// Rings or threads for each processor [default: 100; with --suite 1 and 100]
    #[arg(long, value_delimiter = ',')]
    per_processor: Vec<usize>,
    /// How long to measure [default: 1; with --quick 0.5]
    #[arg(long)]
    seconds: Option<f64>,
    /// Run all in turns and compare; so it is without --benchmark
    #[arg(long, conflicts_with = "benchmark")]
    suite: bool,
    /// 3 repeats of half a second
    #[arg(long)]
    quick: bool,
    /// How often each is run [default: 15; with --quick 3]
    #[arg(long)]
    repeats: Option<usize>,
    /// Of the random order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only these, or those whose names begin so
    benchmarks: Vec<String>,
    /// What `cargo bench` passes on
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
    let of_machine = thread::available_parallelism().map_or(1, usize::from);
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
        return Err("--processors, --per-processor and --seconds are positive".to_owned());
    }
    if let (Some(benchmark), Some(runtime)) = (arguments.benchmark, arguments.runtime) {
        if processors.len() > 1 || per_processor.len() > 1 {
            return Err(
                "--benchmark runs one: one number of processors, and of rings or threads \
                        for each"
                    .to_owned(),
            );
        }
        let setting = Setting {
            processors: processors.first().copied().unwrap_or(of_machine),
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
        [] => up_to(of_machine),
        given => given.to_vec(),
    };
    suite::run(&suite::Plan {
        benchmarks: suite::chosen(&arguments.benchmarks)?,
        processors,
        per_processor,
        duration,
        repeats: arguments.repeats.unwrap_or(repeats),
        seed: arguments.seed,
    })
}

/// 1, 2, 4 and so on, and `most`.
fn up_to(most: usize) -> Vec<usize> {
    let doubled = |count: &usize| count.checked_mul(2);
    let below = std::iter::successors(Some(1), doubled).take_while(|&count| count < most);
    below.chain([most]).collect()
}
