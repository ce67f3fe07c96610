//! Random numbers from a seed, and keys with a popularity.

/// SplitMix64 (Steele and others, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number of [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Zipf's law: the popularity of the item of rank r is proportional to 1/r^s.
#[derive(Debug)]
pub struct Zipf {
    /// The share of the items up to each rank.
    shares: Vec<f64>,
}

impl Zipf {
    /// The law for this number of items and this exponent. 0: all are equally popular.
    #[must_use]
    pub fn new(items: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut shares: Vec<f64> = (1..=items)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        for share in &mut shares {
            *share /= sum;
        }
        Self { shares }
    }

    /// Draws an item.
    pub fn draw(&self, random: &mut Random) -> usize {
        let share = random.unit();
        self.shares.partition_point(|&up_to| up_to <= share)
    }
}
