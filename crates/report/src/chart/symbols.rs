//! Marks as SVG.

use std::cmp::Ordering;

use super::frame::Field;
use super::mark::{Line, Look, Mark, Scene, Shape, State};
use super::palette::{CurveStyle, GREY, INK, PAPER, Ramp};
use super::svg::{Svg, coordinate, coordinates, escaped};

/// Draws all marks.
pub(super) fn draw(svg: &mut Svg, field: &Field, scene: &Scene) {
    let mut marks: Vec<&Mark> = scene.marks.iter().collect();
    // Small ones last, or large ones would hide them.
    let order = |mark: &Mark| (mark.shape.layer(), -mark.size);
    marks.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(Ordering::Equal));
    for marks in marks.chunk_by(|a, b| a.series == b.series) {
        let series = marks[0].series.and_then(|index| scene.series.get(index));
        let look = series.map_or(Look::Ink, |it| it.look);
        let name = series.map(|it| format!(r#" data-series="{}""#, escaped(&it.name)));
        let (class, name) = (look.class(), name.unwrap_or_default());
        svg.group(&format!(r#"class="series {class}"{name}"#));
        for mark in marks {
            for pixels in pieces(field, mark) {
                draw_one(svg, mark, look, &pixels, scene.series.len() > 1);
            }
        }
        svg.close();
    }
}

/// The pixels of a mark; those of a line are interrupted where an axis has no position.
fn pieces(field: &Field, mark: &Mark) -> Vec<Vec<(f64, f64)>> {
    let pixel = |&(x, y): &(f64, f64)| {
        // What is missing has no value: it stands at the bottom.
        let is_missing = matches!(mark.state, State::Missing(_)) && y.is_nan();
        let bottom = is_missing.then(|| field.bottom() - 7.0);
        let y = bottom.or_else(|| field.pixel_y(y));
        Some((field.pixel_x(x)? + mark.aside, y?))
    };
    let pixels: Vec<Option<(f64, f64)>> = mark.at.iter().map(pixel).collect();
    if let Shape::Line(_) = mark.shape {
        let pieces = pixels.split(Option::is_none);
        let pieces = pieces.map(|it| it.iter().copied().flatten().collect());
        return pieces.filter(|it: &Vec<_>| it.len() > 1).collect();
    }
    let whole: Option<Vec<(f64, f64)>> = pixels.into_iter().collect();
    whole.into_iter().filter(|it| !it.is_empty()).collect()
}

/// A diamond, for a published value.
const PUBLISHED: &str = "M0,-6L6,0L0,6L-6,0Z";
/// A cross, where a server fails.
const FAILS: &str = "M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5";
/// A struck-out circle, where trials are missing.
const MISSING: &str = "M-3.2,0a3.2,3.2 0 1 0 6.4,0a3.2,3.2 0 1 0 -6.4,0zM-4.5,4.5L4.5,-4.5";
const DOT: &str = "M-1.7,0a1.7,1.7 0 1 0 3.4,0a1.7,1.7 0 1 0 -3.4,0z";
/// Arrowheads above a marker, right of it and above an interval, for lower bounds.
const BOUND_Y: &str = "M-3,-6.5L0,-10.5L3,-6.5Z";
const BOUND_X: &str = "M6.5,-3L10.5,0L6.5,3Z";
const OPEN: &str = "M-3,-1L0,-6L3,-1Z";

/// Draws a mark at pixels.
pub(super) fn draw_one(
    svg: &mut Svg,
    mark: &Mark,
    look: Look,
    pixels: &[(f64, f64)],
    is_one_of_many: bool,
) {
    let style = look.style();
    let is_grey = matches!(mark.state, State::Grey(_));
    let colour = if is_grey { GREY } else { style.colour };
    let points = coordinates(pixels);
    let ends = [pixels[0], pixels[pixels.len() - 1]];
    let shade = match look {
        Look::Shade(shade) => Some(shade),
        Look::Style(_) | Look::Ink => mark.shade,
    };
    match (&mark.shape, shade) {
        (Shape::Point | Shape::Dot | Shape::Ring(_), _) => {
            marker(svg, mark, style, colour, ends[0]);
        }
        (Shape::Band, _) => {
            let band = format!(r#"class="band" points="{points}" fill="{colour}""#);
            svg.tag("polygon", &format!(r#"{band} fill-opacity="0.16""#));
        }
        (Shape::Line(Line(class, dashes, width)), _) => {
            let dashes = dashes.unwrap_or(style.dashes);
            let line = format!(r#"class="{class}" points="{points}" fill="none""#);
            let stroke = format!(r#"stroke="{colour}" stroke-width="{width}""#);
            let dashes = format!(r#"stroke-dasharray="{dashes}""#);
            svg.tag("polyline", &format!("{line} {stroke} {dashes}"));
        }
        (Shape::Interval, _) => interval(svg, mark, colour, ends),
        (Shape::Tile | Shape::Bar, Some(shade)) => tile(svg, mark, shade, ends),
        (Shape::Tile | Shape::Bar, None) => {
            bar(svg, mark, colour, ends);
            if is_one_of_many {
                bar_foot(svg, style.shape, colour, ends);
            }
        }
        (Shape::Words(lines), _) => {
            let look = format!(r#"text-anchor="middle" font-size="12.5" fill="{INK}""#);
            svg.text(ends[0], &look, &lines.join(" "));
        }
    }
}

fn interval(svg: &mut Svg, mark: &Mark, colour: &str, [from, to]: [(f64, f64); 2]) {
    // The ends stand across.
    let end = 4.0 * mark.size;
    let (across, up) = [(0.0, end), (end, 0.0)][usize::from(from.0 == to.0)];
    let ends = |(x, y): (f64, f64)| [(x - across, y - up), (x + across, y + up)];
    let points = coordinates(&[&ends(from)[..], &[from, to], &ends(to)[..]].concat());
    let line = format!(r#"class="interval" points="{points}" fill="none" stroke="{colour}""#);
    svg.tag("polyline", &format!(r#"{line} stroke-width="1.3""#));
    if mark.bound {
        let at = format!(r#"class="bound" {}"#, at(to));
        svg.tag("path", &format!(r#"{at} d="{OPEN}" fill="{colour}""#));
    }
}

/// The attributes of a rectangle between two corners, and its width and height.
fn area([from, to]: [(f64, f64); 2]) -> (String, f64, f64) {
    let (left, top) = (from.0.min(to.0), from.1.min(to.1));
    let (wide, high) = ((from.0 - to.0).abs(), (from.1 - to.1).abs());
    let [x, y, width, height] = [left, top, wide, high].map(coordinate);
    let area = format!(r#"x="{x}" y="{y}" width="{width}" height="{height}""#);
    (area, wide, high)
}

fn tile(svg: &mut Svg, mark: &Mark, shade: Ramp, [from, mut to]: [(f64, f64); 2]) {
    let edge = match (&mark.shape, &mark.state) {
        (Shape::Tile, state) => {
            // Neighbours overlap a little, or the paper would show between them.
            to.0 += 0.3;
            let opacity = if *state == State::Counts { "1" } else { "0.3" };
            format!(r#"shape-rendering="crispEdges" fill-opacity="{opacity}""#)
        }
        (_, State::Counts) => format!(r#"stroke="{PAPER}""#),
        _ => format!(r#"stroke="{INK}" fill-opacity="0.3" stroke-dasharray="4 3""#),
    };
    let (area, ..) = area([from, to]);
    let Ramp { class, colour } = shade;
    let tile = format!(r#"class="shade {class}" {area} fill="{colour}" {edge}"#);
    svg.hinted("rect", &tile, &mark.hint);
}

fn bar(svg: &mut Svg, mark: &Mark, colour: &str, ends: [(f64, f64); 2]) {
    let (class, fill, dashes) = match mark.state {
        State::Counts => ("bar", colour, "none"),
        State::Grey(_) => ("bar hollow grey", "none", "4 3"),
        _ => ("bar hollow", "none", "4 3"),
    };
    let (area, ..) = area(ends);
    let bar = format!(r#"class="{class}" {area} fill="{fill}" fill-opacity="0.5""#);
    let stroke = format!(r#"stroke="{colour}" stroke-width="1.2" stroke-dasharray="{dashes}""#);
    svg.hinted("rect", &format!("{bar} {stroke}"), &mark.hint);
}

/// The marker of a series at the foot of its bar, so that bars differ without colour too.
fn bar_foot(svg: &mut Svg, shape: &str, colour: &str, ends: [(f64, f64); 2]) {
    let (_, wide, high) = area(ends);
    if wide > 8.0 && high > 12.0 {
        let [from, to] = ends;
        let at = at((from.0.midpoint(to.0), from.1.max(to.1) - 7.0));
        let fill = format!(r#"fill="{PAPER}" stroke="{colour}""#);
        svg.tag("path", &format!(r#"class="foot" {at} d="{shape}" {fill}"#));
    }
}

fn marker(svg: &mut Svg, mark: &Mark, style: CurveStyle, colour: &str, place: (f64, f64)) {
    let (class, shape, width) = match (&mark.state, &mark.shape) {
        (State::Missing(_), _) => ("absent", MISSING, 1.4),
        (State::Failing(_), _) => ("mark hollow failing", FAILS, 2.0),
        (State::Published(_), _) => ("mark hollow published", PUBLISHED, 1.6),
        (_, Shape::Ring(shape)) => ("mark hollow ring", *shape, 1.7),
        (State::Grey(_), Shape::Dot) => ("mark hollow grey", DOT, 0.9),
        (State::Grey(_), _) => ("mark hollow grey", style.shape, 1.1),
        (State::Counts, Shape::Dot) => ("mark", DOT, 0.8),
        (State::Counts, _) => ("mark", style.shape, 0.8),
    };
    let is_filled = class == "mark";
    let size = mark.size.min(if is_filled { f64::INFINITY } else { 1.6 });
    let shade = mark.shade.filter(|_| is_filled);
    let (shaded, fill) = match (class, shade) {
        (_, Some(shade)) => (format!(" shaded {}", shade.class), shade.colour),
        ("mark", None) => (String::new(), colour),
        // It stands out from a dark bar.
        ("mark hollow published" | "absent", None) => (String::new(), PAPER),
        _ => (String::new(), "none"),
    };
    let bounds = [(mark.bound, BOUND_Y), (mark.bound_x, BOUND_X)];
    let arrows = bounds.map(|(is_bound, arrow)| if is_bound { arrow } else { "" });
    let aside = match mark.aside {
        0.0 => String::new(),
        aside => format!(r#" data-aside="{}""#, coordinate(aside)),
    };
    let at = match size {
        1.0 => at(place),
        size => at(place).replace(")", &format!(") scale({})", coordinate(size))),
    };
    let path = format!(r#"{at} d="{shape}{}""#, arrows.concat());
    let width = (width / size * 100.0).round() / 100.0;
    let is_small = size == 1.0 && is_filled;
    let opacity = if is_small { "0.55" } else { "0.9" };
    let fill = format!(r#"fill="{fill}" fill-opacity="{opacity}""#);
    let look = format!(r#"{fill} stroke="{colour}" stroke-width="{width}""#);
    let marker = format!(r#"class="{class}{shaded}"{aside} {path} {look}"#);
    svg.hinted("path", &marker, &mark.hint);
}

/// `transform="translate(x y)"`.
fn at((x, y): (f64, f64)) -> String {
    let [x, y] = [x, y].map(coordinate);
    format!(r#"transform="translate({x} {y})""#)
}
