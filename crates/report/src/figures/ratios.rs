//! Measured ÷ published, a row for each published value: on the line at 1, both are the same.

use super::dimension::{Dimension, labels};
use super::marks::{row, why};
use super::panel::Panel;
use super::point::{Point, Summary};
use crate::chart::axis::{Axis, Scale, Side, widest};
use crate::chart::mark::{Line, Look, Mark, Scene, Series, Shape, State, shortened};
use crate::chart::palette::CurveStyle;
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
    let (mut rows, mut absent) = (Vec::new(), Vec::new());
    let (mut metrics, mut sources): (Vec<&Metric>, Vec<String>) = (Vec::new(), Vec::new());
    let y = panel.plan.metric(&panel.figure.y);
    for published in &panel.plan.published {
        let metric = panel.plan.metric(&published.metric);
        let is_drawn = |it: &&Metric| y.is_none_or(|y| y.name == it.name);
        let Some(metric) = metric.filter(is_drawn) else {
            continue;
        };
        for point in points.iter().filter(|it| published.is_of(it.factors)) {
            let name = name(panel, metric, published, point);
            let Some(of) = ratio(published, metric, point, &points) else {
                absent.push(name);
                continue;
            };
            let known = metrics.iter().position(|it| it.name == metric.name);
            let series = known.unwrap_or(metrics.len());
            metrics.extend(known.is_none().then_some(metric));
            let source = units::shortened(&published.source, limits::REASON_CHARACTERS);
            sources.extend((!sources.contains(&source)).then_some(source));
            rows.push((name, published, series, of));
        }
    }
    let last = rows.len().max(1) as f64 - 1.0;
    let marks = rows.iter().enumerate().flat_map(|(index, row)| {
        let (name, published, series, of) = row;
        marks(name, published, *series, of, last - index as f64)
    });
    let marks: Vec<Mark> = marks.collect();
    let names: Vec<String> = rows.iter().rev().map(|row| row.0.clone()).collect();
    let ratios = marks.iter().flat_map(|mark| &mark.at).map(|it| it.0);
    let axis = Axis::over(Scale::Log, ratios.chain([1.0 / NEAR, NEAR]));
    let across = "measured ÷ published (log scale)";
    let across = Side::of_unit(Some(&Unit::ratio()), None, axis, across);
    let axes = (across, Side::of_names("", &names, NAMES));
    let y = y.map(|it| format!("{}: ", it.title));
    let title = format!("{}measured ÷ published", y.unwrap_or_default());
    let series = metrics.iter().enumerate().map(|(index, metric)| {
        let look = Look::Style(CurveStyle::of(index));
        Series::new(metric.title.clone(), shortened(&metric.title), look)
    });
    let mut scene = Scene::new(title, axes, series.collect());
    scene.height = (rows.len() as f64 * ROW).max(2.0 * ROW);
    scene.left = (widest(&names).min(NAMES) + 40.0).max(scene.left);
    let across = |x: f64| [(x, -0.5), (x, last + 0.5)];
    let [low, [high, end]] = [1.0 / NEAR, NEAR].map(across);
    let band = Mark::new(Shape::Band, None, [low[0], low[1], end, high]);
    scene.marks.push(band.key("within 25\u{a0}%"));
    let even = across(1.0).to_vec();
    scene
        .marks
        .push(Mark::line(Line::RULE, even, None, "as published"));
    scene.marks.extend(marks);
    scene.note("Published", sources);
    scene.note("Not measured", absent);
    scene
}

/// A ratio with its interval, in the row `y`.
fn marks(
    name: &str,
    published: &Published,
    series: usize,
    (ratios, state): &([f64; 3], State),
    y: f64,
) -> Vec<Mark> {
    let ([of, low, high], series) = (*ratios, Some(series));
    let range = format!(" [{}, {}]", units::number(low), units::number(high));
    let range = if low < high { range } else { String::new() };
    let words = format!("{}{range}{}", units::number(of), why(state));
    let interval = Mark::new(Shape::Interval, series, [(low, y), (high, y)]);
    let interval = (low < high && *state == State::Counts).then_some(interval);
    let point = Mark::new(Shape::Point, series, [(of, y)])
        .size(1.4)
        .hint(format!("{name}: {words}, {}", published.source))
        .tells(format!("{name} {words}"))
        .state(state.clone())
        .row(row! {
            "published" => name, "metric" => published.metric, "value" => published.value,
            "ratio" => of, "low" => low, "high" => high, "source" => published.source,
        });
    interval.into_iter().chain([point]).collect()
}

/// What is published: the metric, the cell, and what it is divided by.
fn name(panel: &Panel, metric: &Metric, published: &Published, point: &Point) -> String {
    let is_told = |name: &String| {
        let mut telling = panel.telling.iter();
        published.only.contains_key(name) || telling.any(|it| it.name == *name)
    };
    let factors = panel.plan.factors.iter().filter(|it| is_told(&it.name));
    let cell = labels(factors, point.factors).join(", ");
    let to = published.to.iter();
    let to = to.filter(|(name, value)| point.factors.get(*name) != Some(*value));
    let to = to.filter_map(|(name, value)| Some(panel.plan.factor(name)?.label(value)));
    let to: Vec<String> = to.collect();
    let ratio = if to.is_empty() { "" } else { " ÷ " };
    let cell = format!("{cell}{ratio}{}", to.join(", "));
    match panel.figure.y == metric.name {
        true => cell,
        false => format!("{cell}: {}", metric.title),
    }
}

/// The ratio with its ends, and how it counts. None: something is not measured, or not above 0.
fn ratio(
    published: &Published,
    metric: &Metric,
    point: &Point,
    points: &[&Point],
) -> Option<([f64; 3], State)> {
    let own = Summary::of(point, Dimension::Metric(metric))?;
    let (mut by, mut state) = ([published.number(metric); 3], State::Counts);
    if published.is_ratio() {
        let factors = points.iter().map(|it| it.factors);
        let at = other(&published.to, point.factors, factors)?;
        let of = Summary::of(points[at], Dimension::Metric(metric))?;
        // The ends of a quotient are those of the worst case.
        by = [of.value, of.high, of.low].map(|it| it * published.value);
        state = of.state;
    }
    if !own.counts() {
        state = own.state;
    }
    let ratios = [own.value / by[0], own.low / by[1], own.high / by[2]];
    let is_fit = ratios.iter().all(|it| it.is_finite() && *it > 0.0);
    is_fit.then_some((ratios, state))
}
