//! What the rounds came to: rates, their ratios, and whether the store reached its target.

use measure::{Estimate, median, paired_ratio, verdict};

use crate::subject::Kind;

const CONFIDENCE: f64 = 0.95;

/// How many times the rate of others the store's shall be, at least.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// That of the best library that evicts.
    Best(f64),
    /// That of a store for each thread.
    OneEach(f64),
}

/// Requests a second, of each cache and round.
pub(crate) struct Rates {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) rates: Vec<Vec<f64>>,
}

impl Rates {
    fn of(&self, kind: Kind) -> Option<&[f64]> {
        let at = self.kinds.iter().position(|&it| it == kind)?;
        Some(&self.rates[at])
    }

    pub(crate) fn median(&self, kind: Kind) -> Option<f64> {
        median(self.of(kind)?)
    }

    /// Times the rate of another, within the rounds.
    fn times(&self, kind: Kind, other: Kind) -> Option<Estimate> {
        let pairs = self.of(kind)?.iter().zip(self.of(other)?);
        let pairs: Vec<(f64, f64)> = pairs.map(|(&rate, &other)| (rate, other)).collect();
        paired_ratio(&pairs, CONFIDENCE)
    }

    pub(crate) fn shown(&self, kind: Kind, other: Kind) -> String {
        let times = self.times(kind, other);
        times.map_or("-".to_owned(), |times| times.to_string())
    }

    /// Whether the store's own rate is what it shall be.
    pub(crate) fn judged(&self, target: Target) -> String {
        let of = |kind: &Kind| self.median(*kind).unwrap_or(0.0);
        let (least, other, name) = match target {
            Target::Best(least) => {
                let libraries = self.kinds.iter().filter(|kind| kind.is_bounded_library());
                let best = libraries.max_by(|one, other| of(one).total_cmp(&of(other)));
                let name = best.map_or("none", |best| best.name());
                (
                    least,
                    best.copied(),
                    format!("the best bounded library ({name})"),
                )
            }
            Target::OneEach(least) => (least, Some(Kind::CurtailApart), "one each".to_owned()),
        };
        let times = other.and_then(|other| self.times(Kind::Curtail, other));
        let is_reached = times.map(|times| times.interval.low >= least);
        verdict(&format!("target ≥ {least:.2} times {name}"), is_reached)
    }
}
