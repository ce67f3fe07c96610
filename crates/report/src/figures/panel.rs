//! One panel of a figure: its curves and their points.
//!
//! A *panel* is a picture of its own: one for each value of the declaration's `panel`, or one for
//! all. A *curve* is a value of `by`, drawn in one colour; the cells without that factor are one
//! more. If there are curves, cells without the factor of the panels are in every panel, so that
//! what the factor changes can be compared with what has none. A *point* holds the trials at one
//! value of `x`: those of a cell or, if `x` is a factor, of all cells of the curve with that value.
//! In a scatter each cell is a point of its own.
//!
//! Where the axis has names, each value of `x` has a *slot*. Without `x`, each cell has one, named
//! by the factors that tell cells apart.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::dimension::{Dimension, labels};
use super::point::{Point, Trial};
use crate::chart::axis::{Axis, NAMES, Scale, Side};
use crate::chart::mark::{Look, Series};
use crate::chart::palette::CurveStyle;
use crate::figure::{Figure, FigureKind, is_fit};
use crate::published::has_all;
use crate::record::{Factor, Factors, Plan, Record, Value};
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
    /// The names of the slots.
    pub(super) slots: Vec<String>,
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

/// The trials of a cell.
struct Cell<'a> {
    factors: &'a Factors,
    /// Those that ended, by repeat.
    ended: Vec<&'a Record>,
    planned: u32,
}

impl<'a> Cell<'a> {
    fn value(&self, factor: &Factor) -> Option<&'a Value> {
        self.factors.get(&factor.name)
    }
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
        let of = |of| Self::of(figure, plan, folder, &cells, of);
        let mut panels: Vec<Self> = Vec::new();
        if let Some(factor) = figure.panel.as_ref().and_then(|name| plan.factor(name)) {
            for (value, suffix) in factor.values.iter().zip(file_suffixes(&factor.values)) {
                if cells.iter().any(|it| it.value(factor) == Some(value)) {
                    let of = of(Some((factor, value)));
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
            panels.push(of(None));
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
            slots: Vec::new(),
        };
        let by = figure.by.as_ref().and_then(|name| plan.factor(name));
        let is_in = |cell: &&Cell| match of.map(|(factor, value)| (cell.value(factor), value)) {
            // With curves, what has no such factor is in every panel, to compare with.
            Some((own, value)) => own.map_or(by.is_some(), |own| own == value),
            None => true,
        };
        let not_in = of.map(|it| it.0).filter(|_| by.is_none());
        let not_along = x.and_then(Dimension::factor);
        let not_along = not_along.filter(|_| !figure.kind.is_of_cells());
        for (factor, is_within) in [(not_in, false), (not_along, true)] {
            let Some(factor) = factor else { continue };
            let lacking = cells.iter().filter(|it| it.value(factor).is_none());
            let count = lacking.filter(|it| !is_within || is_in(it)).count() as u64;
            let omitted = (factor.title.as_str(), count);
            panel.omitted.extend((count > 0).then_some(omitted));
        }
        let cells: Vec<&Cell> = cells.iter().filter(is_in).collect();
        match by {
            Some(by) => panel.add_curves(by, of.map(|it| it.0), &cells),
            None => {
                let short = panel.y.title().to_owned();
                let name = panel.of.clone().unwrap_or_else(|| short.clone());
                panel.add(name, short, 0, &cells);
            }
        }
        panel.drop_lacking();
        panel.telling = panel.telling();
        panel.place();
        panel
    }

    /// A curve for each value of a factor. Cells of all panels are not mixed with those of this.
    fn add_curves(&mut self, by: &'a Factor, of: Option<&Factor>, cells: &[&Cell<'a>]) {
        for index in 0..=by.values.len() {
            let value = by.values.get(index);
            let cells = cells.iter().copied().filter(|it| it.value(by) == value);
            let is_own = |it: &&Cell| of.is_none_or(|of| it.value(of).is_some());
            let (own, others): (Vec<&Cell>, Vec<_>) = cells.partition(is_own);
            let short = value.map_or_else(|| format!("no {}", by.title), |it| by.label(it));
            let name = match (&self.of, value) {
                (Some(of), Some(_)) => format!("{of}, {short}"),
                _ => short.clone(),
            };
            let style = by.styles.get(index).map_or(index, |&style| style as usize);
            if own.is_empty() {
                self.add(name, short, style, &others);
                continue;
            }
            let without = format!("no {}", of.map_or("", |of| &of.title));
            let of_others = [&name, &short].map(|it| format!("{it}, {without}"));
            self.add(name, short, style, &own);
            let [name, short] = of_others;
            self.add(name, short, style + by.values.len() + 1, &others);
        }
    }

    /// Adds a curve of some cells, if there are any.
    fn add(&mut self, name: String, short: String, style: usize, cells: &[&Cell<'a>]) {
        if !cells.is_empty() {
            self.curves.push(Curve {
                name,
                short,
                style: CurveStyle::of(style),
                points: points(self.figure.kind, self.x, cells),
            });
        }
    }

    /// Drops the curves that were measured, but without `y`.
    fn drop_lacking(&mut self) {
        let drawn = self.figure.drawn();
        let drawn: Vec<Dimension> = drawn.map(|it| Dimension::of(self.plan, it)).collect();
        let is_in = |it: &Trial| drawn.iter().any(|of| of.is_in(it.record, it.measured));
        self.curves.retain(|curve| {
            let trials: Vec<&Trial> = curve.points.iter().flat_map(|it| &it.trials).collect();
            let is_empty = trials.is_empty() || drawn.is_empty();
            let is_kept = is_empty || trials.into_iter().any(is_in);
            self.lacking.extend((!is_kept).then(|| curve.name.clone()));
            is_kept
        });
    }

    fn telling(&self) -> Vec<&'a Factor> {
        let figure = self.figure;
        let shown = [&figure.x, &figure.by, &figure.panel];
        let is_telling = |factor: &&Factor| {
            let mut values = self.points().map(|it| it.factors.get(&factor.name));
            let first = values.next();
            let is_shown = shown.iter().any(|it| it.as_ref() == Some(&factor.name));
            !is_shown && values.any(|value| Some(value) != first)
        };
        self.plan.factors.iter().filter(is_telling).collect()
    }

    /// Gives points their indices, and slots their names: values of `x` in ascending order, or
    /// cells in the order of the plan.
    fn place(&mut self) {
        // What tells slots apart, since names may be the same: the bits of a value of `x`, of which
        // 0 and -0 are one, or values of factors.
        let key = |point: &Point| match self.x.and(point.at) {
            Some(at) => vec![format!("{}", (at + 0.0).to_bits())],
            None => {
                let value = |it: &&Factor| format!("{:?}", point.factors.get(&it.name));
                self.telling.iter().map(value).collect()
            }
        };
        let mut points: Vec<&Point> = self.points().collect();
        if self.x.is_some() {
            let at = |point: &Point| point.at.unwrap_or(f64::INFINITY);
            points.sort_by(|a, b| at(a).total_cmp(&at(b)));
        }
        let (mut slots, mut names) = (HashMap::new(), Vec::new());
        for point in points {
            slots.entry(key(point)).or_insert_with(|| {
                names.push(self.slot_name(point));
                names.len() - 1
            });
        }
        let mut curves = self.curves.clone();
        for (index, curve) in curves.iter_mut().enumerate() {
            for point in &mut curve.points {
                point.slot = slots.get(&key(point)).copied().unwrap_or_default();
                point.curve = index;
            }
        }
        (self.curves, self.slots) = (curves, names);
    }

    /// The `x` of a point with its unit, or the values that tell its cell apart.
    fn slot_name(&self, point: &Point) -> String {
        if let Some((x, at)) = self.x.zip(point.at) {
            return x.text(at);
        }
        let text = |it: &&Factor| Some(it.value_text(point.factors.get(&it.name)?));
        let values: Vec<String> = self.telling.iter().filter_map(text).collect();
        values.join(", ")
    }

    /// The title of `x`, or of the factors that tell cells apart.
    pub(super) fn slots_title(&self) -> String {
        let titles: Vec<&str> = match self.x {
            Some(x) => vec![x.title()],
            None => self.telling.iter().map(|it| it.title.as_str()).collect(),
        };
        titles.join(", ")
    }

    pub(super) fn slots_side(&self) -> Side {
        Side::of_names(&self.slots_title(), &self.slots, NAMES)
    }

    /// The axis of `y`, with labels in the declaration's unit, if it has one.
    pub(super) fn vertical(&self, scale: Scale, values: Vec<f64>) -> Side {
        let (unit, title) = (self.figure.unit.as_ref(), self.figure.y_title.clone());
        let title = title.unwrap_or_else(|| self.y.scaled_title(scale, unit));
        Side::of_unit(self.y.unit(), unit, Axis::over(scale, values), &title)
    }

    /// `Hit rate against memory`.
    pub(super) fn against(&self) -> String {
        let x = self.x.map(|x| format!(" against {}", x.title()));
        format!("{}{}", self.y.title(), x.unwrap_or_default())
    }

    /// A series for each curve; without `by` its legend has no name.
    pub(super) fn series(&self) -> Vec<Series> {
        let of = |curve: &Curve| {
            let by = self.figure.by.as_ref();
            let short = by.map(|_| self.legend_name(curve)).unwrap_or_default();
            Series::new(curve.name.clone(), short, Look::Style(curve.style))
        };
        self.curves.iter().map(of).collect()
    }

    /// The values of `y` that a figure reaches: of all trials, and published.
    pub(super) fn values(&self) -> Vec<f64> {
        let measured = self.trials().filter_map(|it| self.y.of_record(it.record));
        let name = self.y.name();
        let published = self.points().filter_map(|it| self.published(it, name));
        measured.chain(published.map(|it| it.0)).collect()
    }

    /// The published value of a metric that applies to all trials of a point, with its source.
    pub(super) fn published(&self, point: &Point, metric: &str) -> Option<(f64, &'a str)> {
        let of = self.plan.metric(metric)?;
        let published = self.plan.published.iter().find(|it| {
            let mut trials = point.trials.iter();
            let is_of = it.metric == metric && !it.is_ratio() && it.is_of(point.factors);
            is_of && trials.all(|trial| it.is_of(&trial.record.factors))
        })?;
        Some((published.number(of), &published.source))
    }

    pub(super) fn points(&self) -> impl Iterator<Item = &Point<'a>> {
        self.curves.iter().flat_map(|curve| &curve.points)
    }

    pub(super) fn trials(&self) -> impl Iterator<Item = Trial<'a>> {
        self.points().flat_map(|point| point.trials.iter().copied())
    }

    pub(super) fn curve(&self, point: &Point) -> &Curve<'a> {
        &self.curves[point.curve]
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
            Some(Dimension::Metric(metric)) => &metric.planned,
            _ => &None,
        };
        let figure = self.figure;
        let shown = [&figure.x, &figure.by, &figure.panel, planned];
        let is_aside = |factor: &&Factor| {
            let is_told = factor.label.is_some() || factor.values.len() > 1;
            is_told && !shown.iter().any(|it| it.as_ref() == Some(&factor.name))
        };
        let labels = labels(self.plan.factors.iter().filter(is_aside), factors);
        match labels.is_empty() {
            true => String::new(),
            false => format!(" ({})", labels.join(", ")),
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
        labels(self.telling.iter().copied(), factors).join(", ")
    }

    /// A point in words: `version b, with 4 threads`; `all trials`, if there is no other.
    pub(super) fn point_name(&self, point: &Point) -> String {
        let by = self.figure.by.as_ref().map(|_| &self.curve(point).short);
        let along = self.x.filter(|x| x.factor().is_some());
        let at = along.zip(point.at).map(|(x, at)| x.place(at));
        let cell = self.cell_name(point.factors);
        joined([by.cloned(), at, Some(cell)]).unwrap_or_else(|| "all trials".to_owned())
    }
}

/// The parts that are not empty. None: all are.
pub(super) fn joined<const N: usize>(parts: [Option<String>; N]) -> Option<String> {
    let parts = parts.into_iter().flatten().filter(|it| !it.is_empty());
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
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
    let least = stage.repeats.least;
    let cell = |(index, factors): (u32, &'a Factors)| {
        let mut ended = ended.remove(&index).unwrap_or_default();
        ended.sort_by_key(|record| record.repeat);
        let beyond = ended.iter().filter(|record| record.repeat >= least);
        has_all(factors, &figure.only).then_some(Cell {
            factors,
            planned: least.saturating_add(beyond.count() as u32),
            ended,
        })
    };
    (0u32..).zip(&stage.cells).filter_map(cell).collect()
}

/// The points of a curve: one a cell or, if `x` is a factor, one for each of its values, in
/// ascending order.
fn points<'a>(kind: FigureKind, x: Option<Dimension<'a>>, cells: &[&Cell<'a>]) -> Vec<Point<'a>> {
    let along = x.filter(|x| x.factor().is_some() && !kind.is_of_cells());
    let Some(along) = along else {
        return cells.iter().map(|cell| point(x, &[*cell])).collect();
    };
    let cells = cells.iter().copied();
    let placed = cells.filter_map(|cell| Some((along.of_factors(cell.factors)?, cell)));
    let mut sorted: Vec<(f64, &Cell)> = placed.collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let groups = sorted.chunk_by(|a, b| a.0 == b.0);
    let cells = groups.map(|group| group.iter().map(|it| it.1).collect());
    cells.map(|cells: Vec<&Cell>| point(x, &cells)).collect()
}

/// The point of some cells, at least one.
fn point<'a>(x: Option<Dimension<'a>>, cells: &[&Cell<'a>]) -> Point<'a> {
    let factors = cells[0].factors;
    let known = cells.iter().flat_map(|cell| &cell.ended);
    let known = known.filter_map(|record| x?.of_record(record));
    let known: Vec<f64> = known.filter(|it| it.is_finite()).collect();
    let mut point = Point {
        curve: 0,
        slot: 0,
        factors,
        at: measure::median(&known).or_else(|| x?.of_factors(factors)),
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
