//! Reading the memory after a start: superblock, slab table, anchors.
//!
//! Before it reads the table, the service claims the memory: a compare-and-swap raises the number
//! of the present service in the superblock. When it takes effect, this service has a connection,
//! so those of all services before are destroyed. Each of them that connects later finds the
//! number, and ends: what is read from here on is changed by no other service.

use std::collections::BTreeSet;

use chain::{Kind, Link, Next, Node};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use roce::endpoint::Outcome;

use super::chains::Chain;
use super::leases::ClientRecord;
use super::{Job, Metadata, MetadataError, Numbers};
use crate::layout::{
    METADATA, NEXT_NUMBERS, SERVICE, START, SlabEntry, Superblock, memory_of, number, service_after,
};

/// How many numbers of chains and of clients are promised at once.
const RESERVED: Numbers = Numbers {
    chain: 4096,
    client: 16,
};

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Superblock,
    Claim,
    Table {
        /// The first slab that is not known.
        next: u32,
    },
    Anchors {
        slab: u32,
        slot: u32,
    },
    /// The first numbers are promised.
    Reserve,
    Over,
}

impl Phase {
    pub(super) fn is_over(self) -> bool {
        self == Self::Over
    }
}

impl Metadata {
    /// Most bytes of one READ: those of one packet, as a middlebox with queue pair mapping refuses
    /// READs of several.
    fn chunk_len(&self) -> u32 {
        self.config.channel.mtu.bytes() as u32
    }

    /// Requests the next part, unless it is requested already.
    pub(super) fn continue_recovery(&mut self) {
        if !self.queue.is_empty() || !self.posted.is_empty() {
            return;
        }
        let layout = self.superblock.layout;
        // A loop: there may be millions of slabs without anchors, each of which is passed.
        loop {
            match self.phase {
                Phase::Superblock => {
                    self.read(START, Superblock::LEN, Job::Recover);
                    return;
                }
                Phase::Claim => {
                    self.claim();
                    return;
                }
                Phase::Table { next } if next < layout.slabs => {
                    let left = (layout.slabs - next) * SlabEntry::LEN as u32;
                    self.read(layout.entry(next), left.min(self.chunk_len()), Job::Recover);
                    return;
                }
                Phase::Table { .. } => self.phase = Phase::Anchors { slab: 0, slot: 0 },
                Phase::Anchors { slab, slot } => {
                    if self.read_on(slab, slot) {
                        return;
                    }
                }
                Phase::Reserve => {
                    self.reserve();
                    return;
                }
                Phase::Over => return,
            }
        }
    }

    /// Makes this service the present one, unless another has done so since the superblock was
    /// read.
    fn claim(&mut self) {
        let (former, own) = (self.superblock.service, self.own_service());
        self.compare_swap(SERVICE, former, own, Job::Claim);
    }

    /// The number that this service claims.
    fn own_service(&self) -> u64 {
        let mut random = SplitMix64::seed_from_u64(self.config.seed);
        service_after(self.superblock.service, random.next_u64() as u32)
    }

    /// The memory was to be claimed; `word` is the number of the service that was the present one.
    pub(super) fn claimed(&mut self, word: u64) {
        if word == self.superblock.service {
            self.superblock.service = self.own_service();
            self.phase = Phase::Table { next: 0 };
        } else {
            self.phase = Phase::Superblock;
        }
    }

    /// There is a new connection; `service` is the number of the present service after it was made.
    pub(super) fn check_service(&mut self, service: u64) {
        match self.phase {
            // Whether this service has claimed the memory, or another one with the same number, is
            // unknown, and so is what was changed since the superblock was read.
            Phase::Superblock | Phase::Claim => {
                self.queue.clear();
                self.phase = Phase::Superblock;
            }
            _ if memory_of(service) != memory_of(self.superblock.service) => {
                self.error = Some(MetadataError::OtherMemory);
            }
            _ if service != self.superblock.service => {
                self.error = Some(MetadataError::Superseded);
            }
            _ => {}
        }
    }

    /// Requests the anchors of a slab from a slot on. False, and the phase is the next one, if it
    /// has none there.
    fn read_on(&mut self, slab: u32, slot: u32) -> bool {
        let layout = self.superblock.layout;
        let Some(entry) = self.slabs.get(slab as usize) else {
            self.phase = Phase::Reserve;
            return false;
        };
        let slots = layout.slab_len / entry.slot_len.max(1);
        if entry.owner != METADATA || slot >= slots {
            let (slab, slot) = (slab + 1, 0);
            self.phase = Phase::Anchors { slab, slot };
            return false;
        }
        let count = (self.chunk_len() / entry.slot_len).clamp(1, slots - slot);
        let address = layout.slab(slab) + u64::from(slot) * u64::from(entry.slot_len);
        self.read(address, count * entry.slot_len, Job::Recover);
        true
    }

    /// Promises further numbers of chains and clients.
    pub(super) fn reserve(&mut self) {
        let reserved = Numbers {
            chain: self.superblock.next_chain + RESERVED.chain,
            client: self.superblock.next_client + RESERVED.client,
        };
        let mut bytes = reserved.chain.to_le_bytes().to_vec();
        bytes.extend(reserved.client.to_le_bytes());
        self.write(NEXT_NUMBERS, bytes, Job::Reserve(reserved));
    }

    /// The superblock promises numbers.
    pub(super) fn was_reserved(&mut self, reserved: Numbers) {
        self.reserved = reserved;
        if self.phase == Phase::Reserve {
            self.start();
        }
    }

    /// How many numbers of chains and of clients are left; requests more in time.
    pub(super) fn numbers_left(&mut self) -> Numbers {
        let Superblock {
            next_chain,
            next_client,
            ..
        } = self.superblock;
        let left = Numbers {
            chain: self.reserved.chain.saturating_sub(next_chain),
            client: self.reserved.client.saturating_sub(next_client),
        };
        let is_low = left.chain <= RESERVED.chain / 2 || left.client <= RESERVED.client / 2;
        let is_reserving = |job: &Job| matches!(job, Job::Reserve(_));
        let mut jobs = self.queue.iter().chain(self.posted.values());
        if is_low && !jobs.any(|(_, job)| is_reserving(job)) {
            self.reserve();
        }
        left
    }

    /// Everything is known. Owners of slabs count as clients that were just heard.
    fn start(&mut self) {
        self.phase = Phase::Over;
        // Numbers of clients grow with each start, so epochs do too.
        self.epoch = self.superblock.next_client << 32;
        for (epoch, _) in &mut self.quarantine {
            *epoch = self.epoch;
        }
        let owners: BTreeSet<u64> = self.slabs.iter().map(|entry| entry.owner).collect();
        for client in owners {
            if client > METADATA {
                self.clients.insert(client, ClientRecord::default());
            }
        }
        for (slab, entry) in self.slabs.iter().enumerate() {
            if entry.owner == 0 && entry.slot_len > 0 {
                // An owner had ended; what is free was known only to the service before.
                self.to_audit.push_back(slab as u32);
            }
        }
    }

    /// A part was read.
    pub(super) fn recovered(&mut self, outcome: Outcome) {
        let Outcome::Read(bytes) = outcome else {
            return;
        };
        match self.phase {
            Phase::Superblock => match Superblock::parse(&bytes) {
                Some(superblock) => {
                    self.superblock = superblock;
                    self.phase = Phase::Claim;
                }
                None => self.error = Some(MetadataError::Format),
            },
            Phase::Table { next } => {
                let entries = bytes.chunks_exact(SlabEntry::LEN);
                self.slabs.extend(entries.map(SlabEntry::parse));
                let read = (bytes.len() / SlabEntry::LEN) as u32;
                self.phase = Phase::Table { next: next + read };
            }
            Phase::Anchors { slab, slot } => self.read_anchors(slab, slot, &bytes),
            Phase::Claim | Phase::Reserve | Phase::Over => {}
        }
    }

    fn read_anchors(&mut self, slab: u32, first: u32, bytes: &[u8]) {
        let layout = self.superblock.layout;
        let slot_len = self.slabs[slab as usize].slot_len;
        let start = layout.slab(slab);
        self.slots.add(start, layout.slab_len, slot_len, false);
        let mut slot = first;
        for bytes in bytes.chunks_exact(slot_len as usize) {
            let address = start + u64::from(slot) * u64::from(slot_len);
            self.read_anchor(address, bytes);
            slot += 1;
        }
        self.phase = Phase::Anchors { slab, slot };
    }

    /// Keeps the chain of an anchor, or frees its slot.
    fn read_anchor(&mut self, address: u64, bytes: &[u8]) {
        let anchor = Node::parse(bytes)
            .ok()
            .filter(|node| node.kind == Kind::Anchor && node.own.address() == address);
        if let Some(node) = anchor.filter(|node| node.next == Next::Closed) {
            // Clients of before may still read it.
            self.quarantine.push_back((0, node.own));
            return;
        }
        let anchor = anchor.filter(|node| !self.by_key.contains_key(node.key));
        let Some(node) = anchor else {
            if let Some(link) = generation_of(address, bytes) {
                self.slots.free(link);
            }
            return;
        };
        self.superblock.next_chain = self.superblock.next_chain.max(node.chain + 1);
        self.by_key.insert(node.key.to_vec(), node.chain);
        self.chains.insert(
            node.chain,
            Chain::found(node.key, node.own, node.next.node()),
        );
        self.counters.chains += 1;
    }
}

/// The link of whatever node a slot had last, by its first words: its next node has another
/// generation. Of a slot that was never used, the first one is skipped. Nothing if the slot is
/// damaged.
pub(super) fn generation_of(address: u64, bytes: &[u8]) -> Option<Link> {
    let bytes = bytes.get(..16)?;
    let (next, own) = (number(bytes, 0, 8), number(bytes, 8, 8));
    let of_next = match Next::from_word(next) {
        Some(Next::Empty { generation }) => generation,
        _ => 0,
    };
    let of_own = match Link::from_word(own) {
        Some(link) if link.address() == address => link.generation(),
        Some(_) => return None,
        None if own == 0 => 0,
        None => return None,
    };
    Link::new(address, of_own.max(of_next).max(1))
}
