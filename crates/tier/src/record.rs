//! A record: an item as it is on the device.
//!
//! ```text
//! offset  0 magic · 4 key length, marks, two zeros · 8 value length · 12 flags
//!        16 sequence of the segment · 20 zeros · 24 CAS · 32 checksum · 40 key · value
//! ```
//!
//! Numbers are little-endian. The checksum covers everything else. The thread that writes a segment
//! computes it, so that no worker does. The expiry is not here but in the index, which knows
//! whether a record is current.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use store::{Marks, TierAddress, TierItem};

use crate::limits::RECORD_ALIGN;
use crate::little_endian::{u32_at, u64_at};
use crate::readers::Credit;

/// Length of the fields before the key, in bytes.
pub(crate) const HEADER_LEN: usize = 40;
const MAGIC: u32 = 0x4352_5431;
const CHECKSUM: std::ops::Range<usize> = 32..40;

const STALE: u8 = 1;
const CLAIMED: u8 = 2;
const BASE64_KEY: u8 = 4;
const FETCHED: u8 = 8;

/// Why bytes are not the record that was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// They are damaged, or another record.
    Damaged,
    /// They are a record of another key with the same hash, or of a later segment.
    OtherKey,
}

/// An item that was read from the tier. It has been verified.
#[derive(Debug)]
pub struct Record {
    address: TierAddress,
    bytes: Vec<u8>,
    /// The record's share of the memory of all records that are being read.
    credit: Option<Credit>,
}

/// The length of the record of an item, in bytes.
pub(crate) fn len(item: &TierItem<'_>) -> usize {
    HEADER_LEN + item.key.len() + item.value_len
}

/// The length of a record and of the unused bytes behind it, in bytes.
pub(crate) fn padded(len: usize) -> usize {
    len.next_multiple_of(RECORD_ALIGN)
}

/// Writes the record of an item to `to`, which has its length. The checksum is not computed.
/// Returns false if the value has another length than the item says.
pub(crate) fn write(
    item: &TierItem<'_>,
    value: &mut dyn Iterator<Item = &[u8]>,
    sequence: u32,
    to: &mut [u8],
) -> bool {
    let bit = |is_set, bit| if is_set { bit } else { 0 };
    let marks = bit(item.marks.stale, STALE)
        | bit(item.marks.claimed, CLAIMED)
        | bit(item.marks.base64_key, BASE64_KEY)
        | bit(item.is_fetched, FETCHED);
    to[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    // A key has at most 250 bytes.
    to[4..8].copy_from_slice(&[item.key.len() as u8, marks, 0, 0]);
    to[8..12].copy_from_slice(&(item.value_len as u32).to_le_bytes());
    to[12..16].copy_from_slice(&item.flags.to_le_bytes());
    to[16..20].copy_from_slice(&sequence.to_le_bytes());
    to[20..24].fill(0);
    to[24..32].copy_from_slice(&item.cas.to_le_bytes());
    to[CHECKSUM].fill(0);
    let (key, mut rest) = to[HEADER_LEN..].split_at_mut(item.key.len());
    key.copy_from_slice(item.key);
    for slice in value {
        let Some((front, behind)) = rest.split_at_mut_checked(slice.len()) else {
            return false;
        };
        front.copy_from_slice(slice);
        rest = behind;
    }
    rest.is_empty()
}

/// Computes the checksums of the first records in the used bytes of a segment of tier `id`, until
/// they have `bytes` bytes, and returns how many they have. Without a record, that is all of them.
pub(crate) fn seal(segment: &mut [u8], id: u64, bytes: usize) -> usize {
    let mut sealed = 0;
    while sealed < bytes {
        let rest = &mut segment[sealed..];
        if rest.len() < HEADER_LEN || rest.len() < padded(len_in(rest)) {
            return segment.len();
        }
        let len = len_in(rest);
        let record = &mut rest[..len];
        let checksum = checksum(record, id);
        record[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        sealed += padded(len);
    }
    sealed
}

/// The checksum depends on the tier, so that an older copy of its files has no valid record.
fn checksum(record: &[u8], id: u64) -> u64 {
    const SECRETS: RapidSecrets = RapidSecrets::seed(0x7469_6572);
    let head = rapidhash_v3_seeded(&record[..CHECKSUM.start], &SECRETS);
    let body = rapidhash_v3_seeded(&record[CHECKSUM.end..], &SECRETS);
    // Both halves depend on their order.
    (head ^ id)
        .rotate_left(32)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ body
}

/// The length of the record that begins with this header.
fn len_in(header: &[u8]) -> usize {
    HEADER_LEN + usize::from(header[4]) + u32_at(header, 8) as usize
}

impl Record {
    /// Verifies the bytes at an address as the record of `key`. `id` is the number of the
    /// tier; `None` for a record that is still in a write buffer, which has no checksum.
    ///
    /// # Errors
    /// It is another one, or damaged.
    pub(crate) fn verify(
        bytes: Vec<u8>,
        key: &[u8],
        address: TierAddress,
        id: Option<u64>,
    ) -> Result<Self, Invalid> {
        let is_record = bytes.len() >= HEADER_LEN
            && u32_at(&bytes, 0) == MAGIC
            && u32_at(&bytes, 16) == address.sequence
            && len_in(&bytes) == bytes.len();
        if !is_record {
            return Err(Invalid::Damaged);
        }
        if id.is_some_and(|id| u64_at(&bytes, CHECKSUM.start) != checksum(&bytes, id)) {
            return Err(Invalid::Damaged);
        }
        let record = Self {
            address,
            bytes,
            credit: None,
        };
        if record.key() != key {
            return Err(Invalid::OtherKey);
        }
        Ok(record)
    }

    /// Marks the item as fetched, after the record has been verified.
    pub(crate) fn mark_fetched(&mut self) {
        self.bytes[5] |= FETCHED;
    }

    /// Holds the share of memory until the record is dropped.
    pub(crate) fn with_credit(mut self, credit: Credit) -> Self {
        self.credit = Some(credit);
        self
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.bytes[HEADER_LEN..HEADER_LEN + usize::from(self.bytes[4])]
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.bytes[HEADER_LEN + usize::from(self.bytes[4])..]
    }

    /// The address from which it was read.
    #[must_use]
    pub fn address(&self) -> TierAddress {
        self.address
    }

    /// The item without its value.
    #[must_use]
    pub fn item(&self) -> TierItem<'_> {
        let marks = self.bytes[5];
        TierItem {
            key: self.key(),
            flags: u32_at(&self.bytes, 12),
            cas: u64_at(&self.bytes, 24),
            expiry: self.address.expiry,
            marks: Marks {
                stale: marks & STALE != 0,
                claimed: marks & CLAIMED != 0,
                base64_key: marks & BASE64_KEY != 0,
            },
            is_fetched: marks & FETCHED != 0,
            value_len: self.value().len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Expiry;

    /// An address in a segment. Only this and the expiry belong to a record.
    fn at(sequence: u32) -> TierAddress {
        TierAddress {
            sequence,
            offset: 0,
            len: 0,
            expiry: Expiry::at(9),
        }
    }

    fn sealed(key: &[u8], value: &[u8]) -> Vec<u8> {
        let item = TierItem {
            key,
            flags: 7,
            cas: u64::MAX - 1,
            expiry: Expiry::NEVER,
            marks: Marks {
                stale: true,
                claimed: false,
                base64_key: true,
            },
            is_fetched: false,
            value_len: value.len(),
        };
        let len = len(&item);
        let mut bytes = vec![0xAA; padded(len)];
        let (front, behind) = value.split_at(value.len() / 2);
        let mut slices = [front, behind].into_iter();
        assert!(write(&item, &mut slices, 3, &mut bytes[..len]));
        assert_eq!(seal(&mut bytes, 5, usize::MAX), bytes.len());
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn a_record_keeps_every_field() {
        let record = Record::verify(sealed(b"key", b"value"), b"key", at(3), Some(5)).unwrap();
        let item = record.item();
        assert_eq!((item.flags, item.cas), (7, u64::MAX - 1));
        assert_eq!(
            (record.value(), item.expiry),
            (&b"value"[..], Expiry::at(9))
        );
        assert!(item.marks.stale && !item.marks.claimed && item.marks.base64_key);
    }

    #[test]
    fn records_are_sealed_in_steps_as_at_once() {
        let records = [(&b"a"[..], 5), (b"bc", 300), (b"def", 0)].map(|(key, len)| {
            let mut record = sealed(key, &vec![7; len]);
            record.resize(padded(record.len()), 0);
            record
        });
        let whole = records.concat();
        let mut segment = whole.clone();
        let mut at = 0;
        for record in &records {
            segment[at..][CHECKSUM].fill(0);
            at += record.len();
        }
        let mut at = 0;
        for record in &records {
            let step = seal(&mut segment[at..], 5, 1);
            assert_eq!(step, record.len());
            at += step;
        }
        assert_eq!((at, segment), (whole.len(), whole));
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let good = sealed(b"a key", b"some value");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let verified = Record::verify(bad, b"a key", at(3), Some(5)).map(drop);
            assert_eq!(verified, Err(Invalid::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn other_keys_segments_and_lengths_are_noticed() {
        let good = sealed(b"key", b"value");
        let verify = |bytes: &[u8], key: &[u8], sequence| {
            Record::verify(bytes.to_vec(), key, at(sequence), Some(5)).map(drop)
        };
        assert_eq!(verify(&good, b"kez", 3), Err(Invalid::OtherKey));
        assert_eq!(verify(&good, b"key", 4), Err(Invalid::Damaged));
        let other_tier = Record::verify(good.clone(), b"key", at(3), Some(6)).map(drop);
        assert_eq!(other_tier, Err(Invalid::Damaged));
        for len in 0..good.len() {
            assert_eq!(verify(&good[..len], b"key", 3), Err(Invalid::Damaged));
        }
    }
}
