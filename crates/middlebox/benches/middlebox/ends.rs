//! Clients and a memory node without a network between them: frames go from one to the next in
//! batches.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chain::{Kind, Link, Next, Node, Prefix};
use middlebox::{Config, Counters, Middlebox, Side};
use roce::connect::{self, Attempt, Message, QueuePair};
use roce::endpoint::{
    ByteMemory, Connection, Memory, Mtu, Outcome, Region, Request, Requester, Responder, Retries,
};
use roce::wire::{Addresses, AtomicEth, Datagram, Ethernet, Ip, Ipv4, Packet, Psn, Repr};

const VALUE_LEN: usize = 1024;
const KEY_LEN: usize = 16;
const NODE_LEN: usize = 48 + KEY_LEN + VALUE_LEN;
const SLOT_LEN: u64 = NODE_LEN.next_multiple_of(64) as u64;
const START: u64 = 0x10_0000;
/// Slots for nodes; the run ends before they do.
const SLOTS: u64 = 200_000;
const STEERABLE: u32 = 0x5354;
const ZIPF: f64 = 0.75;

pub(crate) struct World {
    middlebox: Middlebox,
    memory: ByteMemory,
    responders: HashMap<u32, Responder>,
    clients: Vec<Client>,
    /// Frames on their way to the middlebox, and those that have left it.
    arriving: Frames,
    leaving: Frames,
    spent: Duration,
    frames: u64,
    slots_used: u64,
    now_ns: u64,
    popularity: Vec<f64>,
    chains: Vec<u64>,
    random: u64,
}

/// Frames in buffers that are used again.
#[derive(Default)]
struct Frames {
    frames: Vec<(Side, Vec<u8>)>,
    used: usize,
}

impl Frames {
    fn push(&mut self, side: Side, frame: &[u8]) {
        if self.used == self.frames.len() {
            self.frames.push((side, Vec::with_capacity(2048)));
        }
        let (to, buffer) = &mut self.frames[self.used];
        *to = side;
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.used += 1;
    }
}

enum Stage {
    Idle,
    Write,
    Swap(Link),
    /// Reading; an append continues with the last node.
    Walk {
        is_append: bool,
    },
}

struct Client {
    requester: Requester,
    qpn: u32,
    ip: [u8; 4],
    stage: Stage,
    chain: u64,
    new: Link,
    tails: HashMap<u64, Link>,
}

fn addresses(client: usize) -> Addresses {
    Addresses {
        ethernet: Ethernet {
            source: [2, 0, 0, 0, 1, client as u8],
            target: [2, 0, 0, 0, 2, 0],
        },
        ip: Ip::V4(Ipv4::between([10, 0, 1, client as u8], [10, 0, 2, 1])),
        udp_source: 0xd000 + client as u16,
    }
}

fn slot(number: u64) -> Link {
    Link::new(START + number * SLOT_LEN, 1).unwrap()
}

fn node_bytes(own: Link, chain: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let node = Node {
        next: own.empty(),
        own,
        chain,
        kind: Kind::Value,
        client_flags: 0,
        expiry_s: 0,
        key: &[b'k'; KEY_LEN],
        value: &[7; VALUE_LEN],
    };
    assert!(node.emit(&mut bytes));
    bytes
}

impl World {
    pub(crate) fn new(mut config: Config, chains: Vec<u64>, queue_pairs: usize, seed: u64) -> Self {
        config.memory = START..START + SLOTS * SLOT_LEN;
        // Time in this world is that of batches.
        config.resend_ns = u64::MAX / 4;
        config.hold_max_ns = u64::MAX / 4;
        let weights: Vec<f64> = (1..=chains.len())
            .map(|rank| (rank as f64).powf(-ZIPF))
            .collect();
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let popularity = weights
            .iter()
            .map(|weight| {
                sum += weight / total;
                sum
            })
            .collect();
        let mut world = Self {
            middlebox: Middlebox::new(config).unwrap(),
            memory: ByteMemory {
                start: START,
                bytes: vec![0; (SLOTS * SLOT_LEN) as usize],
            },
            responders: HashMap::new(),
            clients: Vec::new(),
            arriving: Frames::default(),
            leaving: Frames::default(),
            spent: Duration::ZERO,
            frames: 0,
            slots_used: 0,
            now_ns: 1,
            popularity,
            chains,
            random: seed.wrapping_mul(2) | 1,
        };
        for index in 0..world.chains.len() {
            let own = slot(world.slots_used);
            world.slots_used += 1;
            let bytes = node_bytes(own, world.chains[index]);
            world.memory.write(own.address(), &bytes);
        }
        for number in 0..queue_pairs {
            world.connect(number);
        }
        world
    }

    pub(crate) fn counters(&self) -> Counters {
        self.middlebox.counters()
    }

    fn connect(&mut self, number: usize) {
        let local = QueuePair {
            qpn: 0x10 + number as u32,
            first_psn: Psn::new(number as u32 * 1000),
            mtu: Mtu::Bytes4096,
        };
        let attempt = Attempt {
            client: number as u64,
            index: 0,
            attempt: 1,
        };
        let datagram = Datagram {
            addresses: addresses(number),
            qpn: connect::QPN,
            source_qpn: connect::QPN,
            queue_key: connect::QUEUE_KEY,
            payload: &Message::Connect(attempt, local).emit(),
        };
        let mut frame = Vec::new();
        datagram.emit(&mut frame).unwrap();
        let mut sent = Vec::new();
        let mut emit = |_: Side, frame: &[u8]| sent.push(frame.to_vec());
        self.middlebox
            .process(1, Side::Client, &mut frame, &mut emit);
        for request in sent {
            let request = Datagram::parse(&request).unwrap();
            let Some(Message::Connect(attempt, peer)) = Message::parse(request.payload) else {
                continue;
            };
            let qpn = 0x1000 + self.responders.len() as u32;
            self.responders
                .insert(qpn, responder(&request.addresses, qpn, &peer));
            let mut frame = Vec::new();
            let server = QueuePair { qpn, ..peer };
            let accept = Datagram {
                addresses: request.addresses.reversed(),
                payload: &Message::Accept(attempt, server).emit(),
                ..request
            };
            accept.emit(&mut frame).unwrap();
            self.middlebox
                .process(1, Side::Memory, &mut frame, &mut |_, _| {});
            if attempt.client == number as u64 {
                self.clients.push(client(number, &local, qpn));
            }
        }
    }

    /// Lets every chain be used for a while.
    pub(crate) fn warm_up(&mut self) {
        for _ in 0..200 {
            self.turn();
        }
        self.spent = Duration::ZERO;
        self.frames = 0;
    }

    /// Frames that the middlebox took, and the time that it spent with them.
    pub(crate) fn run(&mut self, limit: Duration) -> (u64, Duration) {
        while self.spent < limit && self.slots_used + 1000 < SLOTS {
            self.turn();
        }
        (self.frames, self.spent)
    }

    /// Clients send, the middlebox works, the memory node answers, the middlebox works.
    fn turn(&mut self) {
        self.now_ns += 10_000;
        for index in 0..self.clients.len() {
            self.advance(index);
        }
        self.pass();
        for index in 0..self.leaving.used {
            let (_, frame) = &self.leaving.frames[index];
            let packet = Repr::parse(frame).unwrap();
            if let Some(responder) = self.responders.get_mut(&packet.transport.bth.qpn) {
                let arriving = &mut self.arriving;
                responder.handle(&packet.transport, &mut self.memory, &mut |frame| {
                    arriving.push(Side::Memory, frame);
                });
            }
        }
        for responder in self.responders.values_mut() {
            let arriving = &mut self.arriving;
            responder.acknowledge(&mut |frame| arriving.push(Side::Memory, frame));
        }
        self.pass();
        // What waited for an answer may go on to the memory node in the next turn.
        for index in 0..self.leaving.used {
            let (side, frame) = &self.leaving.frames[index];
            if *side == Side::Memory {
                let packet = Repr::parse(frame).unwrap();
                if let Some(responder) = self.responders.get_mut(&packet.transport.bth.qpn) {
                    let arriving = &mut self.arriving;
                    responder.handle(&packet.transport, &mut self.memory, &mut |frame| {
                        arriving.push(Side::Memory, frame);
                    });
                }
                continue;
            }
            let packet = Packet::new_checked(frame.as_slice()).unwrap();
            let client = self
                .clients
                .iter_mut()
                .find(|client| client.qpn == packet.qpn());
            let repr = Repr::parse(frame).unwrap();
            if let Some(client) = client
                && matches!(repr.addresses.ip, Ip::V4(ip) if ip.target == client.ip)
            {
                client.requester.handle(self.now_ns, &repr.transport);
            }
        }
    }

    /// Hands what arrives to the middlebox: the part that is measured.
    fn pass(&mut self) {
        self.leaving.used = 0;
        let (now_ns, leaving) = (self.now_ns, &mut self.leaving);
        let used = self.arriving.used;
        let started = Instant::now();
        for (from, frame) in &mut self.arriving.frames[..used] {
            self.middlebox
                .process(now_ns, *from, frame, &mut |side, frame| {
                    leaving.push(side, frame);
                });
        }
        self.middlebox
            .tick(now_ns, &mut |side, frame| leaving.push(side, frame));
        self.spent += started.elapsed();
        self.frames += used as u64;
        self.arriving.used = 0;
    }

    fn next_random(&mut self) -> u64 {
        // Xorshift (Marsaglia, 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn advance(&mut self, index: usize) {
        let completion = self.clients[index].requester.take_completion();
        if let Some(completion) = completion {
            let outcome = completion.result.unwrap();
            self.clients[index].complete(&outcome);
        }
        if matches!(self.clients[index].stage, Stage::Idle) {
            let share = (self.next_random() >> 11) as f64 / (1_u64 << 53) as f64;
            let rank = self.popularity.partition_point(|sum| *sum < share);
            let rank = rank.min(self.chains.len() - 1);
            let chain = self.chains[rank];
            let is_append = self.next_random() >> 63 == 0;
            let new = slot(self.slots_used);
            self.slots_used += u64::from(is_append);
            self.clients[index].begin(chain, slot(rank as u64), is_append.then_some(new));
        }
        let (now_ns, arriving) = (self.now_ns, &mut self.arriving);
        self.clients[index]
            .requester
            .transmit(now_ns, &mut |frame| arriving.push(Side::Client, frame));
    }
}

fn responder(from_client: &Addresses, qpn: u32, peer: &QueuePair) -> Responder {
    let connection = Connection {
        addresses: from_client.reversed(),
        local_qpn: qpn,
        peer_qpn: peer.qpn,
        mtu: peer.mtu,
        first_psn: peer.first_psn,
    };
    let mut responder = Responder::new(&connection, 1);
    let region = Region {
        key: STEERABLE,
        start: START,
        len: SLOTS * SLOT_LEN,
        may_read: true,
        may_write: true,
        may_change_atomically: true,
    };
    responder.regions.add(region).unwrap();
    responder
}

fn client(number: usize, local: &QueuePair, server_qpn: u32) -> Client {
    let connection = Connection {
        addresses: addresses(number),
        local_qpn: local.qpn,
        peer_qpn: server_qpn,
        mtu: local.mtu,
        first_psn: local.first_psn,
    };
    let retries = Retries {
        timeout_ns: u64::MAX / 4,
        losses_max: 1000,
        not_ready_max: 7,
    };
    Client {
        requester: Requester::new(&connection, 16, 8, retries),
        qpn: local.qpn,
        ip: [10, 0, 1, number as u8],
        stage: Stage::Idle,
        chain: 0,
        new: slot(0),
        tails: HashMap::new(),
    }
}

impl Client {
    fn post(&mut self, request: Request) {
        self.requester.post(0, request, false).unwrap();
    }

    fn begin(&mut self, chain: u64, head: Link, new: Option<Link>) {
        self.chain = chain;
        let tail = *self.tails.entry(chain).or_insert(head);
        if let Some(new) = new {
            self.new = new;
            self.stage = Stage::Write;
            self.post(Request::Write {
                address: new.address(),
                key: STEERABLE,
                bytes: node_bytes(new, chain),
                immediate: None,
            });
        } else {
            self.walk(tail, false);
        }
    }

    fn walk(&mut self, link: Link, is_append: bool) {
        self.stage = Stage::Walk { is_append };
        self.post(Request::Read {
            address: link.address(),
            key: STEERABLE,
            len: NODE_LEN as u32,
        });
    }

    fn swap(&mut self, tail: Link) {
        self.stage = Stage::Swap(tail);
        self.post(Request::CompareSwap(AtomicEth {
            address: tail.address(),
            key: STEERABLE,
            swap_or_add: self.new.word(),
            compare: tail.empty().word(),
        }));
    }

    fn complete(&mut self, outcome: &Outcome) {
        match (outcome, &self.stage) {
            (Outcome::Done, Stage::Write) => self.swap(self.tails[&self.chain]),
            (Outcome::Original(original), Stage::Swap(tail)) => {
                if *original == tail.empty().word() {
                    self.tails.insert(self.chain, self.new);
                    self.stage = Stage::Idle;
                } else {
                    self.walk(Link::from_word(*original).unwrap(), true);
                }
            }
            (Outcome::Read(bytes), Stage::Walk { is_append }) => {
                let is_append = *is_append;
                let Prefix { next, own, chain } = Prefix::parse(bytes).unwrap();
                assert_eq!(chain, self.chain, "a READ was steered to another chain");
                match next {
                    Next::Node(link) => self.walk(link, is_append),
                    _ => {
                        self.tails.insert(chain, own);
                        if is_append {
                            self.swap(own);
                        } else {
                            self.stage = Stage::Idle;
                        }
                    }
                }
            }
            _ => panic!("an outcome of another operation"),
        }
    }
}
