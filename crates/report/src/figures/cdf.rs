//! The share of values at or below each value: a line for each cell, in the colour of its curve.
//!
//! Of a histogram, the line passes through the upper end of every bucket; of a metric, it is the
//! staircase of the trials. Markers show the median and the upper percentiles that the number of
//! values supports. On a logarithmic vertical axis, the share *above* each value is drawn, which
//! makes the tail visible.

mod distribution;

use self::distribution::Distribution;
use super::cells::{row, why};
use super::dimension::{self, PLOT_WIDTH, WIDE};
use super::notes;
use super::panel::{Curve, Panel, Point};
use crate::chart::axis::Axis;
use crate::chart::legend::{Entry, Sample};
use crate::chart::mark::{Line, Look, Mark, Scene, Series, State};
use crate::chart::side::Side;
use crate::chart::{CurveStyle, DASHES};
use crate::figure::Scale;
use crate::record::Unit;
use crate::{limits, units};

/// The quantiles with a marker, and how names of metrics that are quantiles of a histogram end.
const MARKED: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
/// The least share that can be seen.
const VISIBLE: f64 = 0.005;

pub(super) fn scene(panel: &Panel) -> Scene {
    let has_by = panel.figure.by.is_some();
    let unit = panel.y.unit().cloned().unwrap_or_else(Unit::nanoseconds);
    let is_tail = panel.figure.scale == Scale::Log;
    let drawn = |share: f64| if is_tail { 1.0 - share } else { share };
    let (mut lines, mut absent) = (Vec::new(), Vec::new());
    let (mut unread, mut censored) = (0, 0);
    for curve in &panel.curves {
        for (index, point) in curve.points.iter().enumerate() {
            let of = Distribution::of(panel, point);
            unread += of.unread;
            censored += of.censored;
            match of.count {
                0 => absent.push(panel.point_name(curve, point)),
                _ => lines.push((curve, index, point, of)),
            }
        }
    }
    let series = lines.iter().map(|&(curve, index, point, _)| Series {
        name: name(panel, curve, point),
        short: units::shortened(&name(panel, curve, point), limits::CELL_CHARACTERS),
        // Without `by`, all cells are of one curve. With it, dashes tell its cells apart.
        look: Look::Style(match has_by {
            false => CurveStyle::of(index),
            true if curve.points.len() == 1 => curve.style,
            true => CurveStyle {
                dashes: DASHES[index % DASHES.len()],
                ..curve.style
            },
        }),
    });
    let distributions: Vec<&Distribution> = lines.iter().map(|it| &it.3).collect();
    let axes = axes(panel, &distributions, &unit, is_tail);
    let starts = axes.0.axis.value(axes.0.axis.start);
    let title = format!("distribution of {}", panel.y.title());
    let mut scene = Scene::new(title, axes, series.collect());
    let is_staircase = panel.plan.metric(panel.y.name()).is_some();
    for (index, (curve, _, point, of)) in lines.iter().enumerate() {
        let own = (index, *curve, *point);
        let (mut line, mut before) = (Vec::new(), 0.0);
        for &(value, share) in &of.points {
            if is_staircase || line.is_empty() {
                line.push((value, drawn(before)));
            }
            line.push((value, drawn(share)));
            before = share;
            scene.marks.push(told(panel, own, "point", value, share));
        }
        scene
            .marks
            .push(Mark::line(Line::MEDIAN, line, Some(index), ""));
        let supported = |share: f64| (1.0 - share) * of.count as f64 >= 1.0;
        for (quantile, name) in MARKED.into_iter().filter(|it| supported(it.0)) {
            let Some((value, share)) = of.quantile(quantile) else {
                continue;
            };
            let text = unit.words(value);
            let mut mark = told(panel, own, name, value, share);
            mark.row.extend(row! { "count" => of.count });
            let counts = match of.trials {
                0 | 1 => units::plural(of.count, "value"),
                trials => format!(
                    "{} in {}",
                    units::plural(of.count, "value"),
                    units::plural(trials, "trial")
                ),
            };
            scene.marks.push(Mark {
                at: vec![(value, drawn(share))],
                state: of.state.clone(),
                hint: format!("{}: {name} {text}, {counts}{}", mark.hint, why(&of.state)),
                tells: format!("{name} {text}"),
                ..mark
            });
        }
        let greatest = of.points.last().map_or(0.0, |it| it.0);
        let tells = format!("greatest {}", unit.words(greatest));
        scene.marks.push(Mark::told(Some(index), tells));
        let published = published(panel, own, &unit, drawn);
        let line = published.iter().flat_map(|it| it.at.clone()).collect();
        scene
            .marks
            .push(Mark::line(Line::PUBLISHED, line, Some(index), ""));
        scene.marks.extend(published);
    }
    let text = "markers: 50th, 90th, 99th and 99.9th percentile, if there are enough values";
    scene.key.push(Entry::new(Sample::None, text));
    scene.note("No value", absent);
    scene.notes.extend(notes::unfit(
        unread,
        match is_staircase {
            true => "without this measurement",
            false => "without this histogram, or with one that cannot be read",
        },
    ));
    scene.notes.extend(notes::bounds(panel, panel.y));
    let least = lines.iter().filter_map(|it| Some(it.3.points.first()?.0));
    if least.reduce(f64::min).is_some_and(|least| least < starts) {
        let starts = unit.words(starts);
        scene.notes.push(format!(
            "Fewer than 0.5\u{a0}% of the values of a line are below {starts}, where the axis begins."
        ));
    }
    if censored > 0 {
        let values = units::plural(censored, "value");
        scene.notes.push(format!(
            "{values} had not ended when the trial did; they are drawn at the time waited so far, \
             and the true tail may be longer."
        ));
    }
    scene
}

fn name(panel: &Panel, curve: &Curve, point: &Point) -> String {
    let by = panel.figure.by.as_ref().map(|_| curve.name.clone());
    let cell = Some(panel.cell_name(point.factors)).filter(|cell| !cell.is_empty());
    let parts: Vec<String> = by.into_iter().chain(cell).collect();
    match parts.is_empty() {
        true => curve.name.clone(),
        false => parts.join(", "),
    }
}

/// A mark of a line that only the CSV has; its hint is the name of the line.
fn told(
    panel: &Panel,
    (index, curve, point): (usize, &Curve, &Point),
    row: &str,
    value: f64,
    share: f64,
) -> Mark {
    Mark {
        series: Some(index),
        hint: name(panel, curve, point),
        row: row! {
            "curve" => curve.name, "cell" => panel.cell_name(point.factors), "row" => row,
            panel.y.name() => value, "share" => share,
        },
        ..Mark::default()
    }
}

/// The published quantiles of a line: values of the metrics that are quantiles of the histogram,
/// such as `response_p99_ns`; and the published value of the metric itself, as its median.
fn published(
    panel: &Panel,
    own: (usize, &Curve, &Point),
    unit: &Unit,
    drawn: impl Fn(f64) -> f64,
) -> Vec<Mark> {
    let y = panel.y.name();
    let mark = |metric: &str, share: f64, quantile: &str| {
        let of = panel.plan.metric(metric)?.unit.to(unit)?;
        let (value, source) = panel.published(own.2, metric)?;
        let mark = told(panel, own, "published", value * of, share);
        let text = unit.words(value * of);
        Some(Mark {
            at: vec![(value * of, drawn(share))],
            state: State::Published(source.to_owned()),
            hint: format!("{}: published {quantile} {text}, {source}", mark.hint),
            tells: format!("published {quantile} {text}"),
            ..mark
        })
    };
    let of_histogram = MARKED.iter().filter_map(|&(share, quantile)| {
        let stem = format!("{y}_{}", quantile.replace('.', ""));
        let names = panel.plan.metrics.iter().map(|it| it.name.as_str());
        let mut names = names.filter(|name| {
            *name == stem
                || name
                    .strip_prefix(&stem)
                    .is_some_and(|it| it.starts_with('_'))
        });
        mark(names.next()?, share, quantile)
    });
    mark(y, 0.5, "median")
        .into_iter()
        .chain(of_histogram)
        .collect()
}

/// The axis of the values, logarithmic for times of different magnitudes unless the declaration
/// says otherwise, and that of the shares.
fn axes(panel: &Panel, lines: &[&Distribution], unit: &Unit, is_tail: bool) -> (Side, Side) {
    let figure = panel.figure;
    let points = || lines.iter().flat_map(|of| &of.points);
    let values = || points().map(|it| it.0);
    let start = start(lines);
    let end = values().reduce(f64::max).unwrap_or(0.0);
    let is_time = unit.to(&Unit::nanoseconds()).is_some();
    let default = match () {
        () if is_time && start > 0.0 && end > WIDE * start => Scale::Log,
        () if is_time && start > 0.0 && panel.plan.metric(panel.y.name()).is_some() => {
            Scale::Fitted
        }
        () if start < 0.0 => Scale::Fitted,
        () => Scale::Linear,
    };
    let scale = figure.x_scale.unwrap_or(default);
    // A logarithmic axis that was asked for cannot begin at 0.
    let above_zero = values().filter(|_| start <= 0.0 && scale == Scale::Log);
    let shown = figure
        .unit
        .as_ref()
        .filter(|shown| unit.to(shown).is_some());
    let title = match shown {
        Some(shown) => format!("{} ({})", panel.y.title(), shown.name()),
        None => panel.y.axis_title(),
    };
    let is_log = if scale == Scale::Log {
        " (log scale)"
    } else {
        ""
    };
    let axis = Axis::over(scale, [start, end].into_iter().chain(above_zero));
    let horizontal = dimension::side(Some(unit), shown, axis, &format!("{title}{is_log}"));
    let (axis, words) = match is_tail {
        true => (
            Axis::over(Scale::Log, points().map(|it| 1.0 - it.1).chain([1.0])),
            "share of values above (log scale)",
        ),
        false => (
            Axis::over(Scale::Linear, [1.0]),
            "share of values at or below",
        ),
    };
    let title = figure.y_title.clone().unwrap_or_else(|| words.to_owned());
    let vertical = dimension::side(Some(&Unit::share()), None, axis, &title);
    (horizontal.thinned(PLOT_WIDTH), vertical)
}

/// Where the axis of the values begins: the least value up to which a line reaches a share that can
/// be seen. The few values below would take most of a logarithmic axis.
fn start(lines: &[&Distribution]) -> f64 {
    let visible = lines.iter().filter_map(|of| Some(of.quantile(VISIBLE)?.0));
    visible.reduce(f64::min).unwrap_or(0.0)
}
