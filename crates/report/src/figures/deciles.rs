//! For each decile of latency, the share of each size class, as stacked bars.
//!
//! A series holds ten rows of equal length, the fastest decile first; each row sums to 1. The bars
//! show the mean over the trials that count.

use super::cells::row;
use super::dimension::{self, NAMES, names_side};
use super::panel::Panel;
use super::summary::counting;
use super::{notes, shortened};
use crate::chart::Ramp;
use crate::chart::axis::Axis;
use crate::chart::mark::{Look, Mark, Scene, Series, Shape};
use crate::chart::side::Side;
use crate::figure::Scale;
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
    let named = panel.figure.classes.len();
    let class = |index: usize| {
        let name = panel.figure.classes.get(index);
        name.cloned()
            .unwrap_or_else(|| format!("class {}", index + 1))
    };
    // Classes are ordered, and so are shades.
    let last = classes.saturating_sub(1).max(1) as f64;
    let series = (0..classes).map(|index| Series {
        name: class(index),
        short: shortened(&class(index)),
        look: Look::Shade(Ramp::of(index as f64 / last)),
    });
    let title = format!("{} against latency", panel.y.title().replace('_', " "));
    let mut scene = Scene::new(title, axes(panel), series.collect());
    for decile in 0..if fit.is_empty() { 0 } else { DECILES } {
        let mut below = 0.0;
        for index in 0..classes {
            let at = decile * classes + index;
            let share = fit.iter().map(|it| it[at]).sum::<f64>() / fit.len() as f64;
            let (middle, number) = (decile as f64, decile + 1);
            let text = units::share(share);
            let is_end = decile == 0 || number == DECILES;
            scene.marks.push(Mark {
                shape: Shape::Bar,
                at: vec![
                    (middle - HALF, below),
                    (middle + HALF, (below + share).min(1.0)),
                ],
                series: Some(index),
                state: state.clone(),
                hint: format!("Decile {number}: {}, {text}", class(index)),
                tells: match is_end {
                    true if decile == 0 => format!("fastest tenth {text}"),
                    true => format!("slowest tenth {text}"),
                    false => String::new(),
                },
                row: row! {
                    "decile" => number, "class" => class(index), "share" => share,
                    "trials" => fit.len(),
                },
                ..Mark::default()
            });
            below += share;
        }
    }
    let rows = "whose series is not ten rows of as many shares that sum to 1";
    scene
        .notes
        .extend(notes::unfit(without, "without this series"));
    scene.notes.extend(notes::unfit(unfit, rows));
    if named > 0 && !fit.is_empty() && named != classes {
        scene.notes.push(format!(
            "Names of classes: {named}; classes of the series: {classes}."
        ));
    }
    if fit.len() > 1 {
        let trials = units::plural(fit.len() as u64, "trial");
        scene.notes.push(format!("Shares are means over {trials}."));
    }
    let cells: Vec<String> = panel.telling.iter().map(|it| it.title.clone()).collect();
    if !cells.is_empty() {
        let cells = units::listed(&cells);
        scene
            .notes
            .push(format!("Merged: the trials differ in {cells}."));
    }
    scene
}

/// Whether a series is ten rows of shares, as long as the others.
fn is_fit(series: &[f64], length: Option<usize>) -> bool {
    let is_long = !series.is_empty() && series.len().is_multiple_of(DECILES);
    if !is_long || length.is_some_and(|length| length != series.len()) {
        return false;
    }
    let mut rows = series.chunks(series.len() / DECILES);
    rows.all(|row| {
        let are_shares = row
            .iter()
            .all(|share| (0.0..=1.0 + INEXACT).contains(share));
        are_shares && (row.iter().sum::<f64>() - 1.0).abs() <= INEXACT
    })
}

fn axes(panel: &Panel) -> (Side, Side) {
    let name = |decile: usize| match decile {
        1 => "fastest".to_owned(),
        DECILES => "slowest".to_owned(),
        decile => decile.to_string(),
    };
    let names: Vec<String> = (1..=DECILES).map(name).collect();
    let across = names_side("tenth of the latencies", &names, NAMES);
    let mut axis = Axis::over(Scale::Linear, [1.0]);
    axis.end = 1.0;
    let title = panel.figure.y_title.clone();
    let title = title.unwrap_or_else(|| "share of each class".to_owned());
    let unit = panel.figure.unit.clone().unwrap_or_else(Unit::share);
    (across, dimension::side(Some(&unit), None, axis, &title))
}
