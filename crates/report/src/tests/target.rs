//! Targets: how they are judged, what is told of trials left out, and what is refused.

use std::collections::BTreeMap;

use crate::record::{Outcome, Unit, Value};
use crate::target::{self, Target, Verdict, judged};
use crate::tests::general_run::{General, invalid};
use crate::{page_of, text_summary};

fn cell(version: &str, threads: f64) -> BTreeMap<String, Value> {
    BTreeMap::from([
        ("version".to_owned(), Value::from(version)),
        ("threads".to_owned(), Value::from(threads)),
    ])
}

fn target(metric: &str, of: BTreeMap<String, Value>) -> Target {
    Target {
        name: "a target".to_owned(),
        metric: metric.to_owned(),
        of,
        to: BTreeMap::new(),
        unit: None,
        at_most: None,
        at_least: None,
        below: None,
        above: None,
    }
}

/// The time of version b as a share of that of a: 0.8.
fn ratio() -> Target {
    let to = BTreeMap::from([("version".to_owned(), Value::from("a"))]);
    Target {
        to,
        ..target("wall_ns", cell("b", 1.0))
    }
}

fn verdict(run: &mut General, target: Target) -> Verdict {
    run.plan.targets = vec![target];
    judged(&run.run()).remove(0).verdict
}

#[test]
fn a_ratio_is_go_missed_or_not_decided_by_its_whole_interval() {
    let mut run = General::versions(7);
    let mut of = |at_most| {
        let target = Target {
            at_most: Some(at_most),
            ..ratio()
        };
        verdict(&mut run, target)
    };
    assert_eq!(of(0.9), Verdict::Go);
    assert_eq!(of(0.7), Verdict::Missed);
    assert!(matches!(of(0.8), Verdict::NotDecided(reason) if reason.contains("interval")));
    let mut of = |above| {
        let target = Target {
            above: Some(above),
            ..ratio()
        };
        verdict(&mut run, target)
    };
    assert_eq!((of(0.7), of(0.9)), (Verdict::Go, Verdict::Missed));
}

#[test]
fn a_bound_on_one_cell_is_in_its_own_unit() {
    let mut run = General::versions(7);
    // Two seconds.
    let target = Target {
        unit: Some(Unit::from("s".to_owned())),
        below: Some(2.2),
        ..target("wall_ns", cell("a", 1.0))
    };
    assert_eq!(verdict(&mut run, target.clone()), Verdict::Go);
    let missed = Target {
        below: Some(1.8),
        ..target
    };
    assert_eq!(verdict(&mut run, missed), Verdict::Missed);
    let judged = judged(&run.run()).remove(0);
    assert_eq!(judged.name, "a target: below 1.80\u{a0}s");
    assert!(judged.figure.contains("s ["), "{}", judged.figure);
}

#[test]
fn values_that_do_not_count_are_left_out_and_counted() {
    let mut run = General::versions(7);
    let target = Target {
        at_most: Some(0.9),
        of: cell("b", 4.0),
        ..ratio()
    };
    run.plan.targets = vec![target];
    // Of these cells, one trial does not count, one failed.
    let it = judged(&run.run()).remove(0);
    assert_eq!(it.verdict, Verdict::Go);
    assert!(it.left_out.starts_with("1 of "), "{}", it.left_out);
    assert!(
        it.left_out.contains("do not count (clock stepped); 1 of "),
        "{}",
        it.left_out
    );
    assert!(it.left_out.ends_with("missing"), "{}", it.left_out);
    // With most values invalid, the others are a biased sample.
    for repeat in 0..9 {
        let measured = run.measured(&format!("main-003-{repeat:02}"));
        measured
            .flags
            .insert("wall_ns".to_owned(), invalid("clock stepped"));
    }
    let it = judged(&run.run()).remove(0);
    assert!(matches!(&it.verdict, Verdict::NotDecided(why) if why.contains("do not count")));
    assert_eq!(it.figure, "");
}

#[test]
fn a_few_trials_that_succeed_among_many_that_fail_decide_nothing() {
    let mut run = General::versions(7);
    run.plan.targets = vec![Target {
        at_most: Some(0.9),
        of: cell("b", 4.0),
        ..ratio()
    }];
    let fail = |run: &mut General, repeats: std::ops::Range<u32>| {
        for record in run.records.iter_mut().filter(|it| it.cell == 3) {
            if repeats.contains(&record.repeat) {
                record.outcome = Outcome::Failed("it ended".to_owned());
            }
        }
    };
    // Of twelve trials, one does not count already.
    fail(&mut run, 7..12);
    assert_eq!(judged(&run.run()).remove(0).verdict, Verdict::Go);
    fail(&mut run, 6..7);
    let it = judged(&run.run()).remove(0);
    assert!(matches!(&it.verdict, Verdict::NotDecided(why) if why.contains("more than half")));
    assert_ne!(it.figure, "");
}

#[test]
fn measured_trials_without_the_metric_are_counted_as_the_missing_ones_are() {
    let mut run = General::versions(7);
    run.plan.targets = vec![Target {
        at_most: Some(0.9),
        of: cell("b", 4.0),
        ..ratio()
    }];
    let without = |run: &mut General, repeats: std::ops::Range<u32>| {
        for repeat in repeats {
            let measured = run.measured(&format!("main-003-{repeat:02}"));
            measured.metrics.remove("wall_ns");
        }
    };
    without(&mut run, 7..12);
    let it = judged(&run.run()).remove(0);
    assert_eq!(it.verdict, Verdict::Go);
    let counted = it
        .left_out
        .contains("; 5 of 24 trials have no value; 1 of 24");
    assert!(counted, "{}", it.left_out);
    without(&mut run, 6..7);
    let it = judged(&run.run()).remove(0);
    assert!(matches!(&it.verdict, Verdict::NotDecided(why) if why.contains("more than half")));
}

#[test]
fn a_lower_bound_decides_only_what_higher_values_cannot_reverse() {
    let mut run = General::versions(7);
    let measured = run.measured("main-002-02");
    let flag = measured.flags.entry("wall_ns".to_owned()).or_default();
    flag.lower_bound = true;
    let of = |at_most: Option<f64>, at_least: Option<f64>| Target {
        at_most,
        at_least,
        ..ratio()
    };
    let reversed = verdict(&mut run, of(Some(0.9), None));
    assert!(matches!(reversed, Verdict::NotDecided(why) if why.contains("lower bounds")));
    assert_eq!(verdict(&mut run, of(Some(0.7), None)), Verdict::Missed);
    assert_eq!(verdict(&mut run, of(None, Some(0.7))), Verdict::Go);
    let reversed = verdict(&mut run, of(None, Some(0.9)));
    assert!(matches!(reversed, Verdict::NotDecided(why) if why.contains("lower bounds")));
}

#[test]
fn few_trials_and_absent_cells_decide_nothing() {
    let mut run = General::versions(7);
    run.plan.targets = vec![Target {
        at_most: Some(0.9),
        ..ratio()
    }];
    run.records.retain(|it| it.repeat < 2);
    let it = judged(&run.run()).remove(0);
    assert!(matches!(&it.verdict, Verdict::NotDecided(why) if why.contains("too few")));
    assert_ne!(it.figure, "");
    for record in &mut run.records {
        record.outcome = Outcome::Failed("it ended".to_owned());
    }
    let it = judged(&run.run()).remove(0);
    assert!(matches!(&it.verdict, Verdict::NotDecided(why) if why.contains("no trial")));
    // Such as of a server that is not installed.
    run.plan.stages[0].cells.truncate(2);
    run.records.retain(|it| it.cell < 2);
    let it = judged(&run.run()).remove(0);
    assert!(matches!(&it.verdict, Verdict::NotDecided(why) if why.contains("does not have")));
}

#[test]
fn terminal_and_page_have_a_line_for_each() {
    let mut run = General::versions(7);
    let without = text_summary(&run.run());
    assert!(!without.contains("targets"), "{without}");
    assert!(!page_of(&run.run()).unwrap().contains("id=\"targets\""));
    run.plan.targets = vec![
        Target {
            at_most: Some(0.9),
            ..ratio()
        },
        Target {
            name: "<b>".to_owned(),
            at_most: Some(0.8),
            ..ratio()
        },
    ];
    let text = text_summary(&run.run());
    let line = text
        .lines()
        .find(|it| it.starts_with("a target: at most 0.9"));
    assert!(line.is_some_and(|it| it.ends_with("go")), "{text}");
    let long = "n".repeat(80);
    run.plan.targets[0].name.clone_from(&long);
    let cut = text_summary(&run.run());
    assert!(cut.contains(&format!("{long}: at most 0.90")), "{cut}");
    assert!(
        text.contains("not decided\n  the interval contains the bound"),
        "{text}"
    );
    assert!(text.lines().all(|it| it.chars().count() <= 100), "{text}");
    let page = page_of(&run.run()).unwrap();
    assert!(page.contains(">go</td>") && page.contains("&#60;b&#62;"));
}

#[test]
fn a_wrong_target_is_refused_with_its_key() {
    let refused = |target: Target| {
        let mut run = General::versions(7);
        run.plan.targets = vec![target];
        let (nth, key, problem) = target::check(&run.plan).unwrap_err();
        assert_eq!(nth, 0);
        (key, problem)
    };
    let good = Target {
        at_most: Some(1.0),
        ..ratio()
    };
    let mut run = General::versions(7);
    run.plan.targets = vec![good.clone()];
    target::check(&run.plan).unwrap();
    let both = Target {
        below: Some(1.0),
        ..good.clone()
    };
    assert!(refused(both).1.contains("not one bound"));
    assert_eq!(refused(ratio()).0, "name");
    let metric = Target {
        metric: "wall".to_owned(),
        ..good.clone()
    };
    assert_eq!(refused(metric).0, "metric");
    let several = Target {
        of: BTreeMap::from([("version".to_owned(), Value::from("b"))]),
        ..good.clone()
    };
    assert_eq!(refused(several).0, "of");
    let unknown = Target {
        of: cell("d", 1.0),
        ..good.clone()
    };
    assert_eq!(refused(unknown).0, "of");
    let itself = Target {
        to: cell("b", 1.0),
        ..good.clone()
    };
    assert_eq!(refused(itself).0, "to");
    let unit = Target {
        unit: Some(Unit::from("s".to_owned())),
        ..good
    };
    assert_eq!(refused(unit).0, "unit");
}
