//! Hot keys: the keys that are read most often. Each worker samples about one of
//! [`HOT_SAMPLE_PERIOD`] reads, and counts the sampled keys in a space-saving sketch (Metwally,
//! Agrawal and El Abbadi, ICDT 2005). The sketch counts N = [`HOT_KEYS`] keys. A key that is not in
//! a full sketch replaces the key with the lowest count, and continues from that count. So:
//!
//! - Every key with more than 1/N of the samples is in the sketch.
//! - The count of a key in the sketch is at least the number of its samples, and exceeds it by at
//!   most the recorded overestimate.
//!
//! All counts are halved periodically, so that keys that were hot long ago are forgotten. The
//! sketch allocates memory only when it is created.

use crate::limits::{HOT_KEYS, HOT_SAMPLE_PERIOD, HOT_WINDOW, KEY_MAX};

/// A key that is read often, with its estimated number of reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotKey {
    /// The key.
    pub key: Vec<u8>,
    /// Number of recent reads of the key: its count in the sketch times the sampling period. The
    /// count is never below the number of samples of the key.
    pub reads: u64,
    /// The maximum by which `reads` may be too high: all but the samples that are certainly of this
    /// key.
    pub overestimate: u64,
    /// Number of recent reads per second.
    pub reads_per_s: u64,
}

/// The result of [`crate::Store::hot_keys`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HotKeys {
    /// Number of recent reads of all keys: the samples times the sampling period.
    pub reads: u64,
    /// The keys in descending order of reads.
    pub keys: Vec<HotKey>,
}

/// A key in a sketch.
#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u64,
    /// Upper bound of the number of samples of the key.
    count: u32,
    /// Maximum by which `count` exceeds the number of samples.
    overestimate: u32,
    key_len: u8,
    key: [u8; KEY_MAX],
}

/// The sketch of one worker.
#[derive(Debug)]
pub(crate) struct Sketch {
    slots: Vec<Slot>,
    /// Number of samples of all keys. Halved together with the counts.
    samples: u32,
    /// The second at which the counts began. Each halving of the counts also halves the time since
    /// `began_s`, so that a count divided by this time remains the rate of the key.
    began_s: u32,
    /// State of the random generator (xorshift) that chooses the distances between samples.
    random: u64,
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            slots: Vec::with_capacity(HOT_KEYS),
            samples: 0,
            began_s: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }
}

impl Sketch {
    /// Counts a sampled read at second `now_s`. Returns the number of reads to skip until the next
    /// sample.
    pub(crate) fn record(&mut self, hash: u64, key: &[u8], now_s: u32) -> u32 {
        if self.samples == HOT_WINDOW {
            self.halve(now_s);
        } else if self.samples == 0 {
            self.began_s = now_s;
        }
        self.samples += 1;
        match self.slots.iter().position(|slot| slot.hash == hash) {
            Some(at) => self.slots[at].count += 1,
            None => self.admit(hash, key),
        }
        // The distance is random. A client may read the same keys again and again in the same
        // order. With a fixed distance, samples could then always meet the same few of these keys.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % u64::from(2 * HOT_SAMPLE_PERIOD - 1)) as u32
    }

    /// Adds a key that is not in the sketch, in a free slot or in place of the key with the lowest
    /// count.
    fn admit(&mut self, hash: u64, key: &[u8]) {
        let mut slot = Slot {
            hash,
            count: 1,
            overestimate: 0,
            key_len: key.len() as u8,
            key: [0; KEY_MAX],
        };
        slot.key[..key.len()].copy_from_slice(key);
        if self.slots.len() < HOT_KEYS {
            self.slots.push(slot);
        } else if let Some(coldest) = self.slots.iter_mut().min_by_key(|slot| slot.count) {
            slot.count = coldest.count + 1;
            slot.overestimate = coldest.count;
            *coldest = slot;
        }
    }

    /// Halves all counts, and removes keys whose count becomes 0.
    fn halve(&mut self, now_s: u32) {
        self.samples /= 2;
        self.began_s += now_s.saturating_sub(self.began_s) / 2;
        for slot in &mut self.slots {
            slot.count /= 2;
            slot.overestimate /= 2;
        }
        self.slots.retain(|slot| slot.count > 0);
    }

    /// Replaces this sketch by a copy of `other`, without allocating memory.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.slots.clear();
        self.slots.extend_from_slice(&other.slots);
        self.samples = other.samples;
        self.began_s = other.began_s;
    }

    /// Adds the estimates of this sketch at second `now_s` to `sum`, which contains those of other
    /// workers.
    pub(crate) fn add_to(&self, sum: &mut HotKeys, now_s: u32) {
        let elapsed_s = u64::from(now_s.saturating_sub(self.began_s)).max(1);
        let period = u64::from(HOT_SAMPLE_PERIOD);
        sum.reads += u64::from(self.samples) * period;
        for slot in &self.slots {
            let key = &slot.key[..usize::from(slot.key_len)];
            let reads = u64::from(slot.count) * period;
            let overestimate = reads - u64::from(slot.count - slot.overestimate);
            match sum.keys.iter_mut().find(|hot| hot.key == key) {
                Some(hot) => {
                    hot.reads_per_s += reads / elapsed_s;
                    hot.reads += reads;
                    hot.overestimate += overestimate;
                }
                None => sum.keys.push(HotKey {
                    key: key.to_vec(),
                    reads,
                    overestimate,
                    reads_per_s: reads / elapsed_s,
                }),
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    /// Returns the estimates of one sketch, in descending order of reads.
    fn summed(sketch: &Sketch) -> HotKeys {
        let mut sum = HotKeys::default();
        sketch.add_to(&mut sum, 1);
        sum.keys.sort_by_key(|hot| std::cmp::Reverse(hot.reads));
        sum
    }

    #[test]
    fn a_hot_key_is_found_among_many_keys_that_are_read_once() {
        let mut sketch = Sketch::default();
        for number in 0..20_000_u64 {
            sketch.record(number + 10, format!("cold {number}").as_bytes(), 1);
            if number % 10 == 0 {
                sketch.record(1, b"hot", 1);
            }
        }
        let summed = summed(&sketch);
        assert_eq!(summed.keys.len(), HOT_KEYS);
        let hot = summed.keys.iter().find(|hot| hot.key == b"hot").unwrap();
        let period = u64::from(HOT_SAMPLE_PERIOD);
        assert!(hot.reads >= 2_000 * period, "an underestimate: {hot:?}");
        assert!(hot.reads - hot.overestimate <= 2_000 * period, "{hot:?}");
        assert_eq!(summed.reads, 22_000 * period);
    }

    #[test]
    fn a_key_that_was_sampled_once_may_have_been_read_once() {
        let mut sketch = Sketch::default();
        sketch.record(1, b"once", 1);
        let hot = &summed(&sketch).keys[0];
        assert_eq!(hot.reads - hot.overestimate, 1);
    }

    #[test]
    fn a_hot_key_is_forgotten_when_it_is_not_read_any_more() {
        let mut sketch = Sketch::default();
        for _ in 0..HOT_WINDOW {
            sketch.record(1, b"yesterday", 1);
        }
        for _ in 0..20 * HOT_WINDOW {
            sketch.record(2, b"today", 1);
        }
        let summed = summed(&sketch);
        assert_eq!(summed.keys.len(), 1);
        assert_eq!(summed.keys[0].key, b"today");
    }

    #[test]
    fn the_rate_of_a_key_is_correct_after_halvings() {
        let mut sketch = Sketch::default();
        // 100 samples a second. Three of four samples, so 75 a second, are of key 1. The others are
        // of key 0.
        for now_s in 50..2_050 {
            for sample in 0..100_u64 {
                let key = (sample % 4).min(1);
                sketch.record(key, &[key as u8], now_s);
            }
        }
        let mut sum = HotKeys::default();
        sketch.add_to(&mut sum, 2_050);
        let hot = sum.keys.iter().find(|hot| hot.key == [1]).unwrap();
        let expected = 75 * u64::from(HOT_SAMPLE_PERIOD);
        // The rate differs from the expected one by less than 2 %.
        assert!(
            hot.reads_per_s.abs_diff(expected) * 50 < expected,
            "{hot:?}"
        );
    }

    #[test]
    fn the_distances_between_samples_vary_and_have_the_period_as_mean() {
        let mut sketch = Sketch::default();
        let gaps: Vec<u32> = (0..10_000).map(|_| sketch.record(1, b"a", 1)).collect();
        let mean = gaps.iter().map(|&gap| f64::from(gap) + 1.0).sum::<f64>() / 1e4;
        assert!(
            (mean / f64::from(HOT_SAMPLE_PERIOD) - 1.0).abs() < 0.05,
            "{mean}"
        );
        assert!(gaps.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
