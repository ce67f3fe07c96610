//! Latency objectives, and how they are written: `mean=1ms`, `p99=500us`.

use std::fmt;
use std::str::FromStr;

use units::{UnitError, duration_ns, show_duration};

use crate::limits::{BEYOND_PERCENTILE_MIN, MEAN_REQUESTS_MIN};

/// A statistic of the response times of a trial: their mean or a percentile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// The arithmetic mean.
    Mean,
    /// A percentile, above 0 and below 100.
    Percentile(f64),
}

/// An objective: a figure of the response times, and its greatest allowed value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    /// The figure.
    pub figure: Figure,
    /// The greatest value that the figure may have.
    pub limit_ns: u64,
}

/// The reason why a text is not a latency objective.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectiveError {
    /// The text is not of the form `FIGURE=TIME`.
    #[error("`{0}` is not a latency objective; give mean=TIME or pN=TIME, such as p99=500us")]
    Form(String),
    /// The percentile is not a number above 0 and below 100.
    #[error("`{0}` is not a percentile; give p with a number above 0 and below 100, such as p99.9")]
    Percentile(String),
    /// The limit is not a duration.
    #[error(transparent)]
    Limit(#[from] UnitError),
    /// The limit is zero.
    #[error("`{0}` allows no time; give a limit above 0, such as p99=500us")]
    Zero(String),
}

impl Objective {
    /// Returns the number of requests that a trial must have at least to judge this objective.
    pub(super) fn requests_min(&self) -> f64 {
        match self.figure {
            Figure::Mean => MEAN_REQUESTS_MIN,
            Figure::Percentile(at) => {
                // The expected number of requests that are slower than the percentile must be at
                // least `BEYOND_PERCENTILE_MIN`. It is the number of all requests times this share.
                let share_beyond = 1.0 - at / 100.0;
                (BEYOND_PERCENTILE_MIN / share_beyond).max(MEAN_REQUESTS_MIN)
            }
        }
    }
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let shown_text = || text.chars().take(60).collect::<String>();
        let (figure, limit) = text
            .split_once('=')
            .ok_or_else(|| ObjectiveError::Form(shown_text()))?;
        let figure = match figure.trim() {
            "mean" => Figure::Mean,
            name => {
                let number = name
                    .strip_prefix('p')
                    .ok_or_else(|| ObjectiveError::Form(shown_text()))?;
                let percentile = number.parse::<f64>().ok();
                let percentile = percentile.filter(|&at| at > 0.0 && at < 100.0);
                let shown_name = name.chars().take(60).collect();
                Figure::Percentile(percentile.ok_or(ObjectiveError::Percentile(shown_name))?)
            }
        };
        match duration_ns(limit)? {
            0 => Err(ObjectiveError::Zero(shown_text())),
            limit_ns => Ok(Self { figure, limit_ns }),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => out.write_str("mean"),
            Self::Percentile(at) => write!(out, "p{at}"),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ≤ {}", self.figure, show_duration(self.limit_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_objectives_are_parsed() {
        for (text, figure, limit_ns) in [
            ("mean=1ms", Figure::Mean, 1_000_000),
            ("p99=500us", Figure::Percentile(99.0), 500_000),
            ("p99.9 = 1 ms", Figure::Percentile(99.9), 1_000_000),
            ("p50=0.25s", Figure::Percentile(50.0), 250_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Objective { figure, limit_ns }), "{text}");
        }
        let shown = "p99.9=1ms".parse::<Objective>().unwrap().to_string();
        assert_eq!(shown, "p99.9 ≤ 1.00 ms");
    }

    #[test]
    fn parse_error_names_the_text_and_the_accepted_form() {
        for (text, fault) in [
            ("p99", "`p99` is not a latency objective; give mean=TIME"),
            ("max=1ms", "`max=1ms` is not a latency objective"),
            ("p100=1ms", "`p100` is not a percentile"),
            ("pNaN=1ms", "`pNaN` is not a percentile"),
            (
                "p99=soon",
                "`soon` is not a duration; give a number with ns, us",
            ),
            ("p99=0", "`p99=0` allows no time"),
        ] {
            let error = text.parse::<Objective>().unwrap_err().to_string();
            assert!(error.starts_with(fault), "{error}");
        }
    }

    #[test]
    fn high_percentiles_need_more_requests() {
        let min = |text: &str| text.parse::<Objective>().unwrap().requests_min().round();
        assert_eq!((min("p99=1ms"), min("p99.9=1ms")), (1000.0, 10_000.0));
        assert_eq!((min("p50=1ms"), min("mean=1ms")), (100.0, 100.0));
    }
}
