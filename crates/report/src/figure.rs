//! The declaration of a figure: which factors and metrics it shows, and how.
//!
//! The names in a declaration are those of the plan's factors and metrics, or of the series and
//! artefacts of its trials. [`check`] verifies them.

mod check;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use check::check;
pub(crate) use check::{Known, check_value, find, is_fit};

use crate::record::{Unit, Value};

/// The declaration of a figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Figure {
    /// The stem of its files.
    pub name: String,
    /// How it is drawn.
    pub kind: FigureKind,
    /// Its title. None: composed of the titles of what it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The factor or metric along the horizontal axis. None: the kind needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// The metric, or for some kinds the series or artefact, that is drawn. Empty: the kind has
    /// `parts` instead.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub y: String,
    /// The metrics that are the parts of a stack, from the bottom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// The factor that has a curve, colour or bar for each of its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The factor that has a panel for each of its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panel: Option<String>,
    /// The title of the vertical axis. None: the title of `y`, with its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_title: Option<String>,
    /// The unit of the labels of the vertical axis, such as `us`. None: each label has the unit
    /// that suits it. In deciles and heat maps: the unit of the series. In a cdf: the unit of the
    /// labels of the values, along the horizontal axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// The scale of the vertical axis. In a cdf, a logarithmic one shows the share above each
    /// value. Bars are markers unless it is linear.
    #[serde(default)]
    pub scale: Scale,
    /// The scale of the horizontal axis. None: logarithmic for the times of a cdf, and if `x` is a
    /// factor, where the greatest value is more than five times the least, and all are above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_scale: Option<Scale>,
    /// The factor or metric that a marker's area shows, in a scatter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The factor or metric that a marker's shade shows, in a scatter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shade: Option<String>,
    /// Metrics whose best cell is marked, in a scatter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    /// The metric whose knee along `x` is marked, in a curve ([`measure::Knee`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<String>,
    /// Whether `x` and `y` share one scale and the diagonal is drawn, in a curve.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diagonal: bool,
    /// The words for the diagonal. None: composed of the titles of `y` and `x`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagonal_title: Option<String>,
    /// The names of the classes, in deciles. Empty: they are numbered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Seconds from one number of the series to the next, in a heat map. None: the numbers are
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_s: Option<f64>,
    /// Only cells in which these factors have these values are drawn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, Value>,
    /// The stage whose trials are drawn. None: the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
}

impl Figure {
    /// A figure of `y` with the defaults of its kind.
    #[must_use]
    pub fn new(name: &str, kind: FigureKind, y: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            y: y.to_owned(),
            ..Self::default()
        }
    }

    /// The names of what is drawn: `y`, or the parts of a stack.
    pub(crate) fn drawn(&self) -> impl Iterator<Item = &String> {
        let y = Some(&self.y).filter(|name| !name.is_empty());
        y.into_iter().chain(&self.parts)
    }
}

/// How a figure is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// `y` against `x`: a marker for each trial, a line for the median, a band for the range.
    #[default]
    Curve,
    /// The share of values at or below each value: of the histogram artefact `y`, merged over the
    /// repeats of a cell, or of the metric `y` over the trials.
    Cdf,
    /// The median of `y` for each value of `x`, grouped by `by`, with its interval.
    Bars,
    /// For each decile of latency, the share of each size class: the series `y`, ten rows of equal
    /// length one after another.
    Deciles,
    /// A marker for the median of each cell: `y` against the metric or factor `x`.
    Scatter,
    /// The series `y` over time for each value of `x`, as shades.
    HeatMap,
    /// A scatter with the cells to which no other is at least as good in both `x` and `y` and
    /// better in one.
    Pareto,
    /// The medians of `y` as a table: a row for each value of `x`, a column for each of `by`.
    Table,
    /// The medians of `parts`, one upon another, for each value of `x`, grouped by it: a stack for
    /// each value of `by`.
    Stack,
    /// Measured ÷ published: a point for each published value, of the metric `y` or of all.
    Ratios,
}

/// The scale of an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// From 0.
    #[default]
    Linear,
    /// Logarithmic, base ten.
    Log,
    /// From the least to the greatest value, with margins.
    Fitted,
}
