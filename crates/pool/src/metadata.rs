//! The metadata service: which chain a key has, which slabs a client has, which slots are free
//! again. Frames in, frames out.
//!
//! ```text
//! request ─▶ requests.rs ─┬─▶ chains.rs   a key's chain; its anchor moves on; nodes are retired
//!                         │   closing.rs  chains without a value end
//!                         ├─▶ slabs.rs    slabs for clients; retired slots, until they are free
//!                         └─▶ leases.rs   clients that are silent are disconnected …
//!  start ─▶ recovery.rs                   … and audit.rs finds what is free in their slabs
//! ```
//!
//! It changes the memory by RDMA like any client ([`Job`]), and keeps nothing elsewhere: after a
//! restart it reads the slab table and the anchors. What it then does not know is which slots were
//! retired and not given back; they come back when their owner's slabs are audited.
//!
//! Invariants:
//! - Nothing is promised before it is in the memory of the node: a number, a slab, a chain.
//! - A slot is given back only when its node is out of reach of its chain's anchor, and every
//!   client has completed what it had begun by then, or was disconnected.
//! - All operations on memory may be done twice: they are after a connection was lost.
//! - On a new connection, no operation begins before the service knows that no later service has
//!   begun to use the memory. On an old one none takes effect after that: the later service has
//!   destroyed it before.

mod audit;
mod chains;
mod closing;
mod leases;
mod recovery;
mod requests;
mod slabs;

use std::collections::{BTreeMap, HashMap, VecDeque};

use chain::{Link, Next};
use roce::connect;
use roce::endpoint::{Completion, Outcome, Request};
use roce::wire::{AtomicEth, Datagram};
use thiserror::Error;

use crate::channel::{Channel, ChannelConfig};
use crate::layout::{EXACT, FIRST_CLIENT, METADATA, SlabEntry, Superblock};
use crate::limits::METADATA_OPERATIONS_MAX;
use crate::message;
use crate::slots::Slots;
use crate::station::{Frame, Station};
use audit::Audit;
use chains::Chain;
use closing::Sweep;
use leases::ClientRecord;

/// What the metadata service needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataConfig {
    /// This host.
    pub me: Station,
    /// The memory node.
    pub node: Station,
    /// The connection to the memory node.
    pub channel: ChannelConfig,
    /// How long a client may be silent, in nanoseconds.
    pub lease_ns: u64,
    /// How long links are collected before an anchor moves on, in nanoseconds.
    pub advance_ns: u64,
    /// How long the service waits at least until it looks again which keys have no value, in
    /// nanoseconds.
    pub sweep_ns: u64,
    /// It does so if at most this share of all slabs was never used, in percent, or if a client was
    /// refused memory.
    pub sweep_below_percent: u64,
    /// Unix time at time 0 of the service's clock, in nanoseconds.
    pub unix_start_ns: u64,
    /// Where all random numbers come from.
    pub seed: u64,
}

impl MetadataConfig {
    /// Leases of 3 s; anchors move every 5 ms; keys without a value are forgotten when at most 12 %
    /// of the slabs were never given to a client.
    pub fn new(me: Station, node: Station, seed: u64) -> Self {
        Self {
            me,
            node,
            channel: ChannelConfig::default(),
            lease_ns: 3_000_000_000,
            advance_ns: 5_000_000,
            sweep_ns: 500_000_000,
            sweep_below_percent: 12,
            unix_start_ns: 0,
            seed,
        }
    }
}

/// Counts, each modulo 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataCounters {
    /// Requests that were handled for the first time.
    pub requests: u64,
    /// Requests that were repeated.
    pub repeated: u64,
    /// Requests whose number cannot follow the one before.
    pub refused: u64,
    /// Chains that were made or found.
    pub chains: u64,
    /// Slabs given to clients.
    pub slabs: u64,
    /// Requests for a slab when there was none, and no slot to be given back.
    pub full: u64,
    /// Nodes that were retired.
    pub retired: u64,
    /// Slots that were given back.
    pub freed: u64,
    /// Nodes that were read to find the end of a chain.
    pub walked: u64,
    /// Clients whose lease ended.
    pub expired: u64,
    /// Slabs whose slots were all examined.
    pub audited: u64,
    /// Passes over all chains that looked for keys without a value.
    pub swept: u64,
    /// Chains that ended, because their keys had no value.
    pub closed: u64,
    /// Bytes of the slots of chains without a value, as the last pass has found them. Those whose
    /// chains are found the same again by the next pass are free soon after that.
    pub dead_bytes: u64,
    /// By how many seconds the slowest clock of a client was behind that of the service, when the
    /// last pass ended; the whole time since 1970 if there was no client, or one of which nothing
    /// had been heard.
    pub clock_lag_s: u64,
}

/// Why the service cannot work. Messages continue "failed to serve the pool's metadata: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MetadataError {
    /// The memory has another content.
    #[error("the memory of the node has no pool of this version")]
    Format,
    /// Another service has begun to use the memory.
    #[error("another metadata service has taken over")]
    Superseded,
    /// The content of the memory was lost: it is a new one.
    #[error("the node has another memory than before, so its values are lost; start meta again")]
    OtherMemory,
}

/// The metadata service.
#[derive(Debug)]
pub struct Metadata {
    config: MetadataConfig,
    channel: Channel,
    phase: recovery::Phase,
    superblock: Superblock,
    /// Numbers before these are promised by the superblock in memory.
    reserved: Numbers,
    error: Option<MetadataError>,
    clients: BTreeMap<u64, ClientRecord>,
    chains: BTreeMap<u64, Chain>,
    by_key: HashMap<Vec<u8>, u64>,
    /// Chains whose anchor may move on, and from when.
    dirty: VecDeque<(u64, u64)>,
    /// Chains without an anchor, because there is no slot for it.
    slotless: VecDeque<u64>,
    /// The slab table.
    slabs: Vec<SlabEntry>,
    /// Free slots of slabs that no client has.
    orphans: BTreeMap<u32, VecDeque<Link>>,
    /// Slots of anchors.
    slots: Slots,
    epoch: u64,
    /// Retired nodes, and the epoch in which they were.
    quarantine: VecDeque<(u64, Link)>,
    audit: Option<Audit>,
    sweep: Sweep,
    /// Slabs whose owner is gone.
    to_audit: VecDeque<u32>,
    /// Operations on memory that wait.
    queue: VecDeque<(Request, Job)>,
    /// Those in progress.
    posted: BTreeMap<u64, (Request, Job)>,
    next_token: u64,
    /// Messages to clients.
    replies: Vec<(Station, Vec<u8>)>,
    next_check_ns: u64,
    /// The least Unix time by the clocks of all clients, each at its last request, in seconds; 0 if
    /// there is none, or one of which nothing was heard.
    slowest_s: u64,
    counters: MetadataCounters,
}

/// Numbers of chains and of clients.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    chain: u64,
    client: u64,
}

/// Why an operation on memory is done.
#[derive(Debug)]
enum Job {
    Recover,
    /// The superblock has the number of this service.
    Claim,
    /// The superblock has these numbers.
    Reserve(Numbers),
    /// The slab table has a new owner of a slab.
    Own {
        slab: u32,
        owner: u64,
        /// Its slots were never used.
        is_fresh: bool,
        /// The client and the number of its request.
        request: Option<(u64, u64)>,
    },
    /// The anchor of a chain is in memory.
    Anchor {
        chain: u64,
    },
    /// An anchor moves on.
    Advance {
        chain: u64,
        new: Link,
        /// From the node to which the anchor linked, in their order.
        passed: Vec<Link>,
    },
    /// The next node of a chain.
    Walk {
        chain: u64,
        at: Link,
        passed: Vec<Link>,
    },
    /// The header of the last node of a chain, which may have no value.
    Examine {
        chain: u64,
        at: Link,
    },
    /// The last node of a chain is closed.
    Close {
        chain: u64,
        at: Link,
    },
    /// The anchor of a chain is closed, with these nodes behind it.
    CloseAnchor {
        chain: u64,
        nodes: Vec<Link>,
    },
    /// A slot of a slab that is audited.
    AuditSlot {
        address: u64,
    },
    /// A node of a chain with nodes in such slabs.
    AuditNode {
        at: Link,
    },
}

impl Metadata {
    /// A service that begins to read the memory.
    pub fn new(config: MetadataConfig) -> Self {
        Self {
            config,
            channel: Channel::new(
                config.me,
                config.node,
                config.channel,
                METADATA,
                config.seed,
            ),
            phase: recovery::Phase::Superblock,
            superblock: Superblock {
                layout: crate::layout::Layout {
                    slab_len: 0,
                    slabs: 0,
                },
                next_chain: 1,
                next_client: FIRST_CLIENT,
                service: 0,
            },
            reserved: Numbers::default(),
            error: None,
            clients: BTreeMap::new(),
            chains: BTreeMap::new(),
            by_key: HashMap::new(),
            dirty: VecDeque::new(),
            slotless: VecDeque::new(),
            slabs: Vec::new(),
            orphans: BTreeMap::new(),
            slots: Slots::default(),
            epoch: 1,
            quarantine: VecDeque::new(),
            audit: None,
            sweep: Sweep::default(),
            to_audit: VecDeque::new(),
            queue: VecDeque::new(),
            posted: BTreeMap::new(),
            next_token: 1,
            replies: Vec::new(),
            next_check_ns: 0,
            slowest_s: 0,
            counters: MetadataCounters::default(),
        }
    }

    /// The counts so far.
    pub fn counters(&self) -> MetadataCounters {
        self.counters
    }

    /// Whether the memory has been read, and requests are answered.
    pub fn is_ready(&self) -> bool {
        self.phase.is_over()
    }

    /// Why the service does not work and never will.
    pub fn error(&self) -> Option<MetadataError> {
        self.error
    }

    /// Number of clients that have a lease.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Takes a frame. Frames for others are ignored.
    pub fn handle(&mut self, now_ns: u64, frame: &[u8]) {
        if self.error.is_some() {
            return;
        }
        match self.config.me.parse(frame) {
            Some(Frame::Packet(_, packet)) => self.channel.handle_packet(now_ns, &packet),
            Some(Frame::Datagram(datagram)) => self.handle_datagram(now_ns, &datagram),
            None => {}
        }
        self.settle(now_ns);
    }

    fn handle_datagram(&mut self, now_ns: u64, datagram: &Datagram) {
        match (datagram.qpn, datagram.queue_key) {
            (connect::QPN, connect::QUEUE_KEY) => match connect::Message::parse(datagram.payload) {
                Some(connect::Message::Disconnected { client }) => self.disconnected(client),
                Some(message) => self.channel.handle_message(now_ns, &message),
                None => {}
            },
            (message::QPN, message::QUEUE_KEY) => {
                let request = message::Request::parse(datagram.payload);
                let sender = Station::sender(&datagram.addresses);
                if let (Some(request), Some(sender), true) = (request, sender, self.is_ready()) {
                    self.handle_request(now_ns, sender, request);
                }
            }
            _ => {}
        }
    }

    /// Sends what is due.
    pub fn transmit(&mut self, now_ns: u64, send: &mut impl FnMut(&[u8])) {
        self.settle(now_ns);
        if self.error.is_some() {
            return;
        }
        self.channel.transmit(now_ns, send);
        self.disconnect_silent(now_ns, send);
        for (target, bytes) in self.replies.drain(..) {
            let (qpn, key) = (message::QPN, message::QUEUE_KEY);
            self.config.me.send(&target, qpn, key, &bytes, send);
        }
        self.settle(now_ns);
    }

    /// When [`Metadata::transmit`] is to be called at the latest.
    pub fn deadline_ns(&self) -> Option<u64> {
        if self.error.is_some() {
            return None;
        }
        let dirty_ns = self.dirty.front().map(|(due_ns, _)| *due_ns);
        let check_ns = self.is_ready().then_some(self.next_check_ns);
        let sweep_ns = self.sweep.deadline_ns().filter(|_| self.is_ready());
        let times = [self.channel.deadline_ns(), dirty_ns, check_ns, sweep_ns];
        times.into_iter().flatten().min()
    }

    /// Does everything that can be done without another frame.
    fn settle(&mut self, now_ns: u64) {
        if self.channel.has_ended() {
            self.error = Some(MetadataError::Superseded);
        }
        if self.error.is_some() {
            return;
        }
        let mut lost = Vec::new();
        while let Some(Completion { id, result }) = self.channel.take_completion(now_ns) {
            let Some((request, job)) = self.posted.remove(&id) else {
                continue;
            };
            match result {
                Ok(outcome) => self.done(now_ns, job, outcome),
                Err(_) => lost.push((request, job)),
            }
        }
        // In their order, before all others.
        for operation in lost.into_iter().rev() {
            self.queue.push_front(operation);
        }
        if let Some(service) = self.channel.take_opened() {
            self.check_service(service);
        }
        if self.error.is_some() {
            return;
        }
        if self.is_ready() {
            self.check_leases(now_ns);
            self.advance_dirty(now_ns);
            self.continue_sweep(now_ns);
            self.continue_audit();
        } else {
            self.continue_recovery();
        }
        self.post();
    }

    fn post(&mut self) {
        while self.posted.len() < METADATA_OPERATIONS_MAX
            && self.channel.is_connected()
            && let Some((request, job)) = self.queue.pop_front()
        {
            if !self.channel.post(self.next_token, request.clone()) {
                self.queue.push_front((request, job));
                break;
            }
            self.posted.insert(self.next_token, (request, job));
            self.next_token += 1;
        }
    }

    fn read(&mut self, address: u64, len: u32, job: Job) {
        let request = Request::Read {
            address,
            key: EXACT,
            len,
        };
        self.queue.push_back((request, job));
    }

    fn write(&mut self, address: u64, bytes: Vec<u8>, job: Job) {
        let request = Request::Write {
            address,
            key: EXACT,
            bytes,
            immediate: None,
        };
        self.queue.push_back((request, job));
    }

    /// Changes the word `next` of a node, if it is `from`.
    fn swap(&mut self, node: Link, from: Next, to: Next, job: Job) {
        self.compare_swap(node.address(), from.word(), to.word(), job);
    }

    fn compare_swap(&mut self, address: u64, compare: u64, swap_or_add: u64, job: Job) {
        let request = Request::CompareSwap(AtomicEth {
            address,
            key: EXACT,
            compare,
            swap_or_add,
        });
        self.queue.push_back((request, job));
    }

    /// An operation on memory is complete.
    fn done(&mut self, now_ns: u64, job: Job, outcome: Outcome) {
        match (job, outcome) {
            (Job::Recover, outcome) => self.recovered(outcome),
            (Job::Claim, Outcome::Original(word)) => self.claimed(word),
            (Job::Reserve(reserved), _) => self.was_reserved(reserved),
            (
                Job::Own {
                    slab,
                    owner,
                    is_fresh,
                    request,
                },
                _,
            ) => self.owned(slab, owner, is_fresh, request),
            (Job::Anchor { chain }, _) => self.made(chain),
            (Job::Advance { chain, new, passed }, Outcome::Original(word)) => {
                self.advanced(now_ns, chain, new, &passed, word);
            }
            (Job::Walk { chain, at, passed }, Outcome::Read(bytes)) => {
                self.walked(now_ns, chain, at, passed, &bytes);
            }
            (Job::Examine { chain, at }, Outcome::Read(bytes)) => {
                self.examined(now_ns, chain, at, &bytes);
            }
            (Job::Close { chain, at }, Outcome::Original(word)) => {
                self.closed(now_ns, chain, at, word);
            }
            (Job::CloseAnchor { chain, nodes }, Outcome::Original(word)) => {
                self.anchor_closed(now_ns, chain, nodes, word);
            }
            (Job::AuditSlot { address }, Outcome::Read(bytes)) => {
                self.audited_slot(address, &bytes);
            }
            (Job::AuditNode { at }, Outcome::Read(bytes)) => self.audited_node(at, &bytes),
            _ => {}
        }
    }
}
