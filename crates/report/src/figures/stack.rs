//! The medians of several metrics as the parts of one bar, for each value of `x`, grouped by it: a
//! bar for each curve.
//!
//! Shades tell parts apart, so bars are told apart by labels below them. A part without a value is
//! missing, never zero.

use super::cells::{interval, row, words};
use super::dimension::{self, Dimension};
use super::grid::{Grid, Placed};
use super::panel::Panel;
use super::summary::Summary;
use super::{notes, shortened};
use crate::chart::Ramp;
use crate::chart::axis::{Axis, Scale};
use crate::chart::mark::{Bound, Look, Mark, Scene, Series, Shape, State};
use crate::chart::side::Side;
use crate::record::Metric;
use crate::units;

/// Half the width of a bar, as a share of its place.
const HALF: f64 = 0.39;
/// Share of the plot above the highest bar that the names of groups take.
const HEADED: f64 = 0.08;

pub(super) fn scene(panel: &Panel) -> Scene {
    let metrics = panel
        .figure
        .parts
        .iter()
        .filter_map(|name| panel.plan.metric(name));
    let metrics: Vec<&Metric> = metrics.collect();
    let grid = Grid::of(panel);
    let mut placed: Vec<Placed> = grid.placed().collect();
    placed.sort_by_key(|it| (it.at, it.curve.0));
    let (across, places, groups) = places(panel, &grid, &placed);
    let stacks = placed.iter().zip(places);
    let stacks = stacks.flat_map(|(placed, at)| stack(panel, &metrics, placed, at));
    let mut marks: Vec<Mark> = stacks.collect();
    let room = if panel.figure.by.is_some() {
        1.0 + HEADED
    } else {
        1.0
    };
    let tops = marks.iter().flat_map(|mark| &mark.at).map(|it| room * it.1);
    let axis = Axis::over(Scale::Linear, tops);
    marks.extend(groups.into_iter().map(|(name, at)| Mark {
        shape: Shape::Words(vec![name]),
        at: vec![(at, 0.955 * axis.greatest())],
        ..Mark::default()
    }));
    let (unit, shown) = (
        metrics.first().map(|it| &it.unit),
        panel.figure.unit.as_ref(),
    );
    let title = panel.figure.y_title.clone().unwrap_or_else(|| {
        match shown.or(unit.filter(|unit| !unit.is_in_ticks())) {
            Some(unit) => format!("medians ({})", unit.name()),
            None => "medians".to_owned(),
        }
    });
    let up = dimension::side(unit, shown, axis, &title);
    // Parts are in order, and so are shades.
    let last = metrics.len().saturating_sub(1).max(1) as f64;
    let series = metrics.iter().enumerate().map(|(index, metric)| Series {
        name: metric.title.clone(),
        short: shortened(&metric.title),
        look: Look::Shade(Ramp::of(index as f64 / last)),
    });
    let titles: Vec<String> = metrics.iter().map(|it| it.title.clone()).collect();
    let x = panel
        .x
        .map(|x| format!(" against {}", x.title()))
        .unwrap_or_default();
    let title = format!("{}{x}", units::listed(&titles));
    let mut scene = Scene::new(title, (across, up), series.collect());
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
    scene
}

/// The axis with the places of bars: those of one position side by side, named by their curves,
/// with a gap to the next; and the names of the positions with their middles.
fn places(panel: &Panel, grid: &Grid, placed: &[Placed]) -> (Side, Vec<f64>, Vec<(String, f64)>) {
    let by = panel
        .figure
        .by
        .as_ref()
        .and_then(|name| panel.plan.factor(name));
    let gap = if by.is_some() { 0.6 } else { 0.0 };
    let (mut at, mut groups, mut free) = (Vec::new(), Vec::new(), 0.0);
    for group in placed.chunk_by(|a, b| a.at == b.at) {
        let count = group.len() as f64;
        let of_x = panel.x.zip(group[0].point.at).map(|(x, at)| x.label(at));
        let name = of_x.unwrap_or_else(|| group[0].position.label.clone());
        groups.extend(by.map(|_| (name, free + (count - 1.0) / 2.0)));
        at.extend((0..group.len()).map(|index| free + index as f64));
        free += count + gap;
    }
    let axis = Axis {
        start: -0.5 - gap / 2.0,
        end: (free - 0.5 - gap / 2.0).max(0.5),
        labelled: at.clone(),
        ..Axis::of_names(0)
    };
    let title = match (by, grid.title.as_str()) {
        (None, x) => x.to_owned(),
        (Some(by), "") => by.title.clone(),
        (Some(by), x) => format!("{}, by {x}", by.title),
    };
    let label = |place: f64, _: f64| {
        let index = at.iter().position(|it| *it == place).unwrap_or_default();
        match by {
            Some(_) => panel.legend_name(placed[index].curve.1),
            None => placed[index].position.label.clone(),
        }
    };
    let side = Side::new(axis, &title, "count".to_owned(), label);
    (side, at, groups)
}

/// The parts of a bar, from the bottom, each with what was published for it.
fn stack(panel: &Panel, metrics: &[&Metric], placed: &Placed, at: f64) -> Vec<Mark> {
    let (curve, point, plain) = (placed.curve.1, placed.point, &placed.position.plain);
    let name = panel.point_name(curve, point);
    let x = panel.figure.x.as_deref().unwrap_or("cell");
    let (mut marks, mut below, mut published_below) = (Vec::new(), 0.0, 0.0);
    let mut lacks: Vec<String> = Vec::new();
    for (index, metric) in metrics.iter().enumerate() {
        let y = Dimension::Metric(metric);
        let row = |row: &str, value: f64| {
            row! {
                "curve" => curve.name, "row" => row, "part" => metric.name, x => plain,
                "value" => value, "unit" => metric.unit,
            }
        };
        let factor = metric.unit.to(&metrics[0].unit).unwrap_or(1.0);
        let of = Summary::of(point, y);
        let height = of
            .as_ref()
            .map(|of| of.value * factor)
            .filter(|&it| it >= 0.0);
        if let Some(of) = of {
            let corners = |height: f64| vec![(at - HALF, below), (at + HALF, below + height)];
            // Of a shade, the state is drawn in the middle.
            let middle = height
                .filter(|_| !of.counts())
                .map(|it| (at, below + it / 2.0));
            marks.push(Mark {
                shape: Shape::Bar,
                at: height.map(corners).unwrap_or_default(),
                series: Some(index),
                hint: format!("{name}: {} {}", metric.title, words(y, &of)),
                tells: format!("{name} {}", y.text(of.value)),
                bound: Bound::y(of.is_bound),
                row: [row("median", of.value), interval(&of)].concat(),
                state: of.state.clone(),
                ..Mark::default()
            });
            let (at, state) = (middle.into_iter().collect(), of.state);
            marks.push(Mark {
                at,
                state,
                ..Mark::default()
            });
        }
        lacks.extend(
            height
                .is_none()
                .then(|| format!("no value of {}", metric.title)),
        );
        let height = height.unwrap_or_default();
        if let Some((value, source)) = panel.published(point, &metric.name) {
            published_below += value * factor;
            marks.push(Mark {
                at: vec![(at, published_below)],
                state: State::Published(source.to_owned()),
                hint: format!(
                    "{name}: {} published {}, {source}",
                    metric.title,
                    y.text(value)
                ),
                row: row("published", value),
                ..Mark::default()
            });
        } else {
            published_below += height;
        }
        below += height;
    }
    marks.extend(missing(panel, placed, at, lacks));
    marks
}

/// What a bar lacks.
fn missing(panel: &Panel, placed: &Placed, at: f64, mut lacks: Vec<String>) -> Option<Mark> {
    let (missing, planned) = (placed.point.missing(), placed.point.planned);
    if missing > 0 {
        lacks.insert(0, format!("{missing} of {planned} trials missing"));
    }
    let (curve, lacks) = (placed.curve.1, lacks.join(", "));
    let x = panel.figure.x.as_deref().unwrap_or("cell");
    (!lacks.is_empty()).then(|| Mark {
        at: vec![(at, f64::NAN)],
        hint: format!("{}: {lacks}", panel.point_name(curve, placed.point)),
        state: State::Missing(lacks),
        row: row! { "curve" => curve.name, "row" => "missing", x => placed.position.plain },
        ..Mark::default()
    })
}
