//! Shared queue pairs: those of a memory node that the middlebox opens, and that operations of many
//! clients use.
//!
//! Each is the requesting end of a reliable connection. Its window is a ring of slots by sequence
//! number; a slot has a copy of its packet and the owner's sequence number.
//!
//! ```text
//! acked ───────────────▶ next
//!   slots without an answer │ free
//! ```

use std::collections::VecDeque;

use roce::wire::{Addresses, Opcode, Psn};

use crate::limits::WINDOW;

/// A request on a shared queue pair.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The owner's connection, and the number there.
    pub(crate) flow: u32,
    pub(crate) psn: Psn,
    /// The packet as it was sent.
    pub(crate) frame: Vec<u8>,
    /// The opcode that the owner sent.
    pub(crate) opcode: Opcode,
    /// A READ or an atomic operation, which has a response of its own.
    pub(crate) has_response: bool,
}

/// Whether a shared queue pair can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// The reply of the memory node is outstanding. What was sent before may still take effect.
    Connecting,
    /// The memory node refuses this attempt, which is repeated. It has destroyed the queue pair of
    /// the attempt before.
    Refused,
    Connected,
}

/// A shared queue pair.
#[derive(Debug)]
pub(crate) struct SharedPair {
    pub(crate) setup: Setup,
    pub(crate) attempt: u32,
    pub(crate) to_server: Addresses,
    /// Number at the middlebox's side, in the name of a client's address.
    pub(crate) local_qpn: u32,
    pub(crate) server_qpn: u32,
    pub(crate) first: Psn,
    pub(crate) next: Psn,
    pub(crate) acked: Psn,
    slots: VecDeque<Slot>,
    /// Slots with responses of their own.
    pub(crate) reads: usize,
    /// Connections whose oldest request waits for space.
    pub(crate) waiters: VecDeque<u32>,
    /// When there was progress, or everything was sent again.
    pub(crate) moved_ns: u64,
    /// How often everything was sent again since the last progress.
    pub(crate) resends: u32,
    /// A loss was noticed since the last progress.
    pub(crate) has_gone_back: bool,
    /// A timer is set.
    pub(crate) is_armed: bool,
}

impl SharedPair {
    pub(crate) fn new(to_server: Addresses, local_qpn: u32) -> Self {
        Self {
            setup: Setup::Connecting,
            attempt: 0,
            to_server,
            local_qpn,
            server_qpn: 0,
            first: Psn::default(),
            next: Psn::default(),
            acked: Psn::default(),
            slots: VecDeque::new(),
            reads: 0,
            waiters: VecDeque::new(),
            moved_ns: 0,
            resends: 0,
            has_gone_back: false,
            is_armed: false,
        }
    }

    /// Begins a connection whose first sequence number is `first`.
    pub(crate) fn connect(&mut self, attempt: u32, first: Psn) {
        self.setup = Setup::Connecting;
        self.attempt = attempt;
        (self.first, self.next, self.acked) = (first, first, first);
        self.reads = 0;
        self.resends = 0;
        self.has_gone_back = false;
    }

    /// Whether one more request may be sent; the memory node keeps results of `reads_max` only.
    pub(crate) fn has_space(&self, has_response: bool, reads_max: usize) -> bool {
        self.setup == Setup::Connected
            && self.slots.len() < WINDOW as usize
            && !(has_response && self.reads >= reads_max)
    }

    /// Adds a request, whose number is `next`.
    pub(crate) fn push(&mut self, slot: Slot) {
        self.reads += usize::from(slot.has_response);
        self.slots.push_back(slot);
        self.next = self.next.plus(1);
    }

    /// The oldest request.
    pub(crate) fn front(&self) -> Option<&Slot> {
        self.slots.front()
    }

    /// Removes the oldest request: progress.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.reads -= usize::from(slot.has_response);
        self.acked = self.acked.plus(1);
        self.moved_ns = now_ns;
        self.resends = 0;
        self.has_gone_back = false;
        Some(slot)
    }

    /// Removes all requests.
    pub(crate) fn take_slots(&mut self) -> VecDeque<Slot> {
        self.reads = 0;
        std::mem::take(&mut self.slots)
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a response of this kind answers the request with this number.
    pub(crate) fn is_answer(&self, psn: Psn, response: Opcode) -> bool {
        let age = psn.distance_from(self.acked).cast_unsigned() as usize;
        let slot = self.slots.get(age).filter(|slot| slot.has_response);
        slot.is_some_and(|slot| {
            let is_read = slot.opcode == Opcode::ReadRequest;
            is_read != (response == Opcode::AtomicAcknowledge)
        })
    }

    /// Whether a response to this number is outstanding.
    pub(crate) fn expects(&self, psn: Psn) -> bool {
        psn.distance_from(self.acked) >= 0 && psn.distance_from(self.next) < 0
    }
}

/// A memory node with shared queue pairs.
#[derive(Debug)]
pub(crate) struct MemoryNode {
    pub(crate) ip: u128,
    pub(crate) pairs: Vec<SharedPair>,
    /// All were connected or refused once: nothing of an earlier start can take effect any more.
    pub(crate) is_fenced: bool,
    /// Longest payload of a packet, in bytes.
    pub(crate) mtu: u32,
    /// The pair for the next new chain.
    pub(crate) turn: u32,
}

impl MemoryNode {
    /// The first pair that can be used, from this one on; this one if there is none.
    pub(crate) fn usable(&self, from: u32) -> u32 {
        let count = self.pairs.len() as u32;
        let is_usable = |index: &u32| self.pairs[*index as usize].setup != Setup::Refused;
        let mut turns = (0..count).map(|turn| (from + turn) % count);
        turns.find(is_usable).unwrap_or(from % count)
    }

    /// A pair that is not connected: what was sent on it may still take effect.
    pub(crate) fn unsettled(&self) -> Option<u32> {
        let index = self
            .pairs
            .iter()
            .position(|pair| pair.setup == Setup::Connecting)?;
        Some(index as u32)
    }
}
