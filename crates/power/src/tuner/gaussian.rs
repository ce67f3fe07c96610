//! Regression by a Gaussian process (Rasmussen and Williams 2006, algorithm 2.1), with the Matérn
//! kernel of smoothness 5/2 and a noise for each observation. A search has at most a few dozen
//! observations, so the factorisation is done anew for each proposal.

/// How the value at one place tells of that at another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kernel {
    /// Standard deviation where nothing was observed.
    pub(super) deviation: f64,
    /// Distances over which values are alike, in each direction.
    pub(super) lengths: [f64; 2],
}

/// A value that was observed at a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observation {
    pub(super) place: [f64; 2],
    pub(super) value: f64,
    /// Of its noise.
    pub(super) variance: f64,
}

/// A process that has seen observations.
#[derive(Debug, Clone)]
pub(super) struct Gaussian {
    kernel: Kernel,
    mean: f64,
    places: Vec<[f64; 2]>,
    /// The lower triangle of the covariance's factor, row by row.
    factor: Vec<Vec<f64>>,
    weights: Vec<f64>,
}

/// Added to each variance, so that equal places leave the matrix positive.
const JITTER: f64 = 1e-9;

impl Kernel {
    fn covariance(&self, a: [f64; 2], b: [f64; 2]) -> f64 {
        let part = |it: usize| (a[it] - b[it]) / self.lengths[it];
        let distance = (part(0) * part(0) + part(1) * part(1)).sqrt();
        let scaled = 5.0_f64.sqrt() * distance;
        let smooth = (1.0 + scaled + scaled * scaled / 3.0) * libm::exp(-scaled);
        self.deviation * self.deviation * smooth
    }
}

impl Gaussian {
    pub(super) fn new(kernel: Kernel, mean: f64, observations: Vec<Observation>) -> Self {
        let mut factor: Vec<Vec<f64>> = Vec::with_capacity(observations.len());
        for (i, one) in observations.iter().enumerate() {
            let mut row: Vec<f64> = Vec::with_capacity(i + 1);
            for (j, other) in observations[..=i].iter().enumerate() {
                let upper = if i == j { &row } else { &factor[j] };
                let known: f64 = row[..j].iter().zip(upper).map(|(a, b)| a * b).sum();
                let left = kernel.covariance(one.place, other.place) - known;
                row.push(match i == j {
                    true => (left + one.variance + JITTER).max(JITTER).sqrt(),
                    false => left / factor[j][j],
                });
            }
            factor.push(row);
        }
        let values = observations.iter().map(|it| it.value - mean).collect();
        let weights = backward(&factor, forward(&factor, values));
        let places = observations.into_iter().map(|it| it.place).collect();
        Self {
            kernel,
            mean,
            places,
            factor,
            weights,
        }
    }

    /// Mean and standard deviation at a place.
    pub(super) fn predict(&self, place: [f64; 2]) -> (f64, f64) {
        let alike: Vec<f64> = self
            .places
            .iter()
            .map(|it| self.kernel.covariance(*it, place))
            .collect();
        let mean: f64 = alike.iter().zip(&self.weights).map(|(a, b)| a * b).sum();
        let told: f64 = forward(&self.factor, alike).iter().map(|it| it * it).sum();
        let variance = self.kernel.deviation * self.kernel.deviation - told;
        (self.mean + mean, variance.max(0.0).sqrt())
    }
}

/// Solves L x = b.
fn forward(factor: &[Vec<f64>], mut b: Vec<f64>) -> Vec<f64> {
    for i in 0..b.len() {
        let known: f64 = factor[i][..i].iter().zip(&b).map(|(a, x)| a * x).sum();
        b[i] = (b[i] - known) / factor[i][i];
    }
    b
}

/// Solves Lᵀ x = b.
fn backward(factor: &[Vec<f64>], mut b: Vec<f64>) -> Vec<f64> {
    for i in (0..b.len()).rev() {
        let known: f64 = (i + 1..b.len()).map(|it| factor[it][i] * b[it]).sum();
        b[i] = (b[i] - known) / factor[i][i];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Kernel = Kernel {
        deviation: 2.0,
        lengths: [0.5, 0.5],
    };

    fn seen(variance: f64) -> Gaussian {
        let observe = |x: f64, value| Observation {
            place: [x, 0.0],
            value,
            variance,
        };
        Gaussian::new(
            KERNEL,
            1.0,
            vec![observe(0.0, 3.0), observe(0.4, 2.0), observe(1.0, 5.0)],
        )
    }

    #[test]
    fn exact_observations_are_repeated_and_far_away_nothing_is_known() {
        for (x, value) in [(0.0, 3.0), (0.4, 2.0), (1.0, 5.0)] {
            let (mean, deviation) = seen(0.0).predict([x, 0.0]);
            assert!(
                (mean - value).abs() < 1e-6 && deviation < 1e-3,
                "{mean} {deviation}"
            );
        }
        let (mean, deviation) = seen(0.0).predict([50.0, 0.0]);
        assert!((mean - 1.0).abs() < 1e-9 && (deviation - 2.0).abs() < 1e-9);
    }

    #[test]
    fn one_noisy_observation_is_weighed_with_the_prior() {
        let observation = Observation {
            place: [0.0, 0.0],
            value: 5.0,
            variance: 4.0,
        };
        let (mean, deviation) = Gaussian::new(KERNEL, 1.0, vec![observation]).predict([0.0, 0.0]);
        // Prior variance 4 and noise 4: half of the way, and half of the variance.
        assert!((mean - 3.0).abs() < 1e-6 && (deviation - 2.0_f64.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn repeated_places_do_not_break_the_factorisation() {
        let observation = Observation {
            place: [0.2, 0.2],
            value: 2.0,
            variance: 0.0,
        };
        let (mean, deviation) =
            Gaussian::new(KERNEL, 0.0, vec![observation; 20]).predict([0.2, 0.2]);
        assert!(
            (mean - 2.0).abs() < 1e-3 && deviation < 0.01,
            "{mean} {deviation}"
        );
    }
}
