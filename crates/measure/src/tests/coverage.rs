//! Intervals cover the truth as often as they state; histograms lose nothing.

use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::{
    BootstrapOptions, Histogram, RankTest, block_bootstrap_quantile, bootstrap_interval,
    effective_samples, histogram_quantile_interval, median_of_trials, paired_ratio,
    quantile_interval, ratio_of_medians,
};

/// Exponential samples of mean 1: skewed, as latencies are. The median is ln 2.
struct Exponential(Xoshiro256PlusPlus);

impl Exponential {
    fn seeded(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn draw(&mut self) -> f64 {
        -(((self.0.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64).ln()
    }

    fn many(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.draw()).collect()
    }

    /// A series about a median of 0, in which each value is 0.8 of the one before + an error.
    fn series(&mut self, count: usize) -> Vec<f64> {
        let mut last = 0.0;
        (0..count)
            .map(|_| {
                last = 0.8 * last + self.draw() - self.draw();
                last
            })
            .collect()
    }

    /// Values like the achieved rates of trials: `around`, with a skewed error of a few per cent.
    fn trials(&mut self, count: usize, around: f64) -> Vec<f64> {
        (0..count)
            .map(|_| around * (1.0 + 0.02 * self.draw()))
            .collect()
    }
}

/// The share of rounds in which something held.
fn share(rounds: u32, mut held: impl FnMut() -> bool) -> f64 {
    f64::from((0..rounds).map(|_| u32::from(held())).sum::<u32>()) / f64::from(rounds)
}

#[test]
fn medians_of_trials_are_covered_as_promised() {
    let mut random = Exponential::seeded(1);
    for (trials, promised) in [(3, 0.75), (6, 0.969), (15, 0.965), (50, 0.951)] {
        let covered = share(4000, || {
            let estimate = median_of_trials(&random.many(trials), 0.95).unwrap();
            assert!(
                (estimate.interval.confidence - promised).abs() < 0.02,
                "{estimate:?}"
            );
            estimate.interval.contains(2.0_f64.ln())
        });
        // Three deviations of a share over 4000 rounds are 0.011 at most here, 0.021 at 0.75.
        assert!((covered - promised).abs() < 0.021, "{trials}: {covered}");
    }
}

#[test]
fn percentiles_are_covered_as_promised() {
    let mut random = Exponential::seeded(2);
    let truth = 100_f64.ln();
    let covered = share(1000, || {
        quantile_interval(&random.many(2000), 0.99, 0.95)
            .unwrap()
            .contains(truth)
    });
    assert!((0.93..=0.98).contains(&covered), "{covered}");
}

#[test]
fn percentiles_of_a_histogram_are_covered_as_promised() {
    let mut random = Exponential::seeded(3);
    let truth_ns = 1e6 * 100_f64.ln();
    let mut histogram = Histogram::new();
    let covered = share(400, || {
        histogram.clear();
        for _ in 0..2000 {
            histogram.record((random.draw() * 1e6) as u64);
        }
        histogram_quantile_interval(&histogram, 0.99, 0.95)
            .unwrap()
            .contains(truth_ns)
    });
    assert!((0.92..=0.99).contains(&covered), "{covered}");
}

#[test]
fn ratios_of_medians_are_covered_nearly_as_promised() {
    let mut random = Exponential::seeded(4);
    let covered = share(120, || {
        let (a, b) = (random.trials(15, 1.03), random.trials(15, 1.0));
        ratio_of_medians(&a, &b, 0.95, 9)
            .unwrap()
            .interval
            .contains(1.03)
    });
    assert!((0.9..=1.0).contains(&covered), "{covered}");
}

#[test]
fn paired_ratios_are_covered_as_promised() {
    let mut random = Exponential::seeded(5);
    let covered = share(2000, || {
        let pairs: Vec<(f64, f64)> = (0..15)
            .map(|_| {
                // The shared factor varies far more than the ratio under test.
                let shared = 1.0 + random.draw();
                (
                    shared * 1.03 * (1.0 + 0.01 * random.draw()),
                    shared * (1.0 + 0.01 * random.draw()),
                )
            })
            .collect();
        paired_ratio(&pairs, 0.95).unwrap().interval.contains(1.03)
    });
    assert!((0.945..=0.98).contains(&covered), "{covered}");
}

#[test]
fn means_are_covered_nearly_as_promised() {
    let mut random = Exponential::seeded(8);
    let options = BootstrapOptions {
        resamples: 400,
        ..BootstrapOptions::new(0.95, 9)
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let covered = share(400, || {
        let estimate = bootstrap_interval(&random.many(40), mean, options).unwrap();
        estimate.interval.contains(1.0)
    });
    assert!((0.87..=0.98).contains(&covered), "{covered}");
}

#[test]
fn medians_of_a_correlated_series_are_covered_by_blocks_alone() {
    let mut random = Exponential::seeded(9);
    let options = BootstrapOptions {
        resamples: 200,
        ..BootstrapOptions::new(0.95, 10)
    };
    let (rounds, mut by_blocks, mut by_ranks) = (150, 0, 0);
    for _ in 0..rounds {
        let series = random.series(1500);
        let blocks = block_bootstrap_quantile(&series, 0.5, 60, options).unwrap();
        by_blocks += u32::from(blocks.interval.contains(0.0));
        let ranks = quantile_interval(&series, 0.5, 0.95).unwrap();
        by_ranks += u32::from(ranks.contains(0.0));
    }
    let [by_blocks, by_ranks] =
        [by_blocks, by_ranks].map(|hits| f64::from(hits) / f64::from(rounds));
    assert!((0.86..=0.99).contains(&by_blocks), "{by_blocks}");
    assert!(by_ranks < 0.8, "{by_ranks}");
}

#[test]
fn effective_samples_give_the_deviation_of_means() {
    let mut random = Exponential::seeded(10);
    let (mut sizes, mut squares) = (0.0, 0.0);
    let (rounds, count) = (200, 2000);
    for _ in 0..rounds {
        let series = random.series(count);
        sizes += effective_samples(&series).unwrap() / f64::from(rounds);
        let mean = series.iter().sum::<f64>() / count as f64;
        squares += mean * mean / f64::from(rounds);
    }
    // The error has a variance of 2, the series one of 2 ÷ (1 − 0.8²).
    let by_deviation = 2.0 / (1.0 - 0.64) / squares;
    assert!(
        (sizes / by_deviation - 1.0).abs() < 0.3,
        "{sizes} {by_deviation}"
    );
}

#[test]
fn shifts_and_ratios_by_ranks_are_covered_as_promised() {
    let mut random = Exponential::seeded(6);
    for (trials, promised) in [(3, 0.90), (15, 0.953)] {
        let (mut shifts, mut ratios) = (0, 0);
        let rounds = 800;
        for _ in 0..rounds {
            let a: Vec<f64> = random
                .trials(trials, 1.0)
                .iter()
                .map(|x| x + 0.03)
                .collect();
            let test = RankTest::of(&a, &random.trials(trials, 1.0), 0.95).unwrap();
            assert!(
                (test.shift.interval.confidence - promised).abs() < 0.006,
                "{test:?}"
            );
            shifts += u32::from(test.shift.interval.contains(0.03));
            let a = random.trials(trials, 1.03);
            let test = RankTest::of(&a, &random.trials(trials, 1.0), 0.95).unwrap();
            ratios += u32::from(test.ratio.unwrap().interval.contains(1.03));
        }
        for covered in [shifts, ratios].map(|hits| f64::from(hits) / f64::from(rounds)) {
            assert!((covered - promised).abs() < 0.032, "{trials}: {covered}");
        }
    }
}

#[test]
fn a_against_a_stays_quiet_and_three_per_cent_are_seen() {
    let mut random = Exponential::seeded(7);
    let mut alarms = |slowdown: f64| {
        share(600, || {
            let (a, b) = (random.trials(15, slowdown), random.trials(15, 1.0));
            RankTest::of(&a, &b, 0.95).unwrap().p_value < 0.05
        })
    };
    let (same, slower) = (alarms(1.0), alarms(1.03));
    assert!((0.025..=0.08).contains(&same), "{same}");
    assert!(slower > 0.95, "{slower}");
}

proptest! {
    // Each case allocates and compares whole histograms.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn merging_is_recording_all(
        one in prop::collection::vec(0..200_000_000_000_u64, 0..200),
        other in prop::collection::vec(0..2_000_000_u64, 0..200),
    ) {
        let recorded = |values: &[u64]| {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&value| histogram.record(value));
            histogram
        };
        let mut merged = recorded(&one);
        merged.merge(&recorded(&other));
        let all = recorded(&[one, other].concat());
        prop_assert_eq!(&merged, &all);
        prop_assert_eq!(merged.to_base64(), all.to_base64());
        prop_assert_eq!(merged.saturated(), all.saturated());
    }

    #[test]
    fn text_round_trips(values in prop::collection::vec(any::<u64>(), 0..100)) {
        let mut histogram = Histogram::new();
        for (i, value) in values.iter().enumerate() {
            histogram.record_n(value >> (i % 64), 1 + i as u64 * 1_000_003);
        }
        prop_assert_eq!(Histogram::from_base64(&histogram.to_base64()), Ok(histogram));
    }

    #[test]
    fn quantiles_rise_and_are_near_the_samples(
        mut values in prop::collection::vec(1..100_000_000_000_u64, 1..200),
        p in 0.0..=1.0_f64,
        q in 0.0..=1.0_f64,
    ) {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        values.sort_unstable();
        prop_assert!(histogram.quantile(p.min(q)) <= histogram.quantile(p.max(q)));
        let rank = ((q * values.len() as f64).ceil() as usize).max(1);
        let (exact, read) = (values[rank - 1] as f64, histogram.quantile(q) as f64);
        prop_assert!(read >= exact && read <= exact * 1.001, "{exact} {read}");
    }

    #[test]
    fn any_text_is_a_histogram_or_an_error(text in "[A-Za-z0-9+/=]{0,200}") {
        let _ = Histogram::from_base64(&text).map(|histogram| histogram.quantile(0.5));
    }

    #[test]
    fn ranks_are_independent_of_the_order_of_samples(
        mut a in prop::collection::vec(1.0..100.0_f64, 1..20),
        b in prop::collection::vec(1.0..100.0_f64, 1..20),
    ) {
        let test = RankTest::of(&a, &b, 0.95);
        let mirrored = RankTest::of(&b, &a, 0.95).unwrap();
        a.reverse();
        prop_assert_eq!(RankTest::of(&a, &b, 0.95), test);
        let test = test.unwrap();
        prop_assert!((test.a12 + mirrored.a12 - 1.0).abs() < 1e-12);
        prop_assert!((test.p_value - mirrored.p_value).abs() < 1e-12);
        prop_assert!((test.shift.interval.low + mirrored.shift.interval.high).abs() < 1e-9);
        prop_assert!(test.shift.interval.contains(test.shift.value));
    }
}
