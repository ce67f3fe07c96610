//! A marker for each cell at the medians of `x` and `y`; and the Pareto front, if that is asked
//! for.
//!
//! Area shows `size`, shade shows `shade`, colour and shape show `by`. Crossed lines through a
//! marker are the intervals of its medians, where there is room.

use super::cells::{row, why, words};
use super::dimension::Dimension;
use super::grid::{Placed, Position};
use super::panel::Panel;
use super::summary::Summary;
use super::{against, notes, series};
use crate::chart::Ramp;
use crate::chart::legend::Entry;
use crate::chart::mark::{Bound, Line, Look, Mark, Scene, Shape, State, listed};
use crate::chart::side::Side;
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
    placed: Placed<'p, 'a>,
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
        Some(Summary::of(self.placed.point, of)?.value)
    }
}

/// What size or shade show, and the range of its values.
#[derive(Clone, Copy)]
struct Scaled<'a> {
    of: Dimension<'a>,
    range: Option<(f64, f64)>,
}

pub(super) fn scene(panel: &Panel) -> Scene {
    // The declaration has been checked: a scatter has an `x`.
    let (x, y, figure) = (panel.x.unwrap_or(panel.y), panel.y, panel.figure);
    let (mut cells, mut without) = (Vec::new(), Vec::new());
    for curve in panel.curves.iter().enumerate() {
        for point in &curve.1.points {
            let name = panel.point_name(curve.1, point);
            let Some((x_of, y)) = Summary::of(point, x).zip(Summary::of(point, y)) else {
                without.push(name);
                continue;
            };
            let position = Position::of(x, Some(x_of.value));
            let placed = Placed {
                at: 0,
                position,
                curve,
                point,
            };
            cells.push(Cell {
                placed,
                name,
                x: x_of,
                y,
            });
        }
    }
    let published: Vec<Mark> = cells
        .iter()
        .flat_map(|it| published(panel, x, it))
        .collect();
    let has_intervals = cells.len() <= UNCROWDED && cells.iter().any(|it| it.y.is_spread());
    let axes = axes(panel, x, &cells, &published);
    let mut scene = Scene::new(against(panel), axes, series(panel));
    let scaled = [&figure.size, &figure.shade].map(|name| scaled(panel, &cells, name));
    let front = front(panel, x, &cells);
    let mut markers: Vec<Mark> = Vec::new();
    for (index, it) in cells.iter().enumerate() {
        scene.marks.extend(intervals(it).filter(|_| has_intervals));
        let mut mark = marker(panel, x, it, scaled);
        if front.contains(&index) {
            mark.row.extend(row! { "front" => "front" });
        }
        markers.push(mark);
    }
    scene.marks.append(&mut markers);
    scene
        .marks
        .extend(front_line(&front, &cells).filter(|_| figure.kind == FigureKind::Pareto));
    for (shape, metric) in BEST.iter().cycle().zip(&figure.marks) {
        scene
            .marks
            .extend(best(&cells, Dimension::of(panel.plan, metric), shape));
    }
    scene.marks.extend(published_lines(panel, &published));
    scene.marks.extend(published);
    scene.note("No value", without);
    for (scaled, effect) in scaled.iter().zip(["at the least size", "without a shade"]) {
        let Some(Scaled { of, range }) = *scaled else {
            continue;
        };
        let lacking = cells.iter().filter(|it| it.value(of).is_none());
        let names = lacking.map(|it| it.name.clone()).collect();
        scene.note(&format!("No {}, drawn {effect}", of.title()), names);
        scene
            .key
            .extend(key(of, range, effect == "at the least size"));
    }
    scene
        .notes
        .extend([x, y].into_iter().filter_map(|of| notes::bounds(panel, of)));
    if figure.kind == FigureKind::Pareto {
        let what = "Front: no other cell is at least as good in both and better in one. Medians \
                    decide; cells whose ranges overlap may be on it by chance.";
        scene.notes.push(what.to_owned());
    }
    if has_intervals {
        scene
            .notes
            .push("Markers are medians, lines their intervals.".to_owned());
    }
    scene
}

fn scaled<'a>(panel: &Panel<'a>, cells: &[Cell], name: &'a Option<String>) -> Option<Scaled<'a>> {
    let of = Dimension::of(panel.plan, name.as_ref()?);
    let values = || cells.iter().filter_map(|it| it.value(of));
    let range = values().reduce(f64::min).zip(values().reduce(f64::max));
    Some(Scaled { of, range })
}

/// Both axes over all that is drawn.
fn axes(panel: &Panel, x: Dimension, cells: &[Cell], published: &[Mark]) -> (Side, Side) {
    let others = published.iter().flat_map(|it| it.at.clone());
    let (mut across, mut up): (Vec<f64>, Vec<f64>) = others.unzip();
    for it in cells {
        across.extend([it.x.value, it.x.low, it.x.high]);
        up.extend([it.y.value, it.y.low, it.y.high]);
    }
    let figure = panel.figure;
    let (unit, title) = (figure.unit.as_ref(), figure.y_title.as_ref());
    let up = panel.y.vertical(figure.scale, up.into_iter(), unit, title);
    (x.horizontal(figure.x_scale, across.into_iter()), up)
}

/// The entries of the legend for sizes or shades.
fn key(of: Dimension, range: Option<(f64, f64)>, is_size: bool) -> Vec<Entry> {
    let title = units::shortened(of.title(), NAMES);
    let Some((least, greatest)) = range else {
        return vec![Entry::words(format!("{title}: no value"))];
    };
    let ends = [least, greatest].map(|value| of.text(value));
    if !is_size {
        return vec![Entry::ramp(format!("{title}: {} to {}", ends[0], ends[1]))];
    }
    let sizes = [least, greatest].map(|value| size_of(value, range));
    let circles = sizes.into_iter().zip(ends).map(|(size, text)| {
        let mark = Mark {
            size,
            ..Mark::default()
        };
        Entry::new(Look::Ink, vec![mark], text)
    });
    let words = Entry::words(format!("area: {title}"));
    std::iter::once(words).chain(circles).collect()
}

/// The size of a marker: its area is proportional to the value.
fn size_of(value: f64, range: Option<(f64, f64)>) -> f64 {
    let greatest = range.map_or(1.0, |it| it.1).max(f64::MIN_POSITIVE);
    (WIDEST * (value.max(0.0) / greatest).sqrt()).max(NARROWEST)
}

fn marker(panel: &Panel, x: Dimension, it: &Cell, scaled: [Option<Scaled>; 2]) -> Mark {
    let (name, title, bound) = (&it.name, panel.y.title(), units::lower_bound(it.x.is_bound));
    let mut mark = panel.median(&it.placed, &it.y);
    let mut hint = vec![format!("{} {bound}{}", x.title(), x.text(it.x.value))];
    if it.x.is_spread() {
        let [low, high] = ["low", "high"].map(|end| format!("{} {end}", x.name()));
        mark.row.extend(row! { low => it.x.low, high => it.x.high });
    }
    for Scaled { of, .. } in scaled.into_iter().flatten() {
        if let Some(value) = it.value(of) {
            hint.push(format!("{} {}", of.title(), of.text(value)));
            mark.row.extend(row! { of.name() => of.plain(value) });
        }
    }
    hint.push(format!("{title} {}", words(panel.y, &it.y)));
    let missing = it.placed.point.missing();
    mark.row.extend(row! { "missing" => missing });
    // That of `y` is among its words.
    let reason = if it.y.counts() {
        why(&it.x.state)
    } else {
        String::new()
    };
    let [size, shade] = scaled;
    let size = size.map(|of| {
        it.value(of.of)
            .map_or(NARROWEST, |it| size_of(it, of.range))
    });
    let shade = shade.and_then(|scaled| {
        let (least, greatest) = scaled.range?;
        let share = (it.value(scaled.of)? - least) / (greatest - least);
        Some(Ramp::of(if greatest > least { share } else { 0.5 }))
    });
    Mark {
        at: vec![it.at()],
        shade,
        size: size.unwrap_or(PLAIN),
        state: it.state().clone(),
        bound: Bound {
            x: it.x.is_bound,
            y: it.y.is_bound,
        },
        hint: format!("{name}: {}{reason}", hint.join(", ")),
        ..mark
    }
}

/// Crossed lines along the intervals.
fn intervals(it: &Cell) -> impl Iterator<Item = Mark> {
    let ((x, y), series) = (it.at(), Some(it.placed.curve.0));
    let across =
        it.x.is_spread()
            .then(|| vec![(it.x.low, y), (it.x.high, y)]);
    let up =
        it.y.is_spread()
            .then(|| vec![(x, it.y.low), (x, it.y.high)]);
    let counts = *it.state() == State::Counts;
    let both = [across, up].into_iter().flatten().filter(move |_| counts);
    let size = 0.5;
    both.map(move |at| Mark {
        shape: Shape::Interval,
        at,
        series,
        size,
        ..Mark::default()
    })
}

/// The published `y` of a cell, at its published `x` or else at its own.
fn published(panel: &Panel, x: Dimension, it: &Cell) -> Vec<Mark> {
    let own = panel.published(it.placed.point, x.name()).map(|it| it.0);
    let at = own.unwrap_or(it.x.value);
    let placed = Placed {
        position: Position::of(x, Some(at)),
        ..it.placed.clone()
    };
    let is_missing = |mark: &Mark| matches!(mark.state, State::Missing(_));
    let beside = panel.beside(&placed, Some(at));
    beside.filter(|mark| !is_missing(mark)).collect()
}

/// A line through the published values of each curve.
fn published_lines(panel: &Panel, published: &[Mark]) -> Vec<Mark> {
    let line = |index: usize| {
        let own = published.iter().filter(|it| it.series == Some(index));
        let line = own.flat_map(|it| it.at.clone()).collect();
        Mark::line(Line::PUBLISHED, line, Some(index), "")
    };
    (0..panel.curves.len()).map(line).collect()
}

/// The cells that no other beats, from the best `x` to the best `y`; only what counts takes part.
fn front(panel: &Panel, x: Dimension, cells: &[Cell]) -> Vec<usize> {
    let directions = better(x).zip(better(panel.y));
    let Some((x, y)) = directions.filter(|_| panel.figure.kind == FigureKind::Pareto) else {
        return Vec::new();
    };
    let counts = |index: &usize| *cells[*index].state() == State::Counts;
    let counted: Vec<usize> = (0..cells.len()).filter(counts).collect();
    let points: Vec<(f64, f64)> = counted.iter().map(|&index| cells[index].at()).collect();
    let front = measure::pareto_front(&points, x, y).unwrap_or_default();
    front.into_iter().map(|at| counted[at]).collect()
}

/// The boundary of what the cells reach: at each `x`, the best `y` of the cells that are at least as
/// good in `x`.
fn front_line(front: &[usize], cells: &[Cell]) -> impl Iterator<Item = Mark> {
    let mut line: Vec<(f64, f64)> = Vec::new();
    for (x, y) in front.iter().map(|&index| cells[index].at()) {
        line.extend(line.last().map(|&(_, before)| (x, before)));
        line.push((x, y));
    }
    let key = if line.len() > 1 { "Pareto front" } else { "" };
    let names = front.iter().map(|&index| cells[index].name.clone());
    let tells = listed(names.collect(), "other cell", "; ").unwrap_or_default();
    let tells = format!("On the front: {tells}");
    let line = Mark::line(Line::FRONT, line, None, key);
    std::iter::once(Mark { tells, ..line })
}

/// The best cell by a metric; the first of equals.
fn best(cells: &[Cell], of: Dimension, shape: &'static str) -> Option<Mark> {
    let is_higher = matches!(better(of)?, measure::Better::Higher);
    let values = cells.iter().filter_map(|it| {
        let summary = Summary::of(it.placed.point, of).filter(Summary::counts)?;
        Some((it, summary.value))
    });
    let (it, value) = values.reduce(|best, next| {
        let is_better = if is_higher {
            next.1 > best.1
        } else {
            next.1 < best.1
        };
        if is_better { next } else { best }
    })?;
    let [title, name] = [of.title(), &it.name].map(|it| units::shortened(it, NAMES));
    let words = format!("best {title}: {name} ({})", of.text(value));
    Some(Mark {
        shape: Shape::Ring(shape),
        at: vec![it.at()],
        hint: words.clone(),
        tells: format!("Best {title}: {name}"),
        key: words,
        ..Mark::default()
    })
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
