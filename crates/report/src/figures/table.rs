//! The medians of `y` with their intervals: a row for each value of `x`, a column for each curve.

use super::marks::row;
use super::notes;
use super::panel::Panel;
use super::point::{Point, Summary};
use crate::cell::CONFIDENCE;
use crate::chart::axis::{Scale, Side};
use crate::chart::mark::{Mark, Scene, Shape, State, Words};
use crate::units;

pub(super) fn scene(panel: &Panel) -> Scene {
    let (figure, title) = (panel.figure, panel.slots_title());
    let quantity = figure
        .y_title
        .clone()
        .unwrap_or_else(|| match &figure.unit {
            Some(_) => panel.y.scaled_title(Scale::Linear, figure.unit.as_ref()),
            None => panel.y.title().to_owned(),
        });
    let (caption, columns) = match figure.by {
        Some(_) => (
            quantity,
            panel.curves.iter().map(|it| it.short.clone()).collect(),
        ),
        None => (String::new(), vec![quantity; panel.curves.len()]),
    };
    let corner = Some(title).filter(|it| !it.is_empty());
    let corner = corner.unwrap_or_else(|| "cell".to_owned());
    // A table has names in place of axes.
    let none = || Side::of_names("", &[], 0.0);
    let mut series = panel.series();
    series.iter_mut().for_each(|it| it.short.clear());
    let mut scene = Scene::new(panel.against(), (none(), none()), series);
    scene.marks = panel.points().map(|point| mark(panel, point)).collect();
    scene.words = Some(Words {
        caption,
        corner,
        rows: panel.slots.clone(),
        columns,
    });
    scene.notes.extend(notes::values(panel, panel.y));
    let summaries = panel.points().filter_map(|it| Summary::of(it, panel.y));
    let spread = summaries.filter(Summary::is_spread);
    if let Some(least) = spread.map(|of| of.confidence).reduce(f64::min) {
        let is_full = least >= CONFIDENCE;
        let range = "In brackets: range of the trials; six give a 95\u{a0}% interval.";
        scene.say_if(is_full, "In brackets: 95\u{a0}% interval of the median.");
        scene.say_if(!is_full, range);
    }
    scene
}

fn mark(panel: &Panel, point: &Point) -> Mark {
    let of = Summary::of(point, panel.y);
    let none = || "no value".to_owned();
    let mut lines = of.as_ref().map_or(vec![none()], |of| lines(panel, of));
    let mark = match &of {
        Some(of) => panel.median(point, point.at, of),
        None => {
            let mark = panel.mark(point, "median", "", point.at, None);
            mark.state(State::Missing(none()))
                .tells(format!("{} no value", panel.slots[point.slot]))
        }
    };
    let mut mark = mark.row(row! { "missing" => point.missing() });
    if let Some((value, source)) = panel.published(point, panel.y.name()) {
        let text = format!("published {}", text(panel, value));
        mark.tells.push_str(&format!(", {text}"));
        lines.push(text);
        mark = mark.row(row! { "published" => value, "source" => source });
    }
    let at = (point.curve as f64, point.slot as f64);
    mark.shape(Shape::Words(lines)).at([at])
}

/// The value, its interval, and what else must be known of it.
fn lines(panel: &Panel, of: &Summary) -> Vec<String> {
    let text = |value| text(panel, value);
    let mut lines = vec![units::lower_bound(of.is_bound).to_owned() + &text(of.value)];
    if of.is_spread() {
        let range = match (factor(panel), panel.y.unit()) {
            (None, Some(unit)) => unit.range(of.value, of.low, of.high),
            _ => format!("[{}, {}]", text(of.low), text(of.high)),
        };
        lines.push(units::bounded_range(&range, of.is_open));
    }
    let is_failing = matches!(of.state, State::Failing(_));
    lines.extend(is_failing.then(|| "fails here".to_owned()));
    lines
}

/// The factor that converts values to the figure's unit. None: each value has its own.
fn factor(panel: &Panel) -> Option<f64> {
    panel.y.unit()?.to(panel.figure.unit.as_ref()?)
}

fn text(panel: &Panel, value: f64) -> String {
    match factor(panel) {
        Some(factor) => units::number(value * factor),
        None => panel.y.text(value),
    }
}
