//! The medians of several metrics as the parts of one bar, for each value of `x`, grouped by it: a
//! stack for each curve.
//!
//! Shades tell parts apart, so stacks are told apart by labels below them. A part without a median
//! is missing, never zero: its stack has a cross above it, and lacks an unknown height.

use std::collections::HashSet;

use super::dimension::{self, PLOT_WIDTH, numbered_side};
use super::grid::Grid;
use super::panel::{Curve, Panel, Point};
use super::{Data, Rows, notes, titled};
use crate::cell::Values;
use crate::chart::axis::{Axis, Scale};
use crate::chart::legend::{Entry, Legend, Sample};
use crate::chart::mark;
use crate::chart::side::{LABEL_SIZE, Side};
use crate::chart::svg::{self, Svg, coordinate};
use crate::chart::{Field, INK, PAPER, Ramp, SOFT_INK};
use crate::record::{Metric, Unit};
use crate::{limits, units};

/// The share of its place that a stack takes.
const FILLED: f64 = 0.78;
/// Greatest width of a stack, pixels.
const WIDEST: f64 = 64.0;
/// Space between groups, in places of stacks.
const GAP: f64 = 0.6;
/// Share of the plot above the highest stack that the labels of groups take.
const HEADED: f64 = 0.08;

/// The data of a figure of stacks.
pub(super) struct Stacks<'a> {
    panel: &'a Panel<'a>,
    /// From the bottom.
    parts: Vec<&'a Metric>,
    /// By group, then by curve.
    stacks: Vec<Stack<'a>>,
    /// Groups of stacks along the axis. Empty: each position has one stack.
    groups: Vec<Group>,
    axes: (Side, Side),
    /// What the numbers that replace the names of curves stand for.
    numbered: Vec<Entry>,
    /// What those that replace the labels of positions stand for.
    numbers: Option<String>,
}

/// One bar.
struct Stack<'a> {
    curve: &'a Curve<'a>,
    point: &'a Point<'a>,
    /// The value of `x`, as the data beside the figure has it.
    plain: String,
    /// Along the axis.
    at: f64,
    /// The parts, from the bottom.
    parts: Vec<Part>,
}

/// A part of a bar.
struct Part {
    /// As measured.
    values: Values,
    /// The median in the unit of the first part. None: there is none, or it is below 0.
    height: Option<f64>,
}

/// The stacks at one value of `x`.
struct Group {
    /// The value of `x`, or the cell.
    label: String,
    /// Along the axis.
    ends: (f64, f64),
}

impl<'a> Stacks<'a> {
    pub(super) fn of(panel: &'a Panel<'a>) -> Self {
        let names = panel.figure.parts.iter();
        let parts: Vec<&Metric> = names.filter_map(|name| panel.plan.metric(name)).collect();
        let grid = Grid::of(panel);
        let is_grouped = panel.figure.by.is_some();
        let (mut stacks, mut groups, mut free) = (Vec::new(), Vec::new(), 0.0);
        for (index, position) in grid.positions.iter().enumerate() {
            let first = free;
            for (curve, entries) in panel.curves.iter().zip(&grid.entries) {
                let Some(entry) = entries.get(index).and_then(Option::as_ref) else {
                    continue;
                };
                stacks.push(Stack {
                    curve,
                    point: entry.point,
                    plain: position.plain.clone(),
                    at: free,
                    parts: parts_of(entry.point, &parts),
                });
                free += 1.0;
            }
            if is_grouped && free > first {
                let at = stacks.last().and_then(|it: &Stack| it.point.at);
                let label = panel.x.zip(at).map(|(x, at)| x.label(at));
                groups.push(Group {
                    label: label.unwrap_or_else(|| position.label.clone()),
                    ends: (first, free - 1.0),
                });
                free += GAP;
            }
        }
        let (across, numbered, numbers) = match is_grouped {
            true => {
                let (side, numbered) = grouped_side(panel, &grid, &stacks);
                (side, numbered, None)
            }
            false => {
                let labels = grid.positions.iter().map(|it| it.label.clone());
                let (side, note) = numbered_side(&grid.title, &labels.collect::<Vec<_>>());
                (side, Vec::new(), note)
            }
        };
        Self {
            axes: (across, vertical(panel, &parts, &stacks, is_grouped)),
            panel,
            parts,
            stacks,
            groups,
            numbered,
            numbers,
        }
    }

    /// The shade of a part: parts are in order.
    fn shade(&self, part: usize) -> Ramp {
        let last = self.parts.len().saturating_sub(1).max(1);
        Ramp::of(part as f64 / last as f64)
    }

    fn unit(&self) -> Unit {
        let first = self.parts.first();
        first.map_or_else(Unit::count, |it| it.unit.clone())
    }

    /// The parts of a stack with their metrics.
    fn parts_of<'s>(
        &'s self,
        stack: &'s Stack,
    ) -> impl Iterator<Item = (&'a Metric, &'s Part)> + 's {
        self.parts.iter().copied().zip(&stack.parts)
    }

    /// The names of the stack's parts that have no height.
    fn absent(&self, stack: &Stack) -> Vec<String> {
        let parts = self.parts_of(stack).filter(|(_, it)| it.height.is_none());
        parts.map(|(metric, _)| metric.title.clone()).collect()
    }

    fn name(&self, stack: &Stack) -> String {
        self.panel.point_name(stack.curve, stack.point)
    }

    fn draw_stack(&self, svg: &mut Svg, field: &Field, stack: &Stack, middle: f64) {
        let axis = &field.x.axis;
        let place = field.plot.width / (axis.end - axis.start);
        let width = (FILLED * place).min(WIDEST);
        let (name, unit) = (self.name(stack), self.unit());
        let total: f64 = stack.parts.iter().filter_map(|it| it.height).sum();
        let mut below = 0.0;
        for (index, (metric, part)) in self.parts_of(stack).enumerate() {
            let Some(height) = part.height else {
                continue;
            };
            let ends = field.pixel_y(below).zip(field.pixel_y(below + height));
            below += height;
            let Some((low, high)) = ends else {
                continue;
            };
            let area = [middle - width / 2.0, high, width, (low - high).max(0.0)];
            let hint = format!(
                "{name}: {} {}{} of {}, median of {}",
                metric.title,
                units::lower_bound(part.values.is_lower_bound()),
                unit.words(height),
                unit.words(total),
                units::plural(part.values.valid.len() as u64, "trial"),
            );
            let style = [("stroke", PAPER), ("stroke-width", "1")];
            mark::shaded(svg, area, self.shade(index), &style, &hint);
        }
        let top = field.pixel_y(below).unwrap_or(field.bottom());
        if below > 0.0 {
            outline(
                svg,
                [middle - width / 2.0, top, width, field.bottom() - top],
            );
        }
        if let Some(hint) = self.missing(stack) {
            let above = (top - 8.0).max(field.plot.top + 6.0);
            svg.group(&[("class", "neutral")]);
            mark::missing(svg, (middle, above), INK, &format!("{name}: {hint}"));
            svg.close();
        }
    }

    /// What a stack lacks, in words.
    fn missing(&self, stack: &Stack) -> Option<String> {
        let absent = self.absent(stack);
        let mut words = Vec::new();
        let (missing, planned) = (stack.point.missing(), stack.point.planned);
        if missing > 0 {
            words.push(format!("{missing} of {planned} trials missing"));
        }
        if !absent.is_empty() {
            words.push(format!("no value of {}", units::listed(&absent)));
        }
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Notes on the values of a part.
    fn notes_of(&self, index: usize, metric: &Metric) -> Vec<String> {
        let (panel, title) = (self.panel, &metric.title);
        let stacks = |is_of: &dyn Fn(&Part) -> bool| {
            let stacks = self.stacks.iter();
            let stacks = stacks.filter(|it| it.parts.get(index).is_some_and(is_of));
            let mut names: Vec<String> = stacks.map(|it| self.name(it)).collect();
            let more = names.len().saturating_sub(limits::PLACES) as u64;
            names.truncate(limits::PLACES);
            names.extend((more > 0).then(|| units::plural(more, "other stack")));
            (!names.is_empty()).then(|| names.join("; "))
        };
        let absent = stacks(&|it| it.values.median().is_none());
        let negative = stacks(&|it| it.height.is_none() && it.values.median().is_some());
        let what = "below 0, for which a stack has no place";
        let of_stacks = [
            absent.map(|names| format!("No value of {title}: {names}.")),
            negative.map(|names| format!("Not drawn: {title} {what}: {names}.")),
        ];
        let partly = |stack: &&Stack| {
            let part = stack.parts.get(index);
            part.is_some_and(|part| part.values.count() > 0)
        };
        let trials = self.stacks.iter().filter(partly);
        let trials = trials.flat_map(|it| &it.point.trials);
        let without = trials.filter(|it| it.record.number(&metric.name).is_none());
        let without = match without.count() as u64 {
            0 => None,
            count => {
                let trials = units::plural(count, "trial");
                Some(format!(
                    "Without {title}: {trials}; its medians are of the others."
                ))
            }
        };
        let named = [
            notes::bounds_of(panel, &metric.name, "The part has the height of the bound"),
            notes::left_out_of(panel, &metric.name),
        ];
        let named = named.into_iter().flatten();
        let named = named.map(|note| format!("{}: {note}", titled(title, None)));
        let of_stacks = of_stacks.into_iter().chain([without]).flatten();
        of_stacks.chain(named).collect()
    }
}

impl Data for Stacks<'_> {
    fn title(&self) -> String {
        let titles: Vec<String> = self.parts.iter().map(|it| it.title.clone()).collect();
        titled(
            &units::listed(&titles),
            self.panel.x.map(dimension::Dimension::title),
        )
    }

    fn rows(&self) -> Rows {
        let x = self.panel.figure.x.as_deref().unwrap_or("cell");
        let mut rows = Rows::new(["curve", "row", "part", x, "value", "unit", "flag"]);
        for stack in &self.stacks {
            for (metric, part) in self.parts_of(stack) {
                let mut push = |row: &str, value: Option<f64>, flag: String| {
                    let value = value.map(|value| value.to_string()).unwrap_or_default();
                    let unit = metric.unit.to_string();
                    let cells = [
                        &stack.curve.name,
                        row,
                        &metric.name,
                        &stack.plain,
                        &value,
                        &unit,
                        &flag,
                    ];
                    rows.rows.push(cells.map(str::to_owned).to_vec());
                };
                let estimate = part.values.median();
                let flag = match (estimate, part.values.is_lower_bound()) {
                    (None, _) => "no value".to_owned(),
                    (_, true) => "lower bound".to_owned(),
                    (_, false) => String::new(),
                };
                push("median", estimate.map(|it| it.value), flag);
                if let Some(interval) = estimate.map(|it| it.interval) {
                    let confidence = format!("confidence {:.3}", interval.confidence);
                    push("low", Some(interval.low), confidence.clone());
                    push("high", Some(interval.high), confidence);
                }
                let missing = stack.point.missing();
                if missing > 0 {
                    let flag = format!("{missing} of {}", stack.point.planned);
                    push("missing", None, flag);
                }
            }
        }
        rows
    }

    fn notes(&self) -> (Vec<String>, Vec<String>) {
        let panel = self.panel;
        let mut after = vec![
            "Each part is the median over the trials; the sum of medians need not be the median of \
             the sums."
                .to_owned(),
        ];
        after.extend(notes::lacking(panel));
        let parts = self.parts.iter().enumerate();
        after.extend(parts.flat_map(|(index, metric)| self.notes_of(index, metric)));
        after.extend(notes::merged(panel, "stack"));
        after.extend(self.numbers.clone());
        (notes::suspect(panel).into_iter().collect(), after)
    }

    fn description(&self) -> String {
        let unit = self.unit();
        let words = |stack: &Stack| {
            let parts = self.parts_of(stack).map(|(metric, part)| {
                let value = part.height.map(|it| unit.words(it));
                let value = value.unwrap_or_else(|| "no value".to_owned());
                format!("{} {value}", metric.title)
            });
            notes::values_of(&self.name(stack), parts.collect())
        };
        let shown = self.stacks.iter().take(limits::PLACES);
        let mut sentences: Vec<String> = shown.map(words).collect();
        let more = self.stacks.len().saturating_sub(sentences.len()) as u64;
        if more > 0 {
            sentences.push(format!("And {}.", units::plural(more, "other stack")));
        }
        match sentences.is_empty() {
            true => "No measurement.".to_owned(),
            false => sentences.join(" "),
        }
    }

    fn legend(&self) -> Legend {
        let mut parts: Vec<Entry> = vec![(Sample::None, "from the bottom:".to_owned())];
        for (index, metric) in self.parts.iter().enumerate() {
            let title = units::shortened(&metric.title, limits::CELL_CHARACTERS);
            parts.push((Sample::Shade(self.shade(index)), title));
        }
        if self.stacks.iter().any(|it| self.missing(it).is_some()) {
            parts.push((Sample::Missing, "missing".to_owned()));
        }
        Legend::of([parts, self.numbered.clone()])
    }

    fn axes(&self) -> Option<(Side, Side)> {
        Some(self.axes.clone())
    }

    fn draw(&self, svg: &mut Svg, field: &Field) {
        for (index, group) in self.groups.iter().enumerate() {
            let (first, last) = group.ends;
            let ends = field.pixel_x(first - 0.5).zip(field.pixel_x(last + 0.5));
            let Some((left, right)) = ends else {
                continue;
            };
            let style = [
                ("text-anchor", "middle"),
                ("font-size", "12.5"),
                ("fill", SOFT_INK),
            ];
            let label = svg::fitted(&group.label, LABEL_SIZE, right - left);
            svg.text((left + right) / 2.0, field.plot.top + 16.0, &style, &label);
            let between = field.pixel_x(last + 0.5 + GAP / 2.0);
            if let Some(at) = between.filter(|_| index + 1 < self.groups.len()) {
                separator(svg, field, at);
            }
        }
        for stack in &self.stacks {
            if let Some(middle) = field.pixel_x(stack.at) {
                self.draw_stack(svg, field, stack, middle);
            }
        }
    }

    fn can_zoom(&self) -> bool {
        false
    }
}

/// The parts of the stack of a point.
fn parts_of(point: &Point, parts: &[&Metric]) -> Vec<Part> {
    let first = parts.first();
    let part = |metric: &&Metric| {
        let values = point.values(&metric.name);
        let factor = first.and_then(|first| metric.unit.to(&first.unit));
        let median = values.median().map(|it| it.value * factor.unwrap_or(1.0));
        Part {
            values,
            height: median.filter(|&height| height >= 0.0),
        }
    };
    parts.iter().map(part).collect()
}

fn vertical(panel: &Panel, parts: &[&Metric], stacks: &[Stack], is_grouped: bool) -> Side {
    let total = |stack: &Stack| -> f64 { stack.parts.iter().filter_map(|it| it.height).sum() };
    let room = if is_grouped { 1.0 + HEADED } else { 1.0 };
    let axis = Axis::over(Scale::Linear, stacks.iter().map(|it| room * total(it)));
    let (unit, shown) = (parts.first().map(|it| &it.unit), panel.figure.unit.as_ref());
    let composed = || match shown.or(unit.filter(|unit| !unit.is_in_ticks())) {
        Some(unit) => format!("medians ({})", unit.name()),
        None => "medians".to_owned(),
    };
    let title = panel.figure.y_title.clone().unwrap_or_else(composed);
    dimension::side(unit, shown, axis, &title)
}

/// The axis with a label for each stack: the name of its curve or, where names do not fit, its
/// number, and what the numbers stand for.
fn grouped_side(panel: &Panel, grid: &Grid, stacks: &[Stack]) -> (Side, Vec<Entry>) {
    let last = stacks.last().map_or(0.0, |it| it.at);
    let axis = Axis {
        scale: Scale::Fitted,
        start: -0.5 - GAP / 2.0,
        end: last + 0.5 + GAP / 2.0,
        labelled: stacks.iter().map(|it| it.at).collect(),
        between: Vec::new(),
        is_of_names: true,
    };
    let width = PLOT_WIDTH / (axis.end - axis.start) - 4.0;
    let names: Vec<String> = panel
        .curves
        .iter()
        .map(|it| panel.legend_name(it))
        .collect();
    let fitted: Vec<String> = names
        .iter()
        .map(|name| svg::fitted(name, LABEL_SIZE, width))
        .collect();
    let is_whole = fitted == names && fitted.iter().collect::<HashSet<_>>().len() == names.len();
    let number = |index: usize| (index + 1).to_string();
    let (labels, numbered): (Vec<String>, Vec<Entry>) = match is_whole {
        true => (fitted, Vec::new()),
        false => {
            let entry = |(index, name)| (Sample::None, format!("{}: {name}", number(index)));
            let entries = names.iter().enumerate().map(entry);
            ((0..names.len()).map(number).collect(), entries.collect())
        }
    };
    let by = panel.figure.by.as_ref();
    let by = by.and_then(|name| panel.plan.factor(name));
    let by = by.map(|it| it.title.as_str()).unwrap_or_default();
    let numbers = if is_whole {
        ""
    } else {
        " (numbers: see above)"
    };
    let title = match grid.title.as_str() {
        "" => format!("{by}{numbers}"),
        x => format!("{by}{numbers}, by {x}"),
    };
    let label = |at: f64, _: f64| {
        let stack = stacks.iter().find(|it| it.at == at);
        let of = |stack: &Stack| {
            let curves = &mut panel.curves.iter();
            let index = curves.position(|it| it.index == stack.curve.index)?;
            labels.get(index).cloned()
        };
        stack.and_then(of).unwrap_or_default()
    };
    let side = Side::new(axis, &title, "count".to_owned(), label);
    (side.thinned(PLOT_WIDTH), numbered)
}

/// The outline of a stack: the lightest shade is faint on paper.
fn outline(svg: &mut Svg, area: [f64; 4]) {
    let [x, y, width, height] = area.map(coordinate);
    let style = [
        ("class", "frame stack"),
        ("x", x.as_str()),
        ("y", y.as_str()),
        ("width", width.as_str()),
        ("height", height.as_str()),
        ("fill", "none"),
        ("stroke", SOFT_INK),
        ("stroke-width", "1"),
        ("pointer-events", "none"),
    ];
    svg.element("rect", &style);
}

/// A line between two groups.
fn separator(svg: &mut Svg, field: &Field, at: f64) {
    let [x, top, bottom] = [at, field.plot.top, field.bottom()].map(coordinate);
    let style = [
        ("class", "grid"),
        ("x1", x.as_str()),
        ("x2", x.as_str()),
        ("y1", top.as_str()),
        ("y2", bottom.as_str()),
        ("stroke", "#DDDDDD"),
        ("stroke-width", "1"),
        ("stroke-dasharray", "4 3"),
    ];
    svg.element("line", &style);
}
