//! Whatever the network does, chains and answers agree, at each step.
//!
//! `MIDDLEBOX_SEEDS=N` tries N seeds for each case instead of a few; `MIDDLEBOX_FIRST=N` begins
//! with seed N.

use std::env;

use crate::tests::world::{Scenario, World, scenario};
use crate::{Config, Faults, Step};

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| env::var(name).ok().and_then(|number| number.parse().ok());
    let first = number("MIDDLEBOX_FIRST").unwrap_or(0);
    first..first + number("MIDDLEBOX_SEEDS").unwrap_or(default)
}

/// Runs a case with many seeds, for each step.
fn check(default: u64, change: impl Fn(&mut Scenario)) {
    for step in Step::ALL {
        let (mut acknowledged, mut reads) = (0, 0);
        for seed in seeds(default) {
            let mut case = scenario(seed, Config::new(step, 1), Faults::default());
            change(&mut case);
            match World::run(&case) {
                Ok(summary) => {
                    acknowledged += summary.acknowledged;
                    reads += summary.reads;
                }
                Err(error) => panic!("step {step:?}, seed {seed}: {error}\n{case:?}"),
            }
        }
        let has_happened = acknowledged > 0 && reads > 0;
        assert!(
            has_happened || seeds(default).count() < 10,
            "{step:?}: nothing happened"
        );
    }
}

#[test]
fn chains_and_answers_agree_at_each_step() {
    check(40, |_| {});
}

#[test]
fn several_memory_nodes() {
    check(15, |case| {
        case.nodes = 2;
        case.chains = 4;
    });
}

#[test]
fn dead_owners_stop_no_others() {
    check(25, |case| {
        case.clients = 5;
        case.dying = 2;
        case.chains = 1;
    });
}

#[test]
fn a_restart_loses_no_data() {
    check(25, |case| {
        case.restart_ns = Some(300_000 + case.seed % 7 * 60_000);
    });
}

#[test]
fn small_tables_lose_time_only() {
    check(20, |case| {
        case.config.chains = 1;
        case.config.addresses = 8;
        case.chains = 3;
    });
}

#[test]
fn only_the_hottest_chains_are_steered() {
    check(15, |case| {
        case.config.hottest = Some(1);
        case.chains = 3;
    });
}

#[test]
fn impatient_clients_connect_again() {
    check(25, |case| {
        case.losses_max = 1;
        case.network.lost = 60;
    });
}
