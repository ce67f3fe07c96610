//! The checks of chains and answers find each fault that can be switched on: what the published
//! prototype left out, and what would be easy to get wrong.

use std::collections::BTreeSet;

use crate::tests::world::network::NetworkFaults;
use crate::tests::world::{Scenario, World, scenario};
use crate::{Config, Faults, Step};

const SEEDS: u64 = 400;

/// An append has failed although there is no next node. No slot is used again here, so the node
/// that was addressed can only be empty with its own generation: the answer is another node's.
const MISREAD: &str = "a failed append found Some(Empty";

/// Finds a seed with a complaint that has these words, and passes without the fault. Other errors
/// that the fault leads to with other seeds are not enough.
fn assert_found(step: Step, faults: Faults, words: &str, change: impl Fn(&mut Scenario)) {
    let mut others = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut case = scenario(seed, Config::new(step, 1), faults);
        change(&mut case);
        let Err(complaint) = World::run(&case) else {
            continue;
        };
        if !complaint.contains(words) {
            others.insert(complaint.chars().take(60).collect::<String>());
            continue;
        }
        case.config.faults = Faults::default();
        if !case.config.switches.mapping {
            case.config.switches.conversion = false;
        }
        let without = World::run(&case);
        assert!(
            without.is_ok(),
            "seed {seed} fails without the fault: {without:?}"
        );
        return;
    }
    panic!("{faults:?} at {step:?} is not found with {SEEDS} seeds, but {others:#?}");
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
        assert_found(step, faults, "acknowledged node is lost", busy);
    }
}

#[test]
fn steering_reads_to_nodes_on_their_way_returns_what_was_never_linked_in_time() {
    let faults = Faults {
        reads_unlinked: true,
        ..Faults::default()
    };
    assert_found(Step::Read, faults, "was known at", busy);
}

#[test]
fn conversion_without_mapping_loses_acknowledged_nodes() {
    let faults = Faults {
        converts_unmapped: true,
        ..Faults::default()
    };
    assert_found(Step::Read, faults, "acknowledged node is lost", |case| {
        busy(case);
        case.config.switches.conversion = true;
    });
}

#[test]
fn steering_conditional_appends_breaks_their_condition() {
    let faults = Faults {
        steers_exact: true,
        ..Faults::default()
    };
    for step in [Step::Write, Step::Conversion] {
        assert_found(step, faults, "conditional append follows another", busy);
    }
}

#[test]
fn steering_a_retransmission_anew_misreads_the_answer() {
    let faults = Faults {
        steers_again: true,
        ..Faults::default()
    };
    assert_found(Step::Write, faults, MISREAD, |case| {
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
    assert_found(Step::Conversion, faults, "acknowledged node is lost", busy);
}

#[test]
fn passing_answers_of_before_a_restart_leaves_them_untranslated() {
    let faults = Faults {
        passes_unknown: true,
        ..Faults::default()
    };
    assert_found(Step::Write, faults, MISREAD, |case| {
        busy(case);
        case.restart_ns = Some(250_000 + case.seed % 11 * 30_000);
    });
}

/// The old append is still on its way when the client finds its node unlinked, and appends it
/// again. A converted append behind it then overwrites the link that another one made there.
#[test]
fn connecting_again_at_once_links_a_node_twice_and_loses_others() {
    let faults = Faults {
        connects_at_once: true,
        ..Faults::default()
    };
    assert_found(
        Step::Conversion,
        faults,
        "acknowledged node is lost",
        |case| {
            busy(case);
            case.losses_max = 1;
            case.network.late = 150;
            case.network.lost = 100;
        },
    );
}

#[test]
fn trusting_corrupted_packets_spreads_the_corruption() {
    let faults = Faults {
        trusts_corrupted: true,
        ..Faults::default()
    };
    assert_found(Step::Mapping, faults, "it does not end", |case| {
        busy(case);
        case.network = NetworkFaults {
            damaged: 100,
            ..NetworkFaults::NONE
        };
    });
}
