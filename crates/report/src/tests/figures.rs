//! The figures: every trial drawn, the limited ones hollow, the missing ones said to be missing.

use std::fs;
use std::path::{Path, PathBuf};

use roxmltree::{Document, Node};

use crate::render;
use crate::tests::general_run::General;
use crate::tests::ladder::{LEVELS, REPEATS, ladder};

/// One of the figures of a run.
fn figure(run: &General, name: &str) -> String {
    let figures = crate::figures_of(&run.run()).unwrap();
    figures
        .into_iter()
        .find(|figure| figure.name == name)
        .unwrap()
        .svg
}

/// Elements of the data (not the legend) with a class.
fn in_data<'a>(document: &'a Document, class: &str) -> Vec<Node<'a, 'a>> {
    let of_class = |node: &Node, class: &str| {
        node.attribute("class")
            .is_some_and(|of| of.split(' ').any(|name| name == class))
    };
    let data = document
        .descendants()
        .find(|node| of_class(node, "data"))
        .expect("data");
    data.descendants()
        .filter(|node| of_class(node, class))
        .collect()
}

#[test]
fn every_measured_trial_is_a_marker_and_limited_ones_are_hollow() {
    let ladder = ladder(2);
    let measured = 2 * LEVELS.len() * REPEATS as usize - 3;
    for stem in ["throughput", "tail", "cpu"] {
        let svg = figure(&ladder, stem);
        let document = Document::parse(&svg).unwrap();
        let marks = in_data(&document, "mark");
        assert_eq!(marks.len(), measured, "{stem}");
        let hollow = in_data(&document, "hollow");
        assert_eq!(hollow.len(), 10, "{stem}");
        assert!(
            hollow
                .iter()
                .all(|mark| mark.attribute("fill") == Some("none"))
        );
        let filled = marks
            .iter()
            .filter(|mark| mark.attribute("fill") != Some("none"))
            .count();
        assert_eq!(filled, measured - 10);
        // Every marker has a tooltip with its value.
        let hint = marks[0]
            .children()
            .find(|node| node.has_tag_name("title"))
            .unwrap();
        assert!(hint.text().unwrap().contains("curtail: "), "{hint:?}");
    }
}

#[test]
fn median_maximum_and_minimum_differ_without_colour() {
    let svg = figure(&ladder(2), "tail");
    let document = Document::parse(&svg).unwrap();
    let dashes = |class: &str| -> Vec<_> {
        in_data(&document, class)
            .iter()
            .map(|line| line.attribute("stroke-dasharray").unwrap().to_owned())
            .collect()
    };
    assert_eq!(dashes("median"), ["none", "none"]);
    assert_eq!(dashes("maximum"), ["7 4", "7 4"]);
    assert_eq!(dashes("minimum"), ["1.5 3.5", "1.5 3.5"]);
    let shapes: Vec<_> = in_data(&document, "server")
        .iter()
        .filter_map(|server| server.children().find(|node| node.has_tag_name("path")))
        .map(|mark| {
            (
                mark.attribute("d").unwrap(),
                mark.attribute("stroke").unwrap(),
            )
        })
        .collect();
    assert_eq!(shapes.len(), 2);
    assert!(
        shapes[0].0 != shapes[1].0 && shapes[0].1 != shapes[1].1,
        "{shapes:?}"
    );
}

#[test]
fn missing_trials_are_noted_under_the_figure() {
    let svg = figure(&ladder(2), "tail");
    let document = Document::parse(&svg).unwrap();
    assert_eq!(in_data(&document, "absent").len(), 2);
    for words in [
        "Missing: 3 trials: curtail, level 1.0 (1) and memcached, level 0.7 (2).",
        "Hollow: 10 of 237",
    ] {
        assert!(svg.contains(words), "{words}\n{svg}");
    }
}

#[test]
fn a_cell_without_a_measurement_breaks_the_lines() {
    let mut ladder = ladder(2);
    ladder
        .records
        .retain(|trial| !trial.id.starts_with("s-memcached-3-"));
    let svg = figure(&ladder, "cpu");
    let document = Document::parse(&svg).unwrap();
    let medians: Vec<usize> = in_data(&document, "median")
        .iter()
        .map(|line| line.attribute("points").unwrap().split(' ').count())
        .collect();
    assert_eq!(medians, [8, 3, 4]);
}

#[test]
fn the_knee_is_ringed_and_named() {
    let svg = figure(&ladder(2), "tail");
    let document = Document::parse(&svg).unwrap();
    assert_eq!(in_data(&document, "knee").len(), 2);
    assert!(svg.contains("curtail (knee 193\u{a0}k/s)"), "{svg}");
}

#[test]
fn only_throughput_has_the_diagonal() {
    let ladder = ladder(2);
    for (stem, guides) in [("throughput", 1), ("tail", 0), ("cpu", 0)] {
        let svg = figure(&ladder, stem);
        let document = Document::parse(&svg).unwrap();
        assert_eq!(in_data(&document, "guide").len(), guides, "{stem}");
    }
}

#[test]
fn all_data_lies_within_the_frame_and_the_legend_without() {
    for stem in ["throughput", "tail", "cpu"] {
        let svg = figure(&ladder(2), stem);
        let document = Document::parse(&svg).unwrap();
        let frame: Vec<f64> = in_data(&document, "data")[0]
            .attribute("data-plot")
            .unwrap()
            .split(' ')
            .map(|side| side.parse().unwrap())
            .collect();
        let (left, top) = (frame[0], frame[1]);
        let (right, bottom) = (left + frame[2], top + frame[3]);
        for mark in in_data(&document, "mark") {
            let (x, y) = position(&mark);
            assert!(
                left < x && x < right && top < y && y < bottom,
                "{stem}: {x}, {y}"
            );
        }
        let legend = document
            .descendants()
            .find(|n| n.attribute("class") == Some("legend"));
        for text in legend
            .unwrap()
            .descendants()
            .filter(|node| node.has_tag_name("text"))
        {
            let x: f64 = text.attribute("x").unwrap().parse().unwrap();
            let y: f64 = text.attribute("y").unwrap().parse().unwrap();
            assert!(y < top - 5.0 && x < 700.0, "{text:?}");
        }
    }
}

fn position(mark: &Node) -> (f64, f64) {
    let at = mark.attribute("transform").unwrap();
    let (x, y) = at
        .trim_start_matches("translate(")
        .trim_end_matches(')')
        .split_once(' ')
        .unwrap();
    (x.parse().unwrap(), y.parse().unwrap())
}

#[test]
fn figures_are_for_papers_and_say_nothing_that_is_no_number() {
    for stem in ["throughput", "tail", "cpu"] {
        let svg = figure(&ladder(2), stem);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{stem}");
        assert!(svg.contains(r#"font-family="sans-serif""#));
        assert!(svg.contains(r##"fill="#FFFFFF""##), "white paper");
    }
}

#[test]
fn runs_with_little_in_them_still_draw() {
    let mut empty = ladder(2);
    empty.records.clear();
    let mut one = ladder(2);
    one.records.truncate(1);
    let mut blind = ladder(2);
    blind.measured("s-curtail-0-00").metrics.clear();
    let mut zero = ladder(2);
    let metrics = &mut zero.measured("s-curtail-0-00").metrics;
    metrics.values_mut().for_each(|it| *it = 0.0);
    for (name, run) in [
        ("empty", empty),
        ("one", one),
        ("blind", blind),
        ("zero", zero),
    ] {
        for stem in ["throughput", "tail", "cpu"] {
            let svg = figure(&run, stem);
            assert!(
                !svg.contains("NaN") && !svg.contains("inf"),
                "{name} {stem}"
            );
            Document::parse(&svg).unwrap();
        }
    }
}

#[test]
fn only_requested_figures_are_drawn_each_once() {
    let place = tempfile::tempdir().unwrap();
    let mut ladder = ladder(2);
    ladder.plan.figures.truncate(1);
    ladder.plan.figures.push(ladder.plan.figures[0].clone());
    let folder = ladder.write(place.path());
    let rendered = render(&folder).unwrap();
    let expected: Vec<PathBuf> = ["figures/tail.svg", "figures/tail.csv"]
        .map(|name| folder.join(name))
        .into();
    assert_eq!(rendered.figures, expected);
    assert_eq!(names(&folder.join("figures")), ["tail.csv", "tail.svg"]);
    // Nothing half-written stays behind.
    assert_eq!(
        names(&folder),
        [
            "figures",
            "host.json",
            "plan.toml",
            "report.html",
            "trials.csv",
            "trials.jsonl"
        ]
    );
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_same_run_gives_the_same_figures() {
    let ladder = ladder(2);
    assert_eq!(figure(&ladder, "tail"), figure(&ladder, "tail"));
}
