//! Drawing a figure: its heading, legend, axes, marks and notes.
//!
//! Every element carries its style for print as attributes (black on white, one colour and shape
//! per series), and a class by which the page restyles it: CSS rules override attributes.
//!
//! ```text
//!   title                      in the file only; the page has a heading
//!   what was measured          in the file only
//!   legend
//!   plot
//!   notes                      in the file only; the page has a caption
//! ```

pub(crate) mod axis;
mod frame;
mod legend;
pub(crate) mod mark;
pub(crate) mod palette;
pub(crate) mod svg;
mod symbols;
mod words;

use self::axis::{PLOT_LEFT, PLOT_WIDTH, Side};
use self::frame::Field;
use self::legend::Legend;
use self::mark::{Rows, Scene, Words};
use self::palette::{INK, PAPER, SOFT_INK};
use self::svg::{Svg, WIDTH, coordinate, escaped};
use crate::limits;

/// Below the plot: tick labels and the title of the axis.
const AXIS_HEIGHT: f64 = 54.0;
const HEADING_HEIGHT: f64 = 62.0;
const NOTE_LINE: f64 = 16.0;
const NOTE_SIZE: f64 = 11.5;

/// A finished figure.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    /// Notes below the figure, such as missing trials.
    pub(crate) notes: Vec<String>,
    /// File stem: the name and, if there are panels, that of the panel.
    pub(crate) stem: String,
    pub(crate) title: String,
    /// Text alternative, for screen readers.
    pub(crate) description: String,
    /// The data beside the figure.
    pub(crate) rows: Rows,
    /// The figure in HTML, which the page shows in place of the picture.
    table: Option<String>,
    inside: String,
    height: f64,
    /// (top, bottom) of the part that the page shows: without title and notes.
    crop: (f64, f64),
}

/// Draws a figure. `about` is a line on what was measured.
pub(crate) fn draw(stem: String, about: &str, scene: Scene) -> Drawing {
    let legend = Legend::of(&scene);
    let words = scene.words.as_ref();
    let (x, y) = (&scene.axes.0, &scene.axes.1);
    let field = Field {
        left: scene.left,
        top: HEADING_HEIGHT + legend.height(),
        width: PLOT_LEFT + PLOT_WIDTH - scene.left,
        height: words.map_or(scene.height, |words| words.height(&scene)),
        x,
        y,
    };
    let mut notes = scene.notes.clone();
    if words.is_some_and(Words::is_cut) {
        notes.push("The picture has a part of the rows and columns, the CSV all.".to_owned());
    }
    let below = match words {
        Some(_) => 10.0,
        None => AXIS_HEIGHT + x.askew(field.width).unwrap_or_default(),
    };
    let bottom = field.bottom() + below;
    let note_lines = note_lines(&notes);
    let height = bottom + note_lines.len() as f64 * NOTE_LINE + 10.0;

    let mut svg = Svg::default();
    let paper = format!(r#"class="paper" width="100%" height="100%" fill="{PAPER}""#);
    svg.tag("rect", &paper);
    heading(&mut svg, &scene.title, about);
    legend.draw(&mut svg, HEADING_HEIGHT);
    match words {
        Some(words) => words.draw(&mut svg, &scene, field.top),
        None => {
            frame::draw(&mut svg, &field);
            in_plot(&mut svg, &stem, &field, &scene);
        }
    }
    let small = format!(r#"font-size="{NOTE_SIZE}" fill="{SOFT_INK}""#);
    svg.group(&format!(r#"class="notes" {small}"#));
    for (index, line) in note_lines.iter().enumerate() {
        svg.text((16.0, bottom + 12.0 + index as f64 * NOTE_LINE), "", line);
    }
    svg.close();
    Drawing {
        notes,
        description: scene.description(),
        rows: scene.rows(),
        table: words.map(|words| words.html(&scene)),
        stem,
        title: scene.title,
        inside: svg.into_string(),
        height,
        crop: (HEADING_HEIGHT - 6.0, bottom),
    }
}

/// The marks, clipped to the plot.
fn in_plot(svg: &mut Svg, stem: &str, field: &Field, scene: &Scene) {
    let clip = escaped(&format!("clip-{stem}"));
    let area = [field.left, field.top, field.width, field.height];
    let [left, top, width, height] = area.map(coordinate);
    let plot = format!(r#"data-plot="{left} {top} {width} {height}""#);
    // Between names there are no values to zoom to.
    let zoom = match field.x.axis.is_of_names || field.y.axis.is_of_names {
        true => String::new(),
        false => {
            let [x, y] = [field.x, field.y].map(Side::script);
            format!(r#" data-x="{x}" data-y="{y}""#)
        }
    };
    svg.group(&format!(
        r#"class="data" clip-path="url(#{clip})" {plot}{zoom}"#
    ));
    let area = format!(r#"x="{left}" y="{top}" width="{width}" height="{height}""#);
    svg.raw(&format!(
        "<clipPath id=\"{clip}\"><rect {area}/></clipPath>\n"
    ));
    symbols::draw(svg, field, scene);
    svg.close();
}

impl Drawing {
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

    /// The figure for the page, which shows title and notes itself: SVG, or HTML for a table.
    pub(crate) fn inline(&self) -> String {
        if let Some(table) = &self.table {
            return table.clone();
        }
        let (top, bottom) = self.crop;
        format!(
            "<svg id=\"figure-{}\" class=\"chart\" viewBox=\"0 {} {} {}\" font-family=\"sans-serif\" \
             role=\"img\" aria-label=\"{}. {}\">\n{}</svg>",
            escaped(&self.stem),
            coordinate(top),
            coordinate(WIDTH),
            coordinate(bottom - top),
            escaped(&self.title),
            escaped(&self.description),
            self.inside,
        )
    }
}

fn heading(svg: &mut Svg, title: &str, about: &str) {
    svg.group(r#"class="heading""#);
    let font = format!(r#"font-size="17" font-weight="600" fill="{INK}""#);
    svg.text((16.0, 28.0), &font, &svg::fitted(title, 18.0, WIDTH - 32.0));
    let font = format!(r#"font-size="12" fill="{SOFT_INK}""#);
    svg.text((16.0, 47.0), &font, &svg::fitted(about, 12.0, WIDTH - 32.0));
    svg.close();
}

fn note_lines(notes: &[String]) -> Vec<String> {
    let wrapped = |note: &String| svg::wrapped(note, NOTE_SIZE, WIDTH - 32.0);
    let mut lines: Vec<String> = notes.iter().flat_map(wrapped).collect();
    if lines.len() > limits::NOTE_LINES {
        lines.truncate(limits::NOTE_LINES - 1);
        lines.push("… continued in report.html".to_owned());
    }
    lines
}
