//! What is believed about the sustained throughput R, given the verdicts so far.
//!
//! The belief is a Bayesian posterior over ln R and the slope s of the verdicts, on a grid:
//!
//! ```text
//! P(kept at r) = F((ln R − ln r) ÷ s),    F(z) = (1 + z ÷ √(2 + z²)) ÷ 2
//! ```
//!
//! F is the distribution function of Student's t with two degrees of freedom. Its tails are heavy:
//! one trial that the machine disturbed does not outweigh several others. The update for an
//! accuracy that is unknown and depends on the place is that of Rodriguez & Ludkovski, *Generalized
//! probabilistic bisection for stochastic root-finding*, 2017. The prior is uniform over ln R and
//! over the slopes.
//!
//! The belief chooses rates and sizes bets. No claim of the search rests on it.

use super::{SearchTrial, Verdict, rounded};

/// Relative changes of the rate over which verdicts turn.
const SLOPES: [f64; 5] = [0.004, 0.01, 0.025, 0.06, 0.15];
/// The grid reaches this factor beyond both ends of the bracket, as their verdicts may be wrong.
const REACH: f64 = 3.0;
/// Grid points per resolution of the search.
const POINTS_PER_RESOLUTION: f64 = 6.0;

/// The beliefs for both ends of the interval. A trial that the generator limited may have been
/// kept or broken. For the lower end it counts as broken, for the upper one as kept. Without such
/// trials, both beliefs are the same.
#[derive(Debug, Clone)]
pub(super) struct Beliefs {
    pub(super) low: Belief,
    pub(super) high: Belief,
}

impl Beliefs {
    /// The beliefs after the trials that found a bracket, of which only the valid ones count.
    pub(super) fn of(trials: &[SearchTrial], bracket: (f64, f64), resolution: f64) -> Self {
        let low = Belief::of(trials, bracket, resolution);
        Self {
            high: low.clone(),
            low,
        }
    }

    /// The rates of the grid, ascending.
    pub(super) fn rates(&self) -> &[f64] {
        self.low.rates()
    }

    /// Adds a verdict. None: it may have been either.
    pub(super) fn update(&mut self, rate_rps: f64, is_kept: Option<bool>) {
        self.low.update(rate_rps, is_kept == Some(true));
        self.high.update(rate_rps, is_kept != Some(false));
    }

    /// The indices of the medians of both beliefs.
    pub(super) fn medians(&self) -> (usize, usize) {
        (self.low.median(), self.high.median())
    }
}

/// A posterior distribution on a grid of rates.
#[derive(Debug, Clone)]
pub(super) struct Belief {
    rates: Vec<f64>,
    /// The joint probability of R at each rate of the grid and of each slope.
    mass: Vec<[f64; SLOPES.len()]>,
    /// F at each distance on the grid, for each slope.
    kernel: Vec<[f64; SLOPES.len()]>,
}

impl Belief {
    /// The belief after the trials that found a bracket.
    pub(super) fn of(trials: &[SearchTrial], bracket: (f64, f64), resolution: f64) -> Self {
        let step = 1.0 + resolution / POINTS_PER_RESOLUTION;
        let grid = std::iter::successors(Some(bracket.0 / REACH), |rate_rps| Some(rate_rps * step));
        let grid = grid.take_while(|&rate_rps| rate_rps <= bracket.1 * REACH);
        let rates: Vec<f64> = grid.map(rounded).collect();
        let at = |distance: usize| SLOPES.map(|slope| kept(distance as f64 * step.ln() / slope));
        let mut belief = Self {
            mass: vec![[1.0; SLOPES.len()]; rates.len()],
            kernel: (0..rates.len()).map(at).collect(),
            rates,
        };
        for trial in trials.iter().filter(|trial| trial.verdict.is_valid()) {
            belief.update(trial.rate_rps, trial.verdict == Verdict::Kept);
        }
        belief
    }

    /// The rates that R is believed to be one of, ascending.
    pub(super) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Adds a verdict.
    pub(super) fn update(&mut self, rate_rps: f64, is_kept: bool) {
        let mut sum = 0.0;
        for (slopes, at_rps) in self.mass.iter_mut().zip(&self.rates) {
            let distance = (at_rps / rate_rps).ln();
            let distance = if is_kept { distance } else { -distance };
            for (mass, slope) in slopes.iter_mut().zip(SLOPES) {
                *mass *= kept(distance / slope);
                sum += *mass;
            }
        }
        // A sum of zero would need some hundred improbable trials; the grid then is uniform again.
        for mass in self.mass.iter_mut().flatten() {
            *mass = if sum > 0.0 { *mass / sum } else { 1.0 };
        }
    }

    /// For R at each rate of the grid: its probability, and that times the probability that a trial
    /// at the rate of `index` keeps the objective.
    pub(super) fn terms(
        &self,
        index: usize,
    ) -> impl DoubleEndedIterator<Item = (f64, f64)> + ExactSizeIterator {
        self.mass.iter().enumerate().map(move |(at, slopes)| {
            let kernel = &self.kernel[at.abs_diff(index)];
            let (mut mass, mut kept) = (0.0, 0.0);
            for slope in 0..SLOPES.len() {
                mass += slopes[slope];
                kept += slopes[slope] * kernel[slope];
            }
            (mass, if at >= index { kept } else { mass - kept })
        })
    }

    /// The probability that a trial at the rate of `index` keeps the objective.
    pub(super) fn kept(&self, index: usize) -> f64 {
        self.terms(index).map(|(_, kept)| kept).sum()
    }

    /// The index of the median of R.
    pub(super) fn median(&self) -> usize {
        let mut below = 0.0;
        let reaches_half = |slopes: &[f64; SLOPES.len()]| {
            below += slopes.iter().sum::<f64>();
            below >= 0.5
        };
        let found = self.mass.iter().position(reaches_half);
        found.unwrap_or(self.rates.len() - 1)
    }
}

/// Student's t with two degrees of freedom, cumulated.
fn kept(z: f64) -> f64 {
    (0.5 + 0.5 * z / (2.0 + z * z).sqrt()).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn belief(trials: &[(f64, Verdict)]) -> Belief {
        let trial = |&(rate_rps, verdict): &(f64, Verdict)| SearchTrial { rate_rps, verdict };
        let trials: Vec<SearchTrial> = trials.iter().map(trial).collect();
        Belief::of(&trials, (1000.0, 2000.0), 0.1)
    }

    #[test]
    fn the_median_lies_between_a_kept_and_a_broken_rate() {
        let belief = belief(&[(1000.0, Verdict::Kept), (2000.0, Verdict::Broken)]);
        let median_rps = belief.rates()[belief.median()];
        assert!((1300.0..1550.0).contains(&median_rps), "{median_rps}");
    }

    #[test]
    fn a_rate_far_below_is_kept_and_one_far_above_is_not() {
        let belief = belief(&[(1000.0, Verdict::Kept), (2000.0, Verdict::Broken)]);
        let kept: Vec<f64> = (0..belief.rates().len())
            .map(|index| belief.kept(index))
            .collect();
        assert!(kept.is_sorted_by(|a, b| a >= b), "{kept:?}");
        assert!(kept[0] > 0.9 && kept[kept.len() - 1] < 0.1, "{kept:?}");
        assert!((kept[belief.median()] - 0.5).abs() < 0.05);
    }

    #[test]
    fn one_stray_verdict_does_not_outweigh_six() {
        let mut trials = vec![(1000.0, Verdict::Kept); 6];
        trials.extend([(2000.0, Verdict::Broken), (1000.0, Verdict::Broken)]);
        let belief = belief(&trials);
        assert!(belief.rates()[belief.median()] > 1000.0);
    }
}
