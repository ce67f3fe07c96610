//! A random sample of the answered requests. It has the size of each request's file and the
//! request's latency.
//!
//! Each request has a pseudo-random priority, and the sample consists of the requests with the
//! lowest priorities (bottom-k sampling). So the samples of several threads can be merged without a
//! bias, even if the threads have different numbers of requests.

use std::collections::BinaryHeap;

use measure::SizedLatency;

/// A random sample of the requests that were added.
#[derive(Debug, Default)]
pub(crate) struct SizedSample {
    /// The sample. Each element is the priority, the size in bytes and the latency in nanoseconds
    /// of a request. The request with the greatest priority is at the top and is replaced next.
    heap: BinaryHeap<(u64, u64, u64)>,
    /// Maximum number of requests of the sample.
    len_max: usize,
    /// The number of requests that were added.
    added: u64,
}

impl SizedSample {
    /// Returns an empty sample of at most `len_max` requests. The memory is allocated here.
    pub(crate) fn new(len_max: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(len_max),
            len_max,
            added: 0,
        }
    }

    /// Adds a request. Any two requests of a run must have different values of `number`.
    #[inline]
    pub(crate) fn add(&mut self, number: u64, size_bytes: u64, latency_ns: u64) {
        self.added += 1;
        self.insert((priority(number), size_bytes, latency_ns));
    }

    /// Adds a request to the sample if its priority is low enough. `request` is an element of
    /// [`Self::heap`]: priority, size and latency.
    #[inline]
    fn insert(&mut self, request: (u64, u64, u64)) {
        if self.heap.len() < self.len_max {
            self.heap.push(request);
        } else if let Some(mut greatest) = self.heap.peek_mut()
            && request.0 < greatest.0
        {
            *greatest = request;
        }
    }

    /// Merges another sample into this one. The result is a sample of all requests that were added
    /// to one of the two samples.
    pub(crate) fn merge(&mut self, other: Self) {
        self.len_max = self.len_max.max(other.len_max);
        self.added += other.added;
        for request in other.heap {
            self.insert(request);
        }
    }

    /// Returns the number of requests that were added, whether they are in the sample or not.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// Returns the requests of the sample.
    pub(crate) fn requests(&self) -> Vec<SizedLatency> {
        let request = |&(_, size_bytes, latency_ns): &(u64, u64, u64)| SizedLatency {
            size_bytes,
            latency_ns,
        };
        self.heap.iter().map(request).collect()
    }
}

/// Returns the priority of a request: a hash of its number by the output function of SplitMix64
/// (Steele, Lea & Flood, OOPSLA 2014). The function is a bijection, so no two requests have the
/// same priority.
fn priority(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_of_few_requests_has_all_of_them() {
        let mut sample = SizedSample::new(10);
        (0..7).for_each(|number| sample.add(number, number, 2 * number));
        let mut sizes: Vec<u64> = sample.requests().iter().map(|it| it.size_bytes).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [0, 1, 2, 3, 4, 5, 6]);
        assert!(
            sample
                .requests()
                .iter()
                .all(|it| it.latency_ns == 2 * it.size_bytes)
        );
    }

    /// Thread 0 has nine times as many requests as thread 1, so nine tenths of the sample should be
    /// requests of thread 0. The size of a request is the number of its thread, and the latency is
    /// its number within the thread.
    #[test]
    fn merged_sample_has_each_request_with_the_same_probability() {
        let mut merged = SizedSample::default();
        for (thread, count) in [(0, 90_000), (1, 10_000)] {
            let mut sample = SizedSample::new(2_000);
            for number in 0..count {
                // The high bits of a request's number are the number of its thread, as in a run.
                sample.add(thread << 44 | number, thread, number);
            }
            merged.merge(sample);
        }
        assert_eq!((merged.added(), merged.requests().len()), (100_000, 2_000));
        let of_thread_1 = merged
            .requests()
            .iter()
            .filter(|it| it.size_bytes == 1)
            .count();
        // The expected number is 200, with a standard deviation of 13.
        assert!((135..265).contains(&of_thread_1), "{of_thread_1}");
        // Requests of the whole run are sampled, not only the first ones: about 900 are of the
        // second half of thread 0.
        let late = merged
            .requests()
            .iter()
            .filter(|it| it.latency_ns > 45_000)
            .count();
        assert!((800..1_000).contains(&late), "{late}");
    }
}
