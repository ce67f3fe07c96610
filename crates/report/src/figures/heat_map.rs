//! The series `y` over time, a row for each value of `x`, as shades.
//!
//! A shade is the median over the trials. Long series are drawn in columns of several numbers, of
//! which it is the mean. Where no trial has a number, the paper shows.

use super::dimension::{self, names_side};
use super::grid::{Grid, GridEntry, Position};
use super::panel::Panel;
use super::{Data, Rows, notes, titled};
use crate::chart::axis::Axis;
use crate::chart::legend::{Entry, Legend, Sample};
use crate::chart::mark;
use crate::chart::side::{LABEL_SIZE, Side};
use crate::chart::svg::{self, Svg};
use crate::chart::{Field, PLOT_HEIGHT, PLOT_LEFT, Ramp};
use crate::figure::Scale;
use crate::record::Unit;
use crate::{limits, units};

/// Greatest width of the labels of the rows, and of what is left of them: the title. Pixels.
const LABELS: f64 = 190.0;
const TITLE: f64 = 38.0;
/// Height of a row, pixels, if there are few.
const ROW: f64 = 44.0;
const LEAST_HEIGHT: f64 = 90.0;

/// The data of a heat map.
pub(super) struct HeatMap<'a> {
    panel: &'a Panel<'a>,
    grid: Grid<'a>,
    rows: Vec<Row>,
    /// Numbers of a series in a column.
    width: usize,
    /// The least and the greatest of all medians. None: there are none.
    range: Option<(f64, f64)>,
    unit: Unit,
    axes: (Side, Side),
    without: u64,
}

/// The row of a value of `x`.
struct Row {
    /// The median over the trials at each time. None: no trial has a number.
    medians: Vec<Option<f64>>,
    /// The length of the shortest and of the longest series.
    lengths: Option<(usize, usize)>,
}

impl<'a> HeatMap<'a> {
    pub(super) fn of(panel: &'a Panel<'a>) -> Self {
        let grid = Grid::of(panel);
        let name = panel.y.name();
        // `by` has no effect on a heat map: there is one curve at most.
        let entries = grid.entries.first().into_iter().flatten();
        let rows: Vec<Row> = entries.map(|entry| Row::of(entry.as_ref(), name)).collect();
        let longest = rows.iter().map(|row| row.medians.len()).max().unwrap_or(0);
        let width = longest.div_ceil(limits::HEAT_MAP_COLUMNS).max(1);
        let columns = rows.iter().flat_map(|row| row.columns(width)).flatten();
        let columns: Vec<f64> = columns.collect();
        let least = columns.iter().copied().reduce(f64::min);
        let greatest = columns.iter().copied().reduce(f64::max);
        let without = panel
            .trials()
            .filter(|it| !it.measured.series.contains_key(name));
        Self {
            axes: axes(panel, &grid, longest),
            range: least.zip(greatest),
            unit: panel.figure.unit.clone().unwrap_or_else(Unit::ratio),
            without: without.count() as u64,
            panel,
            grid,
            rows,
            width,
        }
    }

    fn placed(&self) -> impl Iterator<Item = (usize, &Position, &Row)> {
        let placed = self.grid.positions.iter().enumerate().zip(&self.rows);
        placed.map(|((at, position), row)| (at, position, row))
    }

    fn step(&self) -> f64 {
        self.panel.figure.step_s.unwrap_or(1.0)
    }

    /// A moment in words: `12 s`, or the number of the entry in the series.
    fn moment(&self, at: f64) -> String {
        match self.panel.figure.step_s {
            Some(_) => units::plain(at) + "\u{a0}s",
            None => format!("number {}", units::plain(at + 1.0)),
        }
    }

    fn without_value(&self) -> Option<String> {
        let x = &self.grid.title;
        let absent = self.placed().filter(|(_, _, row)| row.lengths.is_none());
        notes::without_value(
            absent
                .map(|(_, position, _)| format!("{x} {}", position.label))
                .collect(),
        )
    }

    /// Rows in which trials have series of different lengths.
    fn uneven(&self) -> Option<String> {
        let words = |(_, position, row): (usize, &Position, &Row)| {
            let (shortest, longest) = row.lengths.filter(|(a, b)| a != b)?;
            Some(format!(
                "{} ({shortest} to {longest} numbers)",
                position.label
            ))
        };
        let rows: Vec<String> = self.placed().filter_map(words).collect();
        (!rows.is_empty()).then(|| {
            let rows = units::listed(&rows);
            format!("Series of different lengths: {rows}. The end is of fewer trials.")
        })
    }
}

impl Row {
    fn of(entry: Option<&GridEntry>, name: &str) -> Self {
        let trials = entry.into_iter().flat_map(|entry| &entry.point.trials);
        let series: Vec<&Vec<f64>> = trials
            .filter_map(|trial| trial.measured.series.get(name))
            .filter(|series| !series.is_empty())
            .collect();
        let lengths = || series.iter().map(|it| it.len());
        let longest = lengths().max().unwrap_or(0);
        let at = |index: usize| {
            let numbers = series.iter().filter_map(|it| it.get(index).copied());
            let numbers: Vec<f64> = numbers.filter(|it| it.is_finite()).collect();
            measure::median(&numbers)
        };
        Self {
            medians: (0..longest).map(at).collect(),
            lengths: lengths().min().zip(lengths().max()),
        }
    }

    /// The means of `width` medians each.
    fn columns(&self, width: usize) -> impl Iterator<Item = Option<f64>> {
        self.medians.chunks(width).map(|medians| {
            let known: Vec<f64> = medians.iter().copied().flatten().collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        })
    }
}

impl Data for HeatMap<'_> {
    fn title(&self) -> String {
        format!("{} over time", titled(self.panel.y.title(), None))
    }

    fn rows(&self) -> Rows {
        let x = self.panel.figure.x.as_deref().unwrap_or("cell");
        let time = self.panel.figure.step_s.map_or("number", |_| "time_s");
        let mut rows = Rows::new([x, time, self.panel.y.name()]);
        for (_, position, row) in self.placed() {
            for (index, median) in row.medians.iter().enumerate() {
                let at = match self.panel.figure.step_s {
                    Some(step) => (index as f64 * step).to_string(),
                    None => (index + 1).to_string(),
                };
                let median = median.map(|it| it.to_string()).unwrap_or_default();
                rows.rows.push(vec![position.plain.clone(), at, median]);
            }
            if row.medians.is_empty() {
                rows.rows
                    .push(vec![position.plain.clone(), String::new(), String::new()]);
            }
        }
        rows
    }

    fn notes(&self) -> (Vec<String>, Vec<String>) {
        let panel = self.panel;
        let mut after: Vec<String> = notes::lacking(panel).into_iter().collect();
        after.extend(self.without_value());
        after.extend(notes::unfit(self.without, "without this series"));
        after.extend(self.uneven());
        after.extend(notes::merged(panel, "row"));
        if panel.trials().count() > panel.points().count() {
            after.push("Shades are medians over the trials.".to_owned());
        }
        if self.width > 1 {
            after.push(format!("Each shade is the mean of {} numbers.", self.width));
        }
        (notes::suspect(panel).into_iter().collect(), after)
    }

    fn description(&self) -> String {
        let sentence = |(_, position, row): (usize, &Position, &Row)| {
            let known = || row.medians.iter().copied().flatten();
            let ends = [
                ("first", known().next()),
                ("least", known().reduce(f64::min)),
                ("greatest", known().reduce(f64::max)),
                ("last", known().last()),
            ];
            let words = |(name, value): (&str, Option<f64>)| {
                Some(format!("{name} {}", self.unit.words(value?)))
            };
            notes::values_of(
                &position.label,
                ends.into_iter().filter_map(words).collect(),
            )
        };
        self.placed()
            .map(sentence)
            .collect::<Vec<String>>()
            .join(" ")
    }

    fn legend(&self) -> Legend {
        let title = self.panel.y.title();
        let entry = self.range.map(|(least, greatest)| -> Entry {
            let (least, greatest) = (self.unit.words(least), self.unit.words(greatest));
            (Sample::Ramp, format!("{title}: {least} to {greatest}"))
        });
        let longest = self.rows.iter().map(|row| row.medians.len()).max();
        let is_short = |row: &Row| Some(row.medians.len()) < longest;
        let is_blank = |row: &Row| is_short(row) || row.medians.contains(&None);
        let blank = self.rows.iter().any(is_blank);
        let blank = blank.then(|| (Sample::None, "blank: no number".to_owned()));
        Legend::of([entry.into_iter().chain(blank).collect()])
    }

    fn axes(&self) -> Option<(Side, Side)> {
        Some(self.axes.clone())
    }

    fn plot_height(&self) -> f64 {
        (self.rows.len() as f64 * ROW).clamp(LEAST_HEIGHT, PLOT_HEIGHT)
    }

    fn plot_left(&self) -> f64 {
        let widths = self
            .grid
            .positions
            .iter()
            .map(|it| svg::width(&it.label, LABEL_SIZE));
        let widest = widths.reduce(f64::max).unwrap_or(0.0).min(LABELS);
        (TITLE + widest).max(PLOT_LEFT)
    }

    fn draw(&self, svg: &mut Svg, field: &Field) {
        let Some((least, greatest)) = self.range else {
            return;
        };
        let height = field.plot.height / self.rows.len().max(1) as f64;
        for (at, position, row) in self.placed() {
            let Some(middle) = field.pixel_y(at as f64) else {
                continue;
            };
            for (column, mean) in row.columns(self.width).enumerate() {
                let from = (column * self.width) as f64;
                let to = (from + self.width as f64).min(row.medians.len() as f64);
                let pixels = field
                    .pixel_x(from * self.step())
                    .zip(field.pixel_x(to * self.step()));
                let Some((mean, (left, right))) = mean.zip(pixels) else {
                    continue;
                };
                let shade = Ramp::of((mean - least) / (greatest - least).max(f64::MIN_POSITIVE));
                let hint = format!(
                    "{}, {}: {}",
                    position.label,
                    self.moment(from * self.step()),
                    self.unit.words(mean)
                );
                // Neighbours overlap a little, or the paper would show between them.
                let area = [
                    left,
                    middle - height / 2.0 + 0.5,
                    right - left + 0.3,
                    height - 1.0,
                ];
                let style = [("shape-rendering", "crispEdges")];
                mark::shaded(svg, area, shade, &style, &hint);
            }
        }
    }

    fn can_zoom(&self) -> bool {
        false
    }
}

/// Time along, from 0 to the end of the longest series; the values of `x` upwards.
fn axes(panel: &Panel, grid: &Grid, longest: usize) -> (Side, Side) {
    let step = panel.figure.step_s;
    let end = (longest as f64 * step.unwrap_or(1.0)).max(f64::MIN_POSITIVE);
    let mut axis = Axis::over(Scale::Linear, [end]);
    axis.end = end;
    axis.labelled.retain(|&at| at <= end);
    let (title, unit) = match step {
        Some(_) => ("time", Unit::from("s".to_owned())),
        None => ("numbers of the series", Unit::count()),
    };
    let horizontal = dimension::side(Some(&unit), None, axis, title);
    let labels: Vec<String> = grid.positions.iter().map(|it| it.label.clone()).collect();
    let title = panel.figure.y_title.as_deref().unwrap_or(&grid.title);
    (horizontal, names_side(title, &labels, LABELS))
}
