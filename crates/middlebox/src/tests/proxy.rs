//! The proxy between sockets of this machine: which datagrams of which senders it takes.

use std::net::{Ipv4Addr, SocketAddrV4};

use roce::connect::{self, Attempt, Message, QueuePair};
use roce::endpoint::Mtu;
use roce::wire::{Addresses, Datagram, Ethernet, Ip, Ipv4, Psn, UDP_PORT};
use sys::bound_datagram::BoundDatagram;

use crate::Side;
use crate::limits::{ALIASES_MAX, BURST};
use crate::port::{Port, Proxy};

/// Ethernet, IP and UDP headers, which the kernel makes.
const HEADERS: usize = 42;

/// Addresses that no other test uses at the same time, as far as process numbers tell:
/// 127.32.0.0/11.
struct Network(u32);

impl Network {
    fn new(part: u32) -> Self {
        Self(0x7f20_0000 + (std::process::id() % 512) * 4096 + part * 2048)
    }

    fn ip(&self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.0 + number)
    }

    fn listen(&self) -> Ipv4Addr {
        self.ip(1)
    }

    fn node(&self) -> Ipv4Addr {
        self.ip(2)
    }

    fn client(&self, number: u32) -> Ipv4Addr {
        self.ip(16 + number)
    }

    fn alias(&self, number: u32) -> Ipv4Addr {
        self.ip(1024 + number)
    }

    fn proxy(&self) -> Proxy {
        Proxy::new(self.listen(), self.node(), self.alias(0)).unwrap()
    }
}

fn bind(ip: Ipv4Addr, port: u16) -> BoundDatagram {
    BoundDatagram::bind(SocketAddrV4::new(ip, port), 1 << 16).unwrap()
}

fn between(source: Ipv4Addr, target: Ipv4Addr) -> Addresses {
    Addresses {
        ethernet: Ethernet {
            source: [2; 6],
            target: [2; 6],
        },
        ip: Ip::V4(Ipv4::between(source.octets(), target.octets())),
        udp_source: UDP_PORT,
    }
}

/// The payload of a datagram that requests a connection.
fn request(source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let attempt = Attempt {
        client: 1,
        index: 0,
        attempt: 1,
    };
    let pair = QueuePair {
        qpn: 7,
        first_psn: Psn::new(5),
        mtu: Mtu::Bytes1024,
    };
    let datagram = Datagram {
        addresses: between(source, target),
        qpn: connect::QPN,
        source_qpn: connect::QPN,
        queue_key: connect::QUEUE_KEY,
        payload: &Message::Connect(attempt, pair).emit(),
    };
    let mut frame = Vec::new();
    datagram.emit(&mut frame).unwrap();
    frame.split_off(HEADERS)
}

fn send(network: &Network, client: u32, port: u16, payload: &[u8]) {
    let target = SocketAddrV4::new(network.listen(), UDP_PORT);
    let socket = bind(network.client(client), port);
    // On the loopback interface, a datagram arrives during the send.
    assert!(socket.send_to(payload, target).unwrap());
}

/// The frames that the proxy has for the middlebox, and how often it had a turn.
fn received(proxy: &mut Proxy) -> (Vec<(Side, Vec<u8>)>, usize) {
    let (mut frames, mut turns) = (Vec::new(), 0);
    let mut frame = Vec::new();
    loop {
        proxy.wait(Some(0)).unwrap();
        let losses = proxy.losses().unwrap();
        let before = frames.len();
        while let Some(side) = proxy.receive(&mut frame).unwrap() {
            frames.push((side, frame.clone()));
        }
        if frames.len() == before && proxy.losses().unwrap() == losses {
            return (frames, turns);
        }
        turns += 1;
    }
}

/// The sender of the one frame that has arrived.
fn sender(frames: &[(Side, Vec<u8>)]) -> Ipv4Addr {
    let [(Side::Client, frame)] = frames else {
        panic!("{frames:?}");
    };
    let datagram = Datagram::parse(frame).unwrap();
    let Ip::V4(ip) = datagram.addresses.ip else {
        panic!("{datagram:?}");
    };
    Ipv4Addr::from(ip.source)
}

#[test]
fn only_clients_that_connect_have_an_alias() {
    let network = Network::new(0);
    let mut proxy = network.proxy();
    for client in 0..ALIASES_MAX as u32 {
        send(&network, client, UDP_PORT, b"anything");
        // Intact, but of another host.
        let forged = request(network.client(client + 1), network.listen());
        send(&network, client, UDP_PORT, &forged);
        let (frames, _) = received(&mut proxy);
        assert_eq!(frames, []);
    }
    assert_eq!(proxy.losses().unwrap().unaddressed, 2 * ALIASES_MAX as u64);
    for client in [700, 701, 700] {
        let payload = request(network.client(client), network.listen());
        send(&network, client, UDP_PORT, &payload);
        let (frames, _) = received(&mut proxy);
        assert_eq!(sender(&frames), network.alias(client - 700));
    }
}

#[test]
fn datagrams_of_other_ports_are_not_of_the_pool() {
    let network = Network::new(1);
    let mut proxy = network.proxy();
    let payload = request(network.client(1), network.listen());
    send(&network, 1, UDP_PORT + 1, &payload);
    assert_eq!(received(&mut proxy).0, []);
    assert_eq!(proxy.losses().unwrap().foreign, 1);
    send(&network, 1, UDP_PORT, &payload);
    assert_eq!(received(&mut proxy).0.len(), 1);
    let alias = SocketAddrV4::new(network.alias(0), UDP_PORT);
    let other = bind(network.node(), UDP_PORT + 1);
    assert!(other.send_to(b"not of the node", alias).unwrap());
    assert_eq!(received(&mut proxy).0, []);
    let node = bind(network.node(), UDP_PORT);
    assert!(node.send_to(b"of the node", alias).unwrap());
    let (frames, _) = received(&mut proxy);
    assert!(matches!(frames.as_slice(), [(Side::Memory, _)]));
    assert_eq!(proxy.losses().unwrap().foreign, 2);
}

#[test]
fn a_flood_of_datagrams_that_are_dropped_does_not_hold_a_turn_up() {
    let network = Network::new(1);
    let mut proxy = Proxy::new(network.ip(900), network.node(), network.ip(1900)).unwrap();
    let socket = bind(network.client(800), UDP_PORT);
    let target = SocketAddrV4::new(network.ip(900), UDP_PORT);
    for _ in 0..2 * BURST + 1 {
        assert!(socket.send_to(b"anything", target).unwrap());
    }
    let (frames, turns) = received(&mut proxy);
    assert_eq!((frames.len(), turns), (0, 3));
}
