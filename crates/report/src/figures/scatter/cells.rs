//! The cells of a scatter.

use super::super::dimension::Dimension;
use super::super::panel::{Curve, Point};
use crate::figures::Spread;

/// A cell with `x` and `y`.
pub(super) struct Cell<'a> {
    pub(super) curve: &'a Curve<'a>,
    pub(super) point: &'a Point<'a>,
    /// In words.
    pub(super) name: String,
    pub(super) x: f64,
    pub(super) y: f64,
    /// Of the values that count. None: it is a factor.
    pub(super) range_x: Option<Spread>,
    pub(super) range_y: Option<Spread>,
    pub(super) size: Option<f64>,
    pub(super) shade: Option<f64>,
    /// The true `x` may be higher.
    pub(super) is_bound_x: bool,
    /// The true `y` may be higher.
    pub(super) is_bound_y: bool,
}

impl<'a> Cell<'a> {
    /// None: `x` or `y` is not known.
    pub(super) fn of(
        curve: &'a Curve<'a>,
        point: &'a Point<'a>,
        (x, y): (Dimension, Dimension),
    ) -> Option<Self> {
        let is_bound = |of: Dimension| match of {
            Dimension::Metric(metric) => point.values(&metric.name).is_lower_bound(),
            Dimension::Factor(_) | Dimension::Other(_) => false,
        };
        Some(Self {
            curve,
            point,
            name: String::new(),
            x: median(point, x)?,
            y: median(point, y)?,
            range_x: range(point, x),
            range_y: range(point, y),
            size: None,
            shade: None,
            is_bound_x: is_bound(x),
            is_bound_y: is_bound(y),
        })
    }
}

/// The value of a factor, or the median of the values of a metric that count.
pub(super) fn median(point: &Point, of: Dimension) -> Option<f64> {
    match of {
        Dimension::Metric(metric) => {
            let values = point.values(&metric.name);
            let is_measured = values.count() > 0;
            let median = values.median().map(|it| it.value);
            // A value that was measured but does not count is not replaced by the planned one.
            median.or_else(|| of.of_factors(point.factors).filter(|_| !is_measured))
        }
        Dimension::Factor(_) => of.of_factors(point.factors),
        Dimension::Other(_) => None,
    }
}

fn range(point: &Point, of: Dimension) -> Option<Spread> {
    match of {
        Dimension::Metric(metric) => Spread::of(point.values(&metric.name).valid),
        Dimension::Factor(_) | Dimension::Other(_) => None,
    }
}
