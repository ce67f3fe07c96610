//! Cells, capacities, rates, and experiments that are refused before anything is started.

use report::record::names::CAPACITY;
use report::record::{Flag, Outcome, Plan};

use super::*;
use crate::Experiment;
use crate::plan::plan_text;
use crate::tests::assert_has;
use crate::tests::records::record;

/// A valid experiment with `to` in place of `from`.
fn refusal(from: &str, to: &str) -> String {
    const FILE: &str = r#"
question = "How fast?"
seed = 1
repeats = 1
[[factor]]
name = "size"
values = [1, 2]
[program]
input = ["seq", "3"]
command = ["cat", "{size}"]
environment = { LEVEL = "9" }
timeout = "1s"
[[beside]]
name = "server"
command = ["nc", "-l", "{port}"]
ready = { connect = "127.0.0.1:{port}" }
[[beside]]
name = "other"
command = ["nc", "-k"]
environment = { COLOUR = "blue" }
ready = { line = 'up' }
[[metric]]
name = "rate"
unit = "/s"
regex = 'rate ([0-9]+)'
"#;
    assert!(Experiment::parse("any", "any.toml", FILE).is_ok());
    assert!(FILE.contains(from), "{from}");
    let changed = FILE.replace(from, to);
    Experiment::parse("any", "any.toml", &changed)
        .unwrap_err()
        .to_string()
}

#[test]
fn an_unknown_placeholder_is_named_with_its_place() {
    #[rustfmt::skip]
    let table = [
        ("\"{size}\"", "\"{sise}\"", "any.toml:10: `command` in [program] has `{sise}`, which is no factor; did you mean `size`?"),
        ("\"3\"", "\"{n}\"", "any.toml:9: `input` in [program] has `{n}`"),
        ("\"9\"", "\"{n}\"", "any.toml:11: `environment` in [program] has `{n}`"),
        ("\"-k\"", "\"{n}\"", "any.toml:19: `command` in [[beside]] has `{n}`"),
        ("\"blue\"", "\"{n}\"", "any.toml:20: `environment` in [[beside]] has `{n}`"),
        ("connect = \"127", "connect = \"{n}", "any.toml:16: `ready` in [[beside]] has `{n}`"),
    ];
    for (from, to, expected) in table {
        let refused = refusal(from, to);
        assert!(refused.starts_with(expected), "{expected}: {refused}");
    }
}

#[test]
fn a_nested_factor_is_no_program_and_no_address() {
    let nested = "[[factor]]\nname = \"n\"\nvalues = [1]\nonly = { size = [2] }\n[program]\n";
    for (input, program, probe, expected) in [
        ("{n}", "cat", "1", "`input` in [program] has `{n}`"),
        ("seq", "{n}", "1", "`command` in [program] has `{n}`"),
        ("seq", "cat", "{n}", "`ready` in [[beside]] has `{n}`"),
    ] {
        let file = format!(
            "question = \"How?\"\nseed = 1\nrepeats = 1\n[[factor]]\n\
             name = \"size\"\nvalues = [1, 2]\n{nested}input = [\"{input}\", \"{{n}}\"]\n\
             command = [\"{program}\", \"{{size}}\"]\ntimeout = \"1s\"\n[[beside]]\nname = \"a\"\n\
             command = [\"nc\"]\nready = {{ connect = \"127.0.0.1:{probe}\" }}\n"
        );
        let refused = Experiment::parse("any", "any.toml", &file).unwrap_err();
        let expected = format!("{expected}, which has no value in some cells: only an argument");
        assert!(refused.to_string().contains(&expected), "{refused}");
    }
}

#[test]
fn the_longest_time_of_a_trial_holds_all_its_limits() {
    let text = "[program]\ncommand = [\"a\"]\ntimeout = \"5s\"\n";
    let estimate = |text: &str| {
        let setup: Setup = toml::from_str(text).unwrap();
        let estimate = setup.estimate(&Factors::new());
        assert!(estimate.likely <= estimate.most);
        (estimate.likely.as_secs(), estimate.most.as_secs())
    };
    assert_eq!(estimate(text), (1, 5));
    let before = "[[before]]\ncommand = [\"c\"]\ntimeout = \"7s\"\n";
    assert_eq!(estimate(&format!("{text}{before}{before}")), (3, 5 + 2 * 7));
    let beside = "[[beside]]\nname = \"b\"\ncommand = [\"b\"]\n";
    assert_eq!(
        estimate(&format!("{text}{beside}{beside}")),
        (1, 5 + 2 * 20)
    );
    // A load takes its own time.
    assert_eq!(
        estimate("trial = \"3s\"\nwarmup = \"500ms\"\n[load]\n").0,
        3
    );
    assert_eq!(estimate("[load]\n").0, 6);
}

#[test]
fn wrong_tables_of_a_program_are_refused() {
    #[rustfmt::skip]
    let table = [
        ("\"cat\", \"{size}\"", "", "`command` in [program] is empty: give the program"),
        ("timeout = \"1s\"", "timeout = \"0s\"", "`timeout` in [program] is not above 0"),
        ("timeout = \"1s\"", "timeout = \"1s\"\nrequests = \"rat\"", "`requests` in [program] is `rat`, which is no [[metric]]"),
        ("timeout = \"1s\"", "", "the key `timeout` is missing in [program]"),
        ("\"other\"", "\"server\"", "`name` in [[beside]] must be letters"),
        ("line = 'up'", "line = '('", "has a `line` that is no regular expression"),
        ("line = 'up'", "lines = 'up'", "unknown key `lines`"),
        ("\"rate\"", "\"elapsed_ns\"", "is measured of every trial: remove the table"),
        ("\"{size}\"", "\"x\"", "has `size`, which no command contains as `{size}`"),
        ("\"rate\"", "\"size\"", "`size` names two factors or metrics"),
    ];
    for (from, to, expected) in table {
        let refused = refusal(from, to);
        assert_has(&refused, expected);
    }
}

#[test]
fn wrong_tables_of_several_clients_and_before_a_program_are_refused() {
    #[rustfmt::skip]
    let table = [
        ("\"-k\"", "\"{client}\"", "any.toml:19: `command` in [[beside]] has `{client}`, but runs once for all clients"),
        ("[program]", "[[before]]\ncommand = [\"a\", \"{sise}\"]\ntimeout = \"1s\"\n[program]", "any.toml:9: `command` in [[before]] has `{sise}`, which is no factor; did you mean"),
        ("[program]", "[[before]]\ncommand = []\ntimeout = \"1s\"\n[program]", "any.toml:9: `command` in [[before]] is empty"),
        ("[program]", "[[before]]\ncommand = [\"a\"]\ntimeout = \"0s\"\n[program]", "any.toml:10: `timeout` in [[before]] is not above 0"),
        ("regex = 'rate ([0-9]+)'", "regex = 'rate ([0-9]+)'\nseries = true\n[hosts]\nclients = 2", "any.toml:26: `series` in [[metric]] needs one client"),
        ("regex = 'rate ([0-9]+)'", "regex = 'rate ([0-9]+)'\nacross = \"average\"", "unknown value `average` in [[metric]]; known are first, last, mean, median, min, max, sum, count"),
    ];
    for (from, to, expected) in table {
        let refused = refusal(from, to);
        assert_has(&refused, expected);
    }
}

/// The last table of the experiment of [`refusal`], followed by others.
const LAST: &str = "regex = 'rate ([0-9]+)'\n";

#[test]
fn wrong_tables_of_a_disk_and_of_levels_are_refused() {
    let disk = "[disk]\nlaw = \"ssd\"\nsize = \"64MiB\"\nfill = \"true\"\ntimeout = \"9s\"\n";
    let level = "[capacity]\nmetric = \"rate\"\ntrials = 3\n";
    let changed = |table: &str, from: &str, to: &str| {
        assert_has(table, from);
        refusal(LAST, &format!("{LAST}{}", table.replace(from, to)))
    };
    #[rustfmt::skip]
    let table = [
        (disk, "\"ssd\"", "\"tape\"", "`law` in [disk] is wrong: `tape` is no disk: known are"),
        (disk, "\"ssd\"", "\"{tape}\"", "`law` in [disk] has `{tape}`, which is no factor"),
        (disk, "\"true\"", "\"{tape}\"", "`fill` in [disk] has `{tape}`, which is no factor"),
        (disk, "size", "memory = \"1MiB\"\nsize", "`memory` in [disk] is 1MiB, not at least 4MiB"),
        (disk, "size", "memory = \"{of}\"\nsize", "`memory` in [disk] has `{of}`, which is no"),
        (disk, "64MiB", "1MiB", "`size` in [disk] is 1MiB, not 16MiB to 1TiB"),
        (disk, "9s", "0s", "`timeout` in [disk] is not above 0"),
        (disk, "size", "sise", "`sise`"),
        (level, "rate", "rates", "`metric` in [capacity] is `rates`, which is no [[metric]]"),
        (level, "3", "2000", "`trials` in [capacity] is more than 1000"),
        (level, "metric = \"rate\"\n", "", "`metric` in [capacity] is missing: name the [[metric]]"),
    ];
    for (table, from, to, expected) in table {
        let refused = changed(table, from, to);
        assert_has(&refused, expected);
    }
    // Without the tables, their placeholders have no value.
    for name in ["{files}", "{rate}"] {
        let refused = refusal("\"3\"", &format!("\"{name}\""));
        assert_has(&refused, "which is no factor");
    }
}

/// The kind of `text`, on a machine with two processors and both servers, and its plan.
fn resolved(text: &str) -> (Setup, Plan) {
    let experiment = Experiment::parse("smoke", "smoke.toml", text).unwrap();
    let mut content = experiment.content(false).unwrap();
    let mut setup: Setup = content.kind.settings().unwrap().try_into().unwrap();
    for server in &mut setup.server {
        server.command = vec![server.name.clone(), "{port}".to_owned()];
    }
    content.kind = Box::new(setup.clone());
    let plan = content.plan().unwrap();
    (setup, plan)
}

const SMOKE: &str = include_str!("../../../../experiments/smoke.toml");

/// The smoke experiment with these tables instead of its factor.
fn smoke(factors: &str) -> (Setup, Plan) {
    resolved(&text(factors))
}

fn text(factors: &str) -> String {
    let own = "[[factor]]\nname = \"level\"\nvalues = [0.3, 0.6]\n";
    assert!(SMOKE.contains(own));
    let mut text = SMOKE.to_owned();
    // A factor is no key of [load] as well.
    for line in SMOKE
        .lines()
        .skip_while(|it| *it != "[load]")
        .take_while(|it| !it.is_empty())
    {
        let key = line.split(' ').next().unwrap_or_default();
        if factors.contains(&format!("name = \"{key}\"")) {
            text = text.replace(&format!("{line}\n"), "");
        }
    }
    text.replace(own, factors)
}

fn load_at(setup: &Setup, cell: &Factors) -> ::load::Config {
    setup.load.as_ref().unwrap().at(cell).unwrap().config
}

const LEVELS: &str = "[[factor]]\nname = \"level\"\nvalues = [0.5, 1.1]\n";
const DEPTHS: &str = "[[factor]]\nname = \"depth\"\nvalues = [1, 4]\n";

fn capacity(server: &str, achieved_rps: f64, generator_limited: bool) -> Record {
    let flag = Flag {
        lower_bound: generator_limited,
        invalid: None,
    };
    let measured = Measured {
        metrics: [("achieved_rps".to_owned(), achieved_rps)].into(),
        flags: [("achieved_rps".to_owned(), flag)].into(),
        ..Measured::default()
    };
    let (_, plan) = smoke(LEVELS);
    Record {
        factors: at(server, &[]),
        ..record(&plan, CAPACITY, 0, 0, Outcome::Measured(measured))
    }
}

fn at(server: &str, numbers: &[(&str, f64)]) -> Factors {
    let mut cell = Factors::from([(SERVER.to_owned(), Value::from(server))]);
    let numbers = numbers.iter();
    cell.extend(numbers.map(|(name, it)| ((*name).to_owned(), Value::from(*it))));
    cell
}

fn capacity_rps(done: &[Record], cell: &Factors) -> Option<f64> {
    let table = CapacityTable::default();
    table
        .measured(done, &capacity::factors(cell))
        .map(|it| it.rps.value)
}

fn offered_rps(setup: &Setup, done: &[Record], cell: &Factors) -> Result<Option<f64>, String> {
    let resolved = setup.resolve_trial("sweep", cell, done)?;
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

    let (setup, plan) = smoke(LEVELS);
    assert_eq!(
        plan.stages[0].cells,
        [at("curtail", &[]), at("memcached", &[])]
    );
    let at_level = |server, level| at(server, &[(LEVEL, level)]);
    let offered = |server, level| offered_rps(&setup, &trials, &at_level(server, level));
    assert_eq!(offered("curtail", 0.5), Ok(Some(50_001.0)));
    assert_eq!(offered("memcached", 1.1), Ok(Some(82_500.0)));
    let without = offered_rps(&setup, &[], &at_level("curtail", 0.5)).unwrap_err();
    assert_has(&without, "none was measured");
    let by_rate = at("curtail", &[(RATE, 5.0)]);
    assert_eq!(offered_rps(&setup, &[], &by_rate), Ok(Some(5.0)));
    // Closed loops.
    let in_capacity = setup.resolve_trial(CAPACITY, &at("curtail", &[]), &trials);
    assert_eq!(in_capacity, Ok(Resolved::default()));
    assert_eq!(offered_rps(&setup, &trials, &at("curtail", &[])), Ok(None));
}

#[test]
fn with_values_of_factors_all_settings_share_a_capacity() {
    let text = text(&format!("{DEPTHS}{LEVELS}"));
    let (setup, plan) = resolved(&text.replace("[capacity]\n", "[capacity]\nof = { depth = 4 }\n"));
    let expected = ["curtail", "memcached"].map(|server| at(server, &[("depth", 4.0)]));
    assert_eq!(plan.stages[0].cells, expected);
    let mut trial = capacity("curtail", 80_000.0, false);
    trial.factors = at("curtail", &[("depth", 4.0)]);
    for depth in [1.0, 4.0] {
        let cell = at("curtail", &[("depth", depth), (LEVEL, 0.5)]);
        assert_eq!(
            offered_rps(&setup, &[trial.clone()], &cell),
            Ok(Some(40_000.0))
        );
    }
}

#[test]
fn every_setting_has_a_capacity_of_its_own() {
    let (setup, plan) = smoke(&format!("{DEPTHS}{LEVELS}"));
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
    assert_eq!(offered_rps(&setup, &trials, &deep), Ok(Some(25_000.0)));
    let depths = [&shallow, &deep].map(|cell| load_at(&setup, cell).depth);
    assert_eq!(depths, [1, 4]);
    let text = plan_text(&plan, &Options::new().unwrap()).unwrap();
    assert_has(&text, "factor   depth: 1, 4");
}

#[test]
fn generator_limited_capacities_count_only_as_the_majority() {
    let cell = at("curtail", &[(LEVEL, 0.5)]);
    let limited = capacity("curtail", 50.0, true);
    assert_eq!(
        capacity_rps(std::slice::from_ref(&limited), &cell),
        Some(50.0)
    );
    let trials = [limited.clone(), capacity("curtail", 80.0, false)];
    assert_eq!(capacity_rps(&trials, &cell), Some(80.0));
    let [a, b] = trials;
    // With two of three limited, the capacity is the median of all trials.
    assert_eq!(capacity_rps(&[a, b, limited], &cell), Some(50.0));
}

#[test]
fn a_rate_of_a_capacity_that_is_a_lower_bound_has_a_note() {
    let (setup, _) = smoke(LEVELS);
    let cell = at("curtail", &[(LEVEL, 0.5)]);
    let notes = |limited| {
        let done = [capacity("curtail", 80.0, limited)];
        setup.resolve_trial("sweep", &cell, &done).unwrap().notes
    };
    assert_eq!(notes(false), [""; 0]);
    let noted = notes(true);
    assert_eq!(noted.len(), 1);
    assert_has(&noted[0], "only a lower bound");
    assert_has(&noted[0], "absolute rates (a factor `rate`)");
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
        let (setup, plan) = smoke(&factor);
        assert_eq!(plan.stages[0].cells.len(), 4, "{name}");
        let cells = &plan.stages[1].cells;
        assert_eq!(cells.len(), 8, "{name}");
        let loads = [&cells[0], &cells[2]].map(|cell| load_at(&setup, cell));
        assert_ne!(loads[0], loads[1], "{name}");
        let both = text(LEVELS) + &format!("[[factor]]\nname = \"{name}\"\nvalues = {values}\n");
        assert!(refused(&both).contains(&format!("`{name}` in [load] is a factor too")));
    }
    let saturating = "[[factor]]\nname = \"rate\"\nvalues = [\"1k\"]\n\
        [[factor]]\nname = \"saturating\"\nvalues = [0, 7]\n\
        [[factor]]\nname = \"saturating-depth\"\nvalues = [16, 32]\n";
    let without_capacity = text(saturating).replace("[capacity]\ntrials = 1\n", "");
    let (setup, plan) = resolved(&without_capacity);
    assert_eq!(plan.stages.len(), 1);
    let load = load_at(&setup, &plan.stages[0].cells[3]);
    assert_eq!(
        (load.saturating_connections, load.saturating_depth),
        (7, 32)
    );
}

#[test]
fn all_wrong_keys_of_a_load_are_named_at_once() {
    let wrong = text(LEVELS)
        .replace("depth = 1", "depth = 0\nupdaet = 0.1")
        .replace("records = 1_000", "records = \"many\"");
    let message = refused(&wrong);
    for expected in [
        "`depth` in [load] is 0, not 1 to",
        "`updaet` in [load] is no key of [load]; did you mean `update`?",
        "`records` in [load] has ",
    ] {
        assert_has(&message, expected);
    }
}

#[test]
fn a_load_without_keys_is_that_of_the_generator() {
    let (load, rest) = SMOKE.split_once("[load]\n").unwrap();
    let (_, rest) = rest.split_once("\n\n").unwrap();
    let (setup, plan) = resolved(&format!(
        "{load}[load]\nrate = \"10k\"\n\n{}",
        rest.replace(
            "name = \"level\"\nvalues = [0.3, 0.6]",
            "name = \"depth\"\nvalues = [2]"
        )
    ));
    let cell = &plan.last_stage().unwrap().cells[0];
    let config = load_at(&setup, cell);
    assert_eq!((config.connections, config.records), (16, 10_000));
    assert_eq!(offered_rps(&setup, &[], cell), Ok(Some(10_000.0)));
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
    Experiment::parse("smoke", "smoke.toml", text)
        .unwrap_err()
        .to_string()
}

#[test]
fn factors_of_the_hosts_have_capacities_of_their_own() {
    let delays = "[[factor]]\nname = \"host.delay\"\nvalues = [\"0ms\", \"1ms\"]\n";
    let (setup, plan) = resolved(&on_hosts(&format!("{delays}{LEVELS}")));
    assert_eq!(plan.stages[0].cells.len(), 4);
    assert_eq!(plan.stages[1].cells.len(), 8);
    assert_eq!(
        plan.factor("host.delay").unwrap().values,
        [0.0, 1e6].map(Value::from)
    );
    assert!(plan.metric("relay_lateness_p99_ns").is_some());
    let restored: Setup = setup.settings().unwrap().try_into().unwrap();
    assert_eq!(restored, setup);
    let text = plan_text(&plan, &Options::new().unwrap()).unwrap();
    let line = "hosts    network namespaces of a server and 1 client, joined by device pairs";
    assert_has(&text, line);
}

#[test]
fn servers_on_other_hosts_listen_at_their_address() {
    let refused = refused(&on_hosts(LEVELS).replace("{ip}", "127.0.0.1"));
    assert_has(&refused, "[[server]] have `127.0.0.1`, which clients");
    assert_has(&refused, "write `{ip}`");
}

#[test]
fn every_agent_needs_connections() {
    let clients = "[[factor]]\nname = \"host.clients\"\nvalues = [1, 17]\n";
    let refused = refused(&on_hosts(&format!("{clients}{LEVELS}")));
    assert_has(&refused, "is 17, and 16 connections are too few");
}

#[test]
fn all_levels_may_be_shares_of_one_servers_capacity() {
    let of = |server: &str| {
        let of = format!("[capacity]\nof = {{ server = \"{server}\" }}\n");
        text(LEVELS).replace("[capacity]\n", &of)
    };
    let (mut setup, plan) = resolved(&of("memcached"));
    assert_eq!(plan.stages[0].cells, [at("memcached", &[])]);
    let trials = [
        capacity("curtail", 90_000.0, false),
        capacity("memcached", 70_000.0, false),
    ];
    for server in ["curtail", "memcached"] {
        let cell = at(server, &[(LEVEL, 0.5)]);
        assert_eq!(offered_rps(&setup, &trials, &cell), Ok(Some(35_000.0)));
    }
    assert!(refused(&of("memcache")).contains("did you mean `memcached`?"));
    // Without that server there are no rates.
    setup.check_capacity_server().unwrap();
    setup.server[1].skipped = Some("it is not installed".to_owned());
    let error = setup.check_capacity_server().unwrap_err().to_string();
    assert_has(&error, "capacity of memcached: it is not installed");
}

#[test]
fn a_mix_may_be_a_factor_and_a_wrong_one_is_refused() {
    let mix = |values: &str| text(&format!("[[factor]]\nname = \"mix\"\nvalues = {values}\n"));
    let (setup, plan) = resolved(&mix("[\"get=1\", \"multiget=3,set=1\"]"));
    let cell = &plan.last_stage().unwrap().cells[1];
    assert_eq!(
        load_at(&setup, cell).mix,
        Some("multiget=3,set=1".parse().unwrap())
    );
    let error = refused(&mix("[\"get=1\", \"got=1\"]"));
    assert_has(&error, "no operation `got`");
    let error = refused(&text(LEVELS).replace("[load]\n", "[load]\nmultiget = \"some\"\n"));
    assert_has(&error, "`multiget`");
}

#[test]
fn a_server_may_do_without_a_prefill() {
    let text = text(LEVELS).replacen(
        "program = \"memcached\"\n",
        "program = \"memcached\"\nprefill = false\n",
        1,
    );
    let (setup, _) = resolved(&text);
    assert!(setup.server(&at("curtail", &[])).unwrap().prefill);
    assert!(!setup.server(&at("memcached", &[])).unwrap().prefill);
}
