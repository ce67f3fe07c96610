//! What losses, and the errors of the published prototype, cost the pool with our middlebox: real
//! packets of the state machines in virtual time. Hosts and links take no time but for the hops, so
//! figures are comparable with each other only.
//!
//! `cargo run --release -p sim --example losses` prints two tables.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for developers"
)]

use middlebox::{Config, Faults, Step};
use sim::world::{Load, NetworkFaults, World, WorldConfig};

const SECOND_NS: u64 = 1_000_000_000;
const EVENTS_MAX: usize = 20_000_000;
const KEYS: u32 = 64;

/// A setting of one line.
struct Cell {
    step: Step,
    clients: u16,
    writes_percent: u64,
    lost_ppm: u32,
    acknowledge_ns: u64,
    faults: Faults,
}

struct Line {
    thousand_per_s: f64,
    median_us: f64,
    p99_us: f64,
    swaps_won: f64,
    failed: u64,
    verdict: &'static str,
}

fn main() {
    println!("YCSB-A, 8 clients with 2 operations each, {KEYS} keys; by loss of frames");
    for lost_ppm in [0, 100, 1_000, 10_000, 50_000] {
        for step in Step::ALL {
            let cell = Cell {
                step,
                clients: 8,
                writes_percent: 50,
                lost_ppm,
                acknowledge_ns: 0,
                faults: Faults::default(),
            };
            print(&format!("{lost_ppm:>6} ppm {step:?}"), &cell);
        }
    }
    let prototype = Faults {
        always_succeeded: true,
        resends_one_owner: true,
        injects_no_acks: true,
        ..Faults::default()
    };
    println!("YCSB-B with conversion, acknowledgements collected for 1 us; by clients");
    for lost_ppm in [0, 1_000] {
        for clients in [2, 8, 16, 32, 64] {
            for (name, faults) in [("ours", Faults::default()), ("prototype", prototype)] {
                let cell = Cell {
                    step: Step::Conversion,
                    clients,
                    writes_percent: 5,
                    lost_ppm,
                    acknowledge_ns: 1_000,
                    faults,
                };
                print(&format!("{lost_ppm:>6} ppm {clients:>3} {name}"), &cell);
            }
        }
    }
}

fn print(name: &str, cell: &Cell) {
    let line = measure(cell);
    println!(
        "{name:<24} {:>8.1} thousand/s  median {:>8.1} us  p99 {:>9.1} us  CAS won {:>5.1} %  \
         failed {:>4}  {}",
        line.thousand_per_s,
        line.median_us,
        line.p99_us,
        line.swaps_won * 100.0,
        line.failed,
        line.verdict
    );
}

fn measure(cell: &Cell) -> Line {
    let load = Load {
        operations: u64::from(KEYS) * 16 / u64::from(cell.clients),
        outstanding: 2,
        keys: KEYS,
        value_len: 1024,
        writes_percent: 100,
        others_percent: 0,
    };
    let mut middlebox = Config::new(cell.step, 1);
    middlebox.faults = cell.faults;
    middlebox.shared = 8;
    let mut world = World::new(WorldConfig {
        clients: cell.clients,
        load,
        middlebox,
        memory_len: 64 << 20,
        slab_len: 65_536,
        heartbeat_ns: 20_000_000,
        advance_ns: 5_000_000,
        acknowledge_ns: cell.acknowledge_ns,
        faults: NetworkFaults::default(),
        hop_ns: 1_000,
        seed: 1,
    })
    .unwrap();
    // Every key has a value before the measurement.
    world.run(10 * SECOND_NS, EVENTS_MAX);
    world.set_faults(NetworkFaults {
        lost_ppm: cell.lost_ppm,
        ..NetworkFaults::default()
    });
    let (start_ns, before) = (world.now_ns(), world.client_counters());
    world.set_load(Load {
        operations: 16_000 / u64::from(cell.clients),
        writes_percent: cell.writes_percent,
        ..load
    });
    let is_over = world.run(start_ns + 30 * SECOND_NS, EVENTS_MAX);
    let elapsed_s = (world.now_ns() - start_ns) as f64 / 1e9;
    let counters = world.client_counters().since(&before);
    let latencies_ns = world.histories().latencies_ns(start_ns);
    let quantile_us = |share: f64| {
        let rank = (latencies_ns.len() as f64 * share) as usize;
        latencies_ns.get(rank).map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    Line {
        thousand_per_s: counters.completed as f64 / elapsed_s / 1e3,
        median_us: quantile_us(0.5),
        p99_us: quantile_us(0.99),
        swaps_won: counters.swaps_won as f64 / counters.swaps.max(1) as f64,
        failed: counters.failed,
        verdict: match (is_over, world.histories().judge()) {
            (false, _) => "does not end",
            (true, Ok(())) => "linearizable",
            (true, Err(_)) => "NOT linearizable",
        },
    }
}
