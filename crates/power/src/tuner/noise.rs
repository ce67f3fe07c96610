//! The noise of a window of a second: log-normal.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Window;

/// A sequence of noise that a seed determines.
#[derive(Debug, Clone)]
pub(super) struct Noise {
    /// Standard deviation of the logarithm of p99, and of power.
    deviations: (f64, f64),
    random: Xoshiro256PlusPlus,
}

impl Noise {
    pub(super) fn new(deviations: (f64, f64), seed: u64) -> Self {
        Self {
            deviations,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// What is measured of a window with these true values.
    pub(super) fn window(&mut self, truth: Window) -> Window {
        let (tail, power) = self.deviations;
        Window {
            p99_us: truth.p99_us * libm::exp(tail * normal(&mut self.random)),
            power_w: truth.power_w * libm::exp(power * normal(&mut self.random)),
        }
    }
}

/// A standard normal number (Box and Muller).
pub(super) fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - random.random::<f64>())).sqrt();
    radius * libm::cos(std::f64::consts::TAU * random.random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_normal_and_follows_the_seed() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let drawn: Vec<f64> = (0..100_000).map(|_| normal(&mut random)).collect();
        let mean = drawn.iter().sum::<f64>() / 1e5;
        let variance = drawn.iter().map(|it| it * it).sum::<f64>() / 1e5;
        assert!(
            mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03,
            "{mean} {variance}"
        );
        let truth = Window {
            power_w: 50.0,
            p99_us: 100.0,
        };
        let first = |seed| Noise::new((0.02, 0.01), seed).window(truth);
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}
