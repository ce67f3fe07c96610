//! Figures and pages of runs that lack something, or hold extreme values.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use crate::figure::{Figure, FigureKind};
use crate::page_of;
use crate::record::{Narrow, Outcome, Value};
use crate::tests::general_run::{General, REPEATS};
use crate::tests::illustrated::{drawn, run};
use crate::tests::synthetic::Synthetic;

/// Changes the measured values of the trials of some cells.
fn each(run: &mut General, cells: &[u32], change: impl Fn(&mut crate::record::Measured)) {
    for record in &mut run.records {
        if let (true, Outcome::Measured(measured)) =
            (cells.contains(&record.cell), &mut record.outcome)
        {
            change(measured);
        }
    }
}

/// Removes factors from cells, and from the records of their trials.
fn remove_factors(run: &mut General, factors: &[(usize, &str)]) {
    let cells = &mut run.plan.stages[0].cells;
    for (cell, name) in factors {
        cells[*cell].remove(*name);
    }
    for record in &mut run.records {
        record.factors = cells[record.cell as usize].clone();
    }
}

/// Adds the figure `both`, with a curve for each number of threads and a panel for each version.
fn add_curves_in_panels(run: &mut General) {
    let figure = Figure {
        name: "both".to_owned(),
        x: Some("drift_ns".to_owned()),
        by: Some("threads".to_owned()),
        panel: Some("version".to_owned()),
        only: BTreeMap::new(),
        ..run.plan.figures[0].clone()
    };
    run.plan.figures.push(figure);
}

fn number(node: &Node, name: &str) -> f64 {
    node.attribute(name).unwrap().parse().unwrap()
}

fn figure<'a>(run: &'a mut General, name: &str) -> &'a mut Figure {
    let mut figures = run.plan.figures.iter_mut();
    figures.find(|it| it.name == name).unwrap()
}

#[test]
fn bars_are_centred_if_a_curve_lacks_the_metric() {
    let mut run = run();
    figure(&mut run, "bars").y = "energy_j".to_owned();
    // Version c has no energy; now a has none either, and b is the only curve.
    each(&mut run, &[0, 1], |it| {
        it.metrics.remove("energy_j");
    });
    let bars = drawn(&run, "bars");
    let document = Document::parse(&bars.svg).unwrap();
    let of_class = |class: &str| -> Vec<Node> {
        let nodes = document.descendants();
        nodes
            .filter(|it| it.attribute("class") == Some(class))
            .collect()
    };
    let data = of_class("data")[0];
    let plot: Vec<f64> = data
        .attribute("data-plot")
        .unwrap()
        .split(' ')
        .map(|it| it.parse().unwrap())
        .collect();
    let bars = data.descendants();
    let middles: Vec<f64> = bars
        .filter(|it| it.attribute("class") == Some("bar"))
        .map(|bar| number(&bar, "x") + number(&bar, "width") / 2.0)
        .collect();
    let expected = [0.25, 0.75].map(|share| plot[0] + share * plot[2]);
    assert_eq!(middles.len(), 2);
    for (middle, expected) in middles.iter().zip(expected) {
        assert!((middle - expected).abs() < 0.2, "{middles:?} {expected:?}");
    }
}

#[test]
fn cache_trials_until_an_interval_is_narrow_have_the_general_page() {
    let mut run = Synthetic::ladder(4).run();
    let repeats = &mut run.plan.stages[1].repeats;
    repeats.most += 10;
    repeats.until = Some(Narrow {
        metric: "response_p99_ns".to_owned(),
        width: 0.1,
    });
    let html = page_of(&run).unwrap();
    assert!(html.contains("id=\"definitions\""), "the general page");
    assert!(html.contains("3 trials of the plan have no measurement."));
}

#[test]
fn control_characters_in_a_label_leave_the_figure_readable() {
    let mut run = run();
    let hostile = Value::from("a\u{1}\u{fffe}\u{ffff}\u{b}");
    let is_a = |value: &Value| *value == Value::from("a");
    for value in &mut run.plan.factors[0].values {
        if is_a(value) {
            *value = hostile.clone();
        }
    }
    let cells = run.plan.stages[0].cells.iter_mut();
    for factors in cells.chain(run.records.iter_mut().map(|it| &mut it.factors)) {
        let value = factors.get_mut("version").unwrap();
        if is_a(value) {
            *value = hostile.clone();
        }
    }
    for name in ["bars", "table", "heat"] {
        let of = figure(&mut run, name);
        (of.x, of.by) = (Some("version".to_owned()), None);
        let drawn = drawn(&run, name);
        Document::parse(&drawn.svg).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn extreme_values_leave_the_figures_readable() {
    let mut run = run();
    each(&mut run, &[0], |it| {
        it.metrics.insert("wall_ns".to_owned(), 1.7e308);
    });
    for name in ["curve", "bars", "scatter", "pareto", "table"] {
        let drawn = drawn(&run, name);
        Document::parse(&drawn.svg).unwrap();
        assert!(drawn.svg.len() < 1_000_000, "{name}");
        assert!(
            !drawn.svg.contains("NaN") && !drawn.svg.contains("inf\""),
            "{name}"
        );
    }
}

#[test]
fn a_knee_is_of_any_metric_of_which_lower_values_are_better() {
    let mut run = run();
    let knee = |run: &mut General, better: crate::record::Better| {
        run.plan.metrics[2].better = better;
        let of = Figure {
            knee: Some("energy_j".to_owned()),
            x: Some("threads".to_owned()),
            ..Figure::new("knee", FigureKind::Curve, "energy_j")
        };
        crate::figure::check(&of, &run.plan)
    };
    assert_eq!(knee(&mut run, crate::record::Better::Lower), Ok(()));
    for better in [
        crate::record::Better::Higher,
        crate::record::Better::Neither,
    ] {
        let told = knee(&mut run, better).unwrap_err();
        assert!(told.contains("of which lower values are better"), "{told}");
    }
}

#[test]
fn values_of_x_with_one_label_have_places_of_their_own() {
    let mut run = run();
    let near = |value: &mut Value| {
        *value = match value.number() {
            Some(1.0) => Value::from(2_000_001.0),
            Some(4.0) => Value::from(2_000_002.0),
            _ => return,
        };
    };
    let threads = &mut run.plan.factors[1];
    threads.unit = Some("/s".to_owned().into());
    threads.reference = None;
    threads.values.iter_mut().for_each(near);
    let cells = run.plan.stages[0].cells.iter_mut();
    for factors in cells.chain(run.records.iter_mut().map(|it| &mut it.factors)) {
        factors.values_mut().for_each(near);
    }
    let table = drawn(&run, "table");
    assert_eq!(table.column("wall_ns", &[("curve", "a")]).len(), 2);
    let medians = table.numbers("wall_ns", &[("curve", "a")]);
    assert!(medians[0] > 1.5 * medians[1], "{medians:?}");
    assert_eq!(table.rows.len(), 1 + 6);
}

#[test]
fn cells_without_a_factor_of_the_figure_are_a_curve_or_are_counted() {
    let mut run = run();
    remove_factors(&mut run, &[(1, "threads"), (2, "version")]);
    let curve = drawn(&run, "curve");
    assert_eq!(
        curve.column("wall_ns", &[("curve", "no version")]).len(),
        REPEATS as usize + 1,
        "its trials and their median"
    );
    let note = "Not drawn: 1 cell without threads.";
    assert!(curve.svg.contains(note), "{}", curve.svg);
    let deciles = drawn(&run, "deciles-a");
    assert!(
        deciles.svg.contains("Not drawn: 1 cell without version."),
        "{}",
        deciles.svg
    );
    // With curves, it is in the panel of each version.
    add_curves_in_panels(&mut run);
    for (panel, points) in [("both-a", 3), ("both-b", 2), ("both-c", 3)] {
        let drawn = drawn(&run, panel);
        let medians = drawn.column("wall_ns", &[("row", "median")]);
        assert_eq!(medians.len(), points, "{panel}: {:?}", drawn.rows);
    }
}

/// Cells of all panels and cells of one panel were one curve, and shared its points, if they also
/// lacked the factor of the curves.
#[test]
fn cells_without_both_factors_are_not_mixed_with_those_of_a_panel() {
    let mut run = run();
    remove_factors(&mut run, &[(0, "threads"), (1, "threads"), (1, "version")]);
    add_curves_in_panels(&mut run);
    let drawn = drawn(&run, "both-a");
    let rows = |curve| drawn.column("wall_ns", &[("row", "median"), ("curve", curve)]);
    assert_eq!(rows("no threads").len(), 1, "{:?}", drawn.rows);
    assert_eq!(rows("no threads, no version").len(), 1, "{:?}", drawn.rows);
}

#[test]
fn a_negative_x_is_drawn_and_one_that_the_axis_cannot_hold_is_counted() {
    let mut run = run();
    let of = figure(&mut run, "curve");
    (of.x, of.x_scale) = (Some("drift_ns".to_owned()), None);
    let marks = |svg: &str| {
        let (_, data) = svg.split_once("class=\"data\"").unwrap();
        data.matches("class=\"mark").count()
    };
    let fitted = drawn(&run, "curve");
    assert_eq!(marks(&fitted.svg), 70);
    figure(&mut run, "curve").x_scale = Some(crate::figure::Scale::Log);
    let log = drawn(&run, "curve");
    let absent = 70 - marks(&log.svg);
    let note = format!("Not drawn: {absent} values that the axis cannot hold.");
    assert!(absent > 1 && log.svg.contains(&note), "{note}: {}", log.svg);
}

#[test]
fn a_curve_over_a_factor_says_which_cells_a_point_combines() {
    let mut run = run();
    let of = figure(&mut run, "curve");
    (of.x, of.by) = (Some("threads".to_owned()), None);
    let curve = drawn(&run, "curve");
    assert!(
        curve
            .svg
            .contains("Each point combines all values of version."),
        "{}",
        curve.svg
    );
}

#[test]
fn a_lower_bound_of_x_is_not_one_of_y() {
    let mut run = run();
    each(&mut run, &[0], |it| {
        let flag = crate::record::Flag {
            lower_bound: true,
            invalid: None,
        };
        it.flags.insert("energy_j".to_owned(), flag);
    });
    let scatter = drawn(&run, "scatter");
    assert!(scatter.svg.contains("energy ≥"), "{}", scatter.svg);
    assert!(!scatter.svg.contains("wall time ≥"), "{}", scatter.svg);
    let note = "Lower bounds: in 12 of 70 trials, the value is a lower bound (energy).";
    assert!(scatter.svg.contains(note), "{}", scatter.svg);
    assert_eq!(
        scatter.column("flag", &[("curve", "a")])[0],
        "x: lower bound"
    );
}

#[test]
fn the_open_end_of_an_interval_is_marked() {
    let mut run = run();
    // The greatest value only: the median is exact, the high end of its interval may be too.
    each(&mut run, &[0], |it| {
        let flag = crate::record::Flag {
            lower_bound: true,
            invalid: None,
        };
        it.flags.insert("wall_ns".to_owned(), flag);
    });
    let html = page_of(&run.run()).unwrap();
    let (front, _) = html.split_once("</table>").unwrap();
    assert!(front.contains(", ≥"), "{front}");
    let table = drawn(&run, "table");
    assert!(table.svg.contains(", ≥"), "{}", table.svg);
}

#[test]
fn an_axis_of_names_cannot_be_zoomed() {
    let mut run = run();
    figure(&mut run, "curve").x = Some("version".to_owned());
    figure(&mut run, "curve").by = None;
    assert!(!drawn(&run, "curve").svg.contains("data-x="));
    figure(&mut run, "curve").x = Some("threads".to_owned());
    assert!(drawn(&run, "curve").svg.contains("data-x="));
}

#[test]
fn sequential_stopping_is_stated_with_the_interval() {
    let mut run = run();
    let note = "its coverage is somewhat below 95";
    assert!(!page_of(&run.run()).unwrap().contains(note));
    let repeats = &mut run.plan.stages[0].repeats;
    repeats.least = 5;
    repeats.until = Some(Narrow {
        metric: "wall_ns".to_owned(),
        width: 0.1,
    });
    let html = page_of(&run.run()).unwrap();
    let (front, _) = html.split_once("</caption>").unwrap();
    assert!(front.contains(note), "{front}");
    assert!(drawn(&run, "bars").svg.contains(note));
}

#[test]
fn one_cell_of_few_trials_has_its_confidence() {
    let mut run = General::versions(7);
    run.plan.stages[0].cells.truncate(1);
    run.plan.stages[0].repeats.least = 3;
    run.plan.stages[0].repeats.most = 3;
    run.records.retain(|it| it.cell == 0 && it.repeat < 3);
    let html = page_of(&run.run()).unwrap().replace('\u{a0}', " ");
    let (_, answer) = html.split_once("id=\"answer\">").unwrap();
    let (answer, _) = answer.split_once("</p>").unwrap();
    assert!(
        answer.contains("] (75 %), and there is no other cell"),
        "{answer}"
    );
}

#[test]
fn two_stages_or_trials_of_one_name_are_refused() {
    let refused = |run: &General| {
        let place = tempfile::tempdir().unwrap();
        let error = crate::Run::open(run.write(place.path())).unwrap_err();
        error.to_string()
    };
    let mut run = General::versions(7);
    let stage = run.plan.stages[0].clone();
    run.plan.stages.push(stage);
    let told = refused(&run);
    assert!(told.contains("`main` names two stages"), "{told}");
    let mut run = General::versions(7);
    let mut again = run.records[0].clone();
    again.id = "again".to_owned();
    run.records.push(again);
    let told = refused(&run);
    assert!(told.contains("are the same repeat"), "{told}");
}
