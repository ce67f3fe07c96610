//! The binary protocol: frames with a header of 24 bytes ([`protocol::binary`]).

pub(crate) mod decode;
mod encode;

use protocol::binary::Head;

/// The encoder of the binary protocol. It keeps the opcode, which says whether the request is quiet
/// and whether the reply contains the key, and the opaque number, which the reply repeats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BinaryEncoder {
    head: Head,
}
