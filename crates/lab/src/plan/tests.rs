//! Plans: the values of the file, and the changes of `--quick`.

use std::path::PathBuf;

use super::*;
use crate::tests::assert_has;
use crate::tests::repository::text_of;

/// The smoke experiment with `count` levels, on a machine with two processors and both servers.
pub(crate) fn plan(count: usize) -> Plan {
    plan_with(count, "")
}

pub(crate) fn plan_with(count: usize, tables: &str) -> Plan {
    let levels: Vec<String> = (1..=count)
        .map(|it| (it as f64 / 10.0).to_string())
        .collect();
    let values = format!("values = [{}]", levels.join(", "));
    let text = text_of("smoke").replace("values = [0.3, 0.6]", &values);
    // Before the levels, which then vary fastest.
    let mut text = text.replacen("[[factor]]", &format!("{tables}\n[[factor]]"), 1);
    if tables.contains("\"depth\"") {
        text = text.replace("depth = 1\n", "");
    }
    resolved(&text, "smoke", false)
}

/// A shipped experiment on that machine.
pub(crate) fn plan_of(name: &str, quick: bool) -> Plan {
    resolved(&text_of(name), name, quick)
}

/// The smoke experiment on that machine, without memcached.
pub(crate) fn plan_without_memcached(quick: bool) -> Plan {
    let absent = "program = \"/nowhere/memcached\"";
    let text = text_of("smoke").replace("program = \"memcached\"", absent);
    let experiment = Experiment::parse("smoke", "smoke.toml", &text).unwrap();
    let options = Options {
        quick,
        ..Options::new().unwrap()
    };
    on_two_processors(experiment.plan(&options).unwrap())
}

pub(crate) fn kind(plan: &Plan) -> Box<dyn Kind> {
    kind_of(plan, &Options::new().unwrap()).unwrap()
}

fn resolved(text: &str, name: &str, quick: bool) -> Plan {
    let options = Options {
        quick,
        servers: vec![("memcached".to_owned(), PathBuf::from("/bin/sh"))],
        ..Options::new().unwrap()
    };
    let experiment = Experiment::parse(name, &format!("{name}.toml"), text).unwrap();
    on_two_processors(experiment.plan(&options).unwrap())
}

/// The plan with the processors of its file, whatever this machine has.
fn on_two_processors(plan: Plan) -> Plan {
    let mut settings = plan.settings;
    let pins: toml::Table = toml::toml! { server = [0]
    load = [1]
    go-first = false };
    settings.insert("pins".to_owned(), pins.into());
    Plan {
        settings,
        notes: Vec::new(),
        ..plan
    }
}

#[test]
fn quick_without_a_short_form_is_refused_with_the_remedy() {
    let text = text_of("smoke").replace("[quick]\nrepeats = 1\n", "");
    let experiment = Experiment::parse("smoke", "my/smoke.toml", &text).unwrap();
    let options = Options {
        quick: true,
        ..Options::new().unwrap()
    };
    let error = experiment.plan(&options).unwrap_err().to_string();
    assert_has(&error, "my/smoke.toml has no [quick] table");
    assert_has(&error, "run without --quick");
}

#[test]
fn the_command_that_repeats_a_run_has_its_options() {
    let rerun = |experiment: &Experiment| {
        let options = Options {
            quick: true,
            seed: Some(7),
            servers: vec![("memcached".to_owned(), PathBuf::from("/my place/sh"))],
            ..Options::new().unwrap()
        };
        experiment.rerun(&options, 7)
    };
    let options = "--quick --seed 7 --server 'memcached=/my place/sh'";
    let mut shipped = Experiment::load("smoke").unwrap();
    shipped.is_shipped = true;
    let shipped = rerun(&shipped);
    assert_eq!(shipped, format!("curtail lab run smoke {options}"));
    let changed = text_of("smoke").replace("[0.3, 0.6]", "[0.3]");
    let own = Experiment::parse("smoke", "./my/smoke.toml", &changed).unwrap();
    assert_eq!(
        rerun(&own),
        format!("curtail lab run ./my/smoke.toml {options}")
    );
}

#[test]
fn a_seed_that_the_plan_cannot_hold_is_refused() {
    let options = Options {
        seed: Some(u64::MAX),
        ..Options::new().unwrap()
    };
    let error = Experiment::load("smoke")
        .unwrap()
        .plan(&options)
        .unwrap_err();
    assert!(
        error.to_string().contains("the largest seed is 2^63 - 1"),
        "{error}"
    );
}

fn total(text: &str, quick: bool) -> estimate::Total {
    let experiment = Experiment::parse("any", "any.toml", text).unwrap();
    let content = experiment.content(quick).unwrap();
    estimate::Total::of(&content.plan().unwrap(), &*content.kind)
}

#[test]
fn an_estimate_is_what_trials_take_and_its_bound_what_they_may() {
    let table = text_of("textile-table");
    assert_eq!(
        total(&table, true).words(),
        "12 trials of about 900 ms: 10.8 s (at most 2 h 28 min)"
    );
    let long = total(&table, false).words();
    assert!(
        long.starts_with("240 trials of about 6 s: 24 min 0 s (at most "),
        "{long}"
    );
    let smoke = total(&text_of("smoke"), false).words();
    assert!(smoke.contains("(at most 18 min"), "{smoke}");
}

#[test]
fn no_short_form_takes_half_an_hour() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.contains("kind = \"model\"") {
            let total = total(&text, true);
            assert!(
                total.likely.as_secs() < 1_800,
                "{}: {total:?}",
                path.display()
            );
        }
    }
}

#[test]
fn a_kind_reads_the_settings_that_it_wrote() {
    let plan = plan_of("rate-ladder", true);
    let again = kind(&plan).settings().unwrap();
    assert_eq!(again, plan.settings);
    let other = Plan {
        kind: "weather".to_owned(),
        ..plan
    };
    let error = kind_of(&other, &Options::new().unwrap())
        .unwrap_err()
        .to_string();
    assert_has(&error, "no kind of trial `weather`");
}

#[test]
fn the_text_of_a_plan_lists_servers_load_and_time() {
    let mut plan = plan_without_memcached(true);
    plan.notes = vec!["processor 1 not here".to_owned()];
    let text = plan_text(&plan, &Options::new().unwrap()).unwrap();
    for part in [
        "smoke (quick): Does the lab work",
        "skipped  memcached: there is no program `/nowhere/memcached`",
        "load     arrivals exponential:1, connections 16, depth 1, keys fb_key",
        "update 0.03",
        "pinned   server on 0, load on 1",
        "factor   level: 0.3, 0.6",
        "stage    capacity: 1 cells, 1 of each",
        "stage    sweep: 2 cells, 1 of each",
        "trial    400 ms after 100 ms of warm-up",
        "note     processor 1 not here",
        "3 trials of about",
    ] {
        assert_has(&text, part);
    }
}
