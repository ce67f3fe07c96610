//! The plot of a figure: its frame, grid, labels and titles, and the pixels of its values.

use super::axis::{Axis, LABEL_SIZE, Side};
use super::palette::INK;
use super::svg::{self, Svg, WIDTH, coordinate};

/// Size of the titles of the axes, pixels.
const TITLE_SIZE: f64 = 13.0;
/// Length of the mark at a label, and from the frame to a label.
const TICK: f64 = 4.0;
const LABEL_GAP: f64 = 8.0;

const AXIS: &str = "#333333";
const GRID: &str = "#DDDDDD";
const FAINT_GRID: &str = "#EEEEEE";

/// Maps values to the rectangle of the data, pixels.
pub(super) struct Field<'a> {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: &'a Side,
    pub(super) y: &'a Side,
}

impl Field<'_> {
    /// None: the axis cannot hold it.
    pub(super) fn pixel_x(&self, x: f64) -> Option<f64> {
        Some(self.across(self.x.axis.position(x)?))
    }

    pub(super) fn pixel_y(&self, y: f64) -> Option<f64> {
        let share = self.y.axis.share(self.y.axis.position(y)?);
        Some(self.top + (1.0 - share) * self.height)
    }

    fn across(&self, position: f64) -> f64 {
        self.left + self.x.axis.share(position) * self.width
    }

    fn up(&self, position: f64) -> f64 {
        self.bottom() - self.y.axis.share(position) * self.height
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// Draws frame, grid, labels and titles of the axes.
pub(super) fn draw(svg: &mut Svg, field: &Field) {
    let (left, top, bottom) = (field.left, field.top, field.bottom());
    let right = left + field.width;
    let across = |at: &[f64]| -> Vec<f64> { at.iter().map(|&it| field.across(it)).collect() };
    let up = |at: &[f64]| -> Vec<f64> { at.iter().map(|&it| field.up(it)).collect() };
    let (x, y): (&Axis, &Axis) = (&field.x.axis, &field.y.axis);
    let (xs, ys) = (across(&x.labelled), up(&y.labelled));
    let faint = verticals(&across(&x.between), top, bottom) + &rows(&up(&y.between), left, right);
    // Between names there is nothing to read off.
    let across = if x.is_of_names { &[] } else { &xs[..] };
    let grid = verticals(across, top, bottom) + &rows(&ys, left, right);
    let frame = verticals(&[left], top, bottom) + &rows(&[bottom], left, right);
    let ticks = verticals(&xs, bottom, bottom + TICK) + &rows(&ys, left - TICK, left);
    let frame = frame + &ticks;

    svg.group(r#"class="axes""#);
    let looks = [(FAINT_GRID, "0.8"), (GRID, "0.8"), (AXIS, "1")];
    for (lines, (stroke, width)) in [faint, grid, frame].into_iter().zip(looks) {
        if !lines.is_empty() {
            let style = format!(r#"stroke="{stroke}" stroke-width="{width}""#);
            svg.tag("path", &format!(r#"{style} d="{lines}""#));
        }
    }
    // A quarter of the size below a line, digits stand in its middle.
    let beside = ys.iter().map(|y| (left - LABEL_GAP, y + LABEL_SIZE / 4.0));
    labels(svg, field.y, ("end", ""), beside);
    let baseline = bottom + LABEL_GAP + 0.76 * LABEL_SIZE;
    // Names so many that they would overlap even askew are not all written.
    let step = (LABEL_SIZE * xs.len() as f64 / field.width).ceil().max(1.0) as usize;
    let is_written = |index: usize| index.is_multiple_of(step);
    let below = |index| {
        if is_written(index) {
            baseline
        } else {
            f64::NAN
        }
    };
    let below = xs.iter().enumerate().map(|(index, &x)| (x, below(index)));
    let look = match field.x.askew(field.width) {
        Some(_) => ("end", "rotate(-35"),
        None => ("middle", ""),
    };
    labels(svg, field.x, look, below);
    svg.close();
    titles(svg, field);
}

fn verticals(xs: &[f64], from: f64, to: f64) -> String {
    let [from, to] = [from, to].map(coordinate);
    let line = |&x: &f64| format!("M{} {from}V{to}", coordinate(x));
    xs.iter().map(line).collect()
}

fn rows(ys: &[f64], from: f64, to: f64) -> String {
    let [from, to] = [from, to].map(coordinate);
    let line = |&y: &f64| format!("M{from} {}H{to}", coordinate(y));
    ys.iter().map(line).collect()
}

/// Labels with an anchor and the start of a rotation.
fn labels(
    svg: &mut Svg,
    side: &Side,
    (anchor, turn): (&str, &str),
    places: impl Iterator<Item = (f64, f64)>,
) {
    let font = format!(r#"font-size="{LABEL_SIZE}" fill="{INK}""#);
    svg.group(&format!(r#"text-anchor="{anchor}" {font}"#));
    let is_shown = |((_, y), label): &((f64, f64), &String)| y.is_finite() && !label.is_empty();
    for (at, label) in places.zip(&side.labels).filter(is_shown) {
        let [x, y] = [at.0, at.1].map(coordinate);
        let turned = match turn {
            "" => String::new(),
            turn => format!(r#"transform="{turn} {x} {y})""#),
        };
        svg.text(at, &turned, label);
    }
    svg.close();
}

fn titles(svg: &mut Svg, field: &Field) {
    let across = svg::fitted(&field.x.title, TITLE_SIZE, WIDTH - 32.0);
    // A longer title would run into the legend.
    let up = svg::fitted(&field.y.title, TITLE_SIZE, field.height + 24.0);
    let font = format!(r#"text-anchor="middle" font-size="{TITLE_SIZE}" fill="{INK}""#);
    svg.group(&format!(r#"class="axis-titles" {font}"#));
    let below = field.bottom() + 42.0 + field.x.askew(field.width).unwrap_or_default();
    svg.text((field.left + field.width / 2.0, below), "", &across);
    let middle = field.top + field.height / 2.0;
    let turned = format!(r#"transform="rotate(-90 20 {})""#, coordinate(middle));
    svg.text((20.0, middle), &turned, &up);
    svg.close();
}
