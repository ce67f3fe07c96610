//! Intervals cover the truth as often as they state; histograms lose nothing.

use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::{Histogram, RankTest, median_of_trials, paired_ratio};

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
