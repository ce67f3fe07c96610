//! The medians of several metrics as the parts of one bar, for each value of `x`, grouped by it: a
//! bar for each curve.
//!
//! Shades tell parts apart, so bars are told apart by labels below them. A part without a value is
//! missing, never zero.

use super::dimension::Dimension;
use super::marks::{interval_cells, row, words};
use super::notes;
use super::panel::Panel;
use super::point::{Point, Summary};
use crate::chart::axis::{Axis, Scale, Side};
use crate::chart::mark::{Mark, Scene, Series, Shape, State};
use crate::record::Metric;
use crate::units;

/// Half the width of a bar, as a share of its place.
const HALF: f64 = 0.39;
/// Share of the plot above the highest bar that the names of groups take.
const HEADED: f64 = 0.08;

pub(super) fn scene(panel: &Panel) -> Scene {
    let figure = panel.figure;
    let metrics = figure.parts.iter().filter_map(|it| panel.plan.metric(it));
    let metrics: Vec<&Metric> = metrics.collect();
    let mut points: Vec<&Point> = panel.points().collect();
    points.sort_by_key(|it| (it.slot, it.curve));
    let (across, places, groups) = places(panel, &points);
    let stacks = points.iter().zip(places);
    let stacks = stacks.flat_map(|(point, at)| stack(panel, &metrics, point, at));
    let mut marks: Vec<Mark> = stacks.collect();
    let room = 1.0 + figure.by.as_ref().map_or(0.0, |_| HEADED);
    let tops = marks.iter().flat_map(|mark| &mark.at).map(|it| room * it.1);
    let axis = Axis::over(Scale::Linear, tops);
    let heading = 0.955 * axis.greatest();
    for (name, at) in groups {
        let words = Shape::Words(vec![name]);
        marks.push(Mark::new(words, None, [(at, heading)]));
    }
    let (unit, shown) = (metrics.first().map(|it| &it.unit), figure.unit.as_ref());
    let named = shown.or(unit.filter(|unit| !unit.is_in_ticks()));
    let named = named.map(|unit| format!(" ({})", unit.name()));
    let title = figure.y_title.clone();
    let title = title.unwrap_or_else(|| format!("medians{}", named.unwrap_or_default()));
    let up = Side::of_unit(unit, shown, axis, &title);
    let titles: Vec<String> = metrics.iter().map(|it| it.title.clone()).collect();
    let x = panel.x.map(|x| format!(" against {}", x.title()));
    let title = units::listed(&titles) + &x.unwrap_or_default();
    let mut scene = Scene::new(title, (across, up), Series::shades(titles));
    scene.marks = marks;
    let what = "Parts are medians, from the bottom in the order of the legend; the sum of medians \
                need not be the median of the sums.";
    scene.say_if(panel.points().any(|it| it.trials.len() > 1), what);
    for metric in metrics {
        let of = Dimension::Metric(metric);
        let without = notes::without_value(panel, of).into_iter();
        let without = without.map(|note| format!("{}: {note}", metric.title));
        scene.notes.extend(without.chain(notes::bounds(panel, of)));
    }
    scene
}

/// The axis with the places of bars: those of one position side by side, named by their curves,
/// with a gap to the next; and the names of the positions with their middles.
fn places(panel: &Panel, points: &[&Point]) -> (Side, Vec<f64>, Vec<(String, f64)>) {
    let by = panel.figure.by.as_ref();
    let by = by.and_then(|name| panel.plan.factor(name));
    let gap = if by.is_some() { 0.6 } else { 0.0 };
    let (mut at, mut groups, mut free) = (Vec::new(), Vec::new(), 0.0);
    for group in points.chunk_by(|a, b| a.slot == b.slot) {
        let count = group.len() as f64;
        let of_x = panel.x.zip(group[0].at).map(|(x, at)| x.label(at));
        let name = of_x.unwrap_or_else(|| panel.slots[group[0].slot].clone());
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
    let title = match (by, panel.slots_title()) {
        (None, x) => x,
        (Some(by), x) if x.is_empty() => by.title.clone(),
        (Some(by), x) => format!("{}, by {x}", by.title),
    };
    let label = |place: f64| {
        let index = at.iter().position(|it| *it == place).unwrap_or_default();
        match by {
            Some(_) => panel.legend_name(panel.curve(points[index])),
            None => panel.slots[points[index].slot].clone(),
        }
    };
    let side = Side::new(axis, &title, "count".to_owned(), label);
    (side, at, groups)
}

/// The parts of a bar, from the bottom, each with what was published for it; and what it lacks.
fn stack(panel: &Panel, metrics: &[&Metric], point: &Point, at: f64) -> Vec<Mark> {
    let (name, x) = (panel.point_name(point), panel.x_cell(point, point.at));
    let (mut marks, mut below, mut published_below) = (Vec::new(), 0.0, 0.0);
    let mut lacks: Vec<String> = Vec::new();
    let (missing, planned) = (point.missing(), point.planned);
    lacks.extend((missing > 0).then(|| format!("{missing} of {planned} trials missing")));
    for (index, metric) in metrics.iter().enumerate() {
        let (y, title) = (Dimension::Metric(metric), &metric.title);
        let row = |row: &str, value: f64| {
            row! {
                "curve" => panel.curve(point).name, "row" => row, "part" => metric.name,
                panel.x_name() => x, "value" => value, "unit" => metric.unit,
            }
        };
        let factor = metric.unit.to(&metrics[0].unit).unwrap_or(1.0);
        let of = Summary::of(point, y);
        let height = of.as_ref().map(|of| of.value * factor);
        let height = height.filter(|&it| it >= 0.0);
        if let Some(of) = of {
            let corners = height.map(|it| [(at - HALF, below), (at + HALF, below + it)]);
            let part = Mark::new(Shape::Bar, Some(index), corners.into_iter().flatten())
                .hint(format!("{name}: {title} {}", words(y, &of)))
                .tells(format!("{name} {}", y.text(of.value)))
                .bound(of.is_bound)
                .state(of.state.clone())
                .row(row("median", of.value));
            marks.push(part.row(interval_cells(&of)));
            // Of a shade, the state is drawn in the middle.
            let middle = height.filter(|_| !of.counts());
            let middle = middle.map(|it| (at, below + it / 2.0));
            marks.push(Mark::new(Shape::Point, None, middle).state(of.state));
        }
        lacks.extend(height.is_none().then(|| format!("no value of {title}")));
        let height = height.unwrap_or_default();
        let published = panel.published(point, &metric.name);
        published_below += published.map_or(height, |it| it.0 * factor);
        marks.extend(published.map(|(value, source)| {
            Mark::new(Shape::Point, None, [(at, published_below)])
                .published(
                    &name,
                    &format!("{title} published {}", y.text(value)),
                    source,
                )
                .row(row("published", value))
        }));
        below += height;
    }
    let lacks = lacks.join(", ");
    let row = row! {
        "curve" => panel.curve(point).name, "row" => "missing", panel.x_name() => x,
    };
    let missing = Mark::new(Shape::Point, None, [(at, f64::NAN)]).row(row);
    let missing = missing.hint(format!("{name}: {lacks}"));
    marks.extend((!lacks.is_empty()).then(|| missing.state(State::Missing(lacks))));
    marks
}
