//! For each decile of latency, the share of each size class, as stacked bars.
//!
//! A series holds ten rows of equal length, the fastest decile first; each row sums to 1. The bars
//! show the mean over the trials that count.

use super::marks::row;
use super::notes;
use super::panel::Panel;
use super::point::counting;
use crate::chart::axis::{Axis, NAMES, Scale, Side};
use crate::chart::mark::{Mark, Scene, Series, Shape};
use crate::record::Unit;
use crate::units;

/// Rows of a series.
const DECILES: usize = 10;
/// Half the width of a bar, as a share of its place.
const HALF: f64 = 0.4;
/// How far from 1 a row may sum up: series may have been written with few digits.
const INEXACT: f64 = 0.005;

pub(super) fn scene(panel: &Panel) -> Scene {
    let name = panel.y.name();
    let mut fit: Vec<&[f64]> = Vec::new();
    let (mut without, mut unfit) = (0, 0);
    let (trials, state) = counting(&panel.trials().collect::<Vec<_>>(), name);
    for trial in trials {
        match trial.measured.series.get(name) {
            Some(series) if is_fit(series, fit.first().map(|it| it.len())) => fit.push(series),
            Some(_) => unfit += 1,
            None => without += 1,
        }
    }
    let classes = fit.first().map_or(0, |it| it.len() / DECILES);
    let declared = &panel.figure.classes;
    let class = |index: usize| {
        let name = declared.get(index).cloned();
        name.unwrap_or_else(|| format!("class {}", index + 1))
    };
    let series = Series::shades((0..classes).map(class).collect());
    let title = format!("{} against latency", panel.y.title().replace('_', " "));
    let mut scene = Scene::new(title, axes(panel), series);
    for decile in 0..if fit.is_empty() { 0 } else { DECILES } {
        let (number, middle, mut below) = (decile + 1, decile as f64, 0.0);
        for index in 0..classes {
            let at = decile * classes + index;
            let share = fit.iter().map(|it| it[at]).sum::<f64>() / fit.len() as f64;
            let (class, text) = (class(index), units::share(share));
            let above = f64::min(below + share, 1.0);
            let corners = [(middle - HALF, below), (middle + HALF, above)];
            let mark = Mark::new(Shape::Bar, Some(index), corners)
                .state(state.clone())
                .hint(format!("Decile {number}: {class}, {text}"))
                .tells(match number {
                    1 => format!("fastest tenth {text}"),
                    DECILES => format!("slowest tenth {text}"),
                    _ => String::new(),
                });
            scene.marks.push(mark.row(row! {
                "decile" => number, "class" => class, "share" => share, "trials" => fit.len(),
            }));
            below += share;
        }
    }
    let rows = "whose series is not ten rows of as many shares that sum to 1";
    let (named, count) = (declared.len(), fit.len());
    let trials = units::plural(count as u64, "trial");
    let cells: Vec<String> = panel.telling.iter().map(|it| it.title.clone()).collect();
    let cells = units::listed(&cells);
    let is_misnamed = named > 0 && count > 0 && named != classes;
    let notes = [
        notes::unfit(without, "without this series"),
        notes::unfit(unfit, rows),
        is_misnamed
            .then(|| format!("Names of classes: {named}; classes of the series: {classes}.")),
        (count > 1).then(|| format!("Shares are means over {trials}.")),
        (!cells.is_empty()).then(|| format!("Merged: the trials differ in {cells}.")),
    ];
    scene.notes.extend(notes.into_iter().flatten());
    scene
}

/// Whether a series is ten rows of shares, as long as the others.
fn is_fit(series: &[f64], length: Option<usize>) -> bool {
    let is_long = !series.is_empty() && series.len().is_multiple_of(DECILES);
    if !is_long || length.is_some_and(|length| length != series.len()) {
        return false;
    }
    let is_share = |share: &f64| (0.0..=1.0 + INEXACT).contains(share);
    let is_whole = |row: &[f64]| (row.iter().sum::<f64>() - 1.0).abs() <= INEXACT;
    let mut rows = series.chunks(series.len() / DECILES);
    rows.all(|row| row.iter().all(is_share) && is_whole(row))
}

fn axes(panel: &Panel) -> (Side, Side) {
    let name = |decile: usize| match decile {
        1 => "fastest".to_owned(),
        DECILES => "slowest".to_owned(),
        decile => decile.to_string(),
    };
    let names: Vec<String> = (1..=DECILES).map(name).collect();
    let axis = Axis {
        end: 1.0,
        ..Axis::over(Scale::Linear, [1.0])
    };
    let (title, unit) = (panel.figure.y_title.as_deref(), panel.figure.unit.clone());
    let (title, unit) = (
        title.unwrap_or("share of each class"),
        unit.unwrap_or_else(Unit::share),
    );
    let up = Side::of_unit(Some(&unit), None, axis, title);
    (Side::of_names("tenth of the latencies", &names, NAMES), up)
}
