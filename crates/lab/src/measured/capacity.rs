//! The table `[capacity]`: rates at infinite demand, which the factor `level` is a share of.
//!
//! ```toml
//! [capacity]
//! trials = 3
//! of = { server = "memcached" }   # all levels are shares of this one's
//! metric = "throughput"           # of a command: requests a second with `{rate}` = max
//! ```
//!
//! A stage `capacity` measures each cell without its rate. In the last stage the offered rate is
//! the median of these trials times the level.

use std::collections::{BTreeMap, BTreeSet};

use measure::{Capacity, CapacityTrial};
use report::record::names::{ACHIEVED_RPS, CAPACITY, CAPACITY_RPS, LEVEL, OFFERED_RPS, RATE};
use report::record::{Factors, Fault, FaultClass, Measured, Record, Repeats, Stage, Value};
use serde::{Deserialize, Serialize};

use crate::kind::Resolved;

/// The remark on a rate that is a share of a capacity of which only a lower bound is known.
pub(super) const AT_LEAST: &str = "the capacity of which the rate is a share is only a lower bound, \
    because the generator or the relay was the limit: levels of different servers are not comparable; use \
    absolute rates (a factor `rate`)";

/// Confidence of [`Capacity`]'s interval; the median, used here, does not depend on it.
const CONFIDENCE: f64 = 0.95;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct CapacityTable {
    pub(super) trials: u32,
    /// Values that these factors have in all capacity trials.
    #[serde(skip_serializing_if = "Factors::is_empty")]
    pub(super) of: Factors,
    /// The metric that is the rate. None: that of the load.
    pub(super) metric: Option<String>,
}

/// The factors of a cell that its capacity depends on: all but the rate.
pub(super) fn factors(cell: &Factors) -> Factors {
    let mut factors = cell.clone();
    factors.remove(RATE);
    factors.remove(LEVEL);
    factors
}

impl CapacityTable {
    pub(super) fn metric(&self) -> &str {
        self.metric.as_deref().unwrap_or(ACHIEVED_RPS)
    }

    fn of(&self, cell: &Factors) -> Factors {
        let mut factors = factors(cell);
        factors.extend(self.of.clone());
        factors
    }

    /// The stages: capacities, then all cells.
    pub(super) fn stages(&self, cells: Vec<Factors>, repeats: Repeats) -> Vec<Stage> {
        let mut stages = Vec::new();
        if self.trials > 0 {
            let mut seen = BTreeSet::new();
            let all = cells.iter().map(|it| self.of(it));
            stages.push(Stage {
                name: CAPACITY.to_owned(),
                repeats: Repeats::fixed(self.trials),
                cells: all.filter(|it| seen.insert(it.clone())).collect(),
            });
        }
        stages.push(Stage {
            name: "sweep".to_owned(),
            repeats,
            cells,
        });
        stages
    }

    /// The capacity that trials with these factors have measured. None: not measured.
    pub(super) fn measured(&self, done: &[Record], wanted: &Factors) -> Option<Capacity> {
        let is_of = |it: &&Record| it.stage == CAPACITY && it.factors == *wanted;
        let trial = |measured: &Measured| {
            let metric = self.metric();
            let is_of_server = |it: &Fault| it.class == FaultClass::Failing;
            let is_void = measured.fault.as_ref().is_some_and(|it| !is_of_server(it));
            let generator_limited = is_void || measured.is_lower_bound(metric);
            Some(CapacityTrial {
                achieved_rps: measured.metric(metric)?,
                generator_limited,
            })
        };
        let trials: Vec<CapacityTrial> = done
            .iter()
            .filter(is_of)
            .filter_map(|it| trial(it.measured()?))
            .collect();
        Capacity::of(&trials, CONFIDENCE)
    }

    /// The settings of a trial: its offered rate, and the capacity of which that is a share.
    pub(super) fn resolve(
        &self,
        rate_of_all: Option<f64>,
        stage: &str,
        cell: &Factors,
        done: &[Record],
    ) -> Result<Resolved, String> {
        if stage == CAPACITY {
            return Ok(Resolved::default());
        }
        let capacity = self.measured(done, &self.of(cell));
        let mut settings = BTreeMap::new();
        if let Some(capacity) = &capacity {
            settings.insert(CAPACITY_RPS.to_owned(), capacity.rps.value);
        }
        let mut notes = Vec::new();
        let level = cell.get(LEVEL).and_then(Value::number);
        let rate = cell.get(RATE).and_then(Value::number).or(rate_of_all);
        let offered = match (level, rate, &capacity) {
            (None, rate, _) => rate,
            (Some(level), _, Some(capacity)) => {
                if capacity.at_least {
                    notes.push(AT_LEAST.to_owned());
                }
                Some((level * capacity.rps.value).round().max(1.0))
            }
            (Some(_), _, None) => {
                return Err("the rate is a share of the capacity, and none was measured".to_owned());
            }
        };
        settings.extend(offered.map(|rate| (OFFERED_RPS.to_owned(), rate)));
        Ok(Resolved { settings, notes })
    }
}

/// The value of `{rate}` in a trial.
pub(super) fn rate(resolved: &BTreeMap<String, f64>) -> String {
    resolved
        .get(OFFERED_RPS)
        .map_or_else(|| "max".to_owned(), ToString::to_string)
}
