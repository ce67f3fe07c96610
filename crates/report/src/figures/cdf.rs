//! The share of values at or below each value: a line for each cell, in the colour of its curve.
//!
//! Of a histogram, the line passes through the upper end of every bucket; of a metric, it is the
//! staircase of the trials. Markers show the median and the upper percentiles that the number of
//! values supports. On a logarithmic vertical axis, the share *above* each value is drawn, which
//! makes the tail visible.

mod distribution;

use self::distribution::Distribution;
use super::dimension::{WIDE, range};
use super::marks::{row, why};
use super::notes;
use super::panel::{Panel, joined};
use super::point::Point;
use crate::chart::axis::{Axis, PLOT_WIDTH, Scale, Side};
use crate::chart::mark::{Entry, Line, Look, Mark, Scene, Series, shortened};
use crate::chart::palette::{CurveStyle, DASHES};
use crate::record::Unit;
use crate::units;

/// The quantiles with a marker, and how names of metrics that are quantiles of a histogram end.
const MARKED: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
/// The least share that can be seen.
const VISIBLE: f64 = 0.005;

/// The distribution of a cell, drawn as a line.
struct Cell<'p, 'a> {
    series: usize,
    point: &'p Point<'a>,
    name: String,
    of: Distribution,
}

pub(super) fn scene(panel: &Panel) -> Scene {
    let unit = panel.y.unit().cloned().unwrap_or_else(Unit::nanoseconds);
    let (mut cells, mut series, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    let (mut unread, mut censored) = (0, 0);
    for curve in &panel.curves {
        for (index, point) in curve.points.iter().enumerate() {
            let of = Distribution::of(panel, point);
            unread += of.unread;
            censored += of.censored;
            if of.count == 0 {
                absent.push(panel.point_name(point));
                continue;
            }
            // Without `by`, all cells are of one curve. With it, dashes tell its cells apart.
            let mut style = curve.style;
            match (&panel.figure.by, curve.points.len()) {
                (None, _) => style = CurveStyle::of(index),
                (Some(_), 1) => {}
                _ => style.dashes = DASHES[index % DASHES.len()],
            }
            let name = name(panel, &curve.name, point);
            let short = shortened(&self::name(panel, &panel.legend_name(curve), point));
            cells.push(Cell {
                series: series.len(),
                point,
                name: name.clone(),
                of,
            });
            series.push(Series::new(name, short, Look::Style(style)));
        }
    }
    let axes = axes(panel, &cells, &unit);
    let starts = axes.0.axis.value(axes.0.axis.start);
    let title = format!("distribution of {}", panel.y.title());
    let mut scene = Scene::new(title, axes, series);
    scene.marks = cells
        .iter()
        .flat_map(|it| marks(panel, it, &unit))
        .collect();
    let text = "markers: 50th, 90th, 99th and 99.9th percentile, if there are enough values";
    scene.key.push(Entry::words(text));
    scene.note("No value", absent);
    let why = match panel.plan.metric(panel.y.name()) {
        Some(_) => "without this measurement",
        None => "without this histogram, or with one that cannot be read",
    };
    let least = cells.iter().filter_map(|it| Some(it.of.points.first()?.0));
    let is_below = least.reduce(f64::min).is_some_and(|least| least < starts);
    let below = is_below.then(|| {
        let few = "Fewer than 0.5\u{a0}% of the values of a line are below";
        format!("{few} {}, where the axis begins.", unit.words(starts))
    });
    let beyond = (censored > 0).then(|| {
        let values = units::plural(censored, "value");
        format!(
            "{values} had not ended when the trial did; they are drawn at the time waited so far, \
             and the true tail may be longer."
        )
    });
    let bounds = notes::bounds(panel, panel.y);
    let notes = [notes::unfit(unread, why), bounds, below, beyond];
    scene.notes.extend(notes.into_iter().flatten());
    scene
}

/// The line of a cell, its quantiles, and what was published of them.
fn marks(panel: &Panel, it: &Cell, unit: &Unit) -> Vec<Mark> {
    let (series, of) = (Some(it.series), &it.of);
    let is_staircase = panel.plan.metric(panel.y.name()).is_some();
    let (mut marks, mut line, mut before) = (Vec::new(), Vec::new(), 0.0);
    for &(value, share) in &of.points {
        if is_staircase || line.is_empty() {
            line.push((value, drawn(panel, before)));
        }
        line.push((value, drawn(panel, share)));
        before = share;
        marks.push(told(panel, it, "point", value, share).at([]));
    }
    marks.push(Mark::line(Line::MEDIAN, line, series, ""));
    let counts = units::plural(of.count, "value");
    let trials = (of.trials > 1).then(|| format!(" in {}", units::plural(of.trials, "trial")));
    let counts = counts + &trials.unwrap_or_default() + &why(&of.state);
    let supported = |share: f64| (1.0 - share) * of.count as f64 >= 1.0;
    for (quantile, name) in MARKED.into_iter().filter(|it| supported(it.0)) {
        let Some((value, share)) = of.quantile(quantile) else {
            continue;
        };
        let text = format!("{name} {}", unit.words(value));
        let mark = told(panel, it, name, value, share)
            .row(row! { "count" => of.count })
            .state(of.state.clone())
            .hint(format!("{}: {text}, {counts}", it.name));
        marks.push(mark.tells(text));
    }
    let greatest = of.points.last().map_or(0.0, |it| it.0);
    let words = format!("greatest {}", unit.words(greatest));
    marks.push(Mark::told(it.series, words));
    let published = published(panel, it, unit);
    let line = published.iter().flat_map(|it| it.at.clone()).collect();
    marks.push(Mark::line(Line::PUBLISHED, line, series, ""));
    marks.extend(published);
    marks
}

/// What is drawn of a cumulative share.
fn drawn(panel: &Panel, share: f64) -> f64 {
    match panel.figure.scale {
        Scale::Log => 1.0 - share,
        Scale::Linear | Scale::Fitted => share,
    }
}

/// The name of a cell by that of its curve, if that tells it apart.
fn name(panel: &Panel, of_curve: &str, point: &Point) -> String {
    let by = panel.figure.by.as_ref().map(|_| of_curve.to_owned());
    let name = joined([by, Some(panel.cell_name(point.factors))]);
    name.unwrap_or_else(|| of_curve.to_owned())
}

/// A value of a line at its share, with its row of the CSV.
fn told(panel: &Panel, it: &Cell, row: &str, value: f64, share: f64) -> Mark {
    let mark = Mark::told(it.series, String::new()).at([(value, drawn(panel, share))]);
    mark.row(row! {
        "curve" => panel.curve(it.point).name, "cell" => panel.cell_name(it.point.factors),
        "row" => row, panel.y.name() => value, "share" => share,
    })
}

/// The published quantiles of a line: values of the metrics that are quantiles of the histogram,
/// such as `response_p99_ns`; and the published value of the metric itself, as its median.
fn published(panel: &Panel, it: &Cell, unit: &Unit) -> Vec<Mark> {
    let y = panel.y.name();
    let mark = |metric: &str, share: f64, quantile: &str| {
        let of = panel.plan.metric(metric)?.unit.to(unit)?;
        let (value, source) = panel.published(it.point, metric)?;
        let text = format!("published {quantile} {}", unit.words(value * of));
        let mark = told(panel, it, "published", value * of, share);
        Some(mark.published(&it.name, &text, source).tells(text))
    };
    let of_histogram = MARKED.iter().filter_map(|&(share, quantile)| {
        let stem = format!("{y}_{}_", quantile.replace('.', ""));
        let mut names = panel.plan.metrics.iter().map(|it| it.name.as_str());
        let name = names.find(|name| format!("{name}_").starts_with(&stem))?;
        mark(name, share, quantile)
    });
    let own = mark(y, 0.5, "median").into_iter();
    own.chain(of_histogram).collect()
}

/// The axis of the values, logarithmic for times of different magnitudes unless the declaration
/// says otherwise, and that of the shares.
fn axes(panel: &Panel, cells: &[Cell], unit: &Unit) -> (Side, Side) {
    let figure = panel.figure;
    let points = || cells.iter().flat_map(|it| &it.of.points);
    let values = || points().map(|it| it.0);
    // The few values below what can be seen would take most of a logarithmic axis.
    let visible = cells.iter().filter_map(|it| it.of.quantile(VISIBLE));
    let start = visible.map(|it| it.0).reduce(f64::min).unwrap_or(0.0);
    let (_, end) = range(values()).unwrap_or_default();
    let is_time = unit.to(&Unit::nanoseconds()).is_some() && start > 0.0;
    let default = match is_time {
        true if end > WIDE * start => Scale::Log,
        true if panel.plan.metric(panel.y.name()).is_some() => Scale::Fitted,
        _ if start < 0.0 => Scale::Fitted,
        _ => Scale::Linear,
    };
    let scale = figure.x_scale.unwrap_or(default);
    // A logarithmic axis that was asked for cannot begin at 0.
    let above_zero = values().filter(|_| start <= 0.0 && scale == Scale::Log);
    let axis = Axis::over(scale, [start, end].into_iter().chain(above_zero));
    let shown = figure
        .unit
        .as_ref()
        .filter(|shown| unit.to(shown).is_some());
    let title = panel.y.scaled_title(scale, shown);
    let across = Side::of_unit(Some(unit), shown, axis, &title);
    let shares = points().map(|it| 1.0 - it.1).chain([1.0]);
    let (axis, words) = match figure.scale {
        Scale::Log => (
            Axis::over(Scale::Log, shares),
            "share of values above (log scale)",
        ),
        _ => (
            Axis::over(Scale::Linear, [1.0]),
            "share of values at or below",
        ),
    };
    let title = figure.y_title.as_deref().unwrap_or(words);
    let up = Side::of_unit(Some(&Unit::share()), None, axis, title);
    (across.thinned(PLOT_WIDTH), up)
}
