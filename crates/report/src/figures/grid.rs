//! The points of a panel as a grid: a position for each value of `x`, and in it a point of each
//! curve.
//!
//! Without `x`, each cell has a position, named by the factors that tell cells apart.

use std::collections::{HashMap, HashSet};

use super::notes;
use super::panel::{Panel, Point};
use crate::cell::{CONFIDENCE, Values};
use crate::record::Factor;

/// The points of a panel by position and curve.
pub(super) struct Grid<'a> {
    /// The words for the positions. Empty: there is no word.
    pub(super) title: String,
    pub(super) positions: Vec<Position>,
    /// The point at each position, for each curve. None: the design has no such cell.
    pub(super) entries: Vec<Vec<Option<GridEntry<'a>>>>,
}

/// A value of `x`, or a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Position {
    /// With its unit.
    pub(super) label: String,
    /// As the data beside a figure has it.
    pub(super) plain: String,
}

/// A point and the values of `y` that count.
#[derive(Debug, Clone)]
pub(super) struct GridEntry<'a> {
    pub(super) point: &'a Point<'a>,
    pub(super) values: Values,
}

impl<'a> Grid<'a> {
    pub(super) fn of(panel: &'a Panel<'a>) -> Self {
        let (keys, positions): (Vec<Key>, Vec<Position>) = positions(panel).into_iter().unzip();
        let entry = |point: &'a Point<'a>| GridEntry {
            point,
            values: point.values(panel.y.name()),
        };
        let row = |points: &'a [Point<'a>]| {
            let mut by_key: HashMap<Key, &Point> = HashMap::new();
            for point in points {
                by_key.entry(key_of(panel, point)).or_insert(point);
            }
            let at = |key: &Key| by_key.get(key).copied().map(entry);
            keys.iter().map(at).collect()
        };
        let curves = panel.curves.iter();
        Self {
            title: title(panel),
            entries: curves.map(|curve| row(&curve.points)).collect(),
            positions,
        }
    }

    /// All points that the design has.
    pub(super) fn entries(&self) -> impl Iterator<Item = &GridEntry<'a>> {
        self.entries.iter().flatten().flatten()
    }

    /// The points of a curve with their positions.
    pub(super) fn of_curve(
        &self,
        index: usize,
    ) -> impl Iterator<Item = (usize, &Position, &GridEntry<'a>)> {
        let entries = self.entries.get(index).into_iter().flatten();
        let placed = self.positions.iter().enumerate().zip(entries);
        placed.filter_map(|((at, position), entry)| Some((at, position, entry.as_ref()?)))
    }

    /// The note on points without a median.
    pub(super) fn without_value(&self, panel: &Panel) -> Option<String> {
        let mut names = Vec::new();
        for (index, curve) in panel.curves.iter().enumerate() {
            let absent = self
                .of_curve(index)
                .filter(|(_, _, it)| it.values.median().is_none());
            names.extend(absent.map(|(_, _, entry)| panel.point_name(curve, entry.point)));
        }
        notes::without_value(names)
    }

    /// What the intervals of the medians are: depends on the number of trials.
    pub(super) fn interval_words(&self) -> &'static str {
        let estimates = self.entries().filter_map(|entry| entry.values.median());
        let full: Vec<bool> = estimates
            .map(|it| it.interval.confidence >= CONFIDENCE)
            .collect();
        match (full.contains(&true), full.contains(&false)) {
            (true, true) => "95 % interval of the median, or range of fewer than six trials",
            (_, false) => "95 % interval of the median",
            (false, true) => "range of the trials",
        }
    }

    /// The note on intervals that too few trials make ranges.
    pub(super) fn too_few(&self) -> Option<String> {
        let estimates = self.entries().filter_map(|entry| entry.values.median());
        let few = estimates.filter(|it| it.interval.confidence < CONFIDENCE);
        let least = few.map(|it| it.samples).min()?;
        let trials = crate::units::plural(least as u64, "trial");
        Some(format!(
            "Too few trials for a 95 % interval of a median, which needs six: the interval is then \
             the range of the trials (as few as {trials})."
        ))
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
