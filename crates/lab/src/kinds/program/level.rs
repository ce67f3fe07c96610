//! The table `[level]`: rates that are shares of each cell's own rate at infinite demand.
//!
//! ```toml
//! [level]
//! metric = "throughput"      # requests a second, measured with `{rate}` = max
//! trials = 3
//! ```
//!
//! A stage `capacity` measures each cell without its factor `level`. In the sweep, `{rate}` is the
//! median of these trials times the level.

use std::collections::BTreeSet;

use report::record::{Better, Factors, Metric, Record, Repeats, Stage, Unit, Value};
use serde::{Deserialize, Serialize};

use crate::kind::Resolved;

/// The factor.
pub(super) const LEVEL: &str = "level";
/// The placeholder of the rate.
pub(super) const RATE: &str = "rate";
/// The stage that measures capacities.
const CAPACITY: &str = "capacity";
/// The settings of a trial that follow from them.
const OFFERED: &str = "offered_rps";
const CAPACITY_RPS: &str = "capacity_rps";

/// The settings of the levels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LevelTable {
    /// The metric that is the rate.
    pub(super) metric: String,
    /// Trials that measure a capacity.
    pub(super) trials: u32,
}

/// The metrics of the settings.
pub(super) fn metrics() -> Vec<Metric> {
    // All trials of a cell have the same capacity: compared, it would seem to have no spread. Its
    // trials are those of the stage `capacity`.
    [
        (OFFERED, "offered rate"),
        (CAPACITY_RPS, "rate at infinite demand, median of its trials"),
    ]
    .map(|(name, title)| Metric::new(name, title, Unit::per_second(), Better::Neither))
    .to_vec()
}

fn without_level(cell: &Factors) -> Factors {
    let mut cell = cell.clone();
    cell.remove(LEVEL);
    cell
}

impl LevelTable {
    /// The stages: capacities, then levels.
    pub(super) fn stages(&self, cells: Vec<Factors>, repeats: Repeats) -> Vec<Stage> {
        let mut seen = BTreeSet::new();
        let capacity = cells.iter().map(without_level);
        let capacity = capacity.filter(|cell| seen.insert(cell.clone())).collect();
        let stage = |name: &str, repeats, cells| Stage {
            name: name.to_owned(),
            repeats,
            cells,
        };
        vec![
            stage(CAPACITY, Repeats::fixed(self.trials), capacity),
            stage("sweep", repeats, cells),
        ]
    }

    /// The rate of a trial.
    pub(super) fn resolve(
        &self,
        stage: &str,
        factors: &Factors,
        done: &[Record],
    ) -> Result<Resolved, String> {
        let Some(level) = factors.get(LEVEL).and_then(Value::number) else {
            return Ok(Resolved::default());
        };
        if stage == CAPACITY {
            return Ok(Resolved::default());
        }
        let cell = without_level(factors);
        let of_cell = done.iter().filter(|it| it.stage == CAPACITY && it.factors == cell);
        let rates = of_cell.filter_map(|it| it.measured()?.metric(&self.metric));
        let rates: Vec<f64> = rates.collect();
        let capacity = measure::median(&rates)
            .ok_or("the rate is a share of the rate at infinite demand, and none was measured")?;
        let offered = (level * capacity).round().max(1.0);
        Ok(Resolved {
            settings: [(OFFERED.to_owned(), offered), (CAPACITY_RPS.to_owned(), capacity)].into(),
            notes: Vec::new(),
        })
    }
}

/// The value of `{rate}` in a trial.
pub(super) fn rate(resolved: &std::collections::BTreeMap<String, f64>) -> String {
    resolved.get(OFFERED).map_or_else(|| "max".to_owned(), ToString::to_string)
}
