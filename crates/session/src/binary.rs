//! The binary protocol, whose requests and replies are frames: a header of 24 bytes and a body
//! ([`protocol::binary`]).

pub(crate) mod decode;
mod encode;

use protocol::binary::Head;

/// The encoder of the replies to one request of the binary protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BinaryEncoder {
    /// The opcode of the request, and its opaque: a number that the client chose. Every reply
    /// repeats both. The opcode also says whether the reply contains the key, and whether the
    /// request is *quiet*. A quiet request has no reply in the common case: a miss of a `getq`, the
    /// success of a `setq`.
    head: Head,
}
