//! Hot keys. Each worker samples about one read in [`HOT_SAMPLE_PERIOD`]. The space-saving sketch
//! (Metwally, Agrawal and El Abbadi, ICDT 2005) keeps N = [`HOT_KEYS`] keys. Every key with more
//! than 1/N of the samples is among them. A count is never too low, and too high by at most the
//! stated overestimate. All counts are halved periodically, so that old hot keys are forgotten.
//! Nothing is allocated after the start.

use crate::limits::{HOT_KEYS, HOT_SAMPLE_PERIOD, HOT_WINDOW, KEY_MAX};

/// A hot key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotKey {
    /// The key.
    pub key: Vec<u8>,
    /// Recent reads of the key, estimated from the samples; never underestimated.
    pub reads: u64,
    /// Upper bound of the overestimate of `reads`.
    pub overestimate: u64,
}

/// The result of [`crate::Store::hot_keys`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HotKeys {
    /// Recent reads of all keys, estimated in the same way.
    pub reads: u64,
    /// The keys in descending order of reads.
    pub keys: Vec<HotKey>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u64,
    count: u32,
    overestimate: u32,
    key_len: u8,
    key: [u8; KEY_MAX],
}

/// The sketch of one worker.
#[derive(Debug)]
pub(crate) struct Sketch {
    slots: Vec<Slot>,
    samples: u32,
    /// State of the generator of sampling distances.
    random: u64,
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            slots: Vec::with_capacity(HOT_KEYS),
            samples: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }
}

impl Sketch {
    /// Samples a read. Returns the number of reads until the next sample.
    pub(crate) fn record(&mut self, hash: u64, key: &[u8]) -> u32 {
        if self.samples == HOT_WINDOW {
            self.halve();
        }
        self.samples += 1;
        match self.slots.iter().position(|slot| slot.hash == hash) {
            Some(at) => self.slots[at].count += 1,
            None => self.admit(hash, key),
        }
        // The distance is random. A fixed distance could be a multiple of the period of a client
        // that reads the same keys in turn, so that it would sample only some of them.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % u64::from(2 * HOT_SAMPLE_PERIOD - 1)) as u32
    }

    /// Assigns a slot to a key: a free slot, or the slot with the lowest count.
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

    fn halve(&mut self) {
        self.samples /= 2;
        for slot in &mut self.slots {
            slot.count /= 2;
            slot.overestimate /= 2;
        }
        self.slots.retain(|slot| slot.count > 0);
    }

    /// Copies another sketch without allocating.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.slots.clear();
        self.slots.extend_from_slice(&other.slots);
        self.samples = other.samples;
    }

    /// Adds these samples to those of other workers.
    pub(crate) fn add_to(&self, sum: &mut HotKeys) {
        let period = u64::from(HOT_SAMPLE_PERIOD);
        sum.reads += u64::from(self.samples) * period;
        for slot in &self.slots {
            let key = &slot.key[..usize::from(slot.key_len)];
            let (reads, overestimate) = (
                u64::from(slot.count) * period,
                u64::from(slot.overestimate) * period,
            );
            match sum.keys.iter_mut().find(|hot| hot.key == key) {
                Some(hot) => {
                    hot.reads += reads;
                    hot.overestimate += overestimate;
                }
                None => sum.keys.push(HotKey {
                    key: key.to_vec(),
                    reads,
                    overestimate,
                }),
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    fn summed(sketch: &Sketch) -> HotKeys {
        let mut sum = HotKeys::default();
        sketch.add_to(&mut sum);
        sum.keys.sort_by_key(|hot| std::cmp::Reverse(hot.reads));
        sum
    }

    #[test]
    fn a_hot_key_is_found_among_many_cold_ones() {
        let mut sketch = Sketch::default();
        for turn in 0..20_000_u64 {
            sketch.record(turn + 10, format!("cold {turn}").as_bytes());
            if turn % 10 == 0 {
                sketch.record(1, b"hot");
            }
        }
        let summed = summed(&sketch);
        assert_eq!(summed.keys.len(), HOT_KEYS);
        let hot = summed.keys.iter().find(|hot| hot.key == b"hot").unwrap();
        let period = u64::from(HOT_SAMPLE_PERIOD);
        assert!(hot.reads >= 2_000 * period, "never too few: {hot:?}");
        assert!(hot.reads - hot.overestimate <= 2_000 * period, "{hot:?}");
        assert_eq!(summed.reads, 22_000 * period);
    }

    #[test]
    fn old_hot_keys_are_forgotten() {
        let mut sketch = Sketch::default();
        for _ in 0..HOT_WINDOW {
            sketch.record(1, b"yesterday");
        }
        for _ in 0..20 * HOT_WINDOW {
            sketch.record(2, b"today");
        }
        let summed = summed(&sketch);
        assert_eq!(summed.keys.len(), 1);
        assert_eq!(summed.keys[0].key, b"today");
    }

    #[test]
    fn samples_have_the_stated_mean_distance_and_vary() {
        let mut sketch = Sketch::default();
        let gaps: Vec<u32> = (0..10_000).map(|_| sketch.record(1, b"a")).collect();
        let mean = gaps.iter().map(|&gap| f64::from(gap) + 1.0).sum::<f64>() / 1e4;
        assert!(
            (mean / f64::from(HOT_SAMPLE_PERIOD) - 1.0).abs() < 0.05,
            "{mean}"
        );
        assert!(gaps.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
