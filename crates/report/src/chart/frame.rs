//! Frame, grid and labels of a figure.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use super::axis::Axis;
use super::{AXIS_HEIGHT, Field, INK, Svg, WIDTH, svg};
use crate::Error;

/// plotters draws whole pixels, so it draws at this multiple of the size.
const MAGNIFIED: f64 = 10.0;
/// plotters divides the font size by this before it writes SVG.
const FACE: f64 = 1.24;

/// Size of the titles of the axes, pixels.
const TITLE_SIZE: f64 = 13.0;

const AXIS: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
const FAINT_GRID: RGBColor = RGBColor(0xEE, 0xEE, 0xEE);

/// Draws frame, grid, labels and titles of the axes of the figure `stem`, whose file has that
/// height.
pub(super) fn draw(svg: &mut Svg, stem: &str, field: &Field, height: f64) -> Result<(), Error> {
    let failed = |what: String| Error::Draw {
        figure: stem.to_owned(),
        what,
    };
    let mut document = String::new();
    {
        let size = ((WIDTH * MAGNIFIED) as u32, (height * MAGNIFIED) as u32);
        let root = SVGBackend::with_string(&mut document, size).into_drawing_area();
        mesh(&root, field, height).map_err(|error| failed(error.to_string()))?;
        root.present().map_err(|error| failed(error.to_string()))?;
    }
    let inside = inside(&document).ok_or_else(|| failed("plotters wrote no SVG".to_owned()))?;
    svg.group(&[("class", "axes"), ("transform", "scale(0.1)")]);
    svg.raw(inside);
    svg.close();

    let middle = field.plot.left + field.plot.width / 2.0;
    let below = field.plot.top + field.plot.height + 42.0;
    let style = [
        ("text-anchor", "middle"),
        ("font-size", "13"),
        ("fill", INK),
    ];
    let across = svg::fitted(&field.x.title, TITLE_SIZE, WIDTH - 32.0);
    // A longer title would run into the legend.
    let up = svg::fitted(&field.y.title, TITLE_SIZE, field.plot.height + 24.0);
    svg.group(&[("class", "axis-titles")]);
    svg.text(middle, below, &style, &across);
    let upright = field.plot.top + field.plot.height / 2.0;
    let turned = format!("rotate(-90 20 {upright})");
    let style = [style[0], style[1], style[2], ("transform", turned.as_str())];
    svg.text(20.0, upright, &style, &up);
    svg.close();
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn mesh<'a>(root: &Area<'a>, field: &Field, height: f64) -> Result<(), Failure<'a>> {
    let plot = field.plot;
    let magnified = |length: f64| (length * MAGNIFIED).round() as i32;
    let mut chart = ChartBuilder::on(root)
        .margin_top(magnified(plot.top))
        .margin_right(magnified(WIDTH - plot.left - plot.width))
        .margin_bottom(magnified(height - plot.top - plot.height - AXIS_HEIGHT))
        .set_label_area_size(LabelAreaPosition::Left, magnified(plot.left))
        .set_label_area_size(LabelAreaPosition::Bottom, magnified(AXIS_HEIGHT))
        .build_cartesian_2d(Position(&field.x.axis), Position(&field.y.axis))?;
    let text = TextStyle::from(("sans-serif", 12.5 * MAGNIFIED * FACE)).color(&BLACK);
    chart
        .configure_mesh()
        .axis_style(AXIS.stroke_width(10))
        .bold_line_style(GRID.stroke_width(8))
        .light_line_style(FAINT_GRID.stroke_width(8))
        .x_label_style(text.clone())
        .y_label_style(text)
        .set_all_tick_mark_size(magnified(4.0))
        .x_label_formatter(&|at| field.x.label(*at))
        .y_label_formatter(&|at| field.y.label(*at))
        .draw()?;
    Ok(())
}

/// An axis as a plotters coordinate.
struct Position<'a>(&'a Axis);

impl Ranged for Position<'_> {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn range(&self) -> Range<f64> {
        self.0.start..self.0.end
    }

    fn map(&self, position: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (position - self.0.start) / (self.0.end - self.0.start);
        from + (f64::from(to - from) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.0.between.clone()
        } else {
            self.0.labelled.clone()
        }
    }
}

/// The content of an SVG document, without its outermost tags.
fn inside(document: &str) -> Option<&str> {
    let (_, rest) = document.trim_end().strip_prefix("<svg ")?.split_once('>')?;
    rest.strip_suffix("</svg>")
}
