//! Each distribution against its own distribution function, mean and text.

use proptest::prelude::*;

use crate::{Distribution, Purpose, RandomStream};

const LAWS: [&str; 15] = [
    "uniform:9",
    "uniform:-2,9",
    "normal:30,8",
    "normal:-1,3",
    "exponential:0.25",
    "pareto:0,16.0292,0.154971",
    "pareto:15,214.476,0.348238",
    "pareto:-3,2,-0.4",
    "pareto:1,2,0",
    "gev:30.7984,8.20449,0.078688",
    "gev:0,3,-0.3",
    "gev:1,2,0",
    "gev:-4,3,0.2",
    "fb_key",
    "fb_ia",
];

fn distribution(text: &str) -> Distribution {
    text.parse().unwrap()
}

fn samples(distribution: Distribution, count: usize) -> Vec<f64> {
    let mut stream = RandomStream::new(2026, Purpose::Other, 0);
    (0..count)
        .map(|_| distribution.sample(&mut stream))
        .collect()
}

/// Kolmogorov and Smirnov: the greatest distance between the samples' distribution and the
/// distribution's.
fn distance(distribution: Distribution, mut drawn: Vec<f64>) -> f64 {
    drawn.sort_by(f64::total_cmp);
    let n = drawn.len() as f64;
    let mut greatest = 0.0_f64;
    for (i, &x) in drawn.iter().enumerate() {
        let expected = distribution.cdf(x);
        greatest = greatest
            .max(expected - i as f64 / n)
            .max((i + 1) as f64 / n - expected);
    }
    greatest
}

#[test]
fn samples_follow_the_distribution_function() {
    let n = 40_000;
    // The 99.9th percentile of the statistic for continuous distributions is 1.95 ÷ √n.
    let bound = 1.95 / f64::from(n).sqrt();
    for text in LAWS {
        let distance = distance(distribution(text), samples(distribution(text), n as usize));
        assert!(distance < bound, "{text}: {distance} is not below {bound}");
    }
}

#[test]
fn another_distribution_is_detected() {
    let bound = 1.95 / 40_000_f64.sqrt();
    let drawn = samples(distribution("gev:30.7984,8.20449,0.078688"), 40_000);
    assert!(distance(distribution("gev:30.7984,8.20449,-0.078688"), drawn.clone()) > 2.0 * bound);
    assert!(distance(distribution("gev:30.7984,7.7,0.078688"), drawn) > bound);
}

#[test]
fn etc_values_have_the_published_shares() {
    let etc = distribution("fb_value");
    let n = 200_000;
    let drawn = samples(etc, n);
    for (length, share) in [
        (0.0, 0.00536),
        (2.0, 0.17820),
        (3.0, 0.09239),
        (11.0, 0.08989),
    ] {
        let seen = drawn.iter().filter(|&&x| x == length).count() as f64 / n as f64;
        assert!(
            (seen - share).abs() < 4.0 * (share / n as f64).sqrt(),
            "{length}: {seen}"
        );
    }
    for x in [14.0, 15.0, 50.0, 230.0, 1000.0, 5000.0] {
        let seen = drawn.iter().filter(|&&y| y <= x).count() as f64 / n as f64;
        assert!(
            (seen - etc.cdf(x)).abs() < 2.0 / (n as f64).sqrt(),
            "{x}: {seen}"
        );
    }
}

/// E[X] and E[max(X, 0)] from the quantile function: the midpoint rule over two million shares.
fn means_by_quadrature(distribution: Distribution) -> (f64, f64) {
    let n = 2_000_000;
    let (mut mean, mut positive) = (0.0, 0.0);
    for i in 0..n {
        let x = distribution.quantile((f64::from(i) + 0.5) / f64::from(n));
        mean += x;
        positive += x.max(0.0);
    }
    (mean / f64::from(n), positive / f64::from(n))
}

#[test]
fn means_are_exact() {
    for text in LAWS
        .into_iter()
        .chain(["fb_value", "fixed:7", "fixed:-7", "uniform:-9,-2"])
    {
        let distribution = distribution(text);
        let (mean, positive) = means_by_quadrature(distribution);
        let near = |a: f64, b: f64| (a - b).abs() < 2e-4 * a.abs().max(1.0);
        assert!(
            near(distribution.mean().unwrap(), mean),
            "{text}: {:?} {mean}",
            distribution.mean()
        );
        let exact = distribution.positive_mean().unwrap();
        assert!(near(exact, positive), "{text}: positive {exact} {positive}");
    }
    assert_eq!(
        distribution("fb_ia")
            .mean()
            .map(|mean| (mean * 1e4).round()),
        Some(189_688.0)
    );
}

#[test]
fn a_distribution_without_a_mean_says_so() {
    for text in ["pareto:0,1,1", "gev:0,1,1.5", "pareto:-1,1,2"] {
        assert_eq!(distribution(text).mean(), None);
        assert_eq!(distribution(text).positive_mean(), None);
    }
}

#[test]
fn samples_are_the_same_on_every_machine() {
    // To the last bit: the numbers come from `libm`, not from the machine's C library.
    let golden: [(&str, u64); 9] = [
        ("fixed:3", 8_168_510_175_809_639_503),
        ("uniform:9", 12_232_695_082_122_269_529),
        ("normal:30,8", 3_647_448_967_202_563_264),
        ("exponential:0.25", 9_212_988_296_156_243_172),
        ("pareto:1,2,0", 3_895_362_210_390_468_837),
        ("gev:1,2,-0.2", 11_442_404_594_602_001_854),
        ("fb_key", 15_440_538_965_565_211_267),
        ("fb_value", 13_413_740_285_929_324_728),
        ("fb_ia", 10_769_571_501_536_691_784),
    ];
    let drawn: Vec<(&str, u64)> = golden
        .iter()
        .map(|&(text, _)| {
            let mix = |hash: u64, x: &f64| hash.rotate_left(7).wrapping_mul(31) ^ x.to_bits();
            (text, samples(distribution(text), 1000).iter().fold(0, mix))
        })
        .collect();
    assert_eq!(drawn, golden);
}

fn any_distribution() -> impl Strategy<Value = Distribution> {
    let number = -1e6..1e6;
    let positive = 1e-6..1e6;
    let shape = -2.0..2.0;
    prop_oneof![
        number.clone().prop_map(Distribution::Fixed),
        (number.clone(), positive.clone()).prop_map(|(min, width): (f64, f64)| {
            Distribution::Uniform {
                min,
                max: min + width,
            }
        }),
        positive
            .clone()
            .prop_map(|max| Distribution::Uniform { min: 0.0, max }),
        (number.clone(), positive.clone())
            .prop_map(|(mean, deviation)| Distribution::Normal { mean, deviation }),
        positive
            .clone()
            .prop_map(|lambda| Distribution::Exponential { lambda }),
        (number.clone(), positive.clone(), shape.clone()).prop_map(|(location, scale, shape)| {
            Distribution::Pareto {
                location,
                scale,
                shape,
            }
        }),
        (number, positive, shape).prop_map(|(location, scale, shape)| Distribution::Gev {
            location,
            scale,
            shape
        }),
        Just(Distribution::FacebookKey),
        Just(Distribution::FacebookValue),
        Just(Distribution::FacebookArrival),
    ]
}

proptest! {
    #[test]
    fn text_round_trips(distribution in any_distribution()) {
        prop_assert_eq!(distribution.to_string().parse::<Distribution>(), Ok(distribution));
    }

    #[test]
    fn quantiles_rise_and_are_numbers(distribution in any_distribution(), p in 1e-12..1.0_f64, q in 1e-12..1.0_f64) {
        let (low, high) = (p.min(q), p.max(q));
        prop_assert!(distribution.quantile(low).is_finite());
        prop_assert!(distribution.quantile(low) <= distribution.quantile(high));
        prop_assert!((0.0..=1.0).contains(&distribution.cdf(distribution.quantile(p))));
    }

    #[test]
    fn any_text_is_a_distribution_or_an_error(text in ".{0,40}") {
        if let Ok(distribution) = text.parse::<Distribution>() {
            prop_assert_eq!(distribution.to_string().parse::<Distribution>(), Ok(distribution));
        }
    }
}
