//! Keys, lengths and popularity over a keyspace.

use std::collections::HashSet;

use proptest::prelude::*;

use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::{
    Distribution, Keyspace, Permutation, Popularity, Purpose, RandomStream, RecordSampler,
};

fn etc(records: u64, seed: u64) -> Keyspace {
    Keyspace::new(
        records,
        Distribution::FacebookKey,
        Distribution::FacebookValue,
        VALUE_LEN_MAX,
        seed,
    )
    .unwrap()
}

#[test]
fn no_two_of_two_hundred_thousand_keys_are_alike() {
    let space = etc(200_000, 1);
    let mut buffer = [0; KEY_LEN_MAX];
    let mut seen = HashSet::new();
    for record in 0..space.records() {
        let key = space.key(record, &mut buffer);
        assert!(key.iter().all(u8::is_ascii_graphic));
        assert!(seen.insert(key.to_vec()), "record {record}");
    }
}

#[test]
fn lengths_follow_their_laws() {
    let n = 200_000;
    let space = etc(n, 5);
    let share = |len: &dyn Fn(u64) -> usize, to: usize| {
        (0..n).filter(|&record| len(record) <= to).count() as f64 / n as f64
    };
    for to in [15, 25, 31, 40, 60, 90] {
        let expected = Distribution::FacebookKey.cdf(to as f64 + 0.5);
        let seen = share(&|record| space.key_len(record), to);
        assert!(
            (seen - expected).abs() < 0.0045,
            "key {to}: {seen} {expected}"
        );
    }
    for to in [0, 2, 14, 100, 230, 1000, 4000] {
        let expected = Distribution::FacebookValue.cdf(to as f64 + 0.5);
        let seen = share(&|record| space.value_len(record), to);
        assert!(
            (seen - expected).abs() < 0.0045,
            "value {to}: {seen} {expected}"
        );
    }
}

#[test]
fn another_seed_gives_other_keys() {
    let (mut one, mut other) = ([0; KEY_LEN_MAX], [0; KEY_LEN_MAX]);
    assert_ne!(
        etc(1000, 1).key(7, &mut one),
        etc(1000, 2).key(7, &mut other)
    );
}

/// The share of rank 1..=n under Zipf's law.
fn zipf_shares(n: u64, theta: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

#[test]
fn ranks_are_drawn_by_zipfs_law() {
    let records = 1000;
    let draws = 400_000;
    for theta in [0.0, 0.2, 0.5, 0.99, 1.0, 1.01, 2.0, 5.0] {
        let sampler = RecordSampler::new(Popularity::Zipf(theta), records, 3);
        let mut stream = RandomStream::new(11, Purpose::Other, 0);
        let mut counts = vec![0_u32; records as usize];
        for _ in 0..draws {
            counts[sampler.draw(&mut stream) as usize] += 1;
        }
        // Chi-squared over the ranks expected often enough, the rest as one more.
        let (mut chi, mut cells, mut rest_expected, mut rest_seen) = (0.0, 0.0, 0.0, 0.0);
        for (rank, share) in (0..).zip(zipf_shares(records, theta)) {
            let seen = f64::from(counts[sampler.record_of_rank(rank) as usize]);
            let expected = share * f64::from(draws);
            if expected < 20.0 {
                rest_expected += expected;
                rest_seen += seen;
            } else {
                chi += (seen - expected).powi(2) / expected;
                cells += 1.0;
            }
        }
        if rest_expected > 5.0 {
            chi += (rest_seen - rest_expected).powi(2) / rest_expected;
            cells += 1.0;
        }
        // The mean is cells − 1, the deviation √(2 (cells − 1)): accept up to four deviations.
        let freedom: f64 = cells - 1.0;
        assert!(
            chi < freedom + 4.0 * (2.0 * freedom).sqrt(),
            "θ {theta}: {chi} of {freedom}"
        );
    }
}

#[test]
fn the_largest_keyspace_has_the_head_zipf_gives_it() {
    // H(2^40, 0.99) by the integral and half the first term; the share of rank 1 is its inverse.
    let n = (1_u64 << 40) as f64;
    let harmonic = (n.powf(0.01) - 1.0) / 0.01 + 0.5772;
    let sampler = RecordSampler::new(Popularity::Zipf(0.99), 1 << 40, 3);
    let hottest = sampler.record_of_rank(0);
    let mut stream = RandomStream::new(12, Purpose::Other, 0);
    let draws = 300_000;
    let seen = (0..draws)
        .filter(|_| sampler.draw(&mut stream) == hottest)
        .count() as f64;
    let expected = f64::from(draws) / harmonic;
    assert!((seen / expected - 1.0).abs() < 0.03, "{seen} {expected}");
}

#[test]
fn popular_records_are_not_neighbours() {
    let permutation = Permutation::new(1_000_000, 9);
    let mut places: Vec<u64> = (0..100).map(|rank| permutation.apply(rank)).collect();
    places.sort_unstable();
    // Of 100 even places, the least of 99 distances is about 100; some may be nearer.
    let near = places
        .windows(2)
        .filter(|pair| pair[1] - pair[0] < 100)
        .count();
    assert!(near < 10, "{places:?}");
    let quarters: Vec<usize> = (0..4)
        .map(|quarter| {
            places
                .iter()
                .filter(|&&place| place / 250_000 == quarter)
                .count()
        })
        .collect();
    assert!(
        quarters.iter().all(|&count| (10..=40).contains(&count)),
        "{quarters:?}"
    );
}

proptest! {
    #[test]
    fn permutation_is_a_bijection(len in 1..5000_u64, seed: u64) {
        let permutation = Permutation::new(len, seed);
        let mut seen = vec![false; len as usize];
        for rank in 0..len {
            let place = permutation.apply(rank);
            prop_assert!(place < len);
            prop_assert!(!std::mem::replace(&mut seen[place as usize], true));
        }
    }

    #[test]
    fn a_key_names_its_record(
        records in 1..2_000_000_u64,
        of: prop::sample::Index,
        key_len in 0..300_u32,
        seed: u64,
    ) {
        let keys = Distribution::Normal { mean: f64::from(key_len), deviation: 20.0 };
        let space = Keyspace::new(records, keys, Distribution::FacebookValue, 5000, seed).unwrap();
        let record = of.index(records as usize) as u64;
        let mut buffer = [0; KEY_LEN_MAX];
        let key = space.key(record, &mut buffer).to_vec();
        prop_assert!((space.id_len()..=KEY_LEN_MAX).contains(&key.len()));
        prop_assert_eq!(space.record(&key), Some(record));
        prop_assert_eq!(space.record(&[b"!", key.as_slice()].concat()), None);
        prop_assert_eq!(space.value_len(record), space.clone().value_len(record));
        prop_assert!(space.value_len(record) <= 5000);
    }
}
