//! The series `y` over time, a row for each value of `x`, as shades.
//!
//! A shade is the median over the trials that count. Long series are drawn in columns of several
//! numbers, of which it is the mean. Where no trial has a number, the paper shows.

use super::cells::row;
use super::dimension::{self, NAMES, names_side};
use super::grid::{Grid, Placed};
use super::notes;
use super::panel::Panel;
use super::summary::state;
use crate::chart::Ramp;
use crate::chart::axis::Axis;
use crate::chart::legend::{Entry, Sample};
use crate::chart::mark::{Look, Mark, Scene, Series, Shape, State};
use crate::chart::side::LABEL_SIZE;
use crate::chart::svg;
use crate::figure::Scale;
use crate::record::Unit;
use crate::{limits, units};

/// Width of the title, which is left of the labels of the rows. Pixels.
const TITLE: f64 = 38.0;
/// Height of a row, pixels, if there are few.
const ROW: f64 = 44.0;
const LEAST_HEIGHT: f64 = 90.0;

pub(super) fn scene(panel: &Panel) -> Scene {
    let (name, figure) = (panel.y.name(), panel.figure);
    let unit = figure.unit.clone().unwrap_or_else(Unit::ratio);
    let grid = Grid::of(panel);
    let rows: Vec<(Placed, Vec<Option<f64>>, bool)> = (grid.placed())
        .map(|placed| {
            let (medians, is_uneven) = medians(&placed, name);
            (placed, medians, is_uneven)
        })
        .collect();
    let longest = rows.iter().map(|row| row.1.len()).max().unwrap_or(0);
    let width = longest.div_ceil(limits::HEAT_MAP_COLUMNS).max(1);
    let columns = rows.iter().flat_map(|row| means(&row.1, width)).flatten();
    let columns: Vec<f64> = columns.collect();
    let least = columns.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let greatest = columns.iter().copied().reduce(f64::max).unwrap_or(0.0);

    let step = figure.step_s.unwrap_or(1.0);
    let end = (longest as f64 * step).max(f64::MIN_POSITIVE);
    let mut axis = Axis::over(Scale::Linear, [end]);
    axis.end = end;
    axis.labelled.retain(|&at| at <= end);
    let (title, of_time) = match figure.step_s {
        Some(_) => ("time", Unit::from("s".to_owned())),
        None => ("numbers of the series", Unit::count()),
    };
    let across = dimension::side(Some(&of_time), None, axis, title);
    let title = figure.y_title.as_deref().unwrap_or(&grid.title);
    let up = names_side(title, &grid.labels(), NAMES);
    let series = rows.iter().map(|(placed, ..)| Series {
        name: placed.position.label.clone(),
        short: String::new(),
        look: Look::Ink,
    });
    let of_title = format!("{} over time", panel.y.title());
    let mut scene = Scene::new(of_title, (across, up), series.collect());
    scene.height = (rows.len() as f64 * ROW).clamp(LEAST_HEIGHT, scene.height);
    let widest = grid
        .positions
        .iter()
        .map(|it| svg::width(&it.label, LABEL_SIZE));
    scene.left = (TITLE + widest.fold(0.0, f64::max).min(NAMES)).max(scene.left);

    for (index, (placed, medians, _)) in rows.iter().enumerate() {
        let y = placed.at as f64;
        for (column, mean) in means(medians, width).enumerate() {
            let Some(mean) = mean else { continue };
            let from = (column * width) as f64;
            let to = (from + width as f64).min(medians.len() as f64);
            let moment = match figure.step_s {
                Some(step) => units::plain(from * step) + "\u{a0}s",
                None => format!("number {}", units::plain(from + 1.0)),
            };
            let share = (mean - least) / (greatest - least).max(f64::MIN_POSITIVE);
            scene.marks.push(Mark {
                shape: Shape::Tile,
                at: vec![(from * step, y - 0.48), (to * step, y + 0.48)],
                series: Some(index),
                shade: Some(Ramp::of(share)),
                hint: format!("{}, {moment}: {}", placed.position.label, unit.words(mean)),
                ..Mark::default()
            });
        }
        scene
            .marks
            .extend(told(panel, placed, medians, index, &unit));
    }
    if !columns.is_empty() {
        let range = format!("{} to {}", unit.words(least), unit.words(greatest));
        let text = format!("{}: {range}", panel.y.title());
        scene.key.push(Entry::new(Sample::Ramp, text));
    }
    if rows
        .iter()
        .any(|row| row.1.len() < longest || row.1.contains(&None))
    {
        scene.key.push(Entry::new(Sample::None, "blank: no number"));
    }
    let without = panel
        .trials()
        .filter(|it| !it.measured.series.contains_key(name));
    scene
        .notes
        .extend(notes::unfit(without.count() as u64, "without this series"));
    let label = |row: &(Placed, Vec<Option<f64>>, bool)| row.0.position.label.clone();
    scene.note(
        "No value",
        rows.iter()
            .filter(|row| row.1.is_empty())
            .map(label)
            .collect(),
    );
    let uneven = rows.iter().filter(|row| row.2).map(label).collect();
    scene.note(
        "Series of different lengths, at whose end are fewer trials",
        uneven,
    );
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

/// The rows of the CSV, and the words on the first, least, greatest and last number.
fn told(
    panel: &Panel,
    placed: &Placed,
    medians: &[Option<f64>],
    index: usize,
    unit: &Unit,
) -> Vec<Mark> {
    let step = panel.figure.step_s;
    let x = panel.figure.x.as_deref().unwrap_or("cell");
    let row = |time: f64, median: Option<f64>| Mark {
        row: row! {
            x => placed.position.plain, step.map_or("number", |_| "time_s") => time,
            panel.y.name() => median.map(|it| it.to_string()).unwrap_or_default(),
        },
        ..Mark::default()
    };
    let time = |at: usize| step.map_or(at as f64 + 1.0, |step| at as f64 * step);
    let rows = medians
        .iter()
        .enumerate()
        .map(|(at, median)| row(time(at), *median));
    let known = || medians.iter().copied().flatten();
    let ends = [
        ("first", known().next()),
        ("least", known().reduce(f64::min)),
        ("greatest", known().reduce(f64::max)),
        ("last", known().last()),
    ];
    let tells = ends.into_iter().filter_map(|(name, value)| {
        let tells = format!("{name} {}", unit.words(value?));
        Some(Mark::told(Some(index), tells))
    });
    rows.chain(tells).collect()
}

/// The median over the trials at each time, and whether their series differ in length.
fn medians(placed: &Placed, name: &str) -> (Vec<Option<f64>>, bool) {
    let trials = placed.point.trials.iter();
    let series: Vec<&Vec<f64>> = trials
        .filter(|trial| !matches!(state(trial.measured, name), State::Grey(_)))
        .filter_map(|trial| trial.measured.series.get(name))
        .filter(|series| !series.is_empty())
        .collect();
    let lengths = || series.iter().map(|it| it.len());
    let at = |index: usize| {
        let numbers = series.iter().filter_map(|it| it.get(index).copied());
        let numbers: Vec<f64> = numbers.filter(|it| it.is_finite()).collect();
        measure::median(&numbers)
    };
    let medians = (0..lengths().max().unwrap_or(0)).map(at).collect();
    (medians, lengths().min() != lengths().max())
}

/// The means of `width` medians each.
fn means(medians: &[Option<f64>], width: usize) -> impl Iterator<Item = Option<f64>> {
    medians.chunks(width).map(|medians| {
        let known: Vec<f64> = medians.iter().copied().flatten().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    })
}
