//! Symbols that several kinds of figures share: lower bounds, missing trials, intervals.

use super::palette::Ramp;
use super::svg::{Svg, coordinate};

/// Dashes of the maximum and minimum lines.
pub(crate) const MAXIMUM_DASHES: &str = "7 4";
pub(crate) const MINIMUM_DASHES: &str = "1.5 3.5";
/// Dashes of the diagonal.
pub(crate) const GUIDE_DASHES: &str = "10 3 2 3";
/// An arrowhead above a marker, for a lower bound.
pub(crate) const BOUND_SHAPE: &str = "M-3,-6.5L0,-10.5L3,-6.5Z";
/// An arrowhead to the right of a marker, for a lower bound of `x`.
pub(crate) const BOUND_X_SHAPE: &str = "M6.5,-3L10.5,0L6.5,3Z";
/// A cross around (0, 0), for missing trials.
pub(crate) const MISSING_SHAPE: &str = "M-3.5,-3.5L3.5,3.5M-3.5,3.5L3.5,-3.5";

/// A diamond around (0, 0), for a published value.
pub(crate) const PUBLISHED_SHAPE: &str = "M0,-6L6,0L0,6L-6,0Z";

/// A small dot around (0, 0), for a trial.
pub(crate) const DOT_SHAPE: &str = "M-1.7,0a1.7,1.7 0 1 0 3.4,0a1.7,1.7 0 1 0 -3.4,0z";

/// Shapes around (0, 0) that mark the best cell by each of several metrics.
pub(crate) const BEST_SHAPES: [&str; 4] = [
    "M-7,-7L7,7M-7,7L7,-7",
    "M-9,0H9M0,-9V9",
    "M0,-10L10,0L0,10L-10,0Z",
    "M-8,-8H8V8H-8Z",
];

/// `translate(x y)`.
pub(crate) fn at(x: f64, y: f64) -> String {
    format!("translate({} {})", coordinate(x), coordinate(y))
}

/// A marker's shape, enlarged. It is a path of its own rather than a transformation, because the
/// page's script moves markers by theirs.
pub(crate) fn sized(shape: &str, factor: f64) -> String {
    let mut sized = String::with_capacity(shape.len() + 16);
    // The flags of an arc, after its two radii, are not lengths.
    let mut after_arc = None;
    let mut rest = shape;
    while let Some(first) = rest.chars().next() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
        if !is_number(first) {
            after_arc = match first {
                'a' => Some(0),
                letter if letter.is_ascii_alphabetic() => None,
                _ => after_arc,
            };
            sized.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let more = rest[1..].find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(more.map_or(rest.len(), |at| at + 1));
        let is_flag = after_arc.is_some_and(|place| (2..5).contains(&place));
        after_arc = after_arc.map(|place| place + 1);
        match number.parse::<f64>() {
            Ok(length) if !is_flag => sized.push_str(&coordinate(length * factor)),
            _ => sized.push_str(number),
        }
        rest = after;
    }
    sized
}

/// A cross at (x, y): trials are missing.
pub(crate) fn missing(svg: &mut Svg, (x, y): (f64, f64), colour: &str, hint: &str) {
    svg.hinted(
        "path",
        &[
            ("class", "absent"),
            ("transform", &at(x, y)),
            ("d", MISSING_SHAPE),
            ("fill", "none"),
            ("stroke", colour),
            ("stroke-width", "1.6"),
        ],
        hint,
    );
}

/// A rectangle (left, top, width, height) in a shade.
pub(crate) fn shaded(
    svg: &mut Svg,
    area: [f64; 4],
    shade: Ramp,
    style: &[(&str, &str)],
    hint: &str,
) {
    let [x, y, width, height] = area.map(coordinate);
    let class = format!("shade {}", shade.class);
    let mut attributes = vec![
        ("class", class.as_str()),
        ("x", x.as_str()),
        ("y", y.as_str()),
        ("width", width.as_str()),
        ("height", height.as_str()),
        ("fill", shade.colour),
    ];
    attributes.extend(style);
    svg.hinted("rect", &attributes, hint);
}

/// A vertical interval with ends, at `x` from `low` to `high`.
pub(crate) fn interval(svg: &mut Svg, x: f64, low: f64, high: f64, colour: &str) {
    const END: f64 = 4.0;
    let path = format!(
        "M{left},{low}H{right}M{x},{low}V{high}M{left},{high}H{right}",
        left = coordinate(x - END),
        right = coordinate(x + END),
        x = coordinate(x),
        low = coordinate(low),
        high = coordinate(high),
    );
    svg.element(
        "path",
        &[
            ("class", "interval"),
            ("d", &path),
            ("fill", "none"),
            ("stroke", colour),
            ("stroke-width", "1.4"),
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::sized;

    #[test]
    fn a_shape_grows_but_the_flags_of_its_arcs_stay() {
        assert_eq!(
            sized("M-2.9,-2.9h5.8v5.8h-5.8z", 2.0),
            "M-5.8,-5.8h11.6v11.6h-11.6z"
        );
        let circle = "M-3,0a3,3 0 1 0 6,0a3,3 0 1 0 -6,0z";
        assert_eq!(sized(circle, 2.0), "M-6,0a6,6 0 1 0 12,0a6,6 0 1 0 -12,0z");
    }
}
