//! The transport headers as values.

use super::layout::{aeth, atomic_eth, bth, number, put, reth};
use super::psn::Psn;

/// The base transport header, without the opcode, the pad count and the version (which is 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// The receiver raises an event for this message.
    pub solicited: bool,
    /// State of automatic path migration.
    pub migrated: bool,
    /// The key of the partition; 0xffff is the default one.
    pub partition: u16,
    /// Congestion met on the way of this packet.
    pub fecn: bool,
    /// Congestion met on the way of packets in the other direction.
    pub becn: bool,
    /// Number of the queue pair at the receiver, 24 bits.
    pub qpn: u32,
    /// The responder acknowledges this packet, by itself or together with later ones.
    pub ack_requested: bool,
    /// The packet's sequence number.
    pub psn: Psn,
}

impl Bth {
    /// A header with the default partition and no flags.
    pub const fn new(qpn: u32, psn: Psn) -> Self {
        Self {
            solicited: false,
            migrated: true,
            partition: 0xffff,
            fecn: false,
            becn: false,
            qpn,
            ack_requested: false,
            psn,
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let (flags, congestion) = (bytes[bth::FLAGS], bytes[bth::CONGESTION]);
        Self {
            solicited: flags & 0x80 != 0,
            migrated: flags & 0x40 != 0,
            partition: number(&bytes[bth::PARTITION]) as u16,
            fecn: congestion & 0x80 != 0,
            becn: congestion & 0x40 != 0,
            qpn: number(&bytes[bth::QPN]) as u32,
            ack_requested: bytes[bth::ACK_REQUEST] & 0x80 != 0,
            psn: Psn::new(number(&bytes[bth::PSN]) as u32),
        }
    }

    pub(crate) fn emit(&self, opcode: u8, pad_len: usize, bytes: &mut [u8]) {
        let bit = |is_set: bool, mask: u8| if is_set { mask } else { 0 };
        bytes[bth::OPCODE] = opcode;
        bytes[bth::FLAGS] =
            bit(self.solicited, 0x80) | bit(self.migrated, 0x40) | ((pad_len as u8) << 4);
        put(&mut bytes[bth::PARTITION], self.partition.into());
        bytes[bth::CONGESTION] = bit(self.fecn, 0x80) | bit(self.becn, 0x40);
        put(&mut bytes[bth::QPN], self.qpn.into());
        bytes[bth::ACK_REQUEST] = bit(self.ack_requested, 0x80);
        put(&mut bytes[bth::PSN], self.psn.number().into());
    }
}

/// The RDMA extended transport header: which memory is written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address at the responder.
    pub address: u64,
    /// Key of the memory region (rkey).
    pub key: u32,
    /// Length of the whole message in bytes.
    pub len: u32,
}

impl Reth {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self {
            address: number(&bytes[reth::ADDRESS]),
            key: number(&bytes[reth::KEY]) as u32,
            len: number(&bytes[reth::LEN]) as u32,
        }
    }

    pub(crate) fn emit(&self, bytes: &mut [u8]) {
        put(&mut bytes[reth::ADDRESS], self.address);
        put(&mut bytes[reth::KEY], self.key.into());
        put(&mut bytes[reth::LEN], self.len.into());
    }
}

/// The atomic extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    /// Virtual address at the responder, a multiple of eight.
    pub address: u64,
    /// Key of the memory region (rkey).
    pub key: u32,
    /// The value to store, or the number to add.
    pub swap_or_add: u64,
    /// The value that memory must have for a swap; not used by additions.
    pub compare: u64,
}

impl AtomicEth {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self {
            address: number(&bytes[atomic_eth::ADDRESS]),
            key: number(&bytes[atomic_eth::KEY]) as u32,
            swap_or_add: number(&bytes[atomic_eth::SWAP]),
            compare: number(&bytes[atomic_eth::COMPARE]),
        }
    }

    pub(crate) fn emit(&self, bytes: &mut [u8]) {
        put(&mut bytes[atomic_eth::ADDRESS], self.address);
        put(&mut bytes[atomic_eth::KEY], self.key.into());
        put(&mut bytes[atomic_eth::SWAP], self.swap_or_add);
        put(&mut bytes[atomic_eth::COMPARE], self.compare);
    }
}

/// The acknowledge extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// Whether the request was executed.
    pub syndrome: Syndrome,
    /// Number of messages that the responder has completed, 24 bits that wrap.
    pub msn: u32,
}

impl Aeth {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self {
            syndrome: Syndrome::from_code(bytes[aeth::SYNDROME]),
            msn: number(&bytes[aeth::MSN]) as u32,
        }
    }

    pub(crate) fn emit(&self, bytes: &mut [u8]) {
        bytes[aeth::SYNDROME] = self.syndrome.code();
        put(&mut bytes[aeth::MSN], self.msn.into());
    }
}

/// The syndrome of an acknowledgement (specification, 9.7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Executed. The five bits encode how many more requests the receive queue takes; 31 means
    /// that this is not limited by credits.
    Ack {
        /// The encoded number of credits, below 32.
        credits: u8,
    },
    /// The receive queue is empty; the five bits encode how long the requester waits.
    ReceiverNotReady {
        /// The encoded time, below 32.
        timer: u8,
    },
    /// Not executed.
    Nak(NakCode),
    /// A code without a meaning.
    Reserved(u8),
}

impl Syndrome {
    /// An acknowledgement without a limit by credits.
    pub const UNLIMITED: Self = Self::Ack { credits: 31 };

    /// The syndrome with this code.
    pub const fn from_code(code: u8) -> Self {
        let value = code & 0x1f;
        match code >> 5 {
            0 => Self::Ack { credits: value },
            1 => Self::ReceiverNotReady { timer: value },
            3 => match NakCode::from_code(value) {
                Some(nak) => Self::Nak(nak),
                None => Self::Reserved(code),
            },
            _ => Self::Reserved(code),
        }
    }

    /// The byte on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Self::Ack { credits } => credits & 0x1f,
            Self::ReceiverNotReady { timer } => 0x20 | (timer & 0x1f),
            Self::Nak(nak) => 0x60 | nak as u8,
            Self::Reserved(code) => code,
        }
    }
}

/// Why a request was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NakCode {
    /// Packets before this one are missing: send again from the stated number.
    PsnSequence = 0,
    /// The request is not allowed in this place, or its lengths are wrong.
    InvalidRequest = 1,
    /// The key, the bounds or the permissions do not allow the access.
    RemoteAccess = 2,
    /// The responder failed to execute the request.
    RemoteOperation = 3,
}

impl NakCode {
    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::PsnSequence),
            1 => Some(Self::InvalidRequest),
            2 => Some(Self::RemoteAccess),
            3 => Some(Self::RemoteOperation),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_survives_a_round_trip() {
        for code in 0..=u8::MAX {
            assert_eq!(Syndrome::from_code(code).code(), code);
        }
        assert_eq!(Syndrome::from_code(0x1f), Syndrome::UNLIMITED);
        assert_eq!(
            Syndrome::from_code(0x62),
            Syndrome::Nak(NakCode::RemoteAccess)
        );
        assert_eq!(Syndrome::from_code(0x80), Syndrome::Reserved(0x80));
        assert_eq!(Syndrome::from_code(0x40), Syndrome::Reserved(0x40));
    }
}
