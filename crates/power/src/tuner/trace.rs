//! The load of a day: an offered rate for each second.
//!
//! A cosine between the least rate and the greatest, as key-value stores have it from day to day
//! (Atikoglu et al., SIGMETRICS 2012: a factor of two to three between night and evening), times a
//! log-normal spread that is correlated over about a minute.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::noise::normal;

/// Seconds of an hour.
pub const HOUR_S: usize = 3_600;
/// Seconds of a day.
pub const DAY_S: usize = 24 * HOUR_S;
/// The hour of the least load. The greatest is twelve hours later.
const LEAST_HOUR: f64 = 4.0;
/// Standard deviation of the logarithm of the rate around the cosine. Assumed.
const SPREAD: f64 = 0.03;
/// Seconds after which a deviation has decayed to 1 ÷ e. Assumed.
const MEMORY_S: f64 = 60.0;

/// Rates of a day, requests a second.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    rates_rps: Vec<f64>,
}

impl Trace {
    /// A day between two rates.
    #[must_use]
    pub fn new(least_rps: f64, most_rps: f64, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (middle, half) = ((least_rps + most_rps) / 2.0, (most_rps - least_rps) / 2.0);
        let keep = libm::exp(-1.0 / MEMORY_S);
        // With this share of fresh noise, the deviation stays what it is.
        let fresh = SPREAD * (1.0 - keep * keep).sqrt();
        let mut deviation = SPREAD * normal(&mut random);
        let rate = |second: usize| {
            let hours = second as f64 / HOUR_S as f64 - LEAST_HOUR;
            let mean_rps = middle - half * libm::cos(hours / 24.0 * std::f64::consts::TAU);
            let rate_rps = mean_rps * libm::exp(deviation);
            deviation = keep * deviation + fresh * normal(&mut random);
            rate_rps
        };
        Self {
            rates_rps: (0..DAY_S).map(rate).collect(),
        }
    }

    /// The rates of an hour, 0 to 23, one for each second.
    #[must_use]
    pub fn hour(&self, hour: usize) -> &[f64] {
        &self.rates_rps[hour * HOUR_S..(hour + 1) * HOUR_S]
    }

    /// Requests of the day.
    #[must_use]
    pub fn requests(&self) -> f64 {
        self.rates_rps.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_a_night_and_an_evening_and_a_spread_of_seconds() {
        let trace = Trace::new(100e3, 400e3, 1);
        let mean = |hour: usize| trace.hour(hour).iter().sum::<f64>() / HOUR_S as f64;
        assert!((mean(4) / 101e3 - 1.0).abs() < 0.03, "{}", mean(4));
        assert!((mean(16) / 399e3 - 1.0).abs() < 0.03, "{}", mean(16));
        assert!((mean(10) / 260e3 - 1.0).abs() < 0.1, "{}", mean(10));
        assert!((trace.requests() / (250e3 * DAY_S as f64) - 1.0).abs() < 0.01);
        // Neighbouring seconds differ by little, all of an hour by the spread.
        let hour = trace.hour(16);
        let ratios = hour.iter().map(|it| libm::log(it / mean(16)));
        let spread = (ratios.map(|it| it * it).sum::<f64>() / HOUR_S as f64).sqrt();
        assert!((0.02..0.045).contains(&spread), "{spread}");
        let steps = hour.windows(2).map(|it| libm::log(it[1] / it[0]).abs());
        let step = steps.sum::<f64>() / HOUR_S as f64;
        assert!((0.002..0.008).contains(&step), "{step}");
        assert_ne!(trace, Trace::new(100e3, 400e3, 2));
    }
}
