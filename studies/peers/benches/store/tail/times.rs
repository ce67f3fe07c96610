//! Times and what is told of them.

use std::time::Duration;

/// Microseconds up to which times are counted one by one, in tenths.
const FINE_US: usize = 200;
/// Microseconds beyond which times are counted, and compared with an empty loop's.
pub(crate) const SLOW_US: [u64; 5] = [10, 20, 50, 100, 1000];

/// Shares of operations that are told.
pub(crate) const SHARES: [f64; 5] = [0.5, 0.99, 0.999, 0.9999, 0.99999];

/// Times in tenths of microseconds, and those beyond.
pub(crate) struct Times {
    fine: Vec<u64>,
    beyond: Vec<u64>,
    pub(crate) count: u64,
    pub(crate) most: Duration,
}

impl Times {
    pub(crate) fn new() -> Self {
        Self {
            fine: vec![0; FINE_US * 10],
            beyond: Vec::new(),
            count: 0,
            most: Duration::ZERO,
        }
    }

    pub(crate) fn add(&mut self, time: Duration) {
        self.count += 1;
        self.most = self.most.max(time);
        let ns = time.as_nanos() as u64;
        match self.fine.get_mut((ns / 100) as usize) {
            Some(count) => *count += 1,
            None => self.beyond.push(ns),
        }
    }

    /// The time below which this share lies, in microseconds.
    pub(crate) fn percentile(&mut self, share: f64) -> f64 {
        self.beyond.sort_unstable();
        let wanted = (share * self.count as f64) as u64;
        let mut sum = 0;
        for (at, count) in self.fine.iter().enumerate() {
            sum += count;
            if sum > wanted {
                return (at + 1) as f64 / 10.0;
            }
        }
        let at = (wanted - sum.min(wanted)) as usize;
        self.beyond
            .get(at)
            .or(self.beyond.last())
            .map_or(0.0, |&ns| ns as f64 / 1e3)
    }
}

/// Times beyond each of [`SLOW_US`].
#[derive(Default)]
pub(crate) struct Slow {
    pub(crate) counts: [u64; SLOW_US.len()],
    pub(crate) turns: u64,
    pub(crate) lasted: Duration,
}

impl Slow {
    pub(crate) fn add(&mut self, time: Duration) {
        self.turns += 1;
        for (count, us) in self.counts.iter_mut().zip(SLOW_US) {
            *count += u64::from(time.as_micros() >= u128::from(us));
        }
    }
}
