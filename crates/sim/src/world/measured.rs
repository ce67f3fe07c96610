//! How fast a world is.

use measure::Histogram;
use middlebox::{Config, Faults};
use workload::Ycsb;

use super::{Costs, Load, NetworkFaults, World, WorldConfig};
use crate::limits::{CHUNK_NS, MEASURED_EVENTS_MAX};
use crate::steering::Step;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredConfig {
    /// Client threads, at most 1000.
    pub threads: u16,
    /// Operations of a thread at once.
    pub outstanding: usize,
    /// Reads and writes.
    pub workload: Ycsb,
    /// Exponent of Zipf's law over the keys; 0: all keys are equally popular.
    pub theta: f64,
    /// Number of keys.
    pub keys: u32,
    /// Length of the longest value in bytes.
    pub value_len: usize,
    /// What the middlebox does.
    pub step: Step,
    /// Errors of the middlebox on purpose.
    pub errors: Faults,
    /// Frames lost, of a million.
    pub lost_ppm: u32,
    /// What takes time.
    pub costs: Costs,
    /// Operations that are measured; half as many are the warm-up.
    pub operations: u64,
    /// The measurement ends after this time in any case, in nanoseconds.
    pub longest_ns: u64,
    /// Where all chance comes from.
    pub seed: u64,
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Operations a second.
    pub total_rps: f64,
    /// From the beginning of an operation to its end, in nanoseconds.
    pub reads: Histogram,
    /// The same of writes.
    pub writes: Histogram,
    /// Compare-and-swaps that appended, of all. None: there were none.
    pub swap_success: Option<f64>,
    /// Verbs of an operation, mean.
    pub verbs: f64,
    /// Bytes that clients sent and received for an operation, with all headers.
    pub bytes: f64,
    /// Operations that failed.
    pub failed: u64,
    /// Share of the threads that completed nothing in the last tenth of the time.
    pub stalled: f64,
}

/// Counts of all clients.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    completed: u64,
    verbs: u64,
    swaps: u64,
    appended: u64,
    bytes: u64,
}

/// Runs a world with all keys present, and measures it.
///
/// # Errors
/// The configuration is refused, or the keys cannot be stored.
pub fn measure(config: &MeasuredConfig) -> Result<Measured, String> {
    let mut world = World::new(world_config(config))?;
    if !world.fill() {
        return Err("not all keys could be stored".to_owned());
    }
    world.set_faults(NetworkFaults {
        lost_ppm: config.lost_ppm,
        ..NetworkFaults::default()
    });
    world.begin();
    let deadline_ns = world.now_ns() + config.longest_ns;
    run_for(&mut world, config.operations / 2, deadline_ns);
    let (before, began_ns) = (sums(&world), world.now_ns());
    world.clear();
    let deadline_ns = began_ns + config.longest_ns;
    run_for(
        &mut world,
        config.operations * 9 / 10,
        deadline_ns - config.longest_ns / 10,
    );
    let counts: Vec<u64> = world
        .clients()
        .map(|it| it.client().counters().completed)
        .collect();
    run_for(&mut world, config.operations, deadline_ns);
    let after = sums(&world);
    let idle = world
        .clients()
        .zip(&counts)
        .filter(|(client, count)| client.client().counters().completed == **count);
    let stalled = idle.count() as f64 / counts.len() as f64;
    let (mut reads, mut writes, mut failed) = (Histogram::new(), Histogram::new(), 0);
    for client in world.clients() {
        reads.merge(&client.reads);
        writes.merge(&client.writes);
        failed += client.failed;
    }
    let completed = (after.completed - before.completed) as f64;
    let swaps = after.swaps - before.swaps;
    let per_operation = |count: u64| count as f64 / completed.max(1.0);
    Ok(Measured {
        total_rps: completed / (world.now_ns() - began_ns).max(1) as f64 * 1e9,
        reads,
        writes,
        swap_success: (swaps > 0).then(|| (after.appended - before.appended) as f64 / swaps as f64),
        verbs: per_operation(after.verbs - before.verbs),
        bytes: per_operation(after.bytes - before.bytes),
        failed,
        stalled,
    })
}

/// Runs until so many operations have been measured.
fn run_for(world: &mut World, operations: u64, deadline_ns: u64) {
    loop {
        let measured: u64 = world.clients().map(super::ClientHost::completed).sum();
        if measured >= operations || world.now_ns() >= deadline_ns {
            return;
        }
        world.run(
            deadline_ns.min(world.now_ns() + CHUNK_NS),
            MEASURED_EVENTS_MAX,
        );
    }
}

fn sums(world: &World) -> Sums {
    world
        .clients()
        .map(|it| it.client().counters())
        .fold(Sums::default(), |sums, counters| Sums {
            completed: sums.completed + counters.completed,
            verbs: sums.verbs + counters.reads + counters.writes + counters.swaps,
            swaps: sums.swaps + counters.swaps,
            appended: sums.appended + counters.swaps_won,
            bytes: sums.bytes + counters.sent_bytes + counters.received_bytes,
        })
}

fn world_config(config: &MeasuredConfig) -> WorldConfig {
    let step = match config.step {
        Step::None => middlebox::Step::Forward,
        Step::Writes => middlebox::Step::Write,
        Step::Reads => middlebox::Step::Read,
        Step::Mapping => middlebox::Step::Mapping,
        Step::Conversion => middlebox::Step::Conversion,
    };
    let mut middlebox = Config::new(step, 1);
    middlebox.faults = config.errors;
    let slab_len = 1 << 16;
    // Space for the versions of some milliseconds: they are reclaimed after leases were renewed.
    let memory_len = (u64::from(config.keys) * 8 + u64::from(config.threads) * 2048)
        * super::node_len(config.value_len) as u64
        + (u64::from(config.threads) + 8) * u64::from(slab_len);
    WorldConfig {
        clients: config.threads,
        load: Load {
            operations: 0,
            outstanding: config.outstanding,
            keys: config.keys,
            theta: config.theta,
            value_len: config.value_len,
            writes_percent: (config.workload.update_share() * 100.0).round() as u64,
            others_percent: 0,
            is_judged: false,
        },
        middlebox,
        memory_len,
        slab_len,
        faults: NetworkFaults::default(),
        costs: config.costs,
        seed: config.seed,
    }
}
