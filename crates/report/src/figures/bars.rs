//! The median of `y` for each value of `x`, a bar for each curve, with its interval and its trials.
//!
//! A bar's length is the value only on an axis from 0. On a logarithmic or fitted axis, and where
//! values are negative, a marker replaces the bar.

use super::marks::interval_mark;
use super::notes;
use super::panel::Panel;
use super::point::Summary;
use crate::chart::axis::{PLOT_WIDTH, Scale};
use crate::chart::mark::{Scene, Shape, State};

/// The share of a position that its bars take.
const FILLED: f64 = 0.78;
/// Greatest width of a bar, and width from which it has room for its trials, pixels.
const WIDEST: f64 = 64.0;
const ROOMY: f64 = 12.0;

pub(super) fn scene(panel: &Panel) -> Scene {
    let scale = match panel.figure.scale {
        Scale::Linear if panel.values().iter().any(|it| *it < 0.0) => Scale::Fitted,
        scale => scale,
    };
    let axes = (panel.slots_side(), panel.vertical(scale, panel.values()));
    let mut scene = Scene::new(panel.against(), axes, panel.series());
    let count = panel.slots.len();
    let place = PLOT_WIDTH / count.max(1) as f64;
    let width = (FILLED / panel.curves.len().max(1) as f64).min(WIDEST / place);
    let half = width / 2.0 - 1.0 / place;
    // Where a curve has no bar, the others close up.
    let (mut counts, mut before) = (vec![0.0; count], vec![0.0; count]);
    panel.points().for_each(|it| counts[it.slot] += 1.0);
    for point in panel.points() {
        let slot = point.slot;
        let at = slot as f64 + (before[slot] - (counts[slot] - 1.0) / 2.0) * width;
        before[slot] += 1.0;
        if let Some(of) = Summary::of(point, panel.y) {
            let mark = panel.median(point, point.at, &of);
            let marker = mark.clone().at([(at, of.value)]).size(1.6);
            if scale == Scale::Linear {
                let corners = [(at - half, 0.0), (at + half, of.value)];
                scene.marks.push(mark.shape(Shape::Bar).at(corners));
                // The mark of a failure stands at the end of the bar.
                let is_failing = matches!(of.state, State::Failing(_));
                scene.marks.extend(is_failing.then(|| marker.untold()));
            } else {
                scene.marks.push(marker);
            }
            scene.add(interval_mark(&of, at));
        }
        let planned = f64::from(point.planned.max(1));
        let is_drawn = planned > 1.0 && width * place >= ROOMY;
        for &trial in &point.trials {
            let aside = (f64::from(trial.number) + 0.5) / planned - 0.5;
            let own = is_drawn.then_some(at + 0.7 * width * aside);
            let mark = panel.trial(point, trial, point.at, own);
            scene.marks.push(mark.shape(Shape::Dot).key("a trial"));
        }
        scene.add(panel.beside(point, Some(at)));
    }
    scene.notes.extend(notes::values(panel, panel.y));
    let what = "Markers instead of bars: the axis does not begin at 0, so a bar's length would mean \
                nothing.";
    scene.say_if(scale != Scale::Linear, what);
    scene
}
