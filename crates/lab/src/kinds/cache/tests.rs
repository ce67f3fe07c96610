//! Cells, capacities and rates of cache trials.

use report::record::{Outcome, Plan};

use super::*;
use crate::Experiment;
use crate::plan::plan_text;

/// The kind of `text`, on a machine with two processors and both servers, and its plan.
fn resolved(text: &str) -> (Cache, Plan) {
    let experiment = Experiment::parse("smoke", "smoke.toml", text).unwrap();
    let mut content = experiment.content(false).unwrap();
    let mut cache: Cache = content.kind.settings().unwrap().try_into().unwrap();
    for server in &mut cache.settings.servers {
        server.command = vec![server.name.clone(), "{port}".to_owned()];
    }
    assert_eq!(cache.resolve_for(&[0, 1]), [""; 0]);
    content.kind = Box::new(cache.clone());
    let plan = content.plan().unwrap();
    (cache, plan)
}

const SMOKE: &str = include_str!("../../../../../experiments/smoke.toml");

/// The smoke experiment with these tables instead of its factor.
fn smoke(factors: &str) -> (Cache, Plan) {
    resolved(&text(factors))
}

fn text(factors: &str) -> String {
    let own = "[[factor]]\nname = \"level\"\nvalues = [0.3, 0.6]\n";
    assert!(SMOKE.contains(own));
    SMOKE.replace(own, factors)
}

const LEVELS: &str = "[[factor]]\nname = \"level\"\nvalues = [0.5, 1.1]\n";
const DEPTHS: &str = "[[factor]]\nname = \"depth\"\nvalues = [1, 4]\n";

/// A capacity trial of `server`.
fn capacity(server: &str, achieved_rps: f64, generator_limited: bool) -> Record {
    let measured = Measured {
        metrics: [("achieved_rps".to_owned(), achieved_rps)].into(),
        suspect: generator_limited.then(|| cache::GENERATOR_LIMITED.to_owned()),
        ..Measured::default()
    };
    Record {
        id: String::new(),
        stage: CAPACITY.to_owned(),
        cell: 0,
        repeat: 0,
        retries: 0,
        factors: at(server, &[]),
        resolved: [].into(),
        started_unix_ns: 0,
        outcome: Outcome::Measured(measured),
        notes: Vec::new(),
    }
}

/// A cell of `server` with these numbers.
fn at(server: &str, numbers: &[(&str, f64)]) -> Factors {
    let mut cell = Factors::from([(SERVER.to_owned(), Value::from(server))]);
    let numbers = numbers.iter();
    cell.extend(numbers.map(|(name, it)| ((*name).to_owned(), Value::from(*it))));
    cell
}

fn capacity_rps(done: &[Record], cell: &Factors) -> Option<f64> {
    capacity::of(done, &capacity::factors(cell)).map(|it| it.rps.value)
}

/// The offered rate of a cell after the trials `done`.
fn offered_rps(cache: &Cache, done: &[Record], cell: &Factors) -> Result<Option<f64>, String> {
    let resolved = cache.resolve_trial(cache::SWEEP, cell, done)?;
    Ok(resolved.settings.get(OFFERED_RPS).copied())
}

#[test]
fn a_level_is_a_share_of_the_median_capacity() {
    let trials = [
        capacity("curtail", 90_000.0, false),
        capacity("curtail", 100_001.0, false),
        capacity("curtail", 300_000.0, false),
        capacity("memcached", 70_000.0, false),
        capacity("memcached", 80_000.0, false),
    ];
    let of = |server| capacity_rps(&trials, &at(server, &[]));
    assert_eq!(of("curtail"), Some(100_001.0));
    assert_eq!(of("memcached"), Some(75_000.0));
    assert_eq!(of("other"), None);

    let (cache, plan) = smoke(LEVELS);
    assert_eq!(plan.stages[0].cells, [at("curtail", &[]), at("memcached", &[])]);
    let at_level = |server, level| at(server, &[(LEVEL, level)]);
    let offered = |server, level| offered_rps(&cache, &trials, &at_level(server, level));
    assert_eq!(offered("curtail", 0.5), Ok(Some(50_001.0)));
    assert_eq!(offered("memcached", 1.1), Ok(Some(82_500.0)));
    let without = offered_rps(&cache, &[], &at_level("curtail", 0.5)).unwrap_err();
    assert!(without.contains("none was measured"), "{without}");
    let by_rate = at("curtail", &[(RATE, 5.0)]);
    assert_eq!(offered_rps(&cache, &[], &by_rate), Ok(Some(5.0)));
    // Closed loops.
    let in_capacity = cache.resolve_trial(CAPACITY, &at("curtail", &[]), &trials);
    assert_eq!(in_capacity, Ok(Resolved::default()));
    assert_eq!(offered_rps(&cache, &trials, &at("curtail", &[])), Ok(None));
}

#[test]
fn with_values_of_factors_all_settings_share_a_capacity() {
    let text = text(&format!("{DEPTHS}{LEVELS}"));
    let (cache, plan) = resolved(&text.replace("[capacity]\n", "[capacity]\nof = { depth = 4 }\n"));
    let expected = ["curtail", "memcached"].map(|server| at(server, &[("depth", 4.0)]));
    assert_eq!(plan.stages[0].cells, expected);
    let mut trial = capacity("curtail", 80_000.0, false);
    trial.factors = at("curtail", &[("depth", 4.0)]);
    for depth in [1.0, 4.0] {
        let cell = at("curtail", &[("depth", depth), (LEVEL, 0.5)]);
        assert_eq!(offered_rps(&cache, &[trial.clone()], &cell), Ok(Some(40_000.0)));
    }
}

#[test]
fn every_setting_has_a_capacity_of_its_own() {
    let (cache, plan) = smoke(&format!("{DEPTHS}{LEVELS}"));
    let expected: Vec<Factors> = ["curtail", "memcached"]
        .iter()
        .flat_map(|server| [1.0, 4.0].map(|depth| at(server, &[("depth", depth)])))
        .collect();
    assert_eq!(plan.stages[0].cells, expected);
    let mut trials = [
        capacity("curtail", 90_000.0, false),
        capacity("curtail", 50_000.0, false),
    ];
    for (trial, depth) in trials.iter_mut().zip([1.0, 4.0]) {
        trial.factors = at("curtail", &[("depth", depth)]);
    }
    let deep = at("curtail", &[("depth", 4.0), (LEVEL, 0.5)]);
    let shallow = at("curtail", &[("depth", 1.0), (LEVEL, 0.5)]);
    assert_eq!(capacity_rps(&trials, &shallow), Some(90_000.0));
    assert_eq!(capacity_rps(&trials, &deep), Some(50_000.0));
    assert_eq!(offered_rps(&cache, &trials, &deep), Ok(Some(25_000.0)));
    let depths = [&shallow, &deep].map(|cell| cache.load_at(cell).unwrap().depth);
    assert_eq!(depths, [1, 4]);
    // The value of [load] is the one that the others are compared with.
    assert_eq!(plan.factor("depth").unwrap().reference, Some(Value::from(1.0)));
    let text = plan_text(&plan, &Options::new().unwrap()).unwrap();
    assert!(text.contains("factor   depth: 1, 4"), "{text}");
}

#[test]
fn generator_limited_capacities_count_only_as_the_majority() {
    let cell = at("curtail", &[(LEVEL, 0.5)]);
    let limited = capacity("curtail", 50.0, true);
    assert_eq!(capacity_rps(std::slice::from_ref(&limited), &cell), Some(50.0));
    let trials = [limited.clone(), capacity("curtail", 80.0, false)];
    assert_eq!(capacity_rps(&trials, &cell), Some(80.0));
    let [a, b] = trials;
    // With two of three limited, the capacity is the median of all trials.
    assert_eq!(capacity_rps(&[a, b, limited], &cell), Some(50.0));
}

#[test]
fn a_rate_of_a_capacity_that_is_a_lower_bound_has_a_note() {
    let (cache, _) = smoke(LEVELS);
    let cell = at("curtail", &[(LEVEL, 0.5)]);
    let notes = |limited| {
        let done = [capacity("curtail", 80.0, limited)];
        cache.resolve_trial(cache::SWEEP, &cell, &done).unwrap().notes
    };
    assert_eq!(notes(false), [""; 0]);
    let noted = notes(true);
    assert_eq!(noted.len(), 1);
    assert!(noted[0].contains("only a lower bound"), "{noted:?}");
    assert!(noted[0].contains("absolute rates (a factor `rate`)"), "{noted:?}");
}

#[test]
fn a_failed_capacity_trial_is_no_capacity() {
    let mut failed = capacity("curtail", 1.0, false);
    failed.outcome = Outcome::Failed("it broke".to_owned());
    assert_eq!(capacity_rps(&[failed], &at("curtail", &[])), None);
}

#[test]
fn every_key_of_the_load_may_be_a_factor() {
    for (name, values) in [
        ("connections", "[16, 64]"),
        ("depth", "[1, 4]"),
        ("threads", "[1, 2]"),
        ("keys", "[\"fixed:30\", \"fb_key\"]"),
        ("values", "[\"fixed:30\", \"fb_value\"]"),
        ("arrivals", "[\"exponential:1\", \"fb_ia\"]"),
        ("popularity", "[\"uniform\", \"zipf:0.99\"]"),
        ("update", "[0.03, 0.5]"),
        ("records", "[1000, 2000]"),
    ] {
        let factor = format!("[[factor]]\nname = \"{name}\"\nvalues = {values}\n{LEVELS}");
        let (cache, plan) = smoke(&factor);
        assert_eq!(plan.stages[0].cells.len(), 4, "{name}");
        let cells = &plan.stages[1].cells;
        assert_eq!(cells.len(), 8, "{name}");
        let loads = [&cells[0], &cells[2]].map(|cell| cache.load_at(cell).unwrap());
        assert_ne!(loads[0], loads[1], "{name}");
    }
    let saturating = "[[factor]]\nname = \"rate\"\nvalues = [\"1k\"]\n\
        [[factor]]\nname = \"saturating\"\nvalues = [0, 7]\n\
        [[factor]]\nname = \"saturating-depth\"\nvalues = [16, 32]\n";
    let without_capacity = text(saturating).replace("[capacity]\ntrials = 1\n", "");
    let (cache, plan) = resolved(&without_capacity);
    assert_eq!(plan.stages.len(), 1);
    let load = cache.load_at(&plan.stages[0].cells[3]).unwrap();
    assert_eq!((load.saturating, load.saturating_depth), (7, 32));
}

#[test]
fn a_factor_without_an_effect_is_refused() {
    let factor = "[[factor]]\nname = \"memory\"\nvalues = [64, 128]\n";
    let refused = Experiment::parse("smoke", "smoke.toml", &text(factor)).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("has `memory`, which is neither `rate`"), "{refused}");
    assert!(refused.contains("curtail do not contain as `{memory}`"), "{refused}");
}

#[test]
fn a_placeholder_without_a_value_is_refused() {
    // memcached would get it literally.
    let refused = |text: &str| Experiment::parse("smoke", "smoke.toml", text).unwrap_err();
    let misspelt = text(LEVELS).replace("\"-m\", \"64\"", "\"-m\", \"{prot}\"");
    let message = refused(&misspelt).to_string();
    let expected = "`arguments` in [[server]] has `{prot}`, which is no factor of each of its \
                    cells; did you mean `port`?";
    assert!(message.contains(expected), "{message}");
    // Some of the cells have a value.
    let nested = "[[factor]]\nname = \"memory\"\nvalues = [64]\nonly = { level = [0.5] }\n";
    let nested = text(&format!("{LEVELS}{nested}"));
    let nested = nested.replace("\"-m\", \"64\"", "\"-m\", \"{memory}\"");
    let nested = nested.replace("only = {", "only = { server = [\"memcached\"],");
    let message = refused(&nested).to_string();
    assert!(message.contains("has `{memory}`, which is no factor of each"), "{message}");
}

#[test]
fn a_factor_may_be_nested_in_a_server_and_in_a_rate_as_the_file_writes_it() {
    let factors = "[[factor]]\nname = \"rate\"\nvalues = [\"1k\", \"20k\"]\n\
                   [[factor]]\nname = \"depth\"\nvalues = [2, 4]\n\
                   only = { server = [\"curtail\"], rate = [\"20k\"] }\n";
    let (_, plan) = smoke(factors);
    let cells = &plan.last_stage().unwrap().cells;
    assert_eq!(cells.len(), 2 + 1 + 2);
    for cell in cells {
        let is_in = cell[SERVER] == Value::from("curtail") && cell[RATE] == Value::from(20_000.0);
        assert_eq!(cell.contains_key("depth"), is_in, "{cell:?}");
    }
}

#[test]
fn a_placeholder_in_the_arguments_is_a_factor() {
    let factor = format!("[[factor]]\nname = \"memory\"\nvalues = [64, 128]\n{LEVELS}");
    let (_, plan) = resolved(&text(&factor).replace("\"-m\", \"64\"", "\"-m\", \"{memory}\""));
    // The capacity depends on it.
    assert_eq!(plan.stages[0].cells.len(), 4);
    assert_eq!(plan.stages[1].cells.len(), 8);
}

const NAMESPACES: &str = "[hosts]\nkind = \"namespaces\"\n";

/// The smoke experiment on other hosts, with these factors.
fn on_hosts(factors: &str) -> String {
    text(&format!("{NAMESPACES}{factors}")).replace("127.0.0.1", "{ip}")
}

fn refused(text: &str) -> String {
    Experiment::parse("smoke", "smoke.toml", text).unwrap_err().to_string()
}

#[test]
fn factors_of_the_hosts_have_capacities_of_their_own() {
    let delays = "[[factor]]\nname = \"host.delay\"\nvalues = [\"0ms\", \"1ms\"]\n";
    let (cache, plan) = resolved(&on_hosts(&format!("{delays}{LEVELS}")));
    assert_eq!(plan.stages[0].cells.len(), 4);
    assert_eq!(plan.stages[1].cells.len(), 8);
    assert_eq!(plan.factor("host.delay").unwrap().values, [0.0, 1e6].map(Value::from));
    assert!(plan.metric("relay_lateness_p99_ns").is_some());
    assert!(plan.suspects.contains_key("relay-limited"));
    let restored: Cache = cache.settings().unwrap().try_into().unwrap();
    assert_eq!(restored, cache);
    let text = plan_text(&plan, &Options::new().unwrap()).unwrap();
    let line = "hosts    network namespaces of a server and 1 client, joined by device pairs";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_plan_without_hosts_is_as_before() {
    let (cache, _) = smoke(LEVELS);
    let settings = cache.settings().unwrap();
    assert!(!settings.contains_key("hosts") && !settings.contains_key("hosts_table"));
}

#[test]
fn servers_on_other_hosts_listen_at_their_address() {
    let refused = refused(&on_hosts(LEVELS).replace("{ip}", "127.0.0.1"));
    assert!(refused.contains("[[server]] have `127.0.0.1`, which clients"), "{refused}");
    assert!(refused.contains("write `{ip}`"), "{refused}");
}

#[test]
fn every_agent_needs_connections() {
    let clients = "[[factor]]\nname = \"host.clients\"\nvalues = [1, 17]\n";
    let refused = refused(&on_hosts(&format!("{clients}{LEVELS}")));
    assert!(refused.contains("is 17, and 16 connections are too few"), "{refused}");
}

#[test]
fn all_levels_may_be_shares_of_one_servers_capacity() {
    let of = |server: &str| {
        let of = format!("[capacity]\nof = {{ server = \"{server}\" }}\n");
        text(LEVELS).replace("[capacity]\n", &of)
    };
    let (mut cache, plan) = resolved(&of("memcached"));
    assert_eq!(plan.stages[0].cells, [at("memcached", &[])]);
    let trials = [
        capacity("curtail", 90_000.0, false),
        capacity("memcached", 70_000.0, false),
    ];
    for server in ["curtail", "memcached"] {
        let cell = at(server, &[(LEVEL, 0.5)]);
        assert_eq!(offered_rps(&cache, &trials, &cell), Ok(Some(35_000.0)));
    }
    assert!(refused(&of("memcache")).contains("did you mean `memcached`?"));
    // Without that server there are no rates.
    cache.check_capacity_server().unwrap();
    cache.settings.servers[1].skipped = Some("it is not installed".to_owned());
    let error = cache.check_capacity_server().unwrap_err().to_string();
    assert!(error.contains("capacity of memcached: it is not installed"), "{error}");
}

#[test]
fn a_mix_may_be_a_factor_and_a_wrong_one_is_refused() {
    let mix = |values: &str| text(&format!("[[factor]]\nname = \"mix\"\nvalues = {values}\n"));
    let (cache, plan) = resolved(&mix("[\"get=1\", \"multiget=3,set=1\"]"));
    let cell = &plan.last_stage().unwrap().cells[1];
    assert_eq!(cache.load_at(cell).unwrap().mix, "multiget=3,set=1");
    let error = refused(&mix("[\"get=1\", \"got=1\"]"));
    assert!(error.contains("`mix`") && error.contains("got"), "{error}");
    let error = refused(&text(LEVELS).replace("[load]\n", "[load]\nmultiget = \"some\"\n"));
    assert!(error.contains("`multiget`"), "{error}");
}

#[test]
fn a_server_may_do_without_a_prefill() {
    let text = text(LEVELS).replacen("kind = \"command\"\n", "kind = \"command\"\nprefill = false\n", 1);
    let (cache, _) = resolved(&text);
    assert!(cache.declares_prefill(&at("curtail", &[])));
    assert!(!cache.declares_prefill(&at("memcached", &[])));
}
