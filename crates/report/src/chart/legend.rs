//! The legend, above the plot so that it covers no data: rows of symbols with words.

use super::mark::{self, BOUND_SHAPE, MISSING_SHAPE};
use super::svg::{coordinate, width};
use super::{CurveStyle, INK, Ramp, Svg, WIDTH};

const ROW: f64 = 20.0;
const SIZE: f64 = 12.5;
const LEFT: f64 = 16.0;
const SAMPLE: f64 = 30.0;
const SHADE: f64 = 10.0;
const GAP: f64 = 18.0;

/// The symbol of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sample {
    /// A line with a marker.
    Curve(CurveStyle),
    /// A marker.
    Marker(CurveStyle),
    /// A line without colour: class, dashes, width.
    Line(&'static str, &'static str, &'static str),
    /// Hollow markers.
    Hollow,
    /// A marker with an arrowhead.
    Bound,
    /// The cross of missing trials.
    Missing,
    /// A ring.
    Knee,
    /// A filled rectangle in the colour of a curve.
    Bar(CurveStyle),
    /// A filled rectangle in a shade.
    Shade(Ramp),
    /// All shades.
    Ramp,
    /// An interval.
    Interval,
    /// A circle of that radius.
    Circle(f64),
    /// A shape without filling.
    Outline(&'static str),
    /// Words alone.
    None,
}

impl Sample {
    fn width(self) -> f64 {
        match self {
            Self::Ramp => SHADE * Ramp::STEPS as f64,
            // Without the space before the words.
            Self::None => -6.0,
            _ => SAMPLE,
        }
    }
}

/// A symbol and its words.
pub(crate) type Entry = (Sample, String);

#[derive(Debug)]
struct Placed {
    sample: Sample,
    text: String,
    /// From the left edge.
    x: f64,
    row: usize,
}

/// The legend of a figure.
#[derive(Debug, Default)]
pub(crate) struct Legend {
    entries: Vec<Placed>,
    rows: usize,
}

impl Legend {
    /// A legend of parts, each of which starts a row.
    pub(crate) fn of(parts: impl IntoIterator<Item = Vec<Entry>>) -> Self {
        let mut legend = Self::default();
        for part in parts {
            legend.rows_of(part);
        }
        legend
    }

    /// Its height, pixels.
    pub(crate) fn height(&self) -> f64 {
        self.rows as f64 * ROW + 14.0
    }

    /// Starts a new row and fills rows with as many entries as fit.
    fn rows_of(&mut self, entries: Vec<Entry>) {
        let mut x = LEFT;
        for (sample, text) in entries {
            let wide = sample.width() + 6.0 + width(&text, SIZE);
            if x > LEFT && x + wide > WIDTH - LEFT {
                x = LEFT;
                self.rows += 1;
            }
            self.entries.push(Placed {
                sample,
                text,
                x,
                row: self.rows,
            });
            x += wide + GAP;
        }
        if x > LEFT {
            self.rows += 1;
        }
    }

    pub(super) fn draw(&self, svg: &mut Svg, top: f64) {
        svg.group(&[("class", "legend")]);
        for entry in &self.entries {
            let middle = top + entry.row as f64 * ROW + ROW / 2.0;
            sample(svg, entry.sample, entry.x, middle);
            let style = [("font-size", "12.5"), ("fill", INK)];
            svg.text(
                entry.x + entry.sample.width() + 6.0,
                middle + 4.3,
                &style,
                &entry.text,
            );
        }
        svg.close();
    }
}

fn sample(svg: &mut Svg, sample: Sample, x: f64, y: f64) {
    let centre = x + SAMPLE / 2.0;
    let at = mark::at(centre, y);
    let line = |class: &str, stroke: &str, stroke_width: &str, dashes: &str, svg: &mut Svg| {
        svg.element(
            "line",
            &[
                ("class", class),
                ("x1", &coordinate(x)),
                ("x2", &coordinate(x + SAMPLE)),
                ("y1", &coordinate(y)),
                ("y2", &coordinate(y)),
                ("stroke", stroke),
                ("stroke-width", stroke_width),
                ("stroke-dasharray", dashes),
            ],
        );
    };
    match sample {
        Sample::Curve(style) => {
            svg.group(&[("class", style.class)]);
            line("median", style.colour, "2", "none", svg);
            marker(svg, style, &at);
            svg.close();
        }
        Sample::Marker(style) => {
            svg.group(&[("class", style.class)]);
            marker(svg, style, &at);
            svg.close();
        }
        Sample::Line(class, dashes, stroke_width) => {
            svg.group(&[("class", "neutral")]);
            line(class, INK, stroke_width, dashes, svg);
            svg.close();
        }
        Sample::Hollow => {
            // Two shapes, because hollow markers occur in every shape.
            for (index, offset) in [(0, -6.0), (1, 6.0)] {
                let at = mark::at(centre + offset, y);
                outline(svg, "mark hollow", &at, CurveStyle::of(index).shape);
            }
        }
        Sample::Bound => {
            let at = mark::at(centre, y + 4.0);
            let shape = format!("{}{BOUND_SHAPE}", CurveStyle::of(0).shape);
            outline(svg, "mark", &at, &shape);
        }
        Sample::Missing => outline(svg, "absent", &at, MISSING_SHAPE),
        Sample::Knee => {
            svg.group(&[("class", "neutral")]);
            ring(svg, "knee", &at, "7", "1.8");
            svg.close();
        }
        Sample::Bar(style) => {
            svg.group(&[("class", style.class)]);
            rectangle(svg, "bar", (x + 8.0, y - 6.0), (14.0, 12.0), style.colour);
            svg.close();
        }
        Sample::Shade(shade) => {
            svg.group(&[("class", shade.class)]);
            rectangle(svg, "shade", (x + 8.0, y - 6.0), (14.0, 12.0), shade.colour);
            svg.close();
        }
        Sample::Ramp => ramp(svg, x, y),
        Sample::Interval => {
            svg.group(&[("class", "neutral")]);
            mark::interval(svg, centre, y + 7.0, y - 7.0, INK);
            svg.close();
        }
        Sample::Circle(radius) => {
            svg.group(&[("class", "neutral")]);
            ring(svg, "knee", &at, &coordinate(radius), "1");
            svg.close();
        }
        Sample::Outline(shape) => outline(svg, "best", &at, shape),
        Sample::None => {}
    }
}

fn ramp(svg: &mut Svg, x: f64, y: f64) {
    for step in 0..Ramp::STEPS {
        let shade = Ramp::step(step);
        svg.group(&[("class", shade.class)]);
        let left = x + step as f64 * SHADE;
        rectangle(svg, "shade", (left, y - 6.0), (SHADE, 12.0), shade.colour);
        svg.close();
    }
}

fn marker(svg: &mut Svg, style: CurveStyle, at: &str) {
    let shape = [
        ("class", "mark"),
        ("transform", at),
        ("d", style.shape),
        ("fill", style.colour),
        ("stroke", style.colour),
    ];
    svg.element("path", &shape);
}

fn ring(svg: &mut Svg, class: &str, at: &str, radius: &str, stroke_width: &str) {
    let style = [
        ("class", class),
        ("transform", at),
        ("r", radius),
        ("fill", "none"),
        ("stroke", INK),
        ("stroke-width", stroke_width),
    ];
    svg.element("circle", &style);
}

fn rectangle(svg: &mut Svg, class: &str, at: (f64, f64), size: (f64, f64), colour: &str) {
    let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(coordinate);
    let style = [
        ("class", class),
        ("x", x.as_str()),
        ("y", y.as_str()),
        ("width", width.as_str()),
        ("height", height.as_str()),
        ("fill", colour),
    ];
    svg.element("rect", &style);
}

fn outline(svg: &mut Svg, class: &str, at: &str, shape: &str) {
    svg.group(&[("class", "neutral")]);
    let style = [
        ("class", class),
        ("transform", at),
        ("d", shape),
        ("fill", "none"),
        ("stroke", INK),
        ("stroke-width", "1.2"),
    ];
    svg.element("path", &style);
    svg.close();
}
