//! Which sizes the fast and the slow requests have.
//!
//! ```text
//! share of each class
//! 1 ┤▒▒▒▒▓▓░░░░     ░ large   small requests in the slowest deciles, and large ones in the
//!   │····▒▒▓▓▓▓     ▓         fastest, show that latency does not follow size
//!   │······▒▒▒▓     ▒
//! 0 ┤········▒▒     · small
//!   └──────────
//!    fast  slow     latency decile
//! ```
//!
//! The drawing by deciles is from Ruan & Pai, *Understanding and Addressing Blocking-Induced
//! Network Server Latency*, USENIX ATC 2006, section "Identifying Service Inversion";
//! [`service_inversion`](crate::service_inversion) sums it up in one number.

use serde::{Deserialize, Serialize};

use crate::SizedLatency;
use crate::limits::SIZE_CLASSES_MAX;

/// The mix of size classes in each tenth of the requests, by latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeDeciles {
    /// The share of each size class in each decile, the fastest decile first; each row sums to 1.
    pub deciles: [Vec<f64>; 10],
    /// The share of each size class in all requests: the mean of the rows.
    pub all: Vec<f64>,
}

impl SizeDeciles {
    /// The deciles of requests, with size classes given by their upper bounds in bytes, included
    /// and ascending (`u64::MAX` for an open last class).
    ///
    /// A decile is exactly a tenth of the requests, so a request may be divided between two of
    /// them. Requests of equal latency have no order; they are spread evenly over the deciles that
    /// they cover together, so neither the order of `requests` nor their sizes decide.
    ///
    /// None with fewer than ten requests, with no class, more than [`SIZE_CLASSES_MAX`] or bounds
    /// that do not ascend, or where a request is larger than the last bound.
    #[must_use]
    pub fn of(requests: &[SizedLatency], upper_bounds: &[u64]) -> Option<Self> {
        let classes = upper_bounds.len();
        let ascend = upper_bounds.is_sorted_by(|a, b| a < b);
        if requests.len() < 10 || classes == 0 || classes > SIZE_CLASSES_MAX || !ascend {
            return None;
        }
        let largest = requests.iter().map(|request| request.size_bytes).max()?;
        if largest > *upper_bounds.last()? {
            return None;
        }
        let class = |size: u64| upper_bounds.partition_point(|&bound| bound < size);
        let mut by_latency: Vec<(u64, usize)> = requests
            .iter()
            .map(|request| (request.latency_ns, class(request.size_bytes)))
            .collect();
        by_latency.sort_unstable();
        let count = requests.len() as f64;
        let mut deciles = tenths_of_requests(&by_latency, classes);
        for share in deciles.iter_mut().flatten() {
            *share /= count;
        }
        let mut all = vec![0.0; classes];
        for &(_, class) in &by_latency {
            all[class] += 1.0;
        }
        all.iter_mut().for_each(|share| *share /= count);
        Some(Self { deciles, all })
    }
}

/// Requests of each class in each decile, in tenths of a request; `by_latency` holds (latency,
/// class), ascending.
fn tenths_of_requests(by_latency: &[(u64, usize)], classes: usize) -> [Vec<f64>; 10] {
    let count = by_latency.len();
    let mut deciles: [Vec<f64>; 10] = std::array::from_fn(|_| vec![0.0; classes]);
    // In tenths of a request, decile d begins at d × count: no rounding.
    let mut start = 0;
    for equal in by_latency.chunk_by(|a, b| a.0 == b.0) {
        let end = start + 10 * equal.len();
        for (decile, row) in deciles.iter_mut().enumerate().skip(start / count) {
            let (from, to) = (decile * count, (decile + 1) * count);
            if from >= end {
                break;
            }
            let overlap = end.min(to) - start.max(from);
            for same_class in equal.chunk_by(|a, b| a.1 == b.1) {
                let share = (same_class.len() * overlap) as f64 / equal.len() as f64;
                row[same_class[0].1] += share;
            }
        }
        start = end;
    }
    deciles
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: [u64; 3] = [10, 100, u64::MAX];

    fn requests(pairs: &[(u64, u64)]) -> Vec<SizedLatency> {
        pairs
            .iter()
            .map(|&(size_bytes, latency_ns)| SizedLatency {
                size_bytes,
                latency_ns,
            })
            .collect()
    }

    #[test]
    fn latency_that_follows_size_gives_pure_deciles() {
        let pairs: Vec<(u64, u64)> = (0..20)
            .map(|i| (if i < 10 { 10 } else { 11 }, 500 + i))
            .collect();
        let seen = SizeDeciles::of(&requests(&pairs), &BOUNDS).unwrap();
        assert_eq!(seen.all, [0.5, 0.5, 0.0]);
        for row in &seen.deciles[..5] {
            assert_eq!(*row, [1.0, 0.0, 0.0]);
        }
        for row in &seen.deciles[5..] {
            assert_eq!(*row, [0.0, 1.0, 0.0]);
        }
    }

    #[test]
    fn a_request_may_be_divided_between_deciles() {
        // 15 requests: a decile holds one and a half. The second belongs half to each of two.
        let mut pairs = [(1, 0); 15];
        for (rank, pair) in pairs.iter_mut().enumerate() {
            *pair = (if rank == 1 { 50 } else { 5 }, rank as u64);
        }
        let seen = SizeDeciles::of(&requests(&pairs), &BOUNDS).unwrap();
        let near = |row: &[f64], expected: [f64; 3]| {
            assert!(
                row.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12),
                "{row:?}"
            );
        };
        near(&seen.deciles[0], [2.0 / 3.0, 1.0 / 3.0, 0.0]);
        near(&seen.deciles[1], [2.0 / 3.0, 1.0 / 3.0, 0.0]);
        near(&seen.deciles[2], [1.0, 0.0, 0.0]);
        near(&seen.all, [14.0 / 15.0, 1.0 / 15.0, 0.0]);
    }

    #[test]
    fn equal_latencies_are_spread_evenly() {
        let mut pairs = [(1, 70); 20];
        pairs[13..].fill((1000, 70));
        let seen = SizeDeciles::of(&requests(&pairs), &BOUNDS).unwrap();
        for row in &seen.deciles {
            assert!((row[0] - 0.65).abs() < 1e-12 && (row[2] - 0.35).abs() < 1e-12);
        }
    }

    #[test]
    fn invalid_classes_have_no_deciles() {
        let ten = requests(&[(50, 1); 10]);
        assert!(SizeDeciles::of(&ten, &[50]).is_some());
        assert_eq!(SizeDeciles::of(&ten[1..], &[50]), None);
        assert_eq!(SizeDeciles::of(&ten, &[49]), None);
        assert_eq!(SizeDeciles::of(&ten, &[]), None);
        assert_eq!(SizeDeciles::of(&ten, &[60, 60]), None);
        assert_eq!(SizeDeciles::of(&ten, &[70, 60]), None);
        let many: Vec<u64> = (50..).take(SIZE_CLASSES_MAX + 1).collect();
        assert_eq!(SizeDeciles::of(&ten, &many), None);
        assert!(SizeDeciles::of(&ten, &many[1..]).is_some());
    }

    proptest! {
        #[test]
        fn rows_sum_to_one_and_their_mean_is_the_share_of_all(
            pairs in prop::collection::vec((0..300_u64, 0..60_u64), 10..200),
        ) {
            let mut requests = requests(&pairs);
            let seen = SizeDeciles::of(&requests, &BOUNDS).unwrap();
            for row in &seen.deciles {
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{:?}", row);
                prop_assert!(row.iter().all(|&share| share >= 0.0));
            }
            for (class, &all) in seen.all.iter().enumerate() {
                let mean = seen.deciles.iter().map(|row| row[class]).sum::<f64>() / 10.0;
                prop_assert!((mean - all).abs() < 1e-9, "{} {}", mean, all);
            }
            requests.reverse();
            prop_assert_eq!(SizeDeciles::of(&requests, &BOUNDS), Some(seen));
        }
    }
}
