//! Error messages of invalid experiment files.

use report::record::Value;

use super::*;
use crate::tests::assert_has;

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

[[factor]]
name = \"level\"
values = [0.5, 1.0]

[capacity]
trials = 1

[[server]]
name = \"one\"
arguments = [\"-p\", \"{port}\"]

[[server]]
name = \"two\"
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

fn content(name: &str, text: &str, quick: bool) -> Content {
    let experiment = Experiment::parse(name, &format!("{name}.toml"), text).unwrap();
    experiment.content(quick).unwrap()
}

fn values(content: &Content, name: &str) -> Vec<Value> {
    let factors = content.design().unwrap().factors;
    let factor = factors.into_iter().find(|it| it.name == name);
    factor.unwrap().values
}

fn numbers(numbers: &[f64]) -> Vec<Value> {
    numbers.iter().copied().map(Value::from).collect()
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_a_suggestion() {
    assert_eq!(
        violation("connections =", "conections ="),
        "my/ladder.toml:9: `conections` in [load] is no key of [load]; did you mean `connections`?"
    );
    assert_eq!(
        violation("repeats = 2", "repeat = 2"),
        "my/ladder.toml:3: unknown key `repeat`; did you mean `repeats`?"
    );
    assert_eq!(
        violation("trials = 1", "trails = 1"),
        "my/ladder.toml:24: unknown key `trails` in [capacity]; did you mean `trials`?"
    );
    assert_eq!(
        violation("program =", "porgram ="),
        "my/ladder.toml:32: unknown key `porgram` in [[server]]; did you mean `program`?"
    );
    assert_eq!(
        violation("trials = 1", "zzz = 1"),
        "my/ladder.toml:24: unknown key `zzz` in [capacity]; known are trials, of, metric"
    );
    assert_eq!(
        violation("values = [0.5", "vales = [0.5"),
        "my/ladder.toml:21: unknown key `vales` in [[factor]]; did you mean `values`?"
    );
    assert_eq!(
        violation("question =", "kind = \"measure\"\nquestion ="),
        "my/ladder.toml:1: `kind` is no kind of trial; did you mean `measured`?"
    );
}

#[test]
fn a_wrong_value_is_named_with_its_line_and_the_remedy() {
    for (from, to, message) in WRONG_VALUES {
        assert_eq!(violation(from, to), format!("my/ladder.toml:{message}"));
    }
    assert_eq!(
        violation("seed = 1\n", ""),
        "my/ladder.toml:1: the key `seed` is missing"
    );
    assert_eq!(
        violation("values = [0.5, 1.0]", ""),
        "my/ladder.toml:19: the key `values` is missing in [[factor]]"
    );
    assert!(violation("seed = 1", "seed = ").starts_with("my/ladder.toml:2: "));
}

/// A part of the file, what replaces it, and the message.
#[rustfmt::skip]
const WRONG_VALUES: [(&str, &str, &str); 18] = [
    ("\"tail\"", "\"tial\"", "6: `figures` has `tial`, which is no figure of this kind; did you mean `tail`?"),
    ("\"tail\"", "\"tail\", \"tail\"", "6: `figures` draws `tail` twice"),
    ("\"1s\"", "\"1 parsec\"", "4: `1 parsec` is not a duration; give a number with ns, us, ms, s, min or h, such as 500us"),
    ("\"1s\"", "\"1ms\"", "4: `trial` is 1 ms, not 100 ms to 1 h 0 min"),
    ("update = 0.1", "update = 3.0", "16: `update` in [load] is 3, not a share from 0 to 1"),
    ("0.5, 1.0", "0.5, 0.5", "21: `values` in [[factor]] holds a value twice"),
    ("0.5, 1.0", "-1.0", "21: `values` in [[factor]] has -1, which is not above 0 and at most 10"),
    ("0.5, 1.0", "", "21: `values` in [[factor]] has 0 entries, not 1 to 256"),
    ("\"level\"", "\"le vel\"", "20: `name` in [[factor]] must be 1 to 64 letters, digits, `.`, `_` or `-`"),
    ("[\"-p\", \"{port}\"]\n\n[quick]", "[]\n\n[quick]", "33: `arguments` in [[server]] lacks `{port}`: the lab assigns the port"),
    ("\"two\"", "\"one\"", "31: `name` in [[server]] is used by another server"),
    ("repeats = 1", "repeats = 0", "36: `repeats` in [quick] is 0, not 1 to 1000"),
    ("repeats = 2", "repeats = -2", "3: -2 is not a number of repeats"),
    ("repeats = 2", "repeats = { least = 9, most = 3, metric = \"achieved_rps\", width = 0.1 }", "3: `repeats` has least 9 and most 3; they must ascend and be 1 to 1000"),
    ("repeats = 2", "repeats = { least = 3, most = 9, metric = \"achieved\", width = 0.1 }", "3: `repeats` has no metric `achieved`; did you mean `achieved_rps`?"),
    ("repeats = 2", "repeats = { least = 3, most = 9, metric = \"achieved_rps\", width = 0.0 }", "3: `repeats` has a width that is not above 0 and below 10"),
    ("repeats = 2", "repeats = 2\nretries = 11", "4: `retries` is 11, at most 10"),
    ("trials = 1", "trials = 0", "24: `trials` in [capacity] must be at least 1: levels are shares of a measured capacity"),
];

#[test]
fn values_that_are_wrong_together_are_refused() {
    let keys = violation("fixed:30", "fixd:30");
    let place = "my/ladder.toml:12: `keys` in [load] is wrong: distribution `fixd:30`";
    assert!(keys.starts_with(place), "{keys}");
    let load = "load = { connections = 100_000, records = 9_000_000_000_000 }";
    let together = violation("repeats = 1", load);
    assert_has(&together, "makes a load that cannot be offered: ");
    let levels: Vec<String> = (1..=60).map(|it| format!("0.{it:02}")).collect();
    let text = GOOD
        .replace("0.5, 1.0", &levels.join(", "))
        .replace("repeats = 2", "repeats = 1000");
    let many = Experiment::parse("ladder", "my/ladder.toml", &text).unwrap_err();
    let expected = "my/ladder.toml:3: `repeats` makes 120002 trials in all, more than 100000";
    assert_eq!(many.to_string(), expected);
}

#[test]
fn rates_are_an_alternative_to_levels() {
    let text = GOOD.replace(
        "name = \"level\"\nvalues = [0.5, 1.0]",
        "name = \"rate\"\nvalues = [\"10k\", \"1.5M\"]",
    );
    let content = content("ladder", &text, false);
    assert_eq!(values(&content, "rate"), numbers(&[10_000.0, 1_500_000.0]));
    let both = format!("{}\n[[factor]]\nname = \"rate\"\nvalues = [1]\n", good());
    let error = Experiment::parse("ladder", "my/ladder.toml", &both).unwrap_err();
    let message = "my/ladder.toml:19: `factor` has both `rate` and `level`: keep one";
    assert_eq!(error.to_string(), message);
}

/// Under every kind, in every table that has values of factors, in the long and the short form.
#[test]
fn a_rate_may_have_a_unit_wherever_it_stands() {
    let text = PUBLISHED
        .replace("size", "rate")
        .replace("[1, 2]", "[\"1k\", \"2k\"]");
    let text = text
        .replace("rate = 2", "rate = \"2k\"")
        .replace("[1]", "[\"2k\"]");
    let text = text.replacen(
        "[quick]",
        "[[factor]]\nname = \"n\"\nvalues = [1]\nonly = { rate = [\"2k\"] }\n\
         [[figure]]\nname = \"f\"\nkind = \"bars\"\nx = \"n\"\ny = \"elapsed_ns\"\n\
         only = { rate = \"2k\" }\n\
         [[target]]\nname = \"t\"\nmetric = \"elapsed_ns\"\nof = { rate = \"2k\" }\n\
         to = { rate = \"1k\" }\nbelow = 2\n[quick]",
        1,
    );
    let text = text.replace("\"{rate}\"", "\"{rate}{n}\"");
    let plan = content("any", &text, false).plan().unwrap();
    let rate = plan.factor("rate").unwrap();
    assert_eq!(rate.values, numbers(&[1_000.0, 2_000.0]));
    assert_eq!(rate.unit, Some(report::record::Unit::per_second()));
    assert_eq!(plan.published[0].only["rate"], Value::from(2_000.0));
    assert_eq!(plan.figures[0].only["rate"], Value::from(2_000.0));
    assert_eq!(plan.targets[0].to["rate"], Value::from(1_000.0));
    assert_eq!(
        values(&content("any", &text, true), "rate"),
        numbers(&[2_000.0])
    );

    let cells = "[[cell]]\nrate = \"1k\"\n[[cell]]\nrate = 2000\n\
                 [ladder]\nname = \"step\"\n\
                 [[ladder.step]]\nname = \"a\"\nset = { most-rate = \"3k\" }\n\
                 [[ladder.step]]\nname = \"b\"\nset = { most-rate = \"4k\" }\n[program]";
    let text = PUBLISHED.split("[[published]]").next().unwrap();
    let text = text.replace("\"{size}\"", "\"{size}{rate}{most-rate}\"");
    let listed = content("any", &text.replacen("[program]", cells, 1), false);
    assert_eq!(values(&listed, "rate"), numbers(&[1_000.0, 2_000.0]));
    assert_eq!(values(&listed, "most-rate"), numbers(&[3_000.0, 4_000.0]));
}

/// [`GOOD`] without its short form.
fn good() -> &'static str {
    GOOD.split("[quick]").next().unwrap()
}

#[test]
fn changes_that_are_no_table_are_refused() {
    let text = format!("quick = 5\n{}", good());
    let error = Experiment::parse("ladder", "my/ladder.toml", &text).unwrap_err();
    let message = "my/ladder.toml:1: `quick` is not a table: write the changes under [quick]";
    assert_eq!(error.to_string(), message);
}

/// [`GOOD`] with another factor, whose tables begin in line 26.
fn varying(name: &str, values: &str) -> String {
    let server = "[[server]]\nname = \"one\"";
    let factor = format!("[[factor]]\nname = \"{name}\"\nvalues = {values}\n\n");
    let mut text = GOOD.replace(server, &format!("{factor}{server}"));
    // A factor is no key of [load] as well; the line stays, for the numbers of the others.
    if let Some(at) = text.find(&format!("\n{name} = ")) {
        text.insert(at + 1, '#');
    }
    text
}

#[test]
fn parameters_of_the_load_may_be_varied() {
    let parsed = |text: &str| Experiment::parse("ladder", "my/ladder.toml", text);
    let found = content("ladder", &varying("update", "[0.03, 0.1, 0.5]"), false);
    assert_eq!(values(&found, "update"), numbers(&[0.03, 0.1, 0.5]));
    let factors = found.design().unwrap().factors;
    let update = factors.iter().find(|it| it.name == "update").unwrap();
    assert_eq!(update.title, "share of updates");
    #[rustfmt::skip]
    let table = [
        ("updates", "[0.1]", "19: `factor` has `updates`, which no command contains as `{updates}`, and which is no key of [load]; did you mean `update`?"),
        ("update", "[0.1, 1.5]", "28: `values` in [[factor]] is 1.5, not a share from 0 to 1"),
        ("depth", "[1, 2000]", "28: `values` in [[factor]] is 2000, not 1 to 1024"),
        ("depth", "[1.5]", "28: `values` in [[factor]] is 1.5, not 1 to 1024"),
        ("depth", "[\"deep\"]", "28: `values` in [[factor]] is deep, not 1 to 1024"),
        ("server", "[\"one\"]", "28: `values` in [[factor]] is set by the [[server]] tables: name servers there"),
    ];
    for (name, values, message) in table {
        let error = parsed(&varying(name, values)).unwrap_err().to_string();
        assert_eq!(error, format!("my/ladder.toml:{message}"));
    }
    let error = parsed(&varying("saturating", "[0, 7]")).unwrap_err();
    let expected = "`trials` in [capacity] with saturating connections";
    assert_has(error.to_string(), expected);
}

#[test]
fn quick_may_shorten_every_list() {
    let text = varying("update", "[0.03, 0.1, 0.5]").replace(
        "repeats = 1\n",
        "[[quick.factor]]\nname = \"update\"\nvalues = [0.1, 0.5]\n\
         [[quick.factor]]\nname = \"level\"\nvalues = [0.9]\n",
    );
    let quick = content("ladder", &text, true);
    assert_eq!(values(&quick, "level"), numbers(&[0.9]));
    assert_eq!(values(&quick, "update"), numbers(&[0.1, 0.5]));
    assert_eq!(quick.general.repeats.0, Repeats::fixed(2));

    let wrong = |from, to| {
        assert_has(&text, from);
        let text = text.replace(from, to);
        Experiment::parse("ladder", "my/ladder.toml", &text)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        wrong("values = [0.1, 0.5]", "values = [0.5, 0.5]"),
        "my/ladder.toml:42: `values` in [[quick.factor]] holds a value twice"
    );
    assert_eq!(
        wrong("values = [0.9]", "values = [90]"),
        "my/ladder.toml:45: `values` in [[quick.factor]] has 90, which is not above 0 and at most 10"
    );
}

#[test]
fn a_value_invalid_only_with_quick_names_quick() {
    let text = GOOD
        .replace("threads = 1", "threads = 4")
        .replace("repeats = 1", "load = { connections = 2 }");
    assert_eq!(
        Experiment::parse("ladder", "my/ladder.toml", &text)
            .unwrap_err()
            .to_string(),
        "my/ladder.toml:11: `threads` in [load] is 4, above the 2 connections, with the changes of \
         [quick]"
    );
}

#[test]
fn a_place_is_found_by_the_grammar_not_by_the_look_of_lines() {
    let error = |text: &str| {
        Experiment::parse("ladder", "my/ladder.toml", text)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        violation("[load]", "[lod]"),
        "my/ladder.toml:8: unknown key `lod`; did you mean `load`?"
    );
    let in_a_string = GOOD
        .replace("\"Does it?\"", "\"\"\"\n[load]\nupdate = 2\n\"\"\"")
        .replace("update = 0.1", "\"update\" = 3.0");
    assert_eq!(
        error(&in_a_string),
        "my/ladder.toml:19: `update` in [load] is 3, not a share from 0 to 1"
    );
    let inline = varying("update", "[0.1, 0.5]").replace(
        "repeats = 1\n",
        "repeats = 1\nfactor = [{ name = \"update\", values = [0.5, 0.5] }]\n",
    );
    assert_eq!(
        error(&inline),
        "my/ladder.toml:41: `values` in [[quick.factor]] holds a value twice"
    );
    assert_eq!(
        error(&inline.replace("[0.5, 0.5]", "[0.1, 0.5], tilte = \"x\"")),
        "my/ladder.toml:41: unknown key `tilte` in [[quick.factor]]; did you mean `title`?"
    );
}

#[test]
fn the_examples_of_the_guide_are_valid() {
    let guide = include_str!("../../../../docs/guide/experiments.md");
    let blocks = guide.split("```toml\n").skip(1);
    let blocks = blocks.map(|it| it.split("```").next().unwrap());
    let (files, parts): (Vec<&str>, Vec<&str>) = blocks.partition(|it| it.contains("question = "));
    assert!(files.len() >= 2 && parts.len() >= 2, "{files:?} {parts:?}");
    for file in files {
        Experiment::parse("guide", "guide.toml", file).unwrap();
    }
    for part in parts {
        let table: toml::Table = part.parse().unwrap();
        assert!(!table.is_empty(), "{part}");
    }
}

const PUBLISHED: &str = "\
question = \"How fast?\"
seed = 1
repeats = 1
[[factor]]
name = \"size\"
values = [1, 2]
[program]
command = [\"cat\", \"{size}\"]
timeout = \"1s\"
[[published]]
metric = \"elapsed_ns\"
value = 0.283
unit = \"ms\"
only = { size = 2 }
source = \"Smith 2016, table 2\"
[[published]]
metric = \"user_ns\"
value = 7
source = \"Smith 2016, table 3\"
[quick]
[[quick.factor]]
name = \"size\"
values = [1]
";

#[test]
fn published_values_are_in_the_plan_and_the_short_form_has_those_of_its_cells() {
    let metrics = |quick| {
        let plan = content("any", PUBLISHED, quick).plan().unwrap();
        let published = plan.published.into_iter();
        published.map(|it| it.metric).collect::<Vec<_>>()
    };
    assert_eq!(metrics(false), ["elapsed_ns", "user_ns"]);
    assert_eq!(metrics(true), ["user_ns"]);
}

#[test]
fn a_wrong_answer_is_named_with_its_line() {
    let answer = "[answer]\nmetric = \"elapsed_ns\"\nbaseline = { size = 1 }\n[program]";
    let text = PUBLISHED.replace("[program]", answer);
    let plan = content("any", &text, false).plan().unwrap();
    assert_eq!(plan.answer.unwrap().metric, "elapsed_ns");
    #[rustfmt::skip]
    let table = [
        ("\"elapsed_ns\"\nbaseline", "\"elapsed\"\nbaseline", "any.toml:8: `metric` in [answer] is wrong: no metric is named `elapsed`"),
        ("{ size = 1 }", "{ size = 3 }", "any.toml:9: `baseline` in [answer] is wrong: `size` has no value `3`"),
        ("baseline", "basline", "unknown key `basline` in [answer]; did you mean `baseline`?"),
    ];
    for (from, to, expected) in table {
        let changed = text.replace(from, to);
        let refused = Experiment::parse("any", "any.toml", &changed).unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}

#[test]
fn a_wrong_published_value_is_named_with_its_line() {
    #[rustfmt::skip]
    let table = [
        ("user_ns", "user_n", "any.toml:17: `metric` in [[published]] is wrong: no metric is named `user_n`; the nearest known:"),
        ("size = 2", "size = 3", "any.toml:14: `only` in [[published]] is wrong: `size` has no value `3`; it has `1` and `2`"),
        ("value = 7", "valeu = 7", "unknown key `valeu` in [[published]]; did you mean `value`?"),
    ];
    for (from, to, expected) in table {
        let changed = PUBLISHED.replace(from, to);
        let refused = Experiment::parse("any", "any.toml", &changed).unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}
