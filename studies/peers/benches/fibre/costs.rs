//! The costs of a fibre: the time of a switch, the time of a spawn with a join, and the memory of a
//! parked fibre.
//!
//! A *switch* is the change from a fibre to its processor, or from the processor to a fibre. A
//! *processor* is a kernel thread that runs fibres. All runs use one processor.
//!
//! Each time is measured in several runs. The program prints the median, the least and the greatest
//! result of these runs. For comparison, the time of a spawn with a join is also measured for tasks
//! of the tokio runtime. These tasks have no stacks of their own.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its results, and panics if it cannot continue"
)]

use std::fs;
use std::time::{Duration, Instant};

use fibre::{Builder, Runtime, Scheduler};

/// The number of runs of each measurement, unless `--quick` is given.
const RUNS: usize = 15;
/// The number of yields in a run that measures the switch, for each of its two fibres.
const YIELDS: u32 = 1_000_000;
/// The number of fibres or tasks that are spawned in a run that measures spawn and join.
const SPAWNS: u32 = 200_000;
/// The number of fibres that are parked at the same time when their memory is measured.
const PARKED: usize = 20_000;
/// The number of bytes that a fibre writes to its stack before it parks.
const TOUCHED: usize = 512;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let runs = if quick { 3 } else { RUNS };
    println!("one processor; median of {runs} runs [least, greatest]");
    for scheduler in Scheduler::ALL {
        let name = scheduler.name();
        let runtime = start(scheduler);
        let switches_per_yield = 2.0;
        measure_and_print("switch", name, "goal: ≤ 20 ns", runs, || {
            runtime.run(|| yield_ns(YIELDS)) / switches_per_yield
        });
        measure_and_print("spawn and join", name, "goal: ≤ 300 ns", runs, || {
            runtime.run(|| spawn_and_join_ns(SPAWNS))
        });
    }
    let tasks = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    measure_and_print("spawn and join", "tokio", "", runs, || {
        // The measuring code is itself a task, just as that for fibres is itself a fibre.
        tasks.block_on(async { tokio::spawn(task_spawn_and_join_ns(SPAWNS)).await.unwrap() })
    });
    measure_memory();
}

/// Starts a fibre runtime with one processor.
fn start(scheduler: Scheduler) -> Runtime {
    let builder = Builder::new().processors(1).scheduler(scheduler);
    // SAFETY: the measured fibres use no `thread_local!`.
    unsafe { builder.start() }.unwrap()
}

/// Measures the CPU time of a yield, in nanoseconds. The calling fibre spawns a second fibre. Each
/// of the two fibres yields `count` times, to the other. A yield consists of two switches: from one
/// fibre to the processor, and from the processor to the other fibre.
fn yield_ns(count: u32) -> f64 {
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
    let yields_of_both = 2 * count;
    spent.as_secs_f64() * 1e9 / f64::from(yields_of_both)
}

/// Spawns and joins `count` fibres, one after the other. Returns the elapsed time per fibre, in
/// nanoseconds.
fn spawn_and_join_ns(count: u32) -> f64 {
    let before = Instant::now();
    for number in 0..count {
        assert_eq!(fibre::spawn(move || number).join().unwrap(), number);
    }
    before.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

/// Spawns and joins `count` tokio tasks, one after the other. Returns the elapsed time per task, in
/// nanoseconds.
async fn task_spawn_and_join_ns(count: u32) -> f64 {
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
    // `run` spawns one more fibre and waits for its end. The fair scheduler with one processor runs
    // fibres in the order of spawning. So at the end of this last fibre, all others have parked.
    runtime.run(fibre::yield_now);
    let each = (resident() - before) as f64 / PARKED as f64;
    println!(
        "{:<24}{:<8}{each:>8.0} B   {PARKED} parked; goal: ≤ 8192 B",
        "memory of a fibre", "fair"
    );
    parked.iter().for_each(|handle| handle.fibre().unpark());
    parked.into_iter().for_each(|handle| handle.join().unwrap());
}

/// Calls `measure` as many times as `runs` says; each call returns a time in nanoseconds. Prints a
/// row: the name of the `measured` operation, the name of the `runner` (a scheduler or tokio), the
/// median time, the least, the greatest, and the goal.
fn measure_and_print(
    measured: &str,
    runner: &str,
    goal: &str,
    runs: usize,
    mut measure: impl FnMut() -> f64,
) {
    let mut times: Vec<f64> = (0..runs).map(|_| measure()).collect();
    times.sort_by(f64::total_cmp);
    let (least, greatest) = (times[0], times[runs - 1]);
    let median = times[runs / 2];
    println!("{measured:<24}{runner:<8}{median:>8.1} ns  [{least:.1}, {greatest:.1}]   {goal}");
}

/// The CPU time that the calling kernel thread has used so far, in user mode and in the kernel. A
/// yield makes no system call. But after each 61 runs of fibres, the processor polls the kernel for
/// events (`fibre::limits::RUNS_PER_POLL`), and this time is included.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let sizes = fs::read_to_string("/proc/self/statm").unwrap();
    // The second number of the file is the number of resident pages.
    let pages = sizes.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    let page_size = 4096;
    pages * page_size
}
