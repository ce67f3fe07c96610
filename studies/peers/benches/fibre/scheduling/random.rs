//! A fast random number generator. The Go program contains the same generator, so the benchmarks
//! get the same numbers on all runtimes. The statistical quality of the numbers matters little.

/// The generator xorshift64* (Marsaglia 2003, Vigna 2016) and its state, which is never 0.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // The factor is 2⁶⁴ divided by the golden ratio; it makes the states of small seeds
        // differ in many bits. The lowest bit is set, because the state must not be 0.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a random number from 0 to `bound - 1`. `bound` must be 1 to 2³².
    #[inline]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The shifts and the factor are those of xorshift64*.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high_bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        // `high_bits` is below 2³². This scales it to the numbers below `bound`.
        ((high_bits * bound as u64) >> 32) as usize
    }

    /// Brings the values into random order (Fisher–Yates shuffle).
    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last + 1));
        }
    }
}
