use proptest::prelude::*;

use super::*;
use crate::item::Expiry;
use crate::leaning::LEANINGS;

const SCENE: Scene = Scene {
    bytes: 20 << 20,
    ghosts: 80_000,
    flushes: 0,
};

/// A hash that is watched by a stage with the least of bits.
fn hash_of(record: u64) -> u64 {
    record.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> WATCHED_BITS_MIN
}

fn traits(bytes: u32) -> Traits {
    Traits {
        bytes,
        expiry: Expiry::NEVER,
    }
}

fn stage(slots: usize) -> Stage {
    let mut stage = Stage::new(slots);
    stage.watch_one_in(WATCHED_BITS_MIN);
    stage
}

/// Shows one request.
fn show(stage: &mut Stage, hash: u64, seen: Seen, now_s: u32) {
    stage.look(&Look { hash, seen, now_s }, &SCENE);
}

/// A read that is answered by a write.
fn ask(stage: &mut Stage, record: u64, now_s: u32) {
    for seen in [Seen::Missed, Seen::Stored(traits(100))] {
        show(stage, hash_of(record), seen, now_s);
    }
}

/// Numbers below `below`, the low ones more often.
fn skewed(turn: u64, below: u64) -> u64 {
    let random = turn.wrapping_mul(0xd130_2d3b_5f1c_6a95).rotate_left(29) ^ turn;
    let unit = (random.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64;
    ((below as f64).powf(unit) - 1.0) as u64
}

#[test]
fn what_moves_is_followed_and_a_loop_is_not_let_in() {
    let mut moving = stage(8192);
    let mut around = stage(8192);
    // It comes from the other side.
    around.best = 2;
    for turn in 0..200_000_u64 {
        let now_s = (turn / 1_000) as u32;
        ask(&mut moving, turn / 4 + 20_000 - skewed(turn, 20_000), now_s);
        let record = match turn % 2 {
            0 => skewed(turn, 20_000),
            _ => 100_000 + turn / 2 % 6_000,
        };
        ask(&mut around, record, now_s);
    }
    let name = |stage: &Stage| LEANINGS[stage.best].name;
    assert!(
        ["recent", "clock"].contains(&name(&moving)),
        "{}",
        name(&moving)
    );
    assert!(
        ["frequent", "returning"].contains(&name(&around)),
        "{}",
        name(&around)
    );
    assert!(moving.scores.iter().all(|score| (0..=ONE).contains(score)));
}

#[test]
fn fewer_keys_are_watched_when_there_are_no_slots_left() {
    let mut stage = stage(512);
    let before = stage.threshold();
    for record in 0..20_000 {
        ask(&mut stage, record, 1);
    }
    assert!(stage.threshold() < before);
    assert!(stage.directory.len() < 512, "there is room again");
    stage.queues.check(&stage.directory);
    // And more again when there are few.
    for turn in 0..u64::from(CENSUS) * 40 {
        show(&mut stage, turn % 20, Seen::Missed, 1);
        show(&mut stage, hash_of(turn % 20_000), Seen::Deleted, 1);
    }
    assert_eq!(stage.threshold(), before);
}

#[test]
fn what_expired_or_was_flushed_is_no_hit() {
    let mut stage = stage(512);
    let look = |stage: &mut Stage, seen, now_s, flushes| {
        let scene = Scene { flushes, ..SCENE };
        let hash = 7;
        stage.look(&Look { hash, seen, now_s }, &scene);
        (0..WAYS).all(|way| stage.scores[way] > 0)
    };
    let brief = Traits {
        bytes: 100,
        expiry: Expiry::at(10),
    };
    assert!(!look(&mut stage, Seen::Stored(brief), 1, 0));
    assert!(!look(&mut stage, Seen::Missed, 10, 0), "it has expired");
    look(&mut stage, Seen::Stored(traits(100)), 10, 0);
    assert!(!look(&mut stage, Seen::Missed, 10, 1), "it was flushed");
    look(&mut stage, Seen::Stored(traits(100)), 10, 1);
    assert!(look(&mut stage, Seen::Missed, 10, 1));
}

#[test]
fn what_was_deleted_is_no_hit_and_what_was_touched_stays_one() {
    let mut stage = stage(512);
    let mut look = |seen, now_s| {
        let before = stage.scores;
        show(&mut stage, 7, seen, now_s);
        (0..WAYS).all(|way| stage.scores[way] > before[way])
    };
    let until = |second| Traits {
        bytes: 100,
        expiry: Expiry::at(second),
    };
    look(Seen::Stored(until(10)), 1);
    assert!(look(Seen::Hit(until(20)), 9), "a get that touches");
    assert!(look(Seen::Missed, 15), "it was touched");
    look(Seen::Stored(until(30)), 15);
    assert!(look(Seen::Missed, 25), "it was made anew after a miss");
    look(Seen::Deleted, 25);
    assert!(!look(Seen::Missed, 25));
}

proptest! {
    #[test]
    fn the_queues_stay_whole(
        looks in prop::collection::vec((0..2_000_u64, 0..4_u8, 1..400_u32, 0..3_u32), 1..1_500),
        room in 0..2_000_000_u64,
        slots in 20..400_usize,
    ) {
        let mut stage = stage(slots);
        for (number, (record, kind, bytes, flushes)) in looks.into_iter().enumerate() {
            let traits = Traits { bytes, expiry: Expiry::at(number as u32 + bytes) };
            let seen = match kind {
                0 => Seen::Missed,
                1 => Seen::Stored(traits),
                2 => Seen::Hit(traits),
                _ => Seen::Deleted,
            };
            let look = Look { hash: hash_of(record), seen, now_s: number as u32 };
            // Now and then it shrinks by half, and now and then it is flushed.
            let bytes = room >> (number / 500);
            let flushes = if number % 300 == 0 { flushes } else { stage.flushes };
            stage.look(&look, &Scene { bytes, ghosts: 1_000, flushes });
            if number % 50 == 0 {
                stage.queues.check(&stage.directory);
            }
        }
        stage.queues.check(&stage.directory);
        let known = (1..=slots as u16).filter(|&slot| !stage.queues.is_unknown(slot));
        prop_assert_eq!(known.count(), stage.directory.len());
    }
}
