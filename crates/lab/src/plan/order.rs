//! The order of trials.
//!
//! Randomised complete blocks: the k-th block holds the k-th repeat of every cell of every server,
//! shuffled. Drift during a run (load of other guests, frequency throttling) then affects all cells
//! alike, the repeats of a cell are spread over the whole run, and an interrupted run has nearly
//! the same number of repeats in every cell.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use report::folder::{Phase, Plan};

/// A trial of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTrial {
    /// Unique within the run, such as `s-memcached-3-07`.
    pub id: String,
    /// Its phase.
    pub phase: Phase,
    /// Index into the plan's servers.
    pub server: usize,
    /// The cell as numbered by the plan; the setting of a capacity trial.
    pub cell: u32,
    /// The setting, from 0.
    pub setting: u32,
    /// From 0.
    pub repeat: u32,
    /// Load level, where the sweep is in levels.
    pub level: Option<f64>,
    /// Seed of the trial's schedule; the same for every server and setting, so that their schedules
    /// are equal.
    pub seed: u64,
}

/// All trials of a plan in order: capacity trials first, because the sweep's rates may depend on
/// them. The same plan gives the same order.
#[must_use]
pub fn trials(plan: &Plan) -> Vec<PlannedTrial> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let mut planned_trials = Vec::new();
    for (phase, blocks, cells) in [
        (Phase::Capacity, plan.capacity_trials, plan.settings()),
        (Phase::Sweep, plan.repeats, plan.cells()),
    ] {
        for repeat in 0..blocks {
            let mut block = block(plan, phase, repeat, cells);
            block.shuffle(&mut random);
            planned_trials.extend(block);
        }
    }
    planned_trials
}

fn block(plan: &Plan, phase: Phase, repeat: u32, cells: u32) -> Vec<PlannedTrial> {
    let letter = match phase {
        Phase::Capacity => 'c',
        Phase::Sweep => 's',
    };
    let taking_part = plan
        .servers
        .iter()
        .enumerate()
        .filter(|(_, server)| server.skipped.is_none());
    taking_part
        .flat_map(|(index, server)| {
            (0..cells).map(move |cell| {
                let (setting, rate, level) = match phase {
                    Phase::Capacity => (cell, 0, None),
                    Phase::Sweep => {
                        let (setting, rate) = plan.setting_and_rate(cell);
                        (setting, rate, plan.level(cell))
                    }
                };
                PlannedTrial {
                    id: format!("{letter}-{}-{cell}-{repeat:02}", server.name),
                    phase,
                    server: index,
                    cell,
                    setting,
                    repeat,
                    level,
                    seed: schedule_seed(plan.seed, phase, rate, repeat),
                }
            })
        })
        .collect()
}

/// A seed for each rate and repeat (`SplitMix64` over its coordinates), below 2^63.
fn schedule_seed(seed: u64, phase: Phase, rate: u32, repeat: u32) -> u64 {
    let coordinates = (phase as u64) << 62 | u64::from(rate) << 31 | u64::from(repeat);
    let mut z = seed ^ coordinates.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) >> 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use report::Vary;

    use super::*;
    use crate::plan::tests::plan;

    proptest! {
        #[test]
        fn the_order_is_a_function_of_the_seed_and_spreads_repeats(
            seed in 0..u64::MAX / 2,
            repeats in 1_u32..8,
            cells in 1_usize..6,
        ) {
            let plan = Plan { seed, repeats, ..plan(cells) };
            let planned_trials = trials(&plan);
            prop_assert_eq!(&planned_trials, &trials(&plan));

            let distinct: HashSet<_> = planned_trials.iter().map(|planned| &planned.id).collect();
            prop_assert_eq!(distinct.len(), planned_trials.len());
            let capacities = 2 * plan.capacity_trials as usize;
            prop_assert_eq!(planned_trials.len(), capacities + 2 * cells * repeats as usize);
            prop_assert!(planned_trials[..capacities].iter().all(|planned| planned.phase == Phase::Capacity));

            // In every prefix of the run, no cell is more than one repeat ahead of another.
            let sweep = &planned_trials[capacities..];
            for done in 0..=sweep.len() {
                let count = |server, cell| {
                    let same = |planned: &&PlannedTrial| planned.server == server && planned.cell == cell;
                    sweep[..done].iter().filter(same).count()
                };
                let counts: Vec<_> = (0..cells as u32)
                    .flat_map(|cell| [count(0, cell), count(1, cell)])
                    .collect();
                let most = counts.iter().max().copied().unwrap_or(0);
                let least = counts.iter().min().copied().unwrap_or(0);
                prop_assert!(most - least <= 1, "{counts:?} after {done}");
            }
        }
    }

    #[test]
    fn another_seed_gives_another_order_and_servers_share_schedules() {
        let one = plan(8);
        let two = Plan {
            seed: 2,
            ..one.clone()
        };
        let ids = |plan| {
            trials(plan)
                .into_iter()
                .map(|planned| planned.id)
                .collect::<Vec<_>>()
        };
        assert_ne!(ids(&one), ids(&two));
        let planned_trials = trials(&one);
        for planned in &planned_trials {
            let alike: Vec<_> = planned_trials
                .iter()
                .filter(|other| other.seed == planned.seed)
                .collect();
            assert_eq!(alike.len(), 2, "{alike:?}");
            assert_ne!(alike[0].server, alike[1].server);
        }
    }

    #[test]
    fn all_servers_share_schedules_under_every_setting() {
        let plan = Plan {
            vary: Some(Vary::Depth(vec![1, 4])),
            ..plan(3)
        };
        let planned_trials = trials(&plan);
        let capacities = 2 * 2 * plan.capacity_trials as usize;
        assert_eq!(
            planned_trials.len(),
            capacities + 2 * 2 * 3 * plan.repeats as usize
        );
        let distinct: HashSet<_> = planned_trials.iter().map(|planned| &planned.id).collect();
        assert_eq!(distinct.len(), planned_trials.len());
        for planned in &planned_trials {
            let alike = planned_trials
                .iter()
                .filter(|other| other.seed == planned.seed);
            let of: HashSet<_> = alike.map(|other| (other.server, other.setting)).collect();
            assert_eq!(of.len(), 4, "{planned:?}");
            assert_eq!(planned.level.is_some(), planned.phase == Phase::Sweep);
        }
        let last = planned_trials
            .iter()
            .find(|planned| planned.id == "s-curtail-5-00")
            .unwrap();
        assert_eq!((last.setting, last.level), (1, Some(0.3)));
    }

    #[test]
    fn a_skipped_server_has_no_trials() {
        let mut plan = plan(2);
        plan.servers[1].skipped = Some("not here".to_owned());
        assert!(trials(&plan).iter().all(|planned| planned.server == 0));
    }
}
