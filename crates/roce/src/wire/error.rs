//! Why a frame is not a packet of a reliable connection.

use thiserror::Error;

/// The reason for which a frame is refused. Messages continue "failed to parse the frame: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PacketError {
    /// The frame ends before its headers or before the length that they state.
    #[error("it ends within its headers or its payload")]
    Truncated,
    /// The packet is longer than [`crate::limits::FRAME_LEN_MAX`].
    #[error("it is longer than the largest payload allows")]
    TooLong,
    /// Neither IPv4 nor IPv6. Tagged frames (802.1Q) are refused too.
    #[error("its EtherType {0:#06x} is neither IPv4 nor IPv6")]
    EtherType(u16),
    /// Another version, options, a fragment, or a protocol other than UDP.
    #[error("its IP header has another version, options, a fragment or no UDP")]
    Ip,
    /// The checksum of the IPv4 header is wrong.
    #[error("the checksum of its IPv4 header is wrong")]
    IpChecksum,
    /// UDP to a port other than 4791.
    #[error("its UDP port {0} is not 4791")]
    Port(u16),
    /// The lengths of IP, UDP, headers, payload and pad contradict each other.
    #[error("its lengths contradict each other")]
    Length,
    /// The transport header's version is not 0.
    #[error("the version {0} of its transport header is not 0")]
    Version(u8),
    /// The opcode is not one of a reliable connection that this crate knows.
    #[error("its opcode {0:#04x} is unknown")]
    Opcode(u8),
    /// The invariant CRC is wrong: the packet was corrupted on its way.
    #[error("its invariant CRC is wrong")]
    Icrc,
}
