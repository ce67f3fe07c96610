//! What a tuner is compared with.

use super::Window;

/// The lowest-latency class of the device's adaptive delay, in which small packets at the rates of
/// the study stay. Assumed.
pub const DEFAULT_DELAY_US: f64 = 10.0;

/// Settings that need no search, or a complete one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// The device's adaptive delay at low load ([`DEFAULT_DELAY_US`]), at the highest speed.
    Default,
    /// Shortest delay, highest speed: finish and halt.
    RaceToIdle,
    /// Shortest delay, the lowest speed that keeps the objective, as if it were known.
    PaceToIdle,
    /// The least power of all points that keep the objective, as if all were known.
    Exhaustive,
}

/// A table of the true values, by delay and speed.
pub type Truth = Vec<Vec<Window>>;

impl Rival {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("default", Self::Default),
        ("race to idle", Self::RaceToIdle),
        ("pace to idle", Self::PaceToIdle),
        ("exhaustive", Self::Exhaustive),
    ];

    /// Its point. None: no point keeps the objective.
    #[must_use]
    pub fn point(
        self,
        truth: &Truth,
        delays_us: &[f64],
        objective_us: f64,
    ) -> Option<(usize, usize)> {
        let fastest = truth.first()?.len().checked_sub(1)?;
        let keeps = |&(delay, speed): &(usize, usize)| truth[delay][speed].p99_us < objective_us;
        let power = |&(delay, speed): &(usize, usize)| truth[delay][speed].power_w;
        match self {
            Self::Default => Some((default_delay(delays_us)?, fastest)),
            Self::RaceToIdle => Some((0, fastest)),
            Self::PaceToIdle => (0..=fastest).map(|speed| (0, speed)).find(keeps),
            Self::Exhaustive => {
                let all =
                    (0..truth.len()).flat_map(|delay| (0..=fastest).map(move |it| (delay, it)));
                all.filter(keeps)
                    .min_by(|a, b| power(a).total_cmp(&power(b)))
            }
        }
    }
}

/// The index of the first delay that is at least [`DEFAULT_DELAY_US`].
pub(super) fn default_delay(delays_us: &[f64]) -> Option<usize> {
    delays_us.iter().position(|it| *it >= DEFAULT_DELAY_US)
}
