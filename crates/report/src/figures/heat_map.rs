//! The series `y` over time, a row for each value of `x`, as shades.
//!
//! A shade is the median over the trials that count. Long series are drawn in columns of several
//! numbers, of which it is the mean. Where no trial has a number, the paper shows.

use super::cells::row;
use super::dimension::{self, NAMES, names_side};
use super::grid::{Grid, Placed};
use super::notes;
use super::panel::Panel;
use super::summary::counting;
use crate::chart::Ramp;
use crate::chart::axis::Axis;
use crate::chart::legend::Entry;
use crate::chart::mark::{Look, Mark, Scene, Series, Shape, State};
use crate::chart::side::{LABEL_SIZE, Side};
use crate::chart::svg;
use crate::figure::Scale;
use crate::record::Unit;
use crate::{limits, units};

/// Width of the title, which is left of the labels of the rows. Pixels.
const TITLE: f64 = 38.0;
/// Height of a row, pixels, if there are few.
const ROW: f64 = 44.0;
const LEAST_HEIGHT: f64 = 90.0;

/// The row of a value of `x`.
struct Row<'p, 'a> {
    placed: Placed<'p, 'a>,
    /// The median over the trials at each time.
    medians: Vec<Option<f64>>,
    /// The trials have series of different lengths.
    is_uneven: bool,
    state: State,
}

pub(super) fn scene(panel: &Panel) -> Scene {
    let (name, figure) = (panel.y.name(), panel.figure);
    let grid = Grid::of(panel);
    let rows: Vec<Row> = grid.placed().map(|it| Row::of(it, name)).collect();
    let longest = rows.iter().map(|row| row.medians.len()).max().unwrap_or(0);
    let width = longest.div_ceil(limits::HEAT_MAP_COLUMNS).max(1);
    let title = format!("{} over time", panel.y.title().replace('_', " "));
    let series = rows.iter().map(|row| Series {
        name: row.placed.position.label.clone(),
        short: String::new(),
        look: Look::Ink,
    });
    let mut scene = Scene::new(title, axes(panel, &grid, longest), series.collect());
    scene.height = (rows.len() as f64 * ROW).clamp(LEAST_HEIGHT, scene.height);
    let widest = grid
        .positions
        .iter()
        .map(|it| svg::width(&it.label, LABEL_SIZE));
    scene.left = (TITLE + widest.fold(0.0, f64::max).min(NAMES)).max(scene.left);

    let unit = figure.unit.clone().unwrap_or_else(Unit::ratio);
    let shown = || {
        rows.iter()
            .flat_map(|row| means(&row.medians, width))
            .flatten()
    };
    if let Some(range) = shown().reduce(f64::min).zip(shown().reduce(f64::max)) {
        for row in rows.iter().enumerate() {
            scene.marks.extend(tiles(panel, row, width, range, &unit));
        }
        let (least, greatest) = (unit.words(range.0), unit.words(range.1));
        let text = format!("{}: {least} to {greatest}", panel.y.title());
        scene.key.push(Entry::ramp(text));
    }
    let is_blank = |row: &Row| row.medians.len() < longest || row.medians.contains(&None);
    if rows.iter().any(is_blank) {
        scene.key.push(Entry::words("blank: no number"));
    }
    let names = |is_of: fn(&Row) -> bool| {
        let rows = rows.iter().filter(|row| is_of(row));
        rows.map(|row| row.placed.position.label.clone()).collect()
    };
    scene.note("No value", names(|row| row.medians.is_empty()));
    let uneven = "Series of different lengths, at whose end are fewer trials";
    scene.note(uneven, names(|row| row.is_uneven));
    let without = panel
        .trials()
        .filter(|it| !it.measured.series.contains_key(name));
    scene
        .notes
        .extend(notes::unfit(without.count() as u64, "without this series"));
    if panel.trials().count() > panel.points().count() {
        scene
            .notes
            .push("Shades are medians over the trials.".to_owned());
    }
    if width > 1 {
        scene
            .notes
            .push(format!("Each shade is the mean of {width} numbers."));
    }
    scene
}

/// Time along, from 0 to the end of the longest series; the values of `x` upwards.
fn axes(panel: &Panel, grid: &Grid, longest: usize) -> (Side, Side) {
    let step = panel.figure.step_s;
    let end = (longest as f64 * step.unwrap_or(1.0)).max(f64::MIN_POSITIVE);
    let mut axis = Axis::over(Scale::Linear, [end]);
    axis.end = end;
    axis.labelled.retain(|&at| at <= end);
    let (title, unit) = match step {
        Some(_) => ("time", Unit::from("s".to_owned())),
        None => ("numbers of the series", Unit::count()),
    };
    let across = dimension::side(Some(&unit), None, axis, title);
    let title = panel.figure.y_title.as_deref().unwrap_or(&grid.title);
    (across, names_side(title, &grid.labels(), NAMES))
}

/// The shades of a row, each of `width` numbers; a row of the CSV for each number; and the words on
/// the first, least, greatest and last.
fn tiles(
    panel: &Panel,
    (index, row): (usize, &Row),
    width: usize,
    (least, greatest): (f64, f64),
    unit: &Unit,
) -> Vec<Mark> {
    let (step, position) = (panel.figure.step_s, &row.placed.position);
    let (y, x) = (
        row.placed.at as f64,
        panel.figure.x.as_deref().unwrap_or("cell"),
    );
    let mut marks = Vec::new();
    for (column, mean) in means(&row.medians, width).enumerate() {
        let Some(mean) = mean else { continue };
        let from = (column * width) as f64;
        let to = (from + width as f64).min(row.medians.len() as f64);
        let moment = match step {
            Some(step) => units::plain(from * step) + "\u{a0}s",
            None => format!("number {}", units::plain(from + 1.0)),
        };
        let [from, to] = [from, to].map(|it| it * step.unwrap_or(1.0));
        let share = (mean - least) / (greatest - least).max(f64::MIN_POSITIVE);
        marks.push(Mark {
            shape: Shape::Tile,
            at: vec![(from, y - 0.48), (to, y + 0.48)],
            series: Some(index),
            state: row.state.clone(),
            shade: Some(Ramp::of(share)),
            hint: format!("{}, {moment}: {}", position.label, unit.words(mean)),
            ..Mark::default()
        });
    }
    for (at, median) in row.medians.iter().enumerate() {
        let time = step.map_or(at as f64 + 1.0, |step| at as f64 * step);
        let median = median.map(|it| it.to_string()).unwrap_or_default();
        let row = row! {
            x => position.plain, step.map_or("number", |_| "time_s") => time,
            panel.y.name() => median,
        };
        marks.push(Mark {
            row,
            ..Mark::default()
        });
    }
    let known = || row.medians.iter().copied().flatten();
    for (name, value) in [
        ("first", known().next()),
        ("least", known().reduce(f64::min)),
        ("greatest", known().reduce(f64::max)),
        ("last", known().last()),
    ] {
        let tells = value.map(|value| format!("{name} {}", unit.words(value)));
        marks.extend(tells.map(|tells| Mark::told(Some(index), tells)));
    }
    marks
}

impl<'p, 'a> Row<'p, 'a> {
    fn of(placed: Placed<'p, 'a>, name: &str) -> Self {
        let (trials, state) = counting(&placed.point.trials, name);
        let series = trials
            .iter()
            .filter_map(|trial| trial.measured.series.get(name));
        let series: Vec<&Vec<f64>> = series.filter(|series| !series.is_empty()).collect();
        let lengths = || series.iter().map(|it| it.len());
        let at = |index: usize| {
            let numbers = series.iter().filter_map(|it| it.get(index).copied());
            let numbers: Vec<f64> = numbers.filter(|it| it.is_finite()).collect();
            measure::median(&numbers)
        };
        Self {
            placed,
            medians: (0..lengths().max().unwrap_or(0)).map(at).collect(),
            is_uneven: lengths().min() != lengths().max(),
            state,
        }
    }
}

/// The means of `width` medians each.
fn means(medians: &[Option<f64>], width: usize) -> impl Iterator<Item = Option<f64>> {
    medians.chunks(width).map(|medians| {
        let known: Vec<f64> = medians.iter().copied().flatten().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    })
}
