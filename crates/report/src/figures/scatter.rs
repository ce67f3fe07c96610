//! A marker for each cell at the medians of `x` and `y`; and the Pareto front, if that is asked
//! for.
//!
//! Area shows `size`, shade shows `shade`, colour and shape show `by`. Crossed lines through a
//! marker reach from the least to the greatest of its trials, where there is room.

use super::cells::{self, cell, why};
use super::dimension::Dimension;
use super::panel::{Curve, Panel, Point};
use super::summary::Summary;
use super::{against, notes, series};
use crate::chart::Ramp;
use crate::chart::legend::{Entry, Sample};
use crate::chart::mark::{Bound, Line, Look, Mark, Scene, Shape, State, listed};
use crate::chart::side::Side;
use crate::figure::FigureKind;
use crate::record::Better;
use crate::units;

/// Greatest and least size of a marker whose area shows a value, and the size without one.
const WIDEST: f64 = 3.0;
const NARROWEST: f64 = 0.6;
const PLAIN: f64 = 1.55;
/// Cells up to which the ranges of the trials are drawn.
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
    curve: (usize, &'p Curve<'a>),
    point: &'p Point<'a>,
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
}

pub(super) fn scene(panel: &Panel) -> Scene {
    // The declaration has been checked: a scatter has an `x`.
    let (x, y, figure) = (panel.x.unwrap_or(panel.y), panel.y, panel.figure);
    let (mut cells, mut without) = (Vec::new(), Vec::new());
    for curve in panel.curves.iter().enumerate() {
        for point in &curve.1.points {
            match Summary::of(point, x).zip(Summary::of(point, y)) {
                Some((x, y)) => cells.push(Cell { curve, point, x, y }),
                None => without.push(panel.point_name(curve.1, point)),
            }
        }
    }
    let has_ranges = cells.len() <= UNCROWDED && cells.iter().any(|it| it.y.is_spread());
    let published: Vec<Mark> = cells
        .iter()
        .filter_map(|it| published(panel, x, it))
        .collect();
    let mut scene = Scene::new(
        against(panel),
        axes(panel, x, &cells, &published),
        series(panel),
    );
    let [size, shade] = [&figure.size, &figure.shade].map(|name| {
        let of = Dimension::of(panel.plan, name.as_ref()?);
        Some((of, range(&cells, of)))
    });
    let front = front(panel, x, &cells);
    let mut markers: Vec<Mark> = Vec::new();
    for (index, it) in cells.iter().enumerate() {
        if has_ranges {
            scene.marks.extend(ranges(it));
        }
        let mark = marker(panel, x, it, [&size, &shade]);
        let is_front = front.contains(&index).then(|| cell("front", "front"));
        let row = mark.row.iter().cloned().chain(is_front).collect();
        markers.push(Mark { row, ..mark });
    }
    if front.len() > 1 {
        let points = front.iter().map(|&index| cells[index].at());
        scene.marks.push(cells::line(
            Line::FRONT,
            staircase(points),
            None,
            "Pareto front",
        ));
    }
    if figure.kind == FigureKind::Pareto {
        let names = front.iter().map(|&index| name(panel, &cells[index]));
        let names = listed(names.collect(), "other cell", "; ");
        let tells = names.map(|names| format!("On the front: {names}"));
        scene.marks.extend(tells.map(|tells| Mark {
            tells,
            ..Mark::default()
        }));
        let what = "Front: the cells to which no other is at least as good in both and better in one. \
                    Medians decide; cells whose ranges overlap may be on it by chance.";
        scene.notes.push(what.to_owned());
    }
    for (shape, metric) in BEST.iter().cycle().zip(&figure.marks) {
        scene.marks.extend(best(
            panel,
            &cells,
            Dimension::of(panel.plan, metric),
            shape,
        ));
    }
    // The small ones last, or the large ones would hide them.
    let mut order: Vec<usize> = (0..markers.len()).collect();
    order.sort_by(|&a, &b| markers[b].size.total_cmp(&markers[a].size));
    scene
        .marks
        .extend(order.into_iter().map(|index| markers[index].clone()));
    for (index, _) in panel.curves.iter().enumerate() {
        let own = published.iter().filter(|it| it.series == Some(index));
        let line = own.flat_map(|it| it.at.clone()).collect();
        scene
            .marks
            .push(cells::line(Line::PUBLISHED, line, Some(index), ""));
    }
    scene.marks.extend(published);
    scene.key = size
        .iter()
        .flat_map(sizes)
        .chain(shade.iter().map(shades))
        .collect();
    let without = listed(without, "other cell", "; ");
    scene
        .notes
        .extend(without.map(|names| format!("No value: {names}.")));
    for (of, effect) in [(&size, "at the least size"), (&shade, "without a shade")] {
        let Some((of, _)) = of else { continue };
        let lacking = cells
            .iter()
            .filter(|it| Summary::of(it.point, *of).is_none());
        let names = listed(
            lacking.map(|it| name(panel, it)).collect(),
            "other cell",
            "; ",
        );
        let title = of.title();
        scene
            .notes
            .extend(names.map(|it| format!("No {title}: {it}, drawn {effect}.")));
    }
    scene
        .notes
        .extend([x, y].into_iter().filter_map(|of| notes::bounds(panel, of)));
    if has_ranges {
        let what = "Markers are medians; lines reach from end to end of their intervals.";
        scene.notes.push(what.to_owned());
    }
    scene
}

fn name(panel: &Panel, of: &Cell) -> String {
    panel.point_name(of.curve.1, of.point)
}

type Scaled<'a> = (Dimension<'a>, Option<(f64, f64)>);

/// The least and the greatest value over the cells.
fn range(cells: &[Cell], of: Dimension) -> Option<(f64, f64)> {
    let values = || {
        cells
            .iter()
            .filter_map(|it| Some(Summary::of(it.point, of)?.value))
    };
    values().reduce(f64::min).zip(values().reduce(f64::max))
}

/// The size of a marker: its area is proportional to the value.
fn size_of(value: f64, range: Option<(f64, f64)>) -> f64 {
    let greatest = range.map_or(1.0, |it| it.1).max(f64::MIN_POSITIVE);
    (WIDEST * (value.max(0.0) / greatest).sqrt()).max(NARROWEST)
}

fn marker<'a>(
    panel: &Panel<'a>,
    x: Dimension<'a>,
    it: &Cell,
    scaled: [&Option<Scaled<'a>>; 2],
) -> Mark {
    let (index, curve) = it.curve;
    let y = panel.y;
    let lower = |of: &Summary| units::lower_bound(of.is_bound);
    let value = |scaled: &Option<Scaled<'a>>| {
        let (of, range) = scaled.as_ref()?;
        Some((*of, *range, Summary::of(it.point, *of)?.value))
    };
    let [size, shade] = scaled.map(value);
    let mut hint = vec![
        format!(
            "{}: {} {}{}",
            name(panel, it),
            y.title(),
            lower(&it.y),
            y.text(it.y.value)
        ),
        format!("{} {}{}", x.title(), lower(&it.x), x.text(it.x.value)),
    ];
    let mut row = vec![
        cell("curve", &curve.name),
        cell("row", "median"),
        cell("cell", name(panel, it)),
    ];
    for (of, summary) in [(x, &it.x), (y, &it.y)] {
        row.push(cell(of.name(), of.plain(summary.value)));
        if summary.is_spread() {
            row.push(cell(&format!("{} low", of.name()), summary.low));
            row.push(cell(&format!("{} high", of.name()), summary.high));
        }
    }
    for (of, _, value) in [size, shade].into_iter().flatten() {
        hint.push(format!("{} {}", of.title(), of.text(value)));
        row.push(cell(of.name(), of.plain(value)));
    }
    row.push(cell("trials", it.point.trials.len()));
    row.push(cell("missing", it.point.missing()));
    if it.point.trials.len() > 1 {
        hint.push(units::plural(it.point.trials.len() as u64, "trial"));
    }
    let shade = shade.map(|(_, range, value)| {
        let (least, greatest) = range.unwrap_or((value, value));
        Ramp::of(if greatest > least {
            (value - least) / (greatest - least)
        } else {
            0.5
        })
    });
    Mark {
        at: vec![it.at()],
        series: Some(index),
        shade,
        size: match (scaled[0], size) {
            (None, _) => PLAIN,
            (Some(_), size) => size.map_or(NARROWEST, |(_, range, value)| size_of(value, range)),
        },
        state: it.state().clone(),
        bound: Bound {
            x: it.x.is_bound,
            y: it.y.is_bound,
        },
        hint: format!("{}{}", hint.join(", "), why(it.state())),
        tells: format!(
            "{} {}{}",
            y.text(it.y.value),
            x.place(it.x.value),
            why(it.state())
        ),
        row,
        ..Mark::default()
    }
}

/// Crossed lines along the intervals.
fn ranges(it: &Cell) -> impl Iterator<Item = Mark> {
    let ((x, y), counts) = (it.at(), *it.state() == State::Counts);
    let across = (it.x.is_spread(), vec![(it.x.low, y), (it.x.high, y)]);
    let up = (it.y.is_spread(), vec![(x, it.y.low), (x, it.y.high)]);
    let drawn = [across, up]
        .into_iter()
        .filter(move |(is_spread, _)| *is_spread && counts);
    let series = Some(it.curve.0);
    drawn.map(move |(_, at)| Mark {
        shape: Shape::Interval,
        at,
        series,
        size: 0.5,
        ..Mark::default()
    })
}

/// The published `y` of a cell, at its published `x` or else at its own.
fn published(panel: &Panel, x: Dimension, it: &Cell) -> Option<Mark> {
    let (y, source) = panel.published(it.point, panel.y.name())?;
    let own = panel.published(it.point, x.name()).map(|it| it.0);
    let at = own.unwrap_or(it.x.value);
    let words = format!("{} {}", panel.y.text(y), x.place(at));
    Some(Mark {
        at: vec![(at, y)],
        series: Some(it.curve.0),
        state: State::Published(source.to_owned()),
        hint: format!("{}: published {words}, {source}", name(panel, it)),
        tells: format!("published {words}"),
        row: vec![
            cell("curve", &it.curve.1.name),
            cell("row", "published"),
            cell("cell", name(panel, it)),
            cell(x.name(), x.plain(at)),
            cell(panel.y.name(), y),
        ],
        ..Mark::default()
    })
}

/// The cells that no other beats, from the best `x` to the best `y`; only what counts takes part.
fn front(panel: &Panel, x: Dimension, cells: &[Cell]) -> Vec<usize> {
    if panel.figure.kind != FigureKind::Pareto {
        return Vec::new();
    }
    let counted: Vec<usize> = (0..cells.len())
        .filter(|&index| *cells[index].state() == State::Counts)
        .collect();
    let points: Vec<(f64, f64)> = counted.iter().map(|&index| cells[index].at()).collect();
    let directions = better(x).zip(better(panel.y));
    let front = directions.and_then(|(x, y)| measure::pareto_front(&points, x, y));
    front
        .unwrap_or_default()
        .into_iter()
        .map(|at| counted[at])
        .collect()
}

/// The boundary of what the cells reach: at each `x`, the best `y` of the cells that are at least as
/// good in `x`.
fn staircase(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut line: Vec<(f64, f64)> = Vec::new();
    for (x, y) in points {
        line.extend(line.last().map(|&(_, before)| (x, before)));
        line.push((x, y));
    }
    line
}

/// The best cell by a metric; the first of equals.
fn best(panel: &Panel, cells: &[Cell], of: Dimension, shape: &'static str) -> Option<Mark> {
    let is_higher = matches!(better(of)?, measure::Better::Higher);
    let values = cells.iter().filter_map(|it| {
        let summary = Summary::of(it.point, of).filter(Summary::counts)?;
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
    let [title, cell] = [of.title(), &name(panel, it)].map(|it| units::shortened(it, NAMES));
    Some(Mark {
        shape: Shape::Ring(shape),
        at: vec![it.at()],
        hint: format!("best {title}: {cell} ({})", of.text(value)),
        tells: format!("Best {title}: {cell}"),
        key: format!("best {title}: {cell} ({})", of.text(value)),
        ..Mark::default()
    })
}

/// The direction in which a metric is better. None: it has none.
fn better(of: Dimension) -> Option<measure::Better> {
    let Dimension::Metric(metric) = of else {
        return None;
    };
    match metric.better {
        Better::Lower => Some(measure::Better::Lower),
        Better::Higher => Some(measure::Better::Higher),
        Better::Neither => None,
    }
}

/// Both axes over all that is drawn.
fn axes(panel: &Panel, x: Dimension, cells: &[Cell], published: &[Mark]) -> (Side, Side) {
    let figure = panel.figure;
    let ends = |of: &Summary| [of.value, of.low, of.high];
    let others = || published.iter().flat_map(|it| &it.at);
    let across = cells
        .iter()
        .flat_map(|it| ends(&it.x))
        .chain(others().map(|it| it.0));
    let up = cells
        .iter()
        .flat_map(|it| ends(&it.y))
        .chain(others().map(|it| it.1));
    let (unit, title) = (figure.unit.as_ref(), figure.y_title.as_ref());
    (
        x.horizontal(figure.x_scale, across),
        panel.y.vertical(figure.scale, up, unit, title),
    )
}

fn sizes((of, range): &Scaled) -> Vec<Entry> {
    let title = units::shortened(of.title(), NAMES);
    let words = |text: String| Entry {
        sample: Sample::None,
        text,
    };
    let Some((least, greatest)) = *range else {
        return vec![words(format!("{title}: no value"))];
    };
    let entry = |value: f64| Entry {
        sample: Sample::Marks(
            Look::Ink,
            vec![Mark {
                size: size_of(value, *range),
                ..Mark::default()
            }],
        ),
        text: of.text(value),
    };
    vec![
        words(format!("area: {title}")),
        entry(least),
        entry(greatest),
    ]
}

fn shades((of, range): &Scaled) -> Entry {
    let title = units::shortened(of.title(), NAMES);
    let range =
        range.map(|(least, greatest)| format!("{} to {}", of.text(least), of.text(greatest)));
    let range = range.unwrap_or_else(|| "no value".to_owned());
    Entry {
        sample: Sample::Ramp,
        text: format!("{title}: {range}"),
    }
}
