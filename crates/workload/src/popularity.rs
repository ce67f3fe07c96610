//! The popularity of records: how often each is requested.

mod permutation;
mod zipf;

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

pub use permutation::Permutation;
use zipf::Zipf;

use crate::RandomStream;
use crate::limits::{DISTRIBUTION_TEXT_LEN_MAX, THETA_MAX};

/// A distribution of popularity: `uniform` or `zipf:θ`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Popularity {
    /// Every record equally.
    Uniform,
    /// The k-th most popular record is requested in proportion to k^−θ; θ from 0 to 5.
    Zipf(f64),
}

/// Text that is no valid popularity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "popularity `{text}`: {fault}; accepted are uniform and zipf:θ with θ from 0 to {THETA_MAX}"
)]
pub struct PopularityError {
    /// The text, cut where it is long.
    pub text: String,
    /// What is wrong with it.
    pub fault: String,
}

/// Draws record numbers by popularity, in constant time and space.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordSampler {
    records: u64,
    skew: Option<(Zipf, Permutation)>,
}

impl RecordSampler {
    /// A sampler over `records` (at least 1). The seed decides which records are popular.
    #[must_use]
    pub fn new(popularity: Popularity, records: u64, seed: u64) -> Self {
        let records = records.max(1);
        let skew = match popularity {
            Popularity::Zipf(theta) if theta > 0.0 => {
                Some((Zipf::new(records, theta), Permutation::new(records, seed)))
            }
            _ => None,
        };
        Self { records, skew }
    }

    /// Draws a record's number.
    #[inline]
    pub fn draw(&self, stream: &mut RandomStream) -> u64 {
        match &self.skew {
            None => stream.below(self.records),
            Some((zipf, permutation)) => permutation.apply(zipf.draw(stream) - 1),
        }
    }

    /// The record of a popularity rank, from 0 for the most popular.
    #[must_use]
    pub fn record_of_rank(&self, rank: u64) -> u64 {
        match &self.skew {
            None => rank,
            Some((_, permutation)) => permutation.apply(rank),
        }
    }
}

impl FromStr for Popularity {
    type Err = PopularityError;

    fn from_str(text: &str) -> Result<Self, PopularityError> {
        let text = text.trim();
        let error = |fault: String| PopularityError {
            text: text.chars().take(DISTRIBUTION_TEXT_LEN_MAX).collect(),
            fault,
        };
        match text.split_once(':') {
            None if text.eq_ignore_ascii_case("uniform") => Ok(Self::Uniform),
            None if text.eq_ignore_ascii_case("zipf") => Err(error("θ is missing".to_owned())),
            Some((name, theta)) if name.trim().eq_ignore_ascii_case("zipf") => {
                match theta.trim().parse::<f64>() {
                    Ok(theta) if (0.0..=THETA_MAX).contains(&theta) => Ok(Self::Zipf(theta)),
                    Ok(theta) => Err(error(format!("θ = {theta} is out of range"))),
                    Err(_) => Err(error(format!("`{}` is not a number", theta.trim()))),
                }
            }
            _ => Err(error("no such popularity".to_owned())),
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => out.write_str("uniform"),
            Self::Zipf(theta) => write!(out, "zipf:{theta}"),
        }
    }
}

impl TryFrom<String> for Popularity {
    type Error = PopularityError;

    fn try_from(text: String) -> Result<Self, PopularityError> {
        text.parse()
    }
}

impl From<Popularity> for String {
    fn from(popularity: Popularity) -> Self {
        popularity.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_parse_and_come_back() {
        for text in ["uniform", "zipf:0.99", "zipf:1", "zipf:0"] {
            assert_eq!(text.parse::<Popularity>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_error_names_the_text_the_fault_and_the_forms() {
        let cases = [
            ("zipf", "θ is missing"),
            ("zipf:-1", "θ = -1 is out of range"),
            ("zipf:NaN", "θ = NaN is out of range"),
            ("zipf:x", "`x` is not a number"),
            ("hot:1", "no such popularity"),
        ];
        for (text, fault) in cases {
            let message = text.parse::<Popularity>().unwrap_err().to_string();
            let expected = format!(
                "popularity `{text}`: {fault}; accepted are uniform and zipf:θ with θ from 0 to 5"
            );
            assert_eq!(message, expected);
        }
    }
}
