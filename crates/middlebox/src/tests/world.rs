//! Clients, a middlebox and memory nodes in virtual time, with a network that loses, repeats,
//! reorders and damages frames. All chance comes from one seed.
//!
//! Clients are those of Clover, small: they append to chains, conditionally or not, and read the
//! last node. At the end, the chains in memory are compared with what clients were told.

pub(crate) mod client;
pub(crate) mod history;
pub(crate) mod memory_node;
pub(crate) mod network;

use chain::{Kind, Link, Node};
use roce::connect::{self, Message};
use roce::wire::{Addresses, Datagram, Ethernet, Ip, Ipv4};

use crate::{Config, Faults, Middlebox, Side};
use client::Client;
use history::History;
use memory_node::MemoryNode;
use network::{Hop, Network, NetworkFaults, Random};

/// Length of a slot for a node, in bytes.
pub(crate) const SLOT_LEN: u64 = 128;
/// Slots of each client at each memory node.
pub(crate) const CLIENT_SLOTS: u64 = 256;
/// Address of the first byte.
pub(crate) const START: u64 = 0x1_0000;
/// Length of a node's memory.
pub(crate) const MEMORY_LEN: u64 = 1 << 20;
/// Keys of the memory: see [`crate::Keys`].
pub(crate) const STEERABLE: u32 = 0x5354;
pub(crate) const EXACT: u32 = 0x4558;

/// What happens in a run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) config: Config,
    pub(crate) clients: usize,
    pub(crate) nodes: usize,
    pub(crate) chains: u64,
    /// Operations of each client.
    pub(crate) operations: usize,
    /// How many of them a client has at once.
    pub(crate) depth: usize,
    /// Percentages of READs, and of conditional ones among appends.
    pub(crate) reads: u64,
    pub(crate) exact: u64,
    pub(crate) network: NetworkFaults,
    /// How often a client sends again without progress before its connection fails.
    pub(crate) losses_max: u32,
    /// Clients that stop for ever while they have operations on their way.
    pub(crate) dying: usize,
    /// When the middlebox loses everything.
    pub(crate) restart_ns: Option<u64>,
}

/// What a run amounted to.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) acknowledged: usize,
    pub(crate) reads: usize,
}

/// The limit of virtual time: then something does not end.
const LIMIT_NS: u64 = 1_000_000_000;

pub(crate) struct World {
    pub(crate) now_ns: u64,
    pub(crate) middlebox: Middlebox,
    pub(crate) nodes: Vec<MemoryNode>,
    pub(crate) clients: Vec<Client>,
    pub(crate) network: Network,
    pub(crate) history: History,
}

/// Addresses from a client to a memory node.
pub(crate) fn addresses(client: u8, node: u8) -> Addresses {
    Addresses {
        ethernet: Ethernet {
            source: [2, 0, 0, 0, 1, client],
            target: [2, 0, 0, 0, 2, node],
        },
        ip: Ip::V4(Ipv4::between([10, 0, 1, client], [10, 0, 2, node])),
        udp_source: 0xd000 + u16::from(client),
    }
}

/// A message of connection set-up, as a frame.
pub(crate) fn setup_frame(addresses: &Addresses, message: &Message) -> Vec<u8> {
    let mut frame = Vec::new();
    let datagram = Datagram {
        addresses: *addresses,
        qpn: connect::QPN,
        source_qpn: connect::QPN,
        queue_key: connect::QUEUE_KEY,
        payload: &message.emit(),
    };
    datagram.emit(&mut frame).unwrap();
    frame
}

/// The first node of a chain, which is there from the beginning.
pub(crate) fn head(chain: u64) -> Link {
    Link::new(START + chain * SLOT_LEN, 1 + chain as u32 % 3).unwrap()
}

/// The bytes of a node.
pub(crate) fn node_bytes(own: Link, chain: u64, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let node = Node {
        next: own.empty(),
        own,
        chain,
        kind: Kind::Value,
        client_flags: 0,
        expiry_s: 0,
        key: b"key",
        value: &value.to_le_bytes(),
    };
    assert!(node.emit(&mut bytes));
    bytes
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut random = Random(scenario.seed);
        let mut nodes: Vec<MemoryNode> = (0..scenario.nodes)
            .map(|number| MemoryNode::new(number as u8))
            .collect();
        for chain in 1..=scenario.chains {
            let bytes = node_bytes(head(chain), chain, 0);
            let node = &mut nodes[(chain % scenario.nodes as u64) as usize];
            node.write(head(chain).address(), &bytes);
        }
        let clients = (0..scenario.clients)
            .map(|number| Client::new(number as u8, scenario, random.next()))
            .collect();
        Self {
            now_ns: 1,
            middlebox: Middlebox::new(scenario.config.clone()).unwrap(),
            nodes,
            clients,
            network: Network::new(random.next(), scenario.network),
            history: History::default(),
        }
    }

    /// Runs to the end, and checks what came out.
    pub(crate) fn run(scenario: &Scenario) -> Result<Summary, String> {
        Self::new(scenario).finish(scenario)
    }

    /// Runs to the end, and checks what came out.
    pub(crate) fn finish(&mut self, scenario: &Scenario) -> Result<Summary, String> {
        let world = self;
        let mut restart_ns = scenario.restart_ns;
        let mut deaths = scenario.dying;
        loop {
            world.transmit();
            let is_over = world.clients.iter().all(Client::is_done);
            if is_over {
                break;
            }
            let Some(next_ns) = world.next_ns() else {
                return Err("operations are pending but nothing is due".to_owned());
            };
            world.now_ns = world.now_ns.max(next_ns);
            if world.now_ns > LIMIT_NS {
                let (sizes, counters) = (world.middlebox.sizes(), world.middlebox.counters());
                return Err(format!("it does not end: {sizes:?} {counters:?}"));
            }
            if restart_ns.is_some_and(|at_ns| at_ns <= world.now_ns) {
                restart_ns = None;
                world.restart(scenario);
            }
            if deaths > 0 && world.history.acknowledged() > 8 * deaths {
                deaths -= 1;
                let victim = &mut world.clients[deaths];
                victim.is_dead = true;
            }
            world.deliver();
        }
        world.drain(scenario)?;
        world.history.check(&world.nodes, scenario)?;
        Ok(world.summary())
    }

    fn next_ns(&mut self) -> Option<u64> {
        let clients = self.clients.iter().filter_map(Client::deadline_ns);
        clients
            .chain(self.network.next_ns())
            .chain(self.middlebox.deadline_ns())
            .min()
    }

    fn transmit(&mut self) {
        let (now_ns, network) = (self.now_ns, &mut self.network);
        for client in &mut self.clients {
            client.advance(now_ns, &mut self.history, &mut |frame| {
                network.push(now_ns, Hop::FromClient, frame);
            });
        }
    }

    fn through(network: &mut Network, now_ns: u64) -> impl FnMut(Side, &[u8]) {
        move |side, frame| {
            let hop = match side {
                Side::Client => Hop::ToClient,
                Side::Memory => Hop::ToMemory,
            };
            network.push(now_ns, hop, frame);
        }
    }

    /// Delivers the frames that are due: a burst for each memory node.
    fn deliver(&mut self) {
        let now_ns = self.now_ns;
        while let Some((hop, mut frame)) = self.network.take(now_ns) {
            let network = &mut self.network;
            match hop {
                Hop::FromClient => {
                    let mut emit = Self::through(network, now_ns);
                    self.middlebox
                        .process(now_ns, Side::Client, &mut frame, &mut emit);
                }
                Hop::FromMemory => {
                    let mut emit = Self::through(network, now_ns);
                    self.middlebox
                        .process(now_ns, Side::Memory, &mut frame, &mut emit);
                }
                Hop::ToMemory => {
                    for node in &mut self.nodes {
                        node.handle(&frame, &mut |frame| {
                            network.push(now_ns, Hop::FromMemory, frame);
                        });
                    }
                }
                Hop::ToClient => {
                    for client in &mut self.clients {
                        client.handle(now_ns, &frame);
                    }
                }
            }
            if self.network.frames.random.below(4) == 0 {
                self.acknowledge();
            }
        }
        self.acknowledge();
        let mut emit = Self::through(&mut self.network, now_ns);
        self.middlebox.tick(now_ns, &mut emit);
    }

    fn acknowledge(&mut self) {
        let (now_ns, network) = (self.now_ns, &mut self.network);
        for node in &mut self.nodes {
            node.acknowledge(&mut |frame| network.push(now_ns, Hop::FromMemory, frame));
        }
    }

    fn restart(&mut self, scenario: &Scenario) {
        let mut config = scenario.config.clone();
        config.instance += 1000;
        self.middlebox = Middlebox::new(config).unwrap();
    }

    /// Lets everything take effect that is still on its way.
    fn drain(&mut self, scenario: &Scenario) -> Result<(), String> {
        let until_ns = self.now_ns + 200_000_000;
        while let Some(next_ns) = self.next_ns()
            && next_ns < until_ns
        {
            self.now_ns = self.now_ns.max(next_ns);
            self.deliver();
        }
        let sizes = self.middlebox.sizes();
        if scenario.dying == 0 && scenario.restart_ns.is_none() && sizes.frames > 0 {
            return Err(format!("copies remain: {sizes:?}"));
        }
        Ok(())
    }

    fn summary(&self) -> Summary {
        Summary {
            acknowledged: self.history.acknowledged(),
            reads: self.history.reads(),
        }
    }
}

/// A scenario that has some of everything.
pub(crate) fn scenario(seed: u64, mut config: Config, faults: Faults) -> Scenario {
    let mut random = Random(!seed);
    config.faults = faults;
    config.memory = START..START + MEMORY_LEN;
    config.shared = 1 + random.below(4) as usize;
    config.resend_ns = 150_000;
    config.hold_max_ns = 5_000_000;
    Scenario {
        seed,
        config,
        clients: 2 + random.below(4) as usize,
        nodes: 1,
        chains: 1 + random.below(3),
        operations: 24,
        depth: 1 + random.below(3) as usize,
        reads: [0, 30, 60][random.below(3) as usize],
        exact: [0, 20, 50][random.below(3) as usize],
        network: network::any_faults(&mut random),
        losses_max: 12,
        dying: 0,
        restart_ns: None,
    }
}
