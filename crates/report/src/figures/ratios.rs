//! Measured ÷ published, a row for each published value: on the line at 1, both are the same.

use std::collections::BTreeMap;

use super::cells::{self, cell, why};
use super::dimension::{self, Dimension, names_side};
use super::panel::{Panel, Point};
use super::summary::Summary;
use crate::chart::CurveStyle;
use crate::chart::axis::{Axis, Scale};
use crate::chart::mark::{Line, Look, Mark, Scene, Series, Shape, State, listed};
use crate::chart::side::LABEL_SIZE;
use crate::chart::svg;
use crate::published::{Published, other};
use crate::record::{Metric, Unit};
use crate::{limits, units};

/// Height of a row, and greatest width of its name, pixels.
const ROW: f64 = 24.0;
const NAMES: f64 = 300.0;
/// How far from 1 a ratio is near it, as the band shows.
const NEAR: f64 = 1.25;

pub(super) fn scene(panel: &Panel) -> Scene {
    let points: Vec<&Point> = panel.points().collect();
    let mut rows: Vec<(String, Mark)> = Vec::new();
    let mut absent: Vec<String> = Vec::new();
    let mut metrics: BTreeMap<&str, usize> = BTreeMap::new();
    let mut series: Vec<Series> = Vec::new();
    for published in &panel.plan.published {
        let Some(metric) = panel.plan.metric(&published.metric) else {
            continue;
        };
        if !panel.figure.y.is_empty() && panel.figure.y != metric.name {
            continue;
        }
        for point in points.iter().filter(|it| published.is_of(it.factors)) {
            let name = name(panel, metric, published, point);
            let Some((of, low, high, state)) = ratio(published, metric, point, &points) else {
                absent.push(name);
                continue;
            };
            let index = *metrics.entry(&metric.name).or_insert_with(|| {
                series.push(Series {
                    name: metric.title.clone(),
                    short: units::shortened(&metric.title, limits::NAME_CHARACTERS),
                    look: Look::Style(CurveStyle::of(series.len())),
                });
                series.len() - 1
            });
            let text = units::number(of);
            let range =
                (low < high).then(|| format!(" [{}, {}]", units::number(low), units::number(high)));
            let words = format!("{text}{}{}", range.unwrap_or_default(), why(&state));
            let mark = Mark {
                at: vec![(of, low), (of, high)],
                series: Some(index),
                size: 1.4,
                hint: format!("{name}: {words}, {}", published.source),
                tells: format!("{name} {words}"),
                row: vec![
                    cell("published", &name),
                    cell("metric", &metric.name),
                    cell("value", published.value),
                    cell("measured ÷ published", of),
                    cell("low", low),
                    cell("high", high),
                    cell("source", &published.source),
                ],
                state,
                ..Mark::default()
            };
            rows.push((name, mark));
        }
    }
    let count = rows.len();
    let names: Vec<String> = rows.iter().rev().map(|it| it.0.clone()).collect();
    let ends = rows
        .iter()
        .flat_map(|(_, it)| [it.at[0].0, it.at[0].1, it.at[1].1]);
    let axis = Axis::over(Scale::Log, ends.chain([1.0 / NEAR, NEAR]));
    let across = dimension::side(
        Some(&Unit::ratio()),
        None,
        axis,
        "measured ÷ published (log scale)",
    );
    let up = names_side("", &names, NAMES);
    let y = panel
        .plan
        .metric(&panel.figure.y)
        .map(|it| format!("{}: ", it.title));
    let title = format!("{}measured ÷ published", y.unwrap_or_default());
    let mut scene = Scene::new(title, (across, up), series);
    scene.height = (count as f64 * ROW).max(2.0 * ROW);
    let widest = names.iter().map(|name| svg::width(name, LABEL_SIZE));
    scene.left = (widest.fold(0.0, f64::max).min(NAMES) + 24.0).max(scene.left);
    let (bottom, top) = (-0.5, count.max(1) as f64 - 0.5);
    scene.marks.push(Mark {
        shape: Shape::Band,
        at: vec![
            (1.0 / NEAR, bottom),
            (1.0 / NEAR, top),
            (NEAR, top),
            (NEAR, bottom),
        ],
        key: "within 25\u{a0}%".to_owned(),
        ..Mark::default()
    });
    scene.marks.push(cells::line(
        Line::RULE,
        vec![(1.0, bottom), (1.0, top)],
        None,
        "as published",
    ));
    for (index, (_, mark)) in rows.into_iter().enumerate() {
        let y = (count - 1 - index) as f64;
        let [(of, low), (_, high)] = [mark.at[0], mark.at[1]];
        if low < high && mark.state == State::Counts {
            let (shape, series) = (Shape::Interval, mark.series);
            let at = vec![(low, y), (high, y)];
            scene.marks.push(Mark {
                shape,
                at,
                series,
                ..Mark::default()
            });
        }
        scene.marks.push(Mark {
            at: vec![(of, y)],
            ..mark
        });
    }
    let absent = listed(absent, "other", "; ");
    scene
        .notes
        .extend(absent.map(|names| format!("Not measured, or without a ratio: {names}.")));
    scene
}

/// What is published: the metric, the cell by the factors of `only`, and what it is divided by.
fn name(panel: &Panel, metric: &Metric, published: &Published, point: &Point) -> String {
    let label = |name: &String| {
        let factor = panel.plan.factor(name)?;
        Some(factor.label(point.factors.get(name)?))
    };
    let telling = panel.telling.iter().map(|it| &it.name);
    let mut names: Vec<&String> = published.only.keys().collect();
    names.extend(
        telling
            .filter(|name| !published.only.contains_key(*name))
            .collect::<Vec<_>>(),
    );
    let cell: Vec<String> = names.into_iter().filter_map(label).collect();
    let is_one = panel.figure.y == metric.name;
    let metric = Some(metric.title.clone()).filter(|_| !is_one || cell.is_empty());
    let name: Vec<String> = metric.into_iter().chain(cell).collect();
    let to = published
        .to
        .iter()
        .filter(|(name, value)| point.factors.get(*name) != Some(*value));
    let to = to.filter_map(|(name, value)| Some(panel.plan.factor(name)?.label(value)));
    let to: Vec<String> = to.collect();
    match to.is_empty() {
        true => name.join(", "),
        false => format!("{} ÷ {}", name.join(", "), to.join(", ")),
    }
}

/// The ratio with its ends, and how it counts. None: something is not measured, or not above 0.
fn ratio(
    published: &Published,
    metric: &Metric,
    point: &Point,
    points: &[&Point],
) -> Option<(f64, f64, f64, State)> {
    let own = Summary::of(point, Dimension::Metric(metric))?;
    let by = match published.to.is_empty() {
        true => return positive(published.number(metric), &own, None),
        false => {
            let at = other(
                &published.to,
                point.factors,
                points.iter().map(|it| it.factors),
            )?;
            Summary::of(points[at], Dimension::Metric(metric))?
        }
    };
    positive(published.value, &own, Some(by))
}

fn positive(value: f64, own: &Summary, by: Option<Summary>) -> Option<(f64, f64, f64, State)> {
    let state = match &by {
        Some(by) if own.counts() => by.state.clone(),
        _ => own.state.clone(),
    };
    // The ends of a quotient are those of the worst case.
    let [mid, low, high] = by.map_or([value; 3], |by| {
        [by.value, by.high, by.low].map(|it| it * value)
    });
    let ratios = (own.value / mid, own.low / low, own.high / high, state);
    let is_positive = |it: f64| it.is_finite() && it > 0.0;
    (is_positive(ratios.0) && is_positive(ratios.1) && is_positive(ratios.2)).then_some(ratios)
}
