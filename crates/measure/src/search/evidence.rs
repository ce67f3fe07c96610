//! The ends of the interval: which rates are kept, and which broken, with confidence.
//!
//! **The lower end.** Take the claim "R ≤ r". If it is true, each trial at r or above keeps the
//! objective with a probability of at most 1/2. A bettor against it starts with 1 and bets on
//! *kept* at each of those trials, at odds that are fair for 1/2: with a probability q ≥ 1/2 that
//! is set before the trial, the wealth is multiplied by 2q if the trial is kept and by 2(1 − q) if
//! it is broken. While the claim is true, the wealth is a non-negative supermartingale, so it ever
//! reaches 1/β with a probability of at most β (Ville, *Étude critique de la notion de collectif*,
//! 1939; Shafer, *Testing by betting*, 2021). A claim against which it did is rejected: R > r. The
//! upper end is the mirror image: the claim "R ≥ r", trials at r or below, bets on *broken*.
//!
//! q is the probability by the belief, on the assumption that the claim is false. A good belief
//! makes the wealth grow fast. The bound of β holds for any bets, any choice of rates, and any
//! moment of stopping.
//!
//! The claims are those of the belief's grid. A rate is an end only if all claims on its outer side
//! are rejected too. So for the interval to miss R, the claim of the grid point next to R must be
//! rejected, and no correction for many claims is needed.

use super::belief::Beliefs;

/// The greatest bet. A lost one costs a factor of 2(1 − bet): at 1, a single stray verdict would
/// make a claim irrefutable for good.
const BET_MAX: f64 = 0.97;

/// The bets against the claims of the grid.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    /// Against "R ≤ r".
    low: Vec<Wealth>,
    /// Against "R ≥ r".
    high: Vec<Wealth>,
}

/// The ends that trials prove, as indices of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ends {
    /// The highest rate kept with confidence.
    pub(super) low: Option<usize>,
    /// The lowest rate broken with confidence.
    pub(super) high: Option<usize>,
}

/// The logarithms of a bettor's wealth and of the greatest wealth so far.
#[derive(Debug, Clone, Copy, Default)]
struct Wealth {
    now_ln: f64,
    highest_ln: f64,
}

impl Evidence {
    /// No bets yet, against a claim for each of `count` rates.
    pub(super) fn new(count: usize) -> Self {
        Self {
            low: vec![Wealth::default(); count],
            high: vec![Wealth::default(); count],
        }
    }

    /// Bets on a trial at the rate of `index` by the beliefs before it, and settles. `is_kept` is
    /// None if the trial may have been either; both bets are then lost.
    pub(super) fn bet(&mut self, beliefs: &Beliefs, index: usize, is_kept: Option<bool>) {
        let (mut mass_sum, mut kept_sum) = (0.0, 0.0);
        for (at, (mass, kept)) in beliefs.low.terms(index).enumerate().rev() {
            mass_sum += mass;
            kept_sum += kept;
            if at <= index {
                self.low[at].bet(kept_sum / mass_sum, is_kept == Some(true));
            }
        }
        let (mut mass_sum, mut kept_sum) = (0.0, 0.0);
        for (at, (mass, kept)) in beliefs.high.terms(index).enumerate() {
            mass_sum += mass;
            kept_sum += kept;
            if at >= index {
                self.high[at].bet(1.0 - kept_sum / mass_sum, is_kept == Some(false));
            }
        }
    }

    /// The ends of a confidence interval.
    pub(super) fn ends(&self, confidence: f64) -> Ends {
        let needed_ln = needed_ln(confidence);
        let is_rejected = |wealth: &&Wealth| wealth.highest_ln >= needed_ln;
        let low = self.low.iter().take_while(is_rejected).count();
        let high = self.high.iter().rev().take_while(is_rejected).count();
        Ends {
            low: low.checked_sub(1),
            high: high.checked_sub(1).map(|last| self.high.len() - 1 - last),
        }
    }

    /// What is missing, in logarithms, to make the rate of `index` the lower end and the upper end.
    pub(super) fn missing_ln(&self, index: usize, confidence: f64) -> (f64, f64) {
        let missing = |wealth: &Wealth| needed_ln(confidence) - wealth.now_ln;
        (missing(&self.low[index]), missing(&self.high[index]))
    }
}

/// The wealth that rejects a claim. Half of the error is for either end.
fn needed_ln(confidence: f64) -> f64 {
    (2.0 / (1.0 - confidence)).ln()
}

impl Wealth {
    /// Bets with a probability of winning. Where that is below 1/2, nothing is staked.
    fn bet(&mut self, probability: f64, has_won: bool) {
        // Where the belief excludes what is bet on, the probability is 0 ÷ 0: no stake either.
        let bet = if probability > 0.5 {
            probability.min(BET_MAX)
        } else {
            0.5
        };
        self.now_ln += (2.0 * if has_won { bet } else { 1.0 - bet }).ln();
        self.highest_ln = self.highest_ln.max(self.now_ln);
    }
}

/// The mean growth of the logarithm of the wealth in one bet that is won with a probability.
pub(super) fn growth_ln(probability: f64) -> f64 {
    let p = probability.clamp(0.5, BET_MAX);
    p * (2.0 * p).ln() + (1.0 - p) * (2.0 * (1.0 - p)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wealth_after(bets: &[(f64, bool)]) -> Wealth {
        let mut wealth = Wealth::default();
        for &(probability, has_won) in bets {
            wealth.bet(probability, has_won);
        }
        wealth
    }

    /// 1.8⁶ = 34 and 1.8⁷ = 61 enclose the 40 that 95 % need.
    #[test]
    fn seven_bets_of_nine_tenths_decide_an_end() {
        let highest_ln = |count| wealth_after(&vec![(0.9, true); count]).highest_ln;
        assert!(highest_ln(6) < needed_ln(0.95) && highest_ln(7) > needed_ln(0.95));
    }

    #[test]
    fn a_bet_without_an_edge_stakes_nothing() {
        for probability in [0.5, 0.1, f64::NAN] {
            assert_eq!(wealth_after(&[(probability, false)]).now_ln, 0.0);
        }
    }

    #[test]
    fn a_lost_bet_leaves_something() {
        let wealth = wealth_after(&[(1.0, true), (1.0, false)]);
        assert!(wealth.now_ln > -2.5 && wealth.highest_ln > 0.6);
    }

    /// Bets are fair under the claim: the mean wealth over both outcomes stays what it was.
    #[test]
    fn the_bets_are_fair() {
        for probability in [0.5, 0.7, 0.97, 1.0] {
            let of = |has_won| wealth_after(&[(probability, has_won)]).now_ln.exp();
            assert!((f64::midpoint(of(true), of(false)) - 1.0).abs() < 1e-12);
        }
    }
}
