//! A marker for each cell at the medians of `x` and `y`; and the Pareto front, if that is asked
//! for.
//!
//! Area shows `size`, shade shows `shade`, colour and shape show `by`. Crossed lines through a
//! marker reach from the least to the greatest of its trials, where there is room.

mod cells;
mod words;

use self::cells::{Cell, median};
use super::dimension::Dimension;
use super::panel::Panel;
use super::{Data, Rows, Spread};
use crate::chart::legend::Legend;
use crate::chart::mark::{self, BEST_SHAPES, BOUND_SHAPE, BOUND_X_SHAPE};
use crate::chart::side::Side;
use crate::chart::svg::{Svg, coordinates};
use crate::chart::{Field, INK, Ramp};
use crate::figure::FigureKind;
use crate::record::Better;

/// Greatest and least radius of a marker whose area shows a value, pixels.
const WIDEST: f64 = 9.5;
const NARROWEST: f64 = 2.0;
/// Radius of a circle of the area of a marker of the palette, and of one without `size`.
const RADIUS: f64 = 3.2;
const PLAIN: f64 = 5.0;
/// Cells up to which the ranges of the trials are drawn.
const UNCROWDED: usize = 40;

/// The data of a scatter.
pub(super) struct Scatter<'a> {
    panel: &'a Panel<'a>,
    x: Dimension<'a>,
    size: Option<Scaled<'a>>,
    shade: Option<Scaled<'a>>,
    /// Cells with `x` and `y`.
    cells: Vec<Cell<'a>>,
    /// Names of those without.
    without: Vec<String>,
    /// Indices of `cells`, from the best `x` to the best `y`.
    front: Vec<usize>,
    /// The best cell by each metric: the metric, an index of `cells`, the value.
    best: Vec<Best<'a>>,
    axes: (Side, Side),
}

/// The best cell by a metric.
struct Best<'a> {
    of: Dimension<'a>,
    cell: usize,
    value: f64,
}

/// What size or shade show, and the range of its values. None: no cell has one.
struct Scaled<'a> {
    of: Dimension<'a>,
    range: Option<(f64, f64)>,
}

impl<'a> Scatter<'a> {
    pub(super) fn of(panel: &'a Panel<'a>) -> Self {
        // The declaration has been checked: a scatter has an `x`.
        let x = panel.x.unwrap_or(panel.y);
        let figure = panel.figure;
        let scaled = |name: &'a Option<String>| {
            let of = Dimension::of(panel.plan, name.as_ref()?);
            Some(Scaled::of(panel, of))
        };
        let (size, shade) = (scaled(&figure.size), scaled(&figure.shade));
        let (mut cells, mut without) = (Vec::new(), Vec::new());
        for curve in &panel.curves {
            for point in &curve.points {
                let name = panel.point_name(curve, point);
                let of = |scaled: &Option<Scaled>| median(point, scaled.as_ref()?.of);
                let (size, shade) = (of(&size), of(&shade));
                match Cell::of(curve, point, (x, panel.y)) {
                    Some(cell) => cells.push(Cell {
                        name,
                        size,
                        shade,
                        ..cell
                    }),
                    None => without.push(name),
                }
            }
        }
        let front = match figure.kind {
            FigureKind::Pareto => front(&cells, x, panel.y),
            _ => Vec::new(),
        };
        let best = figure
            .marks
            .iter()
            .filter_map(|name| best(panel, &cells, name));
        Self {
            best: best.collect(),
            axes: axes(panel, x, &cells),
            panel,
            x,
            size,
            shade,
            cells,
            without,
            front,
        }
    }

    fn is_pareto(&self) -> bool {
        self.panel.figure.kind == FigureKind::Pareto
    }

    fn has_ranges(&self) -> bool {
        self.cells.len() <= UNCROWDED
    }

    /// The radius of a marker: its area is proportional to the value.
    fn radius(&self, cell: &Cell) -> f64 {
        match (&self.size, cell.size) {
            (None, _) => PLAIN,
            (Some(size), Some(value)) => size.radius(value),
            (Some(_), None) => NARROWEST,
        }
    }
}

impl<'a> Scaled<'a> {
    fn of(panel: &'a Panel<'a>, of: Dimension<'a>) -> Self {
        let values = || panel.points().filter_map(|point| median(point, of));
        let least = values().reduce(f64::min);
        Self {
            of,
            range: least.zip(values().reduce(f64::max)),
        }
    }

    fn radius(&self, value: f64) -> f64 {
        let greatest = self.range.map_or(1.0, |it| it.1).max(f64::MIN_POSITIVE);
        (WIDEST * (value.max(0.0) / greatest).sqrt()).max(NARROWEST)
    }

    fn shade(&self, value: f64) -> Ramp {
        let (least, greatest) = self.range.unwrap_or((0.0, 1.0));
        match greatest > least {
            true => Ramp::of((value - least) / (greatest - least)),
            false => Ramp::of(0.5),
        }
    }
}

impl Data for Scatter<'_> {
    fn title(&self) -> String {
        super::titled(self.panel.y.title(), Some(self.x.title()))
    }

    fn rows(&self) -> Rows {
        self.table()
    }

    fn notes(&self) -> (Vec<String>, Vec<String>) {
        self.remarks()
    }

    fn description(&self) -> String {
        self.text()
    }

    fn legend(&self) -> Legend {
        Legend::of(self.entries())
    }

    fn axes(&self) -> Option<(Side, Side)> {
        Some(self.axes.clone())
    }

    fn draw(&self, svg: &mut Svg, field: &Field) {
        if self.has_ranges() {
            for cell in &self.cells {
                ranges(svg, field, cell);
            }
        }
        self.draw_front(svg, field);
        // The small ones last, or the large ones would hide them.
        let mut order: Vec<usize> = (0..self.cells.len()).collect();
        order.sort_by(|&a, &b| {
            let radius = |index: usize| self.radius(&self.cells[index]);
            radius(b).total_cmp(&radius(a))
        });
        for index in order {
            self.marker(svg, field, index);
        }
        for (index, best) in self.best.iter().enumerate() {
            self.best_mark(svg, field, index, best);
        }
    }
}

impl Scatter<'_> {
    fn marker(&self, svg: &mut Svg, field: &Field, index: usize) {
        let cell = &self.cells[index];
        let Some((x, y)) = field.pixel(cell.x, cell.y) else {
            return;
        };
        let style = cell.curve.style;
        let shade = self
            .shade
            .as_ref()
            .map(|shade| Some(shade.shade(cell.shade?)));
        // Some(None): the cell has no value to show as a shade.
        let fill = match shade {
            None => Some(style.colour),
            Some(shade) => shade.map(|it| it.colour),
        };
        let is_hollow = cell.point.is_suspect() || fill.is_none();
        let is_front = self.front.contains(&index);
        let is_behind = self.is_pareto() && !is_front;
        let factor = self.radius(cell) / RADIUS;
        let mut shape = mark::sized(style.shape, factor);
        if cell.is_bound_y {
            shape.push_str(&mark::sized(BOUND_SHAPE, factor.max(1.0)));
        }
        if cell.is_bound_x {
            shape.push_str(&mark::sized(BOUND_X_SHAPE, factor.max(1.0)));
        }
        let mut class = "mark".to_owned();
        if is_hollow {
            class.push_str(" hollow");
        }
        if let Some(shade) = shade.flatten() {
            class.push_str(&format!(" shaded {}", shade.class));
        }
        let group = format!("server {}", style.class);
        svg.group(&[("class", &group), ("data-server", &cell.curve.name)]);
        let attributes = [
            ("class", class.as_str()),
            ("transform", &mark::at(x, y)),
            ("d", &shape),
            ("fill", fill.filter(|_| !is_hollow).unwrap_or("none")),
            ("fill-opacity", if is_behind { "0.35" } else { "0.85" }),
            ("stroke", style.colour),
            ("stroke-opacity", if is_behind { "0.8" } else { "1" }),
            ("stroke-width", if is_front { "2" } else { "1" }),
        ];
        svg.hinted("path", &attributes, &self.hint(cell));
        svg.close();
    }

    /// The boundary of what the cells reach: at each `x`, the best `y` of the cells that are at
    /// least as good in `x`.
    fn draw_front(&self, svg: &mut Svg, field: &Field) {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for &index in &self.front {
            let cell = &self.cells[index];
            let Some((x, y)) = field.pixel(cell.x, cell.y) else {
                continue;
            };
            points.extend(points.last().map(|&(_, before)| (x, before)));
            points.push((x, y));
        }
        if points.len() > 1 {
            let style = [
                ("class", "pareto"),
                ("points", &coordinates(&points)),
                ("fill", "none"),
                ("stroke", INK),
                ("stroke-width", "1.4"),
            ];
            svg.element("polyline", &style);
        }
    }

    fn best_mark(&self, svg: &mut Svg, field: &Field, index: usize, best: &Best) {
        let cell = &self.cells[best.cell];
        let Some((x, y)) = field.pixel(cell.x, cell.y) else {
            return;
        };
        svg.group(&[("class", "neutral")]);
        let style = [
            ("class", "best"),
            ("transform", &mark::at(x, y)),
            ("d", BEST_SHAPES[index % BEST_SHAPES.len()]),
            ("fill", "none"),
            ("stroke", INK),
            ("stroke-width", "1.5"),
        ];
        svg.element("path", &style);
        svg.close();
    }
}

/// Crossed lines from the least to the greatest of the trials.
fn ranges(svg: &mut Svg, field: &Field, cell: &Cell) {
    let line = |from: Option<(f64, f64)>, to: Option<(f64, f64)>, svg: &mut Svg| {
        if let Some((from, to)) = from.zip(to).filter(|(from, to)| from != to) {
            let style = [
                ("class", "range-line"),
                ("points", &coordinates(&[from, to])),
                ("fill", "none"),
                ("stroke", cell.curve.style.colour),
                ("stroke-width", "0.8"),
                ("stroke-opacity", "0.7"),
            ];
            svg.element("polyline", &style);
        }
    };
    svg.group(&[("class", cell.curve.style.class)]);
    if let Some(Spread { min, max, .. }) = cell.range_x {
        line(field.pixel(min, cell.y), field.pixel(max, cell.y), svg);
    }
    if let Some(Spread { min, max, .. }) = cell.range_y {
        line(field.pixel(cell.x, min), field.pixel(cell.x, max), svg);
    }
    svg.close();
}

/// Both axes over all that is drawn.
fn axes(panel: &Panel, x: Dimension, cells: &[Cell]) -> (Side, Side) {
    let figure = panel.figure;
    let has_ranges = cells.len() <= UNCROWDED;
    let all = |at: fn(&Cell) -> f64, range: fn(&Cell) -> Option<Spread>| {
        let mut values = Vec::new();
        for cell in cells {
            values.push(at(cell));
            let range = range(cell).filter(|_| has_ranges);
            values.extend(range.into_iter().flat_map(|it| [it.min, it.max]));
        }
        values.into_iter()
    };
    let (unit, title) = (figure.unit.as_ref(), figure.y_title.as_ref());
    (
        x.horizontal(figure.x_scale, all(|it| it.x, |it| it.range_x)),
        panel
            .y
            .vertical(figure.scale, all(|it| it.y, |it| it.range_y), unit, title),
    )
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

fn front(cells: &[Cell], x: Dimension, y: Dimension) -> Vec<usize> {
    let points: Vec<(f64, f64)> = cells.iter().map(|cell| (cell.x, cell.y)).collect();
    let directions = better(x).zip(better(y));
    let front = directions.and_then(|(x, y)| measure::pareto_front(&points, x, y));
    front.unwrap_or_default()
}

/// The best cell by a metric; the first of equals.
fn best<'a>(panel: &'a Panel<'a>, cells: &[Cell], name: &'a str) -> Option<Best<'a>> {
    let of = Dimension::of(panel.plan, name);
    let is_higher = matches!(better(of)?, measure::Better::Higher);
    let mut found: Option<(usize, f64)> = None;
    for (index, cell) in cells.iter().enumerate() {
        let Some(value) = median(cell.point, of) else {
            continue;
        };
        let is_better = found.is_none_or(|(_, best)| match is_higher {
            true => value > best,
            false => value < best,
        });
        if is_better {
            found = Some((index, value));
        }
    }
    found.map(|(cell, value)| Best { of, cell, value })
}
