//! The declaration of a target.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::unit::Unit;
use super::value::Value;

/// A bound on a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Target {
    /// What it is, in words, without the bound.
    pub name: String,
    /// The metric.
    pub metric: String,
    /// The cell: the one in which these factors have these values.
    pub of: BTreeMap<String, Value>,
    /// The other cell of a ratio: the one in which these factors have these values, and the others
    /// those of the first cell. Empty: the target is no ratio.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub to: BTreeMap<String, Value>,
    /// The unit of the bound. None: that of the metric. A ratio has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// The greatest value that is within the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The least value that is within the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The values within the bound are below this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
    /// The values within the bound are above this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<f64>,
}
