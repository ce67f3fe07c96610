//! `y` against `x`: a marker for each trial, a line through the medians of what counts, and a band
//! from the least to the greatest of them.
//!
//! The trials of a point are drawn side by side if they have the same `x`. A point without a median
//! interrupts line and band.

use measure::{KNEE_FACTOR, Knee, TailPoint};

use super::dimension::Dimension;
use super::grid::{Placed, Position};
use super::panel::{Curve, Panel, Point, Trial};
use super::summary::{self, Summary};
use super::{against, notes, series, values};
use crate::chart::mark::{Line, Mark, Scene, Shape, State};
use crate::chart::side::Side;

/// A ring around the median at the knee.
const KNEE: &str = "M-11,0a11,11 0 1 0 22,0a11,11 0 1 0 -22,0z";
/// Greatest distance of a trial from its `x`, and of neighbouring trials from each other, when the
/// trials of a point are drawn side by side. Pixels.
const SIDE_BY_SIDE: f64 = 7.0;
const SIDE_STEP: f64 = 3.0;

pub(super) fn scene(panel: &Panel) -> Scene {
    // The declaration has been checked: a curve has an `x`.
    let x = panel.x.unwrap_or(panel.y);
    let axes = axes(panel, x);
    let guide = panel.figure.diagonal.then(|| diagonal(panel, x, &axes));
    let mut scene = Scene::new(against(panel), axes, series(panel));
    scene.marks.extend(guide);
    for own in panel.curves.iter().enumerate() {
        for point in &own.1.points {
            scene.marks.extend(points(panel, x, own, point));
        }
        scene.marks.extend(lines(panel, own));
        let knee = panel
            .figure
            .knee
            .as_ref()
            .and_then(|metric| knee_of(own.1, metric));
        if let Some(mark) = knee.and_then(|at| knee_mark(panel, own, x, at)) {
            let words = format!(" (knee {})", x.text(mark.at[0].0));
            scene.series[own.0].short.push_str(&words);
            scene.marks.push(mark);
        }
    }
    scene.notes.extend(notes::without_value(panel, panel.y));
    scene.notes.extend(notes::bounds(panel, panel.y));
    scene
}

/// The marks of a point: its trials, what is missing or published, and its median, which the line
/// draws unless it is of trials that fail.
fn points(panel: &Panel, x: Dimension, curve: (usize, &Curve), point: &Point) -> Vec<Mark> {
    // On the diagonal, different values of `x` are apart already.
    let is_spread = !panel.figure.diagonal && panel.is_over_setting();
    let placed = |at| Placed {
        at: 0,
        position: Position::of(x, at),
        curve,
        point,
    };
    let trials = point.trials.iter().map(|&trial| {
        let at = x.of_record(trial.record);
        let mark = panel.trial(&placed(at), trial, at);
        let aside = if is_spread { aside(trial, point) } else { 0.0 };
        Mark { aside, ..mark }
    });
    let mut marks: Vec<Mark> = trials.collect();
    let placed = placed(point.at);
    marks.extend(panel.beside(&placed, point.at));
    if let Some(of) = Summary::of(point, panel.y) {
        let is_failing = matches!(of.state, State::Failing(_)) && of.is_spread();
        let at = point.at.filter(|_| is_failing).map(|at| (at, of.value));
        let mark = panel.median(&placed, &of);
        marks.push(Mark {
            at: at.into_iter().collect(),
            size: 1.5,
            ..mark
        });
    }
    marks
}

/// The line through the medians, the bands around it, and the line through published values.
fn lines(panel: &Panel, (index, curve): (usize, &Curve)) -> Vec<Mark> {
    let (series, y) = (Some(index), panel.y);
    let is_of_many = panel.points().any(|it| it.trials.len() > 1);
    let (mut median, mut published, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for point in &curve.points {
        let at = point.at.unwrap_or(f64::NAN);
        let of = Summary::of(point, y).filter(Summary::counts);
        let spread = point.spread(y).filter(|_| of.is_some() && at.is_finite());
        ends.push(spread.map(|spread| (at, spread)));
        median.push((at, of.map_or(f64::NAN, |of| of.value)));
        published.extend(
            panel
                .published(point, y.name())
                .map(|(value, _)| (at, value)),
        );
    }
    let key = if is_of_many { "median" } else { "" };
    let mut marks = vec![
        Mark::line(Line::MEDIAN, median, series, key),
        Mark::line(Line::PUBLISHED, published, series, ""),
    ];
    for ends in ends
        .split(Option::is_none)
        .filter(|ends| is_of_many && ends.len() > 1)
    {
        let ends = || ends.iter().flatten();
        let low = ends().map(|(at, spread)| (*at, spread.min));
        let high = ends().rev().map(|(at, spread)| (*at, spread.max));
        let (shape, at) = (Shape::Band, low.chain(high).collect());
        let key = "range of the trials".to_owned();
        marks.push(Mark {
            shape,
            at,
            series,
            key,
            ..Mark::default()
        });
    }
    marks
}

/// Both axes over all trials; on a diagonal, one range for both.
fn axes(panel: &Panel, x: Dimension) -> (Side, Side) {
    let figure = panel.figure;
    let at = || {
        let points = panel.points().filter_map(|point| point.at);
        // Where trials of a point differ in `x`, each must be within.
        let own = panel.trials().filter_map(|it| x.of_record(it.record));
        points.chain(own.filter(|_| !panel.is_over_setting()))
    };
    let (unit, title) = (figure.unit.as_ref(), figure.y_title.as_ref());
    if figure.diagonal {
        let all = || values(panel).chain(at());
        let vertical = panel.y.vertical(figure.scale, all(), unit, title);
        return (x.horizontal(Some(figure.scale), all()), vertical);
    }
    (
        x.horizontal(figure.x_scale, at()),
        panel.y.vertical(figure.scale, values(panel), unit, title),
    )
}

fn diagonal(panel: &Panel, x: Dimension, axes: &(Side, Side)) -> Mark {
    let (across, up) = (&axes.0.axis, &axes.1.axis);
    let least = across.value(across.start).max(up.value(up.start));
    let end = across.greatest().min(up.greatest());
    let title = panel.figure.diagonal_title.clone();
    let title = title.unwrap_or_else(|| format!("{} = {}", panel.y.title(), x.title()));
    Mark::line(Line::RULE, vec![(least, least), (end, end)], None, &title)
}

/// The knee of a curve: the last `x` before a metric leaves its plateau. Where more than half of a
/// point's values do not count, the point does not.
fn knee_of(curve: &Curve, metric: &str) -> Option<f64> {
    let mut points = Vec::new();
    for (point, trial) in curve
        .points
        .iter()
        .flat_map(|it| it.trials.iter().map(move |of| (it, of)))
    {
        let value = point.at.zip(trial.measured.metric(metric));
        points.extend(value.map(|(level, tail)| TailPoint {
            level,
            tail: tail.max(0.0),
            generator_limited: matches!(summary::state(trial.measured, metric), State::Grey(_)),
        }));
    }
    Knee::of(&points, KNEE_FACTOR).map(|knee| knee.level)
}

fn knee_mark(panel: &Panel, curve: (usize, &Curve), x: Dimension, at: f64) -> Option<Mark> {
    let point = curve.1.points.iter().find(|point| point.at == Some(at))?;
    let (of, place) = (Summary::of(point, panel.y)?, x.place(at));
    let position = Position::of(x, Some(at));
    let placed = Placed {
        at: 0,
        position,
        curve,
        point,
    };
    Some(Mark {
        shape: Shape::Ring(KNEE),
        at: vec![(at, of.value)],
        hint: format!(
            "{}: the knee, {}",
            curve.1.name,
            place.trim_start_matches("at ")
        ),
        tells: format!("knee {place}"),
        key: "knee".to_owned(),
        ..panel.mark(&placed, "knee", "", None)
    })
}

/// Horizontal offset of a trial, in pixels, so that markers do not hide each other.
fn aside(trial: Trial, point: &Point) -> f64 {
    let middle = f64::from(point.planned.saturating_sub(1)) / 2.0;
    let step = (SIDE_BY_SIDE / middle.max(0.5)).min(SIDE_STEP);
    (f64::from(trial.number) - middle) * step
}
