//! The declaration of an answer.

use serde::{Deserialize, Serialize};

use super::Factors;

/// What the first sentence of a report is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Answer {
    /// The metric.
    pub metric: String,
    /// What the others are compared with: the cells in which these factors have these values.
    /// Empty: the first value of the first factor that varies.
    #[serde(default, skip_serializing_if = "Factors::is_empty")]
    pub baseline: Factors,
    /// The cells that are told of: those in which these factors have these values. Empty: all.
    #[serde(default, skip_serializing_if = "Factors::is_empty")]
    pub cells: Factors,
}
