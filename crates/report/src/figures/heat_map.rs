//! The series `y` over time, a row for each value of `x`, as shades.
//!
//! A shade is the median over the trials that count. Long series are drawn in columns of several
//! numbers, of which it is the mean. Where no trial has a number, the paper shows.

use super::dimension::range;
use super::marks::row;
use super::notes;
use super::panel::Panel;
use super::point::{Point, counting};
use crate::chart::axis::{Axis, NAMES, Scale, Side, widest};
use crate::chart::mark::{Entry, Look, Mark, Scene, Series, Shape, State};
use crate::chart::palette::Ramp;
use crate::record::Unit;
use crate::{limits, units};

/// Width of the title, which is left of the labels of the rows. Pixels.
const TITLE: f64 = 38.0;
/// Height of a row, pixels, if there are few.
const ROW: f64 = 44.0;
const LEAST_HEIGHT: f64 = 90.0;

/// The row of a value of `x`.
struct Row<'p, 'a> {
    index: usize,
    point: &'p Point<'a>,
    label: &'p str,
    /// The median over the trials at each time.
    medians: Vec<Option<f64>>,
    /// The trials have series of different lengths.
    is_uneven: bool,
    state: State,
}

pub(super) fn scene(panel: &Panel) -> Scene {
    let (name, figure) = (panel.y.name(), panel.figure);
    let rows = panel.points().enumerate();
    let rows: Vec<Row> = rows.map(|it| Row::of(panel, it)).collect();
    let longest = rows.iter().map(|row| row.medians.len()).max().unwrap_or(0);
    let width = longest.div_ceil(limits::HEAT_MAP_COLUMNS).max(1);
    let title = format!("{} over time", panel.y.title().replace('_', " "));
    let series = |row: &Row| Series::new(row.label.to_owned(), String::new(), Look::Ink);
    let series = rows.iter().map(series).collect();
    let mut scene = Scene::new(title, axes(panel, longest), series);
    scene.height = (rows.len() as f64 * ROW).clamp(LEAST_HEIGHT, scene.height);
    scene.left = (TITLE + widest(&panel.slots).min(NAMES)).max(scene.left);

    let unit = figure.unit.clone().unwrap_or_else(Unit::ratio);
    let means = rows.iter().flat_map(|row| means(&row.medians, width));
    if let Some(ends) = range(means.flatten()) {
        for row in &rows {
            scene.marks.extend(tiles(panel, row, width, ends, &unit));
            scene.marks.extend(told(panel, row, &unit));
        }
        let (least, greatest) = (unit.words(ends.0), unit.words(ends.1));
        let text = format!("{}: {least} to {greatest}", panel.y.title());
        scene.key.push(Entry::ramp(text));
    }
    let is_blank = |row: &Row| row.medians.len() < longest || row.medians.contains(&None);
    if rows.iter().any(is_blank) {
        scene.key.push(Entry::words("blank: no number"));
    }
    let names = |is_of: fn(&&Row) -> bool| {
        let rows = rows.iter().filter(is_of);
        rows.map(|row| row.label.to_owned()).collect()
    };
    scene.note("No value", names(|row| row.medians.is_empty()));
    let uneven = "Series of different lengths, at whose end are fewer trials";
    scene.note(uneven, names(|row| row.is_uneven));
    let without = panel
        .trials()
        .filter(|it| !it.measured.series.contains_key(name));
    let is_of_many = panel.trials().count() > panel.points().count();
    let without = notes::unfit(without.count() as u64, "without this series");
    scene.notes.extend(without);
    scene.say_if(is_of_many, "Shades are medians over the trials.");
    let means = format!("Each shade is the mean of {width} numbers.");
    scene.say_if(width > 1, &means);
    scene
}

/// Time along, from 0 to the end of the longest series; the values of `x` upwards.
fn axes(panel: &Panel, longest: usize) -> (Side, Side) {
    let step = panel.figure.step_s;
    let end = (longest as f64 * step.unwrap_or(1.0)).max(f64::MIN_POSITIVE);
    let mut axis = Axis::over(Scale::Linear, [end]);
    axis.end = end;
    axis.labelled.retain(|&at| at <= end);
    let (title, unit) = match step {
        Some(_) => ("time", Unit::from("s".to_owned())),
        None => ("numbers of the series", Unit::count()),
    };
    let across = Side::of_unit(Some(&unit), None, axis, title);
    let title = panel.figure.y_title.clone();
    let title = title.unwrap_or_else(|| panel.slots_title());
    (across, Side::of_names(&title, &panel.slots, NAMES))
}

/// The shades of a row, each of `width` numbers.
fn tiles(
    panel: &Panel,
    row: &Row,
    width: usize,
    (least, greatest): (f64, f64),
    unit: &Unit,
) -> Vec<Mark> {
    let step = panel.figure.step_s;
    let y = row.point.slot as f64;
    let tile = |(column, mean): (usize, Option<f64>)| {
        let mean = mean?;
        let from = (column * width) as f64;
        let to = (from + width as f64).min(row.medians.len() as f64);
        let moment = match step {
            Some(step) => units::plain(from * step) + "\u{a0}s",
            None => format!("number {}", units::plain(from + 1.0)),
        };
        let [from, to] = [from, to].map(|it| it * step.unwrap_or(1.0));
        let share = (mean - least) / (greatest - least).max(f64::MIN_POSITIVE);
        let tile = Mark::new(
            Shape::Tile,
            Some(row.index),
            [(from, y - 0.48), (to, y + 0.48)],
        );
        let tile = tile.state(row.state.clone()).shade(Some(Ramp::of(share)));
        Some(tile.hint(format!("{}, {moment}: {}", row.label, unit.words(mean))))
    };
    means(&row.medians, width)
        .enumerate()
        .filter_map(tile)
        .collect()
}

/// A row of the CSV for each number, and the words on the first, least, greatest and last.
fn told(panel: &Panel, row: &Row, unit: &Unit) -> Vec<Mark> {
    let (step, x) = (panel.figure.step_s, panel.x_cell(row.point, row.point.at));
    let number = |(at, median): (usize, &Option<f64>)| {
        let time = step.map_or(at as f64 + 1.0, |step| at as f64 * step);
        let median = median.map(|it| it.to_string()).unwrap_or_default();
        Mark::new(Shape::Point, None, []).row(row! {
            panel.x_name() => x, step.map_or("number", |_| "time_s") => time,
            panel.y.name() => median,
        })
    };
    let known = || row.medians.iter().copied().flatten();
    let ends = [
        ("first", known().next()),
        ("least", known().reduce(f64::min)),
        ("greatest", known().reduce(f64::max)),
        ("last", known().last()),
    ];
    let end = |(name, value): (&str, Option<f64>)| {
        let words = format!("{name} {}", unit.words(value?));
        Some(Mark::told(row.index, words))
    };
    let numbers = row.medians.iter().enumerate().map(number);
    numbers.chain(ends.into_iter().filter_map(end)).collect()
}

impl<'p, 'a> Row<'p, 'a> {
    fn of(panel: &'p Panel, (index, point): (usize, &'p Point<'a>)) -> Self {
        let name = panel.y.name();
        let (trials, state) = counting(&point.trials, name);
        let series = trials.iter().filter_map(|it| it.measured.series.get(name));
        let series: Vec<&Vec<f64>> = series.filter(|series| !series.is_empty()).collect();
        let lengths = || series.iter().map(|it| it.len());
        let at = |index: usize| {
            let numbers = series.iter().filter_map(|it| it.get(index).copied());
            let numbers: Vec<f64> = numbers.filter(|it| it.is_finite()).collect();
            measure::median(&numbers)
        };
        Self {
            index,
            point,
            label: &panel.slots[point.slot],
            medians: (0..lengths().max().unwrap_or(0)).map(at).collect(),
            is_uneven: lengths().min() != lengths().max(),
            state,
        }
    }
}

/// The means of `width` medians each.
fn means(medians: &[Option<f64>], width: usize) -> impl Iterator<Item = Option<f64>> + Clone {
    medians.chunks(width).map(|medians| {
        let known: Vec<f64> = medians.iter().copied().flatten().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    })
}
