//! The median of `y` for each value of `x`, a bar for each curve, with its interval and its trials.
//!
//! A bar's length is the value only on an axis from 0. On a logarithmic or fitted axis, and where
//! values are negative, a marker replaces the bar.

use super::curve::flag_words;
use super::dimension::{Dimension, PLOT_WIDTH, numbered_side};
use super::grid::{Grid, GridEntry};
use super::panel::{Curve, Panel, Trial};
use super::{Data, Rows, notes, titled};
use crate::chart::legend::{Entry, Legend, Sample};
use crate::chart::mark::{self, BOUND_SHAPE, DOT_SHAPE, PUBLISHED_SHAPE};
use crate::chart::side::Side;
use crate::chart::svg::{Svg, coordinate};
use crate::chart::{CurveStyle, Field, INK};
use crate::figure::Scale;
use crate::units;

/// The share of a position that its bars take.
const FILLED: f64 = 0.78;
/// Greatest width of a bar, pixels.
const WIDEST: f64 = 64.0;
/// Width of a bar from which it has room for its trials.
const ROOMY: f64 = 12.0;

/// How lower bounds are marked.
const MEDIANS_MARKED: &str = "An upward arrow marks medians that may be higher";

/// The data of a figure of bars.
pub(super) struct Bars<'a> {
    panel: &'a Panel<'a>,
    grid: Grid<'a>,
    axes: (Side, Side),
    /// What the numbers that replace labels stand for.
    numbers: Option<String>,
    /// Markers stand in for bars.
    is_marked: bool,
    /// Width of a bar, pixels.
    width: f64,
}

/// A bar of a curve where it is drawn.
struct Bar<'p> {
    field: &'p Field,
    curve: &'p Curve<'p>,
    entry: &'p GridEntry<'p>,
    /// Pixels.
    middle: f64,
}

impl<'a> Bars<'a> {
    pub(super) fn of(panel: &'a Panel<'a>) -> Self {
        let grid = Grid::of(panel);
        let values = panel.trials().filter_map(|it| panel.y.of_record(it.record));
        let published = panel.points().filter_map(|it| panel.published(it));
        let values = values.chain(published.map(|(value, _)| value));
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let is_negative = values.iter().any(|&value| value < 0.0);
        let scale = match panel.figure.scale {
            Scale::Linear if is_negative => Scale::Fitted,
            scale => scale,
        };
        let (unit, title) = (panel.figure.unit.as_ref(), panel.figure.y_title.as_ref());
        let position = PLOT_WIDTH / grid.positions.len().max(1) as f64;
        let labels: Vec<String> = grid.positions.iter().map(|it| it.label.clone()).collect();
        let (horizontal, numbers) = numbered_side(&grid.title, &labels);
        Self {
            panel,
            numbers,
            axes: (
                horizontal,
                panel.y.vertical(scale, values.into_iter(), unit, title),
            ),
            is_marked: scale != Scale::Linear,
            width: (FILLED * position / panel.curves.len().max(1) as f64).min(WIDEST),
            grid,
        }
    }

    fn has_trials(&self) -> bool {
        self.width >= ROOMY
    }

    /// The middle of the bar of a curve, by its index among those drawn. Pixels.
    fn middle(&self, field: &Field, curve: usize, position: usize) -> Option<f64> {
        let before = curve as f64 - (self.panel.curves.len() as f64 - 1.0) / 2.0;
        Some(field.pixel_x(position as f64)? + before * self.width)
    }

    fn key(&self) -> Vec<Entry> {
        let panel = self.panel;
        let mut key = vec![(Sample::Interval, self.grid.interval_words().to_owned())];
        if self.has_trials() {
            key.push((Sample::Outline(DOT_SHAPE), "a trial".to_owned()));
        }
        let mut entries = self.grid.entries();
        let has_bound = entries.any(|entry| entry.values.is_lower_bound());
        if panel.points().any(|it| panel.published(it).is_some()) {
            key.push((Sample::Outline(PUBLISHED_SHAPE), "published".to_owned()));
        }
        key.extend(notes::marked(panel, has_bound));
        key
    }
}

impl Data for Bars<'_> {
    fn title(&self) -> String {
        titled(self.panel.y.title(), self.panel.x.map(Dimension::title))
    }

    fn rows(&self) -> Rows {
        let panel = self.panel;
        let (y, x) = (panel.y.name(), panel.figure.x.as_deref());
        let mut rows = Rows::new(["curve", "row", "trial", x.unwrap_or("cell"), y, "flag"]);
        for (index, curve) in panel.curves.iter().enumerate() {
            for (_, position, entry) in self.grid.of_curve(index) {
                let mut push = |row: &str, trial: &str, value: Option<f64>, flag: String| {
                    let value = value.map(|value| value.to_string()).unwrap_or_default();
                    let cells = [&curve.name, row, trial, &position.plain, &value, &flag];
                    rows.rows.push(cells.map(str::to_owned).to_vec());
                };
                for trial in &entry.point.trials {
                    let value = panel.y.of_record(trial.record);
                    push("trial", &trial.record.id, value, flag_words(*trial, y));
                }
                let estimate = entry.values.median();
                let flag = match entry.values.is_lower_bound() {
                    true => "lower bound".to_owned(),
                    false => String::new(),
                };
                push("median", "", estimate.map(|it| it.value), flag);
                if let Some(interval) = estimate.map(|it| it.interval) {
                    let confidence = format!("confidence {:.3}", interval.confidence);
                    push("low", "", Some(interval.low), confidence.clone());
                    push("high", "", Some(interval.high), confidence);
                }
                if let Some((value, source)) = panel.published(entry.point) {
                    push("published", "", Some(value), source.to_owned());
                }
                let missing = entry.point.missing();
                if missing > 0 {
                    push(
                        "missing",
                        "",
                        None,
                        format!("{missing} of {}", entry.point.planned),
                    );
                }
            }
        }
        rows
    }

    fn notes(&self) -> (Vec<String>, Vec<String>) {
        let panel = self.panel;
        let mut after: Vec<String> = notes::lacking(panel).into_iter().collect();
        after.extend(self.grid.without_value(panel));
        after.extend(notes::unmeasured(panel, &self.axes.1.axis));
        after.extend(notes::left_out(panel));
        after.extend(notes::bounds(panel, MEDIANS_MARKED));
        after.extend(notes::merged(panel, "bar"));
        after.extend(notes::published(panel));
        after.extend(self.grid.too_few());
        after.extend(self.numbers.clone());
        if self.is_marked {
            let what = "Markers instead of bars: the axis does not begin at 0, so a bar's length \
                        would mean nothing.";
            after.push(what.to_owned());
        }
        let suspect = match self.has_trials() {
            true => notes::hollow(panel),
            false => notes::hollow_cells(panel),
        };
        (suspect.into_iter().collect(), after)
    }

    fn description(&self) -> String {
        let y = self.panel.y;
        let sentence = |(index, curve): (usize, &Curve)| {
            let words = |(_, position, entry): (usize, &super::grid::Position, &GridEntry)| {
                let value = entry.values.median().map(|it| y.text(it.value));
                let value = value.unwrap_or_else(|| "no value".to_owned());
                let published = self.panel.published(entry.point);
                let published =
                    published.map(|(value, _)| format!(" (published {})", y.text(value)));
                format!(
                    "{} {value}{}",
                    position.label,
                    published.unwrap_or_default()
                )
            };
            notes::values_of(&curve.name, self.grid.of_curve(index).map(words).collect())
        };
        let curves = self.panel.curves.iter().enumerate();
        curves.map(sentence).collect::<Vec<String>>().join(" ")
    }

    fn legend(&self) -> Legend {
        let entry = |curve: &Curve| (self.sample(curve.style), self.panel.legend_name(curve));
        let named = self.panel.figure.by.is_some();
        let curves = self.panel.curves.iter().filter(|_| named);
        Legend::of([curves.map(entry).collect(), self.key()])
    }

    fn axes(&self) -> Option<(Side, Side)> {
        Some(self.axes.clone())
    }

    fn draw(&self, svg: &mut Svg, field: &Field) {
        for (index, curve) in self.panel.curves.iter().enumerate() {
            let class = format!("server {}", curve.style.class);
            svg.group(&[("class", &class), ("data-server", &curve.name)]);
            for (position, _, entry) in self.grid.of_curve(index) {
                if let Some(middle) = self.middle(field, index, position) {
                    let bar = Bar {
                        field,
                        curve,
                        entry,
                        middle,
                    };
                    self.entry(svg, &bar);
                }
            }
            svg.close();
        }
    }

    fn can_zoom(&self) -> bool {
        false
    }
}

impl Bars<'_> {
    fn sample(&self, style: CurveStyle) -> Sample {
        match self.is_marked {
            true => Sample::Marker(style),
            false => Sample::Bar(style),
        }
    }

    fn entry(&self, svg: &mut Svg, bar: &Bar) {
        let Bar {
            field,
            entry,
            middle,
            ..
        } = *bar;
        let estimate = entry.values.median();
        let top = estimate.and_then(|it| field.pixel_y(it.value));
        if let Some((estimate, top)) = estimate.zip(top) {
            let hint = self.hint(bar, estimate);
            match self.is_marked {
                true => self.marker(svg, bar, top, &hint),
                false => self.bar(svg, bar, top, &hint),
            }
        }
        if self.has_trials() {
            for &trial in &entry.point.trials {
                self.trial(svg, bar, trial);
            }
        }
        svg.group(&[("class", "neutral")]);
        let interval = estimate.map(|it| it.interval);
        let ends = interval.and_then(|it| field.pixel_y(it.low).zip(field.pixel_y(it.high)));
        if let Some((low, high)) = ends {
            mark::interval(svg, middle, low, high, INK);
            if entry.values.is_lower_bound() {
                let style = [
                    ("class", "bound"),
                    ("transform", &mark::at(middle, high + 3.0)),
                    ("d", BOUND_SHAPE),
                    ("fill", INK),
                ];
                svg.element("path", &style);
            }
        }
        self.published(svg, bar);
        let missing = entry.point.missing();
        if missing > 0 {
            let name = self.panel.point_name(bar.curve, entry.point);
            let hint = format!(
                "{name}: {missing} of {} trials missing",
                entry.point.planned
            );
            mark::missing(svg, (middle, field.bottom() - 7.0), INK, &hint);
        }
        svg.close();
    }

    /// The published value, in the middle of the bar.
    fn published(&self, svg: &mut Svg, bar: &Bar) {
        let Some((value, source)) = self.panel.published(bar.entry.point) else {
            return;
        };
        let Some(at) = bar.field.pixel_y(value) else {
            return;
        };
        let name = self.panel.point_name(bar.curve, bar.entry.point);
        let hint = format!("{name}: published {}, {source}", self.panel.y.text(value));
        let style = [
            ("class", "best published"),
            ("transform", &mark::at(bar.middle, at)),
            ("d", PUBLISHED_SHAPE),
            ("fill", "none"),
            ("stroke", INK),
            ("stroke-width", "1.6"),
        ];
        svg.hinted("path", &style, &hint);
    }

    fn hint(&self, bar: &Bar, estimate: measure::Estimate) -> String {
        let (y, interval) = (self.panel.y, estimate.interval);
        let values = &bar.entry.values;
        let is_open = values.is_bound_at(interval.high);
        let range = y
            .unit()
            .map(|it| it.range(estimate.value, interval.low, interval.high));
        format!(
            "{}: {}{} {}, {}",
            self.panel.point_name(bar.curve, bar.entry.point),
            units::lower_bound(values.is_lower_bound()),
            y.text(estimate.value),
            units::bounded_range(&range.unwrap_or_default(), is_open),
            units::plural(estimate.samples as u64, "trial"),
        )
    }

    fn bar(&self, svg: &mut Svg, bar: &Bar, top: f64, hint: &str) {
        let Bar {
            field,
            curve,
            entry,
            middle,
        } = *bar;
        let is_hollow = entry.point.is_suspect();
        let gap = if self.width > 6.0 { 1.0 } else { 0.0 };
        let size = (self.width - 2.0 * gap, field.bottom() - top);
        let [x, y, width, height] =
            [middle - size.0 / 2.0, top, size.0, size.1.max(0.0)].map(coordinate);
        let style = [
            ("class", if is_hollow { "bar hollow" } else { "bar" }),
            ("x", x.as_str()),
            ("y", y.as_str()),
            ("width", width.as_str()),
            ("height", height.as_str()),
            (
                "fill",
                if is_hollow {
                    "none"
                } else {
                    curve.style.colour
                },
            ),
            (
                "fill-opacity",
                if self.has_trials() { "0.45" } else { "0.8" },
            ),
            ("stroke", curve.style.colour),
            ("stroke-width", "1.2"),
        ];
        svg.hinted("rect", &style, hint);
    }

    fn marker(&self, svg: &mut Svg, bar: &Bar, top: f64, hint: &str) {
        let (curve, entry) = (bar.curve, bar.entry);
        let is_hollow = entry.point.is_suspect();
        let shape = mark::sized(curve.style.shape, 1.7);
        let style = [
            ("class", if is_hollow { "mark hollow" } else { "mark" }),
            ("transform", &mark::at(bar.middle, top)),
            ("d", &shape),
            (
                "fill",
                if is_hollow {
                    "none"
                } else {
                    curve.style.colour
                },
            ),
            ("fill-opacity", "0.8"),
            ("stroke", curve.style.colour),
            ("stroke-width", "1.2"),
        ];
        svg.hinted("path", &style, hint);
    }

    /// A small dot for a trial; hollow if it is suspect or does not count.
    fn trial(&self, svg: &mut Svg, bar: &Bar, trial: Trial) {
        let Bar {
            field,
            curve,
            entry,
            middle,
        } = *bar;
        let y = self.panel.y;
        let value = y.of_record(trial.record);
        let Some((value, at)) = value.and_then(|it| Some((it, field.pixel_y(it)?))) else {
            return;
        };
        let planned = f64::from(entry.point.planned.max(1));
        let step = (0.7 * self.width / planned).min(5.0);
        let aside = (f64::from(trial.number) - (planned - 1.0) / 2.0) * step;
        let flag = flag_words(trial, y.name());
        let does_count = trial.measured.valid(y.name()).is_some();
        let is_hollow = trial.measured.suspect.is_some() || !does_count;
        let hint = format!(
            "{}: {}{}, trial {} of {}{}",
            self.panel.point_name(curve, entry.point),
            units::lower_bound(trial.measured.is_lower_bound(y.name())),
            y.text(value),
            trial.number + 1,
            entry.point.planned,
            if flag.is_empty() {
                flag
            } else {
                format!(", {flag}")
            },
        );
        let style = [
            ("class", if is_hollow { "mark hollow" } else { "mark" }),
            ("transform", &mark::at(middle + aside, at)),
            ("d", DOT_SHAPE),
            (
                "fill",
                if is_hollow {
                    "none"
                } else {
                    curve.style.colour
                },
            ),
            ("stroke", curve.style.colour),
            ("stroke-width", "0.8"),
        ];
        svg.hinted("path", &style, &hint);
    }
}
