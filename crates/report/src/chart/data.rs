//! The data of a figure: one marker per trial, a solid line for the median, a dashed one for the
//! maximum and a dotted one for the minimum.

use super::svg::{coordinate, coordinates};
use super::{Axis, Curve, Field, INK, Panel, Scale, Svg};
use crate::cells::{Cell, Spread};
use crate::figures::Figure;
use crate::sweep_axis::SweepAxis;
use crate::units;

/// Dashes of the maximum and minimum lines.
pub(super) const MAXIMUM_DASHES: &str = "7 4";
pub(super) const MINIMUM_DASHES: &str = "1.5 3.5";
/// Dashes of "achieved = offered".
pub(super) const GUIDE_DASHES: &str = "10 3 2 3";
const KNEE_RADIUS: &str = "11";
/// An arrowhead above a marker, for a lower bound.
pub(super) const BOUND_SHAPE: &str = "M-3,-6.5L0,-10.5L3,-6.5Z";
/// A cross around (0, 0), for missing trials.
pub(super) const MISSING_SHAPE: &str = "M-3.5,-3.5L3.5,3.5M-3.5,3.5L3.5,-3.5";

/// Greatest distance of a trial from its rate, and of neighbouring trials from each other, when the
/// trials of a cell are drawn side by side. Pixels.
const SIDE_BY_SIDE: f64 = 7.0;
const SIDE_STEP: f64 = 3.0;
/// Widths of the median lines: where two coincide, the wider one stays visible.
const MEDIAN_WIDTHS: [&str; 2] = ["2.8", "1.7"];

pub(super) fn draw(svg: &mut Svg, stem: &str, figure: &dyn Figure, field: &Field, panel: &Panel) {
    let plot = field.plot;
    let clip = format!("clip-{stem}");
    let [left, top, width, height] = [plot.left, plot.top, plot.width, plot.height].map(coordinate);
    svg.raw(&format!(
        "<clipPath id=\"{clip}\"><rect x=\"{left}\" y=\"{top}\" width=\"{width}\" \
         height=\"{height}\"/></clipPath>\n"
    ));
    let clip = format!("url(#{clip})");
    let rectangle = format!("{left} {top} {width} {height}");
    let x = axis_text(&field.x, panel.axis.unit());
    let y = axis_text(&field.y, figure.unit());
    svg.group(&[
        ("class", "data"),
        ("clip-path", &clip),
        ("data-plot", &rectangle),
        ("data-x", &x),
        ("data-y", &y),
    ]);
    if panel.follows_offered(figure) {
        guide(svg, field);
    }
    let drawn = Drawn {
        figure,
        field,
        axis: panel.axis,
        // On the diagonal, different rates are apart already.
        is_spread: !panel.follows_offered(figure),
    };
    for part in [markers, lines] {
        for curve in &panel.curves {
            server(svg, &drawn, curve, part);
        }
    }
    svg.close();
}

/// The axis as the page's script reads it.
fn axis_text(axis: &Axis, unit: &str) -> String {
    let scale = match axis.scale {
        Scale::Log => "log",
        Scale::Linear => "linear",
    };
    format!("{scale} {} {} {unit}", axis.start, axis.end)
}

/// The figure being drawn.
struct Drawn<'a> {
    figure: &'a dyn Figure,
    field: &'a Field,
    axis: SweepAxis<'a>,
    /// The trials of a cell are drawn side by side.
    is_spread: bool,
}

type Part = fn(&mut Svg, &Drawn, &Curve);

fn server(svg: &mut Svg, drawn: &Drawn, curve: &Curve, part: Part) {
    let class = format!("server {}", curve.style.class);
    svg.group(&[("class", &class), ("data-server", curve.name)]);
    part(svg, drawn, curve);
    svg.close();
}

/// The diagonal "achieved = offered".
fn guide(svg: &mut Svg, field: &Field) {
    let end = field.x.end.min(field.y.end);
    if let (Some(from), Some(to)) = (field.pixel(0.0, 0.0), field.pixel(end, end)) {
        svg.element(
            "polyline",
            &[
                ("class", "guide"),
                ("points", &coordinates(&[from, to])),
                ("fill", "none"),
                ("stroke", INK),
                ("stroke-opacity", "0.55"),
                ("stroke-width", "1"),
                ("stroke-dasharray", GUIDE_DASHES),
            ],
        );
    }
}

fn markers(svg: &mut Svg, drawn: &Drawn, curve: &Curve) {
    let (figure, field, axis) = (drawn.figure, drawn.field, drawn.axis);
    for cell in &curve.cells {
        for (trial, measured) in &cell.measured {
            let (Some(at), Some(value)) = (axis.of_trial(trial), figure.value(measured)) else {
                continue;
            };
            let Some((x, y)) = field.pixel(at, value) else {
                continue;
            };
            let aside = match drawn.is_spread {
                true => aside(trial.repeat, cell),
                false => 0.0,
            };
            let limited = measured.generator_limited;
            let is_bound = figure.is_lower_bound(measured);
            let shape = match is_bound {
                true => format!("{}{BOUND_SHAPE}", curve.style.shape),
                false => curve.style.shape.to_owned(),
            };
            let hint = format!(
                "{}: {}{} {}{}, trial {} of {}{}",
                curve.name,
                units::lower_bound(is_bound),
                figure.words(value),
                axis.place(at),
                cell.level
                    .map(|level| format!(" (level {})", units::level(level)))
                    .unwrap_or_default(),
                trial.repeat + 1,
                cell.planned,
                if limited { ", generator-limited" } else { "" },
            );
            let at = format!("translate({} {})", coordinate(x + aside), coordinate(y));
            let aside = coordinate(aside);
            svg.hinted(
                "path",
                &[
                    ("data-aside", &aside),
                    ("class", if limited { "mark hollow" } else { "mark" }),
                    ("transform", &at),
                    ("d", &shape),
                    ("fill", if limited { "none" } else { curve.style.colour }),
                    ("fill-opacity", "0.5"),
                    ("stroke", curve.style.colour),
                    ("stroke-width", if limited { "1.2" } else { "0.7" }),
                ],
                &hint,
            );
        }
        absent(svg, drawn, curve, cell);
    }
}

/// Horizontal offset of a trial, in pixels, so that markers do not hide each other.
fn aside(repeat: u32, cell: &Cell) -> f64 {
    let middle = f64::from(cell.planned.saturating_sub(1)) / 2.0;
    let step = if middle > 0.0 {
        (SIDE_BY_SIDE / middle).min(SIDE_STEP)
    } else {
        0.0
    };
    (f64::from(repeat) - middle) * step
}

/// A cross at the bottom of the plot if repeats are missing.
fn absent(svg: &mut Svg, drawn: &Drawn, curve: &Curve, cell: &Cell) {
    let (field, missing) = (drawn.field, cell.missing());
    let Some(stands_at) = drawn.axis.of_cell(cell) else {
        return;
    };
    let Some(x) = field.pixel_x(stands_at) else {
        return;
    };
    if missing == 0 {
        return;
    }
    let at = format!(
        "translate({} {})",
        coordinate(x),
        coordinate(field.plot.top + field.plot.height - 7.0)
    );
    let hint = format!(
        "{}: {missing} of {} trials missing {}",
        curve.name,
        cell.planned,
        drawn.axis.place(stands_at),
    );
    svg.hinted(
        "path",
        &[
            ("class", "absent"),
            ("transform", &at),
            ("d", MISSING_SHAPE),
            ("fill", "none"),
            ("stroke", curve.style.colour),
            ("stroke-width", "1.6"),
        ],
        &hint,
    );
}

/// Class, which end of a spread, width and dashes of a line.
type LineStyle = (&'static str, fn(&Spread) -> f64, &'static str, &'static str);

fn lines(svg: &mut Svg, drawn: &Drawn, curve: &Curve) {
    let (figure, field) = (drawn.figure, drawn.field);
    let spread = |cell: &Cell| cell.spread(|measured| figure.value(measured));
    let median = MEDIAN_WIDTHS[curve.place % MEDIAN_WIDTHS.len()];
    let styles: [LineStyle; 3] = [
        ("maximum", |spread| spread.max, "1.2", MAXIMUM_DASHES),
        ("minimum", |spread| spread.min, "1.4", MINIMUM_DASHES),
        ("median", |spread| spread.median, median, "none"),
    ];
    for (class, end, stroke_width, dashes) in styles {
        // A cell without a measurement interrupts the line.
        let mut piece: Vec<(f64, f64)> = Vec::new();
        let mut pieces = Vec::new();
        for cell in &curve.cells {
            let at = spread(cell).map(|spread| end(&spread));
            match drawn
                .axis
                .of_cell(cell)
                .zip(at)
                .and_then(|(x, y)| field.pixel(x, y))
            {
                Some(point) => piece.push(point),
                None => pieces.push(std::mem::take(&mut piece)),
            }
        }
        pieces.push(piece);
        for points in pieces.iter().filter(|points| points.len() > 1) {
            svg.element(
                "polyline",
                &[
                    ("class", class),
                    ("points", &coordinates(points)),
                    ("fill", "none"),
                    ("stroke", curve.style.colour),
                    ("stroke-width", stroke_width),
                    ("stroke-linejoin", "round"),
                    ("stroke-dasharray", dashes),
                ],
            );
        }
    }
    knee(svg, figure, field, curve);
}

/// A ring around the median at the knee.
fn knee(svg: &mut Svg, figure: &dyn Figure, field: &Field, curve: &Curve) {
    let Some(knee_rps) = curve.knee_rps else {
        return;
    };
    let Some(cell) = curve
        .cells
        .iter()
        .find(|cell| cell.offered_rps == Some(knee_rps))
    else {
        return;
    };
    let Some(spread) = cell.spread(|measured| figure.value(measured)) else {
        return;
    };
    let Some((x, y)) = field.pixel(knee_rps, spread.median) else {
        return;
    };
    let at = format!("translate({} {})", coordinate(x), coordinate(y));
    svg.hinted(
        "circle",
        &[
            ("class", "knee"),
            ("transform", &at),
            ("r", KNEE_RADIUS),
            ("fill", "none"),
            ("stroke", curve.style.colour),
            ("stroke-width", "1.8"),
        ],
        &format!(
            "{}: the knee, {} offered",
            curve.name,
            units::rate(knee_rps)
        ),
    );
}
