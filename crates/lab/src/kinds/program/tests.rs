//! Experiments of this kind that are refused before anything is started.

use super::*;
use crate::Experiment;

/// A valid experiment with `to` in place of `from`.
fn refusal(from: &str, to: &str) -> String {
    const FILE: &str = r#"
kind = "program"
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
    for (from, to, expected) in [
        (
            "\"{size}\"",
            "\"{sise}\"",
            "any.toml:11: `command` in [program] has `{sise}`, which is no \
                                      factor; did you mean `size`?",
        ),
        (
            "\"3\"",
            "\"{n}\"",
            "any.toml:10: `input` in [program] has `{n}`",
        ),
        (
            "\"9\"",
            "\"{n}\"",
            "any.toml:12: `environment` in [program] has `{n}`",
        ),
        (
            "\"-k\"",
            "\"{n}\"",
            "any.toml:20: `command` in [[beside]] has `{n}`",
        ),
        (
            "\"blue\"",
            "\"{n}\"",
            "any.toml:21: `environment` in [[beside]] has `{n}`",
        ),
        (
            "connect = \"127",
            "connect = \"{n}",
            "any.toml:17: `ready` in [[beside]] has `{n}`",
        ),
    ] {
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
            "kind = \"program\"\nquestion = \"How?\"\nseed = 1\nrepeats = 1\n[[factor]]\n\
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
fn processors_that_are_not_there_are_refused_with_those_that_are() {
    let text = "[program]\ncommand = [\"a\"]\ntimeout = \"1s\"\ncpus = [4]\n[[beside]]\n\
                name = \"server\"\ncommand = [\"b\"]\ncpus = [0, 9]\n";
    let program: Program = toml::from_str(text).unwrap();
    let refused = |allowed: &[usize]| check::check_cpus(&program, allowed).map_err(|it| it.to_string());
    let remedy = "which this process may not use: choose from";
    assert_eq!(
        refused(&[0, 1]),
        Err(format!("`cpus` in [program]: has 4, {remedy} 0, 1, or remove `cpus`"))
    );
    assert_eq!(
        refused(&[0, 4]),
        Err(format!("`cpus` in [[beside]] `server`: has 9, {remedy} 0, 4, or remove `cpus`"))
    );
    assert_eq!(refused(&[0, 4, 9]), Ok(()));
}

#[test]
fn the_longest_time_of_a_trial_holds_all_its_limits() {
    let text = "[program]\ncommand = [\"a\"]\ntimeout = \"5s\"\n";
    let beside = "[[beside]]\nname = \"b\"\ncommand = [\"b\"]\n";
    let estimate = |text: &str| {
        let program: Program = toml::from_str(text).unwrap();
        program.estimate(&Factors::new()).most.as_secs()
    };
    assert_eq!(estimate(text), 5);
    assert_eq!(estimate(&format!("{text}input = [\"i\"]\n")), 5 + 10);
    assert_eq!(estimate(&format!("{text}{beside}{beside}")), 5 + 2 * 20);
    let before = "[[before]]\ncommand = [\"c\"]\ntimeout = \"7s\"\ninput = [\"i\"]\n";
    assert_eq!(estimate(&format!("{text}{before}{before}")), 5 + 2 * (7 + 10));
    let apart = format!("{text}stagger = \"2s\"\n[hosts]\nclients = 4\n");
    assert_eq!(estimate(&apart), 5 + 3 * 2);
}

#[test]
fn wrong_tables_of_a_program_are_refused() {
    for (from, to, expected) in [
        (
            "\"cat\", \"{size}\"",
            "",
            "`command` in [program] is empty: give the program",
        ),
        (
            "timeout = \"1s\"",
            "timeout = \"0s\"",
            "`timeout` in [program] is not above 0",
        ),
        (
            "timeout = \"1s\"",
            "",
            "the key `timeout` is missing in [program]",
        ),
        (
            "\"other\"",
            "\"server\"",
            "`name` in [[beside]] must be letters",
        ),
        (
            "line = 'up'",
            "line = '('",
            "has a `line` that is no regular expression",
        ),
        ("line = 'up'", "lines = 'up'", "unknown key `lines`"),
        (
            "\"rate\"",
            "\"elapsed_ns\"",
            "`elapsed_ns` is measured of every program",
        ),
        (
            "\"{size}\"",
            "\"x\"",
            "has `size`, but no command contains `{size}`",
        ),
        (
            "\"rate\"",
            "\"size\"",
            "`size` names two factors or metrics",
        ),
    ] {
        let refused = refusal(from, to);
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
}

#[test]
fn wrong_tables_of_several_clients_and_before_a_program_are_refused() {
    for (from, to, expected) in [
        (
            "\"-k\"",
            "\"{client}\"",
            "any.toml:20: `command` in [[beside]] has `{client}`, but runs once for all clients",
        ),
        (
            "[program]",
            "[[before]]\ncommand = [\"a\", \"{sise}\"]\ntimeout = \"1s\"\n[program]",
            "any.toml:10: `command` in [[before]] has `{sise}`, which is no factor; did you mean",
        ),
        (
            "[program]",
            "[[before]]\ncommand = []\ntimeout = \"1s\"\n[program]",
            "any.toml:10: `command` in [[before]] is empty",
        ),
        (
            "[program]",
            "[[before]]\ncommand = [\"a\"]\ntimeout = \"0s\"\n[program]",
            "any.toml:11: `timeout` in [[before]] is not above 0",
        ),
        (
            "timeout = \"1s\"",
            "timeout = \"1s\"\nstagger = \"{port}ms\"",
            "`stagger` in [program] has `{port}`, which is no factor",
        ),
        (
            "timeout = \"1s\"",
            "timeout = \"1s\"\nstagger = \"soon\"",
            "`stagger` in [program] has ",
        ),
        (
            "timeout = \"1s\"",
            "timeout = \"1s\"\nstagger = \"{siz}\"",
            "`stagger` in [program] has `{siz}`, which is no factor; did you mean `size`?",
        ),
        (
            "regex = 'rate ([0-9]+)'",
            "regex = 'rate ([0-9]+)'\nseries = true\n[hosts]\nclients = 2",
            "any.toml:27: `series` in [[metric]] needs one client",
        ),
        (
            "regex = 'rate ([0-9]+)'",
            "regex = 'rate ([0-9]+)'\n[[histogram]]\nname = \"rate\"\njson = \"a\"",
            "`name` in [[histogram]] must be letters",
        ),
        (
            "regex = 'rate ([0-9]+)'",
            "regex = 'rate ([0-9]+)'\n[[histogram]]\nname = \"a\"\njson = \"a\"\n\
             [hosts]\nclients = 2",
            "`name` in [[histogram]] is of one client",
        ),
        (
            "regex = 'rate ([0-9]+)'",
            "regex = 'rate ([0-9]+)'\nacross = \"average\"",
            "unknown value `average` in [[metric]]; known are mean, median, sum, min, max",
        ),
    ] {
        let refused = refusal(from, to);
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
}

/// The last table of the experiment of [`refusal`], followed by others.
const LAST: &str = "regex = 'rate ([0-9]+)'\n";

#[test]
fn wrong_tables_of_a_disk_and_of_levels_are_refused() {
    let disk = "[disk]\nlaw = \"ssd\"\nsize = \"64MiB\"\nfill = \"true\"\ntimeout = \"9s\"\n";
    let level = "[level]\nmetric = \"rate\"\ntrials = 3\n";
    let changed = |table: &str, from: &str, to: &str| {
        assert!(table.contains(from), "{from}");
        refusal(LAST, &format!("{LAST}{}", table.replace(from, to)))
    };
    for (table, from, to, expected) in [
        (disk, "\"ssd\"", "\"tape\"", "`law` in [disk] is wrong: `tape` is no disk: known are"),
        (disk, "\"ssd\"", "\"{tape}\"", "`law` in [disk] has `{tape}`, which is no factor"),
        (disk, "\"true\"", "\"{tape}\"", "`fill` in [disk] has `{tape}`, which is no factor"),
        (disk, "size", "memory = \"1MiB\"\nsize", "`memory` in [disk] is 1MiB, not at least 4MiB"),
        (disk, "size", "memory = \"{of}\"\nsize", "`memory` in [disk] has `{of}`, which is no"),
        (disk, "64MiB", "1MiB", "`size` in [disk] is 1MiB, not 16MiB to 1TiB"),
        (disk, "9s", "0s", "`timeout` in [disk] is not above 0"),
        (disk, "size", "sise", "`sise`"),
        (level, "rate", "rates", "`metric` in [level] is `rates`, which is no [[metric]]"),
        (level, "3", "0", "`trials` in [level] is 0, not 1 to 1000"),
    ] {
        let refused = changed(table, from, to);
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
    // Without the tables, their placeholders have no value.
    for name in ["{files}", "{rate}"] {
        let refused = refusal("\"3\"", &format!("\"{name}\""));
        assert!(refused.contains("which is no factor"), "{refused}");
    }
}

#[test]
fn a_level_is_a_share_of_the_median_capacity_of_its_own_cell() {
    let table = LevelTable {
        metric: "throughput".to_owned(),
        trials: 3,
    };
    let cell = |server: &str, level: Option<f64>| {
        let level = level.map(|it| ("level".to_owned(), Value::from(it)));
        let server = ("server".to_owned(), Value::Text(server.to_owned()));
        level.into_iter().chain([server]).collect::<Factors>()
    };
    let cells = ["a", "b"].map(|it| [0.5, 0.9].map(|level| cell(it, Some(level))));
    let stages = table.stages(cells.concat(), Repeats::fixed(5));
    assert_eq!(stages[0].name, "capacity");
    assert_eq!(stages[0].cells, [cell("a", None), cell("b", None)]);
    assert_eq!((stages[0].repeats.most, stages[1].cells.len()), (3, 4));
    let done: Vec<Record> = [("a", 900.0), ("a", 1_000.0), ("b", 10.0), ("a", 5_000.0)]
        .map(|(server, rate)| {
            let mut measured = report::record::Measured::default();
            measured.metrics.insert("throughput".to_owned(), rate);
            Record {
                id: String::new(),
                stage: "capacity".to_owned(),
                cell: 0,
                repeat: 0,
                retries: 0,
                factors: cell(server, None),
                resolved: BTreeMap::new(),
                started_unix_ns: 0,
                outcome: report::record::Outcome::Measured(measured),
                notes: Vec::new(),
            }
        })
        .to_vec();
    let resolve = |stage, factors: &Factors| table.resolve(stage, factors, &done);
    let settings = resolve("sweep", &cell("a", Some(0.9))).unwrap().settings;
    assert_eq!((settings["offered_rps"], settings["capacity_rps"]), (900.0, 1_000.0));
    assert_eq!(level::rate(&settings), "900");
    assert!(resolve("sweep", &cell("c", Some(0.9))).unwrap_err().contains("none was measured"));
    assert_eq!(level::rate(&resolve("capacity", &cell("a", None)).unwrap().settings), "max");
}
