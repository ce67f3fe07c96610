//! Opcodes of reliable connections, and the headers that each brings.

use super::layout::{AETH_LEN, ATOMIC_ACK_ETH_LEN, ATOMIC_ETH_LEN, IMMEDIATE_LEN, RETH_LEN};

/// An opcode of the base transport header (specification, 9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum Opcode {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastImmediate = 0x03,
    SendOnly = 0x04,
    SendOnlyImmediate = 0x05,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteLastImmediate = 0x09,
    WriteOnly = 0x0a,
    WriteOnlyImmediate = 0x0b,
    ReadRequest = 0x0c,
    ReadResponseFirst = 0x0d,
    ReadResponseMiddle = 0x0e,
    ReadResponseLast = 0x0f,
    ReadResponseOnly = 0x10,
    Acknowledge = 0x11,
    AtomicAcknowledge = 0x12,
    CompareSwap = 0x13,
    FetchAdd = 0x14,
}

impl Opcode {
    /// Every opcode, in the order of their codes.
    pub const ALL: [Self; 21] = [
        Self::SendFirst,
        Self::SendMiddle,
        Self::SendLast,
        Self::SendLastImmediate,
        Self::SendOnly,
        Self::SendOnlyImmediate,
        Self::WriteFirst,
        Self::WriteMiddle,
        Self::WriteLast,
        Self::WriteLastImmediate,
        Self::WriteOnly,
        Self::WriteOnlyImmediate,
        Self::ReadRequest,
        Self::ReadResponseFirst,
        Self::ReadResponseMiddle,
        Self::ReadResponseLast,
        Self::ReadResponseOnly,
        Self::Acknowledge,
        Self::AtomicAcknowledge,
        Self::CompareSwap,
        Self::FetchAdd,
    ];

    /// The opcode with this code; none for other services, and for codes that are not known here
    /// (SEND with invalidate, 0x16 and 0x17, and the reserved ones).
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The byte on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether the responder sends it.
    pub const fn is_response(self) -> bool {
        matches!(self.code(), 0x0d..=0x12)
    }

    /// Whether it has a RETH: address, key and length.
    pub const fn has_reth(self) -> bool {
        matches!(
            self,
            Self::WriteFirst | Self::WriteOnly | Self::WriteOnlyImmediate | Self::ReadRequest
        )
    }

    /// Whether it has an AtomicETH: address, key and two operands.
    pub const fn has_atomic_eth(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// Whether it has an AETH: syndrome and message sequence number.
    pub const fn has_aeth(self) -> bool {
        matches!(
            self,
            Self::ReadResponseFirst
                | Self::ReadResponseLast
                | Self::ReadResponseOnly
                | Self::Acknowledge
                | Self::AtomicAcknowledge
        )
    }

    /// Whether it has an AtomicAckETH: the original value.
    pub const fn has_atomic_ack_eth(self) -> bool {
        matches!(self, Self::AtomicAcknowledge)
    }

    /// Whether it has four bytes of immediate data.
    pub const fn has_immediate(self) -> bool {
        matches!(
            self,
            Self::SendLastImmediate
                | Self::SendOnlyImmediate
                | Self::WriteLastImmediate
                | Self::WriteOnlyImmediate
        )
    }

    /// Whether it may have a payload.
    pub const fn has_payload(self) -> bool {
        !matches!(
            self,
            Self::ReadRequest
                | Self::Acknowledge
                | Self::AtomicAcknowledge
                | Self::CompareSwap
                | Self::FetchAdd
        )
    }

    /// Length in bytes of the headers between the BTH and the payload.
    pub const fn extension_len(self) -> usize {
        let mut len = 0;
        if self.has_reth() {
            len += RETH_LEN;
        }
        if self.has_atomic_eth() {
            len += ATOMIC_ETH_LEN;
        }
        if self.has_aeth() {
            len += AETH_LEN;
        }
        if self.has_atomic_ack_eth() {
            len += ATOMIC_ACK_ETH_LEN;
        }
        if self.has_immediate() {
            len += IMMEDIATE_LEN;
        }
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_their_place_in_the_table_and_others_are_refused() {
        for code in 0..=u8::MAX {
            match Opcode::from_code(code) {
                Some(opcode) => assert_eq!(opcode.code(), code),
                None => assert!(code > 0x14),
            }
        }
    }

    #[test]
    fn headers_have_the_lengths_of_the_specification() {
        let lens: Vec<usize> = Opcode::ALL
            .iter()
            .map(|some| some.extension_len())
            .collect();
        assert_eq!(
            lens,
            [
                0, 0, 0, 4, 0, 4, 16, 0, 0, 4, 16, 20, 16, 4, 0, 4, 4, 4, 12, 28, 28
            ]
        );
    }
}
