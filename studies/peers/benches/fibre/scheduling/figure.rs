//! Draws one figure for each benchmark, after the figures in chapter 6 of T. Delisle's thesis
//! (`scheduling.rs` names the thesis).
//!
//! A figure consists of *panels*, each with its own axes. The horizontal axes show the number of
//! processors. The panels of the upper row show the throughput. The panels of the lower row show
//! the *scalability*, which is the processor time per operation. There is one column of panels for
//! each number of threads per processor.
//!
//! A *case* is a benchmark with given numbers of processors and of threads per processor. It is run
//! several times on each runtime. A mark in a panel is the median of these runs. A vertical bar
//! reaches from the least value to the greatest.
//!
//! Some runs *did not finish*: they printed no result, or their number of operations is meaningless
//! or zero. Such runs are not drawn. If there are any for a case and a runtime, a note below the
//! panels says how many.

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

/// The width of a panel, in pixels.
const PANEL_WIDTH: u32 = 420;
/// The height of a panel, in pixels.
const PANEL_HEIGHT: u32 = 300;
/// The height of the area that contains the title and the legend, in pixels.
const HEADING_HEIGHT: u32 = 66;
/// The height of a note, in pixels.
const NOTE_HEIGHT: u32 = 18;
/// The horizontal distance between two runtimes in the legend, in pixels.
const LEGEND_STEP: i32 = 90;
/// The distance of the title and of the notes from the left edge of the figure, in pixels.
const TEXT_LEFT: i32 = 16;
/// The font of all texts.
const FONT: &str = "sans-serif";
/// The marks of different runtimes at one number of processors stand side by side. This is their
/// distance, as a fraction of [`ProcessorAxis::distance`].
const MARK_STEP: f64 = 0.06;
/// The colour of the grid lines.
const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
/// The colours of the runtimes: one colour for each [`StyleNumber`]. Colour-blind readers can
/// distinguish these colours (Okabe and Ito, "Color Universal Design", 2008).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x33, 0x33, 0x33),
];

/// The number of the colour and shape with which a runtime is drawn: an index of [`COLOURS`].
type StyleNumber = usize;
/// The result of a function that draws.
type Drawn = Result<(), Box<dyn Error>>;
/// A rectangular part of the figure.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The quantity that a row of panels shows.
struct Quantity {
    name: &'static str,
    /// The label of the vertical axis.
    unit: &'static str,
    /// Returns the value of the quantity in one run. [`Line`] contains the results of the run.
    value_in: fn(&Line) -> f64,
    /// Formats a value as the label of a tick of the vertical axis.
    format_tick: fn(f64) -> String,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity {
        name: "throughput",
        unit: "operations per second",
        value_in: Line::rate,
        format_tick: format_rate,
    },
    Quantity {
        name: "scalability",
        unit: "processor time per operation",
        value_in: Line::scalability_ns,
        format_tick: format_ns,
    },
];

/// A mark and its bar: the median, the least and the greatest value of a quantity in the runs of
/// one case on one runtime.
struct Point {
    processors: usize,
    least: f64,
    median: f64,
    greatest: f64,
}

/// Draws the figure of a benchmark as an SVG file in `directory`. Returns the path of the file.
///
/// `plan` says which runs the suite makes. `cases` contains only the cases of this benchmark.
/// `trials` contains the runs of all benchmarks; a [`Trial`] is one run of a case on a runtime.
pub(crate) fn draw(
    benchmark: Benchmark,
    plan: &Plan,
    cases: &[Case],
    trials: &[Trial],
    directory: &Path,
) -> Result<PathBuf, String> {
    let path = directory.join(format!("scheduling-{}.svg", benchmark.name()));
    let trials_of_benchmark: Vec<&Trial> = trials
        .iter()
        .filter(|trial| trial.case.benchmark == benchmark)
        .collect();
    let figure = Figure {
        benchmark,
        plan,
        cases,
        runtimes: runtimes_with_styles(&trials_of_benchmark),
        trials: trials_of_benchmark,
    };
    let written = figure.write(&path);
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// The data of a figure.
struct Figure<'a> {
    benchmark: Benchmark,
    plan: &'a Plan,
    /// The cases of this benchmark.
    cases: &'a [Case],
    /// The runtimes on which this benchmark was run.
    runtimes: Vec<(StyleNumber, RuntimeKind)>,
    /// The runs of this benchmark.
    trials: Vec<&'a Trial>,
}

impl Figure<'_> {
    /// Writes the figure as an SVG file.
    fn write(&self, path: &Path) -> Drawn {
        let columns = self.plan.per_processor.len();
        let notes = self.notes();
        // The title and the legend need the width of two panels.
        let width = PANEL_WIDTH * columns.max(2) as u32;
        let body_height = PANEL_HEIGHT * QUANTITIES.len() as u32;
        // The space for one more note remains empty at the bottom.
        let height = HEADING_HEIGHT + body_height + NOTE_HEIGHT * (notes.len() as u32 + 1);
        let figure = SVGBackend::new(path, (width, height)).into_drawing_area();
        figure.fill(&WHITE)?;
        let (heading_area, below_heading) = figure.split_vertically(HEADING_HEIGHT);
        self.draw_heading(&heading_area)?;
        let (body, notes_area) = below_heading.split_vertically(body_height);
        let panel_areas = body.split_evenly((QUANTITIES.len(), columns));
        let panels = QUANTITIES.iter().flat_map(|quantity| {
            self.plan
                .per_processor
                .iter()
                .map(move |&per_processor| (quantity, per_processor))
        });
        for (area, (quantity, per_processor)) in panel_areas.iter().zip(panels) {
            self.draw_panel(area, quantity, per_processor)?;
        }
        for (number, note) in notes.iter().enumerate() {
            let note_top = (NOTE_HEIGHT * number as u32) as i32;
            let font_size = 13;
            notes_area.draw(&Text::new(
                note.as_str(),
                (TEXT_LEFT, note_top),
                (FONT, font_size),
            ))?;
        }
        figure.present()?;
        Ok(())
    }

    /// Draws the title and the legend.
    fn draw_heading(&self, area: &Area<'_>) -> Drawn {
        let title = format!(
            "{}: median of {} runs of {} s, least to greatest",
            self.benchmark.name(),
            self.plan.repeats,
            self.plan.duration.as_secs_f64()
        );
        let (title_top, title_font_size) = (12, 18);
        area.draw(&Text::new(
            title,
            (TEXT_LEFT, title_top),
            (FONT, title_font_size),
        ))?;
        let (first_mark_x, mark_y, label_font_size) = (22, 50, 14);
        for (number, &(style, runtime)) in self.runtimes.iter().enumerate() {
            let mark_x = first_mark_x + LEGEND_STEP * number as i32;
            area.draw(&mark(style, (mark_x, mark_y)))?;
            // The name of the runtime stands to the right of the mark. Its upper edge is half of
            // the font size above the centre of the mark.
            let label_corner = (mark_x + 10, mark_y - label_font_size / 2);
            area.draw(&Text::new(
                runtime.name(),
                label_corner,
                (FONT, label_font_size),
            ))?;
        }
        Ok(())
    }

    /// Draws a panel: the axes, and one curve for each runtime. All curves show the given quantity
    /// at the given number of threads per processor.
    fn draw_panel(&self, area: &Area<'_>, quantity: &Quantity, per_processor: usize) -> Drawn {
        let curves: Vec<(StyleNumber, Vec<Point>)> = self
            .runtimes
            .iter()
            .map(|&(style, runtime)| (style, self.points(quantity, per_processor, runtime)))
            .collect();
        let all_points = curves.iter().flat_map(|(_, points)| points);
        let greatest = all_points.map(|point| point.greatest).fold(0.0, f64::max);
        // The vertical axis is 8 % longer than the highest bar. Without bars, any length will do.
        let axis_end = if greatest > 0.0 { greatest * 1.08 } else { 1.0 };
        let processor_axis = ProcessorAxis::new(&self.plan.processors);
        let tick_distance = processor_axis.distance;
        let caption = format!("{}, {per_processor} per processor", quantity.name);
        // Margins, label areas and font sizes are in pixels.
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .caption(caption, (FONT, 15))
            .x_label_area_size(40)
            .y_label_area_size(72)
            .build_cartesian_2d(processor_axis, 0.0..axis_end)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .x_desc("processors")
            .y_desc(quantity.unit)
            .axis_desc_style((FONT, 13))
            .label_style((FONT, 12))
            .x_label_formatter(&|processors| format!("{processors:.0}"))
            .y_label_formatter(&|value| (quantity.format_tick)(*value))
            .draw()?;
        for (style, points) in &curves {
            // The marks of all runtimes at one number of processors stand side by side. The style
            // in the middle has no offset from the tick.
            let middle_style = (COLOURS.len() - 1) as f64 / 2.0;
            let offset = (*style as f64 - middle_style) * MARK_STEP * tick_distance;
            let x = |point: &Point| point.processors as f64 + offset;
            let colour = COLOURS[*style];
            chart.draw_series(LineSeries::new(
                points.iter().map(|point| (x(point), point.median)),
                colour.stroke_width(1),
            ))?;
            for point in points {
                let bar = [(x(point), point.least), (x(point), point.greatest)];
                chart.draw_series([PathElement::new(bar, colour.stroke_width(2))])?;
                // The size of a mark is in pixels, so the mark is drawn on `area`, not on `chart`.
                // `area` counts pixels from its own corner, `backend_coord` from the figure's.
                let in_figure = chart.backend_coord(&(x(point), point.median));
                let area_corner = area.get_base_pixel();
                let in_area = (in_figure.0 - area_corner.0, in_figure.1 - area_corner.1);
                area.draw(&mark(*style, in_area))?;
            }
        }
        Ok(())
    }

    /// The points of a runtime's curve. There is one point for each number of processors with at
    /// least one run that finished.
    fn points(
        &self,
        quantity: &Quantity,
        per_processor: usize,
        runtime: RuntimeKind,
    ) -> Vec<Point> {
        let is_in_column = |case: &&Case| case.per_processor == per_processor;
        let point = |case: &Case| {
            // `finished` returns the results of only the runs that finished.
            let lines = finished(&self.runs(*case, runtime));
            let values: Vec<f64> = lines.into_iter().map(quantity.value_in).collect();
            Some(Point {
                processors: case.processors,
                least: values.iter().copied().reduce(f64::min)?,
                median: median(&values)?,
                greatest: values.iter().copied().reduce(f64::max)?,
            })
        };
        let cases = self.cases.iter().filter(is_in_column);
        cases.filter_map(point).collect()
    }

    /// The runs of a case on a runtime.
    fn runs(&self, case: Case, runtime: RuntimeKind) -> Vec<&Trial> {
        let mut runs = runs_of(runtime, &self.trials);
        runs.retain(|trial| trial.case == case);
        runs
    }

    /// Returns the notes below the panels. Each is about the runs of one case on one runtime, and
    /// says how many of them did not finish.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for &(_, runtime) in &self.runtimes {
            for &case in self.cases {
                let runs = self.runs(case, runtime);
                let unfinished = runs.len() - finished(&runs).len();
                if unfinished > 0 {
                    notes.push(format!(
                        "{}, {} per processor, {} processors: {} of {} runs did not finish",
                        runtime.name(),
                        case.per_processor,
                        case.processors,
                        unfinished,
                        runs.len()
                    ));
                }
            }
        }
        notes
    }
}

/// Returns the runtimes on which `trials` were run. The style number of a runtime is its position
/// among all runtimes, so a runtime has the same style in all figures.
fn runtimes_with_styles(trials: &[&Trial]) -> Vec<(StyleNumber, RuntimeKind)> {
    let all_runtimes = RuntimeKind::OURS.into_iter().chain(RuntimeKind::THEIRS);
    all_runtimes
        .enumerate()
        .filter(|(_, runtime)| trials.iter().any(|trial| trial.runtime == *runtime))
        .collect()
}

/// The horizontal axis, with a tick at each number of processors.
struct ProcessorAxis {
    /// The numbers of processors, in ascending order.
    ticks: Vec<f64>,
    /// The smallest distance between two ticks.
    distance: f64,
}

impl ProcessorAxis {
    /// Creates an axis with a tick at each of the numbers in `processors`. The numbers must be in
    /// ascending order, without duplicates.
    fn new(processors: &[usize]) -> Self {
        let ticks: Vec<f64> = processors.iter().map(|&number| number as f64).collect();
        let distances = ticks.windows(2).map(|pair| pair[1] - pair[0]);
        let distance = distances.reduce(f64::min).unwrap_or(1.0);
        Self { ticks, distance }
    }
}

impl Ranged for ProcessorAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    /// The numbers at the two ends of the axis. Before the first tick and after the last there is
    /// space for the marks that stand beside the tick.
    fn range(&self) -> Range<f64> {
        let first = self.ticks.first().copied().unwrap_or(1.0);
        let last = self.ticks.last().copied().unwrap_or(first);
        first - self.distance / 2.0..last + self.distance / 2.0
    }

    /// Returns the pixel of `value`. The axis reaches from pixel `first` to pixel `last`.
    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let Range { start, end } = self.range();
        first + (f64::from(last - first) * (value - start) / (end - start)).round() as i32
    }

    /// The numbers that have a tick.
    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }
}

/// Creates the mark of a runtime at the pixel `centre`. Each runtime has its own shape, so the
/// figures can also be read without colours. All sizes are in pixels.
fn mark<'a>(style: StyleNumber, centre: (i32, i32)) -> DynElement<'a, SVGBackend<'a>, (i32, i32)> {
    let (filled, outlined) = (COLOURS[style].filled(), COLOURS[style].stroke_width(2));
    let (x, y) = centre;
    match style {
        0 => Circle::new(centre, 5, filled).into_dyn(),
        1 => Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], filled).into_dyn(),
        2 => TriangleMarker::new(centre, 6, filled).into_dyn(),
        3 => Cross::new(centre, 5, outlined).into_dyn(),
        _ => Circle::new(centre, 5, outlined).into_dyn(),
    }
}

/// Formats a number of operations per second as the label of a tick.
fn format_rate(rate: f64) -> String {
    match rate {
        ..1e3 => format!("{rate:.0}"),
        ..1e6 => format!("{:.0} k", rate / 1e3),
        ..1e7 => format!("{:.1} M", rate / 1e6),
        _ => format!("{:.0} M", rate / 1e6),
    }
}

/// Formats a time in nanoseconds as the label of a tick.
fn format_ns(ns: f64) -> String {
    match ns {
        ..1e3 => format!("{ns:.0} ns"),
        ..1e4 => format!("{:.1} µs", ns / 1e3),
        ..1e6 => format!("{:.0} µs", ns / 1e3),
        ..1e7 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.0} ms", ns / 1e6),
    }
}
