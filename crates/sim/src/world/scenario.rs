//! Worlds with faults, each drawn from a seed, and judged.

use measure::Rejection;
use middlebox::{Config, Faults, Step};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::{Host, Load, MiddleboxSide, NetworkFaults, Verdict, World, WorldConfig};
use crate::limits::{SCENARIO_EVENTS_MAX, SCENARIO_LEN_NS};

/// What a scenario came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What was drawn, in words.
    pub description: String,
    /// Calls of all clients.
    pub calls: usize,
    /// How often a slot in memory was used again.
    pub slots_reused: u64,
    /// Chains that ended because their keys had no value, since the last start of the metadata
    /// service.
    pub chains_closed: u64,
    /// Compare-and-swaps that the middlebox has converted since its last start.
    pub swaps_converted: u64,
    /// Whether a metadata service was replaced, went on later, and has found out.
    pub has_ended_former: bool,
    /// Virtual time, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether all operations have ended, and the last reads were answered.
    pub is_complete: bool,
    /// The first history that is wrong.
    pub verdict: Result<(), Verdict>,
}

impl Report {
    /// Whether a history was rejected. A scenario that does not end, or whose histories cannot be
    /// decided, is neither right nor wrong.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        let rejection = self
            .verdict
            .as_ref()
            .err()
            .map(|verdict| &verdict.rejection);
        rejection.is_some_and(|rejection| !matches!(rejection, Rejection::Undecided(_)))
    }

    /// Whether nothing is wrong, all has ended, and all was decided.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.is_complete && self.verdict.is_ok()
    }
}

struct Drawn {
    random: Xoshiro256PlusPlus,
    words: Vec<String>,
}

impl Drawn {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }
}

/// Runs the scenario of a seed.
///
/// # Errors
/// The middlebox refuses its configuration: an error of this program.
pub fn run(seed: u64) -> Result<Report, String> {
    run_with(seed, None, Faults::default())
}

/// Runs the scenario of a seed with a middlebox that makes errors on purpose, at a step.
///
/// # Errors
/// The middlebox refuses its configuration.
pub fn run_with(seed: u64, step: Option<Step>, errors: Faults) -> Result<Report, String> {
    let mut drawn = Drawn {
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        words: Vec::new(),
    };
    let drawn_step = Step::ALL[drawn.below(5) as usize];
    let step = step.unwrap_or(drawn_step);
    let mut middlebox = Config::new(step, 1);
    middlebox.faults = errors;
    middlebox.shared = drawn.between(1, 4) as usize;
    let clients = drawn.between(2, 5) as u16;
    let load = Load {
        operations: drawn.between(8, 40),
        outstanding: drawn.between(1, 4) as usize,
        keys: drawn.between(1, 3) as u32,
        value_len: 64,
        theta: 0.0,
        writes_percent: drawn.between(30, 80),
        others_percent: [0, 20, 50][drawn.below(3) as usize],
        expired_percent: 0,
    };
    let faults = draw_faults(&mut drawn);
    let mut config = WorldConfig {
        clients,
        load,
        middlebox,
        memory_len: 1 << 20,
        slab_len: 8192,
        heartbeat_ns: 20_000_000,
        advance_ns: 5_000_000,
        sweep_ns: 0,
        acknowledge_ns: 0,
        faults,
        hop_ns: 2_000,
        seed,
    };
    if seed % 4 == 1 {
        reuse_slots(&mut config);
    }
    if closes_chains(seed) {
        close_chains(&mut config);
    }
    if replaces_metadata(seed) {
        config.memory_len = 1 << 20;
    }
    let load = config.load;
    drawn
        .words
        .insert(0, format!("{step:?}, {clients} clients, {load:?}"));
    let mut world = World::new(config)?;
    draw_disturbances(&mut drawn, &mut world, clients);
    let mut is_over = true;
    if replaces_metadata(seed) {
        let end_ns = draw_takeover(&mut drawn, &mut world);
        is_over &= world.run(SCENARIO_LEN_NS, SCENARIO_EVENTS_MAX);
        world.run_until(end_ns.max(world.now_ns()), SCENARIO_EVENTS_MAX, |_| false);
        // Whatever the service before has done, these meet it.
        world.set_load(load);
    }
    is_over &= world.run(SCENARIO_LEN_NS, SCENARIO_EVENTS_MAX);
    world.set_faults(NetworkFaults::default());
    let is_read = world.read_all();
    Ok(Report {
        seed,
        description: drawn.words.join("; "),
        calls: world.histories().calls(),
        slots_reused: world.slots_reused(),
        chains_closed: world.chains_closed(),
        swaps_converted: world.middlebox_counters().swaps_converted,
        has_ended_former: world.has_ended_former(),
        elapsed_ns: world.now_ns(),
        is_complete: is_over && is_read,
        verdict: world.histories().judge(),
    })
}

/// Whether chains end all the time in the scenario of a seed.
#[must_use]
pub fn closes_chains(seed: u64) -> bool {
    seed.is_multiple_of(6)
}

/// Whether the metadata service is replaced in the scenario of a seed while it is paused, and goes
/// on about when the memory node starts again. Its chains end all the time, so that it has always
/// begun something.
#[must_use]
pub fn replaces_metadata(seed: u64) -> bool {
    seed % 12 == 6
}

/// Lets slots be used again many times: small memory, many operations, and old nodes that are freed
/// soon.
fn reuse_slots(config: &mut WorldConfig) {
    config.load.operations *= 4;
    config.memory_len = 1 << 18;
    config.slab_len = 4096;
    config.heartbeat_ns = 200_000;
    config.advance_ns = 50_000;
}

/// Lets chains end all the time, which happens in use when memory is short.
fn close_chains(config: &mut WorldConfig) {
    reuse_slots(config);
    config.sweep_ns = 50_000;
    config.load.others_percent = 60;
    config.load.expired_percent = 30;
    config.load.keys = 12;
}

/// Another metadata service takes over, and the memory node starts again, about when the one before
/// goes on: its connection has to be found lost first, which takes 160 ms. Returns when this is
/// over.
fn draw_takeover(drawn: &mut Drawn, world: &mut World) -> u64 {
    // Clients register when they repeat their first requests, after 20 ms: no service was ready.
    let at_ns = drawn.between(20_200_000, 25_000_000);
    let node_ns = at_ns + drawn.between(200_000_000, 300_000_000);
    let until_ns = node_ns - drawn.below(160_000_000);
    drawn.words.push(format!(
        "another metadata service at {at_ns} ns, the one before goes on at {until_ns} ns, \
         {:?} crashes at {node_ns} ns",
        Host::Node
    ));
    world.replace_metadata(at_ns, until_ns);
    world.crash(node_ns, Host::Node, 1000);
    node_ns + 1_000_000_000
}

/// A good network, a bad one, or one of a kind.
fn draw_faults(drawn: &mut Drawn) -> NetworkFaults {
    let bad = [0, 2_000, 20_000, 100_000];
    let mut ppm = || bad[drawn.below(4) as usize];
    let faults = NetworkFaults {
        lost_ppm: ppm(),
        repeated_ppm: ppm(),
        damaged_ppm: ppm(),
        jitter_ns: [0, 1_000, 10_000, 200_000][drawn.below(4) as usize],
        ..NetworkFaults::default()
    };
    drawn.words.push(format!("{faults:?}"));
    faults
}

/// Up to three pauses and crashes in the first 200 ms.
fn draw_disturbances(drawn: &mut Drawn, world: &mut World, clients: u16) {
    for _ in 0..drawn.below(4) {
        let host = match drawn.below(6) {
            0 | 1 => Host::Client(drawn.below(clients.into()) as u16),
            2 => Host::Metadata,
            3 => Host::Node,
            _ => Host::Middlebox(MiddleboxSide::Client),
        };
        let at_ns = drawn.below(200_000_000) / (1 + drawn.below(100));
        let len_ns = drawn.between(1_000, 300_000_000) / (1 + drawn.below(1000));
        if drawn.below(2) == 0 {
            drawn
                .words
                .push(format!("{host:?} pauses at {at_ns} ns for {len_ns} ns"));
            world.pause(at_ns, host, len_ns);
        } else {
            drawn
                .words
                .push(format!("{host:?} crashes at {at_ns} ns for {len_ns} ns"));
            world.crash(at_ns, host, len_ns);
        }
    }
}
