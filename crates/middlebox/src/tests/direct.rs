//! A middlebox to which single packets are passed, and what leaves it.

use chain::Link;
use roce::connect::{Attempt, Message, QueuePair, Reason};
use roce::endpoint::Mtu;
use roce::wire::{
    Addresses, Aeth, AtomicEth, Body, Bth, Datagram, NakCode, Psn, Repr, Reth, Syndrome, Transport,
};

use crate::tests::world::{MEMORY_LEN, START, STEERABLE, addresses, head, node_bytes, setup_frame};
use crate::{Config, Middlebox, Side, Step};

pub(crate) const CHAIN: u64 = 3;
/// First sequence number of each client.
pub(crate) const FIRST: u32 = 1000;

/// A frame that has left, and where.
pub(crate) type Sent = (Side, Vec<u8>);

pub(crate) struct Direct {
    pub(crate) middlebox: Middlebox,
    pub(crate) now_ns: u64,
    /// Everything that was passed to it, as the fuzz target has it.
    pub(crate) recorded: Vec<u8>,
}

pub(crate) fn client_qpn(client: u8) -> u32 {
    0x10 + u32::from(client)
}

pub(crate) fn server_qpn(client: u8) -> u32 {
    0x50 + u32::from(client)
}

/// The contents of a frame.
pub(crate) fn parsed(sent: &Sent) -> Repr<'_> {
    Repr::parse(&sent.1).unwrap()
}

/// Another node of the chain.
pub(crate) fn node(number: u64) -> Link {
    Link::new(START + (100 + number) * 128, 1 + number as u32).unwrap()
}

impl Direct {
    /// A middlebox with one shared queue pair and three connected clients.
    pub(crate) fn new(step: Step) -> Self {
        Self::with(Config::new(step, 1))
    }

    pub(crate) fn with(config: Config) -> Self {
        Self::with_shared(config, 1)
    }

    pub(crate) fn with_shared(mut config: Config, shared: usize) -> Self {
        config.shared = shared;
        config.memory = START..START + MEMORY_LEN;
        let mut direct = Self {
            middlebox: Middlebox::new(config).unwrap(),
            now_ns: 1000,
            recorded: Vec::new(),
        };
        for client in 0..3 {
            direct.connect(client, 1);
        }
        // The head of the chain is written, so that its address is known.
        direct.write(0, FIRST, head(CHAIN));
        direct
    }

    pub(crate) fn process(&mut self, from: Side, frame: &[u8]) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut frame = frame.to_vec();
        self.recorded.push(u8::from(from == Side::Memory) | 2);
        self.recorded
            .extend_from_slice(&(frame.len() as u16).to_be_bytes());
        self.recorded.extend_from_slice(&frame);
        self.middlebox
            .process(self.now_ns, from, &mut frame, &mut |side, frame| {
                sent.push((side, frame.to_vec()));
            });
        sent
    }

    pub(crate) fn tick(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        self.middlebox.tick(self.now_ns, &mut |side, frame| {
            sent.push((side, frame.to_vec()));
        });
        sent
    }

    /// Connects a client, and the shared queue pairs that are opened on the way.
    pub(crate) fn connect(&mut self, client: u8, attempt: u32) -> Vec<Sent> {
        let sent = self.request_connection(client, attempt);
        for frame in &sent {
            self.accept(client, frame);
        }
        sent
    }

    /// A client requests a connection.
    pub(crate) fn request_connection(&mut self, client: u8, attempt: u32) -> Vec<Sent> {
        let attempt = Attempt {
            client: client.into(),
            index: 0,
            attempt,
        };
        let local = QueuePair {
            qpn: client_qpn(client),
            first_psn: Psn::new(FIRST),
            mtu: Mtu::Bytes1024,
        };
        let request = setup_frame(&addresses(client, 0), &Message::Connect(attempt, local));
        self.process(Side::Client, &request)
    }

    /// The memory node accepts a request to connect that has left.
    pub(crate) fn accept(&mut self, client: u8, (_, frame): &Sent) -> Vec<Sent> {
        let request = Datagram::parse(frame).unwrap();
        let Some(Message::Connect(attempt, local)) = Message::parse(request.payload) else {
            panic!("no request to connect");
        };
        let qpn = if attempt.client > 100 {
            0x70 + u32::from(attempt.index)
        } else {
            server_qpn(client)
        };
        let accept = Message::Accept(attempt, QueuePair { qpn, ..local });
        self.process(
            Side::Memory,
            &setup_frame(&request.addresses.reversed(), &accept),
        )
    }

    /// The memory node has no space for the queue pair of a request to connect that has left.
    pub(crate) fn refuse(&mut self, (_, frame): &Sent) -> Vec<Sent> {
        let request = Datagram::parse(frame).unwrap();
        let Some(Message::Connect(attempt, _)) = Message::parse(request.payload) else {
            panic!("no request to connect");
        };
        let refuse = Message::Refuse(attempt, Reason::Full);
        let reply = setup_frame(&request.addresses.reversed(), &refuse);
        self.process(Side::Memory, &reply)
    }

    /// A request of a client.
    pub(crate) fn request(&mut self, client: u8, psn: u32, body: Body) -> Vec<Sent> {
        let frame = frame(addresses(client, 0), server_qpn(client), psn, body);
        self.process(Side::Client, &frame)
    }

    /// The memory node's answer to a request that has left.
    pub(crate) fn response(&mut self, request: &Sent, body: Body) -> Vec<Sent> {
        let request = parsed(request);
        let psn = request.transport.bth.psn.number();
        let qpn = match request.transport.bth.qpn {
            shared @ 0x70.. => 0xf0_0000 + shared - 0x70,
            qpn => qpn - 0x40,
        };
        let frame = frame(request.addresses.reversed(), qpn, psn, body);
        self.process(Side::Memory, &frame)
    }

    /// A client writes a node of the chain, and is answered.
    pub(crate) fn write(&mut self, client: u8, psn: u32, link: Link) {
        self.write_to(CHAIN, STEERABLE, client, psn, link);
    }

    /// The same for any chain and key.
    pub(crate) fn write_to(&mut self, chain: u64, key: u32, client: u8, psn: u32, link: Link) {
        let payload = node_bytes(link, chain, 1);
        let body = Body::WriteOnly {
            reth: Reth {
                address: link.address(),
                key,
                len: payload.len() as u32,
            },
            immediate: None,
            payload: &payload,
        };
        let sent = self.request(client, psn, body);
        assert_eq!(sent.len(), 1, "the WRITE passes");
        self.response(&sent[0], acknowledge());
    }

    /// A client reads a node. Returns where the READ goes, after the response with these bytes.
    pub(crate) fn walk(&mut self, client: u8, psn: u32, link: Link, bytes: &[u8]) -> u64 {
        let sent = self.request(client, psn, read(link));
        let Body::ReadRequest { reth } = parsed(&sent[0]).transport.body else {
            panic!("{sent:?}");
        };
        self.response(&sent[0], node_read(bytes));
        reth.address
    }

    /// A client appends a node behind another, as far as the request.
    pub(crate) fn append(&mut self, client: u8, psn: u32, tail: Link, new: Link) -> Vec<Sent> {
        self.request(client, psn, Body::CompareSwap(swap(tail, new)))
    }

    /// Client 0 links node 1 behind the head. Returns what leaves with the answer.
    pub(crate) fn link(&mut self) -> Vec<Sent> {
        self.write(0, FIRST + 1, node(1));
        let sent = self.append(0, FIRST + 2, head(CHAIN), node(1));
        self.response(&sent[0], original(head(CHAIN).empty().word()))
    }

    /// Clients 1 and 2 write nodes 2 and 3 and append them, as far as the requests.
    pub(crate) fn append_two(&mut self) -> [Vec<Sent>; 2] {
        let news = [(1, node(2)), (2, node(3))];
        for (client, new) in news {
            self.write(client, FIRST, new);
        }
        news.map(|(client, new)| self.append(client, FIRST + 1, head(CHAIN), new))
    }
}

pub(crate) fn swap(tail: Link, new: Link) -> AtomicEth {
    AtomicEth {
        address: tail.address(),
        key: STEERABLE,
        swap_or_add: new.word(),
        compare: tail.empty().word(),
    }
}

pub(crate) fn acknowledge() -> Body<'static> {
    Body::Acknowledge { aeth: aeth() }
}

pub(crate) fn original(original: u64) -> Body<'static> {
    Body::AtomicAcknowledge {
        aeth: aeth(),
        original,
    }
}

/// The response to a READ that found these bytes.
pub(crate) fn node_read(payload: &[u8]) -> Body<'_> {
    let aeth = aeth();
    Body::ReadResponseOnly { aeth, payload }
}

pub(crate) fn nak(code: NakCode) -> Body<'static> {
    let syndrome = Syndrome::Nak(code);
    Body::Acknowledge {
        aeth: Aeth { syndrome, msn: 0 },
    }
}

pub(crate) fn read(link: Link) -> Body<'static> {
    Body::ReadRequest {
        reth: Reth {
            address: link.address(),
            key: STEERABLE,
            len: 59,
        },
    }
}

fn aeth() -> Aeth {
    Aeth {
        syndrome: Syndrome::UNLIMITED,
        msn: 77,
    }
}

pub(crate) fn frame(addresses: Addresses, qpn: u32, psn: u32, body: Body) -> Vec<u8> {
    let mut frame = Vec::new();
    let bth = Bth {
        ack_requested: true,
        ..Bth::new(qpn, Psn::new(psn))
    };
    let transport = Transport { bth, body };
    let repr = Repr {
        addresses,
        transport,
    };
    repr.emit(&mut frame).unwrap();
    frame
}
