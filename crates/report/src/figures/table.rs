//! The medians of `y` with their intervals: a row for each value of `x`, a column for each curve.
//!
//! The page shows it as an HTML table. The figure's file has as many rows and columns as fit.

use super::dimension::Dimension;
use super::grid::{Grid, GridEntry};
use super::panel::{Curve, Panel};
use super::{Data, Rows, notes, titled};
use crate::chart::legend::Legend;
use crate::chart::side::Side;
use crate::chart::svg::{self, Svg, coordinate, escaped};
use crate::chart::{Field, INK, Plot, SOFT_INK, WIDTH};
use crate::{limits, units};

const LEFT: f64 = 16.0;
const ROW: f64 = 34.0;
/// Height of a line of small text.
const LINE: f64 = 13.0;
const HEAD: f64 = 30.0;
const SIZE: f64 = 12.5;
const SMALL: f64 = 11.0;
/// Greatest width of the names of the rows, pixels.
const NAMES: f64 = 220.0;
/// Width of a column, pixels, if its title needs no more: numbers far apart are hard to compare.
const WIDTH_OF_COLUMN: f64 = 150.0;

/// The data of a table.
pub(super) struct Table<'a> {
    panel: &'a Panel<'a>,
    grid: Grid<'a>,
}

/// A value as text.
struct Shown {
    median: String,
    interval: String,
    /// Empty: nothing was published.
    published: String,
}

impl<'a> Table<'a> {
    pub(super) fn of(panel: &'a Panel<'a>) -> Self {
        Self {
            panel,
            grid: Grid::of(panel),
        }
    }

    /// None: the design has no such cell.
    fn shown(&self, curve: usize, position: usize) -> Option<Shown> {
        let entries = self.grid.entries.get(curve)?;
        let entry = entries.get(position)?.as_ref()?;
        let (median, interval) = self.measured(entry);
        let published = self.panel.published(entry.point);
        let published = published.map(|(value, _)| format!("published {}", self.text(value)));
        Some(Shown {
            median,
            interval,
            published: published.unwrap_or_default(),
        })
    }

    /// The factor that converts values to the figure's unit. None: each value has its own.
    fn factor(&self) -> Option<f64> {
        let shown = self.panel.figure.unit.as_ref();
        let own = self.panel.y.unit().zip(shown);
        own.and_then(|(own, shown)| own.to(shown))
    }

    fn text(&self, value: f64) -> String {
        match self.factor() {
            Some(factor) => units::number(value * factor),
            None => self.panel.y.text(value),
        }
    }

    /// The median and its interval.
    fn measured(&self, entry: &GridEntry) -> (String, String) {
        let Some(estimate) = entry.values.median() else {
            return ("–".to_owned(), String::new());
        };
        let (value, interval) = (estimate.value, estimate.interval);
        let bound = units::lower_bound(entry.values.is_lower_bound());
        let range = match (self.factor(), self.panel.y.unit()) {
            (Some(_), _) => {
                format!(
                    "[{}, {}]",
                    self.text(interval.low),
                    self.text(interval.high)
                )
            }
            (None, Some(unit)) => unit.range(value, interval.low, interval.high),
            (None, None) => String::new(),
        };
        let is_open = entry.values.is_bound_at(interval.high);
        let range = match range.is_empty() {
            true => range,
            false => units::bounded_range(&range, is_open),
        };
        (format!("{bound}{}", self.text(value)), range)
    }

    fn has_published(&self) -> bool {
        let mut entries = self.grid.entries();
        entries.any(|it| self.panel.published(it.point).is_some())
    }

    /// Height of a row, pixels.
    fn row_height(&self) -> f64 {
        ROW + if self.has_published() { LINE } else { 0.0 }
    }

    /// The title of a column.
    fn head(&self, curve: &Curve) -> String {
        match &self.panel.figure.by {
            Some(_) => curve.short.clone(),
            None => self.quantity(),
        }
    }

    /// What the numbers are, with the unit if they have none.
    fn quantity(&self) -> String {
        let figure = self.panel.figure;
        let composed = || match &figure.unit {
            Some(unit) => format!("{} ({})", self.panel.y.title(), unit.name()),
            None => self.panel.y.title().to_owned(),
        };
        figure.y_title.clone().unwrap_or_else(composed)
    }

    fn is_cut(&self) -> bool {
        let columns = self.panel.curves.len();
        columns > limits::TABLE_COLUMNS || self.grid.positions.len() > limits::TABLE_ROWS
    }
}

impl Data for Table<'_> {
    fn title(&self) -> String {
        titled(self.panel.y.title(), self.panel.x.map(Dimension::title))
    }

    fn rows(&self) -> Rows {
        let panel = self.panel;
        let x = panel.figure.x.as_deref().unwrap_or("cell");
        let mut header = vec![
            "curve",
            x,
            panel.y.name(),
            "low",
            "high",
            "confidence",
            "trials",
            "missing",
            "flag",
        ];
        let has_published = self.has_published();
        if has_published {
            header.extend(["published", "source"]);
        }
        let mut rows = Rows::new(header);
        for (index, curve) in panel.curves.iter().enumerate() {
            for (_, position, entry) in self.grid.of_curve(index) {
                let estimate = entry.values.median();
                let text = |value: Option<f64>| value.map(|it| it.to_string()).unwrap_or_default();
                let interval = estimate.map(|it| it.interval);
                let mut row = vec![
                    curve.name.clone(),
                    position.plain.clone(),
                    text(estimate.map(|it| it.value)),
                    text(interval.map(|it| it.low)),
                    text(interval.map(|it| it.high)),
                    interval
                        .map(|it| format!("{:.3}", it.confidence))
                        .unwrap_or_default(),
                    entry.values.valid.len().to_string(),
                    entry.point.missing().to_string(),
                    flag(entry),
                ];
                if has_published {
                    let published = panel.published(entry.point);
                    row.push(text(published.map(|(value, _)| value)));
                    row.push(
                        published
                            .map(|(_, source)| source.to_owned())
                            .unwrap_or_default(),
                    );
                }
                rows.rows.push(row);
            }
        }
        rows
    }

    fn notes(&self) -> (Vec<String>, Vec<String>) {
        let panel = self.panel;
        let mut after: Vec<String> = notes::lacking(panel).into_iter().collect();
        after.extend(self.grid.without_value(panel));
        after.extend(notes::left_out(panel));
        after.extend(notes::bounds(panel, "≥ marks a median that may be higher"));
        after.extend(notes::merged(panel, "value"));
        if self
            .grid
            .entries()
            .any(|entry| entry.values.median().is_some())
        {
            after.push(format!("In brackets: {}.", self.grid.interval_words()));
        }
        after.extend(notes::published(panel));
        if self.is_cut() {
            after.push("The picture has a part of the rows and columns, the CSV all.".to_owned());
        }
        (notes::suspect(panel).into_iter().collect(), after)
    }

    fn description(&self) -> String {
        let sentence = |(index, curve): (usize, &Curve)| {
            let positions = self.grid.positions.iter().enumerate();
            let values = positions.filter_map(|(position, of)| {
                let shown = self.shown(index, position)?;
                let parts = [shown.median, shown.interval, shown.published];
                let parts = parts.into_iter().filter(|it| !it.is_empty());
                Some(format!(
                    "{} {}",
                    of.label,
                    parts.collect::<Vec<_>>().join(" ")
                ))
            });
            notes::values_of(&curve.name, values.collect())
        };
        let curves = self.panel.curves.iter().enumerate();
        curves.map(sentence).collect::<Vec<String>>().join(" ")
    }

    fn legend(&self) -> Legend {
        Legend::default()
    }

    fn axes(&self) -> Option<(Side, Side)> {
        None
    }

    fn plot_height(&self) -> f64 {
        HEAD + self.grid.positions.len().min(limits::TABLE_ROWS) as f64 * self.row_height()
    }

    fn draw(&self, _svg: &mut Svg, _field: &Field) {}

    fn draw_in(&self, svg: &mut Svg, plot: Plot) {
        let columns = self.panel.curves.len().min(limits::TABLE_COLUMNS);
        let rows = self.grid.positions.len().min(limits::TABLE_ROWS);
        let names = self.grid.positions.iter().map(|it| it.label.as_str());
        let widest = names
            .chain([self.grid.title.as_str()])
            .map(|it| svg::width(it, SIZE));
        let names_width = widest.fold(50.0, f64::max).min(NAMES) + 12.0;
        let room = (WIDTH - 2.0 * LEFT - names_width) / columns.max(1) as f64;
        let heads = self.panel.curves.iter().take(columns);
        let heads = heads.map(|curve| svg::width(&self.head(curve), SIZE) * 1.1 + 12.0);
        let width = room.min(heads.fold(WIDTH_OF_COLUMN, f64::max));
        let fitting = |text: &str, width: f64| svg::fitted(text, SIZE, width - 6.0);
        let right = |column: usize| LEFT + names_width + (column + 1) as f64 * width;
        let text = |svg: &mut Svg, at: (f64, f64), text: &str, look: Look| {
            look.write(svg, at, text);
        };
        let base = plot.top + HEAD - 14.0;
        text(
            svg,
            (LEFT, base),
            &fitting(&self.grid.title, names_width),
            Look::HEAD_LEFT,
        );
        for (column, curve) in self.panel.curves.iter().take(columns).enumerate() {
            let head = self.head(curve);
            text(
                svg,
                (right(column), base),
                &fitting(&head, width),
                Look::HEAD,
            );
        }
        let height = self.row_height();
        let end = right(columns.saturating_sub(1));
        rule(svg, end, plot.top + HEAD - 6.0, INK);
        for (row, position) in self.grid.positions.iter().take(rows).enumerate() {
            let top = plot.top + HEAD + row as f64 * height;
            let name = fitting(&position.label, names_width);
            text(svg, (LEFT, top + 10.0), &name, Look::NAME);
            for column in 0..columns {
                if let Some(shown) = self.shown(column, row) {
                    text(svg, (right(column), top + 10.0), &shown.median, Look::VALUE);
                    text(
                        svg,
                        (right(column), top + 24.0),
                        &shown.interval,
                        Look::INTERVAL,
                    );
                    if !shown.published.is_empty() {
                        let published = fitting(&shown.published, width);
                        let at = (right(column), top + 24.0 + LINE);
                        text(svg, at, &published, Look::INTERVAL);
                    }
                }
            }
            rule(svg, end, top + height - 5.0, "#DDDDDD");
        }
    }

    fn can_zoom(&self) -> bool {
        false
    }

    fn html(&self) -> Option<String> {
        let title = escaped(&self.title());
        let mut html = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
             aria-label=\"{title}\">\n<table>\n"
        );
        if self.panel.figure.by.is_some() {
            html.push_str(&format!(
                "<caption>{}</caption>\n",
                escaped(&self.quantity())
            ));
        }
        let x = if self.grid.title.is_empty() {
            "cell"
        } else {
            &self.grid.title
        };
        html.push_str(&format!(
            "<thead><tr><th scope=\"col\" class=\"left\">{}</th>",
            escaped(x)
        ));
        for curve in &self.panel.curves {
            html.push_str(&format!(
                "<th scope=\"col\">{}</th>",
                escaped(&self.head(curve))
            ));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (row, position) in self.grid.positions.iter().enumerate() {
            let name = escaped(&position.label);
            html.push_str(&format!("<tr><th scope=\"row\">{name}</th>"));
            for column in 0..self.panel.curves.len() {
                html.push_str(&self.shown(column, row).map_or_else(
                    || "<td></td>".to_owned(),
                    |shown| {
                        let interval = escaped(&shown.interval);
                        let median = escaped(&shown.median);
                        let published = match shown.published.as_str() {
                            "" => String::new(),
                            text => format!("<span class=\"range\">{}</span>", escaped(text)),
                        };
                        format!(
                            "<td>{median}<span class=\"range\">{interval}</span>{published}</td>"
                        )
                    },
                ));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table>\n</div>");
        Some(html)
    }
}

/// What must be known of a value.
fn flag(entry: &GridEntry) -> String {
    let mut words: Vec<&str> = Vec::new();
    words.extend(entry.values.is_lower_bound().then_some("lower bound"));
    words.extend(entry.values.reason.as_deref());
    let trials = entry.point.trials.iter();
    words.extend(trials.filter_map(|trial| trial.measured.suspect.as_deref()));
    words.sort_unstable();
    words.dedup();
    words.join("; ")
}

/// How a text of the picture looks: anchor, size, weight, colour.
struct Look(&'static str, f64, &'static str, &'static str);

impl Look {
    const HEAD_LEFT: Self = Self("start", SIZE, "600", INK);
    const HEAD: Self = Self("end", SIZE, "600", INK);
    const NAME: Self = Self("start", SIZE, "400", INK);
    const VALUE: Self = Self("end", SIZE, "400", INK);
    const INTERVAL: Self = Self("end", SMALL, "400", SOFT_INK);

    fn write(&self, svg: &mut Svg, (x, y): (f64, f64), text: &str) {
        let size = self.1.to_string();
        let style = [
            ("text-anchor", self.0),
            ("font-size", size.as_str()),
            ("font-weight", self.2),
            ("fill", self.3),
        ];
        svg.text(x, y, &style, text);
    }
}

fn rule(svg: &mut Svg, end: f64, y: f64, colour: &str) {
    let [left, end, y] = [LEFT, end, y].map(coordinate);
    let style = [
        ("class", "grid"),
        ("x1", left.as_str()),
        ("x2", end.as_str()),
        ("y1", y.as_str()),
        ("y2", y.as_str()),
        ("stroke", colour),
    ];
    svg.element("line", &style);
}
