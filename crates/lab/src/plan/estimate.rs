//! Estimates the duration of a run: before its first trial from what the file and the kind say,
//! then from the trials made.

use std::collections::HashMap;
use std::time::Duration;

use report::record::{Factors, Plan, Stage};
use units::duration_text;

use crate::kind::{Estimate, Kind};
use crate::plan::order::PlannedTrial;

pub(crate) fn of_trial(plan: &Plan, kind: &dyn Kind, cell: &Factors) -> Estimate {
    let of_kind = kind.estimate(cell);
    let likely = plan.takes_ns.map_or(of_kind.likely, Duration::from_nanos);
    Estimate {
        likely,
        most: of_kind.most.max(likely),
    }
}

/// The likely duration of a trial of each cell, by stage.
pub(crate) fn of_cells(plan: &Plan, kind: &dyn Kind) -> Vec<Vec<Duration>> {
    let likely = |cell| of_trial(plan, kind, cell).likely;
    let stages = plan.stages.iter();
    stages
        .map(|it| it.cells.iter().map(likely).collect())
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Total {
    /// The likely time with the least number of repeats.
    pub(crate) least: Duration,
    /// The likely time with the greatest number of repeats.
    pub(crate) likely: Duration,
    /// The time that it cannot exceed.
    pub(crate) most: Duration,
    trials: u64,
}

impl Total {
    pub(crate) fn of(plan: &Plan, kind: &dyn Kind) -> Self {
        let sum = |repeats: fn(&Stage) -> u32, of: fn(Estimate) -> Duration| {
            let stages = plan.stages.iter().map(|stage| {
                let cells = stage.cells.iter().map(|it| of(of_trial(plan, kind, it)));
                let once = cells.fold(Duration::ZERO, Duration::saturating_add);
                once.saturating_mul(repeats(stage))
            });
            stages.fold(Duration::ZERO, Duration::saturating_add)
        };
        Self {
            least: sum(|it| it.repeats.least, |it| it.likely),
            likely: sum(|it| it.repeats.most, |it| it.likely),
            most: sum(|it| it.repeats.most, |it| it.most),
            trials: plan.trials(),
        }
    }

    /// The estimate in words, such as `12 trials of about 1.2 s: 14.4 s (at most 2 h 32 min)`.
    pub(crate) fn words(&self) -> String {
        let trials = u32::try_from(self.trials).unwrap_or(u32::MAX);
        let each = self.likely.checked_div(trials).unwrap_or_default();
        let all = match self.least == self.likely {
            true => duration_text(self.likely),
            false => format!(
                "{} to {}",
                duration_text(self.least),
                duration_text(self.likely)
            ),
        };
        let bound = match self.most > self.likely {
            true => format!(" (at most {})", duration_text(self.most)),
            false => String::new(),
        };
        let each = duration_text(each);
        format!(
            "{} of about {each}: {all}{bound}",
            report::plural(self.trials, "trial")
        )
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pace {
    cells: HashMap<(usize, u32), Spent>,
    all: Spent,
}

#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    trials: u32,
    took: Duration,
    likely: Duration,
}

impl Spent {
    fn add(&mut self, took: Duration, likely: Duration) {
        self.trials += 1;
        self.took += took;
        self.likely += likely;
    }

    /// A trial that was estimated to take `likely`, corrected by what others took.
    fn corrected(&self, likely: Duration) -> Option<Duration> {
        match self.likely.is_zero() {
            true => self.took.checked_div(self.trials),
            false => {
                let ratio = self.took.as_secs_f64() / self.likely.as_secs_f64();
                Some(likely.mul_f64(ratio))
            }
        }
    }
}

impl Pace {
    /// A trial took so long, and `likely` had been the estimate.
    pub(crate) fn add(&mut self, trial: &PlannedTrial, took: Duration, likely: Duration) {
        let cell = self.cells.entry((trial.stage, trial.cell)).or_default();
        cell.add(took, likely);
        self.all.add(took, likely);
    }

    /// What a trial will take: as the others of its cell, or as estimated, corrected by all.
    pub(crate) fn of(&self, trial: &PlannedTrial, likely: Duration) -> Duration {
        let cell = self.cells.get(&(trial.stage, trial.cell));
        let mean = cell.and_then(|it| it.took.checked_div(it.trials));
        mean.or_else(|| self.all.corrected(likely))
            .unwrap_or(likely)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(stage: usize, cell: u32) -> PlannedTrial {
        PlannedTrial {
            id: String::new(),
            stage,
            cell,
            repeat: 0,
            seed: 0,
        }
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn time_follows_from_the_cell_then_all() {
        let mut pace = Pace::default();
        assert_eq!(pace.of(&trial(0, 0), s(600)), s(600));
        pace.add(&trial(0, 0), s(2), s(600));
        assert_eq!(pace.of(&trial(0, 0), s(600)), s(2));
        // Another cell, estimated to take twice as long.
        assert_eq!(pace.of(&trial(0, 1), s(1200)), s(4));
        pace.add(&trial(1, 0), s(30), s(600));
        assert_eq!(pace.of(&trial(1, 0), s(600)), s(30));
        assert_eq!(pace.of(&trial(1, 7), s(600)), s(16));
    }

    #[test]
    fn without_an_estimate_the_mean_counts() {
        let mut pace = Pace::default();
        pace.add(&trial(0, 0), s(2), s(0));
        pace.add(&trial(0, 1), s(4), s(0));
        assert_eq!(pace.of(&trial(0, 2), s(0)), s(3));
    }
}
