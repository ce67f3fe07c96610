//! The legend, above the plot so that it covers no data: first the curves, then the lines and
//! markers that the figure contains.

use super::svg::{coordinate, width};
use super::{CurveStyle, INK, Panel, Svg, WIDTH, data};
use crate::figures::Figure;
use crate::{limits, units};

const ROW: f64 = 20.0;
const SIZE: f64 = 12.5;
const LEFT: f64 = 16.0;
const SAMPLE: f64 = 30.0;
const GAP: f64 = 18.0;

/// The symbol of an entry.
#[derive(Debug, Clone, Copy)]
enum Sample {
    Curve(CurveStyle),
    Line {
        class: &'static str,
        dashes: &'static str,
        stroke_width: &'static str,
    },
    Hollow,
    Bound,
    Missing,
    Knee,
}

#[derive(Debug)]
struct Entry {
    sample: Sample,
    text: String,
    /// From the left edge.
    x: f64,
    row: usize,
}

#[derive(Debug)]
pub(super) struct Legend {
    entries: Vec<Entry>,
    rows: usize,
}

impl Legend {
    pub(super) fn of(figure: &dyn Figure, panel: &Panel) -> Self {
        let mut legend = Self {
            entries: Vec::new(),
            rows: 0,
        };
        let curves = panel.curves.iter().map(|curve| {
            let name = units::shortened(curve.short, limits::NAME_CHARACTERS);
            let knee = curve
                .knee_rps
                .map(|rate| format!(" (knee {})", units::rate(rate)));
            (
                Sample::Curve(curve.style),
                format!("{name}{}", knee.unwrap_or_default()),
            )
        });
        legend.rows_of(curves);
        legend.rows_of(key(figure, panel));
        legend
    }

    pub(super) fn height(&self) -> f64 {
        self.rows as f64 * ROW + 14.0
    }

    /// Starts a new row and fills rows with as many entries as fit.
    fn rows_of(&mut self, entries: impl IntoIterator<Item = (Sample, String)>) {
        let mut x = LEFT;
        for (sample, text) in entries {
            let wide = SAMPLE + 6.0 + width(&text, SIZE);
            if x > LEFT && x + wide > WIDTH - LEFT {
                x = LEFT;
                self.rows += 1;
            }
            self.entries.push(Entry {
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
            svg.text(entry.x + SAMPLE + 6.0, middle + 4.3, &style, &entry.text);
        }
        svg.close();
    }
}

/// The entries for lines and markers.
fn key(figure: &dyn Figure, panel: &Panel) -> Vec<(Sample, String)> {
    let curves = &panel.curves;
    let cells = || curves.iter().flat_map(|curve| &curve.cells);
    let line = |class, dashes, stroke_width| Sample::Line {
        class,
        dashes,
        stroke_width,
    };
    let mut key = vec![
        (line("median", "none", "2"), "median".to_owned()),
        (
            line("maximum", data::MAXIMUM_DASHES, "1.2"),
            "maximum".to_owned(),
        ),
        (
            line("minimum", data::MINIMUM_DASHES, "1.4"),
            "minimum".to_owned(),
        ),
    ];
    if panel.follows_offered(figure) {
        key.push((
            line("guide", data::GUIDE_DASHES, "1"),
            "achieved = offered".to_owned(),
        ));
    }
    if curves.iter().any(|curve| curve.knee_rps.is_some()) {
        key.push((Sample::Knee, "knee".to_owned()));
    }
    if cells().any(|cell| cell.limited() > 0) {
        key.push((Sample::Hollow, "generator-limited".to_owned()));
    }
    let mut measured = cells().flat_map(|cell| &cell.measured);
    if measured.any(|(_, measured)| figure.is_lower_bound(measured)) {
        key.push((Sample::Bound, "lower bound".to_owned()));
    }
    if cells().any(|cell| cell.missing() > 0) {
        key.push((Sample::Missing, "missing".to_owned()));
    }
    key
}

fn sample(svg: &mut Svg, sample: Sample, x: f64, y: f64) {
    let centre = x + SAMPLE / 2.0;
    let at = format!("translate({} {})", coordinate(centre), coordinate(y));
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
            let shape = [
                ("class", "mark"),
                ("transform", at.as_str()),
                ("d", style.shape),
                ("fill", style.colour),
                ("stroke", style.colour),
            ];
            svg.element("path", &shape);
            svg.close();
        }
        Sample::Line {
            class,
            dashes,
            stroke_width,
        } => {
            svg.group(&[("class", "neutral")]);
            line(class, INK, stroke_width, dashes, svg);
            svg.close();
        }
        Sample::Hollow => {
            // Two shapes, because hollow markers occur in every shape.
            for (index, offset) in [(0, -6.0), (1, 6.0)] {
                let at = format!(
                    "translate({} {})",
                    coordinate(centre + offset),
                    coordinate(y)
                );
                outline(svg, "mark hollow", &at, CurveStyle::of(index).shape);
            }
        }
        Sample::Bound => {
            let at = format!("translate({} {})", coordinate(centre), coordinate(y + 4.0));
            let shape = format!("{}{}", CurveStyle::of(0).shape, data::BOUND_SHAPE);
            outline(svg, "mark", &at, &shape);
        }
        Sample::Missing => outline(svg, "absent", &at, data::MISSING_SHAPE),
        Sample::Knee => {
            svg.group(&[("class", "neutral")]);
            let style = [
                ("class", "knee"),
                ("transform", at.as_str()),
                ("r", "7"),
                ("fill", "none"),
                ("stroke", INK),
                ("stroke-width", "1.8"),
            ];
            svg.element("circle", &style);
            svg.close();
        }
    }
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
