//! Runs scenarios of the pool with faults: `scenarios SEED` prints one, `scenarios FIRST COUNT`
//! runs many on all processors and prints those that are wrong.
#![allow(clippy::print_stdout, reason = "a program for developers")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use sim::world::scenario::{Report, run};

fn main() -> ExitCode {
    let numbers: Result<Vec<u64>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    match numbers.as_deref() {
        Ok([seed]) => one(*seed),
        Ok([first, count]) => many(*first, *count),
        _ => {
            println!("usage: scenarios SEED | scenarios FIRST COUNT");
            ExitCode::FAILURE
        }
    }
}

fn one(seed: u64) -> ExitCode {
    match run(seed) {
        Ok(report) => {
            print(&report);
            if report.is_right() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            println!("seed {seed}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(report: &Report) {
    println!("seed {}: {}", report.seed, report.description);
    println!(
        "{} calls in {:.3} s, {} slots used again, {} chains closed",
        report.calls,
        report.elapsed_ns as f64 / 1e9,
        report.slots_reused,
        report.chains_closed
    );
    if !report.is_complete {
        println!("not all operations have ended");
    }
    match &report.verdict {
        Ok(()) => println!("the histories are linearizable"),
        Err(wrong) => println!(
            "failed to verify the history of key {}: {}",
            wrong.key, wrong.rejection
        ),
    }
}

/// Fails if a history is wrong, or if more than one in a hundred scenarios does not end or cannot
/// be decided.
fn many(first: u64, count: u64) -> ExitCode {
    let start = Instant::now();
    let [next, calls, wrong, open] = [const { AtomicU64::new(0) }; 4];
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let seed = first + index;
                    let is_wrong = match run(seed) {
                        Ok(report) => {
                            calls.fetch_add(report.calls as u64, Ordering::Relaxed);
                            if report.is_right() {
                                continue;
                            }
                            print(&report);
                            report.is_wrong()
                        }
                        Err(error) => {
                            println!("seed {seed}: {error}");
                            true
                        }
                    };
                    let counter = if is_wrong { &wrong } else { &open };
                    counter.fetch_add(1, Ordering::Relaxed);
                    println!("again: cargo xtask sim {seed}");
                }
            });
        }
    });
    let (wrong, open) = (wrong.into_inner(), open.into_inner());
    println!(
        "{count} seeds from {first}, {} calls: {wrong} wrong, {open} unfinished or undecided, {:.1} s",
        calls.into_inner(),
        start.elapsed().as_secs_f64()
    );
    if wrong == 0 && open * 100 <= count {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
