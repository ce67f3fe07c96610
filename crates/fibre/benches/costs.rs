//! What a fibre costs: to switch to, to start and wait for, to keep.
//!
//! Each figure is the median of runs with their least and most; user time of the one processor
//! where that is what is said. tokio's tasks beside, where there is something to compare: they have
//! no stack.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark speaks to the terminal, and ends where it cannot go on"
)]

use std::fs;
use std::time::{Duration, Instant};

use fibre::{Builder, Runtime, Scheduler};

/// Times each is measured.
const RUNS: usize = 15;
const SWITCHES: u32 = 1_000_000;
const SPAWNS: u32 = 200_000;
const PARKED: usize = 20_000;
/// Bytes one fibre writes on its stack before it parks: a shallow conversation.
const TOUCHED: usize = 512;

fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    let runs = if quick { 3 } else { RUNS };
    println!("one processor; median of {runs} runs [least, most]");
    for scheduler in Scheduler::ALL {
        let name = scheduler.name();
        let runtime = start(scheduler);
        row(
            "switch there and back",
            name,
            "≤ 20 ns a switch",
            runs,
            || runtime.run(|| yields(SWITCHES)) / 2.0,
        );
        row("spawn and join", name, "≤ 300 ns", runs, || {
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
    keep();
}

fn start(scheduler: Scheduler) -> Runtime {
    Builder::new()
        .processors(1)
        .scheduler(scheduler)
        .start()
        .unwrap()
}

/// Two fibres that let each other run: nanoseconds of this thread's user time a yield, which is
/// one switch to the processor and one from it.
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

fn spawns(count: u32) -> f64 {
    let before = Instant::now();
    for number in 0..count {
        assert_eq!(fibre::spawn(move || number).join().unwrap(), number);
    }
    before.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

async fn task_spawns(count: u32) -> f64 {
    let before = Instant::now();
    for number in 0..count {
        assert_eq!(tokio::spawn(async move { number }).await.unwrap(), number);
    }
    before.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

/// What fibres that are parked keep resident.
fn keep() {
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
    // The last to come has been run when this has.
    runtime.run(fibre::yield_now);
    let each = (resident() - before) as f64 / PARKED as f64;
    println!(
        "{:<24}{:<8}{each:>8.0} B   {PARKED} parked; ≤ 8192 B",
        "kept by a fibre", "fair"
    );
    parked.iter().for_each(|one| one.fibre().unpark());
    parked.into_iter().for_each(|one| one.join().unwrap());
}

fn row(what: &str, who: &str, target: &str, runs: usize, mut measure: impl FnMut() -> f64) {
    let mut figures: Vec<f64> = (0..runs).map(|_| measure()).collect();
    figures.sort_by(f64::total_cmp);
    let (least, most) = (figures[0], figures[runs - 1]);
    let median = figures[runs / 2];
    println!("{what:<24}{who:<8}{median:>8.1} ns  [{least:.1}, {most:.1}]   {target}");
}

/// Processor time of this thread, user and system: nothing here asks the system for anything.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").unwrap();
    let pages = status.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    pages * 4096
}
