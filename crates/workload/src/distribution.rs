//! Probability distributions, in mutilate's notation.
//!
//! | text | distribution |
//! |---|---|
//! | `fixed:N`, `N` | always N |
//! | `uniform:max`, `uniform:min,max` | uniform (min is 0 by default) |
//! | `normal:mean,sd` | normal |
//! | `exponential:lambda` | mean 1 ÷ lambda |
//! | `pareto:loc,scale,shape` | generalised Pareto |
//! | `gev:loc,scale,shape` | generalised extreme value |
//! | `fb_key` | lengths of keys of Facebook's ETC pool |
//! | `fb_value` | lengths of its values |
//! | `fb_ia` | gaps between its requests |
//!
//! A positive shape means a heavy upper tail, for `pareto` and `gev` alike; shape 0 is the limit
//! (exponential, Gumbel). Each distribution is drawn through its inverse distribution function, one
//! uniform number per sample, so that a sample can also be a pure function of a record's number.
//!
//! The `fb_` distributions: Atikoglu, Xu, Frachtenberg, Jiang & Paleczny, "Workload analysis of a
//! large-scale key-value store", SIGMETRICS 2012, section 5.

mod facebook;
mod maths;
mod text;

use serde::{Deserialize, Serialize};

pub use text::DistributionError;

use crate::RandomStream;

/// A probability distribution. It parses from text (`FromStr`); `Display` gives text that parses to
/// the same distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Distribution {
    /// Always the same value.
    Fixed(f64),
    /// Uniform between two numbers.
    Uniform {
        /// Least.
        min: f64,
        /// Greatest; not below `min`.
        max: f64,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation; not negative.
        deviation: f64,
    },
    /// Exponential.
    Exponential {
        /// One over the mean; positive.
        lambda: f64,
    },
    /// Generalised Pareto.
    Pareto {
        /// Minimum value.
        location: f64,
        /// Positive.
        scale: f64,
        /// Positive: heavy tail; the mean exists below 1.
        shape: f64,
    },
    /// Generalised extreme value.
    Gev {
        /// Location.
        location: f64,
        /// Positive.
        scale: f64,
        /// Positive: heavy upper tail; the mean exists below 1.
        shape: f64,
    },
    /// Lengths of keys of the ETC pool.
    FacebookKey,
    /// Lengths of values of the ETC pool.
    FacebookValue,
    /// Gaps between requests of the ETC pool, microseconds.
    FacebookArrival,
}

impl Distribution {
    /// Draws one number.
    #[inline]
    #[must_use]
    pub fn sample(&self, stream: &mut RandomStream) -> f64 {
        self.quantile(stream.unit())
    }

    /// The inverse of [`Distribution::cdf`]: the least x with cdf(x) ≥ `p`. `p` lies in (0, 1).
    #[must_use]
    pub fn quantile(&self, p: f64) -> f64 {
        match self.resolved() {
            Self::Fixed(value) => value,
            Self::Uniform { min, max } => min + (max - min) * p,
            Self::Normal { mean, deviation } => mean + deviation * maths::normal_quantile(p),
            Self::Exponential { lambda } => -libm::log1p(-p) / lambda,
            Self::Pareto {
                location,
                scale,
                shape,
            } => location + scale * maths::box_cox_exp(shape, -libm::log1p(-p)),
            Self::Gev {
                location,
                scale,
                shape,
            } => location + scale * maths::box_cox_exp(shape, -libm::log(-libm::log(p))),
            _ => facebook::value_quantile(p),
        }
    }

    /// The share of samples that are at most `x`.
    #[must_use]
    pub fn cdf(&self, x: f64) -> f64 {
        match self.resolved() {
            Self::Fixed(value) => f64::from(u8::from(x >= value)),
            Self::Uniform { min, max } if max > min => ((x - min) / (max - min)).clamp(0.0, 1.0),
            Self::Uniform { min, .. } => f64::from(u8::from(x >= min)),
            Self::Normal { mean, deviation } if deviation > 0.0 => {
                maths::normal_cdf((x - mean) / deviation)
            }
            Self::Normal { mean, .. } => f64::from(u8::from(x >= mean)),
            Self::Exponential { lambda } => -libm::expm1(-lambda * x.max(0.0)),
            Self::Pareto {
                location,
                scale,
                shape,
            } => {
                let excess = ((x - location) / scale).max(0.0);
                -libm::expm1(-maths::inverse_box_cox_exp(shape, excess))
            }
            Self::Gev {
                location,
                scale,
                shape,
            } => libm::exp(-libm::exp(-maths::inverse_box_cox_exp(
                shape,
                (x - location) / scale,
            ))),
            _ => facebook::value_cdf(x),
        }
    }

    /// The exact mean; none where it is infinite (shape 1 and above).
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        match self.resolved() {
            Self::Fixed(value) => Some(value),
            Self::Uniform { min, max } => Some(min + (max - min) / 2.0),
            Self::Normal { mean, .. } => Some(mean),
            Self::Exponential { lambda } => Some(1.0 / lambda),
            Self::Pareto {
                location,
                scale,
                shape,
            } => (shape < 1.0).then(|| location + scale / (1.0 - shape)),
            Self::Gev {
                location,
                scale,
                shape,
            } => (shape < 1.0).then(|| location + scale * maths::gev_unit_mean(shape)),
            _ => facebook::value_mean(),
        }
    }

    /// The exact mean of max(sample, 0): the mean gap between requests. None where it is infinite.
    #[must_use]
    pub fn positive_mean(&self) -> Option<f64> {
        match self.resolved() {
            Self::Fixed(value) => Some(value.max(0.0)),
            Self::Uniform { min, max } if min < 0.0 && max > 0.0 => {
                Some(max / 2.0 * (max / (max - min)))
            }
            Self::Uniform { max, .. } if max <= 0.0 => Some(0.0),
            Self::Normal { mean, deviation } => Some(maths::normal_positive_mean(mean, deviation)),
            // Conditioned on being above 0, it is again a generalised Pareto of the same shape.
            Self::Pareto {
                location,
                scale,
                shape,
            } if location < 0.0 => {
                let scale_above = (scale - shape * location).max(0.0);
                (shape < 1.0).then(|| (1.0 - self.cdf(0.0)) * scale_above / (1.0 - shape))
            }
            Self::Gev {
                location,
                scale,
                shape,
            } => (shape < 1.0).then(|| maths::gev_positive_mean(location, scale, shape)),
            _ => self.mean(),
        }
    }

    /// The general distribution behind a `fb_` name, where there is one.
    #[inline]
    fn resolved(&self) -> Self {
        match self {
            Self::FacebookKey => facebook::KEY,
            Self::FacebookArrival => facebook::ARRIVAL,
            distribution => *distribution,
        }
    }
}
