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
        program.estimate(&Factors::new()).as_secs()
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
            "regex = 'rate ([0-9]+)'\nacross = \"average\"",
            "unknown value `average` in [[metric]]; known are mean, median, sum, min, max",
        ),
    ] {
        let refused = refusal(from, to);
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
}
