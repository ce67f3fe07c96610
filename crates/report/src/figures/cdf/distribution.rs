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
/// The entry of a histogram file with the values that had not ended.
const CENSORED: &str = "censored";
/// The histogram to which they belong.
const RESPONSE: &str = "response";

/// A distribution.
#[derive(Debug, Default)]
pub(super) struct Distribution {
    /// Values, ascending, each with the share of all that are at most as large. Points that a
    /// drawing would not tell apart are left out.
    pub(super) points: Vec<(f64, f64)>,
    /// The values of [`MARKED`](super::MARKED) and others are looked up here: all values, with
    /// their numbers.
    counts: Vec<(f64, u64)>,
    /// The number of values.
    pub(super) count: u64,
    /// Trials in it.
    pub(super) trials: u64,
    /// Trials that were measured, but without it.
    pub(super) unread: u64,
    /// Values that had not ended.
    pub(super) censored: u64,
    /// As its trials count: where most do not, of all of them.
    pub(super) state: State,
}

impl Distribution {
    pub(super) fn of(panel: &Panel, point: &Point) -> Self {
        let name = panel.y.name();
        match panel.plan.metric(name) {
            Some(_) => Self::of_metric(point, name),
            None => Self::of_artefact(panel.folder, point, name),
        }
    }

    fn of_metric(point: &Point, name: &str) -> Self {
        let (trials, state) = counting(&point.trials, name);
        let values = trials.iter().map(|it| it.record.number(name));
        let unread = values.clone().filter(Option::is_none).count() as u64;
        let mut sorted: Vec<f64> = values.flatten().collect();
        sorted.sort_by(f64::total_cmp);
        let counts: Vec<(f64, u64)> = sorted
            .chunk_by(|a, b| a == b)
            .map(|equal| (equal[0], equal.len() as u64))
            .collect();
        Self {
            trials: sorted.len() as u64,
            unread,
            state,
            ..Self::counted(counts)
        }
    }

    fn of_artefact(folder: &Path, point: &Point, name: &str) -> Self {
        let mut merged = Histogram::new();
        let (mut read, mut unread, mut censored) = (0, 0, 0);
        let (trials, state) = counting(&point.trials, name);
        for trial in trials {
            match histogram(folder, trial, name) {
                Some((own, beyond)) => {
                    merged.merge(&own);
                    read += 1;
                    censored += beyond;
                }
                None => unread += 1,
            }
        }
        let counts = merged.buckets().map(|(value, count)| (value as f64, count));
        Self {
            trials: read,
            unread,
            censored,
            state,
            ..Self::counted(counts.collect())
        }
    }

    fn counted(counts: Vec<(f64, u64)>) -> Self {
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

/// The histogram of a trial, and the number of values that had not ended. None: the trial has
/// none, or it cannot be read.
fn histogram(folder: &Path, trial: Trial, name: &str) -> Option<(Histogram, u64)> {
    let artefact = trial.measured.artefacts.get(name)?;
    let (path, entry) = artefact.split_once('#').unwrap_or((artefact, name));
    let path = Path::new(path);
    // A record must not make a report read other files of the machine.
    let is_within = path
        .components()
        .all(|it| matches!(it, Component::Normal(_)));
    if !is_within {
        return None;
    }
    let text = read_bounded(&folder.join(path), limits::HISTOGRAM_BYTES).ok()?;
    let entries: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).ok()?;
    let read = |entry: &str| Histogram::from_base64(entries.get(entry)?.as_str()?).ok();
    let censored = match entry {
        RESPONSE => read(CENSORED).map_or(0, |it| it.len()),
        _ => 0,
    };
    Some((read(entry)?, censored))
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
