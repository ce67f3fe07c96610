//! Service inversion: how far the order of latencies is from the order of sizes.
//!
//! Without blocking, a small response is faster than a large one. A server in which small responses
//! wait for large ones loses this order (Ruan & Pai, *Understanding and Addressing Blocking-Induced
//! Network Server Latency*, USENIX ATC 2006, section "Quantifying Service Inversion").
//!
//! ```text
//!              Σ |rank by latency − rank by size|
//! inversion = ────────────────────────────────────     0: same order   ⅔: random   1: reversed
//!              the same sum, for the reversed order
//! ```
//!
//! Requests of equal size share a range of ranks; the n-th fastest of them has the n-th rank of the
//! range, so their order among themselves counts no inversion. Requests of equal latency are taken
//! in the order of their sizes and count none either.
//!
//! The reversed order has the greatest sum of all orders, so the quotient is at most 1. Proof: the
//! sum is twice the number of requests that cross a cut between two ranks, over all cuts. The first
//! k requests of the reversed order come from the largest sizes, and no other choice of k sends
//! more requests across cut k.

use serde::{Deserialize, Serialize};

/// A request by what it transfers and how long it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizedLatency {
    /// Size of the response (or of the value written), bytes.
    pub size_bytes: u64,
    /// Latency, nanoseconds.
    pub latency_ns: u64,
}

/// The service inversion of requests, 0 to 1, in O(n log n). It depends on the distribution of
/// sizes: compare only requests of the same one. Where most sizes are equal, few requests decide.
/// None where all sizes are equal, or without requests: there is no order to invert.
#[must_use]
pub fn service_inversion(requests: &[SizedLatency]) -> Option<f64> {
    let mut by_latency = requests.to_vec();
    by_latency.sort_unstable_by_key(|request| (request.latency_ns, request.size_bytes));
    let mut by_size: Vec<(u64, usize)> = by_latency
        .iter()
        .enumerate()
        .map(|(latency_rank, request)| (request.size_bytes, latency_rank))
        .collect();
    by_size.sort_unstable();
    let distance: u128 = by_size
        .iter()
        .enumerate()
        .map(|(size_rank, &(_, latency_rank))| size_rank.abs_diff(latency_rank) as u128)
        .sum();
    let reversed = reversed_distance(&by_size);
    (reversed > 0).then(|| distance as f64 / reversed as f64)
}

/// The sum for the reversed order. Equal sizes keep their order there, so the range of ranks that
/// begins at `start` moves as a whole, to `count` − `start` − its length.
fn reversed_distance(by_size: &[(u64, usize)]) -> u128 {
    let count = by_size.len();
    let mut start = 0;
    by_size
        .chunk_by(|a, b| a.0 == b.0)
        .map(|equal| {
            let to = count - start - equal.len();
            let distance = start.abs_diff(to) as u128 * equal.len() as u128;
            start += equal.len();
            distance
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;

    /// Requests of these sizes in the order of their latencies.
    fn in_order(sizes: &[u64]) -> Vec<SizedLatency> {
        let request = |(rank, &size_bytes): (usize, &u64)| SizedLatency {
            size_bytes,
            latency_ns: 1000 + 7 * rank as u64,
        };
        sizes.iter().enumerate().map(request).collect()
    }

    fn inversion(sizes: &[u64]) -> Option<f64> {
        service_inversion(&in_order(sizes))
    }

    #[test]
    fn the_order_of_sizes_is_zero_and_its_reverse_one() {
        assert_eq!(inversion(&[1, 2, 3, 4, 5]), Some(0.0));
        assert_eq!(inversion(&[5, 4, 3, 2, 1]), Some(1.0));
        assert_eq!(inversion(&[1, 1, 2, 3, 3, 3]), Some(0.0));
        assert_eq!(inversion(&[3, 3, 3, 2, 1, 1]), Some(1.0));
    }

    /// The example of the paper: two distances of 1, one of 2, of at most 4 + 2 + 0 + 2 + 4.
    #[test]
    fn one_request_that_overtakes_two_of_five() {
        assert_eq!(inversion(&[3, 1, 2, 4, 5]), Some(4.0 / 12.0));
    }

    #[test]
    fn ties_are_matched_in_order() {
        // Ranks by size: the ones 0 and 1, the twos 2 and 3; by latency: the ones 1 and 3, the twos
        // 0 and 2. The distances are 1, 2, 2, 1; reversed, all are 2.
        assert_eq!(inversion(&[2, 1, 2, 1]), Some(6.0 / 8.0));
        // The order within a tie does not matter, only the positions it holds.
        assert_eq!(inversion(&[1, 2, 2, 1]), Some(4.0 / 8.0));
    }

    #[test]
    fn equal_latencies_count_no_inversion() {
        let requests = [9, 1, 5].map(|size_bytes| SizedLatency {
            size_bytes,
            latency_ns: 100,
        });
        assert_eq!(service_inversion(&requests), Some(0.0));
    }

    #[test]
    fn equal_sizes_have_no_order() {
        assert_eq!(inversion(&[7, 7, 7]), None);
        assert_eq!(inversion(&[7]), None);
        assert_eq!(inversion(&[]), None);
    }

    #[test]
    fn a_random_order_is_two_thirds() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let shuffled: Vec<SizedLatency> = (0..20_000)
            .map(|size_bytes| SizedLatency {
                size_bytes,
                latency_ns: random.next_u64(),
            })
            .collect();
        let seen = service_inversion(&shuffled).unwrap();
        assert!((seen - 2.0 / 3.0).abs() < 0.02, "{seen}");
    }

    /// The definition, with a rank of each request and ties searched for.
    fn by_definition(requests: &[SizedLatency]) -> Option<f64> {
        let sum = |latency: &dyn Fn(&SizedLatency) -> u64| -> usize {
            let distance = |(at, request): (usize, &SizedLatency)| {
                let key = |at: usize| (latency(&requests[at]), requests[at].size_bytes, at);
                let all = 0..requests.len();
                let is_equal = |&other: &usize| requests[other].size_bytes == request.size_bytes;
                let smaller = |&other: &usize| requests[other].size_bytes < request.size_bytes;
                let faster = |&other: &usize| key(other) < key(at);
                let nth = all.clone().filter(is_equal).filter(faster).count();
                let size_rank = all.clone().filter(smaller).count() + nth;
                size_rank.abs_diff(all.filter(faster).count())
            };
            requests.iter().enumerate().map(distance).sum()
        };
        let reversed = sum(&|request| u64::MAX - request.size_bytes);
        let seen = sum(&|request| request.latency_ns);
        (reversed > 0).then(|| seen as f64 / reversed as f64)
    }

    proptest! {
        #[test]
        fn it_is_the_definition_and_between_zero_and_one(
            pairs in prop::collection::vec((1..12_u64, 1..40_u64), 0..40),
        ) {
            let mut requests: Vec<SizedLatency> = pairs
                .iter()
                .map(|&(size_bytes, latency_ns)| SizedLatency { size_bytes, latency_ns })
                .collect();
            let seen = service_inversion(&requests);
            prop_assert_eq!(seen, by_definition(&requests));
            prop_assert!(seen.is_none_or(|seen| (0.0..=1.0).contains(&seen)), "{:?}", seen);
            requests.reverse();
            prop_assert_eq!(service_inversion(&requests), seen);
        }
    }
}
