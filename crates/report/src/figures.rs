//! The figures of a run, from their declarations and the records of its trials.
//!
//! ```text
//! declaration + plan ──► Panel (its curves and cells) ──► Data (one file a kind) ──► Drawing
//!             records ──►                                    └──► rows of the CSV beside it
//! ```
//!
//! Each kind of figure computes its data once, as a [`Data`]; rows, notes, text alternative and
//! picture all show the same numbers. Nothing here knows what was measured.

mod bars;
mod cdf;
mod curve;
mod deciles;
mod dimension;
mod grid;
mod heat_map;
mod notes;
mod panel;
mod scatter;
mod spread;
mod stack;
mod table;

use std::collections::HashSet;
use std::path::Path;

use self::panel::Panel;
use crate::Error;
use crate::chart::legend::Legend;
use crate::chart::side::Side;
use crate::chart::svg::Svg;
use crate::chart::{self, Drawing, Field, Head, PLOT_HEIGHT, PLOT_LEFT, Plot};
use crate::figure::{self, FigureKind};
use crate::record::{Plan, Record};

pub(crate) use self::notes::{Context, SEQUENTIAL};
pub(crate) use self::panel::is_fit;
pub(crate) use self::spread::Spread;

/// The data of a figure.
pub(crate) trait Data {
    /// The title. The declaration may have another.
    fn title(&self) -> String;

    /// The table beside the figure.
    fn rows(&self) -> Rows;

    /// What the reader must know of the data: what is missing, marked, left out or displaced.
    /// Notes of the run, which every figure has, stand after the first `.0`.
    fn notes(&self) -> (Vec<String>, Vec<String>);

    /// The text alternative: the first and the last number of each curve, for example.
    fn description(&self) -> String;

    /// The legend.
    fn legend(&self) -> Legend;

    /// The two axes, horizontal first. None: the picture is a table.
    fn axes(&self) -> Option<(Side, Side)>;

    /// Height of the plot, pixels.
    fn plot_height(&self) -> f64 {
        PLOT_HEIGHT
    }

    /// Left edge of the plot, pixels: the labels of the vertical axis are left of it.
    fn plot_left(&self) -> f64 {
        PLOT_LEFT
    }

    /// Draws the data between axes.
    fn draw(&self, svg: &mut Svg, field: &Field);

    /// Draws data that has no axes.
    fn draw_in(&self, _svg: &mut Svg, _plot: Plot) {}

    /// Whether all that is drawn are markers and lines, which the page's script can zoom.
    fn can_zoom(&self) -> bool {
        true
    }

    /// HTML that the page shows in place of the picture.
    fn html(&self) -> Option<String> {
        None
    }
}

/// The rows of the table beside a figure.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rows {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Rows {
    /// A table with these columns and no row.
    pub(crate) fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            header: header.into_iter().map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// The rows as CSV.
    pub(crate) fn csv(&self) -> Vec<u8> {
        let mut table = csv::Writer::from_writer(Vec::new());
        // Only a failing writer, or rows of other lengths than the header's, fail; a vector does
        // not.
        let _ = table.write_record(&self.header);
        for row in &self.rows {
            let _ = table.write_record(row);
        }
        table.into_inner().unwrap_or_default()
    }
}

/// Draws the figures of a plan, each once.
///
/// # Errors
/// A declaration is at odds with the plan.
pub(crate) fn draw(
    plan: &Plan,
    records: &[Record],
    folder: &Path,
    context: &Context,
) -> Result<Vec<Drawing>, Error> {
    let mut names = HashSet::new();
    let mut drawings = Vec::new();
    for figure in plan.figures.iter().filter(|it| names.insert(&it.name)) {
        figure::check(figure, plan).map_err(|what| Error::Draw {
            figure: figure.name.clone(),
            what,
        })?;
        for panel in Panel::all(figure, plan, records, folder) {
            drawings.push(draw_panel(&panel, context));
        }
    }
    Ok(drawings)
}

fn draw_panel(panel: &Panel, context: &Context) -> Drawing {
    let figure = panel.figure;
    let data = data(panel);
    let title = figure.title.clone().unwrap_or_else(|| data.title());
    let of = panel.of.as_ref().map(|of| format!(": {of}"));
    let (mut notes, after) = data.notes();
    notes.extend(context.notes.iter().cloned());
    notes.extend(after);
    notes.extend(notes::omitted(panel));
    let head = Head {
        stem: format!("{}{}", figure.name, panel.suffix),
        title: format!("{title}{}", of.unwrap_or_default()),
        about: &context.about,
        notes,
    };
    chart::draw(head, data.as_ref())
}

fn data<'a>(panel: &'a Panel<'a>) -> Box<dyn Data + 'a> {
    match panel.figure.kind {
        FigureKind::Curve => Box::new(curve::Curves::of(panel)),
        FigureKind::Cdf => Box::new(cdf::Cdf::of(panel)),
        FigureKind::Bars => Box::new(bars::Bars::of(panel)),
        FigureKind::Deciles => Box::new(deciles::Deciles::of(panel)),
        FigureKind::Scatter | FigureKind::Pareto => Box::new(scatter::Scatter::of(panel)),
        FigureKind::HeatMap => Box::new(heat_map::HeatMap::of(panel)),
        FigureKind::Table => Box::new(table::Table::of(panel)),
        FigureKind::Stack => Box::new(stack::Stacks::of(panel)),
    }
}

/// The style of every figure's title, such as `Hit rate against memory`.
fn titled(y: &str, x: Option<&str>) -> String {
    let mut characters = y.chars();
    let first = characters.next().map(|it| it.to_uppercase().to_string());
    let y = first.unwrap_or_default() + characters.as_str();
    match x {
        Some(x) => format!("{y} against {x}"),
        None => y,
    }
}
