//! A marker for each cell at the medians of `x` and `y`; and the Pareto front, if that is asked
//! for.
//!
//! Area shows `size`, shade shows `shade`, colour and shape show `by`. Crossed lines through a
//! marker are the intervals of its medians, where there is room.

use super::dimension::{Dimension, range};
use super::marks::{row, why, words};
use super::notes;
use super::panel::Panel;
use super::point::{Point, Summary};
use crate::chart::axis::Side;
use crate::chart::mark::{Entry, Line, Look, Mark, Scene, Shape, State, listed};
use crate::chart::palette::Ramp;
use crate::figure::FigureKind;
use crate::record::Better;
use crate::units;

/// Greatest and least size of a marker whose area shows a value, and the size without one.
const WIDEST: f64 = 3.0;
const NARROWEST: f64 = 0.6;
const PLAIN: f64 = 1.6;
/// Cells up to which intervals are drawn.
const UNCROWDED: usize = 40;
/// Characters of a title or of a cell's name in the legend.
const NAMES: usize = 36;
/// Outlines around the best cell by each of several metrics.
const BEST: [&str; 4] = [
    "M-7,-7L7,7M-7,7L7,-7",
    "M-9,0H9M0,-9V9",
    "M0,-10L10,0L0,10L-10,0Z",
    "M-8,-8H8V8H-8Z",
];

/// A cell with `x` and `y`.
struct Cell<'p, 'a> {
    point: &'p Point<'a>,
    name: String,
    x: Summary,
    y: Summary,
}

impl Cell<'_, '_> {
    /// How its values count: as the worse of the two.
    fn state(&self) -> &State {
        match (&self.x.state, &self.y.state) {
            (State::Failing(_), _) | (State::Grey(_), State::Counts) => &self.x.state,
            _ => &self.y.state,
        }
    }

    fn at(&self) -> (f64, f64) {
        (self.x.value, self.y.value)
    }

    fn value(&self, of: Dimension) -> Option<f64> {
        Some(Summary::of(self.point, of)?.value)
    }
}

/// What size or shade show, and the range of its values.
#[derive(Clone, Copy)]
struct Scaled<'a> {
    of: Dimension<'a>,
    range: Option<(f64, f64)>,
}

impl Scaled<'_> {
    /// The size of a marker: its area is proportional to the value.
    fn size(self, value: Option<f64>) -> f64 {
        let greatest = self.range.map_or(1.0, |it| it.1).max(f64::MIN_POSITIVE);
        let share = value.unwrap_or_default().max(0.0) / greatest;
        (WIDEST * share.sqrt()).max(NARROWEST)
    }

    fn shade(self, value: Option<f64>) -> Option<Ramp> {
        let (least, greatest) = self.range?;
        let share = (value? - least) / (greatest - least);
        Some(Ramp::of(if greatest > least { share } else { 0.5 }))
    }

    /// The entries of the legend.
    fn key(self, is_size: bool) -> Vec<Entry> {
        let title = units::shortened(self.of.title(), NAMES);
        let Some((least, greatest)) = self.range else {
            return vec![Entry::words(format!("{title}: no value"))];
        };
        let [low, high] = [least, greatest].map(|value| self.of.text(value));
        if !is_size {
            return vec![Entry::ramp(format!("{title}: {low} to {high}"))];
        }
        let circle = |value, text| {
            let mark = Mark::new(Shape::Point, None, []).size(self.size(Some(value)));
            Entry::new(Look::Ink, vec![mark], text)
        };
        let words = Entry::words(format!("area: {title}"));
        vec![words, circle(least, low), circle(greatest, high)]
    }
}

pub(super) fn scene(panel: &Panel) -> Scene {
    // The declaration has been checked: a scatter has an `x`.
    let (x, y, figure) = (panel.x.unwrap_or(panel.y), panel.y, panel.figure);
    let (mut cells, mut without) = (Vec::new(), Vec::new());
    for point in panel.points() {
        let name = panel.point_name(point);
        match Summary::of(point, x).zip(Summary::of(point, y)) {
            Some((x, y)) => cells.push(Cell { point, name, x, y }),
            None => without.push(name),
        }
    }
    // The published `y` of a cell, at its published `x` or else at its own.
    let published = cells.iter().filter_map(|it| {
        let own = panel.published(it.point, x.name()).map(|it| it.0);
        let at = own.or(Some(it.x.value));
        panel.published_mark(it.point, at, at)
    });
    let published: Vec<Mark> = published.collect();
    let axes = axes(panel, x, &cells, &published);
    let mut scene = Scene::new(panel.against(), axes, panel.series());
    let scaled = [&figure.size, &figure.shade].map(|name| {
        let of = Dimension::of(panel.plan, name.as_ref()?);
        let range = range(cells.iter().filter_map(|it| it.value(of)));
        Some(Scaled { of, range })
    });
    let has_intervals = cells.len() <= UNCROWDED && cells.iter().any(|it| it.y.is_spread());
    let shown = cells.iter().filter(|_| has_intervals);
    scene.add(shown.flat_map(intervals));
    let is_pareto = figure.kind == FigureKind::Pareto;
    let front = front(panel, x, &cells);
    for (index, it) in cells.iter().enumerate() {
        let mark = marker(panel, x, it, scaled);
        scene.marks.push(match front.contains(&index) {
            true => mark.row(row! { "front" => "front" }),
            false => mark,
        });
    }
    if is_pareto {
        scene.marks.push(front_line(&front, &cells));
    }
    for (shape, metric) in BEST.iter().cycle().zip(&figure.marks) {
        let of = Dimension::of(panel.plan, metric);
        scene.marks.extend(best(&cells, of, shape));
    }
    // A line through the published values of each curve.
    for index in 0..panel.curves.len() {
        let own = published.iter().filter(|it| it.series == Some(index));
        let line = own.flat_map(|it| it.at.clone()).collect();
        scene.add([Mark::line(Line::PUBLISHED, line, Some(index), "")]);
    }
    scene.marks.extend(published);
    scene.note("No value", without);
    let effects = [("at the least size", true), ("without a shade", false)];
    for (scaled, (effect, is_size)) in scaled.into_iter().zip(effects) {
        let Some(scaled) = scaled else { continue };
        let lacking = cells.iter().filter(|it| it.value(scaled.of).is_none());
        let names = lacking.map(|it| it.name.clone()).collect();
        scene.note(&format!("No {}, drawn {effect}", scaled.of.title()), names);
        scene.key.extend(scaled.key(is_size));
    }
    let front = "Front: no other cell is at least as good in both and better in one. Medians \
                 decide; cells whose ranges overlap may be on it by chance.";
    let bounds = [x, y].map(|of| notes::bounds(panel, of));
    scene.notes.extend(bounds.into_iter().flatten());
    scene.say_if(is_pareto, front);
    scene.say_if(has_intervals, "Markers are medians, lines their intervals.");
    scene
}

/// Both axes over all that is drawn.
fn axes(panel: &Panel, x: Dimension, cells: &[Cell], published: &[Mark]) -> (Side, Side) {
    let others = published.iter().flat_map(|it| it.at.clone());
    let (mut across, mut up): (Vec<f64>, Vec<f64>) = others.unzip();
    for it in cells {
        across.extend([it.x.value, it.x.low, it.x.high]);
        up.extend([it.y.value, it.y.low, it.y.high]);
    }
    let up = panel.vertical(panel.figure.scale, up);
    (x.horizontal(panel.figure.x_scale, across), up)
}

fn marker(panel: &Panel, x: Dimension, it: &Cell, scaled: [Option<Scaled>; 2]) -> Mark {
    let bound = units::lower_bound(it.x.is_bound);
    let mut hint = vec![format!("{} {bound}{}", x.title(), x.text(it.x.value))];
    let mut row = Vec::new();
    if it.x.is_spread() {
        let [low, high] = ["low", "high"].map(|end| format!("{} {end}", x.name()));
        row = row! { low => it.x.low, high => it.x.high };
    }
    for Scaled { of, .. } in scaled.into_iter().flatten() {
        if let Some(value) = it.value(of) {
            hint.push(format!("{} {}", of.title(), of.text(value)));
            row.extend(row! { of.name() => of.plain(value) });
        }
    }
    hint.push(format!("{} {}", panel.y.title(), words(panel.y, &it.y)));
    row.extend(row! { "missing" => it.point.missing() });
    // That of `y` is among its words.
    let reason = if it.y.counts() {
        why(&it.x.state)
    } else {
        String::new()
    };
    let [size, shade] = scaled;
    let mark = panel.median(it.point, Some(it.x.value), &it.y);
    let mark = mark.at([it.at()]).state(it.state().clone()).row(row);
    mark.bound_x(it.x.is_bound)
        .size(size.map_or(PLAIN, |of| of.size(it.value(of.of))))
        .shade(shade.and_then(|of| of.shade(it.value(of.of))))
        .hint(format!("{}: {}{reason}", it.name, hint.join(", ")))
}

/// Crossed lines along the intervals.
fn intervals(it: &Cell) -> impl Iterator<Item = Mark> {
    let (x, y) = it.at();
    let series = Some(it.point.curve);
    let across = (&it.x, [(it.x.low, y), (it.x.high, y)]);
    let up = (&it.y, [(x, it.y.low), (x, it.y.high)]);
    let counts = *it.state() == State::Counts;
    let both = [across, up]
        .into_iter()
        .filter(move |of| counts && of.0.is_spread());
    both.map(move |of| Mark::new(Shape::Interval, series, of.1).size(0.5))
}

/// The cells that no other beats, from the best `x` to the best `y`; only what counts takes part.
fn front(panel: &Panel, x: Dimension, cells: &[Cell]) -> Vec<usize> {
    let better = better(x).zip(better(panel.y));
    let Some((x, y)) = better.filter(|_| panel.figure.kind == FigureKind::Pareto) else {
        return Vec::new();
    };
    let counts = |index: &usize| *cells[*index].state() == State::Counts;
    let counted: Vec<usize> = (0..cells.len()).filter(counts).collect();
    let points: Vec<(f64, f64)> = counted.iter().map(|&index| cells[index].at()).collect();
    let front = measure::pareto_front(&points, x, y).unwrap_or_default();
    front.into_iter().map(|at| counted[at]).collect()
}

/// The boundary of what the cells reach: at each `x`, the best `y` of the cells that are at least
/// as good in `x`.
fn front_line(front: &[usize], cells: &[Cell]) -> Mark {
    let mut line: Vec<(f64, f64)> = Vec::new();
    for (x, y) in front.iter().map(|&index| cells[index].at()) {
        line.extend(line.last().map(|&(_, before)| (x, before)));
        line.push((x, y));
    }
    let key = if line.len() > 1 { "Pareto front" } else { "" };
    let names = front.iter().map(|&index| cells[index].name.clone());
    let tells = listed(names.collect(), "other cell", "; ").unwrap_or_default();
    Mark::line(Line::FRONT, line, None, key).tells(format!("On the front: {tells}"))
}

/// The best cell by a metric; the first of equals.
fn best(cells: &[Cell], of: Dimension, shape: &'static str) -> Option<Mark> {
    let sign = match better(of)? {
        measure::Better::Higher => 1.0,
        measure::Better::Lower => -1.0,
    };
    let value = |it: &Cell| Summary::of(it.point, of).filter(Summary::counts);
    let values = cells.iter().filter_map(|it| Some((it, value(it)?.value)));
    let (it, value) = values.reduce(|best, next| match sign * next.1 > sign * best.1 {
        true => next,
        false => best,
    })?;
    let [title, name] = [of.title(), &it.name].map(|it| units::shortened(it, NAMES));
    let words = format!("best {title}: {name} ({})", of.text(value));
    let mark = Mark::new(Shape::Ring(shape), None, [it.at()]).key(&words);
    let mark = mark.tells(format!("Best {title}: {name}"));
    Some(mark.hint(words))
}

/// The direction in which a metric is better. None: it has none.
fn better(of: Dimension) -> Option<measure::Better> {
    match of {
        Dimension::Metric(metric) => match metric.better {
            Better::Lower => Some(measure::Better::Lower),
            Better::Higher => Some(measure::Better::Higher),
            Better::Neither => None,
        },
        Dimension::Factor(_) | Dimension::Other(_) => None,
    }
}
