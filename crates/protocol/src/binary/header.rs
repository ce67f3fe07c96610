//! The header of a frame.

use super::Opcode;
use crate::limits::BINARY_HEADER_LEN;

/// The first byte of a request.
pub const REQUEST_MAGIC: u8 = 0x80;
/// The first byte of a reply.
pub const REPLY_MAGIC: u8 = 0x81;

/// The parts of a request that its reply repeats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Head {
    /// The opcode.
    pub opcode: Opcode,
    /// A number that the client chose.
    pub opaque: u32,
}

/// The header of a frame, with any values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// [`REQUEST_MAGIC`] or [`REPLY_MAGIC`].
    pub magic: u8,
    /// The opcode and the opaque.
    pub head: Head,
    /// Length of the key in bytes.
    pub key_len: u16,
    /// Length of the extras in bytes.
    pub extras_len: u8,
    /// Always 0. memcached ignores it in requests.
    pub data_type: u8,
    /// The status of a reply. In a request it is the number of a virtual bucket, which memcached
    /// ignores.
    pub status: u16,
    /// Length of extras, key and value together, in bytes.
    pub body_len: u32,
    /// The CAS of the item, or 0.
    pub cas: u64,
}

impl Header {
    /// The header in these bytes.
    #[must_use]
    pub fn read(bytes: &[u8; BINARY_HEADER_LEN]) -> Self {
        let &[
            magic,
            opcode,
            k0,
            k1,
            extras_len,
            data_type,
            s0,
            s1,
            b0,
            b1,
            b2,
            b3,
            o0,
            o1,
            o2,
            o3,
            ref cas @ ..,
        ] = bytes;
        Self {
            magic,
            head: Head {
                opcode: Opcode(opcode),
                opaque: u32::from_be_bytes([o0, o1, o2, o3]),
            },
            key_len: u16::from_be_bytes([k0, k1]),
            extras_len,
            data_type,
            status: u16::from_be_bytes([s0, s1]),
            body_len: u32::from_be_bytes([b0, b1, b2, b3]),
            cas: u64::from_be_bytes(*cas),
        }
    }

    /// The bytes of this header.
    #[must_use]
    #[inline]
    pub fn to_bytes(&self) -> [u8; BINARY_HEADER_LEN] {
        let mut bytes = [0; BINARY_HEADER_LEN];
        bytes[0] = self.magic;
        bytes[1] = self.head.opcode.0;
        bytes[2..4].copy_from_slice(&self.key_len.to_be_bytes());
        bytes[4] = self.extras_len;
        bytes[5] = self.data_type;
        bytes[6..8].copy_from_slice(&self.status.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.body_len.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.head.opaque.to_be_bytes());
        bytes[16..].copy_from_slice(&self.cas.to_be_bytes());
        bytes
    }

    /// Length of the header, the extras and the key, in bytes: at most 65 814.
    #[must_use]
    pub fn value_at(&self) -> usize {
        BINARY_HEADER_LEN + usize::from(self.extras_len) + usize::from(self.key_len)
    }

    /// Length of the value in bytes. `None` if extras and key are longer than the body.
    #[must_use]
    pub fn value_len(&self) -> Option<u32> {
        let before = u32::from(self.extras_len) + u32::from(self.key_len);
        self.body_len.checked_sub(before)
    }
}
