//! Packets a second that one core steers: YCSB-A (half of the operations are writes), values of 1
//! KiB, 64 queue pairs, 1024 chains with popularity by Zipf's law (0.75).
//!
//! Clients and memory node are real ends; only the time within `process` and `tick` counts. What
//! leaves is copied to a buffer, as to the queue of a network card. The steps take turns, five
//! rounds each; printed are the median and the range of frames that came in a second, and the ratio
//! to forwarding in the same run.
//!
//! `[--quick]`: short rounds, to see that it runs. `[--threads N]`: N shards of the chains at once,
//! each on a thread.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark speaks to the terminal"
)]

#[path = "middlebox/ends.rs"]
mod ends;

use std::env;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use ends::World;
use middlebox::{Config, Counters, Shard, Step};

const ROUNDS: usize = 5;
const QUEUE_PAIRS: usize = 64;
const CHAINS: u64 = 1024;
/// The least that is wanted of a core with all steps, in packets a second.
const TARGET: f64 = 2e6;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let threads = arguments
        .iter()
        .position(|argument| argument == "--threads")
        .and_then(|index| arguments.get(index + 1)?.parse().ok());
    let round = Duration::from_millis(if is_quick { 20 } else { 300 });
    for count in threads.map_or(vec![1, 2], |count: u32| vec![count]) {
        measure(count, round);
    }
    println!("wanted of one core with all steps: {:.1}", TARGET / 1e6);
}

/// What a round of one thread came to.
struct Round {
    rate: f64,
    counters: Counters,
}

fn measure(threads: u32, round: Duration) {
    let mut rates = vec![Vec::new(); Step::ALL.len()];
    let mut counters = vec![Counters::default(); Step::ALL.len()];
    for seed in 0..ROUNDS {
        for (index, step) in Step::ALL.into_iter().enumerate() {
            let rounds = run(step, threads, seed as u64, round);
            rates[index].push(rounds.iter().map(|round| round.rate).sum::<f64>());
            counters[index] = rounds[0].counters;
        }
    }
    println!(
        "million frames a second, {threads} thread(s): median (least to most of {ROUNDS} rounds), ÷ forward, \
         ns a frame and thread; of appends: kept, steered, converted, failed"
    );
    let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
    for (index, step) in Step::ALL.into_iter().enumerate() {
        let (rates, counts) = (&rates[index], &counters[index]);
        let share = |count: u64| 100.0 * count as f64 / counts.swaps.max(1) as f64;
        println!(
            "{:11} {:6.2} ({:.2} to {:.2})  {:.3}  {:6.0}   {:3.0} % {:3.0} % {:3.0} % {:4.1} %",
            format!("{step:?}"),
            medians[index] / 1e6,
            rates[0] / 1e6,
            rates[ROUNDS - 1] / 1e6,
            medians[index] / medians[0],
            1e9 * f64::from(threads) / medians[index],
            share(counts.swaps_kept),
            share(counts.swaps_steered),
            share(counts.swaps_converted),
            share(counts.swaps_failed),
        );
    }
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Runs all shards at once, each with its part of the queue pairs and chains.
fn run(step: Step, threads: u32, seed: u64, round: Duration) -> Vec<Round> {
    let barrier = Barrier::new(threads as usize);
    let shard_round = |index: u32| {
        let mut config = Config::new(step, 1);
        config.shard = Shard {
            index,
            count: threads,
        };
        let chains = (1..=CHAINS)
            .filter(|chain| config.shard.has(*chain))
            .collect();
        let queue_pairs = QUEUE_PAIRS / threads as usize;
        config.shared = queue_pairs;
        let mut world = World::new(config, chains, queue_pairs, seed << 8 | u64::from(index));
        world.warm_up();
        barrier.wait();
        let (frames, spent) = world.run(round);
        Round {
            rate: frames as f64 / spent.as_secs_f64(),
            counters: world.counters(),
        }
    };
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|index| {
                scope.spawn({
                    let shard_round = &shard_round;
                    move || shard_round(index)
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap())
            .collect()
    })
}
