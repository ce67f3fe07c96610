//! The order of trials.
//!
//! Randomised complete blocks: the k-th block of a stage holds the k-th repeat of each of its
//! cells, shuffled. Drift during a run (load of other guests, frequency throttling) then affects
//! all cells alike, the repeats of a cell are spread over the whole run, and an interrupted run has
//! nearly the same number of repeats in every cell. A cell that has enough trials is left out of
//! later blocks, which does not change the order of the others.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use report::record::{Plan, Stage};

use crate::kind::Kind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedTrial {
    /// Unique within the run, such as `sweep-003-07`.
    pub(crate) id: String,
    pub(crate) stage: usize,
    pub(crate) cell: u32,
    /// From 0.
    pub(crate) repeat: u32,
    /// Seed of the trial's schedule, the same for all cells that are measured under one schedule.
    pub(crate) seed: u64,
}

/// All trials that the plan may have, in order, as if no cell had enough trials earlier. The same
/// plan gives the same order.
pub(crate) fn trials(plan: &Plan, kind: &dyn Kind) -> Vec<PlannedTrial> {
    let stages = plan.stages.iter().enumerate();
    let blocks = stages.flat_map(|(index, stage)| {
        (0..stage.repeats.most).map(move |repeat| block(plan, kind, index, stage, repeat))
    });
    blocks.flatten().collect()
}

fn block(
    plan: &Plan,
    kind: &dyn Kind,
    index: usize,
    stage: &Stage,
    repeat: u32,
) -> Vec<PlannedTrial> {
    let planned = |(cell, factors)| PlannedTrial {
        id: format!("{}-{cell:03}-{repeat:02}", stage.name),
        stage: index,
        cell,
        repeat,
        seed: seed(
            plan.seed,
            &[&stage.name, &kind.schedule(factors), &repeat.to_string()],
        ),
    };
    let mut block: Vec<PlannedTrial> = (0..).zip(&stage.cells).map(planned).collect();
    let order = seed(plan.seed, &["order", &stage.name, &repeat.to_string()]);
    block.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(order));
    block
}

/// A seed below 2^63 for these words: FNV-1a of them (Fowler, Noll, Vo), then the finaliser of
/// `SplitMix64`.
fn seed(seed: u64, words: &[&str]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0xff]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut z = seed ^ hash;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) >> 1
}

#[cfg(test)]
mod tests;
