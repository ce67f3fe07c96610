//! Cells of designs, read from experiment files of a kind that has no settings.

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::prelude::*;
use report::record::{Better, Metric, Plan, Unit};
use serde::Serialize;

use super::*;
use crate::Experiment;
use crate::error::Error;
use crate::kind::{Context, Entry, Estimate, Performed, Trial, TrialError, settings_of};
use crate::plan::order;
use crate::tests::assert_has;
use crate::tests::model;

/// A kind without settings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {}

const PLAIN: &[Entry] = &[Entry::of::<Plain>("plain")];

impl Kind for Plain {
    fn metrics(&self) -> Vec<Metric> {
        let unit = Unit::from("count".to_owned());
        vec![Metric::new("pips", "pips", unit, Better::Neither)]
    }

    fn settings(&self) -> Result<toml::Table, Error> {
        settings_of(self)
    }

    fn perform(&self, _: &Trial<'_>, _: &Context<'_>) -> Result<Performed, TrialError> {
        Ok(Performed::default())
    }

    fn estimate(&self, _: &Factors) -> Estimate {
        Estimate::about(std::time::Duration::ZERO)
    }
}

fn experiment(tables: &str) -> Result<Experiment, Error> {
    let text = format!("kind = \"plain\"\nquestion = \"Why?\"\nseed = 1\nrepeats = 3\n{tables}");
    Experiment::parse_of(PLAIN, "plain", "plain.toml", &text)
}

fn content(tables: &str, quick: bool) -> crate::experiment::Content {
    experiment(tables).unwrap().content(quick).unwrap()
}

fn design(tables: &str) -> Design {
    content(tables, false).design().unwrap()
}

fn refusal(tables: &str) -> String {
    experiment(tables).unwrap_err().to_string()
}

fn factor(name: &str, count: usize, more: &str) -> String {
    let values: Vec<usize> = (0..count).collect();
    format!("[[factor]]\nname = \"{name}\"\nvalues = {values:?}\n{more}\n")
}

#[test]
fn listed_times_are_read_once_and_equal_ones_are_one_value() {
    let text = "[hosts]\nkind = \"namespaces\"\n\
                [[cell]]\n\"host.delay\" = \"1ms\"\nrate = \"10k\"\n\
                [[cell]]\n\"host.delay\" = \"1000us\"\nrate = 20000\n";
    let smoke = include_str!("../../../../experiments/smoke.toml").replace("127.0.0.1", "{ip}");
    let from = smoke.find("[[factor]]").unwrap();
    let to = smoke.find("[[server]]").unwrap();
    let mut smoke = format!("{}{text}{}", &smoke[..from], &smoke[to..]);
    smoke.truncate(smoke.find("[quick").unwrap());
    let experiment = Experiment::parse("smoke", "smoke.toml", &smoke).unwrap();
    let design = experiment.content(false).unwrap().design().unwrap();
    let delays: Vec<_> = design
        .cells
        .iter()
        .map(|it| number(it, "host.delay"))
        .collect();
    assert_eq!(delays, [Some(1e6); 4]);
    let delay = design
        .factors
        .iter()
        .find(|it| it.name == "host.delay")
        .unwrap();
    assert_eq!(delay.values, [Value::from(1e6)]);
}

#[test]
fn listed_factors_keep_the_order_of_the_file() {
    let text = "[[cell]]\nserver = \"b\"\nloss = 1\n\
                [[cell]]\nserver = \"a\"\ncache = \"x\"\nloss = 0\n\
                [quick]\nrepeats = 1\n[[quick.cell]]\nloss = 0\nserver = \"a\"\n";
    let names = |quick| {
        let design = content(text, quick).design().unwrap();
        let factors = design.factors.iter();
        factors.map(|it| it.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(false), ["server", "loss", "cache"]);
    assert_eq!(names(true), ["loss", "server"]);
}

#[test]
fn the_name_of_a_ladders_step_needs_no_effect() {
    let text = "kind = \"model\"\nmodel = \"line\"\nquestion = \"Why?\"\nseed = 1\nrepeats = 1\n\
                [ladder]\nname = \"step\"\n\
                [[ladder.step]]\nname = \"one\"\nset = { rate = 100, servers = 1 }\n\
                [[ladder.step]]\nname = \"two\"\nset = { servers = 2 }\n";
    Experiment::parse_of(model::KINDS, "ladder", "ladder.toml", text).unwrap();
    let wrong = text.replace("servers = 2", "sevrers = 2");
    let refused = Experiment::parse_of(model::KINDS, "ladder", "ladder.toml", &wrong)
        .unwrap_err()
        .to_string();
    assert_has(&refused, "`sevrers` is no setting of the model");
}

fn number(cell: &Factors, name: &str) -> Option<f64> {
    cell.get(name).and_then(Value::number)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn crossed_factors_make_every_combination_and_the_last_varies_fastest(
        counts in prop::collection::vec(1_usize..5, 1..5),
    ) {
        let factors = counts.iter().enumerate();
        let tables: String = factors.map(|(nth, it)| factor(&format!("f{nth}"), *it, "")).collect();
        let design = design(&tables);
        prop_assert_eq!(design.cells.len(), counts.iter().product::<usize>());
        for (index, cell) in design.cells.iter().enumerate() {
            let mut rest = index;
            for (nth, count) in counts.iter().enumerate().rev() {
                prop_assert_eq!(number(cell, &format!("f{nth}")), Some((rest % count) as f64));
                rest /= count;
            }
        }
    }

    #[test]
    fn zipped_factors_advance_together(rows in 1_usize..6, zipped in 2_usize..4, other in 1_usize..4) {
        let mut tables = factor("other", other, "");
        for nth in 0..zipped {
            tables += &factor(&format!("z{nth}"), rows, "with = \"together\"");
        }
        let design = design(&tables);
        prop_assert_eq!(design.cells.len(), rows * other);
        prop_assert_eq!(design.factors.len(), 1 + zipped);
        for cell in &design.cells {
            for nth in 1..zipped {
                prop_assert_eq!(number(cell, &format!("z{nth}")), number(cell, "z0"));
            }
        }
        let longer = tables + &factor("last", rows + 1, "with = \"together\"");
        let refused = refusal(&longer);
        let expected = format!(
            "joins factors of {rows} and {} values, which cannot advance together", rows + 1
        );
        prop_assert!(refused.contains(&expected), "{refused}");
    }

    #[test]
    fn a_nested_factor_has_no_value_elsewhere(
        outer in 1_usize..6,
        inner in 1_usize..5,
        chosen in prop::collection::btree_set(0_usize..6, 1..4),
    ) {
        let chosen: Vec<usize> = chosen.into_iter().filter(|it| *it < outer).collect();
        prop_assume!(!chosen.is_empty());
        let only = format!("only = {{ outer = {chosen:?} }}");
        let design = design(&(factor("outer", outer, "") + &factor("inner", inner, &only)));
        let cells = outer - chosen.len() + chosen.len() * inner;
        prop_assert_eq!(design.cells.len(), cells);
        for cell in &design.cells {
            let is_chosen = chosen.contains(&(number(cell, "outer").unwrap() as usize));
            prop_assert_eq!(cell.contains_key("inner"), is_chosen);
        }
    }

    #[test]
    fn listed_cells_are_crossed_with_the_factors(rows in 1_usize..6, factors in 1_usize..5) {
        let mut tables = String::new();
        for row in 0..rows {
            writeln!(tables, "[[cell]]\nfirst = {row}\nsecond = \"s{}\"", row % 2).unwrap();
        }
        let design = design(&(tables + &factor("other", factors, "")));
        prop_assert_eq!(design.cells.len(), rows * factors);
        for cell in &design.cells {
            let second = format!("s{}", number(cell, "first").unwrap() as usize % 2);
            prop_assert_eq!(&cell["second"], &Value::from(second.as_str()));
        }
        let names: Vec<&str> = design.factors.iter().map(|it| it.name.as_str()).collect();
        prop_assert_eq!(names, ["first", "second", "other"]);
    }

    #[test]
    fn each_step_of_a_ladder_adds_its_settings(
        steps in prop::collection::vec(prop::collection::btree_map("[abc]", 0_u8..9, 0..3), 2..6),
    ) {
        let mut tables = "[ladder]\nname = \"step\"\n".to_owned();
        for (nth, step) in steps.iter().enumerate() {
            let set: Vec<String> = step.iter().map(|(name, it)| format!("{name} = {it}")).collect();
            let set = set.join(", ");
            writeln!(tables, "[[ladder.step]]\nname = \"s{nth}\"\nset = {{ {set} }}").unwrap();
        }
        let design = design(&tables);
        let mut settings = BTreeMap::new();
        prop_assert_eq!(design.cells.len(), steps.len());
        for (nth, (step, cell)) in steps.iter().zip(&design.cells).enumerate() {
            settings.extend(step.clone());
            let mut expected: Factors = settings
                .iter()
                .map(|(name, it)| (name.clone(), Value::from(f64::from(*it))))
                .collect();
            expected.insert("step".to_owned(), Value::from(format!("s{nth}").as_str()));
            prop_assert_eq!(cell, &expected);
        }
        let ladder = design.factors.iter().find(|it| it.name == "step").unwrap();
        prop_assert_eq!(ladder.values.len(), steps.len());
        prop_assert_eq!(&ladder.values[0], &Value::from("s0"));
    }
}

/// The cells of the trials of a plan with that seed, by repeat.
fn blocks(tables: &str, seed: u64) -> Vec<Vec<u32>> {
    let content = content(tables, false);
    let plan = Plan {
        seed,
        ..content.plan().unwrap()
    };
    let trials = order::trials(&plan, &*content.kind);
    let of = |repeat| {
        trials
            .iter()
            .filter(move |it| it.repeat == repeat)
            .map(|it| it.cell)
    };
    assert!(trials.is_sorted_by_key(|it| it.repeat), "{trials:?}");
    (0..3).map(|repeat| of(repeat).collect()).collect()
}

#[test]
fn trials_are_made_in_randomised_complete_blocks() {
    let nested = factor("inner", 2, "only = { outer = [1] }");
    let tables = factor("outer", 3, "") + &nested;
    let mut firsts = [0; 4];
    for seed in 0..400 {
        let blocks = blocks(&tables, seed);
        assert_eq!(blocks, self::blocks(&tables, seed));
        for block in &blocks {
            let mut cells = block.clone();
            cells.sort_unstable();
            assert_eq!(cells, [0, 1, 2, 3]);
        }
        firsts[blocks[0][0] as usize] += 1;
    }
    // 100 each on average, with a standard deviation of 9.
    assert!(
        firsts.iter().all(|it| (60..=140).contains(it)),
        "{firsts:?}"
    );
}

#[test]
fn designs_beyond_their_bounds_are_refused() {
    let many = |count| {
        (0..count)
            .map(|it| factor(&format!("f{it}"), 1, ""))
            .collect::<String>()
    };
    #[rustfmt::skip]
    let table = [
        (factor("a", 0, ""), "plain.toml:7: `values` in [[factor]] has 0 entries, not 1 to 256"),
        (factor("a", 257, ""), "has 257 entries, not 1 to 256"),
        (factor("a", 150, "") + &factor("b", 150, ""), "tables make more than 20000 cells"),
        (many(17), "`factor` tables are 17, at most 16"),
        (factor("a b", 2, ""), "must be 1 to 64 letters, digits, `.`, `_` or `-`"),
        (factor("a", 1, "") + &factor("a", 2, ""), "tables declare `a` twice"),
        (factor("a", 2, "reference = 2"), "`reference` in [[factor]] is not among the values"),
        ("[[factor]]\nname = \"a\"\nvalues = [1, 1.0]\n".to_owned(), "holds a value twice"),
        ("[[cell]]\n\"a b\" = 1\n".to_owned(), "must be 1 to 64 letters"),
    ];
    for (tables, expected) in table {
        let refused = refusal(&tables);
        assert_has(&refused, expected);
    }
    assert_eq!(design(&many(16)).cells.len(), 1);
}

#[test]
fn a_misspelt_factor_in_only_or_with_has_a_suggestion() {
    let outer = factor("connections", 2, "");
    let only = outer.clone() + &factor("depth", 2, "only = { conections = [1] }");
    let refused = refusal(&only);
    let expected = "plain.toml:12: `only` in [[factor]] names `conections`, which is no factor above \
                    this one; did you mean `connections`?";
    assert_eq!(refused, expected);
    let value = outer + &factor("depth", 2, "only = { connections = [7] }");
    let refused = refusal(&value);
    assert_has(&refused, "has 7, which `connections` never is");

    // Such a factor would be crossed with the others, silently.
    let zipped = ["network", "network", "netwrok"].iter().enumerate();
    let zipped: String = zipped
        .map(|(nth, with)| factor(&format!("f{nth}"), 2, &format!("with = \"{with}\"")))
        .collect();
    let refused = refusal(&zipped);
    let expected = "`with` in [[factor]] is `netwrok`, as that of no other factor; did you mean \
                    `network`?";
    assert_has(&refused, expected);
}

#[test]
fn two_equal_cells_are_refused() {
    let rows = "[[cell]]\na = 1\nb = 2\n[[cell]]\na = 1\nb = 2\n";
    let zipped = "[[factor]]\nname = \"a\"\nvalues = [1, 1]\nwith = \"x\"\n\
                  [[factor]]\nname = \"b\"\nvalues = [2, 2]\nwith = \"x\"\n";
    for tables in [rows, zipped] {
        let refused = refusal(tables);
        assert_has(&refused, "tables make two cells with a 1, b 2");
    }
}

#[test]
fn a_ladder_with_ambiguous_steps_is_refused() {
    let ladder = |name: &str, second: &str| {
        format!(
            "[ladder]\nname = \"{name}\"\n[[ladder.step]]\nname = \"first\"\nset = {{ a = 1 }}\n\
             [[ladder.step]]\nname = \"{second}\"\nset = {{ a = 2 }}\n"
        )
    };
    #[rustfmt::skip]
    let table = [
        (ladder("step", "first"), "`name` in [[ladder.step]] is `first`, as that of an earlier step"),
        (ladder("a", "second"), "has `a`, which is the name of the ladder"),
        (ladder("a b", "second"), "`name` in [ladder] must be 1 to 64 letters"),
        ("[ladder]\nname = \"step\"\nstep = []\n".to_owned(), "at least two steps"),
    ];
    for (tables, expected) in table {
        let refused = refusal(&tables);
        assert_has(&refused, expected);
    }
    assert_eq!(design(&ladder("step", "second")).cells.len(), 2);
}

#[test]
fn names_that_a_report_could_not_tell_apart_are_refused_before_the_run() {
    for (name, expected) in [
        ("pips", "`pips` names two factors or metrics"),
        ("repeat", "`repeat` is a column of every run"),
    ] {
        let refused = refusal(&factor(name, 2, ""));
        assert_has(&refused, expected);
    }
}

#[test]
fn quick_changes_a_factor_by_its_name() {
    let tables = factor("a", 3, "unit = \"B\"")
        + &factor("b", 2, "")
        + "[quick]\nrepeats = 1\n[[quick.factor]]\nname = \"b\"\nvalues = [7]\n\
           [[quick.factor]]\nname = \"c\"\nvalues = [8, 9]\n";
    let [long, short] = [false, true].map(|quick| content(&tables, quick).design().unwrap());
    assert_eq!(long.cells.len(), 6);
    assert_eq!(short.cells.len(), 3 * 2);
    let cell = &short.cells[5];
    let numbers = ["a", "b", "c"].map(|name| number(cell, name));
    assert_eq!(numbers, [Some(2.0), Some(7.0), Some(9.0)]);
    assert_eq!(short.factors[0], long.factors[0]);
}
