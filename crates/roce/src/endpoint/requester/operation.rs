//! A posted operation, and the packets that it is sent as.

use super::super::emitter::Mtu;
use crate::wire::{AtomicEth, Body, Psn, Reth};

/// An operation that a requester can be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Write to the responder's memory.
    Write {
        /// Address of the first byte.
        address: u64,
        /// Key of the memory region.
        key: u32,
        /// The bytes.
        bytes: Vec<u8>,
        /// Data for the responder's host, which is then told of the WRITE.
        immediate: Option<u32>,
    },
    /// Send a message to the responder's host.
    Send {
        /// The message.
        bytes: Vec<u8>,
        /// Data beside the message.
        immediate: Option<u32>,
    },
    /// Read the responder's memory.
    Read {
        /// Address of the first byte.
        address: u64,
        /// Key of the memory region.
        key: u32,
        /// Number of bytes.
        len: u32,
    },
    /// Replace eight bytes if they have a value.
    CompareSwap(AtomicEth),
    /// Add to eight bytes.
    FetchAdd(AtomicEth),
}

impl Request {
    /// Length in bytes of the message or of the response.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Write { bytes, .. } | Self::Send { bytes, .. } => bytes.len(),
            Self::Read { len, .. } => *len as usize,
            Self::CompareSwap(_) | Self::FetchAdd(_) => 0,
        }
    }
}

/// An operation of the queue.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) id: u64,
    pub(super) request: Request,
    pub(super) is_fenced: bool,
    pub(super) first: Psn,
    packets: u32,
    /// What has arrived of a READ.
    pub(super) received: Vec<u8>,
}

/// A packet to be sent.
pub(super) struct Step<'a> {
    pub(super) body: Body<'a>,
    /// How many sequence numbers it takes.
    pub(super) packets: u32,
}

impl Operation {
    pub(super) fn new(id: u64, request: Request, is_fenced: bool, first: Psn, mtu: Mtu) -> Self {
        let packets = mtu.packets(request.len());
        Self {
            id,
            request,
            is_fenced,
            first,
            packets,
            received: Vec::new(),
        }
    }

    /// The sequence number after its last.
    pub(super) fn end(&self) -> Psn {
        self.first.plus(self.packets)
    }

    pub(super) fn is_atomic(&self) -> bool {
        matches!(self.request, Request::CompareSwap(_) | Request::FetchAdd(_))
    }

    /// Whether it has a response of its own, and takes one of the responder's resources.
    pub(super) fn is_read_or_atomic(&self) -> bool {
        self.is_atomic() || matches!(self.request, Request::Read { .. })
    }

    /// The packet with this sequence number, which lies in this operation.
    pub(super) fn packet(&self, psn: Psn, mtu: Mtu) -> Step<'_> {
        // Not negative, as the number lies in the operation.
        let index = psn.distance_from(self.first).cast_unsigned();
        let start = index as usize * mtu.bytes();
        let is_first = index == 0;
        let is_last = index + 1 == self.packets;
        let part = |bytes: &'_ [u8]| -> std::ops::Range<usize> {
            start.min(bytes.len())..(start + mtu.bytes()).min(bytes.len())
        };
        let body = match &self.request {
            Request::Write {
                address,
                key,
                bytes,
                immediate,
            } => {
                let payload = &bytes[part(bytes)];
                let (immediate, reth) = (*immediate, self.reth(*address, *key, 0));
                match (is_first, is_last) {
                    (true, true) => Body::WriteOnly {
                        reth,
                        immediate,
                        payload,
                    },
                    (true, false) => Body::WriteFirst { reth, payload },
                    (false, false) => Body::WriteMiddle { payload },
                    (false, true) => Body::WriteLast { immediate, payload },
                }
            }
            Request::Send { bytes, immediate } => {
                let payload = &bytes[part(bytes)];
                let immediate = *immediate;
                match (is_first, is_last) {
                    (true, true) => Body::SendOnly { immediate, payload },
                    (true, false) => Body::SendFirst { payload },
                    (false, false) => Body::SendMiddle { payload },
                    (false, true) => Body::SendLast { immediate, payload },
                }
            }
            Request::Read { address, key, .. } => {
                let reth = self.reth(*address, *key, start);
                return Step {
                    body: Body::ReadRequest { reth },
                    packets: self.packets - index,
                };
            }
            Request::CompareSwap(operands) => Body::CompareSwap(*operands),
            Request::FetchAdd(operands) => Body::FetchAdd(*operands),
        };
        Step { body, packets: 1 }
    }

    /// The header of the request without its first `start` bytes.
    fn reth(&self, address: u64, key: u32, start: usize) -> Reth {
        Reth {
            address: address.wrapping_add(start as u64),
            key,
            // At most MESSAGE_LEN_MAX.
            len: (self.request.len() - start) as u32,
        }
    }
}
