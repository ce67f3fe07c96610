//! A histogram of durations. It takes 8 KB of memory, so that each thread (fibre or task) can have
//! histograms of its own.

/// The number of buckets for each power of two. The widest bucket extends over a 32nd of its least
/// value, so a value that is rounded up within its bucket becomes at most about 3 % larger.
const SUB_BUCKETS: u64 = 32;
const SUB_BUCKET_BITS: u32 = SUB_BUCKETS.ilog2();
/// The number of buckets for all values of a `u64`.
const BUCKETS: usize = (65 - SUB_BUCKET_BITS as usize) * SUB_BUCKETS as usize;

/// A histogram of durations in nanoseconds. In `rounds.rs`, some histograms contain *turns* (each
/// is the time that a thread waits to run), others the durations of whole rounds.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    counts: Box<[u32]>,
    count: u64,
    max_ns: u64,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            max_ns: 0,
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.counts[bucket_of(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds the recorded durations of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The median, rounded up to the largest value of its bucket; `None` if nothing was recorded.
    pub(crate) fn median(&self) -> Option<u64> {
        let rank = self.count.div_ceil(2);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank && seen > 0 {
                return Some(greatest_of(bucket as u64).min(self.max_ns));
            }
        }
        None
    }

    /// The largest recorded value, without rounding; `None` if nothing was recorded.
    pub(crate) fn greatest(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }
}

/// The bucket of a value. Each value below twice [`SUB_BUCKETS`] has a bucket of its own. For
/// larger values, the position of the highest 1 bit and the next five bits determine the bucket.
fn bucket_of(ns: u64) -> usize {
    let power = (u64::BITS - ns.leading_zeros()).saturating_sub(SUB_BUCKET_BITS + 1);
    (u64::from(power) * SUB_BUCKETS + (ns >> power)) as usize
}

/// The largest value of a bucket.
fn greatest_of(bucket: u64) -> u64 {
    let power = (bucket / SUB_BUCKETS).saturating_sub(1);
    ((bucket - power * SUB_BUCKETS + 1) << power) - 1
}
