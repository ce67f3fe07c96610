//! Published values beside those of a run: in the terminal, on the page and in figures.

use std::collections::BTreeMap;

use roxmltree::Document;

use crate::figure::{Figure, FigureKind};
use crate::published::{self, Published};
use crate::record::{Unit, Value};
use crate::tests::general_run::General;
use crate::tests::illustrated::drawn;
use crate::tests::kinds::in_data;
use crate::{page_of, text_summary};

const SOURCE: &str = "Smith 2016, table 2";

fn value(metric: &str, value: f64, only: &[(&str, Value)]) -> Published {
    let only = only
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    Published {
        metric: metric.to_owned(),
        value,
        unit: None,
        only: only.collect(),
        to: BTreeMap::new(),
        source: SOURCE.to_owned(),
    }
}

fn version(name: &str) -> (&str, Value) {
    ("version", Value::from(name))
}

fn threads(count: f64) -> (&'static str, Value) {
    ("threads", Value::from(count))
}

/// Version a took 4 s with one thread, and b 3 J with any number of threads.
fn run() -> General {
    let mut run = General::versions(7);
    let wall = value("wall_ns", 4.0, &[version("a"), threads(1.0)]);
    run.plan.published = vec![
        Published {
            unit: Some(Unit::from("s".to_owned())),
            ..wall
        },
        value("energy_j", 3.0, &[version("b")]),
    ];
    let figure = |kind, name: &str| Figure {
        x: Some("threads".to_owned()),
        by: Some("version".to_owned()),
        ..Figure::new(name, kind, "wall_ns")
    };
    run.plan.figures = vec![
        figure(FigureKind::Bars, "bars"),
        figure(FigureKind::Table, "table"),
    ];
    run
}

fn median(run: &General, cell: u32, metric: &str) -> f64 {
    let of_cell = run.records.iter().filter(|it| it.cell == cell);
    let values: Vec<f64> = of_cell.filter_map(|it| it.number(metric)).collect();
    measure::median(&values).unwrap()
}

/// The words of a line.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn the_terminal_has_them_beside_the_measured_values_with_their_ratio() {
    let run = run();
    let text = text_summary(&run.run());
    let lines: Vec<&str> = text.lines().collect();
    let head = lines
        .iter()
        .position(|it| it.starts_with("published values"));
    let head = head.unwrap();
    let ratio = median(&run, 0, "wall_ns") / 4e9;
    let line = words(lines[head + 1]);
    assert_eq!(line[..6], ["a", "·", "1", "wall_ns", "4.00", "s"]);
    assert_eq!(*line.last().unwrap(), format!("{ratio:.3}"));
    let of_b = lines[head + 2..head + 4].iter().map(|it| words(it));
    for (line, count) in of_b.zip(["1", "4"]) {
        assert_eq!(line[..6], ["b", "·", count, "energy_j", "3.00", "J"]);
    }
    let about = format!("Ratio: measured ÷ published. Published: {SOURCE}.");
    assert_eq!(lines[head + 4], about);
    assert!(lines.iter().all(|it| it.chars().count() <= 100), "{text}");
}

#[test]
fn without_them_nothing_is_said_of_them() {
    let mut run = run();
    run.plan.published.clear();
    let text = text_summary(&run.run());
    assert!(!text.contains("ublished"), "{text}");
    assert!(!page_of(&run.run()).unwrap().contains("id=\"published\""));
    assert!(!drawn(&run, "bars").svg.contains("ublished"));
    assert!(!drawn(&run, "table").svg.contains("ublished"));
    // A plan of a build that did not know them.
    let plan = toml::to_string(&run.plan).unwrap();
    assert!(!plan.contains("published"), "{plan}");
}

#[test]
fn a_value_without_a_measurement_is_shown_as_missing() {
    let mut run = run();
    run.records.retain(|it| it.cell != 0);
    let text = text_summary(&run.run());
    let line = text
        .lines()
        .find(|it| it.starts_with("a · 1") && it.contains("wall_ns"));
    assert_eq!(words(line.unwrap())[6..], ["–", "–"]);
}

#[test]
fn the_page_has_a_row_for_each_cell_with_its_source() {
    let html = page_of(&run().run()).unwrap().replace('\u{a0}', " ");
    let (_, part) = html.split_once("<h2 id=\"published\">").unwrap();
    let (part, _) = part.split_once("</details>").unwrap();
    assert_eq!(part.matches(SOURCE).count(), 3);
    assert_eq!(part.matches("<td>3.00 J</td>").count(), 2);
    assert_eq!(part.matches("<td>4.00 s</td>").count(), 1);
}

#[test]
fn bars_mark_them_and_name_their_source() {
    let run = run();
    let bars = drawn(&run, "bars");
    let document = Document::parse(&bars.svg).unwrap();
    let marks = in_data(&document, "published");
    assert_eq!(marks.len(), 1);
    // It is twice as long as the bar, and the plot reaches it.
    let at = marks[0].attribute("transform").unwrap();
    let (_, y) = at.trim_end_matches(')').split_once(' ').unwrap();
    let plot = document
        .descendants()
        .find_map(|it| it.attribute("data-plot"));
    let (_, sides) = plot.unwrap().split_once(' ').unwrap();
    let (top, _) = sides.split_once(' ').unwrap();
    let [y, top] = [y, top].map(|it| it.parse::<f64>().unwrap());
    assert!(y >= top, "{y} {top}");
    let hint = marks[0].descendants().find_map(|it| it.text()).unwrap();
    let hint = hint.replace('\u{a0}', " ");
    assert_eq!(
        hint,
        format!("a, with 1 threads: published 4.00 s, {SOURCE}")
    );
    let row = [("curve", "a"), ("row", "published"), ("threads", "1")];
    assert_eq!(bars.numbers("wall_ns", &row), [4e9]);
    assert!(bars.svg.contains(&format!("Published: {SOURCE}.")));
}

#[test]
fn tables_have_them_below_the_measured_values() {
    let run = run();
    let table = drawn(&run, "table");
    assert!(
        table
            .svg
            .replace('\u{a0}', " ")
            .contains("published 4.00 s")
    );
    let row = [("curve", "a"), ("threads", "1")];
    assert_eq!(table.numbers("published", &row), [4e9]);
    assert_eq!(table.column("source", &row), [SOURCE]);
    assert_eq!(table.column("published", &[("curve", "b")]), ["", ""]);
    let html = page_of(&run.run()).unwrap().replace('\u{a0}', " ");
    assert!(html.contains("<span class=\"range\">published 4.00 s</span>"));
}

#[test]
fn a_published_ratio_stands_beside_the_quotient_of_two_medians() {
    let mut run = run();
    run.plan.published = vec![Published {
        to: [version("b")]
            .map(|(name, it)| (name.to_owned(), it))
            .into(),
        ..value("wall_ns", 2.0, &[version("a"), threads(1.0)])
    }];
    assert_eq!(published::check(&run.plan), Ok(()));
    let [of, to] = [0, 2].map(|cell| median(&run, cell, "wall_ns"));
    let expected = format!("<td>{:.2}</td>", of / to);
    let html = page_of(&run.run()).unwrap().replace('\u{a0}', " ");
    let (_, row) = html.split_once("time ÷ version b").unwrap();
    let row = row.split_once("</tr>").unwrap().0;
    assert!(row.contains(&expected), "{expected}: {row}");
    let text = text_summary(&run.run());
    let line = text.lines().find(|it| it.starts_with("a · 1 ÷ version b "));
    assert!(line.unwrap().contains(" wall_ns "), "{text}");
    // It marks no bar: it is no value of the metric.
    assert!(!drawn(&run, "bars").svg.contains(SOURCE));
}

/// A ratio of cells of version a to one with other values.
fn ratio(to: &[(&str, Value)]) -> Published {
    let to = to
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    Published {
        to: to.collect(),
        ..value("wall_ns", 2.0, &[version("a")])
    }
}

#[test]
fn the_other_cell_of_a_ratio_is_named_by_what_differs() {
    let mut run = run();
    run.plan.published = vec![ratio(&[threads(4.0), version("b")])];
    assert_eq!(published::check(&run.plan), Ok(()));
    let text = text_summary(&run.run());
    let (_, part) = text.split_once("\npublished values").unwrap();
    let names = part.lines().filter_map(|it| it.split_once(" wall_ns "));
    let names: Vec<&str> = names.map(|(name, _)| name.trim_end()).collect();
    let expected = ["a · 1 ÷ threads 4, version b", "a · 4 ÷ version b"];
    assert_eq!(names, expected, "{text}");
    let html = page_of(&run.run()).unwrap().replace('\u{a0}', " ");
    assert!(html.contains("time ÷ threads 4, version b<"), "{html}");
}

#[test]
fn a_ratio_to_no_cell_or_to_several_is_refused() {
    let refused = |run: &General| {
        let (_, key, problem) = published::check(&run.plan).unwrap_err();
        format!("{key} {problem}")
    };
    let not_one = "to matches not one cell for each of `only`: name more factors";
    let mut run = run();
    run.plan.published = vec![ratio(&[version("d")])];
    let unknown = refused(&run);
    assert!(unknown.contains("has no value `d`"), "{unknown}");

    // No cell has both values. The cells are those of version a, b and c with 1 and 4 threads.
    run.plan.published = vec![ratio(&[version("b"), threads(4.0)])];
    assert_eq!(published::check(&run.plan), Ok(()));
    run.plan.stages[0].cells.remove(3);
    assert_eq!(refused(&run), not_one);

    // One of the cells is the other one.
    run.plan.published = vec![ratio(&[threads(1.0)])];
    assert_eq!(refused(&run), not_one);

    // The first cell has no number of threads, so no cell differs in the version alone, and those
    // with version c are two.
    run.plan.published = vec![ratio(&[version("c")])];
    assert_eq!(published::check(&run.plan), Ok(()));
    run.plan.stages[0].cells[0].remove("threads");
    assert_eq!(refused(&run), not_one);
}

#[test]
fn a_ratio_has_no_unit() {
    let mut run = run();
    run.plan.published[0].to = [("threads".to_owned(), Value::from(4.0))].into();
    let (_, key, _) = published::check(&run.plan).unwrap_err();
    assert_eq!(key, "unit");
}

#[test]
fn a_point_that_combines_other_cells_too_has_none() {
    let mut run = run();
    run.plan.figures[0].by = None;
    let bars = drawn(&run, "bars");
    let document = Document::parse(&bars.svg).unwrap();
    assert_eq!(in_data(&document, "published").len(), 0);
}

#[test]
fn wrong_ones_are_refused_with_what_is_known() {
    let refused = |published: Published| {
        let mut run = run();
        run.plan.published.push(published);
        let (nth, key, problem) = published::check(&run.plan).unwrap_err();
        assert_eq!(nth, 2);
        format!("{key} {problem}")
    };
    assert_eq!(
        refused(value("wal_ns", 1.0, &[])),
        "metric is wrong: no metric is named `wal_ns`; the nearest known: `wall_ns`"
    );
    let misspelt = refused(value("drift_ns", 1.0, &[("thread", Value::from(1.0))]));
    assert_eq!(
        misspelt,
        "only is wrong: no factor is named `thread`; the nearest known: `threads`"
    );
    assert_eq!(
        refused(value("drift_ns", 1.0, &[threads(2.0)])),
        "only is wrong: `threads` has no value `2`; it has `1` and `4`"
    );
    let again = refused(value("energy_j", 1.0, &[threads(1.0)]));
    assert!(
        again.starts_with("only matches a cell for which 3 of `energy_j` is given"),
        "{again}"
    );
    let infinite = refused(value("drift_ns", f64::INFINITY, &[]));
    assert!(infinite.starts_with("value is inf"), "{infinite}");
    let unit = refused(Published {
        unit: Some(Unit::bytes()),
        ..value("drift_ns", 1.0, &[])
    });
    assert_eq!(unit, "unit is `B`, but `drift_ns` is in `ns`");
    let source = refused(Published {
        source: " ".to_owned(),
        ..value("drift_ns", 1.0, &[])
    });
    assert!(source.starts_with("source is empty"), "{source}");
    assert_eq!(published::check(&run().plan), Ok(()));
}
