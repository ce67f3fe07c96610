//! Zipf's law over 1..=n by rejection-inversion: no table, constant expected time.
//!
//! Hörmann & Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3) 1996. H is the integral of the hat h(x) = x^−θ. A point drawn
//! under the hat is rounded to the nearest integer and accepted if it lies under that integer's
//! column; a cheap test (the squeeze) decides nearly always.

use crate::RandomStream;

/// Zipf's law with exponent θ over 1..=n.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Zipf {
    n: f64,
    theta: f64,
    /// H at n + ½, where the hat ends.
    hat_end: f64,
    /// H at 1½ − the column of 1, where the hat begins: 1 is then never rejected.
    hat_start: f64,
    /// A point at most this far below its integer is certainly under its column.
    squeeze: f64,
}

impl Zipf {
    /// `n` at least 1, θ positive.
    pub(super) fn new(n: u64, theta: f64) -> Self {
        let n = n.max(1) as f64;
        Self {
            n,
            theta,
            hat_end: hat_integral(n + 0.5, theta),
            hat_start: hat_integral(1.5, theta) - 1.0,
            squeeze: 2.0
                - inverse_hat_integral(
                    hat_integral(2.5, theta) - libm::exp(-theta * libm::log(2.0)),
                    theta,
                ),
        }
    }

    /// Draws a rank, from 1.
    #[inline]
    pub(super) fn draw(&self, stream: &mut RandomStream) -> u64 {
        loop {
            let under = self.hat_end + stream.unit() * (self.hat_start - self.hat_end);
            let x = inverse_hat_integral(under, self.theta);
            let k = libm::floor(x + 0.5).clamp(1.0, self.n);
            if k - x <= self.squeeze || under >= hat_integral(k + 0.5, self.theta) - self.column(k)
            {
                return k as u64;
            }
        }
    }

    fn column(&self, k: f64) -> f64 {
        libm::exp(-self.theta * libm::log(k))
    }
}

/// H(x) = (x^(1−θ) − 1) ÷ (1 − θ), which is ln x where θ is 1.
fn hat_integral(x: f64, theta: f64) -> f64 {
    let log = libm::log(x);
    let y = (1.0 - theta) * log;
    if y.abs() < 1e-8 {
        log * (1.0 + y / 2.0)
    } else {
        libm::expm1(y) / (1.0 - theta)
    }
}

/// The inverse of H.
fn inverse_hat_integral(area: f64, theta: f64) -> f64 {
    // Only rounding errors are below −1.
    let y = (area * (1.0 - theta)).max(-1.0);
    if y.abs() < 1e-8 {
        libm::exp(area * (1.0 - y / 2.0))
    } else {
        libm::exp(libm::log1p(y) / (1.0 - theta))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hat_and_its_inverse_agree_also_near_theta_one() {
        for theta in [0.1, 0.99, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 1.01, 2.0, 5.0] {
            for x in [0.6, 1.0, 1.5, 30.0] {
                let back = inverse_hat_integral(hat_integral(x, theta), theta);
                assert!((back / x - 1.0).abs() < 1e-6, "{theta} {x} {back}");
            }
        }
    }
}
