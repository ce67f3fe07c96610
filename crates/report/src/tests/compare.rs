//! Two runs compared with each other, and the cells of one.

use std::path::PathBuf;

use crate::Run;
use crate::compare::{Bound, Compared, circumstances, compare, joined};
use crate::record::{Better, Factors, Measured, Outcome, Repeats, Value};
use crate::tests::general_run::{General, SplitMix, metric};

/// A run of seed `seed` whose wall times are `factor` times as long, in a folder of that name.
fn run(name: &str, seed: u64, factor: f64) -> Run {
    let mut general = General::versions(seed);
    for record in &mut general.records {
        if let Outcome::Measured(measured) = &mut record.outcome {
            measured
                .metrics
                .entry("wall_ns".to_owned())
                .and_modify(|it| *it *= factor);
        }
    }
    Run {
        folder: PathBuf::from("runs").join(name),
        ..general.run()
    }
}

fn bounds(texts: &[&str]) -> Vec<Bound> {
    texts.iter().map(|it| it.parse().unwrap()).collect()
}

fn wall(first: &Run, second: &Run, bounds: &[Bound]) -> Compared {
    let joined = joined(&[first, second]).unwrap();
    compare(&joined, &["wall_ns".to_owned()], bounds).unwrap()
}

/// The verdicts, by cell.
fn verdicts(compared: &Compared) -> Vec<String> {
    let cells = compared
        .text
        .lines()
        .filter(|it| it.contains(" · threads "));
    let verdict = |line: &str| line.split("]").nth(1).unwrap_or(line).trim().to_owned();
    cells.map(verdict).collect()
}

#[test]
fn a_run_that_is_a_tenth_slower_is_told_for_every_cell() {
    let compared = wall(&run("old", 1, 1.0), &run("new", 2, 1.1), &[]);
    assert!(
        compared.text.contains("Baseline: run old."),
        "{}",
        compared.text
    );
    assert!(
        compared.text.contains("lower is better"),
        "{}",
        compared.text
    );
    let verdicts = verdicts(&compared);
    assert_eq!(verdicts.len(), 6, "{}", compared.text);
    for verdict in verdicts {
        assert!(verdict.ends_with("% higher: worse"), "{verdict}");
    }
    // Every cell of the other run is compared with the same cell of the baseline.
    for cell in ["a · threads 1", "c · threads 4"] {
        assert!(compared.text.contains(cell), "{}", compared.text);
    }
}

#[test]
fn two_runs_of_the_same_program_differ_by_no_more_than_a_figure() {
    let compared = wall(
        &run("old", 1, 1.0),
        &run("new", 2, 1.0),
        &bounds(&["wall_ns > 1.05x"]),
    );
    let called = verdicts(&compared)
        .iter()
        .filter(|it| !it.contains("no difference"))
        .count();
    assert!(called <= 1, "{}", compared.text);
    assert!(compared.exceeded.is_empty(), "{:?}", compared.exceeded);
}

#[test]
fn a_bound_is_exceeded_only_if_the_whole_interval_lies_beyond_it() {
    let (old, new) = (run("old", 1, 1.0), run("new", 2, 1.1));
    // Trials vary by 5 % in each direction, so of 12 and 12 the interval is some per cent wide.
    for (bound, exceeded) in [
        ("wall_ns > 1.02x", 6),
        ("wall_ns > 1.1x", 0),
        ("wall_ns > 1.2x", 0),
        ("wall_ns < 1.2x", 6),
        ("wall_ns < 0.95x", 0),
    ] {
        let compared = wall(&old, &new, &bounds(&[bound]));
        assert_eq!(
            compared.exceeded.len(),
            exceeded,
            "{bound}: {}",
            compared.text
        );
    }
    let compared = wall(&old, &new, &bounds(&["wall_ns > 1.02x"]));
    assert!(
        compared.exceeded[0].starts_with("wall_ns > 1.02x: "),
        "{:?}",
        compared.exceeded
    );
    // The same runs the other way round.
    let compared = wall(&new, &old, &bounds(&["wall_ns < 0.98x", "wall_ns > 1.02x"]));
    assert_eq!(compared.exceeded.len(), 6, "{}", compared.text);
}

#[test]
fn the_cells_of_one_run_are_compared_too() {
    let compared = compare(&run("only", 1, 1.0), &["wall_ns".to_owned()], &[]).unwrap();
    assert!(
        compared.text.contains("Baseline: version a."),
        "{}",
        compared.text
    );
    let better = compared
        .text
        .lines()
        .filter(|it| it.contains("lower: better"));
    assert_eq!(
        better.count(),
        2,
        "version b takes 0.8 of the time: {}",
        compared.text
    );
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_reason() {
    let (old, new) = (run("old", 1, 1.0), run("new", 2, 1.0));
    let both = joined(&[&old, &new]).unwrap();
    let unknown = compare(&both, &["latency".to_owned()], &[]).unwrap_err();
    assert!(
        unknown.contains("`latency`") && unknown.contains("wall_ns"),
        "{unknown}"
    );
    let unknown = compare(&both, &[], &bounds(&["resident_bytes > 2x"])).unwrap_err();
    assert!(
        unknown.contains("`resident_bytes`"),
        "it has no better direction: {unknown}"
    );
    let drift = compare(&both, &[], &bounds(&["drift_ns > 2x"])).unwrap_err();
    assert!(drift.contains("no ratio"), "{drift}");
    let same = joined(&[&old, &old]).unwrap_err();
    assert!(same.contains("same folder"), "{same}");
    let mut other = new.clone();
    other.plan.kind = "cache".to_owned();
    assert!(
        joined(&[&old, &other])
            .unwrap_err()
            .contains("kind program and cache")
    );
    let mut other = new.clone();
    other.plan.factors.pop();
    let factors = joined(&[&old, &other]).unwrap_err();
    assert!(
        factors.contains("threads and version") && factors.contains("one"),
        "{factors}"
    );
    let (mut first, mut second) = (old.clone(), new.clone());
    for plan in [&mut first.plan, &mut second.plan] {
        plan.factors[1].name = "run".to_owned();
    }
    let taken = joined(&[&first, &second]).unwrap_err();
    assert!(taken.contains("factor `run`"), "{taken}");
    for text in [
        "wall_ns",
        "wall_ns > 5 %",
        "> 1.05x",
        "wall_ns > 0x",
        "wall_ns > -1x",
        "a > b < 1x",
    ] {
        let error = text.parse::<Bound>().unwrap_err();
        assert!(error.contains("METRIC > FACTORx"), "{error}");
    }
}

#[test]
fn cells_that_only_one_run_has_are_counted_and_not_compared() {
    let old = run("old", 1, 1.0);
    let mut new = run("new", 2, 1.1);
    let added = Value::from(8.0);
    let cell = Factors::from([
        ("version".to_owned(), Value::from("a")),
        ("threads".to_owned(), added.clone()),
    ]);
    let stage = &mut new.plan.stages[0];
    let index = stage.cells.len() as u32;
    stage.cells.push(cell.clone());
    let mut record = new.records[0].clone();
    record.id = "main-006-00".to_owned();
    (record.cell, record.factors) = (index, cell);
    new.records.push(record);
    let compared = wall(&old, &new, &[]);
    assert_eq!(verdicts(&compared).len(), 6, "{}", compared.text);
    assert!(
        compared.text.contains("1 cell had no cell"),
        "{}",
        compared.text
    );
}

#[test]
fn differing_circumstances_are_stated() {
    let old = run("old", 1, 1.0);
    let mut new = run("new", 1, 1.0);
    assert_eq!(circumstances(&old, &new).len(), 1);
    new.host.kernel = "Linux 9.9".to_owned();
    new.plan.quick = true;
    let sentences = circumstances(&old, &new).join("\n");
    assert!(
        sentences.contains("Different kernel: ") && sentences.contains("Linux 9.9"),
        "{sentences}"
    );
    assert!(sentences.contains("\"full\" and \"quick\""), "{sentences}");
}

/// A run as `shape`, with `repeats` trials of each of its six cells. Their times vary by two
/// hundredths in each direction around `mean`.
fn of_cells(shape: &Run, random: &mut SplitMix, repeats: u32, mean: f64) -> Run {
    let mut run = shape.clone();
    run.plan.metrics = vec![metric("wall_ns", "wall time", "ns", Better::Lower)];
    run.plan.figures.clear();
    run.plan.stages[0].repeats = Repeats::fixed(repeats);
    let template = run.records[0].clone();
    let cells = run.plan.stages[0].cells.clone();
    run.records.clear();
    for (cell, factors) in (0..).zip(cells) {
        for repeat in 0..repeats {
            let wall_ns = mean * random.about(0.02);
            run.records.push(crate::record::Record {
                id: format!("main-{cell:03}-{repeat:02}"),
                cell,
                repeat,
                factors: factors.clone(),
                outcome: Outcome::Measured(Measured {
                    metrics: [("wall_ns".to_owned(), wall_ns)].into(),
                    ..Measured::default()
                }),
                ..template.clone()
            });
        }
    }
    run
}

/// Of `pairs` pairs of runs whose second one takes `factor` times as long, the share with a
/// comparison that is decided, and the share of decided comparisons.
fn decided(pairs: u32, factor: f64) -> (f64, f64) {
    let mut random = SplitMix(11);
    let shapes = ["old", "new"].map(|name| run(name, 1, 1.0));
    let (mut families, mut comparisons) = (0, 0);
    for _ in 0..pairs {
        let old = of_cells(&shapes[0], &mut random, 8, 1e9);
        let new = of_cells(&shapes[1], &mut random, 8, 1e9 * factor);
        let text = wall(&old, &new, &[]).text;
        let called = text.matches(": worse").count() + text.matches(": better").count();
        families += u32::from(called > 0);
        comparisons += called;
    }
    let pairs = f64::from(pairs);
    (
        f64::from(families) / pairs,
        comparisons as f64 / (6.0 * pairs),
    )
}

#[test]
fn the_stated_rate_of_errors_holds_over_ten_thousand_comparisons() {
    // Six comparisons a pair. At most 5 % of the pairs may have one that is called; three standard
    // deviations of the count are 1.6 %.
    let (families, _) = decided(1700, 1.0);
    assert!(families < 0.066, "{families}");
    assert!(
        families > 0.005,
        "a test that never calls would hold any rate: {families}"
    );
    // A difference of 3 % is found, with times that vary by 2 % in each direction.
    let (_, found) = decided(100, 1.03);
    assert!(found > 0.8, "{found}");
}
