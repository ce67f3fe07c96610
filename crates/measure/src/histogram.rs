//! Histograms of latencies from 1 ns to 100 s, to three digits.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

/// The first four bytes of an uncompressed HDR V2 serialisation, big-endian, and the length of its
/// header (`HdrHistogram`'s `AbstractHistogram.encodeIntoByteBuffer`).
const V2_COOKIE: u32 = 0x1c84_9313;
const V2_HEADER_LEN: usize = 40;

/// A histogram of latencies: HDR, three significant digits, 1 ns to 100 s, some 220 KiB.
///
/// Values above 100 s are recorded as 100 s and counted ([`Histogram::saturated`]); none is
/// dropped. Merging is lossless: all histograms have the same buckets. A value read back is the
/// greatest of its bucket, so it is at least the recorded value and at most 0.1 % above it.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram(Hdr<u64>);

/// Why text cannot be read as a histogram.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    /// Not base64.
    #[error("histogram is not base64: {0}")]
    Base64(String),
    /// Not the HDR V2 serialisation, or cut short.
    #[error("histogram is not an HDR V2 serialisation: {0}")]
    Format(String),
    /// A histogram of other bounds or another precision, which cannot be merged without loss.
    #[error("histogram has bounds {low} to {high} at {digits} digits, not 1 ns to 100 s at 3")]
    Shape {
        /// The least value it resolves.
        low: u64,
        /// The greatest value it holds.
        high: u64,
        /// Its significant digits.
        digits: u32,
    },
}

impl Histogram {
    /// The least value resolved, nanoseconds.
    pub const LOW_NS: u64 = 1;
    /// The greatest value held, nanoseconds.
    pub const HIGH_NS: u64 = 100_000_000_000;
    /// Significant decimal digits.
    pub const DIGITS: u8 = 3;

    /// An empty histogram.
    ///
    /// # Panics
    /// Never: the library accepts these constant bounds.
    #[must_use]
    pub fn new() -> Self {
        #[expect(clippy::expect_used, reason = "constant arguments, accepted by test")]
        Self(Hdr::new_with_bounds(Self::LOW_NS, Self::HIGH_NS, Self::DIGITS).expect("bounds"))
    }

    /// Records a value.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.0.saturating_record(value_ns.min(Self::HIGH_NS));
    }

    /// Records a value `count` times.
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        self.0
            .saturating_record_n(value_ns.min(Self::HIGH_NS), count);
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        // The bounds are the same, so the addition cannot fail and loses nothing.
        let _ = self.0.add(&other.0);
    }

    /// Removes the values of another histogram, which must be among those of this one: the reverse
    /// of [`Histogram::merge`]. Returns whether they are; if not, the histogram is not to be used.
    #[must_use]
    pub fn subtract(&mut self, other: &Self) -> bool {
        self.0.subtract(&other.0).is_ok()
    }

    /// Removes all values and keeps the memory.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// The number of recorded values.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether no value was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of values at or above the upper bound of 100 s (to three digits).
    #[must_use]
    pub fn saturated(&self) -> u64 {
        self.0.count_at(Self::HIGH_NS)
    }

    /// The least value v such that a share `q` (0 to 1) of all values is at most v; 0 where there
    /// are none.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        self.value_at_rank(self.rank(q))
    }

    /// The rank of the quantile `q`, counted from 1 in ascending order.
    pub(crate) fn rank(&self, q: f64) -> u64 {
        // In floating point 0.999 × 1000 is slightly above 999 and must not give rank 1000.
        let count = self.len() as f64;
        (q * count * (1.0 - 1e-12))
            .ceil()
            .clamp(1.0, count.max(1.0)) as u64
    }

    /// The value of that rank, at most [`Histogram::len`]; 0 where there are none.
    pub(crate) fn value_at_rank(&self, rank: u64) -> u64 {
        let count = self.len().max(1) as f64;
        // The middle of the rank's share finds the right bucket under any rounding.
        self.0
            .value_at_quantile((rank as f64 - 0.5) / count)
            .min(self.max())
    }

    /// [`Histogram::quantile`] of `percentile` ÷ 100.
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> u64 {
        self.quantile(percentile / 100.0)
    }

    /// The arithmetic mean, to three digits; 0 where there are no values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The least value, 0 where there are none.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { self.0.min() }
    }

    /// The greatest value, 0 where there are none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max().min(Self::HIGH_NS)
    }

    /// How many values are at most `value_ns`, to the bucket.
    #[must_use]
    pub fn count_to(&self, value_ns: u64) -> u64 {
        self.0.count_between(0, value_ns.min(Self::HIGH_NS))
    }

    /// The non-empty buckets in ascending order: the greatest value of each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|bucket| {
            (
                bucket.value_iterated_to().min(Self::HIGH_NS),
                bucket.count_since_last_iteration(),
            )
        })
    }

    /// Base64 of the HDR V2 serialisation: lossless, and read by other HDR tools.
    #[must_use]
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        // Only counts above 2^63 and a failing writer can fail; a vector does not.
        let _ = V2Serializer::new().serialize(&self.0, &mut bytes);
        STANDARD.encode(bytes)
    }

    /// The reverse of [`Histogram::to_base64`].
    ///
    /// # Errors
    /// If the text is no such histogram or one of other bounds.
    pub fn from_base64(text: &str) -> Result<Self, HistogramError> {
        let bytes = STANDARD
            .decode(text.trim())
            .map_err(|error| HistogramError::Base64(error.to_string()))?;
        check_header(&bytes)?;
        let hdr = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| HistogramError::Format(error.to_string()))?;
        Ok(Self(hdr))
    }
}

/// Checks the header of a serialised histogram: format, payload length and bounds.
///
/// The deserialiser allocates the payload length and the bounds that the header states before it
/// reads the payload. The text may come from another machine, so 40 bytes must not claim gigabytes.
fn check_header(bytes: &[u8]) -> Result<(), HistogramError> {
    let format = |fault: &str| HistogramError::Format(fault.to_owned());
    let Some((header, payload)) = bytes.split_first_chunk::<V2_HEADER_LEN>() else {
        return Err(format("it is shorter than the header"));
    };
    let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| header[at + byte]));
    let half = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| header[at + byte]));
    if half(0) != V2_COOKIE {
        return Err(format(
            "the first four bytes are not those of uncompressed V2",
        ));
    }
    if usize::try_from(half(4)).ok() != Some(payload.len()) {
        return Err(format("the payload is not as long as the header states"));
    }
    let (low, high, digits) = (word(16), word(24), half(12));
    if (low, high, digits)
        != (
            Histogram::LOW_NS,
            Histogram::HIGH_NS,
            Histogram::DIGITS.into(),
        )
    {
        return Err(HistogramError::Shape { low, high, digits });
    }
    Ok(())
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_histogram_answers_zero() {
        let empty = Histogram::new();
        assert!(empty.is_empty());
        assert_eq!(
            (empty.len(), empty.min(), empty.max(), empty.quantile(0.99)),
            (0, 0, 0, 0)
        );
        assert_eq!((empty.mean(), empty.saturated()), (0.0, 0));
        assert_eq!(Histogram::from_base64(&empty.to_base64()), Ok(empty));
    }

    #[test]
    fn a_header_that_claims_more_than_the_text_holds_is_refused() {
        let with = |at: usize, word: [u8; 4]| {
            let mut bytes = STANDARD.decode(Histogram::new().to_base64()).unwrap();
            bytes[at..at + 4].copy_from_slice(&word);
            Histogram::from_base64(&STANDARD.encode(bytes)).unwrap_err()
        };
        let payload = with(4, [0xff; 4]);
        assert!(matches!(payload, HistogramError::Format(_)), "{payload}");
        let digits = with(12, [0, 0, 0, 5]);
        assert!(
            matches!(digits, HistogramError::Shape { digits: 5, .. }),
            "{digits}"
        );
        let compressed = with(0, [0x1c, 0x84, 0x93, 0x14]);
        assert!(
            matches!(compressed, HistogramError::Format(_)),
            "{compressed}"
        );
        let short = Histogram::from_base64("HISTFAAA").unwrap_err();
        assert!(matches!(short, HistogramError::Format(_)), "{short}");
    }

    #[test]
    fn three_digits_from_a_nanosecond_to_a_hundred_seconds() {
        for value_ns in [
            1,
            2,
            999,
            1_000,
            12_345,
            1_234_567,
            98_765_432_109,
            100_000_000_000,
        ] {
            let mut histogram = Histogram::new();
            histogram.record(value_ns);
            let read = histogram.quantile(0.5);
            assert!(
                read >= value_ns && read as f64 <= value_ns as f64 * 1.001,
                "{value_ns} {read}"
            );
        }
    }

    #[test]
    fn what_is_beyond_the_end_is_kept_and_counted() {
        let mut histogram = Histogram::new();
        histogram.record(5);
        histogram.record(u64::MAX);
        histogram.record_n(200_000_000_000, 2);
        assert_eq!((histogram.len(), histogram.saturated()), (4, 3));
        assert_eq!(histogram.max(), Histogram::HIGH_NS);
        let read = Histogram::from_base64(&histogram.to_base64()).unwrap();
        assert_eq!(read.saturated(), 3);
    }

    #[test]
    fn percentiles_are_those_of_the_samples() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|value| histogram.record(value));
        assert_eq!(histogram.percentile(50.0), 500);
        assert_eq!(histogram.percentile(99.0), 990);
        assert_eq!(histogram.percentile(99.9), 999);
        assert_eq!(histogram.percentile(100.0), 1000);
        assert_eq!(
            (histogram.min(), histogram.max(), histogram.mean()),
            (1, 1000, 500.5)
        );
        assert_eq!(
            (histogram.count_to(250), histogram.buckets().count()),
            (250, 1000)
        );
        histogram.clear();
        assert!(histogram.is_empty());
    }

    #[test]
    fn subtracting_reverses_a_merge() {
        let of = |values: &[u64]| {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&value| histogram.record(value));
            histogram
        };
        let mut both = of(&[5, 700, 90_000_000_000]);
        both.merge(&of(&[5, 80_000, u64::MAX]));
        assert!(both.subtract(&of(&[5, 80_000, u64::MAX])));
        assert_eq!(both, of(&[5, 700, 90_000_000_000]));
        assert!(!both.subtract(&of(&[6])), "it has no such value");
    }

    #[test]
    fn text_that_is_no_such_histogram_is_refused() {
        let fault = |text: &str| Histogram::from_base64(text).unwrap_err().to_string();
        assert!(fault("!").starts_with("histogram is not base64"));
        assert!(fault("AAAA").starts_with("histogram is not an HDR V2 serialisation"));
        let mut whole = Histogram::new();
        whole.record(77);
        let text = whole.to_base64();
        assert!(Histogram::from_base64(&text[..text.len() / 2]).is_err());
        let mut bytes = Vec::new();
        let other = Hdr::<u64>::new_with_bounds(1, 1_000_000, 2).unwrap();
        V2Serializer::new().serialize(&other, &mut bytes).unwrap();
        let fault = fault(&STANDARD.encode(bytes));
        assert!(
            fault.contains("has bounds 1 to 1000000 at 2 digits"),
            "{fault}"
        );
    }
}
