//! A pool in virtual time, on a network whose faults come from a seed.

use std::collections::BTreeMap;

use roce::endpoint::ByteMemory;

use crate::layout::{self, START};
use crate::{
    Client, ClientConfig, Completion, MemoryNode, Metadata, MetadataConfig, Operation, Station,
};
pub(crate) use roce::testing::{Faults, Random};
use roce::testing::{Network, Path};

const PATH: Path = Path {
    delay_ns: 10_000,
    held_ns: 500_000,
    // The addresses: with damaged ones, the frame would be lost, which is another fault.
    intact_len: 42,
};
/// No test takes longer than this, in virtual time.
const LIMIT_NS: u64 = 1_000_000_000_000;

pub(crate) const NODE: Station = Station::of_ip([10, 0, 0, 1], 0xc000);
/// The last byte of the address of the first metadata service. Clients are from 10 on.
const FIRST_SERVICE: u8 = 2;

/// The metadata service with this last byte of its address.
fn service_at(number: u8) -> Station {
    Station::of_ip([10, 0, 0, number], 0xc000)
}

/// Everything.
pub(crate) struct World {
    pub(crate) now_ns: u64,
    /// All frames go to the host that their addresses name.
    network: Network<()>,
    pub(crate) memory: ByteMemory,
    node: MemoryNode,
    metadata: Metadata,
    /// The last byte of its address.
    service: u8,
    /// The service before, which has not ended.
    pub(crate) former: Option<Metadata>,
    pub(crate) clients: BTreeMap<u8, Client>,
    /// Client and completion, in the order in which they arrived.
    pub(crate) completed: Vec<(u8, Completion)>,
    /// Seeds of parts that start.
    seeds: Random,
    /// Changes the settings of each metadata service that starts.
    configure: fn(MetadataConfig) -> MetadataConfig,
    /// A part that receives nothing and sends nothing, by the last byte of its address.
    pub(crate) paused: Option<u8>,
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults, memory_len: usize, slab_len: u32) -> Self {
        let mut seeds = Random(seed);
        let mut memory = ByteMemory {
            start: START,
            bytes: vec![0; memory_len],
        };
        layout::format(&mut memory, memory_len as u64, slab_len).expect("space for slabs");
        Self {
            now_ns: 0,
            network: Network::new(Random(seeds.next()), faults, PATH),
            memory,
            node: MemoryNode::new(NODE, memory_len as u64, seeds.next()),
            metadata: Metadata::new(MetadataConfig::new(
                service_at(FIRST_SERVICE),
                NODE,
                seeds.next(),
            )),
            service: FIRST_SERVICE,
            former: None,
            clients: BTreeMap::new(),
            completed: Vec::new(),
            seeds,
            configure: |config| config,
            paused: None,
        }
    }

    /// The settings of a client with this number.
    pub(crate) fn config(&mut self, number: u8) -> ClientConfig {
        let me = Station::of_ip([10, 0, 0, number], 0xc000);
        ClientConfig::new(me, service_at(self.service), self.seeds.next())
    }

    /// Starts a client, or another one in the place of a client that crashed.
    pub(crate) fn start_client(&mut self, number: u8) {
        let config = self.config(number);
        self.clients.insert(number, Client::new(config));
    }

    /// The memory node loses everything but its memory.
    pub(crate) fn restart_node(&mut self) {
        let len = self.memory.bytes.len() as u64;
        self.node = MemoryNode::new(NODE, len, self.seeds.next());
    }

    /// The memory node loses its memory too, as one without a file does.
    pub(crate) fn lose_memory(&mut self, slab_len: u32) {
        self.memory.bytes.fill(0);
        let len = self.memory.bytes.len() as u64;
        layout::format(&mut self.memory, len, slab_len).expect("space for slabs");
        self.restart_node();
    }

    /// The metadata service loses everything.
    pub(crate) fn restart_metadata(&mut self) {
        let me = service_at(self.service);
        let config = MetadataConfig::new(me, NODE, self.seeds.next());
        self.metadata = Metadata::new((self.configure)(config));
    }

    /// Starts another metadata service at another address, with other settings. The one before goes
    /// on, or is paused. Clients that start from now on use the new one.
    pub(crate) fn replace_metadata(&mut self, configure: fn(MetadataConfig) -> MetadataConfig) {
        self.configure = configure;
        self.service += 1;
        let me = service_at(self.service);
        let config = MetadataConfig::new(me, NODE, self.seeds.next());
        let metadata = Metadata::new((self.configure)(config));
        self.former = Some(std::mem::replace(&mut self.metadata, metadata));
    }

    /// The services by the last bytes of their addresses.
    fn services(&mut self) -> impl Iterator<Item = (u8, &mut Metadata)> {
        let former = self.former.as_mut().map(|it| (self.service - 1, it));
        former
            .into_iter()
            .chain([(self.service, &mut self.metadata)])
    }

    /// Starts the metadata service again with other settings.
    pub(crate) fn configure_metadata(&mut self, configure: fn(MetadataConfig) -> MetadataConfig) {
        self.configure = configure;
        self.restart_metadata();
    }

    pub(crate) fn node(&self) -> &MemoryNode {
        &self.node
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(crate) fn submit(&mut self, number: u8, id: u64, operation: Operation) {
        let client = self.clients.get_mut(&number).expect("a client");
        client
            .submit(self.now_ns, id, operation)
            .expect("space for an operation");
    }

    /// Operations that are not complete.
    pub(crate) fn pending(&self) -> usize {
        self.clients.values().map(Client::pending).sum()
    }

    /// Runs until the time, or until `is_over`.
    pub(crate) fn run_until(&mut self, end_ns: u64, is_over: impl Fn(&Self) -> bool) {
        self.transmit();
        while !is_over(self) {
            let next_ns = self.next_ns();
            if next_ns > end_ns {
                self.now_ns = self.now_ns.max(end_ns);
                return;
            }
            self.now_ns = self.now_ns.max(next_ns);
            assert!(self.now_ns < LIMIT_NS, "it does not end");
            self.deliver();
            self.transmit();
        }
    }

    /// Runs for a time.
    pub(crate) fn run_for(&mut self, duration_ns: u64) {
        self.run_until(self.now_ns + duration_ns, |_| false);
    }

    /// Runs until no operation is pending.
    pub(crate) fn finish(&mut self) {
        self.run_until(LIMIT_NS, |world| world.pending() == 0);
    }

    fn next_ns(&self) -> u64 {
        let Self {
            network,
            metadata,
            former,
            clients,
            ..
        } = self;
        let frame_ns = network.next_ns();
        let is_running = |number: u8| self.paused != Some(number);
        let former = former.as_ref().map(|it| (self.service - 1, it));
        let services = former.into_iter().chain([(self.service, metadata)]);
        let running = services.filter(|(number, _)| is_running(*number));
        let metadata_ns = running.filter_map(|(_, it)| it.deadline_ns()).min();
        let running = clients.iter().filter(|(number, _)| is_running(**number));
        let client_ns = running.filter_map(|(_, client)| client.deadline_ns()).min();
        let times = [frame_ns, metadata_ns, client_ns];
        times.into_iter().flatten().min().expect("something is due")
    }

    /// Delivers a burst of frames that are due.
    fn deliver(&mut self) {
        let burst = 1 + self.network.random.below(4);
        for _ in 0..burst {
            let Some(((), frame)) = self.network.take(self.now_ns) else {
                break;
            };
            let (network, now_ns) = (&mut self.network, self.now_ns);
            match frame[33] {
                number if self.paused == Some(number) => {}
                1 => self
                    .node
                    .handle(now_ns, &frame, &mut self.memory, &mut |frame| {
                        network.push(now_ns, (), frame);
                    }),
                number if number <= self.service => {
                    if let Some((_, metadata)) = self.services().find(|(it, _)| *it == number) {
                        metadata.handle(now_ns, &frame);
                    }
                }
                number => {
                    if let Some(client) = self.clients.get_mut(&number) {
                        client.handle(now_ns, &frame);
                    }
                }
            }
        }
        let (network, now_ns) = (&mut self.network, self.now_ns);
        self.node
            .acknowledge(&mut |frame| network.push(now_ns, (), frame));
    }

    fn transmit(&mut self) {
        let now_ns = self.now_ns;
        let mut frames = Vec::new();
        let paused = self.paused;
        for (number, metadata) in self.services() {
            if paused != Some(number) {
                metadata.transmit(now_ns, &mut |frame| frames.push(frame.to_vec()));
            }
        }
        let network = &mut self.network;
        for frame in frames {
            network.push(now_ns, (), &frame);
        }
        let mut send = |frame: &[u8]| network.push(now_ns, (), frame);
        for (number, client) in &mut self.clients {
            if self.paused != Some(*number) {
                client.transmit(now_ns, &mut send);
            }
            while let Some(completion) = client.take_completion() {
                self.completed.push((*number, completion));
            }
        }
    }
}
