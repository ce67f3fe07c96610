//! Clients, a metadata service, a middlebox and a memory node on a seeded network.
//!
//! ```text
//! client ─┬─ network ─▶ middlebox ─ network ─▶ memory node
//! client ─┤    ▲             network is seeded: frames are lost, repeated,
//! metadata ────┘             damaged, overtaken; hosts pause, crash and start again
//! ```
//!
//! The hosts are the state machines of the crates `pool` and `middlebox`, and meet only by frames.
//! What a host does takes no time.
//!
//! What each client has called and was answered is a history ([`Histories`]), which
//! [`measure::check_linearizable`] judges.

mod clients;
mod events;
mod histories;
mod network;
pub mod scenario;
pub mod trial;

use chain::Link;
use middlebox::{Counters, Middlebox, Side};
pub use middlebox::{Faults, Step};
use pool::{ClientConfig, ClientCounters, MemoryNode, Metadata, MetadataConfig, Station};
use roce::endpoint::ByteMemory;

use clients::ClientHost;
pub use clients::Load;
use events::{Events, What};
pub use histories::{Histories, Verdict};
use network::Network;
pub use network::NetworkFaults;

/// A host that receives frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    Client(u16),
    Metadata,
    /// The metadata service before the present one.
    FormerMetadata,
    /// The side at which the frame arrives.
    Middlebox(MiddleboxSide),
    Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MiddleboxSide {
    Client,
    Memory,
}

/// What a world begins as.
#[derive(Debug, Clone)]
pub struct WorldConfig {
    /// Number of clients, at most 1000.
    pub clients: u16,
    /// What they do.
    pub load: Load,
    /// What the middlebox does.
    pub middlebox: middlebox::Config,
    /// Length of the memory in bytes.
    pub memory_len: u64,
    /// Length of its slabs in bytes.
    pub slab_len: u32,
    /// How often clients renew their leases at least, and receive the links of free slots, in
    /// nanoseconds.
    pub heartbeat_ns: u64,
    /// How long links are collected before an anchor moves on, in nanoseconds.
    pub advance_ns: u64,
    /// How long the metadata service waits until it looks again which keys have no value, in
    /// nanoseconds; 0: it does so as it would in use, when memory is short.
    pub sweep_ns: u64,
    /// How long the memory node collects acknowledgements, in nanoseconds; 0: each request that
    /// needs one has its own.
    pub acknowledge_ns: u64,
    /// What the network does.
    pub faults: NetworkFaults,
    /// Time from one host to the next, in nanoseconds.
    pub hop_ns: u64,
    /// Where all chance comes from.
    pub seed: u64,
}

/// A world.
pub struct World {
    config: WorldConfig,
    now_ns: u64,
    network: Network,
    events: Events,
    clients: Vec<ClientHost>,
    metadata: Option<Metadata>,
    former_metadata: Option<Metadata>,
    /// The last byte of the address of the present metadata service.
    service: u8,
    middlebox: Option<Middlebox>,
    node: Option<MemoryNode>,
    memory: ByteMemory,
    histories: Histories,
    /// Times that something has started, for seeds and instances that differ.
    starts: u64,
}

/// The last byte of the address of the first metadata service; later ones have the next.
const FIRST_SERVICE: u8 = 1;
/// Unix time at the beginning, in nanoseconds: some values have expired by then.
const UNIX_START_NS: u64 = 1_000_000_000_000;
const NODE: Station = Station::of_ip([10, 2, 0, 1], 50_001);

/// The metadata service with this last byte of its address.
const fn service_at(last: u8) -> Station {
    Station::of_ip([10, 1, 0, last], 50_000)
}

impl World {
    /// A world in which nothing has happened yet.
    ///
    /// # Errors
    /// The middlebox refuses its configuration, or the memory is too small.
    pub fn new(mut config: WorldConfig) -> Result<Self, String> {
        let mut memory = ByteMemory {
            start: pool::layout::START,
            bytes: vec![0; config.memory_len as usize],
        };
        pool::layout::format(&mut memory, config.memory_len, config.slab_len)
            .ok_or("the memory is too small")?;
        config.middlebox.memory = memory.start..memory.start + config.memory_len;
        let middlebox = Middlebox::new(config.middlebox.clone());
        let middlebox = middlebox.map_err(|error| error.to_string())?;
        let mut world = Self {
            now_ns: 0,
            network: Network::new(config.faults, config.hop_ns, config.seed),
            events: Events::default(),
            clients: Vec::new(),
            metadata: None,
            former_metadata: None,
            service: FIRST_SERVICE,
            middlebox: Some(middlebox),
            node: None,
            memory,
            histories: Histories::new(config.load.keys),
            starts: 0,
            config,
        };
        world.start(Host::Node);
        world.start(Host::Metadata);
        for index in 0..world.config.clients {
            world.start(Host::Client(index));
        }
        Ok(world)
    }

    /// The time since the beginning, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What the clients have called, and what was answered.
    #[must_use]
    pub fn histories(&self) -> &Histories {
        &self.histories
    }

    /// Gives all clients another load, which they begin now.
    pub fn set_load(&mut self, load: Load) {
        self.config.load = load;
        for index in 0..self.config.clients {
            self.clients[usize::from(index)].set_load(&load);
            self.poll(Host::Client(index));
        }
    }

    /// Lets the clients store each key once, together, and then read each key once, each. Whether
    /// all have ended.
    pub(crate) fn prepare(&mut self, until_ns: u64, events_max: usize) -> bool {
        let keys = self.config.load.keys;
        let count = usize::from(self.config.clients);
        for is_stored in [true, false] {
            for index in 0..self.config.clients {
                let share = if is_stored { count } else { 1 };
                let first = if is_stored { index.into() } else { 0 };
                let of_client = (first..keys).step_by(share);
                self.clients[usize::from(index)].prepare(of_client, is_stored);
                self.poll(Host::Client(index));
            }
            if !self.run(until_ns, events_max) {
                return false;
            }
        }
        true
    }

    /// From now on, a client that loses its connection to the memory node stops for good, instead
    /// of connecting again.
    pub(crate) fn stop_lost_clients(&mut self) {
        for host in &mut self.clients {
            host.reconnects_max = Some(host.client.counters().reconnects);
        }
    }

    pub(crate) fn clients(&self) -> &[ClientHost] {
        &self.clients
    }

    pub(crate) fn middlebox_counters(&self) -> Counters {
        let counters = self.middlebox.as_ref().map(Middlebox::counters);
        counters.unwrap_or_default()
    }

    /// What the clients have counted, together.
    #[must_use]
    pub fn client_counters(&self) -> ClientCounters {
        let counters = self.clients.iter().map(|host| host.client.counters());
        counters.fold(ClientCounters::default(), |sum, other| sum.plus(&other))
    }

    /// How often a slot in memory has been used again, over all slots.
    #[must_use]
    pub fn slots_reused(&self) -> u64 {
        let words = self.memory.bytes.as_chunks::<8>().0;
        let reused = |index: usize| {
            // The second word of a node is its own link.
            let own = Link::from_word(u64::from_le_bytes(*words.get(index + 1)?))?;
            let is_node = own.address() == self.memory.start + 8 * index as u64;
            is_node.then(|| u64::from(own.generation()) - 1)
        };
        (0..words.len()).filter_map(reused).sum()
    }

    /// Chains that ended because their keys had no value, since the metadata service has started.
    #[must_use]
    pub fn chains_closed(&self) -> u64 {
        let metadata = self.metadata.as_ref();
        metadata.map_or(0, |metadata| metadata.counters().closed)
    }

    /// Whether a metadata service that was replaced has found out.
    #[must_use]
    pub fn has_ended_former(&self) -> bool {
        let former = self.former_metadata.as_ref();
        former.is_some_and(|metadata| metadata.error().is_some())
    }

    /// Changes what the network does from now on.
    pub fn set_faults(&mut self, faults: NetworkFaults) {
        self.network.faults = faults;
    }

    /// Runs until `until_ns`, or until all clients are done, or `events_max` events have happened.
    /// Whether all clients are done.
    pub fn run(&mut self, until_ns: u64, events_max: usize) -> bool {
        let is_over = |clients: &[ClientHost]| clients.iter().all(ClientHost::is_done);
        self.run_until(until_ns, events_max, is_over)
    }

    /// The same, with another end.
    pub(crate) fn run_until(
        &mut self,
        until_ns: u64,
        events_max: usize,
        is_over: impl Fn(&[ClientHost]) -> bool,
    ) -> bool {
        for _ in 0..events_max {
            if is_over(&self.clients) {
                return true;
            }
            match self.events.pop_until(until_ns) {
                Some((at_ns, what)) => {
                    self.now_ns = at_ns;
                    self.happen(what);
                }
                None => {
                    self.now_ns = until_ns;
                    return is_over(&self.clients);
                }
            }
        }
        false
    }

    /// Lets a new client read all keys, on the network as it is now. Whether all were answered.
    pub(crate) fn read_all(&mut self) -> bool {
        let index = self.clients.len() as u16;
        self.config.clients = index + 1;
        self.config.load.operations = 0;
        self.start(Host::Client(index));
        let keys = self.config.load.keys;
        let now_ns = self.now_ns;
        self.clients[usize::from(index)].read_all(now_ns, keys, &mut self.histories);
        self.poll(Host::Client(index));
        self.run(
            now_ns + crate::limits::SCENARIO_LEN_NS,
            crate::limits::SCENARIO_EVENTS_MAX,
        ) && self.clients[usize::from(index)].failed == 0
    }

    fn happen(&mut self, what: What) {
        let host = what.host();
        // A host that pauses receives what has arrived when it continues.
        let paused_ns = self.events.paused_until_ns(host);
        if paused_ns > self.now_ns
            && !matches!(what, What::Stop(_) | What::Start(_) | What::TakeOver(_))
        {
            self.events.push(paused_ns, what);
            return;
        }
        match what {
            What::Arrive(host, frame) => self.deliver(host, frame),
            What::Wake(host) => {
                if self.events.take_wake(host, self.now_ns) {
                    self.poll(host);
                }
            }
            What::Stop(host) => self.stop(host),
            What::Start(host) => self.start(host),
            What::TakeOver(until_ns) => self.take_over(until_ns),
        }
    }

    /// Lets a host do nothing for a time.
    pub(crate) fn pause(&mut self, at_ns: u64, host: Host, for_ns: u64) {
        self.events.pause(host, at_ns + for_ns);
    }

    /// Lets a host lose all that is not in the memory of the node, and start again later.
    pub(crate) fn crash(&mut self, at_ns: u64, host: Host, down_ns: u64) {
        self.events.push(at_ns, What::Stop(host));
        self.events.push(at_ns + down_ns, What::Start(host));
    }

    /// Lets another metadata service take over, and the one before go on later.
    pub(crate) fn replace_metadata(&mut self, at_ns: u64, until_ns: u64) {
        self.events.push(at_ns, What::TakeOver(until_ns));
    }

    fn take_over(&mut self, until_ns: u64) {
        // One that has not read the memory yet would be the later one when it goes on.
        let Some(former) = self.metadata.take_if(|metadata| metadata.is_ready()) else {
            return;
        };
        self.former_metadata = Some(former);
        self.events.pause(Host::FormerMetadata, until_ns);
        self.events.wake(Host::FormerMetadata, until_ns);
        self.service += 1;
        // It does not look at each chain, and so does not find those that the other one closes.
        self.config.sweep_ns = 0;
        self.start(Host::Metadata);
        for index in 0..self.config.clients {
            self.stop(Host::Client(index));
            self.start(Host::Client(index));
        }
    }

    fn stop(&mut self, host: Host) {
        match host {
            Host::Client(index) => {
                let client = &mut self.clients[usize::from(index)];
                client.is_down = true;
                self.histories.abandon(client.name);
            }
            Host::Metadata => self.metadata = None,
            Host::FormerMetadata => self.former_metadata = None,
            Host::Middlebox(_) => self.middlebox = None,
            Host::Node => self.node = None,
        }
    }

    fn start(&mut self, host: Host) {
        self.starts += 1;
        let seed = self
            .config
            .seed
            .wrapping_mul(1000)
            .wrapping_add(self.starts);
        match host {
            Host::Client(index) => self.start_client(index, seed),
            Host::Metadata => {
                let me = service_at(self.service);
                let mut config = MetadataConfig::new(me, NODE, seed);
                config.unix_start_ns = UNIX_START_NS;
                config.advance_ns = self.config.advance_ns;
                if self.config.sweep_ns > 0 {
                    config.sweep_ns = self.config.sweep_ns;
                    config.sweep_below_percent = 100;
                }
                self.metadata = Some(Metadata::new(config));
            }
            // It only goes on.
            Host::FormerMetadata => {}
            Host::Middlebox(_) => {
                let mut config = self.config.middlebox.clone();
                config.instance += 1000 * self.starts as u32;
                // The configuration was accepted before.
                self.middlebox = Middlebox::new(config).ok();
            }
            Host::Node => self.node = Some(MemoryNode::new(NODE, self.config.memory_len, seed)),
        }
        self.poll(host);
    }

    fn start_client(&mut self, index: u16, seed: u64) {
        let [high, low] = index.to_be_bytes();
        let me = Station::of_ip([10, 0, high, low + 1], 40_000 + index);
        let mut config = ClientConfig::new(me, service_at(self.service), seed);
        config.unix_start_ns = UNIX_START_NS;
        config.outstanding_max = self.config.load.outstanding;
        config.heartbeat_ns = self.config.heartbeat_ns;
        config.is_steered = self.config.middlebox.switches.write_steering;
        let client = ClientHost::new(config, self.starts as u32, &self.config.load, seed);
        match self.clients.get_mut(usize::from(index)) {
            // It continues where the one before has stopped.
            Some(old) => {
                let left = old.left;
                *old = client;
                old.left = left;
            }
            None => self.clients.push(client),
        }
    }

    /// A host takes a frame.
    fn deliver(&mut self, host: Host, mut frame: Vec<u8>) {
        let now_ns = self.now_ns;
        let mut out = Vec::new();
        match host {
            Host::Client(index) => {
                let host = &mut self.clients[usize::from(index)];
                if !host.is_down {
                    host.client.handle(now_ns, &frame);
                }
            }
            Host::Metadata | Host::FormerMetadata => {
                if let Some(metadata) = self.metadata_at(host) {
                    metadata.handle(now_ns, &frame);
                }
            }
            Host::Middlebox(side) => {
                if let Some(middlebox) = &mut self.middlebox {
                    let side = match side {
                        MiddleboxSide::Client => Side::Client,
                        MiddleboxSide::Memory => Side::Memory,
                    };
                    middlebox.process(now_ns, side, &mut frame, &mut |to, frame| {
                        out.push((to, frame.to_vec()));
                    });
                }
            }
            Host::Node => {
                if let Some(node) = &mut self.node {
                    node.handle(now_ns, &frame, &mut self.memory, &mut |frame| {
                        out.push((Side::Client, frame.to_vec()));
                    });
                }
            }
        }
        self.emit(host, out);
        match (host, self.config.acknowledge_ns) {
            (Host::Node, wait_ns) if wait_ns > 0 => self.events.wake(host, now_ns + wait_ns),
            _ => self.poll(host),
        }
    }

    /// The metadata service that is this host, if it runs.
    fn metadata_at(&mut self, host: Host) -> Option<&mut Metadata> {
        match host {
            Host::FormerMetadata => self.former_metadata.as_mut(),
            _ => self.metadata.as_mut(),
        }
    }

    /// A host does what is due.
    fn poll(&mut self, host: Host) {
        let now_ns = self.now_ns;
        let mut out = Vec::new();
        let mut send = |frame: &[u8]| out.push((Side::Client, frame.to_vec()));
        let deadline_ns = match host {
            Host::Client(index) => {
                let host = &mut self.clients[usize::from(index)];
                host.poll(now_ns, &mut self.histories, &mut send);
                host.client.deadline_ns().filter(|_| !host.is_down)
            }
            Host::Metadata | Host::FormerMetadata => self.metadata_at(host).and_then(|metadata| {
                metadata.transmit(now_ns, &mut send);
                metadata.deadline_ns()
            }),
            Host::Middlebox(_) => self.middlebox.as_mut().and_then(|middlebox| {
                middlebox.tick(now_ns, &mut |to, frame| out.push((to, frame.to_vec())));
                middlebox.deadline_ns()
            }),
            Host::Node => {
                if let Some(node) = &mut self.node {
                    node.acknowledge(&mut send);
                }
                None
            }
        };
        self.emit(host, out);
        if let Some(deadline_ns) = deadline_ns {
            self.events.wake(host, deadline_ns.max(now_ns + 1000));
        }
    }

    /// Gives frames to the network. The side counts only for the middlebox.
    fn emit(&mut self, from: Host, frames: Vec<(Side, Vec<u8>)>) {
        for (side, frame) in frames {
            let to = match from {
                Host::Middlebox(_) if side == Side::Memory => Some(Host::Node),
                Host::Node => Some(Host::Middlebox(MiddleboxSide::Memory)),
                _ => self.addressee(&frame),
            };
            if let Some(to) = to {
                self.network.send(self.now_ns, to, frame, &mut self.events);
            }
        }
    }

    /// The host that has the frame's IPv4 address, or the way there.
    fn addressee(&self, frame: &[u8]) -> Option<Host> {
        /// Where the address is: after the Ethernet header and 16 bytes.
        const ADDRESS: std::ops::Range<usize> = 30..34;
        match *frame.get(ADDRESS)? {
            [10, 2, 0, 1] => Some(Host::Middlebox(MiddleboxSide::Client)),
            [10, 1, 0, last] if last == self.service => Some(Host::Metadata),
            [10, 1, 0, _] => Some(Host::FormerMetadata),
            [10, 0, high, low] => {
                let index = u16::from_be_bytes([high, low.wrapping_sub(1)]);
                (index < self.config.clients).then_some(Host::Client(index))
            }
            _ => None,
        }
    }
}
