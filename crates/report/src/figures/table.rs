//! The medians of `y` with their intervals: a row for each value of `x`, a column for each curve.

use super::cells::row;
use super::dimension::names_side;
use super::grid::{Grid, Placed};
use super::panel::{Curve, Panel};
use super::summary::Summary;
use super::{against, notes, series};
use crate::chart::Words;
use crate::chart::mark::{Mark, Scene, Series, Shape, State};
use crate::units;

pub(super) fn scene(panel: &Panel) -> Scene {
    let grid = Grid::of(panel);
    let figure = panel.figure;
    let quantity = figure
        .y_title
        .clone()
        .unwrap_or_else(|| match &figure.unit {
            Some(unit) => format!("{} ({})", panel.y.title(), unit.name()),
            None => panel.y.title().to_owned(),
        });
    let head = |curve: &Curve| match figure.by {
        Some(_) => curve.short.clone(),
        None => quantity.clone(),
    };
    // A table has names in place of axes.
    let axes = (names_side("", &[], 0.0), names_side("", &[], 0.0));
    let unnamed = |it: Series| Series {
        short: String::new(),
        ..it
    };
    let series = series(panel).into_iter().map(unnamed).collect();
    let mut scene = Scene::new(against(panel), axes, series);
    scene.marks = grid.placed().map(|placed| mark(panel, &placed)).collect();
    scene.words = Some(Words {
        caption: if figure.by.is_some() {
            quantity.clone()
        } else {
            String::new()
        },
        corner: if grid.title.is_empty() {
            "cell".to_owned()
        } else {
            grid.title.clone()
        },
        rows: grid.labels(),
        columns: panel.curves.iter().map(head).collect(),
    });
    scene.notes.extend(notes::without_value(panel, panel.y));
    scene.notes.extend(notes::bounds(panel, panel.y));
    let summaries = || {
        panel
            .points()
            .filter_map(|point| Summary::of(point, panel.y))
    };
    let is_full = summaries().all(|of| !of.is_spread() || of.confidence >= crate::cell::CONFIDENCE);
    if summaries().any(|of| of.is_spread()) {
        scene.notes.push(match is_full {
            true => "In brackets: 95\u{a0}% interval of the median.".to_owned(),
            false => "In brackets: range of the trials; six give a 95\u{a0}% interval.".to_owned(),
        });
    }
    scene
}

fn mark(panel: &Panel, placed: &Placed) -> Mark {
    let of = Summary::of(placed.point, panel.y);
    let mut mark = match &of {
        Some(of) => panel.median(placed, of),
        None => Mark {
            state: State::Missing("no value".to_owned()),
            tells: format!("{} no value", placed.position.label),
            ..panel.mark(placed, "median", "", None)
        },
    };
    let mut lines = of.map_or(vec!["no value".to_owned()], |of| lines(panel, &of));
    mark.row
        .extend(row! { "missing" => placed.point.missing() });
    if let Some((value, source)) = panel.published(placed.point, panel.y.name()) {
        let text = format!("published {}", text(panel, value));
        mark.tells.push_str(&format!(", {text}"));
        lines.push(text);
        mark.row
            .extend(row! { "published" => value, "source" => source });
    }
    let at = vec![(placed.curve.0 as f64, placed.at as f64)];
    Mark {
        shape: Shape::Words(lines),
        at,
        ..mark
    }
}

/// The value, its interval, and what else must be known of it.
fn lines(panel: &Panel, of: &Summary) -> Vec<String> {
    let mut lines = vec![format!(
        "{}{}",
        units::lower_bound(of.is_bound),
        text(panel, of.value)
    )];
    if of.is_spread() {
        let range = match (factor(panel), panel.y.unit()) {
            (None, Some(unit)) => unit.range(of.value, of.low, of.high),
            _ => format!("[{}, {}]", text(panel, of.low), text(panel, of.high)),
        };
        lines.push(units::bounded_range(&range, of.is_open));
    }
    let is_failing = matches!(of.state, State::Failing(_));
    lines.extend(is_failing.then(|| "fails here".to_owned()));
    lines
}

/// The factor that converts values to the figure's unit. None: each value has its own.
fn factor(panel: &Panel) -> Option<f64> {
    let own = panel.y.unit().zip(panel.figure.unit.as_ref());
    own.and_then(|(own, shown)| own.to(shown))
}

fn text(panel: &Panel, value: f64) -> String {
    match factor(panel) {
        Some(factor) => units::number(value * factor),
        None => panel.y.text(value),
    }
}
