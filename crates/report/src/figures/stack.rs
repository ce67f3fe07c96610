//! The medians of several metrics as the parts of one bar, for each value of `x`, grouped by it: a
//! bar for each curve.
//!
//! Shades tell parts apart, so bars are told apart by labels below them. A part without a value is
//! missing, never zero.

use super::cells::{cell, interval, words};
use super::dimension::{self, Dimension};
use super::grid::{Grid, Placed, grouped_side};
use super::panel::Panel;
use super::summary::Summary;
use super::{notes, shortened};
use crate::chart::Ramp;
use crate::chart::axis::{Axis, Scale};
use crate::chart::mark::{Bound, Look, Mark, Scene, Series, Shape, State};
use crate::record::Metric;
use crate::units;

/// Half the width of a bar, as a share of its place.
const HALF: f64 = 0.39;
/// Share of the plot above the highest bar that the labels of groups take.
const HEADED: f64 = 0.08;

pub(super) fn scene(panel: &Panel) -> Scene {
    let metrics = panel
        .figure
        .parts
        .iter()
        .filter_map(|name| panel.plan.metric(name));
    let metrics: Vec<&Metric> = metrics.collect();
    let last = metrics.len().saturating_sub(1).max(1) as f64;
    let series = |(index, metric): (usize, &&Metric)| Series {
        name: metric.title.clone(),
        short: shortened(&metric.title),
        look: Look::Shade(Ramp::of(index as f64 / last)),
    };
    let grid = Grid::of(panel);
    let (across, places, numbers) = grouped_side(panel, &grid);
    let mut marks = Vec::new();
    for placed in grid.placed() {
        let at = places.at(placed.at, placed.curve.0);
        marks.extend(stack(panel, &metrics, &placed, at));
    }
    let room = if places.is_grouped() {
        1.0 + HEADED
    } else {
        1.0
    };
    let tops = marks.iter().flat_map(|mark| &mark.at).map(|it| it.1);
    let axis = Axis::over(Scale::Linear, tops.map(|top| room * top));
    let (unit, shown) = (
        metrics.first().map(|it| &it.unit),
        panel.figure.unit.as_ref(),
    );
    let composed = match shown.or(unit.filter(|unit| !unit.is_in_ticks())) {
        Some(unit) => format!("medians ({})", unit.name()),
        None => "medians".to_owned(),
    };
    let title = panel.figure.y_title.clone().unwrap_or(composed);
    let axes = (across, dimension::side(unit, shown, axis, &title));
    marks.extend(places.labels(axes.1.axis.greatest()));
    let titles: Vec<String> = metrics.iter().map(|it| it.title.clone()).collect();
    let x = panel.x.map(|x| format!(" against {}", x.title()));
    let title = format!("{}{}", units::listed(&titles), x.unwrap_or_default());
    let mut scene = Scene::new(
        title,
        axes,
        metrics.iter().enumerate().map(series).collect(),
    );
    scene.marks = marks;
    if panel.points().any(|point| point.trials.len() > 1) {
        let what = "Parts are medians, from the bottom in the order of the legend; the sum of medians \
                    need not be the median of the sums.";
        scene.notes.push(what.to_owned());
    }
    for metric in metrics {
        let of = Dimension::Metric(metric);
        let without = notes::without_value(panel, of).into_iter();
        scene
            .notes
            .extend(without.map(|note| format!("{}: {note}", metric.title)));
        scene.notes.extend(notes::bounds(panel, of));
    }
    scene.notes.extend(numbers);
    scene
}

/// The parts of a bar, from the bottom, each with what was published for it.
fn stack(panel: &Panel, metrics: &[&Metric], placed: &Placed, at: f64) -> Vec<Mark> {
    let (curve, point) = (placed.curve.1, placed.point);
    let name = panel.point_name(curve, point);
    let (mut marks, mut below, mut below_published) = (Vec::new(), 0.0, 0.0);
    let mut absent: Vec<String> = Vec::new();
    for (index, metric) in metrics.iter().enumerate() {
        let y = Dimension::Metric(metric);
        let row = |row: &str, value: f64| {
            vec![
                cell("curve", &curve.name),
                cell("row", row),
                cell("part", &metric.name),
                cell(
                    panel.figure.x.as_deref().unwrap_or("cell"),
                    &placed.position.plain,
                ),
                cell("value", value),
                cell("unit", &metric.unit),
            ]
        };
        let factor = metrics
            .first()
            .and_then(|first| metric.unit.to(&first.unit));
        let factor = factor.unwrap_or(1.0);
        let of = Summary::of(point, y);
        let height = of
            .as_ref()
            .map(|of| of.value * factor)
            .filter(|&it| it >= 0.0);
        if let Some(of) = of {
            let state = of.state.clone();
            let corners = |height: f64| vec![(at - HALF, below), (at + HALF, below + height)];
            marks.push(Mark {
                shape: Shape::Bar,
                at: height.map(corners).unwrap_or_default(),
                series: Some(index),
                hint: format!("{name}: {} {}", metric.title, words(y, &of)),
                tells: format!("{name} {}", y.text(of.value)),
                bound: Bound {
                    x: false,
                    y: of.is_bound,
                },
                row: [row("median", of.value), interval(&of)].concat(),
                state: state.clone(),
                ..Mark::default()
            });
            if state != State::Counts && height.is_some() {
                // Of a shaded part, the state is drawn in its middle.
                let middle = vec![(at, below + height.unwrap_or_default() / 2.0)];
                marks.push(Mark {
                    at: middle,
                    state,
                    size: 1.2,
                    ..Mark::default()
                });
            }
        }
        if height.is_none() {
            absent.push(metric.title.clone());
        }
        let published = panel.published(point, &metric.name);
        if let Some((value, source)) = published {
            let top = below_published + value * factor;
            let text = y.text(value);
            marks.push(Mark {
                at: vec![(at, top)],
                state: State::Published(source.to_owned()),
                hint: format!("{name}: {} published {text}, {source}", metric.title),
                row: row("published", value),
                ..Mark::default()
            });
            below_published = top;
        } else {
            below_published += height.unwrap_or_default();
        }
        below += height.unwrap_or_default();
    }
    let mut lacks: Vec<String> = Vec::new();
    let (missing, planned) = (point.missing(), point.planned);
    lacks.extend((missing > 0).then(|| format!("{missing} of {planned} trials missing")));
    if !absent.is_empty() {
        lacks.push(format!("no value of {}", units::listed(&absent)));
    }
    if !lacks.is_empty() {
        let lacks = lacks.join(", ");
        let x = panel.figure.x.as_deref().unwrap_or("cell");
        marks.push(Mark {
            at: vec![(at, f64::NAN)],
            hint: format!("{name}: {lacks}"),
            state: State::Missing(lacks),
            row: vec![
                cell("curve", &curve.name),
                cell("row", "missing"),
                cell(x, &placed.position.plain),
            ],
            ..Mark::default()
        });
    }
    marks
}
