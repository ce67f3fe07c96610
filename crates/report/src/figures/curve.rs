//! `y` against `x`: a marker for each trial, a line through the medians of what counts, and a band
//! from the least to the greatest of them.
//!
//! The trials of a point are drawn side by side if they have the same `x`. A point without a median
//! interrupts line and band.

use measure::{KNEE_FACTOR, Knee, TailPoint};

use super::dimension::Dimension;
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
    let figure = panel.figure;
    let axes = axes(panel, x);
    let guide = figure.diagonal.then(|| diagonal(panel, x, &axes));
    let mut scene = Scene::new(against(panel), axes, series(panel));
    scene.marks.extend(guide);
    // On the diagonal, different values of `x` are apart already.
    let is_spread = !figure.diagonal && panel.is_over_setting();
    let is_of_many = panel.points().any(|it| it.trials.len() > 1);
    for (index, curve) in panel.curves.iter().enumerate() {
        let own = (index, curve);
        let (mut line, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new());
        let (mut bands, mut published) = (Vec::new(), Vec::new());
        for point in &curve.points {
            let plain = point.at.map(|at| x.plain(at)).unwrap_or_default();
            let place = (plain.as_str(), point.at);
            for &trial in &point.trials {
                let at = x.of_record(trial.record);
                let plain = at.map(|at| x.plain(at)).unwrap_or_default();
                let mark = panel.trial(own, point, trial, (&plain, at));
                let aside = if is_spread { aside(trial, point) } else { 0.0 };
                scene.marks.push(Mark { aside, ..mark });
            }
            scene.marks.extend(panel.missing_mark(own, point, place));
            let mark = panel.published_mark(own, point, place);
            published.extend(mark.iter().flat_map(|it| it.at.clone()));
            scene.marks.extend(mark);
            let of = Summary::of(point, panel.y);
            let spread = point.spread(panel.y);
            if let Some(of) = &of {
                let mark = panel.median(own, point, &plain, of);
                // The line draws it, if it counts; several trials that fail have a mark together.
                let is_failing = matches!(of.state, State::Failing(_)) && of.is_spread();
                let at = point.at.filter(|_| is_failing).map(|at| (at, of.value));
                scene.marks.push(Mark {
                    at: at.into_iter().collect(),
                    size: 1.5,
                    ..mark
                });
            }
            let counted = of.filter(Summary::counts).zip(point.at);
            let at = counted.as_ref().map_or(f64::NAN, |(_, at)| *at);
            line.push((at, counted.map_or(f64::NAN, |(of, _)| of.value)));
            match spread.filter(|_| at.is_finite()) {
                Some(spread) => {
                    low.push((at, spread.min));
                    high.push((at, spread.max));
                }
                None => bands.push((std::mem::take(&mut low), std::mem::take(&mut high))),
            }
        }
        bands.push((low, high));
        for (low, high) in bands
            .into_iter()
            .filter(|(low, _)| is_of_many && low.len() > 1)
        {
            let at = low.into_iter().chain(high.into_iter().rev()).collect();
            let key = "range of the trials".to_owned();
            let (shape, series) = (Shape::Band, Some(index));
            scene.marks.push(Mark {
                shape,
                at,
                key,
                series,
                ..Mark::default()
            });
        }
        let key = if is_of_many { "median" } else { "" };
        scene
            .marks
            .push(Mark::line(Line::MEDIAN, line, Some(index), key));
        scene
            .marks
            .push(Mark::line(Line::PUBLISHED, published, Some(index), ""));
        let knee = figure
            .knee
            .as_ref()
            .and_then(|metric| knee_of(curve, metric));
        if let Some(mark) = knee.and_then(|at| knee_mark(panel, own, x, at)) {
            if let Some(series) = scene.series.get_mut(index) {
                series
                    .short
                    .push_str(&format!(" (knee {})", x.text(mark.at[0].0)));
            }
            scene.marks.push(mark);
        }
    }
    scene.notes.extend(notes::without_value(panel, panel.y));
    scene.notes.extend(notes::bounds(panel, panel.y));
    scene
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
    for point in &curve.points {
        for trial in &point.trials {
            let value = point.at.zip(trial.measured.metric(metric));
            points.extend(value.map(|(level, tail)| TailPoint {
                level,
                tail: tail.max(0.0),
                generator_limited: matches!(summary::state(trial.measured, metric), State::Grey(_)),
            }));
        }
    }
    Knee::of(&points, KNEE_FACTOR).map(|knee| knee.level)
}

fn knee_mark(
    panel: &Panel,
    (index, curve): (usize, &Curve),
    x: Dimension,
    at: f64,
) -> Option<Mark> {
    let point = curve.points.iter().find(|point| point.at == Some(at))?;
    let of = Summary::of(point, panel.y)?;
    let place = x.place(at);
    let row = panel.row(curve, "knee", "", &x.plain(at), None);
    Some(Mark {
        shape: Shape::Ring(KNEE),
        at: vec![(at, of.value)],
        series: Some(index),
        hint: format!(
            "{}: the knee, {}",
            curve.name,
            place.trim_start_matches("at ")
        ),
        tells: format!("knee {place}"),
        key: "knee".to_owned(),
        row,
        ..Mark::default()
    })
}

/// Horizontal offset of a trial, in pixels, so that markers do not hide each other.
fn aside(trial: Trial, point: &Point) -> f64 {
    let middle = f64::from(point.planned.saturating_sub(1)) / 2.0;
    let step = if middle > 0.0 {
        (SIDE_BY_SIDE / middle).min(SIDE_STEP)
    } else {
        0.0
    };
    (f64::from(trial.number) - middle) * step
}
