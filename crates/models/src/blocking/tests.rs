use report::record::Factors;

use super::*;
use crate::tests::factors;

fn model(changes: &str) -> Blocking {
    let own = factors(&format!("requests = 20000, warm-draws = 60000, {changes}"));
    let settings = Settings {
        factors: &Factors::new(),
        own: &own,
        defaults: &SETTINGS,
    };
    settings.check_names().unwrap();
    Blocking::read(&settings).unwrap()
}

fn metric(simulated: &Computed, name: &str) -> f64 {
    let found = simulated.metrics.iter().find(|(it, _)| *it == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

#[test]
fn a_seed_determines_the_result() {
    let model = model("strategy = flash, level = 0.5");
    let [first, again, other] = [1, 1, 2].map(|seed| model.run(seed).metrics);
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn in_memory_all_strategies_are_as_fast_as_the_processor() {
    // 60 MB of files, all cached.
    for strategy in ["naive", "fd-pass", "nowait", "processes-fd-pass"] {
        let in_memory = "data-mb = 60, warm-draws = 1000000, helper-us = 0";
        let found = model(&format!("strategy = {strategy}, {in_memory}"));
        let found = found.run(1);
        assert_eq!(metric(&found, "disk_share"), 0.0, "{strategy}");
        assert_eq!(metric(&found, "blocked_share"), 0.0, "{strategy}");
        // 167 us and 11.3 ns for each of about 14.9 kB.
        let rate = metric(&found, "achieved_rps");
        assert!((2_800.0..=3_200.0).contains(&rate), "{strategy}: {rate}");
        assert!(metric(&found, "processor_share") > 0.99, "{strategy}");
    }
}

#[test]
fn only_the_strategies_that_block_wait_in_the_worker() {
    for (strategy, blocks) in [
        ("naive", true),
        ("flash", true),
        ("no-mmap", true),
        ("fd-pass", false),
        ("nowait", false),
        ("processes", false),
    ] {
        let found = model(&format!("strategy = {strategy}")).run(1);
        assert_eq!(
            metric(&found, "blocked_share") > 0.001,
            blocks,
            "{strategy}"
        );
        assert!(metric(&found, "disk_share") > 0.001, "{strategy}");
        let shares = metric(&found, "blocked_share") + metric(&found, "processor_share");
        assert!(shares < 1.01, "{strategy}: {shares}");
    }
}

#[test]
fn a_narrower_lock_blocks_less() {
    let [tree, folder, file] = ["tree", "folder", "file"].map(|lock| {
        let found = model(&format!("strategy = flash, lock = {lock}"));
        metric(&found.run(1), "blocked_share")
    });
    assert!(tree > folder && folder >= file, "{tree} {folder} {file}");
}

#[test]
fn at_a_low_level_requests_take_their_own_time() {
    let found = model("level = 0.05, data-mb = 60, warm-draws = 1000000");
    let found = found.run(1);
    // A request of 5 KB takes 167 + 57 us, 40 us on the link, and a round trip of 200 us.
    let median = metric(&found, "response_p50_ns");
    assert!((300_000.0..=650_000.0).contains(&median), "{median}");
    assert_eq!(metric(&found, "events_per_wait_p50"), 1.0);
    let level = metric(&found, "achieved_rps") / metric(&found, "capacity_rps");
    assert!((level / 0.05 - 1.0).abs() < 0.1, "{level}");
}
