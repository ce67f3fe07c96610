//! Draws the figures of chapter 6 of T. Delisle's thesis (`scheduling.rs`). There is one figure for
//! each benchmark. Its upper row of panels shows the throughput against the number of processors,
//! its lower row the *scalability*, which is the processor time per operation. There is one column
//! of panels for each number of threads per processor.
//!
//! A mark is the median of the repeats; a bar reaches from the least value to the greatest. Runs
//! that did not finish have no meaningful rate, so they are not drawn. A note below the figure
//! names them.

use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};

use measure::median;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use crate::benchmark::{Benchmark, Line, RuntimeKind};
use crate::suite::{Case, Plan, Trial};
use crate::summary::{finished, runs_of};

// Sizes in pixels: width and height of a panel, height of the heading and of a note, and the
// distance between two entries of the legend.
const PANEL: (u32, u32) = (420, 300);
const HEADING: u32 = 66;
const NOTE: u32 = 18;
const LEGEND_STEP: i32 = 90;
/// The horizontal distance between the marks of two runtimes at the same number of processors. The
/// unit is the smallest distance between two ticks of the axis.
const MARK_STEP: f64 = 0.06;
const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
/// The colours of the runtimes, which colour-blind readers can distinguish (Okabe and Ito, "Color
/// Universal Design", 2008).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x33, 0x33, 0x33),
];

/// The result of a function that draws.
type Drawn = Result<(), Box<dyn Error>>;
/// A rectangular part of the figure.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The quantity that a row of panels shows.
struct Quantity {
    name: &'static str,
    /// The label of the vertical axis.
    unit: &'static str,
    /// Returns the value of a run.
    of: fn(&Line) -> f64,
    /// Formats a value for the label of a tick.
    tick: fn(f64) -> String,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity {
        name: "throughput",
        unit: "operations per second",
        of: Line::rate,
        tick: count,
    },
    Quantity {
        name: "scalability",
        unit: "processor time per operation",
        of: Line::scalability_ns,
        tick: time,
    },
];

/// A summary of the runs of a runtime at one number of processors.
struct Point {
    processors: usize,
    least: f64,
    median: f64,
    greatest: f64,
}

/// Draws the figure of a benchmark. `cases` are the cases of that benchmark. Returns the path of
/// the file.
pub(crate) fn draw(
    benchmark: Benchmark,
    plan: &Plan,
    cases: &[Case],
    trials: &[Trial],
    directory: &Path,
) -> Result<PathBuf, String> {
    let path = directory.join(format!("scheduling-{}.svg", benchmark.name()));
    let of_benchmark: Vec<&Trial> = trials
        .iter()
        .filter(|trial| trial.case.benchmark == benchmark)
        .collect();
    let figure = Figure {
        benchmark,
        plan,
        cases,
        runtimes: runtimes(&of_benchmark),
        trials: of_benchmark,
    };
    let drawn = figure.write(&path);
    drawn.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// The data of a figure.
struct Figure<'a> {
    benchmark: Benchmark,
    plan: &'a Plan,
    cases: &'a [Case],
    /// The runtimes that were run, each with the number of its style ([`mark`], [`COLOURS`]).
    runtimes: Vec<(usize, RuntimeKind)>,
    trials: Vec<&'a Trial>,
}

impl Figure<'_> {
    /// Writes the figure as an SVG file.
    fn write(&self, path: &Path) -> Drawn {
        let columns = self.plan.per_processor.len();
        let notes = self.notes();
        let width = PANEL.0 * columns.max(2) as u32;
        let height = HEADING + PANEL.1 * QUANTITIES.len() as u32 + NOTE * (notes.len() as u32 + 1);
        let root = SVGBackend::new(path, (width, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let (heading, rest) = root.split_vertically(HEADING);
        self.head(&heading)?;
        let (body, foot) = rest.split_vertically(PANEL.1 * QUANTITIES.len() as u32);
        let panels = body.split_evenly((QUANTITIES.len(), columns));
        let contents = QUANTITIES.iter().flat_map(|quantity| {
            self.plan
                .per_processor
                .iter()
                .map(move |&per_processor| (quantity, per_processor))
        });
        for (panel, (quantity, per_processor)) in panels.iter().zip(contents) {
            self.panel(panel, quantity, per_processor)?;
        }
        for (number, note) in notes.iter().enumerate() {
            foot.draw(&Text::new(
                note.as_str(),
                (16, (NOTE * number as u32) as i32),
                ("sans-serif", 13),
            ))?;
        }
        root.present()?;
        Ok(())
    }

    /// Draws the title and the legend.
    fn head(&self, area: &Area<'_>) -> Drawn {
        let title = format!(
            "{}: median of {} runs of {} s, least to greatest",
            self.benchmark.name(),
            self.plan.repeats,
            self.plan.duration.as_secs_f64()
        );
        area.draw(&Text::new(title, (16, 12), ("sans-serif", 18)))?;
        for (position, &(style, runtime)) in self.runtimes.iter().enumerate() {
            let at = (22 + LEGEND_STEP * position as i32, 50);
            area.draw(&mark(style, at))?;
            let beside = (at.0 + 10, at.1 - 7);
            area.draw(&Text::new(runtime.name(), beside, ("sans-serif", 14)))?;
        }
        Ok(())
    }

    /// Draws the curves of one quantity at one number of threads per processor.
    fn panel(&self, area: &Area<'_>, quantity: &Quantity, per_processor: usize) -> Drawn {
        let curves: Vec<(usize, Vec<Point>)> = self
            .runtimes
            .iter()
            .map(|&(style, runtime)| (style, self.points(quantity, per_processor, runtime)))
            .collect();
        let points = || curves.iter().flat_map(|(_, points)| points);
        let top = points().map(|point| point.greatest).fold(0.0, f64::max);
        // Leaves some space above the highest bar.
        let top = if top > 0.0 { top * 1.08 } else { 1.0 };
        let axis = ProcessorAxis::new(&self.plan.processors);
        let distance = axis.distance;
        let caption = format!("{}, {per_processor} per processor", quantity.name);
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .caption(caption, ("sans-serif", 15))
            .x_label_area_size(40)
            .y_label_area_size(72)
            .build_cartesian_2d(axis, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .x_desc("processors")
            .y_desc(quantity.unit)
            .axis_desc_style(("sans-serif", 13))
            .label_style(("sans-serif", 12))
            .x_label_formatter(&|at| format!("{at:.0}"))
            .y_label_formatter(&|at| (quantity.tick)(*at))
            .draw()?;
        for (style, points) in &curves {
            // The marks of the runtimes stand side by side, centred on the tick.
            let offset = (*style as f64 - (COLOURS.len() - 1) as f64 / 2.0) * MARK_STEP * distance;
            let at = |point: &Point| point.processors as f64 + offset;
            let colour = COLOURS[*style];
            chart.draw_series(LineSeries::new(
                points.iter().map(|point| (at(point), point.median)),
                colour.stroke_width(1),
            ))?;
            for point in points {
                let bar = [(at(point), point.least), (at(point), point.greatest)];
                chart.draw_series([PathElement::new(bar, colour.stroke_width(2))])?;
                // A mark has a size in pixels, so it is drawn on `area`, in pixels from its corner.
                let pixel = chart.backend_coord(&(at(point), point.median));
                let (from_left, from_top) = area.get_base_pixel();
                area.draw(&mark(*style, (pixel.0 - from_left, pixel.1 - from_top)))?;
            }
        }
        Ok(())
    }

    /// The points of a curve, one for each number of processors at which a run finished.
    fn points(
        &self,
        quantity: &Quantity,
        per_processor: usize,
        runtime: RuntimeKind,
    ) -> Vec<Point> {
        let of_size = |case: &&Case| case.per_processor == per_processor;
        let at = |case: &Case| {
            let lines = finished(&self.runs(*case, runtime));
            let values: Vec<f64> = lines.into_iter().map(quantity.of).collect();
            Some(Point {
                processors: case.processors,
                least: values.iter().copied().reduce(f64::min)?,
                median: median(&values)?,
                greatest: values.iter().copied().reduce(f64::max)?,
            })
        };
        self.cases.iter().filter(of_size).filter_map(at).collect()
    }

    /// The runs of a case on a runtime.
    fn runs(&self, case: Case, runtime: RuntimeKind) -> Vec<&Trial> {
        let mut runs = runs_of(runtime, &self.trials);
        runs.retain(|trial| trial.case == case);
        runs
    }

    /// The notes below the figure: the cases in which runs did not finish.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for &(_, runtime) in &self.runtimes {
            for &case in self.cases {
                let runs = self.runs(case, runtime);
                let missing = runs.len() - finished(&runs).len();
                if missing > 0 {
                    notes.push(format!(
                        "{}, {} per processor, {} processors: {missing} of {} runs did not finish",
                        runtime.name(),
                        case.per_processor,
                        case.processors,
                        runs.len()
                    ));
                }
            }
        }
        notes
    }
}

/// Returns the runtimes that were run, each with the number of its style (colour and shape of
/// marks).
fn runtimes(trials: &[&Trial]) -> Vec<(usize, RuntimeKind)> {
    let all = RuntimeKind::OURS.into_iter().chain(RuntimeKind::THEIRS);
    all.enumerate()
        .filter(|(_, runtime)| trials.iter().any(|trial| trial.runtime == *runtime))
        .collect()
}

/// The horizontal axis, with a tick at each number of processors.
struct ProcessorAxis {
    ticks: Vec<f64>,
    /// The smallest distance between two ticks.
    distance: f64,
}

impl ProcessorAxis {
    /// Creates an axis for these numbers, which are in ascending order and all different.
    fn new(processors: &[usize]) -> Self {
        let ticks: Vec<f64> = processors.iter().map(|&it| it as f64).collect();
        let distances = ticks.windows(2).map(|pair| pair[1] - pair[0]);
        let distance = distances.reduce(f64::min).unwrap_or(1.0);
        Self { ticks, distance }
    }
}

impl Ranged for ProcessorAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn range(&self) -> Range<f64> {
        let first = self.ticks.first().copied().unwrap_or(1.0);
        let last = self.ticks.last().copied().unwrap_or(first);
        first - self.distance / 2.0..last + self.distance / 2.0
    }

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let Range { start, end } = self.range();
        from + (f64::from(to - from) * (value - start) / (end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }
}

/// Returns the mark of a runtime. Each runtime has a shape of its own, so that the figures can be
/// read without colours, too.
fn mark<'a>(style_number: usize, at: (i32, i32)) -> DynElement<'a, SVGBackend<'a>, (i32, i32)> {
    let style = COLOURS[style_number].filled();
    match style_number {
        0 => Circle::new(at, 5, style).into_dyn(),
        1 => Rectangle::new([(at.0 - 4, at.1 - 4), (at.0 + 4, at.1 + 4)], style).into_dyn(),
        2 => TriangleMarker::new(at, 6, style).into_dyn(),
        3 => Cross::new(at, 5, COLOURS[style_number].stroke_width(2)).into_dyn(),
        _ => Circle::new(at, 5, COLOURS[style_number].stroke_width(2)).into_dyn(),
    }
}

/// Formats a number of operations for the label of a tick.
fn count(value: f64) -> String {
    match value {
        ..1e3 => format!("{value:.0}"),
        ..1e6 => format!("{:.0} k", value / 1e3),
        ..1e7 => format!("{:.1} M", value / 1e6),
        _ => format!("{:.0} M", value / 1e6),
    }
}

/// Formats a time for the label of a tick.
fn time(ns: f64) -> String {
    match ns {
        ..1e3 => format!("{ns:.0} ns"),
        ..1e4 => format!("{:.1} µs", ns / 1e3),
        ..1e6 => format!("{:.0} µs", ns / 1e3),
        ..1e7 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.0} ms", ns / 1e6),
    }
}
