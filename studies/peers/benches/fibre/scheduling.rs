//! The scheduler benchmarks of T. Delisle's thesis (*The Cforall Scheduler*, University of Waterloo
//! 2022, chapter 6), and variants of them. All run on fibres and on tokio tasks. The benchmarks of
//! the thesis also run on goroutines, in the program in `benches/fibre/go`.
//!
//! In these benchmarks, a *thread* is a user-level thread: a fibre, a task or a goroutine. A
//! *processor* is a kernel thread that runs user-level threads.
//!
//! | benchmark | one operation of a thread | measures |
//! |---|---|---|
//! | *cycle* | wake the next thread in a ring of five, then wait to be woken | wake-up and wait |
//! | *yield* | yield | a switch |
//! | *churn* | release a random semaphore, then acquire the same one | wake-ups across processors |
//! | *locality* | write to a working set, then do an operation of *churn* | use of caches |
//! | *transfer* | lead one round, see below | fairness |
//! | *turns* | as in *transfer* | the longest wait of a thread |
//!
//! *cycle* is the benchmark of the thesis. A fibre waits at an atomic variable, which shows whether
//! the fibre must park, and whether another fibre must unpark it. A task waits at a tokio
//! semaphore, a goroutine at a channel. There is one difference from the thesis: here the threads
//! of a ring are spawned directly after each other, in the thesis far apart. In the variant
//! *cycle-bare*, fibres only park and unpark, and tasks are woken through their `Waker`. In
//! *cycle-semaphores*, fibres and tasks wait at semaphores.
//!
//! In *locality-share*, a thread passes its working set to the thread that it wakes. In
//! *locality-noshare*, every thread keeps its working set.
//!
//! In *transfer*, one thread is the *leader*. It publishes a signal, and waits until all other
//! threads have seen the signal; this is a *round*. Then another thread becomes the leader.
//!
//! *turns* also measures how long each thread waits to see a signal. A processor may not have run
//! at all during a part of that wait, for example because of an interrupt. Such times (*gaps*) are
//! subtracted from the wait.
//!
//! By default, each benchmark is run with 100 threads per processor, and with one. (In *cycle* and
//! its variants, these are numbers of rings.) With one thread per processor, a processor whose
//! thread waits has no other thread to run, so processors often fall asleep and must be woken. All
//! benchmarks except *yield*, *cycle* and its variants need at least two threads. They are not run
//! with one processor and one thread.
//!
//! With `--benchmark`, this program runs one benchmark on one runtime in its own process, and
//! prints a line of JSON. Without `--benchmark`, this program is the [`suite`]: it starts a new
//! process for each run, in random order. The process runs this program with `--benchmark`, or the
//! Go program. At the end, the suite prints a summary of all results.
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
    let is_positive = |&number: &usize| number > 0;
    let sorted_without_duplicates = |numbers: &[usize]| {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let processors = sorted_without_duplicates(&arguments.processors);
    let per_processor = sorted_without_duplicates(&arguments.per_processor);
    let mut numbers = processors.iter().chain(&per_processor);
    if !numbers.all(is_positive) || seconds == 0.0 {
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
            // The runtime is tokio: the command line does not accept `go` as a runtime.
            None => tasks::run(benchmark, setting)?,
        };
        let line = Line::new(runtime, benchmark, setting, &outcome);
        let json = serde_json::to_string(&line).map_err(|error| error.to_string())?;
        println!("{json}");
        return Ok(());
    }
    let per_processor = match &per_processor[..] {
        [] => vec![1, 100],
        given => given.to_vec(),
    };
    let processors = match &processors[..] {
        [] => powers_of_two_up_to(cpus),
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

/// Returns all powers of two that are below `max`, and then `max` itself.
fn powers_of_two_up_to(max: usize) -> Vec<usize> {
    let doubled = |count: &usize| count.checked_mul(2);
    let below = std::iter::successors(Some(1), doubled).take_while(|&count| count < max);
    below.chain([max]).collect()
}
