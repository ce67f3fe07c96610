//! The costs of a fibre: the time of a switch, the time of a spawn with a join, and the memory of a
//! parked fibre.
//!
//! A time is printed as the median of several runs, with the least and the greatest. All runs use
//! one *processor*, that is, one kernel thread that runs fibres. For spawn and join, the cost of a
//! tokio task, which has no stack, is printed for comparison.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its results, and panics if it cannot continue"
)]

use std::fs;
use std::time::{Duration, Instant};

use fibre::{Builder, Runtime, Scheduler};

/// The number of runs of each measurement.
const RUNS: usize = 15;
/// The number of yields of each of the two fibres in a run.
const YIELDS: u32 = 1_000_000;
/// The number of spawned fibres in a run.
const SPAWNS: u32 = 200_000;
/// The number of parked fibres.
const PARKED: usize = 20_000;
/// The number of bytes that a fibre writes to its stack before it parks.
const TOUCHED: usize = 512;

fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    let runs = if quick { 3 } else { RUNS };
    println!("one processor; median of {runs} runs [least, greatest]");
    for scheduler in Scheduler::ALL {
        let name = scheduler.name();
        let runtime = start(scheduler);
        row(
            "switch",
            name,
            "goal: ≤ 20 ns",
            runs,
            // A yield is two switches.
            || runtime.run(|| yields(YIELDS)) / 2.0,
        );
        row("spawn and join", name, "goal: ≤ 300 ns", runs, || {
            runtime.run(|| spawns(SPAWNS))
        });
    }
    let tasks = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    row("spawn and join", "tokio", "", runs, || {
        tasks.block_on(async { tokio::spawn(task_spawns(SPAWNS)).await.unwrap() })
    });
    measure_memory();
}

fn start(scheduler: Scheduler) -> Runtime {
    Builder::new()
        .processors(1)
        .scheduler(scheduler)
        .start()
        .unwrap()
}

/// Measures two fibres that yield to each other. Returns the CPU time of a yield in nanoseconds. A
/// yield is one switch from a fibre to the processor's thread, and one from that thread to the
/// other fibre.
fn yields(count: u32) -> f64 {
    let other = fibre::spawn(move || {
        for _ in 0..count {
            fibre::yield_now();
        }
    });
    let before = thread_time();
    for _ in 0..count {
        fibre::yield_now();
    }
    let spent = thread_time() - before;
    other.join().unwrap();
    spent.as_secs_f64() * 1e9 / f64::from(2 * count)
}

/// Spawns and joins `count` fibres, one after the other. Returns the time for one, in nanoseconds.
fn spawns(count: u32) -> f64 {
    let before = Instant::now();
    for number in 0..count {
        assert_eq!(fibre::spawn(move || number).join().unwrap(), number);
    }
    before.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

/// As [`spawns`], but with tokio tasks.
async fn task_spawns(count: u32) -> f64 {
    let before = Instant::now();
    for number in 0..count {
        assert_eq!(tokio::spawn(async move { number }).await.unwrap(), number);
    }
    before.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

/// Measures and prints the resident memory of a parked fibre.
fn measure_memory() {
    let runtime = start(Scheduler::Fair);
    let before = resident();
    let parked: Vec<_> = (0..PARKED)
        .map(|_| {
            runtime.spawn(|| {
                let touched = std::hint::black_box([1_u8; TOUCHED]);
                fibre::park();
                std::hint::black_box(touched);
            })
        })
        .collect();
    // Fibres run in the order of spawning, so when this fibre has run, all others have parked.
    runtime.run(fibre::yield_now);
    let each = (resident() - before) as f64 / PARKED as f64;
    println!(
        "{:<24}{:<8}{each:>8.0} B   {PARKED} parked; goal: ≤ 8192 B",
        "memory of a fibre", "fair"
    );
    parked.iter().for_each(|handle| handle.fibre().unpark());
    parked.into_iter().for_each(|handle| handle.join().unwrap());
}

/// Calls `measure` `runs` times. Prints the median, the least and the greatest of the returned
/// times, which are in nanoseconds.
fn row(name: &str, runtime: &str, goal: &str, runs: usize, mut measure: impl FnMut() -> f64) {
    let mut times: Vec<f64> = (0..runs).map(|_| measure()).collect();
    times.sort_by(f64::total_cmp);
    let (least, greatest) = (times[0], times[runs - 1]);
    let median = times[runs / 2];
    println!("{name:<24}{runtime:<8}{median:>8.1} ns  [{least:.1}, {greatest:.1}]   {goal}");
}

/// The CPU time that this thread has used so far, including time in the kernel. The measured code
/// makes no system calls.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").unwrap();
    let pages = status.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    pages * 4096
}
