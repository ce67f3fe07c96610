//! The records of a run: the key and the value length of each.

use crate::limits::{KEY_LEN_MAX, RECORDS_MAX};
use crate::random_stream::{key as stream_key, word};
use crate::{Distribution, Purpose, RandomStream, SizeDistribution};

/// Digits of record numbers: base 32 in five bits each.
const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// A buffer for one key.
pub type KeyBuffer = [u8; KEY_LEN_MAX];

/// The records of a run, numbered 0 to `records − 1`.
///
/// Keys and lengths are pure functions of the seed and the record's number: the prefill and every
/// connection agree on them without a table.
///
/// A key ends in its record's number in base 32, with as many digits as the greatest number needs
/// (4 for a million records, [`Keyspace::id_len`]), and begins with as many letters as the
/// distribution of key lengths leaves to fill. The digits stand at the same distance from every
/// key's end, so no two records share a key, whatever their lengths. A key is never shorter than
/// its digits nor longer than 250 bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Keyspace {
    records: u64,
    id_len: usize,
    key_len_key: u64,
    value_len_key: u64,
    key_lens: SizeDistribution,
    value_lens: SizeDistribution,
    filler: KeyBuffer,
}

/// Why a keyspace is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyspaceError {
    /// No records, or too many to number.
    #[error("{0} records: give between 1 and {RECORDS_MAX}")]
    Records(u64),
}

impl Keyspace {
    /// A keyspace of `records` whose keys and values have lengths by distribution; values are at
    /// most `value_len_max` bytes ([`crate::limits::VALUE_LEN_MAX`] unless the servers take more).
    ///
    /// # Errors
    /// There are no records, or more than [`RECORDS_MAX`].
    pub fn new(
        records: u64,
        keys: Distribution,
        values: Distribution,
        value_len_max: u32,
        seed: u64,
    ) -> Result<Self, KeyspaceError> {
        if !(1..=RECORDS_MAX).contains(&records) {
            return Err(KeyspaceError::Records(records));
        }
        let id_len = digits_of(records - 1);
        let mut filler = [0; KEY_LEN_MAX];
        let mut letters = RandomStream::new(seed, Purpose::KeyFiller, 0);
        for byte in &mut filler {
            *byte = b'a' + letters.below(26) as u8;
        }
        Ok(Self {
            records,
            id_len,
            key_len_key: stream_key(seed, Purpose::KeyLength),
            value_len_key: stream_key(seed, Purpose::ValueLength),
            key_lens: SizeDistribution::new(keys, id_len as u32, KEY_LEN_MAX as u32),
            value_lens: SizeDistribution::new(values, 0, value_len_max),
            filler,
        })
    }

    /// The number of records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The length of the record's number at the end of each key, bytes.
    #[must_use]
    pub fn id_len(&self) -> usize {
        self.id_len
    }

    /// The length of a record's key.
    #[inline]
    #[must_use]
    pub fn key_len(&self, record: u64) -> usize {
        self.key_lens.len_of(word(self.key_len_key, record)) as usize
    }

    /// The length of a record's value: the same for the prefill and for every update.
    #[inline]
    #[must_use]
    pub fn value_len(&self, record: u64) -> usize {
        self.value_lens.len_of(word(self.value_len_key, record)) as usize
    }

    /// Writes a record's key into the buffer and returns it.
    // On the path of every request: the compiler's own choice costs a call and its registers.
    #[inline(always)]
    pub fn key<'a>(&self, record: u64, buffer: &'a mut KeyBuffer) -> &'a [u8] {
        debug_assert!(record < self.records);
        let len = self.key_len(record);
        let (head, id) = buffer[..len].split_at_mut(len - self.id_len);
        head.copy_from_slice(&self.filler[..head.len()]);
        let mut rest = record;
        for digit in id.iter_mut().rev() {
            *digit = DIGITS[(rest & 31) as usize];
            rest >>= 5;
        }
        &buffer[..len]
    }

    /// Writes the key of a record's counter into the buffer and returns it: `#` before the record's
    /// key, or in place of its first letter if the key has 250 bytes. No record has such a key.
    pub fn counter_key<'a>(&self, record: u64, buffer: &'a mut KeyBuffer) -> &'a [u8] {
        let len = self.key(record, buffer).len();
        let len = if len < KEY_LEN_MAX {
            buffer.copy_within(..len, 1);
            len + 1
        } else {
            len
        };
        buffer[0] = b'#';
        &buffer[..len]
    }

    /// The record of a key. None: the key is not of this keyspace.
    #[must_use]
    pub fn record(&self, key: &[u8]) -> Option<u64> {
        let id = key.get(key.len().checked_sub(self.id_len)?..)?;
        let mut record = 0;
        for byte in id {
            let digit = DIGITS.iter().position(|digit| digit == byte)?;
            record = record << 5 | digit as u64;
        }
        let mut buffer = [0; KEY_LEN_MAX];
        (record < self.records && self.key(record, &mut buffer) == key).then_some(record)
    }
}

/// Base-32 digits of a number; 1 for 0.
fn digits_of(number: u64) -> usize {
    (64 - number.leading_zeros()).div_ceil(5).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::VALUE_LEN_MAX;

    fn keyspace(records: u64, keys: &str, values: &str) -> Keyspace {
        let (keys, values) = (keys.parse().unwrap(), values.parse().unwrap());
        Keyspace::new(records, keys, values, VALUE_LEN_MAX, 42).unwrap()
    }

    #[test]
    fn the_record_number_takes_the_fewest_bytes() {
        let id_len = |records| keyspace(records, "fb_key", "fb_value").id_len();
        assert_eq!(
            [1, 32, 33, 1024, 1025, 1 << 20].map(id_len),
            [1, 1, 2, 2, 3, 4]
        );
        assert_eq!(id_len(RECORDS_MAX), 8);
    }

    #[test]
    fn keys_are_what_they_were_before() {
        let space = keyspace(1_000_000, "fb_key", "fb_value");
        let mut buffer = [0; KEY_LEN_MAX];
        let keys: Vec<String> = [0, 1, 2, 999_999]
            .map(|record| String::from_utf8(space.key(record, &mut buffer).to_vec()).unwrap())
            .to_vec();
        assert_eq!(
            keys,
            [
                "ivimbpbcdwnfhfghgbcw0000",
                "ivimbpbcdwnfhfghgbcwqznnqrnelrpucxptnsifhnfqufbpisiyjgcslcvbad0001",
                "ivimbpbcdwnfhfghgbcwq0002",
                "ivimbpbcdwnfhfghgbcwqznnqrnelrpucxptnsifughv",
            ]
        );
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|record| space.value_len(record)),
            [202, 100, 71, 3, 11, 204]
        );
    }

    #[test]
    fn key_lengths_are_clamped_to_the_number_and_to_250_bytes() {
        let mut buffer = [0; KEY_LEN_MAX];
        assert_eq!(keyspace(40, "fixed:0", "0").key(33, &mut buffer), b"11");
        assert_eq!(
            keyspace(40, "fixed:9999", "0").key(33, &mut buffer).len(),
            250
        );
    }

    #[test]
    fn counters_have_keys_of_their_own() {
        let mut buffer = [0; KEY_LEN_MAX];
        assert_eq!(
            keyspace(40, "fixed:3", "0").counter_key(33, &mut buffer)[..],
            *b"#i11"
        );
        let long = keyspace(40, "fixed:250", "0");
        let key = long.counter_key(33, &mut buffer);
        assert!(key.len() == 250 && key.starts_with(b"#") && key.ends_with(b"11"));
    }

    #[test]
    fn records_out_of_bounds_are_refused() {
        let distribution = Distribution::Fixed(9.0);
        for records in [0, RECORDS_MAX + 1] {
            let error = Keyspace::new(records, distribution, distribution, 9, 1)
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with(&format!("{records} records: give between")),
                "{error}"
            );
        }
    }
}
