//! For each decile of latency, the share of each size class, as stacked bars.
//!
//! A series holds ten rows of equal length, the fastest decile first; each row sums to 1. The bars
//! show the mean over the trials.

use super::dimension::{self, PLOT_WIDTH, names_side};
use super::panel::Panel;
use super::{Data, Rows, notes, titled};
use crate::chart::axis::Axis;
use crate::chart::legend::{Entry, Legend, Sample};
use crate::chart::mark;
use crate::chart::side::Side;
use crate::chart::svg::Svg;
use crate::chart::{Field, PAPER, Ramp};
use crate::figure::Scale;
use crate::record::Unit;
use crate::{limits, units};

/// Rows of a series.
const DECILES: usize = 10;
/// The share of its place that a bar takes.
const FILLED: f64 = 0.8;
/// How far from 1 a row may sum up: series may have been written with few digits.
const INEXACT: f64 = 0.005;

/// The data of a figure of deciles.
pub(super) struct Deciles<'a> {
    panel: &'a Panel<'a>,
    /// The mean share of each class in each decile. Empty: there is no series.
    shares: Vec<Vec<f64>>,
    /// Trials in it, without the series, and with one that is not ten rows of shares.
    trials: u64,
    without: u64,
    unfit: u64,
    axes: (Side, Side),
}

impl<'a> Deciles<'a> {
    pub(super) fn of(panel: &'a Panel<'a>) -> Self {
        let name = panel.y.name();
        let mut fit: Vec<&[f64]> = Vec::new();
        let (mut without, mut unfit) = (0, 0);
        for trial in panel.trials() {
            match trial.measured.series.get(name) {
                Some(series) if is_fit(series, fit.first().map(|it| it.len())) => fit.push(series),
                Some(_) => unfit += 1,
                None => without += 1,
            }
        }
        let trials = fit.len() as u64;
        let classes = fit.first().map_or(0, |it| it.len() / DECILES);
        let mean = |at: usize| fit.iter().map(|it| it[at]).sum::<f64>() / trials as f64;
        let row = |decile: usize| {
            (0..classes)
                .map(|class| mean(decile * classes + class))
                .collect()
        };
        let decile_count = if classes > 0 { DECILES } else { 0 };
        Self {
            panel,
            shares: (0..decile_count).map(row).collect(),
            trials,
            without,
            unfit,
            axes: axes(panel),
        }
    }

    fn classes(&self) -> usize {
        self.shares.first().map_or(0, Vec::len)
    }

    /// The name of a class; its number, if it has none.
    fn class(&self, index: usize) -> String {
        let name = self.panel.figure.classes.get(index);
        name.cloned()
            .unwrap_or_else(|| format!("class {}", index + 1))
    }

    /// The shade of a class: classes are ordered.
    fn shade(&self, class: usize) -> Ramp {
        let last = self.classes().saturating_sub(1).max(1);
        Ramp::of(class as f64 / last as f64)
    }
}

impl Data for Deciles<'_> {
    fn title(&self) -> String {
        titled(self.panel.y.title(), Some("latency"))
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new(["decile", "class", "share", "trials"]);
        for (decile, shares) in self.shares.iter().enumerate() {
            for (class, share) in shares.iter().enumerate() {
                let (decile, trials) = ((decile + 1).to_string(), self.trials.to_string());
                rows.rows
                    .push(vec![decile, self.class(class), share.to_string(), trials]);
            }
        }
        rows
    }

    fn notes(&self) -> (Vec<String>, Vec<String>) {
        let panel = self.panel;
        let mut after: Vec<String> = notes::lacking(panel).into_iter().collect();
        after.extend(notes::unfit(self.without, "without this series"));
        after.extend(notes::unfit(
            self.unfit,
            "whose series is not ten rows of as many shares that sum to 1",
        ));
        if panel.trials().next().is_none() {
            after.extend(notes::without_value(vec![
                "no trial was measured".to_owned(),
            ]));
        }
        let named = panel.figure.classes.len();
        if named > 0 && self.trials > 0 && named != self.classes() {
            let has = self.classes();
            after.push(format!(
                "Names of classes: {named}; classes of the series: {has}."
            ));
        }
        if self.trials > 0 {
            after.push(format!(
                "Shares are means over {}.",
                units::plural(self.trials, "trial")
            ));
        }
        let cells: Vec<String> = panel.telling.iter().map(|it| it.title.clone()).collect();
        if !cells.is_empty() {
            let cells = units::listed(&cells);
            after.push(format!("Merged: the trials differ in {cells}."));
        }
        (notes::suspect(panel).into_iter().collect(), after)
    }

    fn description(&self) -> String {
        let (Some(fast), Some(slow)) = (self.shares.first(), self.shares.last()) else {
            return "No measurement.".to_owned();
        };
        let words = |shares: &Vec<f64>| -> Vec<String> {
            let shares = shares.iter().enumerate();
            let shares = shares
                .map(|(class, &share)| format!("{} {}", self.class(class), units::share(share)));
            shares.collect()
        };
        let fast = notes::values_of("Fastest tenth", words(fast));
        format!("{fast} {}", notes::values_of("Slowest tenth", words(slow)))
    }

    fn legend(&self) -> Legend {
        let entry = |class: usize| -> Entry {
            let name = units::shortened(&self.class(class), limits::NAME_CHARACTERS);
            (Sample::Shade(self.shade(class)), name)
        };
        Legend::of([(0..self.classes()).map(entry).collect::<Vec<Entry>>()])
    }

    fn axes(&self) -> Option<(Side, Side)> {
        Some(self.axes.clone())
    }

    fn draw(&self, svg: &mut Svg, field: &Field) {
        let width = field.plot.width / DECILES as f64 * FILLED;
        for (decile, shares) in self.shares.iter().enumerate() {
            let mut below = 0.0;
            for (class, &share) in shares.iter().enumerate() {
                let ends = field
                    .pixel_y(below)
                    .zip(field.pixel_y((below + share).min(1.0)));
                below += share;
                let Some((middle, (low, high))) = field.pixel_x(decile as f64).zip(ends) else {
                    continue;
                };
                let shade = self.shade(class);
                let area = [middle - width / 2.0, high, width, (low - high).max(0.0)];
                let hint = format!(
                    "Decile {}: {}, {}",
                    decile + 1,
                    self.class(class),
                    units::share(share)
                );
                let style = [("stroke", PAPER), ("stroke-width", "1")];
                mark::shaded(svg, area, shade, &style, &hint);
            }
        }
    }

    fn can_zoom(&self) -> bool {
        false
    }
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
    let horizontal = names_side(
        "tenth of the latencies",
        &names,
        PLOT_WIDTH / DECILES as f64,
    );
    let mut axis = Axis::over(Scale::Linear, [1.0]);
    axis.end = 1.0;
    let title = panel.figure.y_title.clone();
    let title = title.unwrap_or_else(|| "share of each class".to_owned());
    let unit = panel.figure.unit.clone().unwrap_or_else(Unit::share);
    (horizontal, dimension::side(Some(&unit), None, axis, &title))
}
