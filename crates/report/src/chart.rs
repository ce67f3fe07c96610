//! Drawing a figure: plotters draws axes and grid; this module writes data and legend itself.
//!
//! plotters places whole pixels, so it draws at ten times the size. Its SVG has neither dashes nor
//! classes, so the data is written here. Every element carries its style for print as attributes
//! (black on white, one colour and one shape per server), and a class by which the page restyles
//! it: CSS rules override attributes.
//!
//! ```text
//!   title                      in the file only; the page has a heading
//!   what was measured          in the file only
//!   legend
//!   plot
//!   notes                      in the file only; the page has a caption
//! ```

pub(crate) mod axis;
mod data;
mod frame;
mod legend;
mod palette;
pub(crate) mod svg;

use self::axis::{Axis, Scale};
use self::svg::{Svg, coordinate, escaped};
use crate::Error;
use crate::cells::Cell;
use crate::figures::Figure;
use crate::folder::FigureKind;
use crate::limits;
use crate::sweep_axis::SweepAxis;

pub(crate) use self::palette::CurveStyle;

/// Width of every figure, in pixels; the height follows from legend and notes.
const WIDTH: f64 = 760.0;
const PLOT_LEFT: f64 = 84.0;
const PLOT_RIGHT: f64 = 736.0;
const PLOT_HEIGHT: f64 = 360.0;
/// Below the plot: tick labels and the title of the axis.
const AXIS_HEIGHT: f64 = 54.0;
const HEADING_HEIGHT: f64 = 62.0;
const NOTE_LINE: f64 = 16.0;
const NOTE_SIZE: f64 = 11.5;

const INK: &str = "#000000";
const PAPER: &str = "#FFFFFF";
const SOFT_INK: &str = "#444444";

/// The curves of one figure.
#[derive(Debug, Clone)]
pub(crate) struct Panel<'a> {
    /// The server of all the curves. None: each curve is of another server.
    pub(crate) of: Option<&'a str>,
    /// Suffix of the file names.
    pub(crate) suffix: String,
    pub(crate) axis: SweepAxis<'a>,
    pub(crate) curves: Vec<Curve<'a>>,
    /// Curves that were measured, but without the quantity of the figure.
    pub(crate) lacking: Vec<&'a str>,
}

/// A curve: a server or, if each server has a figure, one of its settings.
#[derive(Debug, Clone)]
pub(crate) struct Curve<'a> {
    pub(crate) name: &'a str,
    /// Name in the legend of a panel whose title names the server.
    pub(crate) short: &'a str,
    /// Index among the curves drawn, from 0.
    pub(crate) place: usize,
    pub(crate) style: CurveStyle,
    pub(crate) cells: Vec<Cell<'a>>,
    /// Offered rate of its knee.
    pub(crate) knee_rps: Option<f64>,
}

/// A finished figure.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    pub(crate) kind: FigureKind,
    /// Notes below the figure, such as missing trials.
    pub(crate) notes: Vec<String>,
    /// File stem.
    pub(crate) stem: String,
    /// Title.
    pub(crate) title: String,
    /// Text alternative, for screen readers.
    pub(crate) description: String,
    inside: String,
    height: f64,
    /// (top, bottom) of the part that the page shows: without title and notes.
    crop: (f64, f64),
}

/// The rectangle of the data, pixels.
#[derive(Debug, Clone, Copy)]
struct Plot {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// Maps values to pixels.
struct Field {
    plot: Plot,
    x: Axis,
    y: Axis,
}

impl Field {
    /// The pixel of a point. None: an axis cannot hold it.
    fn pixel(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.pixel_x(x)?, self.pixel_y(y)?))
    }

    fn pixel_x(&self, x: f64) -> Option<f64> {
        let share = (self.x.position(x)? - self.x.start) / (self.x.end - self.x.start);
        Some(self.plot.left + share * self.plot.width)
    }

    fn pixel_y(&self, y: f64) -> Option<f64> {
        let share = (self.y.position(y)? - self.y.start) / (self.y.end - self.y.start);
        Some(self.plot.top + (1.0 - share) * self.plot.height)
    }
}

/// Draws a figure of a panel, with `about` (what was measured) and `notes` (what is missing).
///
/// # Errors
/// plotters failed.
pub(crate) fn draw(
    figure: &dyn Figure,
    panel: &Panel,
    about: &str,
    notes: Vec<String>,
) -> Result<Drawing, Error> {
    let stem = format!("{}{}", figure.stem(), panel.suffix);
    let title = title(figure, panel);
    let legend = legend::Legend::of(figure, panel);
    let plot = Plot {
        left: PLOT_LEFT,
        top: HEADING_HEIGHT + legend.height(),
        width: PLOT_RIGHT - PLOT_LEFT,
        height: PLOT_HEIGHT,
    };
    let field = field(figure, panel, plot);
    let note_lines = note_lines(&notes);
    let bottom = plot.top + plot.height + AXIS_HEIGHT;
    let height = bottom + note_lines.len() as f64 * NOTE_LINE + 10.0;

    let mut svg = Svg::default();
    svg.element(
        "rect",
        &[
            ("class", "paper"),
            ("width", "100%"),
            ("height", "100%"),
            ("fill", PAPER),
        ],
    );
    heading(&mut svg, &title, about);
    legend.draw(&mut svg, HEADING_HEIGHT);
    frame::draw(&mut svg, figure, panel.axis, &field, height)?;
    data::draw(&mut svg, &stem, figure, &field, panel);
    svg.group(&[
        ("class", "notes"),
        ("font-size", "11.5"),
        ("fill", SOFT_INK),
    ]);
    for (index, line) in note_lines.iter().enumerate() {
        svg.text(16.0, bottom + 12.0 + index as f64 * NOTE_LINE, &[], line);
    }
    svg.close();
    Ok(Drawing {
        kind: figure.kind(),
        notes,
        description: description(figure, panel),
        stem,
        title,
        inside: svg.into_string(),
        height,
        crop: (HEADING_HEIGHT - 6.0, bottom),
    })
}

impl Drawing {
    /// Size of the file, pixels.
    pub(crate) fn size(&self) -> (f64, f64) {
        (WIDTH, self.height)
    }

    /// The figure as an SVG document of its own.
    pub(crate) fn file(&self) -> String {
        let (width, height) = (coordinate(WIDTH), coordinate(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" role=\"img\">\n\
             <title>{}</title>\n<desc>{}</desc>\n{}</svg>\n",
            escaped(&self.title),
            escaped(&self.description),
            self.inside,
        )
    }

    /// The figure for the page, which shows title and notes itself.
    pub(crate) fn inline(&self) -> String {
        let (top, bottom) = self.crop;
        format!(
            "<svg id=\"figure-{}\" class=\"chart\" viewBox=\"0 {} {} {}\" font-family=\"sans-serif\" \
             role=\"img\" aria-label=\"{}. {}\">\n{}</svg>",
            self.stem,
            coordinate(top),
            coordinate(WIDTH),
            coordinate(bottom - top),
            escaped(&self.title),
            escaped(&self.description),
            self.inside,
        )
    }
}

fn title(figure: &dyn Figure, panel: &Panel) -> String {
    let of = panel.of.map(|of| format!(": {of}")).unwrap_or_default();
    format!("{} against {}{of}", figure.quantity(), panel.axis.name())
}

impl Panel<'_> {
    /// Whether `figure` shows achieved against offered rate, with one range for both axes.
    pub(crate) fn follows_offered(&self, figure: &dyn Figure) -> bool {
        figure.follows_offered() && matches!(self.axis, SweepAxis::Rate)
    }
}

fn field(figure: &dyn Figure, panel: &Panel, plot: Plot) -> Field {
    let cells = || panel.curves.iter().flat_map(|curve| &curve.cells);
    let offered = || cells().filter_map(|cell| cell.offered_rps);
    let values = cells()
        .flat_map(|cell| &cell.measured)
        .filter_map(|(_, measured)| figure.value(measured));
    // One range for both axes, so that equal rates lie on the diagonal.
    if panel.follows_offered(figure) {
        let axis = Axis::over(figure.scale(), values.chain(offered()));
        let (x, y) = (axis.clone(), axis);
        return Field { plot, x, y };
    }
    Field {
        plot,
        x: panel.axis.axis(cells()),
        y: Axis::over(figure.scale(), values),
    }
}

fn heading(svg: &mut Svg, title: &str, about: &str) {
    svg.group(&[("class", "heading")]);
    let style = [("font-size", "17"), ("font-weight", "600"), ("fill", INK)];
    svg.text(16.0, 28.0, &style, title);
    let about = svg::wrapped(about, 12.0, WIDTH - 32.0);
    if let Some(line) = about.first() {
        let cut = if about.len() > 1 {
            format!("{line} …")
        } else {
            line.clone()
        };
        svg.text(16.0, 47.0, &[("font-size", "12"), ("fill", SOFT_INK)], &cut);
    }
    svg.close();
}

fn note_lines(notes: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = notes
        .iter()
        .flat_map(|note| svg::wrapped(note, NOTE_SIZE, WIDTH - 32.0))
        .collect();
    if lines.len() > limits::NOTE_LINES {
        lines.truncate(limits::NOTE_LINES - 1);
        lines.push("… continued in report.html".to_owned());
    }
    lines
}

/// The first and the last median of each curve.
fn description(figure: &dyn Figure, panel: &Panel) -> String {
    let axis = panel.axis;
    let sentence = |curve: &Curve| {
        let cells = curve.cells.iter();
        let medians: Vec<(f64, f64)> = cells
            .filter_map(|cell| {
                let median = cell.spread(|m| figure.value(m))?.median;
                Some((axis.of_cell(cell)?, median))
            })
            .collect();
        match (medians.first(), medians.last()) {
            (Some(first), Some(last)) => format!(
                "{}: median {} {} to {} {}.",
                curve.name,
                figure.words(first.1),
                axis.place(first.0),
                figure.words(last.1),
                axis.place(last.0),
            ),
            _ => format!("{}: no measurement.", curve.name),
        }
    };
    let sentences: Vec<String> = panel.curves.iter().map(sentence).collect();
    sentences.join(" ")
}
