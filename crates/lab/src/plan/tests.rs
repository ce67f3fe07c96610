//! Plans: the values of the file, the changes of `--quick`, and the rates that follow from a
//! capacity.

use report::Vary;
use report::folder::{Measurement, Outcome, Phase, Plan, Quantiles, Server, Sweep, Trial};

use super::*;

/// The smoke experiment with `count` levels, on a machine with two processors and both servers.
pub(crate) fn plan(count: usize) -> Plan {
    let levels = (1..=count).map(|level| level as f64 / 10.0).collect();
    Plan {
        sweep: Sweep::LoadLevels(levels),
        ..plan_of("smoke", false)
    }
}

fn plan_of(name: &str, quick: bool) -> Plan {
    let options = Options {
        quick,
        ..Options::new().unwrap()
    };
    let servers = ["curtail", "memcached"].map(|name| Server {
        name: name.to_owned(),
        command: vec![name.to_owned(), "{port}".to_owned()],
        version: None,
        skipped: None,
    });
    let experiment = Experiment::load(name).unwrap();
    experiment
        .plan_for(&options, &[0, 1], servers.to_vec())
        .unwrap()
}

/// A capacity trial of `server`.
fn capacity(server: &str, achieved_rps: f64, generator_limited: bool) -> Trial {
    let service = Quantiles {
        count: 1,
        mean: 1.0,
        min: 1,
        p50: 1,
        p90: 1,
        p95: 1,
        p99: 1,
        p999: 1,
        max: 1,
        lower_bounds: None,
    };
    Trial {
        id: String::new(),
        phase: Phase::Capacity,
        server: server.to_owned(),
        cell: 0,
        repeat: 0,
        setting: None,
        level: None,
        offered_rps: None,
        started_unix_ns: 0,
        outcome: Outcome::Measured(Box::new(Measurement {
            duration_ns: 1,
            intended: 1,
            answered: 1,
            censored: 0,
            errors: 0,
            achieved_rps,
            hit_rate: None,
            resident: None,
            response: None,
            service,
            slip: None,
            lateness_p99_ns: None,
            generator_limited,
            generator_cpu: 0.5,
            generator_busy: None,
            lost_connections: None,
            outstanding_mean: 1.0,
            outstanding_unread: 0.0,
            outstanding_expected: 1.0,
            saturating_rps: None,
            bursts: None,
            cost: None,
            stolen: None,
        })),
        notes: Vec::new(),
    }
}

#[test]
fn quick_changes_only_the_keys_of_its_table() {
    let full = plan_of("rate-ladder", false);
    let quick = plan_of("rate-ladder", true);
    assert_eq!(
        (full.load.connections, full.repeats, full.trial_ns),
        (15_360, 15, 5_000_000_000)
    );
    assert_eq!((quick.load.connections, quick.repeats), (1_024, 3));
    assert!(quick.quick && quick.trial_ns < full.trial_ns);
    assert_eq!(
        (quick.load.records, full.load.records),
        (300_000, 1_000_000)
    );
    assert_eq!(
        (quick.sweep, quick.load.update),
        (full.sweep, full.load.update)
    );
}

#[test]
fn the_shipped_experiments_keep_their_time() {
    for (name, quick, most_s) in [
        ("rate-ladder", true, 200),
        ("rate-ladder", false, 2_400),
        ("updates", true, 240),
        ("connections", true, 240),
        ("fairness", true, 240),
        ("runtimes", true, 240),
        ("smoke", false, 20),
    ] {
        let estimate = estimate::run(&plan_of(name, quick));
        assert!(
            estimate.as_secs() <= most_s,
            "{name}, quick {quick}: {estimate:?}"
        );
    }
}

#[test]
fn the_effective_plan_round_trips_through_toml() {
    let plan = plan_of("rate-ladder", true);
    let text = toml::to_string(&plan).unwrap();
    assert_eq!(toml::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn a_level_is_a_share_of_the_median_capacity() {
    let trials = [
        capacity("curtail", 90_000.0, false),
        capacity("curtail", 100_000.0, false),
        capacity("curtail", 300_000.0, false),
        capacity("memcached", 70_000.0, false),
        capacity("memcached", 80_000.0, false),
    ];
    assert_eq!(capacity_rps(&trials, "curtail", 0), Some(100_000.0));
    assert_eq!(capacity_rps(&trials, "memcached", 0), Some(75_000.0));
    assert_eq!(capacity_rps(&trials, "other", 0), None);
    let by = |sweep| Plan { sweep, ..plan(1) };
    let levels = by(Sweep::LoadLevels(vec![0.5, 1.1]));
    assert_eq!(offered_rps(&levels, 0, Some(100_001.0)), Some(50_001.0));
    assert_eq!(offered_rps(&levels, 1, Some(100_000.0)), Some(110_000.0));
    assert_eq!(offered_rps(&levels, 1, None), None);
    let rates = by(Sweep::Rates(vec![5.0]));
    assert_eq!(offered_rps(&rates, 0, None), Some(5.0));
}

#[test]
fn every_setting_has_a_capacity_of_its_own() {
    let mut trials = [
        capacity("curtail", 90_000.0, false),
        capacity("curtail", 50_000.0, false),
    ];
    trials[1].cell = 1;
    assert_eq!(capacity_rps(&trials, "curtail", 0), Some(90_000.0));
    assert_eq!(capacity_rps(&trials, "curtail", 1), Some(50_000.0));
    let plan = Plan {
        vary: Some(Vary::Depth(vec![1, 4])),
        ..plan(2)
    };
    // Two levels under each: the fourth cell is the second level under the second setting.
    assert_eq!(offered_rps(&plan, 3, Some(50_000.0)), Some(10_000.0));
    assert_eq!((plan.load_at(0).depth, plan.load_at(1).depth), (1, 4));
    assert_eq!(plan.reference(), Some(0));
    assert!(plan_text(&plan).contains("under    depth 1, depth 4: the whole sweep under each"));
}

#[test]
fn generator_limited_capacities_count_only_as_the_majority() {
    let limited = capacity("curtail", 50.0, true);
    assert_eq!(
        capacity_rps(std::slice::from_ref(&limited), "curtail", 0),
        Some(50.0)
    );
    let trials = [limited.clone(), capacity("curtail", 80.0, false)];
    assert_eq!(capacity_rps(&trials, "curtail", 0), Some(80.0));
    let [a, b] = trials;
    // With two of three limited, the capacity is the median of all trials.
    assert_eq!(capacity_rps(&[a, b, limited], "curtail", 0), Some(50.0));
}

#[test]
fn a_failed_capacity_trial_is_no_capacity() {
    let mut failed = capacity("curtail", 1.0, false);
    failed.outcome = Outcome::Failed("it broke".to_owned());
    assert_eq!(capacity_rps(&[failed], "curtail", 0), None);
}

#[test]
fn the_text_of_a_plan_lists_servers_load_and_time() {
    let mut plan = plan_of("smoke", true);
    plan.servers[1].skipped = Some("`memcached` is not on PATH".to_owned());
    plan.notes = vec!["processor 1 not here".to_owned()];
    let text = plan_text(&plan);
    for part in [
        "smoke (quick): Does the lab work",
        "skipped  memcached: `memcached` is not on PATH",
        "16 connections of depth 1, 1 thread; keys fb_key, values fb_value",
        "updates 3 %",
        "pinned   server on 0, generator on 1",
        "0.3, 0.6 of each server's capacity; 1 repeat of 400 ms after 100 ms of warm-up",
        "note     processor 1 not here",
        "3 trials of about",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}
