//! The share of values at or below each value: a line for each cell, in the colour of its curve.
//!
//! Of a histogram, the line passes through the upper end of every bucket; of a metric, it is the
//! staircase of the trials. Markers show the median and the upper percentiles that the number of
//! values supports. On a logarithmic vertical axis, the share *above* each value is drawn, which
//! makes the tail visible.

mod distribution;

use std::collections::HashSet;

use self::distribution::Distribution;
use super::dimension::{self, PLOT_WIDTH, WIDE};
use super::panel::{Curve, Panel, Point};
use super::{Data, Rows, notes};
use crate::chart::axis::Axis;
use crate::chart::legend::{Entry, Legend, Sample};
use crate::chart::mark;
use crate::chart::side::Side;
use crate::chart::svg::{Svg, coordinates};
use crate::chart::{CurveStyle, Field};
use crate::figure::Scale;
use crate::record::Unit;
use crate::{limits, units};

/// The quantiles with a marker.
const MARKED: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
/// The least share that can be seen.
const VISIBLE: f64 = 0.005;
/// Dashes that tell cells of one colour apart.
const DASHES: [&str; 4] = ["none", "7 4", "1.5 3.5", "10 3 2 3"];

/// The data of a figure of distributions.
pub(super) struct Cdf<'a> {
    panel: &'a Panel<'a>,
    lines: Vec<Line<'a>>,
    unit: Unit,
    axes: (Side, Side),
    /// The share above each value is drawn.
    is_tail: bool,
    /// Trials without the histogram, or with one that cannot be read.
    unread: u64,
    /// Values of unknown size, which were not observed to their end.
    censored: u64,
}

/// The distribution of a cell.
struct Line<'a> {
    curve: &'a Curve<'a>,
    point: &'a Point<'a>,
    /// The name of the cell among those of the curve. Empty: the curve has no other.
    cell: String,
    style: CurveStyle,
    dashes: &'static str,
    of: Distribution,
}

impl<'a> Cdf<'a> {
    pub(super) fn of(panel: &'a Panel<'a>) -> Self {
        let mut lines = Vec::new();
        let (mut unread, mut censored) = (0, 0);
        let has_by = panel.figure.by.is_some();
        for curve in &panel.curves {
            for (index, point) in curve.points.iter().enumerate() {
                let of = Distribution::of(panel, point);
                unread += of.unread;
                censored += of.censored;
                if of.count == 0 {
                    continue;
                }
                lines.push(Line {
                    curve,
                    point,
                    cell: panel.cell_name(point.factors),
                    // Without `by`, all cells are of one curve.
                    style: if has_by {
                        curve.style
                    } else {
                        CurveStyle::of(index)
                    },
                    dashes: if has_by {
                        DASHES[index % DASHES.len()]
                    } else {
                        DASHES[0]
                    },
                    of,
                });
            }
        }
        let unit = panel.y.unit().cloned().unwrap_or_else(Unit::nanoseconds);
        let is_tail = panel.figure.scale == Scale::Log;
        Self {
            axes: axes(panel, &lines, &unit, is_tail),
            panel,
            lines,
            unit,
            is_tail,
            unread,
            censored,
        }
    }

    /// What is drawn of a cumulative share.
    fn drawn(&self, share: f64) -> f64 {
        if self.is_tail { 1.0 - share } else { share }
    }

    fn name(&self, line: &Line) -> String {
        let by = self
            .panel
            .figure
            .by
            .as_ref()
            .map(|_| line.curve.name.clone());
        let cell = Some(line.cell.clone()).filter(|cell| !cell.is_empty());
        let parts: Vec<String> = [by, cell].into_iter().flatten().collect();
        match parts.is_empty() {
            true => line.curve.name.clone(),
            false => parts.join(", "),
        }
    }

    /// The marked quantiles of a line that its number of values supports, as (name, value, share).
    fn quantiles(line: &Line) -> Vec<(&'static str, f64, f64)> {
        let mut quantiles = Vec::new();
        for (share, name) in MARKED {
            if (1.0 - share) * line.of.count as f64 >= 1.0 {
                let found = line.of.quantile(share);
                quantiles.extend(found.map(|(value, share)| (name, value, share)));
            }
        }
        quantiles
    }

    fn without_value(&self) -> Option<String> {
        let mut names = Vec::new();
        let address = |point: &Point| std::ptr::from_ref(point).addr();
        let drawn: HashSet<usize> = self.lines.iter().map(|it| address(it.point)).collect();
        for curve in &self.panel.curves {
            let is_drawn = |point: &&Point| drawn.contains(&address(point));
            let absent = curve.points.iter().filter(|point| !is_drawn(point));
            names.extend(absent.map(|point| self.panel.point_name(curve, point)));
        }
        notes::without_value(names)
    }
}

impl Data for Cdf<'_> {
    fn title(&self) -> String {
        format!("Distribution of {}", self.panel.y.title())
    }

    fn rows(&self) -> Rows {
        let y = self.panel.y.name();
        let mut rows = Rows::new(["curve", "cell", "row", y, "share", "count"]);
        for line in &self.lines {
            let mut push = |row: &str, value: f64, share: f64, count: &str| {
                let (value, share) = (value.to_string(), share.to_string());
                let cells = [&line.curve.name, &line.cell, row, &value, &share, count];
                rows.rows.push(cells.map(str::to_owned).to_vec());
            };
            for &(value, share) in &line.of.points {
                push("point", value, share, "");
            }
            let count = line.of.count.to_string();
            for (name, value, share) in Self::quantiles(line) {
                push(name, value, share, &count);
            }
        }
        rows
    }

    fn notes(&self) -> (Vec<String>, Vec<String>) {
        let panel = self.panel;
        let mut after: Vec<String> = notes::lacking(panel).into_iter().collect();
        after.extend(self.without_value());
        let why = match panel.plan.metric(panel.y.name()) {
            Some(_) => "without this measurement",
            None => "without this histogram, or with one that cannot be read",
        };
        after.extend(notes::unfit(self.unread, why));
        after.extend(notes::left_out(panel));
        after.extend(notes::bounds(
            panel,
            "The line has them where they were observed",
        ));
        let least = self
            .lines
            .iter()
            .filter_map(|line| Some(line.of.points.first()?.0));
        let axis = &self.axes.0.axis;
        let starts = axis.value(axis.start);
        if least.reduce(f64::min).is_some_and(|least| least < starts) {
            let starts = self.unit.words(starts);
            let share = "Fewer than 0.5 % of the values of a line are below";
            after.push(format!("{share} {starts}, where the axis begins."));
        }
        if self.censored > 0 {
            let values = units::plural(self.censored, "value");
            after.push(format!(
                "{values} had not ended when the trial did; they are drawn at the time waited so \
                 far, and the true tail may be longer."
            ));
        }
        (notes::hollow_cells(panel).into_iter().collect(), after)
    }

    fn description(&self) -> String {
        let sentence = |line: &Line| {
            let quantiles = Self::quantiles(line).into_iter();
            let values =
                quantiles.map(|(name, value, _)| format!("{name} {}", self.unit.words(value)));
            let greatest = line.of.points.last();
            let greatest = greatest.map(|it| format!("greatest {}", self.unit.words(it.0)));
            notes::values_of(&self.name(line), values.chain(greatest).collect())
        };
        let sentences: Vec<String> = self.lines.iter().map(sentence).collect();
        match sentences.is_empty() {
            true => "No measurement.".to_owned(),
            false => sentences.join(" "),
        }
    }

    fn legend(&self) -> Legend {
        let has_by = self.panel.figure.by.is_some();
        let (mut curves, mut cells): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
        let cut = |name: &str| units::shortened(name, limits::CELL_CHARACTERS);
        for line in &self.lines {
            let name = match has_by {
                true => self.panel.legend_name(line.curve),
                false => cut(&self.name(line)),
            };
            if !has_by || !curves.iter().any(|(_, known)| *known == name) {
                curves.push((Sample::Curve(line.style), name));
            }
            let cell = cut(&line.cell);
            if has_by && !cell.is_empty() && !cells.iter().any(|(_, known)| *known == cell) {
                cells.push((Sample::Line("median", line.dashes, "2"), cell));
            }
        }
        let more = curves.len().saturating_sub(limits::LEGEND_ENTRIES) as u64;
        curves.truncate(limits::LEGEND_ENTRIES);
        if more > 0 {
            let others = units::plural(more, "other");
            curves.push((Sample::None, format!("and {others}, which the CSV has")));
        }
        let mut key = Vec::new();
        if self.lines.iter().any(|line| line.point.is_suspect()) {
            key.extend(notes::reasons(self.panel).map(|reasons| (Sample::Hollow, reasons)));
        }
        let marked = "markers: 50th, 90th, 99th and 99.9th percentile, if there are enough values";
        key.push((Sample::None, marked.to_owned()));
        Legend::of([curves, cells, key])
    }

    fn axes(&self) -> Option<(Side, Side)> {
        Some(self.axes.clone())
    }

    fn draw(&self, svg: &mut Svg, field: &Field) {
        for line in &self.lines {
            let class = format!("server {}", line.style.class);
            svg.group(&[("class", &class), ("data-server", &self.name(line))]);
            self.line(svg, field, line);
            for quantile in Self::quantiles(line) {
                self.marker(svg, field, line, quantile);
            }
            svg.close();
        }
    }
}

impl Cdf<'_> {
    fn line(&self, svg: &mut Svg, field: &Field, line: &Line) {
        let is_staircase = self.panel.plan.metric(self.panel.y.name()).is_some();
        let mut before = 0.0;
        let mut pixels: Vec<(f64, f64)> = Vec::new();
        for &(value, share) in &line.of.points {
            let is_first = pixels.is_empty();
            if is_staircase || is_first {
                pixels.extend(field.pixel(value, self.drawn(before)));
            }
            pixels.extend(field.pixel(value, self.drawn(share)));
            before = share;
        }
        let style = [
            ("class", "median"),
            ("points", &coordinates(&pixels)),
            ("fill", "none"),
            ("stroke", line.style.colour),
            ("stroke-width", "1.8"),
            ("stroke-linejoin", "round"),
            ("stroke-dasharray", line.dashes),
        ];
        svg.element("polyline", &style);
    }

    fn marker(
        &self,
        svg: &mut Svg,
        field: &Field,
        line: &Line,
        (quantile, value, share): (&str, f64, f64),
    ) {
        let Some((x, y)) = field.pixel(value, self.drawn(share)) else {
            return;
        };
        let is_hollow = line.point.is_suspect();
        let hint = format!(
            "{}: {quantile} {}, {} in {}",
            self.name(line),
            self.unit.words(value),
            units::plural(line.of.count, "value"),
            units::plural(line.of.trials, "trial"),
        );
        let style = [
            ("class", if is_hollow { "mark hollow" } else { "mark" }),
            ("transform", &mark::at(x, y)),
            ("d", line.style.shape),
            ("fill", if is_hollow { "none" } else { line.style.colour }),
            ("stroke", line.style.colour),
            ("stroke-width", "1"),
        ];
        svg.hinted("path", &style, &hint);
    }
}

/// The axis of the values, logarithmic for times of different magnitudes unless the declaration
/// says otherwise, and that of the shares.
fn axes(panel: &Panel, lines: &[Line], unit: &Unit, is_tail: bool) -> (Side, Side) {
    let figure = panel.figure;
    let values = || lines.iter().flat_map(|line| &line.of.points).map(|it| it.0);
    let start = start(lines);
    let end = values().reduce(f64::max).unwrap_or(0.0);
    let is_time = unit.to(&Unit::nanoseconds()).is_some();
    let default = match () {
        () if is_time && start > 0.0 && end > WIDE * start => Scale::Log,
        () if is_time && start > 0.0 && panel.plan.metric(panel.y.name()).is_some() => {
            Scale::Fitted
        }
        () if start < 0.0 => Scale::Fitted,
        () => Scale::Linear,
    };
    let scale = figure.x_scale.unwrap_or(default);
    // A logarithmic axis that was asked for cannot begin at 0.
    let above_zero = values().filter(|_| start <= 0.0 && scale == Scale::Log);
    let shown = figure
        .unit
        .as_ref()
        .filter(|shown| unit.to(shown).is_some());
    let title = match shown {
        Some(shown) => format!("{} ({})", panel.y.title(), shown.name()),
        None => panel.y.axis_title(),
    };
    let is_log = if scale == Scale::Log {
        " (log scale)"
    } else {
        ""
    };
    let axis = Axis::over(scale, [start, end].into_iter().chain(above_zero));
    let horizontal = dimension::side(Some(unit), shown, axis, &format!("{title}{is_log}"));
    let shares = || lines.iter().flat_map(|line| &line.of.points).map(|it| it.1);
    let vertical = match is_tail {
        true => Axis::over(Scale::Log, shares().map(|share| 1.0 - share).chain([1.0])),
        false => Axis::over(Scale::Linear, [1.0]),
    };
    let words = match is_tail {
        true => "share of values above (log scale)",
        false => "share of values at or below",
    };
    let title = figure.y_title.clone().unwrap_or_else(|| words.to_owned());
    let vertical = dimension::side(Some(&Unit::share()), None, vertical, &title);
    (horizontal.thinned(PLOT_WIDTH), vertical)
}

/// Where the axis of the values begins: the least value up to which a line reaches a share that can
/// be seen. The few values below would take most of a logarithmic axis.
fn start(lines: &[Line]) -> f64 {
    let visible = |line: &Line| line.of.quantile(VISIBLE).map(|it| it.0);
    lines
        .iter()
        .filter_map(visible)
        .reduce(f64::min)
        .unwrap_or(0.0)
}
