//! One panel of a figure: its curves, their cells and their trials.
//!
//! A *panel* is a picture of its own: one for each value of the declaration's `panel`, or one for
//! all. A *curve* is a value of `by`, drawn in one colour; the cells without that factor are one
//! more. If there are curves, cells without the factor of the panels are in every panel, so that
//! what the factor changes can be compared with what has none. A *point* holds the trials at one
//! value of `x`: those of a cell or, if `x` is a factor, of all cells of the curve with that value.
//! In a scatter each cell is a point of its own.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::dimension::Dimension;
use super::summary::{Spread, state};
use crate::chart::CurveStyle;
use crate::chart::mark::State;
use crate::figure::{Figure, FigureKind};
use crate::record::{Factor, Factors, Measured, Plan, Record, Stage, Value};
use crate::{limits, units};

/// One panel of a figure.
#[derive(Debug, Clone)]
pub(super) struct Panel<'a> {
    pub(super) figure: &'a Figure,
    pub(super) plan: &'a Plan,
    /// The run folder, for artefacts.
    pub(super) folder: &'a Path,
    /// The panel's value in words. None: there is one panel.
    pub(super) of: Option<String>,
    /// Suffix of the file names.
    pub(super) suffix: String,
    pub(super) x: Option<Dimension<'a>>,
    /// What is drawn; the first part of a stack.
    pub(super) y: Dimension<'a>,
    pub(super) curves: Vec<Curve<'a>>,
    /// Names of curves that were measured, but without `y`.
    pub(super) lacking: Vec<String>,
    /// Cells that are not drawn because they lack a factor of the figure: its title, their number.
    pub(super) omitted: Vec<(&'a str, u64)>,
    /// The factors that tell cells apart, of those that the figure does not show otherwise.
    pub(super) telling: Vec<&'a Factor>,
}

/// The points of one colour.
#[derive(Debug, Clone)]
pub(super) struct Curve<'a> {
    /// Its name, that of the panel included.
    pub(super) name: String,
    /// Its name in a panel whose title names the panel.
    pub(super) short: String,
    pub(super) style: CurveStyle,
    pub(super) points: Vec<Point<'a>>,
}

/// The trials at one value of `x`.
#[derive(Debug, Clone)]
pub(super) struct Point<'a> {
    /// The factors of its first cell.
    pub(super) factors: &'a Factors,
    /// Its `x`: the median of the values that are known. None: none is.
    pub(super) at: Option<f64>,
    /// The measured trials, by cell and repeat.
    pub(super) trials: Vec<Trial<'a>>,
    /// Trials that were expected.
    pub(super) planned: u32,
}

/// A measured trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial<'a> {
    pub(super) record: &'a Record,
    pub(super) measured: &'a Measured,
    /// Its number among the trials of the point that were expected, from 0.
    pub(super) number: u32,
}

/// The trials of a cell.
struct Cell<'a> {
    factors: &'a Factors,
    /// Those that ended, by repeat.
    ended: Vec<&'a Record>,
    planned: u32,
}

impl<'a> Panel<'a> {
    /// The panels of a figure in which there is anything to draw; the first, if there is none.
    pub(super) fn all(
        figure: &'a Figure,
        plan: &'a Plan,
        records: &'a [Record],
        folder: &'a Path,
    ) -> Vec<Self> {
        let cells = cells(figure, plan, records);
        let factor = figure.panel.as_ref().and_then(|name| plan.factor(name));
        let mut panels: Vec<Self> = Vec::new();
        if let Some(factor) = factor {
            for (value, suffix) in factor.values.iter().zip(file_suffixes(&factor.values)) {
                let is_of = |cell: &Cell| cell.factors.get(&factor.name) == Some(value);
                if cells.iter().any(is_of) {
                    let of = Self::of(figure, plan, folder, &cells, Some((factor, value)));
                    panels.push(Self { suffix, ..of });
                }
            }
        }
        // A panel that was measured, but without `y`, has no curve left.
        let is_full = |panel: &Self| !panel.curves.is_empty();
        match panels.iter().any(is_full) {
            true => panels.retain(is_full),
            false => panels.truncate(1),
        }
        if panels.is_empty() {
            panels.push(Self::of(figure, plan, folder, &cells, None));
        }
        panels
    }

    fn of(
        figure: &'a Figure,
        plan: &'a Plan,
        folder: &'a Path,
        cells: &[Cell<'a>],
        of: Option<(&'a Factor, &Value)>,
    ) -> Self {
        let factor = of.map(|(factor, _)| factor);
        let lacks = |cell: &Cell, factor: &Factor| !cell.factors.contains_key(&factor.name);
        let is_in = |cell: &&Cell| match of {
            // With curves, what has no such factor is in every panel, to compare with.
            Some((factor, _)) if lacks(cell, factor) => figure.by.is_some(),
            Some((factor, value)) => cell.factors.get(&factor.name) == Some(value),
            None => true,
        };
        let by = figure.by.as_ref().and_then(|name| plan.factor(name));
        let x = figure.x.as_ref().map(|name| Dimension::of(plan, name));
        let mut panel = Self {
            figure,
            plan,
            folder,
            of: of.map(|(factor, value)| factor.label(value)),
            suffix: String::new(),
            x,
            y: Dimension::of(plan, figure.drawn().next().unwrap_or(&figure.y)),
            curves: Vec::new(),
            lacking: Vec::new(),
            omitted: Vec::new(),
            telling: Vec::new(),
        };
        let not_in = factor.filter(|_| by.is_none());
        let not_along = match x {
            Some(Dimension::Factor(factor)) if !figure.kind.is_of_cells() => Some(factor),
            _ => None,
        };
        for (factor, is_within) in [(not_in, false), (not_along, true)] {
            let Some(factor) = factor else { continue };
            let lacking = cells.iter().filter(|it| lacks(it, factor));
            let count = lacking.filter(|it| !is_within || is_in(it)).count() as u64;
            panel
                .omitted
                .extend((count > 0).then_some((factor.title.as_str(), count)));
        }
        let cells: Vec<&Cell> = cells.iter().filter(is_in).collect();
        let Some(by) = by else {
            let short = panel.y.title().to_owned();
            let name = panel.of.clone().unwrap_or_else(|| short.clone());
            panel.push(name, short, 0, &cells);
            return panel.without_lacking();
        };
        for index in 0..=by.values.len() {
            let value = by.values.get(index);
            let own = cells
                .iter()
                .copied()
                .filter(|it| it.factors.get(&by.name) == value);
            // Cells of all panels are not mixed with those of this one.
            let is_own = |it: &&Cell| factor.is_none_or(|factor| !lacks(it, factor));
            let (own, others): (Vec<&Cell>, Vec<&Cell>) = own.partition(is_own);
            let short = value.map_or_else(|| format!("no {}", by.title), |it| by.label(it));
            let name = match (&panel.of, value) {
                (Some(of), Some(_)) => format!("{of}, {short}"),
                _ => short.clone(),
            };
            let style = by.styles.get(index).map_or(index, |&style| style as usize);
            if own.is_empty() {
                panel.push(name, short, style, &others);
                continue;
            }
            let [of_others, short_others] = [&name, &short]
                .map(|name| format!("{name}, no {}", factor.map_or("", |factor| &factor.title)));
            panel.push(name, short, style, &own);
            panel.push(
                of_others,
                short_others,
                style + by.values.len() + 1,
                &others,
            );
        }
        panel.without_lacking()
    }

    /// Adds a curve of some cells, if there are any.
    fn push(&mut self, name: String, short: String, style: usize, cells: &[&Cell<'a>]) {
        if !cells.is_empty() {
            self.curves.push(Curve {
                name,
                short,
                style: CurveStyle::of(style),
                points: points(self.figure.kind, self.x, cells),
            });
        }
    }

    /// Without the curves that were measured, but without `y`.
    fn without_lacking(mut self) -> Self {
        let drawn = self
            .figure
            .drawn()
            .map(|name| Dimension::of(self.plan, name));
        let drawn: Vec<Dimension> = drawn.collect();
        let is_in = |it: Trial| drawn.iter().any(|of| of.is_in(it.record, it.measured));
        let (lacking, curves): (Vec<Curve>, _) = self.curves.into_iter().partition(|curve| {
            let mut trials = curve.trials().peekable();
            !drawn.is_empty() && trials.peek().is_some() && !trials.any(is_in)
        });
        self.curves = curves;
        self.lacking = lacking.into_iter().map(|curve| curve.name).collect();
        let figure = self.figure;
        let shown = [&figure.x, &figure.by, &figure.panel];
        let is_telling = |factor: &&Factor| {
            let mut values = self.points().map(|it| it.factors.get(&factor.name));
            let first = values.next();
            let is_shown = shown.iter().any(|it| it.as_ref() == Some(&factor.name));
            !is_shown && values.any(|value| Some(value) != first)
        };
        self.telling = self.plan.factors.iter().filter(is_telling).collect();
        self
    }

    /// The published value of a metric that applies to all trials of a point, with its source.
    pub(super) fn published(&self, point: &Point, metric: &str) -> Option<(f64, &'a str)> {
        let of = self.plan.metric(metric)?;
        let mut known = self.plan.published.iter();
        let published = known.find(|it| {
            let mut trials = point.trials.iter();
            let is_of = it.metric == metric && !it.is_ratio() && it.is_of(point.factors);
            is_of && trials.all(|trial| it.is_of(&trial.record.factors))
        })?;
        Some((published.number(of), &published.source))
    }

    /// The points of all curves.
    pub(super) fn points(&self) -> impl Iterator<Item = &Point<'a>> {
        self.curves.iter().flat_map(|curve| &curve.points)
    }

    /// The measured trials of all curves.
    pub(super) fn trials(&self) -> impl Iterator<Item = Trial<'a>> {
        self.curves.iter().flat_map(Curve::trials)
    }

    /// Whether all trials of a point have the same `x`, a setting: a factor, or a metric that
    /// follows from trials of an earlier stage.
    pub(super) fn is_over_setting(&self) -> bool {
        match self.x {
            Some(Dimension::Metric(metric)) => {
                let is_measured = |it: Trial| it.measured.metrics.contains_key(&metric.name);
                !self.trials().any(is_measured)
            }
            Some(Dimension::Factor(_)) => true,
            Some(Dimension::Other(_)) | None => false,
        }
    }

    /// The factors of a trial that the figure does not show otherwise: ` (level 0.9)`.
    pub(super) fn aside(&self, factors: &Factors) -> String {
        let planned = match self.x {
            Some(Dimension::Metric(metric)) => metric.planned.as_deref(),
            _ => None,
        };
        let figure = self.figure;
        let shown = [
            figure.x.as_deref(),
            figure.by.as_deref(),
            figure.panel.as_deref(),
            planned,
        ];
        let is_shown = |factor: &&Factor| {
            let is_told = factor.label.is_some() || factor.values.len() > 1;
            is_told && !shown.contains(&Some(factor.name.as_str()))
        };
        let factors: Vec<String> = (self.plan.factors.iter())
            .filter(is_shown)
            .filter_map(|factor| Some(factor.label(factors.get(&factor.name)?)))
            .collect();
        match factors.is_empty() {
            true => String::new(),
            false => format!(" ({})", factors.join(", ")),
        }
    }

    /// The name of a curve in a legend: short, unless others are then the same.
    pub(super) fn legend_name(&self, curve: &Curve) -> String {
        let short = |curve: &Curve| units::shortened(&curve.short, limits::NAME_CHARACTERS);
        let own = short(curve);
        match self.curves.iter().filter(|it| short(it) == own).count() {
            0 | 1 => own,
            _ => units::shortened(&curve.short, limits::CELL_CHARACTERS),
        }
    }

    /// A cell by the factors that tell it from others: `level 0.9, 16 connections`.
    pub(super) fn cell_name(&self, factors: &Factors) -> String {
        let label = |factor: &Factor| Some(factor.label(factors.get(&factor.name)?));
        let labels: Vec<String> = self.telling.iter().copied().filter_map(label).collect();
        labels.join(", ")
    }

    /// A point in words: `version b, with 4 threads`; `all trials`, if there is no other.
    pub(super) fn point_name(&self, curve: &Curve, point: &Point) -> String {
        let by = self.figure.by.as_ref().map(|_| curve.short.clone());
        let at = match self.x {
            Some(Dimension::Factor(_)) => self.x.zip(point.at).map(|(x, at)| x.place(at)),
            _ => None,
        };
        let cell = Some(self.cell_name(point.factors)).filter(|name| !name.is_empty());
        let parts: Vec<String> = [by, at, cell].into_iter().flatten().collect();
        match parts.is_empty() {
            true => "all trials".to_owned(),
            false => parts.join(", "),
        }
    }
}

impl<'a> Curve<'a> {
    /// The measured trials.
    pub(super) fn trials(&self) -> impl Iterator<Item = Trial<'a>> {
        self.points
            .iter()
            .flat_map(|point| point.trials.iter().copied())
    }
}

impl Point<'_> {
    /// Expected trials without a measurement.
    pub(super) fn missing(&self) -> u32 {
        self.planned.saturating_sub(self.trials.len() as u32)
    }

    /// Median, minimum and maximum of the values that count.
    pub(super) fn spread(&self, of: Dimension) -> Option<Spread> {
        let counts = |it: &&Trial| state(it.measured, of.name()) == State::Counts;
        Spread::of(
            self.trials
                .iter()
                .filter(counts)
                .filter_map(|it| of.of_record(it.record)),
        )
    }
}

/// The cells that a figure shows, with their trials.
fn cells<'a>(figure: &'a Figure, plan: &'a Plan, records: &'a [Record]) -> Vec<Cell<'a>> {
    let stage = match &figure.stage {
        Some(name) => plan.stage(name),
        None => plan.last_stage(),
    };
    let Some(stage) = stage else {
        return Vec::new();
    };
    let mut ended: HashMap<u32, Vec<&Record>> = HashMap::new();
    for record in records.iter().filter(|record| record.stage == stage.name) {
        ended.entry(record.cell).or_default().push(record);
    }
    let is_shown = |factors: &Factors| {
        let mut only = figure.only.iter();
        only.all(|(name, value)| factors.get(name) == Some(value))
    };
    let cell = |(index, factors): (u32, &'a Factors)| {
        let mut ended = ended.remove(&index).unwrap_or_default();
        ended.sort_by_key(|record| record.repeat);
        is_shown(factors).then(|| Cell {
            factors,
            planned: planned(stage, &ended),
            ended,
        })
    };
    (0u32..).zip(&stage.cells).filter_map(cell).collect()
}

/// The trials that were expected of a cell: the least number, and those beyond it that ended.
fn planned(stage: &Stage, ended: &[&Record]) -> u32 {
    let least = stage.repeats.least;
    let beyond = ended.iter().filter(|record| record.repeat >= least).count();
    least.saturating_add(beyond as u32)
}

/// The points of a curve: one a cell or, if `x` is a factor, one for each of its values, in
/// ascending order.
fn points<'a>(kind: FigureKind, x: Option<Dimension<'a>>, cells: &[&Cell<'a>]) -> Vec<Point<'a>> {
    if kind.is_of_cells() || !matches!(x, Some(Dimension::Factor(_))) {
        return cells.iter().map(|cell| point(x, &[*cell])).collect();
    }
    let at = |cell: &Cell| x.and_then(|x| x.of_factors(cell.factors));
    let mut sorted: Vec<&Cell> = cells
        .iter()
        .copied()
        .filter(|cell| at(cell).is_some())
        .collect();
    let key = |cell: &Cell| at(cell).unwrap_or_default();
    sorted.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let groups = sorted.chunk_by(|a, b| at(a) == at(b));
    groups.map(|cells| point(x, cells)).collect()
}

/// The point of some cells, at least one.
fn point<'a>(x: Option<Dimension<'a>>, cells: &[&Cell<'a>]) -> Point<'a> {
    let known = cells.iter().flat_map(|cell| &cell.ended);
    let known = Spread::of(known.filter_map(|record| x?.of_record(record)));
    let factors = cells[0].factors;
    let known = known.map(|spread| spread.median);
    let mut point = Point {
        factors,
        at: known.or_else(|| x?.of_factors(factors)),
        trials: Vec::new(),
        planned: 0,
    };
    for cell in cells {
        let before = point.planned;
        let trial = |&record: &&'a Record| {
            Some(Trial {
                record,
                measured: record.measured()?,
                number: before.saturating_add(record.repeat),
            })
        };
        point.trials.extend(cell.ended.iter().filter_map(trial));
        point.planned = before.saturating_add(cell.planned);
    }
    point
}

/// The file name suffix of each panel: its value or, if any value is unfit for a file name, its
/// number.
fn file_suffixes(values: &[Value]) -> Vec<String> {
    let names: Vec<String> = values.iter().map(ToString::to_string).collect();
    let distinct: HashSet<&String> = names.iter().collect();
    let are_fit = distinct.len() == names.len() && names.iter().all(|name| is_fit(name));
    let suffix = |(index, name): (usize, &String)| match are_fit {
        true => format!("-{name}"),
        false => format!("-{}", index + 1),
    };
    names.iter().enumerate().map(suffix).collect()
}

/// Whether a name is fit for a part of a file name.
pub(crate) fn is_fit(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.len() <= limits::FILE_NAME_CHARACTERS && name.chars().all(is_plain)
}
