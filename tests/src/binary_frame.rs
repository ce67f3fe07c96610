//! Frames of the binary protocol, for tests over sockets.

use protocol::binary::{Head, Header, Opcode, REQUEST_MAGIC};

/// A request of any opcode with the opaque 7. Its lengths must fit their fields.
#[must_use]
pub fn binary_frame(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let header = Header {
        magic: REQUEST_MAGIC,
        head: Head {
            opcode: Opcode(opcode),
            opaque: 7,
        },
        key_len: key.len() as u16,
        extras_len: extras.len() as u8,
        body_len: (extras.len() + key.len() + value.len()) as u32,
        ..Header::default()
    };
    [&header.to_bytes(), extras, key, value].concat()
}
