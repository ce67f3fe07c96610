use workload::Ycsb;

use super::*;

fn config(threads: u32, workload: Ycsb, step: Step) -> Config {
    Config {
        operations: 20_000,
        ..published::config(workload, step, threads)
    }
}

#[test]
fn without_contention_a_verb_takes_what_its_parts_take() {
    let one = Config {
        outstanding: 1,
        ..config(1, Ycsb::C, Step::None)
    };
    let found = simulate(&one).unwrap();
    let costs = one.costs;
    // Two packets at the middlebox, four hops, 74 bytes out and 1142 back.
    let round_ns = 2.0 * costs.packet_ns[0] + 4.0 * costs.hop_ns + (74.0 + 1142.0) * costs.byte_ns;
    let expected = 1e9 / (costs.client_verb_ns + round_ns);
    // The first READ of a key is behind, which the warm-up does not cover for all keys.
    assert!(
        (found.total_rps / expected - 1.0).abs() < 0.02,
        "{} {expected}",
        found.total_rps
    );
    assert!(found.verbs < 1.02);
    assert_eq!(found.swap_success, None);
}

#[test]
fn a_lone_writer_never_fails_and_many_do() {
    let lone = Config {
        outstanding: 1,
        operations: 60_000,
        ..config(1, Ycsb::WriteOnly, Step::None)
    };
    let lone = simulate(&lone).unwrap();
    assert!(lone.swap_success.unwrap() > 0.99, "{:?}", lone.swap_success);
    let many = simulate(&config(32, Ycsb::WriteOnly, Step::None)).unwrap();
    assert!(many.swap_success.unwrap() < 0.4, "{:?}", many.swap_success);
    let steered = simulate(&config(32, Ycsb::WriteOnly, Step::Writes)).unwrap();
    assert_eq!(steered.swap_success, Some(1.0));
    assert!((steered.verbs - 2.0).abs() < 0.01);
}

#[test]
fn read_steering_takes_the_walk_away() {
    let writes = simulate(&config(16, Ycsb::A, Step::Writes)).unwrap();
    let reads = simulate(&config(16, Ycsb::A, Step::Reads)).unwrap();
    assert!(writes.verbs > 1.8 && (reads.verbs - 1.5).abs() < 0.02);
    let idle = Config {
        is_steering: false,
        ..config(16, Ycsb::A, Step::Reads)
    };
    let idle = simulate(&idle).unwrap();
    assert!(idle.verbs > 2.5 && idle.swap_success.unwrap() < 0.6);
}

#[test]
fn a_core_is_the_bound_and_more_cores_lift_it() {
    let one = simulate(&config(64, Ycsb::A, Step::Mapping)).unwrap();
    assert!(one.core_busy > 0.99, "{}", one.core_busy);
    let four = Config {
        cores: 4,
        ..config(64, Ycsb::A, Step::Mapping)
    };
    let four = simulate(&four).unwrap();
    assert!(four.total_rps > 3.0 * one.total_rps);
}

#[test]
fn a_seed_determines_the_result_and_bounds_hold() {
    let run = |seed| {
        let config = Config {
            seed,
            ..config(8, Ycsb::A, Step::None)
        };
        simulate(&config).unwrap().total_rps.to_bits()
    };
    assert!(run(1) == run(1) && run(1) != run(2));
    let wrong = Config {
        cores: 0,
        ..config(8, Ycsb::A, Step::None)
    };
    let error = simulate(&wrong).unwrap_err().to_string();
    assert_eq!(error, "`cores` is 0, not 1 to 64");
}

#[test]
fn only_the_hottest_keys_are_steered() {
    let run = |hottest| {
        let config = Config {
            hottest,
            ..config(32, Ycsb::WriteOnly, Step::Writes)
        };
        simulate(&config).unwrap().swap_success.unwrap()
    };
    let (none, some, all) = (run(Some(0)), run(Some(64)), run(None));
    assert!(
        none < some && some < all && all > 0.999,
        "{none} {some} {all}"
    );
}

#[test]
fn each_pair_of_published_steps_is_reproduced_or_not() {
    let same = published::orders(|workload, step, threads| {
        published::rate(workload, step, threads).unwrap()
    });
    // Five steps make ten pairs at each of the seven points of A and at five of write-only; four
    // make six pairs at two points of write-only and four of B, three make three at three of B.
    assert_eq!(same.len(), 7 * 10 + 5 * 10 + 2 * 6 + 4 * 6 + 3 * 3);
    assert!(same.iter().all(published::Order::is_reproduced));
    let turned = published::orders(|workload, step, threads| {
        -published::rate(workload, step, threads).unwrap()
    });
    assert!(!turned.iter().any(published::Order::is_reproduced));
}
