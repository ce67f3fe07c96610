//! The median of `y` for each value of `x`, a bar for each curve, with its interval and its trials.
//!
//! A bar's length is the value only on an axis from 0. On a logarithmic or fitted axis, and where
//! values are negative, a marker replaces the bar.

use super::cells::interval_mark;
use super::dimension::{NAMES, PLOT_WIDTH, names_side};
use super::grid::{Grid, Placed};
use super::panel::Panel;
use super::summary::Summary;
use super::{against, notes, series, values};
use crate::chart::mark::{Mark, Scene, Shape, State};
use crate::figure::Scale;

/// The share of a position that its bars take.
const FILLED: f64 = 0.78;
/// Greatest width of a bar, and width from which it has room for its trials, pixels.
const WIDEST: f64 = 64.0;
const ROOMY: f64 = 12.0;

pub(super) fn scene(panel: &Panel) -> Scene {
    let grid = Grid::of(panel);
    let figure = panel.figure;
    let scale = match figure.scale {
        Scale::Linear if values(panel).any(|value| value < 0.0) => Scale::Fitted,
        scale => scale,
    };
    let (unit, title) = (figure.unit.as_ref(), figure.y_title.as_ref());
    let across = names_side(&grid.title, &grid.labels(), NAMES);
    let axes = (across, panel.y.vertical(scale, values(panel), unit, title));
    let mut scene = Scene::new(against(panel), axes, series(panel));
    let place = PLOT_WIDTH / grid.positions.len().max(1) as f64;
    let count = panel.curves.len().max(1) as f64;
    let width = (FILLED / count).min(WIDEST / place);
    let half = width / 2.0 - 1.0 / place;
    let placed: Vec<Placed> = grid.placed().collect();
    // Where a curve has no bar, the others close up.
    let (mut counts, mut before) = (
        vec![0.0; grid.positions.len()],
        vec![0.0; grid.positions.len()],
    );
    placed.iter().for_each(|it| counts[it.at] += 1.0);
    for it in &placed {
        let at = it.at as f64 + (before[it.at] - (counts[it.at] - 1.0) / 2.0) * width;
        before[it.at] += 1.0;
        if let Some(of) = Summary::of(it.point, panel.y) {
            let mark = panel.median(it, &of);
            let marker = Mark {
                at: vec![(at, of.value)],
                size: 1.6,
                ..mark.clone()
            };
            let corners = vec![(at - half, 0.0), (at + half, of.value)];
            let bar = Mark {
                shape: Shape::Bar,
                at: corners,
                ..mark
            };
            match (scale, &of.state) {
                (Scale::Linear, State::Failing(_)) => {
                    // The mark of it stands at the end of the bar.
                    let (row, tells) = (Vec::new(), String::new());
                    scene.marks.extend([
                        bar,
                        Mark {
                            row,
                            tells,
                            ..marker
                        },
                    ]);
                }
                (Scale::Linear, _) => scene.marks.push(bar),
                _ => scene.marks.push(marker),
            }
            scene.marks.extend(interval_mark(&of, at));
        }
        scene
            .marks
            .extend(trials(panel, it, (at, width), width * place >= ROOMY));
        scene.marks.extend(panel.beside(it, Some(at)));
    }
    scene.notes.extend(notes::without_value(panel, panel.y));
    scene.notes.extend(notes::bounds(panel, panel.y));
    if scale != Scale::Linear {
        let what = "Markers instead of bars: the axis does not begin at 0, so a bar's length would \
                    mean nothing.";
        scene.notes.push(what.to_owned());
    }
    scene
}

/// A dot for each trial, if there are several and there is room.
fn trials(panel: &Panel, placed: &Placed, (at, width): (f64, f64), is_roomy: bool) -> Vec<Mark> {
    let planned = f64::from(placed.point.planned.max(1));
    let trials = placed.point.trials.iter();
    let marks = trials.map(|&trial| {
        let aside = (f64::from(trial.number) + 0.5) / planned - 0.5;
        let own = at + 0.7 * width * aside;
        let mark = panel.trial(placed, trial, Some(own));
        let is_drawn = is_roomy && planned > 1.0;
        Mark {
            shape: Shape::Dot,
            at: if is_drawn { mark.at } else { Vec::new() },
            key: "a trial".to_owned(),
            ..mark
        }
    });
    marks.collect()
}
