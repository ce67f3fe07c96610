//! The parameter that an experiment varies in addition to the rate. The whole sweep is repeated
//! under each of its settings.
//!
//! Cells are numbered by setting, and within a setting by rate. An experiment that varies nothing
//! has one setting, without a value.

use serde::{Deserialize, Serialize};

use crate::cache::folder::{Load, Phase, Plan, Sweep};
use crate::units;

/// The varied parameter and its values, ascending. One of the values is the load's own; it is the
/// reference for the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vary {
    /// Connections of the generator.
    Connections(Vec<u32>),
    /// Outstanding requests per connection.
    Depth(Vec<u32>),
    /// Share of updates, 0 to 1.
    Update(Vec<f64>),
    /// Saturating connections in addition to the measured ones.
    #[serde(alias = "greedy")]
    Saturating(Vec<u32>),
}

impl Vary {
    /// The parameter of that key with these values. None: the key is of another factor.
    #[must_use]
    pub fn of(key: &str, values: Vec<f64>) -> Option<Self> {
        let counts = || values.iter().map(|&value| value as u32).collect();
        Some(match key {
            "connections" => Self::Connections(counts()),
            "depth" => Self::Depth(counts()),
            "saturating" => Self::Saturating(counts()),
            "update" => Self::Update(values),
            _ => return None,
        })
    }

    /// The key of an experiment file.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            Self::Connections(_) => "connections",
            Self::Depth(_) => "depth",
            Self::Update(_) => "update",
            Self::Saturating(_) => "saturating",
        }
    }

    /// The values, as numbers.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        match self {
            Self::Connections(values) | Self::Depth(values) | Self::Saturating(values) => {
                values.iter().copied().map(f64::from).collect()
            }
            Self::Update(values) => values.clone(),
        }
    }

    /// The parameter's value in `load`.
    #[must_use]
    pub fn own(&self, load: &Load) -> f64 {
        match self {
            Self::Connections(_) => f64::from(load.connections),
            Self::Depth(_) => f64::from(load.depth),
            Self::Update(_) => load.update,
            Self::Saturating(_) => f64::from(load.saturating),
        }
    }

    /// `load` with the `setting`-th value; unchanged if there is no such value.
    #[must_use]
    pub fn applied(&self, load: &Load, setting: u32) -> Load {
        let mut load = load.clone();
        let at = setting as usize;
        match self {
            Self::Connections(values) => put(values, at, &mut load.connections),
            Self::Depth(values) => put(values, at, &mut load.depth),
            Self::Update(values) => put(values, at, &mut load.update),
            Self::Saturating(values) => put(values, at, &mut load.saturating),
        }
        load
    }

    /// A value as a condition: `16 connections`, `no saturating connection`, `updates 50 %`.
    #[must_use]
    pub fn condition(&self, value: f64) -> String {
        match self {
            Self::Connections(_) => units::plural(value.round() as u64, "connection"),
            Self::Depth(_) => format!("depth\u{a0}{}", units::plain(value)),
            Self::Update(_) => format!("updates\u{a0}{}", percent(value)),
            Self::Saturating(_) if value == 0.0 => "no saturating connection".to_owned(),
            Self::Saturating(_) => units::plural(value.round() as u64, "saturating connection"),
        }
    }

    /// A value with its unit: `15 360`, `50 %`. Counts are rounded: the value may have been
    /// computed from its logarithm.
    #[must_use]
    pub fn value_text(&self, value: f64) -> String {
        match self {
            Self::Connections(_) | Self::Depth(_) | Self::Saturating(_) => {
                units::count(value.round() as u64)
            }
            Self::Update(_) => percent(value),
        }
    }
}

/// A share in per cent, in full precision.
fn percent(share: f64) -> String {
    format!("{}\u{a0}%", units::plain(share * 100.0))
}

fn put<T: Copy>(values: &[T], at: usize, target: &mut T) {
    if let Some(&value) = values.get(at) {
        *target = value;
    }
}

impl Sweep {
    /// Offered rates of one setting.
    #[must_use]
    pub fn rates(&self) -> u32 {
        let (Self::LoadLevels(points) | Self::Rates(points)) = self;
        u32::try_from(points.len()).unwrap_or(u32::MAX)
    }
}

impl Plan {
    /// Number of settings; 1 if nothing is varied.
    #[must_use]
    pub fn settings(&self) -> u32 {
        let count = self.vary.as_ref().map_or(1, |vary| vary.values().len());
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Cells of the sweep.
    #[must_use]
    pub fn cells(&self) -> u32 {
        self.settings().saturating_mul(self.sweep.rates())
    }

    /// The (setting, rate) of a cell, both as indices.
    #[must_use]
    pub fn setting_and_rate(&self, cell: u32) -> (u32, u32) {
        let rates = self.sweep.rates().max(1);
        (cell / rates, cell % rates)
    }

    /// The setting of a cell. Capacity trials number their cells by setting.
    #[must_use]
    pub fn setting_of(&self, phase: Phase, cell: u32) -> u32 {
        match phase {
            Phase::Capacity => cell,
            Phase::Sweep => self.setting_and_rate(cell).0,
        }
    }

    /// Trials of all servers, as if none were skipped.
    #[must_use]
    pub fn trials(&self) -> u64 {
        let settings = u64::from(self.settings());
        let each = u64::from(self.capacity_trials)
            .saturating_add(u64::from(self.sweep.rates()).saturating_mul(u64::from(self.repeats)));
        settings
            .saturating_mul(each)
            .saturating_mul(self.servers.len() as u64)
    }

    /// The cell of a rate under a setting.
    #[must_use]
    pub fn cell(&self, setting: u32, rate: u32) -> u32 {
        setting
            .saturating_mul(self.sweep.rates())
            .saturating_add(rate)
    }

    /// Value of the varied parameter at a setting. None: nothing is varied.
    #[must_use]
    pub fn setting_value(&self, setting: u32) -> Option<f64> {
        let values = self.vary.as_ref()?.values();
        values.get(setting as usize).copied()
    }

    /// A setting in words, such as `16 connections`. None: nothing is varied.
    #[must_use]
    pub fn condition(&self, setting: u32) -> Option<String> {
        let value = self.setting_value(setting)?;
        self.vary.as_ref().map(|vary| vary.condition(value))
    }

    /// The setting with the load's own value: the reference for the others.
    #[must_use]
    pub fn reference(&self) -> Option<u32> {
        let vary = self.vary.as_ref()?;
        let own = vary.own(&self.load);
        let at = vary.values().iter().position(|&value| value == own)?;
        u32::try_from(at).ok()
    }

    /// The offered load under a setting.
    #[must_use]
    pub fn load_at(&self, setting: u32) -> Load {
        match &self.vary {
            Some(vary) => vary.applied(&self.load, setting),
            None => self.load.clone(),
        }
    }

    /// The load level of a cell, where the sweep is in levels.
    #[must_use]
    pub fn level(&self, cell: u32) -> Option<f64> {
        match &self.sweep {
            Sweep::LoadLevels(levels) => {
                levels.get(self.setting_and_rate(cell).1 as usize).copied()
            }
            Sweep::Rates(_) => None,
        }
    }
}
