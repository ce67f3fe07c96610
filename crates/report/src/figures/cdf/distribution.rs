//! The distribution of a cell: of its merged histograms, or of a metric over its trials.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use measure::Histogram;

use super::super::panel::Panel;
use super::super::point::{Point, Trial, counting};
use crate::chart::mark::State;
use crate::limits;
use crate::read::read_bounded;

/// Steps along each axis below which points of a line are not told apart.
const STEPS: f64 = 1_000.0;
/// The entry of a histogram file with the values that had not ended, and the one to which they
/// belong.
const CENSORED: &str = "censored";
const RESPONSE: &str = "response";

/// A distribution.
#[derive(Debug, Default)]
pub(super) struct Distribution {
    /// Values, ascending, each with the share of all that are at most as large. Points that a
    /// drawing would not tell apart are left out.
    pub(super) points: Vec<(f64, f64)>,
    /// All values, ascending, with their numbers.
    counts: Vec<(f64, u64)>,
    /// The number of values.
    pub(super) count: u64,
    /// Trials in it, and trials that were measured, but without it.
    pub(super) trials: u64,
    pub(super) unread: u64,
    /// Values that had not ended.
    pub(super) censored: u64,
    /// As its trials count: where most do not, of all of them.
    pub(super) state: State,
}

impl Distribution {
    pub(super) fn of(panel: &Panel, point: &Point) -> Self {
        let name = panel.y.name();
        let is_metric = panel.plan.metric(name).is_some();
        let (trials, state) = counting(&point.trials, name);
        let (mut values, mut read, mut censored) = (Vec::new(), 0, 0);
        for trial in &trials {
            let own = match is_metric {
                true => trial.record.number(name).map(|it| (vec![(it, 1)], 0)),
                false => histogram(panel.folder, trial, name),
            };
            if let Some((own, beyond)) = own {
                values.extend(own);
                censored += beyond;
                read += 1;
            }
        }
        Self {
            trials: read,
            unread: trials.len() as u64 - read,
            censored,
            state,
            ..Self::counted(values)
        }
    }

    /// The distribution of some values with their numbers.
    fn counted(mut values: Vec<(f64, u64)>) -> Self {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let equal = values.chunk_by(|a, b| a.0 == b.0);
        let counts = equal.map(|it| (it[0].0, it.iter().map(|it| it.1).sum()));
        let counts: Vec<(f64, u64)> = counts.collect();
        let count = counts.iter().map(|it| it.1).sum();
        Self {
            points: points(&counts, count),
            counts,
            count,
            ..Self::default()
        }
    }

    /// The least value with at least that share at or below it, and that share.
    pub(super) fn quantile(&self, share: f64) -> Option<(f64, f64)> {
        let mut below = 0;
        self.counts.iter().find_map(|&(value, count)| {
            below += count;
            let own = below as f64 / self.count as f64;
            (own >= share * (1.0 - 1e-12)).then_some((value, own))
        })
    }
}

/// The cumulative shares, without points that a drawing would not tell apart.
fn points(counts: &[(f64, u64)], count: u64) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (counts.first(), counts.last()) else {
        return Vec::new();
    };
    let range = last.0 - first.0;
    // Distinct on a linear axis or, for values above 0, on a logarithmic one.
    let decades = (last.0 / first.0.max(1e-12)).log10();
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let mut below = 0;
    for (index, &(value, own)) in counts.iter().enumerate() {
        below += own;
        let share = below as f64 / count as f64;
        let is_end = index == 0 || index + 1 == counts.len();
        let is_apart = kept.last().is_none_or(|&(before, share_before)| {
            let step = (value - before) / range;
            let log_step = (value / before.max(1e-12)).log10() / decades;
            // Deep in the tail, shares are told apart on a logarithmic axis too.
            let tail_step = (1.0 - share_before) / (1.0 - share).max(1e-12);
            let is_far = step.max(log_step) >= 1.0 / STEPS;
            is_far || share - share_before >= 1.0 / STEPS || tail_step >= 1.05
        });
        if is_end || is_apart {
            kept.push((value, share));
        }
    }
    kept
}

/// The values of a trial's histogram with their numbers, and the number of those that had not
/// ended. None: the trial has none, or it cannot be read.
fn histogram(folder: &Path, trial: &Trial, name: &str) -> Option<(Vec<(f64, u64)>, u64)> {
    let artefact = trial.measured.artefacts.get(name)?;
    let (path, entry) = artefact.split_once('#').unwrap_or((artefact, name));
    let path = Path::new(path);
    // A record must not make a report read other files of the machine.
    let is_plain = |it: Component| matches!(it, Component::Normal(_));
    if !path.components().all(is_plain) {
        return None;
    }
    let text = read_bounded(&folder.join(path), limits::HISTOGRAM_BYTES).ok()?;
    let entries: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).ok()?;
    let read = |entry: &str| Histogram::from_base64(entries.get(entry)?.as_str()?).ok();
    let censored = read(CENSORED).filter(|_| entry == RESPONSE);
    let values = read(entry)?;
    let values = values.buckets().map(|(value, count)| (value as f64, count));
    Some((values.collect(), censored.map_or(0, |it| it.len())))
}

#[cfg(test)]
mod tests {
    use super::Distribution;

    #[test]
    fn shares_end_at_one_and_few_points_stand_for_many() {
        let counts = (1..=100_000).map(|value| (f64::from(value), 1)).collect();
        let distribution = Distribution::counted(counts);
        assert!(
            distribution.points.len() < 6_000,
            "{}",
            distribution.points.len()
        );
        assert_eq!(distribution.points.last(), Some(&(100_000.0, 1.0)));
        assert_eq!(distribution.quantile(0.99), Some((99_000.0, 0.99)));
    }
}
