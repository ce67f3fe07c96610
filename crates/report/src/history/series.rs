//! The medians of each cell over the runs, and where their level changed.

use measure::{Estimate, RankTest, change_points, median};

use crate::cell::{self, CONFIDENCE, Cell};
use crate::compare::RUN;
use crate::comparison::has_full_confidence;
use crate::record::{Better, Factor, Metric, Value};
use crate::{Run, units};

/// Probability of a false report of a change, over all cells.
pub(super) const ALPHA: f64 = 0.05;

/// The values of one cell of the last stage, by run.
pub(super) struct Series {
    /// What names the cell; empty if there is only one.
    pub(super) place: String,
    /// The run's place in the order, and its median.
    pub(super) medians: Vec<(usize, f64)>,
}

/// A change of level of one cell.
pub(super) struct Change {
    /// What names the cell; empty if there is only one.
    pub(super) place: String,
    /// The last run before it that has a value, and the first run of the new level: their places in
    /// the order.
    pub(super) before_run: usize,
    pub(super) run: usize,
    /// The levels, up to the changes before and after this one, and of how many runs they are.
    pub(super) before: (f64, usize),
    pub(super) after: (f64, usize),
    effect: Option<Effect>,
    pub(super) p_value: f64,
}

struct Effect {
    /// After ÷ before, or after − before.
    estimate: Estimate,
    is_ratio: bool,
}

impl Series {
    /// The cell in a table.
    pub(super) fn name(&self) -> String {
        named(&self.place)
    }
}

fn named(place: &str) -> String {
    match place.is_empty() {
        true => "the only cell".to_owned(),
        false => place.to_owned(),
    }
}

impl Change {
    /// The cell in a table.
    pub(super) fn name(&self) -> String {
        named(&self.place)
    }

    pub(super) fn is_higher(&self) -> bool {
        match &self.effect {
            Some(Effect { estimate, is_ratio }) => estimate.value > f64::from(u8::from(*is_ratio)),
            None => self.after.0 > self.before.0,
        }
    }

    /// `higher: worse`.
    pub(super) fn way(&self, metric: &Metric) -> String {
        let way = if self.is_higher() { "higher" } else { "lower" };
        let quality = match (metric.better, self.is_higher()) {
            (Better::Neither, _) => "",
            (Better::Higher, true) | (Better::Lower, false) => ": better",
            (Better::Higher, false) | (Better::Lower, true) => ": worse",
        };
        format!("{way}{quality}")
    }

    /// The effect, and its interval if that has full confidence: `1.081 ×` and `[1.050, 1.110]`.
    pub(super) fn effect(&self, metric: &Metric) -> (String, String) {
        let Some(Effect { estimate, is_ratio }) = &self.effect else {
            return ("–".to_owned(), String::new());
        };
        let (value, interval) = (estimate.value, &estimate.interval);
        let (effect, range) = match is_ratio {
            true => (
                format!("{value:.3}\u{a0}×"),
                format!("[{:.3}, {:.3}]", interval.low, interval.high),
            ),
            false => (
                format!("{}{}", sign(value), metric.unit.words(value)),
                metric.unit.range(value, interval.low, interval.high),
            ),
        };
        let range = match has_full_confidence(estimate) {
            true => range,
            false => "too few runs".to_owned(),
        };
        (effect, range)
    }
}

fn sign(value: f64) -> &'static str {
    if value > 0.0 { "+" } else { "" }
}

/// The series of each cell, in the order of the first run that has it.
pub(super) fn series(run: &Run, metric: &Metric) -> Vec<Series> {
    let Some(stage) = run.plan.stages.last() else {
        return Vec::new();
    };
    let others = others(run);
    let names = &run.plan.factors[0].values;
    let mut all: Vec<Series> = Vec::new();
    for cell in cell::of_stage(run, stage) {
        let place = place(&others, &cell);
        let of_run = |value: &Value| names.iter().position(|name| name == value);
        let Some(at) = cell.factors.get(RUN).and_then(of_run) else {
            continue;
        };
        let index = all.iter().position(|it| it.place == place);
        let index = index.unwrap_or_else(|| {
            all.push(Series {
                place,
                medians: Vec::new(),
            });
            all.len() - 1
        });
        if let Some(spread) = cell.values(&metric.name).spread() {
            all[index].medians.push((at, spread.median));
        }
    }
    all
}

/// The factors that vary, without the run.
pub(super) fn others(run: &Run) -> Vec<&Factor> {
    let last = run.plan.stages.last();
    let varied = last.map(|stage| cell::varied(&run.plan, stage));
    let varied = varied.unwrap_or_default().into_iter();
    varied.filter(|factor| factor.name != RUN).collect()
}

fn place(others: &[&Factor], cell: &Cell) -> String {
    let labels = others
        .iter()
        .filter_map(|it| Some(it.label(cell.value(it)?)));
    labels.collect::<Vec<_>>().join(" · ")
}

/// The changes of level of all cells, by cell.
pub(super) fn changes(series: &[Series], seed: u64) -> Vec<Change> {
    let alpha = ALPHA / series.len().max(1) as f64;
    let of_series = |series: &Series| {
        let values: Vec<f64> = series.medians.iter().map(|(_, median)| *median).collect();
        let found = change_points(&values, alpha, seed).unwrap_or_default();
        // The ends of the parts between changes.
        let mut ends = vec![0];
        ends.extend(found.iter().map(|it| it.at));
        ends.push(values.len());
        let of_change = |(nth, change): (usize, &measure::ChangePoint)| {
            let (before, after) = (
                &values[ends[nth]..change.at],
                &values[change.at..ends[nth + 2]],
            );
            Change {
                place: series.place.clone(),
                before_run: series.medians[change.at - 1].0,
                run: series.medians[change.at].0,
                before: level(before),
                after: level(after),
                effect: effect(before, after),
                p_value: change.p_value,
            }
        };
        found.iter().enumerate().map(of_change).collect::<Vec<_>>()
    };
    series.iter().flat_map(of_series).collect()
}

fn level(values: &[f64]) -> (f64, usize) {
    (median(values).unwrap_or(f64::NAN), values.len())
}

fn effect(before: &[f64], after: &[f64]) -> Option<Effect> {
    let test = RankTest::of(after, before, CONFIDENCE)?;
    Some(match test.ratio {
        Some(estimate) => Effect {
            estimate,
            is_ratio: true,
        },
        None => Effect {
            estimate: test.shift,
            is_ratio: false,
        },
    })
}

/// A level in a table: `1.43 s` and `12 runs`.
pub(super) fn level_words(metric: &Metric, (value, runs): (f64, usize)) -> (String, String) {
    (metric.unit.words(value), units::plural(runs as u64, "run"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Unit;

    fn change(before: &[f64], after: &[f64]) -> Change {
        Change {
            place: String::new(),
            before_run: 0,
            run: 1,
            before: level(before),
            after: level(after),
            effect: effect(before, after),
            p_value: 0.01,
        }
    }

    #[test]
    fn an_interval_without_full_confidence_is_not_shown() {
        let time = Metric::new("time", "time", Unit::nanoseconds(), Better::Lower);
        let few = change(&[1.0], &[2.0, 2.0]);
        assert_eq!(few.effect(&time).1, "too few runs");
        let many = change(&[1.0; 4], &[2.0; 4]);
        assert_eq!(many.effect(&time).0, "2.000\u{a0}×");
        assert_eq!(many.effect(&time).1, "[2.000, 2.000]");
    }

    #[test]
    fn a_level_is_better_by_the_direction_of_the_metric() {
        let of = |better, after: f64| {
            let metric = Metric::new("rate", "rate", Unit::count(), better);
            change(&[10.0; 4], &[after; 4]).way(&metric)
        };
        assert_eq!(of(Better::Higher, 12.0), "higher: better");
        assert_eq!(of(Better::Lower, 12.0), "higher: worse");
        assert_eq!(of(Better::Lower, -12.0), "lower: better");
        assert_eq!(of(Better::Neither, 8.0), "lower");
    }
}
