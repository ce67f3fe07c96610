//! The legend, above the plot so that it covers no data. Its entries are what the marks show: the
//! series, the shapes that need words, and the states.

use std::mem::discriminant;

use super::mark::{Entry, Line, Look, Mark, Scene, Shape, State};
use super::palette::{INK, Ramp};
use super::svg::{Svg, WIDTH, width};
use super::symbols::draw_one;
use crate::{limits, units};

const ROW: f64 = 20.0;
const SIZE: f64 = 12.5;
const LEFT: f64 = 16.0;
const SAMPLE: f64 = 30.0;
const GAP: f64 = 18.0;

impl Entry {
    fn width(&self) -> f64 {
        match self.marks.len() {
            // Without the space before the words.
            0 => -6.0,
            Ramp::STEPS => Ramp::WIDTH * Ramp::STEPS as f64,
            _ => SAMPLE,
        }
    }
}

/// The legend of a figure: entries with their places, from the left edge and from the top.
#[derive(Debug, Default)]
pub(crate) struct Legend {
    entries: Vec<(Entry, f64, usize)>,
    rows: usize,
}

impl Legend {
    pub(super) fn of(scene: &Scene) -> Self {
        let mut legend = Self::default();
        for part in [series(scene), keys(scene), scene.key.clone()] {
            legend.rows_of(part);
        }
        legend
    }

    /// Its height, pixels.
    pub(super) fn height(&self) -> f64 {
        self.rows as f64 * ROW + 14.0
    }

    /// Starts a new row and fills rows with as many entries as fit.
    fn rows_of(&mut self, entries: Vec<Entry>) {
        let mut x = LEFT;
        for entry in entries {
            let wide = entry.width() + 6.0 + width(&entry.text, SIZE);
            if x > LEFT && x + wide > WIDTH - LEFT {
                x = LEFT;
                self.rows += 1;
            }
            self.entries.push((entry, x, self.rows));
            x += wide + GAP;
        }
        self.rows += usize::from(x > LEFT);
    }

    pub(super) fn draw(&self, svg: &mut Svg, top: f64) {
        svg.group(r#"class="legend""#);
        for (entry, x, row) in &self.entries {
            let middle = top + *row as f64 * ROW + ROW / 2.0;
            svg.group(&format!(r#"class="{}""#, entry.look.class()));
            for mark in &entry.marks {
                draw_one(svg, mark, entry.look, &places(mark, *x, middle), true);
            }
            svg.close();
            let at = (x + entry.width() + 6.0, middle + 4.3);
            let font = format!(r#"font-size="12.5" fill="{INK}""#);
            svg.text(at, &font, &entry.text);
        }
        svg.close();
    }
}

/// Where the points of a sample are, in pixels.
fn places(mark: &Mark, x: f64, y: f64) -> Vec<(f64, f64)> {
    let centre = x + SAMPLE / 2.0;
    match mark.shape {
        Shape::Line(_) => vec![(x, y), (x + SAMPLE, y)],
        Shape::Band => {
            let (end, top, bottom) = (x + SAMPLE, y - 6.0, y + 6.0);
            vec![(x, top), (end, top), (end, bottom), (x, bottom)]
        }
        Shape::Bar => vec![(x + 7.0, y + 7.0), (x + 23.0, y - 7.0)],
        Shape::Tile => {
            let x = x + mark.aside;
            vec![(x, y + 6.0), (x + Ramp::WIDTH, y - 6.0)]
        }
        Shape::Interval => vec![(centre, y + 6.0), (centre, y - 6.0)],
        Shape::Point | Shape::Dot | Shape::Ring(_) | Shape::Words(_) => {
            vec![(centre, if mark.bound { y + 4.0 } else { y })]
        }
    }
}

/// A mark as a symbol: without values.
fn sample(mark: &Mark) -> Mark {
    let size = match mark.shape {
        Shape::Interval => 1.0,
        Shape::Ring(_) => 0.75,
        _ => mark.size.min(1.5),
    };
    Mark::new(mark.shape.clone(), None, []).size(size)
}

/// The series that have marks, each as it is drawn.
fn series(scene: &Scene) -> Vec<Entry> {
    let mut samples: Vec<Vec<Mark>> = vec![Vec::new(); scene.series.len()];
    for mark in scene.marks.iter().filter(|mark| !mark.at.is_empty()) {
        let is_kept = match mark.shape {
            Shape::Line(line) => line != Line::PUBLISHED,
            Shape::Bar | Shape::Point => true,
            _ => false,
        };
        let series = mark.series.filter(|_| is_kept);
        let Some(own) = series.and_then(|index| samples.get_mut(index)) else {
            continue;
        };
        let is_same = |it: &Mark| discriminant(&it.shape) == discriminant(&mark.shape);
        if !own.iter().any(is_same) {
            own.push(sample(mark));
        }
    }
    let mut entries = Vec::new();
    for (series, mut marks) in scene.series.iter().zip(samples) {
        // Bars have the marker of their series already.
        if marks.iter().any(|it| it.shape == Shape::Bar) {
            marks.retain(|it| it.shape == Shape::Bar);
        }
        if !series.short.is_empty() && !marks.is_empty() {
            entries.push(Entry::new(series.look, marks, &series.short));
        }
    }
    let more = entries.len().saturating_sub(limits::LEGEND_ENTRIES) as u64;
    entries.truncate(limits::LEGEND_ENTRIES);
    entries.extend((more > 0).then(|| {
        let others = units::plural(more, "other");
        Entry::words(format!("and {others}, which the CSV has"))
    }));
    entries
}

/// The words of shapes, and the states.
fn keys(scene: &Scene) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut push = |text: &str, mark: Mark| {
        if !entries.iter().any(|it| it.text == text) {
            entries.push(Entry::new(Look::Ink, vec![mark], text));
        }
    };
    let drawn = || scene.marks.iter().filter(|mark| !mark.at.is_empty());
    for mark in drawn().filter(|mark| !mark.key.is_empty()) {
        push(&mark.key, sample(mark));
    }
    let plain = || Mark::new(Shape::Point, None, []);
    for mark in drawn() {
        let text = match &mark.state {
            State::Counts => "",
            State::Grey(_) => "does not count",
            State::Failing(_) => "fails here",
            State::Missing(_) => "missing",
            State::Published(_) => "published",
        };
        let is_marker = matches!(mark.shape, Shape::Point | Shape::Dot | Shape::Bar);
        if is_marker && !text.is_empty() {
            push(text, plain().state(mark.state.clone()));
        }
        if mark.bound || mark.bound_x {
            push("lower bound", plain().bound(true));
        }
    }
    entries
}
