//! Error messages of invalid experiment files.

use super::*;

const GOOD: &str = "\
question = \"Does it?\"
seed = 1
repeats = 2
trial = \"1s\"
warmup = \"0s\"
figures = [\"tail\"]

[load]
connections = 4
depth = 1
threads = 1
keys = \"fixed:30\"
values = \"fixed:100\"
arrivals = \"exponential:1\"
popularity = \"uniform\"
update = 0.1
records = 100

[sweep]
capacity-trials = 1
levels = [0.5, 1.0]

[[server]]
name = \"one\"
kind = \"curtail\"
arguments = [\"-p\", \"{port}\"]

[[server]]
name = \"two\"
kind = \"command\"
program = \"memcached\"
arguments = [\"-p\", \"{port}\"]

[quick]
repeats = 1
";

/// The message for [`GOOD`] with `from` replaced by `to`.
fn violation(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "`{from}` is not in the file");
    Experiment::parse("ladder", "my/ladder.toml", &GOOD.replacen(from, to, 1))
        .expect_err("the file is wrong")
        .to_string()
}

#[test]
fn the_shipped_experiments_are_valid() {
    for known in shipped() {
        let experiment = Experiment::load(known.name).unwrap();
        assert_eq!(experiment.toml(), known.text);
        assert!(
            experiment.content.quick.is_some(),
            "{} has no quick form",
            known.name
        );
    }
    let ladder = Experiment::load("rate-ladder").unwrap().content;
    assert_eq!(ladder.load.connections, 15_360);
    assert_eq!(ladder.repeats, 15);
    assert_eq!(ladder.sweep.levels.unwrap().len(), 8);
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_a_suggestion() {
    assert_eq!(
        violation("connections =", "conections ="),
        "my/ladder.toml:9: unknown key `conections` in [load]; did you mean `connections`?"
    );
    assert_eq!(
        violation("repeats = 2", "repeat = 2"),
        "my/ladder.toml:3: unknown key `repeat`; did you mean `repeats`?"
    );
    assert_eq!(
        violation("capacity-trials", "capacity_trials"),
        "my/ladder.toml:20: unknown key `capacity_trials` in [sweep]; did you mean \
         `capacity-trials`?"
    );
    assert_eq!(
        violation("program =", "porgram ="),
        "my/ladder.toml:31: unknown key `porgram` in [[server]]; did you mean `program`?"
    );
    assert_eq!(
        violation("capacity-trials = 1", "zzz = 1"),
        "my/ladder.toml:20: unknown key `zzz` in [sweep]; known are capacity-trials, levels, rates"
    );
}

#[test]
fn a_wrong_value_is_named_with_its_line_and_the_remedy() {
    for (from, to, message) in [
        (
            "\"tail\"",
            "\"tial\"",
            "6: unknown value `tial`; did you mean `tail`?",
        ),
        (
            "\"1s\"",
            "\"1 parsec\"",
            "4: `1 parsec` is not a duration; give a number with ns, us, ms, s, min or h, such as \
             500us",
        ),
        (
            "\"1s\"",
            "\"1ms\"",
            "4: `trial` is 1 ms, not 100 ms to 1 h 0 min",
        ),
        (
            "update = 0.1",
            "update = 3.0",
            "16: `update` in [load] is 3, not a share from 0 to 1",
        ),
        (
            "0.5, 1.0",
            "1.0, 0.5",
            "21: `levels` in [sweep] must ascend, each once",
        ),
        (
            "0.5, 1.0",
            "-1.0",
            "21: `levels` in [sweep] holds -1, which is not above 0 and at most 10",
        ),
        (
            "[\"-p\", \"{port}\"]\n\n[quick]",
            "[]\n\n[quick]",
            "32: `arguments` in [[server]] lacks `{port}`: the lab assigns the port",
        ),
        (
            "\"two\"",
            "\"one\"",
            "29: `name` in [[server]] is used by another server",
        ),
        (
            "repeats = 1",
            "repeats = 0",
            "35: `repeats` in [quick] is 0, not 1 to 1000",
        ),
    ] {
        assert_eq!(violation(from, to), format!("my/ladder.toml:{message}"));
    }
    assert_eq!(
        violation("seed = 1\n", ""),
        "my/ladder.toml:1: the key `seed` is missing"
    );
    assert_eq!(
        violation("levels = [0.5, 1.0]", ""),
        "my/ladder.toml: `levels` in [sweep] is missing, and so is `rates`: give one"
    );
    assert!(violation("seed = 1", "seed = ").starts_with("my/ladder.toml:2: "));
}

#[test]
fn an_invalid_distribution_is_found_before_any_process_starts() {
    let keys = violation("fixed:30", "fixd:30");
    let place = "my/ladder.toml:12: `keys` in [load] is wrong: distribution `fixd:30`";
    assert!(keys.starts_with(place), "{keys}");
    let popularity = violation("\"uniform\"", "\"zipf\"");
    let place = "my/ladder.toml:15: `popularity` in [load] is wrong: ";
    assert!(popularity.starts_with(place), "{popularity}");
    let together = violation(
        "repeats = 1",
        "connections = 100_000\nrecords = 9_000_000_000_000",
    );
    assert!(
        together.contains("`load` cannot be offered: "),
        "{together}"
    );
}

#[test]
fn rates_are_an_alternative_to_levels() {
    let text = GOOD.replace("levels = [0.5, 1.0]", "rates = [\"10k\", \"1.5M\"]");
    let experiment = Experiment::parse("ladder", "ladder.toml", &text).unwrap();
    assert_eq!(
        experiment.content.sweep.rates,
        Some(vec![10_000.0, 1_500_000.0])
    );
}

#[test]
fn a_similar_name_is_suggested() {
    assert_eq!(
        Experiment::load("rate-lader").unwrap_err().to_string(),
        "no experiment `rate-lader`: it is neither a file nor shipped (connections, \
         fairness, rate-ladder, runtimes, smoke, updates); did you mean `rate-ladder`?"
    );
    let missing = Experiment::load("./none.toml").unwrap_err().to_string();
    assert!(missing.starts_with("open ./none.toml: "), "{missing}");
}

/// [`GOOD`] that varies the share of updates.
fn varying(vary: &str) -> String {
    GOOD.replace(
        "[[server]]\nname = \"one\"",
        &format!("[vary]\n{vary}\n\n[[server]]\nname = \"one\""),
    )
}

#[test]
fn one_parameter_may_be_varied() {
    let experiment = |vary| Experiment::parse("ladder", "my/ladder.toml", &varying(vary));
    let found = experiment("update = [0.03, 0.1, 0.5]").unwrap();
    assert_eq!(found.content.vary, Some(Vary::Update(vec![0.03, 0.1, 0.5])));
    for (vary, message) in [
        (
            "updates = [0.1]",
            "24: unknown value `updates` in [vary]; did you mean `update`?",
        ),
        (
            "update = [0.5, 0.1]",
            "24: `update` in [vary] must ascend, each once",
        ),
        (
            "update = [0.1]",
            "24: `update` in [vary] has 1 entries, not 2 to 16",
        ),
        (
            "update = [0.1, 0.5]\ndepth = [1, 2]",
            "23: only one parameter can be varied in [vary]: keep one key",
        ),
        (
            "update = [0.3, 0.5]",
            "24: `update` in [vary] lacks 0.1, which [load] has: the others are compared with it",
        ),
        (
            "update = [0.1, 1.5]",
            "24: `update` in [vary] holds a value that is 1.5, not a share from 0 to 1",
        ),
        (
            "depth = [1, 2000]",
            "24: `depth` in [vary] holds a value that is 2000, not 1 to 1024",
        ),
    ] {
        let error = experiment(vary).unwrap_err().to_string();
        assert_eq!(error, format!("my/ladder.toml:{message}"));
    }
    let error = experiment("saturating = [0, 7]").unwrap_err().to_string();
    assert!(
        error.contains("`capacity-trials` in [sweep] with saturating connections"),
        "{error}"
    );
    let error = experiment("saturating = [0, 100_000]")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`saturating` in [vary] holds 100000, with which"),
        "{error}"
    );
}

#[test]
fn quick_may_shorten_every_list() {
    let text = varying("update = [0.03, 0.1, 0.5]").replace(
        "repeats = 1\n",
        "levels = [0.9]\n[quick.vary]\nupdate = [0.1, 0.5]\n",
    );
    let experiment = Experiment::parse("ladder", "my/ladder.toml", &text).unwrap();
    let quick = experiment.content.quick.as_ref().unwrap();
    let quick = experiment.content.clone().quickened(quick);
    assert_eq!(quick.sweep.levels, Some(vec![0.9]));
    assert_eq!(quick.vary, Some(Vary::Update(vec![0.1, 0.5])));
    assert_eq!(quick.repeats, 2);

    let wrong = |from, to| {
        let text = text.replace(from, to);
        Experiment::parse("ladder", "my/ladder.toml", &text)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        wrong("update = [0.1, 0.5]", "update = [0.5, 0.6]"),
        "my/ladder.toml:40: `update` in [quick.vary] lacks 0.1, which [load] has: the others are \
         compared with it"
    );
    assert_eq!(
        wrong("levels = [0.9]", "rates = [\"10k\"]"),
        "my/ladder.toml:38: `rates` in [quick] and `levels` exclude each other: keep one"
    );
}

#[test]
fn a_value_invalid_only_with_quick_names_quick() {
    let text = GOOD
        .replace("threads = 1", "threads = 4")
        .replace("repeats = 1", "connections = 2");
    assert_eq!(
        Experiment::parse("ladder", "my/ladder.toml", &text)
            .unwrap_err()
            .to_string(),
        "my/ladder.toml:11: `threads` in [load] is 4, not 1 to 2 (at most one per connection), with \
         the changes of [quick]"
    );
}

#[test]
fn too_many_trials_are_refused() {
    let text = GOOD.replace("repeats = 2", "repeats = 1000").replace(
        "levels = [0.5, 1.0]",
        &format!(
            "levels = [{}]",
            (1..=60)
                .map(|level| format!("0.{level:02}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    );
    assert_eq!(
        Experiment::parse("ladder", "my/ladder.toml", &text)
            .unwrap_err()
            .to_string(),
        "my/ladder.toml:3: `repeats` makes 120002 trials in all, more than 100000"
    );
}
