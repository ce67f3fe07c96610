//! The middlebox: what comes in, and which part of it handles that.

use std::collections::{HashMap, VecDeque};

use rapidhash::fast::RandomState;
use roce::connect::{Attempt, QueuePair};
use roce::wire::{Opcode, Packet, PacketError};

use crate::addresses::Addresses;
use crate::chains::Chains;
use crate::config::{Config, ConfigError, Switches};
use crate::counters::Counters;
use crate::flows::{Endpoint, Flows, Wait, ip_numbers};
use crate::frames::Frames;
use crate::shared::MemoryNode;

/// One of the two sides of a middlebox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The clients.
    Client,
    /// The memory nodes.
    Memory,
}

impl Side {
    /// The opposite side.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Memory,
            Self::Memory => Self::Client,
        }
    }
}

/// Where frames leave.
pub(crate) type Emit<'a> = &'a mut dyn FnMut(Side, &[u8]);

/// A view on a frame that may be changed.
pub(crate) type View<'a> = Packet<&'a mut [u8]>;

/// A steering middlebox.
#[derive(Debug)]
pub struct Middlebox {
    pub(crate) config: Config,
    pub(crate) is_active: bool,
    pub(crate) counters: Counters,
    pub(crate) flows: Flows,
    pub(crate) chains: Chains,
    pub(crate) addresses: Addresses,
    pub(crate) nodes: Vec<MemoryNode>,
    /// Queue pairs at the clients' side that are shared ones: memory node and index.
    pub(crate) shared: HashMap<Endpoint, (u8, u32), RandomState>,
    /// Requests to connect that have passed, newest last, with the memory node's address.
    pub(crate) connects: VecDeque<(Attempt, QueuePair, u128)>,
    pub(crate) frames: Frames,
    /// The time of the present call.
    pub(crate) now_ns: u64,
    /// A packet that is being written.
    pub(crate) scratch: Vec<u8>,
    /// When to look at shared queue pairs, in order.
    pub(crate) resend_timers: VecDeque<(u64, u8, u32)>,
    /// When to look at chains that others wait for, in order.
    pub(crate) hold_timers: VecDeque<(u64, u32)>,
    pub(crate) until_hottest: u32,
    pub(crate) hits: Vec<u32>,
}

/// How much a middlebox knows at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Connections of clients.
    pub flows: usize,
    /// Chains.
    pub chains: usize,
    /// Copies of packets.
    pub frames: usize,
    /// Timers.
    pub timers: usize,
    /// Connections that wait for chains or shared queue pairs, counted at each.
    pub waiters: usize,
}

impl Middlebox {
    /// A middlebox that knows nothing.
    ///
    /// # Errors
    /// The configuration is refused.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            is_active: config.switches != Switches::default(),
            counters: Counters::default(),
            flows: Flows::default(),
            chains: Chains::new(config.chains),
            addresses: Addresses::new(config.addresses),
            nodes: Vec::new(),
            shared: HashMap::default(),
            connects: VecDeque::new(),
            frames: Frames::default(),
            now_ns: 0,
            scratch: Vec::new(),
            resend_timers: VecDeque::new(),
            hold_timers: VecDeque::new(),
            until_hottest: 0,
            hits: Vec::new(),
            config,
        })
    }

    /// The counts so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How much it knows.
    pub fn sizes(&self) -> Sizes {
        let pairs = self.nodes.iter().flat_map(|node| &node.pairs);
        let for_pairs: usize = pairs.map(|pair| pair.waiters.len()).sum();
        Sizes {
            waiters: self.chains.waiters() + for_pairs,
            flows: self.flows.len(),
            chains: self.chains.len(),
            frames: self.frames.used(),
            timers: self.resend_timers.len() + self.hold_timers.len(),
        }
    }

    /// Takes a frame that arrived at a side. It is changed in place; what leaves, here and in
    /// [`Middlebox::tick`], is passed to `emit` with the side where it leaves.
    pub fn process(&mut self, now_ns: u64, from: Side, frame: &mut [u8], emit: Emit) {
        self.counters.frames += 1;
        self.now_ns = now_ns;
        if !self.is_active {
            self.counters.sent += 1;
            emit(from.other(), frame);
            return;
        }
        match Packet::new_checked(&mut *frame) {
            Ok(packet) => match from {
                Side::Client => self.request(now_ns, packet, emit),
                Side::Memory => self.response(now_ns, packet, emit),
            },
            Err(PacketError::Opcode(_)) => self.setup(now_ns, from, frame, emit),
            Err(_) => {
                self.counters.foreign += 1;
                self.counters.sent += 1;
                emit(from.other(), frame);
            }
        }
    }

    /// When [`Middlebox::tick`] is to be called at the latest, on the clock of `now_ns`.
    pub fn deadline_ns(&self) -> Option<u64> {
        let resend_ns = self.resend_timers.front().map(|(due_ns, ..)| *due_ns);
        let hold_ns = self.hold_timers.front().map(|(due_ns, _)| *due_ns);
        resend_ns.into_iter().chain(hold_ns).min()
    }

    /// Sends again what was not answered in time, and ends waiting that took too long.
    pub fn tick(&mut self, now_ns: u64, emit: Emit) {
        while let Some((due_ns, node, pair)) = self.resend_timers.front().copied()
            && due_ns <= now_ns
        {
            self.resend_timers.pop_front();
            self.check_shared(now_ns, node, pair, emit);
        }
        while let Some((due_ns, chain)) = self.hold_timers.front().copied()
            && due_ns <= now_ns
        {
            self.hold_timers.pop_front();
            self.check_hold(now_ns, chain, emit);
        }
    }

    fn request(&mut self, now_ns: u64, packet: View, emit: Emit) {
        let (source, target) = ip_numbers(&packet.addresses());
        let flow = self.flows.by_server((target, packet.qpn()));
        let Some(flow) = flow.filter(|flow| self.flows.get(*flow).agreed.client.0 == source) else {
            self.pass_unknown(Side::Client, &packet, emit);
            return;
        };
        if packet.opcode().is_response() {
            self.counters.misdirected += 1;
        } else if self.is_intact(&packet) {
            self.flows.get(flow).used_ns = now_ns;
            if self.config.switches.mapping {
                self.request_mapped(now_ns, flow, &packet, emit);
            } else {
                self.request_plain(now_ns, flow, packet, emit);
            }
        }
    }

    fn response(&mut self, now_ns: u64, packet: View, emit: Emit) {
        let (source, target) = ip_numbers(&packet.addresses());
        let client = (target, packet.qpn());
        if !packet.opcode().is_response() {
            self.counters.misdirected += 1;
        } else if let Some((node, pair)) = self.shared.get(&client).copied() {
            if self.nodes[usize::from(node)].ip == source && self.is_intact(&packet) {
                self.response_mapped(now_ns, node, pair, packet, emit);
            }
        } else if let Some(flow) = self.flows.by_client(client) {
            // With mapping, the memory node has no reason to answer a client's own queue pair.
            if self.config.switches.mapping || self.flows.get(flow).agreed.server.0 != source {
                self.counters.responses_ignored += 1;
            } else if self.is_intact(&packet) {
                self.response_plain(now_ns, flow, packet, emit);
            }
        } else {
            self.pass_unknown(Side::Memory, &packet, emit);
        }
    }

    /// Whether the checksums are right. A packet that is corrupted must not change what is known.
    fn is_intact(&mut self, packet: &View) -> bool {
        let is_intact = self.config.faults.trusts_corrupted || packet.verify().is_ok();
        self.counters.corrupted += u64::from(!is_intact);
        is_intact
    }

    /// Drops a packet of an unknown connection if it could be one that this middlebox, before it
    /// was started again, has mapped, or whose compare-and-swap operations it has steered.
    fn pass_unknown(&mut self, from: Side, packet: &View, emit: Emit) {
        let is_swap = matches!(
            packet.opcode(),
            Opcode::CompareSwap | Opcode::AtomicAcknowledge
        );
        let is_dropped = self.config.switches.mapping || is_swap;
        if is_dropped && !self.config.faults.passes_unknown {
            self.counters.unknown_dropped += 1;
        } else {
            self.counters.unknown_passed += 1;
            self.counters.sent += 1;
            emit(from.other(), packet.frame());
        }
    }

    /// Lets the connections continue that wait for a chain, until one of them blocks it again.
    pub(crate) fn wake_chain(&mut self, now_ns: u64, chain: u32, emit: Emit) {
        while !self.chains.get(chain).is_blocked()
            && let Some(flow) = self.chains.get(chain).waiters.pop_front()
        {
            self.resume(now_ns, flow, Wait::Chain(chain), emit);
        }
    }

    /// Sends what waits in a connection's queue, if that is what it waits for.
    pub(crate) fn resume(&mut self, now_ns: u64, flow: u32, wait: Wait, emit: Emit) {
        if self.flows.get(flow).wait != Some(wait) {
            return;
        }
        self.flows.get(flow).wait = None;
        while let Some((psn, frame)) = self.flows.get(flow).queue.pop_front() {
            let held = if self.config.switches.mapping {
                self.dispatch_mapped(now_ns, flow, psn, frame, emit).err()
            } else {
                self.dispatch_held(now_ns, flow, frame, emit)
            };
            if let Some((wait, frame)) = held {
                self.flows.get(flow).queue.push_front((psn, frame));
                self.wait_for(now_ns, flow, wait);
                return;
            }
        }
    }

    /// Registers that the oldest request in a connection's queue waits.
    pub(crate) fn wait_for(&mut self, now_ns: u64, flow: u32, wait: Wait) {
        let node = self.flows.get(flow).agreed.node;
        self.flows.get(flow).wait = Some(wait);
        match wait {
            Wait::Chain(index) => {
                self.counters.swaps_held += 1;
                enter(&mut self.chains.get(index).waiters, flow);
                self.arm_hold(now_ns, index);
            }
            Wait::Shared(pair) => {
                self.counters.shared_waits += 1;
                let node = &mut self.nodes[usize::from(node)];
                enter(&mut node.pairs[pair as usize].waiters, flow);
            }
        }
    }

    /// Sets a timer, as connections wait for a chain. With mapping, each operation is answered or
    /// its shared queue pair dies.
    fn arm_hold(&mut self, now_ns: u64, index: u32) {
        let due_ns = now_ns.saturating_add(self.config.hold_max_ns);
        let chain = self.chains.get(index);
        if !chain.is_armed && !self.config.switches.mapping {
            chain.is_armed = true;
            self.hold_timers.push_back((due_ns, index));
        }
    }

    /// Gives up an operation that others have waited for long enough.
    fn check_hold(&mut self, now_ns: u64, index: u32, emit: Emit) {
        let hold_max_ns = self.config.hold_max_ns;
        let chain = self.chains.get(index);
        chain.is_armed = false;
        if chain.waiters.is_empty() {
            return;
        }
        if chain.pending > 0 && now_ns < chain.since_ns.saturating_add(hold_max_ns) {
            chain.is_armed = true;
            let due_ns = chain.since_ns.saturating_add(hold_max_ns);
            let due_ns = due_ns.max(self.hold_timers.back().map_or(0, |(due_ns, _)| *due_ns));
            self.hold_timers.push_back((due_ns, index));
            return;
        }
        chain.give_up();
        self.counters.holds_expired += 1;
        self.wake_chain(now_ns, index, emit);
        if !self.chains.get(index).waiters.is_empty() {
            self.arm_hold(now_ns, index);
        }
    }
}

/// Adds a connection to those that wait. It may be there from before it failed and was opened
/// again.
fn enter(waiters: &mut VecDeque<u32>, flow: u32) {
    if !waiters.contains(&flow) {
        waiters.push_back(flow);
    }
}
