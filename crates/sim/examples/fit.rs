//! Fits the costs of the prototype, and prints what the model predicts beside what was published.
//!
//! `cargo run --release -p sim --example fit` searches; with `residuals`, it only prints those of
//! the costs in the code; with `ours`, those that our middlebox would have. It also lists each pair
//! of steps at one point whose published order is missed.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for developers"
)]

use std::collections::BTreeMap;

use sim::steering::published::{self, Order, SERIES, THREADS, rate};
use sim::steering::{Config, Costs, Step, simulate};
use workload::Ycsb;

fn main() {
    let costs = match std::env::args().nth(1).as_deref() {
        Some("residuals") => Costs::prototype(),
        Some("ours") => Costs::ours(),
        _ => fit_steps(fit_endpoints()),
    };
    println!("{costs:#?}");
    print_residuals(&costs);
}

fn predicted(costs: &Costs, workload: Ycsb, step: Step, threads: u32, operations: u64) -> f64 {
    let config = Config {
        costs: *costs,
        operations,
        ..published::config(workload, step, threads)
    };
    simulate(&config).unwrap().threads_rps
}

/// The sum of the squared logarithms of predicted ÷ published, over the series without steering.
fn error(costs: &Costs) -> f64 {
    [Ycsb::A, Ycsb::B, Ycsb::WriteOnly]
        .into_iter()
        .flat_map(|workload| THREADS.map(|threads| (workload, threads)))
        .map(|(workload, threads)| {
            let published = rate(workload, Step::None, threads).unwrap();
            let found = predicted(costs, workload, Step::None, threads, 15_000);
            (found / published).ln().powi(2)
        })
        .sum()
}

/// The best of a grid, then a descent by coordinates: factors for times, one more or less for the
/// lag.
fn fit_endpoints() -> Costs {
    let mut best = Costs::prototype();
    let mut least = f64::INFINITY;
    for lag in 0..4 {
        for packet_ns in [550.0, 650.0, 750.0, 900.0, 1050.0] {
            for client_verb_ns in [22_000.0, 25_000.0, 28_000.0] {
                let mut costs = Costs {
                    client_verb_ns,
                    lag,
                    ..best
                };
                costs.packet_ns[0] = packet_ns;
                let found = error(&costs);
                if found < least {
                    (least, best) = (found, costs);
                }
            }
        }
        println!("lags to {lag}: error {least:.4}: {best:?}");
    }
    for factor in [1.03, 1.01] {
        loop {
            let mut candidates = Vec::new();
            for by in [factor, 1.0 / factor] {
                let (mut client, mut packet) = (best, best);
                client.client_verb_ns *= by;
                packet.packet_ns[0] *= by;
                candidates.extend([client, packet]);
            }
            for by in [1, -1] {
                let mut lag = best;
                lag.lag = lag.lag.saturating_add_signed(by);
                candidates.push(lag);
            }
            let errors = candidates.into_iter().map(|costs| (error(&costs), costs));
            let Some((found, costs)) = errors.min_by(|a, b| a.0.total_cmp(&b.0)) else {
                break;
            };
            if found >= least {
                break;
            }
            (least, best) = (found, costs);
            println!("error {least:.4}: {best:?}");
        }
    }
    best
}

/// One cost for each step, by bisection at one point.
fn fit_steps(mut costs: Costs) -> Costs {
    for step in [Step::Writes, Step::Reads, Step::Mapping, Step::Conversion] {
        let published = rate(Ycsb::A, step, 32).unwrap();
        let (mut low, mut high) = (100.0, 20_000.0);
        for _ in 0..14 {
            costs.packet_ns[step.index()] = (low + high) / 2.0;
            let found = predicted(&costs, Ycsb::A, step, 32, 100_000);
            if found > published {
                low = costs.packet_ns[step.index()];
            } else {
                high = costs.packet_ns[step.index()];
            }
        }
        costs.packet_ns[step.index()] = f64::midpoint(low, high).round();
    }
    costs.client_verb_ns = costs.client_verb_ns.round();
    costs.packet_ns[0] = costs.packet_ns[0].round();
    costs
}

fn print_residuals(costs: &Costs) {
    println!("predicted (predicted ÷ published), thousand operations a second");
    let mut found = BTreeMap::new();
    for (workload, step, series) in SERIES {
        let name = Step::ALL[step.index()].0;
        print!("{workload:12} {name:15}");
        for (threads, published) in THREADS.into_iter().zip(series) {
            let rate_rps = predicted(costs, workload, step, threads, 100_000);
            found.insert((workload.name(), step, threads), rate_rps);
            let thousands = rate_rps / 1e3;
            match published {
                Some(published) => print!(" {thousands:6.1} ({:.2})", thousands / published),
                None => print!(" {thousands:6.1} ( -- )"),
            }
        }
        println!();
    }
    print_orders(&published::orders(|workload, step, threads| {
        found[&(workload.name(), step, threads)]
    }));
}

/// How many published orders of two steps are reproduced, and each that is missed, as the table of
/// the study: the step that was published as the faster one, and by how much it is faster than the
/// other one.
fn print_orders(orders: &[Order]) {
    let (kept, missed): (Vec<&Order>, Vec<&Order>) =
        orders.iter().partition(|order| order.is_reproduced());
    println!(
        "{} of {} orders of two steps at one point are as published; missed: {}\n",
        kept.len(),
        orders.len(),
        missed.len()
    );
    println!("| load | threads | published order | published ratio | the model's |");
    println!("|---|---|---|---|---|");
    for order in missed {
        let is_first = order.published[0] >= order.published[1];
        let [fast, slow] = if is_first { [0, 1] } else { [1, 0] };
        let name = |index: usize| Step::ALL[order.steps[index].index()].0;
        let ratio = |rates: [f64; 2]| rates[fast] / rates[slow];
        println!(
            "| {} | {} | {} > {} | {:.3} | {:.3} |",
            order.workload.name(),
            order.threads,
            name(fast),
            name(slow),
            ratio(order.published),
            ratio(order.found)
        );
    }
}
