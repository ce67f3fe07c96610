use proptest::prelude::*;

use super::*;
use crate::eviction_policy::POLICIES;
use crate::expiry::Expiry;

const CONTEXT: SampleContext = SampleContext {
    bytes: 10 << 20,
    ghosts: 40_000,
    flushes: 0,
};

/// The hash of a record's key. It is below the threshold of the highest sampling rate, so the key
/// is watched.
fn hash_of(record: u64) -> u64 {
    record.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> WATCHED_BITS_MIN
}

fn traits(bytes: u32) -> Traits {
    Traits {
        bytes,
        expiry: Expiry::NEVER,
    }
}

fn simulation(slots: usize) -> Simulation {
    let mut simulation = Simulation::new(slots);
    simulation.set_watched_bits(WATCHED_BITS_MIN);
    simulation
}

/// Simulates one request.
fn observe(simulation: &mut Simulation, hash: u64, access: SampledAccess, now_s: u32) {
    simulation.observe(
        &Observation {
            hash,
            access,
            now_s,
        },
        &CONTEXT,
    );
}

/// Simulates a read that misses in the store, followed by a write of the item.
fn read_through(simulation: &mut Simulation, record: u64, now_s: u32) {
    for access in [SampledAccess::Missed, SampledAccess::Stored(traits(100))] {
        observe(simulation, hash_of(record), access, now_s);
    }
}

/// A pseudo-random number below `below`, derived from `step`. Low numbers are more frequent.
fn zipf_like(step: u64, below: u64) -> u64 {
    let random = step.wrapping_mul(0xd130_2d3b_5f1c_6a95).rotate_left(29) ^ step;
    let unit = (random.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64;
    ((below as f64).powf(unit) - 1.0) as u64
}

#[test]
fn a_moving_working_set_selects_recency_and_a_loop_does_not() {
    let mut moving = simulation(8192);
    let mut looping = simulation(8192);
    // Each simulation starts with a policy that it must leave: `moving` with policy 0
    // (`returning`), and `looping` with policy 2 (`recent`).
    looping.selected = 2;
    for step in 0..200_000_u64 {
        let now_s = (step / 1_000) as u32;
        // The newest record is `step / 4 + 20_000`, and newer records are requested more often.
        read_through(
            &mut moving,
            step / 4 + 20_000 - zipf_like(step, 20_000),
            now_s,
        );
        let record = match step % 2 {
            0 => zipf_like(step, 20_000),
            // Every second request is part of a loop over 6000 other records.
            _ => 100_000 + step / 2 % 6_000,
        };
        read_through(&mut looping, record, now_s);
    }
    let name = |simulation: &Simulation| POLICIES[simulation.selected].name;
    assert!(
        ["recent", "clock"].contains(&name(&moving)),
        "{}",
        name(&moving)
    );
    assert!(
        ["frequent", "returning"].contains(&name(&looping)),
        "{}",
        name(&looping)
    );
    assert!(moving.scores.iter().all(|score| (0..=ONE).contains(score)));
}

#[test]
fn fewer_keys_are_watched_when_there_are_no_slots_left() {
    let mut simulation = simulation(512);
    let before = simulation.threshold();
    // Many more watched keys than slots.
    for record in 0..20_000 {
        read_through(&mut simulation, record, 1);
    }
    assert!(simulation.threshold() < before);
    assert!(simulation.directory.len() < 512, "no slot was released");
    simulation.queues.check(&simulation.directory);
    // The deletions leave few slots in use, so the sampling rate rises again.
    for step in 0..u64::from(SAMPLING_CHECK_PERIOD) * 40 {
        observe(&mut simulation, step % 20, SampledAccess::Missed, 1);
        observe(
            &mut simulation,
            hash_of(step % 20_000),
            SampledAccess::Deleted,
            1,
        );
    }
    assert_eq!(simulation.threshold(), before);
}

#[test]
fn expired_and_flushed_items_do_not_hit() {
    let mut simulation = simulation(512);
    // Simulates a request in second `now_s`, after `flushes` flushes. Then returns whether every
    // simulated cache has had at least one hit, which its score shows: a score is 0 until the first
    // hit.
    let all_have_hit = |simulation: &mut Simulation, access, now_s, flushes| {
        let context = SampleContext { flushes, ..CONTEXT };
        let hash = 7;
        simulation.observe(
            &Observation {
                hash,
                access,
                now_s,
            },
            &context,
        );
        (0..POLICY_COUNT).all(|policy| simulation.scores[policy] > 0)
    };
    // The item expires in second 10.
    let brief = Traits {
        bytes: 100,
        expiry: Expiry::at(10),
    };
    assert!(!all_have_hit(
        &mut simulation,
        SampledAccess::Stored(brief),
        1,
        0
    ));
    assert!(
        !all_have_hit(&mut simulation, SampledAccess::Missed, 10, 0),
        "an expired item was a hit"
    );
    all_have_hit(&mut simulation, SampledAccess::Stored(traits(100)), 10, 0);
    assert!(
        !all_have_hit(&mut simulation, SampledAccess::Missed, 10, 1),
        "a flushed item was a hit"
    );
    all_have_hit(&mut simulation, SampledAccess::Stored(traits(100)), 10, 1);
    assert!(all_have_hit(&mut simulation, SampledAccess::Missed, 10, 1));
}

#[test]
fn deleted_items_do_not_hit_and_touched_items_do() {
    let mut simulation = simulation(512);
    // Simulates a request. Returns whether it was a hit in every simulated cache. A hit in a cache
    // raises the score of the cache. (`SampledAccess::Missed` is a miss in the store; it may be a
    // hit in the simulated caches, which have other sizes.)
    let mut all_hit = |access, now_s| {
        let before = simulation.scores;
        observe(&mut simulation, 7, access, now_s);
        (0..POLICY_COUNT).all(|policy| simulation.scores[policy] > before[policy])
    };
    let until = |second| Traits {
        bytes: 100,
        expiry: Expiry::at(second),
    };
    all_hit(SampledAccess::Stored(until(10)), 1);
    assert!(
        all_hit(SampledAccess::Hit(until(20)), 9),
        "the read that touches the item missed"
    );
    assert!(
        all_hit(SampledAccess::Missed, 15),
        "the touch did not extend the expiry"
    );
    all_hit(SampledAccess::Stored(until(30)), 15);
    assert!(
        all_hit(SampledAccess::Missed, 25),
        "the write after a miss did not extend the expiry"
    );
    all_hit(SampledAccess::Deleted, 25);
    assert!(!all_hit(SampledAccess::Missed, 25));
}

proptest! {
    #[test]
    fn the_queues_stay_consistent(
        samples in prop::collection::vec((0..2_000_u64, 0..4_u8, 1..400_u32, 0..3_u32), 1..1_500),
        memory_bytes in 0..2_000_000_u64,
        slots in 20..400_usize,
    ) {
        let mut simulation = simulation(slots);
        for (number, (record, kind, bytes, flushes)) in samples.into_iter().enumerate() {
            // The lifetime in seconds is the length in bytes, so that it is random too.
            let traits = Traits { bytes, expiry: Expiry::at(number as u32 + bytes) };
            let access = match kind {
                0 => SampledAccess::Missed,
                1 => SampledAccess::Stored(traits),
                2 => SampledAccess::Hit(traits),
                _ => SampledAccess::Deleted,
            };
            let observation = Observation { hash: hash_of(record), access, now_s: number as u32 };
            // The memory is halved every 500 requests, and sometimes the store is flushed.
            let memory_bytes = memory_bytes >> (number / 500);
            let flushes = if number % 300 == 0 { flushes } else { simulation.flushes };
            let context = SampleContext { bytes: memory_bytes, ghosts: 1_000, flushes };
            simulation.observe(&observation, &context);
            if number % 50 == 0 {
                simulation.queues.check(&simulation.directory);
            }
        }
        simulation.queues.check(&simulation.directory);
        // As many slots are in use as are in a queue of at least one cache.
        let queued = (1..=slots as u16).filter(|&slot| !simulation.queues.is_in_no_cache(slot));
        prop_assert_eq!(queued.count(), simulation.directory.len());
    }
}
