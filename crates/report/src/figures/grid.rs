//! The points of a panel as a grid: a position for each value of `x`, and in it a point of each
//! curve.
//!
//! Without `x`, each cell has a position, named by the factors that tell cells apart.

use std::collections::{HashMap, HashSet};

use super::dimension::Dimension;
use super::panel::{Curve, Panel, Point};
use crate::record::Factor;

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

impl Position {
    pub(super) fn of(x: Dimension, at: Option<f64>) -> Self {
        Self {
            label: at.map(|at| x.text(at)).unwrap_or_default(),
            plain: at.map(|at| x.plain(at)).unwrap_or_default(),
        }
    }
}

/// A point at its place.
#[derive(Clone)]
pub(super) struct Placed<'p, 'a> {
    /// The index of its position.
    pub(super) at: usize,
    pub(super) position: Position,
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
                let position = position.clone();
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
        return Position::of(x, Some(at));
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
