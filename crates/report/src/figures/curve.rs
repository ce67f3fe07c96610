//! `y` against `x`: a marker for each trial, a line through the medians of what counts, and a band
//! from the least to the greatest of them.
//!
//! The trials of a point are drawn side by side if they have the same `x`. A point without a median
//! interrupts line and band.

use measure::{KNEE_FACTOR, Knee, TailPoint};

use super::dimension::{Dimension, range};
use super::notes;
use super::panel::{Curve, Panel};
use super::point::{Point, Summary, Trial};
use crate::chart::axis::Side;
use crate::chart::mark::{Line, Mark, Scene, Shape, State};

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
    let mut scene = Scene::new(panel.against(), axes, panel.series());
    scene.marks.extend(guide);
    for (index, curve) in panel.curves.iter().enumerate() {
        for point in &curve.points {
            scene.marks.extend(points(panel, x, point));
        }
        scene.marks.extend(lines(panel, index, curve));
        let metric = panel.figure.knee.as_ref();
        let knee = metric.and_then(|metric| knee_of(curve, metric));
        if let Some((at, mark)) = knee.and_then(|at| Some((at, knee_mark(panel, curve, x, at)?))) {
            let words = format!(" (knee {})", x.text(at));
            scene.series[index].short.push_str(&words);
            scene.marks.push(mark);
        }
    }
    scene.notes.extend(notes::values(panel, panel.y));
    scene
}

/// The marks of a point: its trials, what is missing or published, and its median, which the line
/// draws unless it is of trials that fail.
fn points(panel: &Panel, x: Dimension, point: &Point) -> Vec<Mark> {
    // On the diagonal, different values of `x` are apart already.
    let is_spread = !panel.figure.diagonal && panel.is_over_setting();
    let trials = point.trials.iter().map(|&trial| {
        let at = x.of_record(trial.record);
        let aside = if is_spread { aside(trial, point) } else { 0.0 };
        panel.trial(point, trial, at, at).aside(aside)
    });
    let mut marks: Vec<Mark> = trials.collect();
    marks.extend(panel.beside(point, point.at));
    marks.extend(Summary::of(point, panel.y).map(|of| {
        let is_failing = matches!(of.state, State::Failing(_)) && of.is_spread();
        let at = point.at.filter(|_| is_failing).map(|at| (at, of.value));
        panel.median(point, point.at, &of).at(at).size(1.5)
    }));
    marks
}

/// The line through the medians, the bands around it, and the line through published values.
fn lines(panel: &Panel, index: usize, curve: &Curve) -> Vec<Mark> {
    let (series, y) = (Some(index), panel.y);
    let is_of_many = panel.points().any(|it| it.trials.len() > 1);
    let (mut median, mut published, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for point in &curve.points {
        let at = point.at.unwrap_or(f64::NAN);
        let of = Summary::of(point, y).filter(Summary::counts);
        let counts = |it: &&Trial| it.state(y.name()) == State::Counts;
        let counted = point.trials.iter().filter(counts);
        let counted = range(counted.filter_map(|it| y.of_record(it.record)));
        let counted = counted.filter(|_| of.is_some() && at.is_finite());
        ends.push(counted.map(|(low, high)| (at, low, high)));
        median.push((at, of.map_or(f64::NAN, |of| of.value)));
        published.extend(panel.published(point, y.name()).map(|it| (at, it.0)));
    }
    let key = if is_of_many { "median" } else { "" };
    let mut marks = vec![
        Mark::line(Line::MEDIAN, median, series, key),
        Mark::line(Line::PUBLISHED, published, series, ""),
    ];
    let pieces = ends.split(Option::is_none).filter(|it| it.len() > 1);
    for piece in pieces.filter(|_| is_of_many) {
        let low = piece.iter().flatten().map(|it| (it.0, it.1));
        let high = piece.iter().flatten().rev().map(|it| (it.0, it.2));
        let band = Mark::new(Shape::Band, series, low.chain(high));
        marks.push(band.key("range of the trials"));
    }
    marks
}

/// Both axes over all trials; on a diagonal, one range for both.
fn axes(panel: &Panel, x: Dimension) -> (Side, Side) {
    let figure = panel.figure;
    // Where trials of a point differ in `x`, each must be within.
    let own = panel.trials().filter_map(|it| x.of_record(it.record));
    let own = own.filter(|_| !panel.is_over_setting());
    let at: Vec<f64> = panel.points().filter_map(|it| it.at).chain(own).collect();
    if figure.diagonal {
        let all = [panel.values(), at].concat();
        let across = x.horizontal(Some(figure.scale), all.clone());
        return (across, panel.vertical(figure.scale, all));
    }
    let across = x.horizontal(figure.x_scale, at);
    (across, panel.vertical(figure.scale, panel.values()))
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
    for point in &curve.points {
        for trial in &point.trials {
            let value = point.at.zip(trial.measured.metric(metric));
            points.extend(value.map(|(level, tail)| TailPoint {
                level,
                tail: tail.max(0.0),
                generator_limited: matches!(trial.state(metric), State::Grey(_)),
            }));
        }
    }
    Knee::of(&points, KNEE_FACTOR).map(|knee| knee.level)
}

fn knee_mark(panel: &Panel, curve: &Curve, x: Dimension, at: f64) -> Option<Mark> {
    let point = curve.points.iter().find(|point| point.at == Some(at))?;
    let (of, place) = (Summary::of(point, panel.y)?, x.place(at));
    let words = place.trim_start_matches("at ");
    let mark = panel.mark(point, "knee", "", Some(at), None);
    let mark = mark.shape(Shape::Ring(KNEE)).at([(at, of.value)]);
    let hint = format!("{}: the knee, {words}", curve.name);
    Some(mark.hint(hint).tells(format!("knee {place}")).key("knee"))
}

/// Horizontal offset of a trial, in pixels, so that markers do not hide each other.
fn aside(trial: Trial, point: &Point) -> f64 {
    let middle = f64::from(point.planned.saturating_sub(1)) / 2.0;
    let step = (SIDE_BY_SIDE / middle.max(0.5)).min(SIDE_STEP);
    (f64::from(trial.number) - middle) * step
}
