//! Zipf's law as YCSB draws it: the inverse of an approximate distribution function.
//!
//! Gray, Sundaresan, Englert, Baclawski & Weinberger, "Quickly generating billion-record synthetic
//! databases", SIGMOD 1994: ranks 0 and 1 have their exact probabilities, and the others follow the
//! inverse of the integral. One uniform number makes one rank. The exponent must be below 1.

use std::fmt;

/// Items of the law below [`ScrambledZipfian`], whatever the number of records: ranks 0 to this.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// The sum that YCSB has for them and an exponent of 0.99.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Terms of the zeta sum that are added one by one; the rest is its integral with corrections.
const ZETA_TERMS_MAX: u64 = 1 << 20;

/// FNV-1a with 64 bits (Fowler, Noll & Vo): offset basis and prime.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// An exponent for which the approximation does not hold.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub struct ZipfianError(f64);

impl fmt::Display for ZipfianError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "θ = {} is not above 0 and below 1; for others, use the popularity zipf:θ",
            self.0
        )
    }
}

/// Ranks by popularity, from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zipfian {
    items: u64,
    zeta: f64,
    /// 1 ÷ (1 − θ).
    alpha: f64,
    eta: f64,
    /// Probability of rank 1, relative to that of rank 0.
    second: f64,
}

impl Zipfian {
    /// The law over `items` (at least 1) with exponent θ.
    ///
    /// # Errors
    /// θ is not above 0 and below 1.
    pub fn new(items: u64, theta: f64) -> Result<Self, ZipfianError> {
        let items = items.max(1);
        if theta > 0.0 && theta < 1.0 {
            Ok(Self::with_zeta(items, theta, zeta(items, theta)))
        } else {
            Err(ZipfianError(theta))
        }
    }

    fn with_zeta(items: u64, theta: f64, zeta: f64) -> Self {
        let second = libm::pow(0.5, theta);
        let eta =
            (1.0 - libm::pow(2.0 / items as f64, 1.0 - theta)) / (1.0 - (1.0 + second) / zeta);
        Self {
            items,
            zeta,
            alpha: 1.0 / (1.0 - theta),
            eta,
            second,
        }
    }

    /// The rank of a uniform number of [0, 1).
    #[inline]
    #[must_use]
    pub fn rank(&self, uniform: f64) -> u64 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 || self.items == 1 {
            return 0;
        }
        if scaled < 1.0 + self.second {
            return 1;
        }
        let share = libm::pow(self.eta * uniform - self.eta + 1.0, self.alpha);
        ((self.items as f64 * share) as u64).min(self.items - 1)
    }

    /// The probability of rank 0.
    #[must_use]
    pub fn top_share(&self) -> f64 {
        1.0 / self.zeta
    }
}

/// Records by popularity, where the popular ones are anywhere: ranks of ten thousand million items,
/// hashed.
///
/// As in YCSB, the rank of an item does not depend on the number of records, and records share the
/// popularity of all items that hash to them. Popularity is therefore flatter than Zipf's law over
/// the records: with 1024 records and θ = 0.99, the first has 4 % of the requests and not 13 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScrambledZipfian {
    ranks: Zipfian,
    records: u64,
}

impl ScrambledZipfian {
    /// The law over `records` (at least 1).
    ///
    /// # Errors
    /// θ is not above 0 and below 1.
    #[allow(
        clippy::float_cmp,
        reason = "YCSB's constant belongs to exactly this exponent"
    )]
    pub fn new(records: u64, theta: f64) -> Result<Self, ZipfianError> {
        let items = SCRAMBLED_ITEMS + 1;
        let ranks = if theta == 0.99 {
            Zipfian::with_zeta(items, theta, SCRAMBLED_ZETA)
        } else {
            Zipfian::new(items, theta)?
        };
        Ok(Self {
            ranks,
            records: records.max(1),
        })
    }

    /// The record of a uniform number of [0, 1).
    #[inline]
    #[must_use]
    pub fn record(&self, uniform: f64) -> u64 {
        hash(self.ranks.rank(uniform)) % self.records
    }
}

/// The sum of k^−θ for k from 1 to n.
fn zeta(n: u64, theta: f64) -> f64 {
    let terms = n.min(ZETA_TERMS_MAX);
    let sum = (1..=terms).fold(0.0, |sum, k| sum + 1.0 / libm::pow(k as f64, theta));
    if n == terms {
        return sum;
    }
    // Euler and Maclaurin: the integral, half of the terms at its ends, and their slopes.
    let (from, to) = (terms as f64, n as f64);
    let power = |x: f64, exponent| libm::pow(x, exponent);
    let integral = (power(to, 1.0 - theta) - power(from, 1.0 - theta)) / (1.0 - theta);
    let ends = (power(to, -theta) - power(from, -theta)) / 2.0;
    let slopes = theta * (power(from, -theta - 1.0) - power(to, -theta - 1.0)) / 12.0;
    sum + integral + ends + slopes
}

/// FNV-1a over eight bytes, lowest first, without its sign.
fn hash(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .into_iter()
        .fold(FNV_OFFSET, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
        });
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_many_terms_is_that_of_all() {
        for theta in [0.5, 0.75, 0.99] {
            let n = 3 * ZETA_TERMS_MAX;
            let all = (1..=n).fold(0.0, |sum, k| sum + 1.0 / libm::pow(k as f64, theta));
            assert!((zeta(n, theta) / all - 1.0).abs() < 1e-12);
        }
        // YCSB's constant, which was added up term by term, is off from the ninth digit on.
        assert!((zeta(SCRAMBLED_ITEMS, 0.99) / SCRAMBLED_ZETA - 1.0).abs() < 1e-8);
    }

    #[test]
    fn popular_ranks_have_their_shares() {
        let law = Zipfian::new(1024, 0.75).unwrap();
        let draws = 1_000_000;
        let mut counts = vec![0_u32; 1024];
        for draw in 0..draws {
            counts[law.rank((f64::from(draw) + 0.5) / f64::from(draws)) as usize] += 1;
        }
        for (rank, tolerance) in [(0, 0.001), (1, 0.001), (9, 0.1), (99, 0.1)] {
            let share = law.top_share() / libm::pow(f64::from(rank) + 1.0, 0.75);
            let found = f64::from(counts[rank as usize]) / f64::from(draws);
            assert!(
                (found / share - 1.0).abs() < tolerance,
                "{rank}: {found} of {share}"
            );
        }
    }

    #[test]
    fn bounds_hold() {
        assert_eq!(Zipfian::new(1, 0.5).unwrap().rank(0.999_999), 0);
        let law = Zipfian::new(10, 0.99).unwrap();
        assert!((0..=1000).all(|it| law.rank(f64::from(it) / 1000.0) < 10));
        for theta in [0.0, 1.0, 1.5, f64::NAN] {
            assert!(Zipfian::new(10, theta).is_err());
        }
        let text = Zipfian::new(10, 1.5).unwrap_err().to_string();
        assert!(
            text.starts_with("θ = 1.5 is not above 0 and below 1"),
            "{text}"
        );
    }
}
