//! Frames of the binary protocol, for tests over sockets.

use protocol::binary::{Head, Header, Opcode, REQUEST_MAGIC};

/// A request of any opcode with the opaque 7. Its lengths must fit their fields.
#[must_use]
pub fn binary_frame(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let head = Head {
        opcode: Opcode(opcode),
        opaque: 7,
    };
    frame_with(head, 0, extras, key, value)
}

/// A request with this head and CAS. Its lengths must fit their fields.
pub(crate) fn frame_with(head: Head, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let header = Header {
        magic: REQUEST_MAGIC,
        head,
        key_len: key.len() as u16,
        extras_len: extras.len() as u8,
        body_len: (extras.len() + key.len() + value.len()) as u32,
        cas,
        ..Header::default()
    };
    [&header.to_bytes(), extras, key, value].concat()
}
