//! The points of a panel as a grid: a position for each value of `x`, and in it a point of each
//! curve.
//!
//! Without `x`, each cell has a position, named by the factors that tell cells apart.

use std::collections::{HashMap, HashSet};

use super::dimension::{PLOT_WIDTH, numbered_side};
use super::panel::{Curve, Panel, Point};
use crate::chart::axis::Axis;
use crate::chart::mark::{Mark, Shape, listed};
use crate::chart::side::{LABEL_SIZE, Side};
use crate::chart::svg;
use crate::record::Factor;

/// Space between groups, in places of bars.
const GAP: f64 = 0.6;

/// The points of a panel by position and curve.
pub(super) struct Grid<'p, 'a> {
    /// The words for the positions. Empty: there is no word.
    pub(super) title: String,
    pub(super) positions: Vec<Position>,
    /// For each curve, the point at each position. None: the design has no such cell.
    points: Vec<Vec<Option<&'p Point<'a>>>>,
    curves: &'p [Curve<'a>],
}

/// A value of `x`, or a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Position {
    /// With its unit.
    pub(super) label: String,
    /// As the data beside a figure has it.
    pub(super) plain: String,
}

/// A point at its place.
#[derive(Clone, Copy)]
pub(super) struct Placed<'p, 'a> {
    /// The index of its position.
    pub(super) at: usize,
    pub(super) position: &'p Position,
    /// The curve and its index among those drawn.
    pub(super) curve: (usize, &'p Curve<'a>),
    pub(super) point: &'p Point<'a>,
}

impl<'p, 'a> Grid<'p, 'a> {
    pub(super) fn of(panel: &'p Panel<'a>) -> Self {
        let (keys, positions): (Vec<Key>, Vec<Position>) = positions(panel).into_iter().unzip();
        let row = |curve: &'p Curve<'a>| {
            let mut by_key: HashMap<Key, &Point> = HashMap::new();
            for point in &curve.points {
                by_key.entry(key_of(panel, point)).or_insert(point);
            }
            keys.iter().map(|key| by_key.get(key).copied()).collect()
        };
        Self {
            title: title(panel),
            points: panel.curves.iter().map(row).collect(),
            curves: &panel.curves,
            positions,
        }
    }

    pub(super) fn labels(&self) -> Vec<String> {
        self.positions.iter().map(|it| it.label.clone()).collect()
    }

    /// All points, by curve.
    pub(super) fn placed(&self) -> impl Iterator<Item = Placed<'_, 'a>> {
        let curves = self.curves.iter().enumerate().zip(&self.points);
        curves.flat_map(|(curve, points)| {
            let placed = self.positions.iter().enumerate().zip(points);
            placed.filter_map(move |((at, position), point)| {
                let point = (*point)?;
                Some(Placed {
                    at,
                    position,
                    curve,
                    point,
                })
            })
        })
    }
}

/// Where bars stand along an axis: in groups, with a gap between groups.
pub(super) struct Places {
    /// The place of a bar, by position and curve.
    at: HashMap<(usize, usize), f64>,
    /// The names of groups and their middles. Empty: each position has one bar.
    groups: Vec<(String, f64)>,
}

impl Places {
    pub(super) fn at(&self, position: usize, curve: usize) -> f64 {
        self.at.get(&(position, curve)).copied().unwrap_or(f64::NAN)
    }

    /// The names of the groups, below `top`.
    pub(super) fn names(&self, top: f64) -> impl Iterator<Item = Mark> {
        self.groups.iter().map(move |(name, at)| Mark {
            shape: Shape::Words(vec![name.clone()]),
            at: vec![(*at, 0.955 * top)],
            ..Mark::default()
        })
    }
}

/// An axis with a bar for each point, named by its curve or, without curves, by its position; and
/// what numbers that replace names stand for.
pub(super) fn grouped_side(panel: &Panel, grid: &Grid) -> (Side, Places, Option<String>) {
    let mut placed: Vec<Placed> = grid.placed().collect();
    placed.sort_by_key(|it| (it.at, it.curve.0));
    if panel.figure.by.is_none() {
        let (side, numbers) = numbered_side(&grid.title, &grid.labels());
        let at = placed.iter().map(|it| ((it.at, it.curve.0), it.at as f64));
        let (at, groups) = (at.collect(), Vec::new());
        return (side, Places { at, groups }, numbers);
    }
    let (mut at, mut groups, mut free) = (HashMap::new(), Vec::new(), 0.0);
    for group in placed.chunk_by(|a, b| a.at == b.at) {
        let middle = free + (group.len() as f64 - 1.0) / 2.0;
        for bar in group {
            at.insert((bar.at, bar.curve.0), free);
            free += 1.0;
        }
        free += GAP;
        let of_x = panel.x.zip(group[0].point.at).map(|(x, at)| x.label(at));
        groups.push((
            of_x.unwrap_or_else(|| group[0].position.label.clone()),
            middle,
        ));
    }
    let axis = Axis {
        start: -0.5 - GAP / 2.0,
        end: (free - 0.5 - GAP / 2.0).max(0.5),
        labelled: placed.iter().map(|it| at[&(it.at, it.curve.0)]).collect(),
        ..Axis::of_names(0)
    };
    let width = PLOT_WIDTH / (axis.end - axis.start) - 4.0;
    let names: Vec<String> = panel
        .curves
        .iter()
        .map(|it| panel.legend_name(it))
        .collect();
    let fits = names
        .iter()
        .all(|name| svg::width(name, LABEL_SIZE) <= width);
    let numbered = (1..)
        .zip(&names)
        .map(|(number, name)| format!("{number}: {name}"));
    let note = listed(numbered.collect(), "other", "; ").filter(|_| !fits);
    let by = panel
        .figure
        .by
        .as_ref()
        .and_then(|name| panel.plan.factor(name));
    let by = by.map_or("", |it| &it.title);
    let numbers = if fits { "" } else { " (numbers: see below)" };
    let of_x = match grid.title.as_str() {
        "" => String::new(),
        x => format!(", by {x}"),
    };
    let labels: Vec<(f64, String)> = (placed.iter())
        .map(|it| {
            let (index, curve) = it.curve;
            let name = if fits {
                panel.legend_name(curve)
            } else {
                (index + 1).to_string()
            };
            (at[&(it.at, index)], name)
        })
        .collect();
    let label = |at: f64, _: f64| {
        let own = labels.iter().find(|it| it.0 == at);
        own.map_or_else(String::new, |it| it.1.clone())
    };
    let side = Side::new(
        axis,
        &format!("{by}{numbers}{of_x}"),
        "count".to_owned(),
        label,
    );
    let note = note.map(|names| format!("Along the axis, by {by}: {names}."));
    (side.thinned(PLOT_WIDTH), Places { at, groups }, note)
}

/// What tells positions apart: labels may be the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The bits of a value of `x`.
    At(u64),
    /// The values of the factors that tell cells apart.
    Cell(Vec<Option<String>>),
}

/// The positions: values of `x` in ascending order, or cells in the order of the plan.
fn positions(panel: &Panel) -> Vec<(Key, Position)> {
    let mut points: Vec<&Point> = panel.points().collect();
    if panel.x.is_some() {
        let at = |point: &Point| point.at.unwrap_or(f64::INFINITY);
        points.sort_by(|a, b| at(a).total_cmp(&at(b)));
    }
    let mut known: HashSet<Key> = HashSet::new();
    let mut positions = Vec::new();
    for point in points {
        let key = key_of(panel, point);
        if known.insert(key.clone()) {
            positions.push((key, position_of(panel, point)));
        }
    }
    positions
}

fn key_of(panel: &Panel, point: &Point) -> Key {
    if let Some((_, at)) = panel.x.zip(point.at) {
        // 0 and -0 are one value.
        return Key::At((at + 0.0).to_bits());
    }
    let value = |factor: &&Factor| Some(format!("{:?}", point.factors.get(&factor.name)?));
    Key::Cell(panel.telling.iter().map(value).collect())
}

fn position_of(panel: &Panel, point: &Point) -> Position {
    if let Some((x, at)) = panel.x.zip(point.at) {
        return Position {
            label: x.text(at),
            plain: x.plain(at),
        };
    }
    let text = |factor: &&Factor| Some(factor.value_text(point.factors.get(&factor.name)?));
    let values: Vec<String> = panel.telling.iter().filter_map(text).collect();
    Position {
        label: values.join(", "),
        plain: panel.cell_name(point.factors),
    }
}

/// The title of `x`, or of the factors that tell cells apart.
fn title(panel: &Panel) -> String {
    match panel.x {
        Some(x) => x.title().to_owned(),
        None => {
            let titles = panel.telling.iter().map(|it| it.title.as_str());
            titles.collect::<Vec<&str>>().join(", ")
        }
    }
}
