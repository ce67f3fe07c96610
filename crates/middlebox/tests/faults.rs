//! The checks of chains and answers find each fault that can be switched on: what the published
//! prototype left out, and what would be easy to get wrong.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "world/world.rs"]
mod world;

use middlebox::{Config, Faults, Step};
use world::network::NetworkFaults;
use world::{Scenario, World, scenario};

const SEEDS: u64 = 400;

/// The first complaint of any seed, with the fault; and that the same cases pass without it.
fn complaint(step: Step, faults: Faults, change: impl Fn(&mut Scenario)) -> String {
    for seed in 0..SEEDS {
        let mut case = scenario(seed, Config::new(step, 1), faults);
        change(&mut case);
        let Err(complaint) = World::run(&case) else {
            continue;
        };
        case.config.faults = Faults::default();
        if !case.config.switches.mapping {
            case.config.switches.conversion = false;
        }
        let without = World::run(&case);
        assert!(
            without.is_ok(),
            "seed {seed} fails without the fault: {without:?}"
        );
        return complaint;
    }
    panic!("{faults:?} at {step:?} is not found with {SEEDS} seeds");
}

fn busy(case: &mut Scenario) {
    case.clients = 5;
    case.chains = 1;
    case.exact = 40;
    case.reads = 30;
}

#[test]
fn answering_each_append_as_successful_loses_acknowledged_nodes() {
    let faults = Faults {
        always_succeeded: true,
        ..Faults::default()
    };
    for step in [Step::Write, Step::Mapping] {
        let complaint = complaint(step, faults, busy);
        assert!(
            complaint.contains("acknowledged node is lost"),
            "{complaint}"
        );
    }
}

#[test]
fn steering_reads_to_nodes_on_their_way_returns_what_was_never_linked_in_time() {
    let faults = Faults {
        reads_unlinked: true,
        ..Faults::default()
    };
    complaint(Step::Read, faults, busy);
}

#[test]
fn conversion_without_mapping_loses_acknowledged_nodes() {
    let faults = Faults {
        converts_unmapped: true,
        ..Faults::default()
    };
    let complaint = complaint(Step::Read, faults, |case| {
        busy(case);
        case.config.switches.conversion = true;
    });
    assert!(!complaint.is_empty());
}

#[test]
fn steering_conditional_appends_breaks_their_condition() {
    let faults = Faults {
        steers_exact: true,
        ..Faults::default()
    };
    for step in [Step::Write, Step::Conversion] {
        let complaint = complaint(step, faults, busy);
        assert!(
            complaint.contains("conditional append follows another"),
            "{complaint}"
        );
    }
}

#[test]
fn steering_a_retransmission_anew_misreads_the_answer() {
    let faults = Faults {
        steers_again: true,
        ..Faults::default()
    };
    complaint(Step::Write, faults, |case| {
        busy(case);
        case.network.lost = 80;
    });
}

#[test]
fn converting_beside_an_exact_operation_overwrites_it() {
    let faults = Faults {
        ignores_exact: true,
        ..Faults::default()
    };
    complaint(Step::Conversion, faults, busy);
}

#[test]
fn passing_packets_of_before_a_restart_executes_them_wrongly() {
    let faults = Faults {
        passes_unknown: true,
        ..Faults::default()
    };
    complaint(Step::Write, faults, |case| {
        busy(case);
        case.restart_ns = Some(250_000 + case.seed % 11 * 30_000);
    });
}

#[test]
fn connecting_again_at_once_links_a_node_twice() {
    let faults = Faults {
        connects_at_once: true,
        ..Faults::default()
    };
    complaint(Step::Conversion, faults, |case| {
        busy(case);
        case.losses_max = 1;
        case.network.late = 150;
        case.network.lost = 100;
    });
}

#[test]
fn trusting_corrupted_packets_spreads_the_corruption() {
    let faults = Faults {
        trusts_corrupted: true,
        ..Faults::default()
    };
    complaint(Step::Mapping, faults, |case| {
        busy(case);
        case.network = NetworkFaults {
            damaged: 100,
            ..NetworkFaults::NONE
        };
    });
}
