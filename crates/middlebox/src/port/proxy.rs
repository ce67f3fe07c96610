//! A proxy of UDP datagrams between addresses of this machine, without privileges.
//!
//! ```text
//! client C ══▶ listen L │ alias of C ══▶ memory node N        C → L  becomes  alias → N
//!          ◀══          │            ◀══                  N → alias  becomes  L → C
//! ```
//!
//! All have UDP port 4791. To clients, and to the metadata service, L is the memory node. To the
//! memory node, each client has an address of its own, its alias: answers name a queue pair of the
//! client, and two clients may have the same number. A client gets it with a message about
//! connections ([`roce::connect`]). The ICRC covers the addresses, so it is repaired whenever they
//! change. The middlebox sees the addresses of the memory node's side only.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use roce::connect::{self, Message};
use roce::limits::FRAME_LEN_MAX;
use roce::wire::{Addresses, Datagram, Ethernet, Ip, Ipv4, UDP_PORT, encapsulate, readdress};
use sys::bound_datagram::BoundDatagram;
use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll, Waker};

use super::aliases::{Aliases, Offer};
use super::{Losses, Port, STOP};
use crate::limits::{ALIAS_SKIPS_MAX, ALIASES_MAX, BURST, SOCKET_BUFFER_LEN};
use crate::middlebox::Side;

/// The token of the socket for clients. That of an alias is its number.
const LISTEN: u64 = STOP - 1;
/// Where the addresses of IPv4, the UDP source port, and the transport begin in a frame.
const SOURCE: usize = 26;
const TARGET: usize = 30;
const UDP_SOURCE: usize = 34;
const TRANSPORT: usize = 42;

/// The proxy.
pub struct Proxy {
    listen: Ipv4Addr,
    node: Ipv4Addr,
    poll: Poll,
    events: Events,
    /// Tokens of sockets that may have more.
    ready: VecDeque<u64>,
    socket: BoundDatagram,
    aliases: Aliases,
    /// The sockets of aliases, by their numbers.
    sockets: Vec<BoundDatagram>,
    next_alias: Ipv4Addr,
    skips: usize,
    /// The time of the last wait.
    now_ns: u64,
    buffer: Vec<u8>,
    /// A frame that leaves with other addresses.
    scratch: Vec<u8>,
    losses: Losses,
}

impl Proxy {
    /// A proxy that clients reach at `listen`, for the memory node at `node`. Aliases have the
    /// addresses from `first_alias` on, without those that are in use.
    ///
    /// # Errors
    /// Another socket has port 4791 of `listen`, or the address is not one of this machine.
    pub fn new(listen: Ipv4Addr, node: Ipv4Addr, first_alias: Ipv4Addr) -> io::Result<Self> {
        let socket = bind(listen)?;
        let poll = Poll::new()?;
        poll.add(&socket, LISTEN, Interest::Read)?;
        Ok(Self {
            listen,
            node,
            poll,
            events: Events::with_capacity(ALIASES_MAX + 2),
            ready: VecDeque::new(),
            socket,
            aliases: Aliases::default(),
            sockets: Vec::new(),
            next_alias: first_alias,
            skips: 0,
            now_ns: monotonic_ns(),
            buffer: vec![0; FRAME_LEN_MAX],
            scratch: Vec::new(),
            losses: Losses::default(),
        })
    }

    /// The alias of the client that has sent a datagram, which is in `frame`. If it has none, it
    /// gets one for an intact message about connections, if one is free.
    fn alias_of(&mut self, client: Ipv4Addr, frame: &[u8]) -> io::Result<Option<usize>> {
        if let Some(number) = self.aliases.of_client(client) {
            return Ok(Some(number));
        }
        if !is_setup(frame) {
            return Ok(None);
        }
        match self.aliases.offer(client, self.now_ns) {
            Offer::Replaced(number) => return Ok(Some(number)),
            Offer::None => return Ok(None),
            Offer::New => {}
        }
        while self.skips < ALIAS_SKIPS_MAX {
            let ip = self.next_alias;
            let next = Ipv4Addr::from_bits(ip.to_bits().wrapping_add(1));
            let socket = match bind(ip) {
                Ok(socket) => socket,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    self.next_alias = next;
                    self.skips += 1;
                    continue;
                }
                // No descriptor is free, or the address is not one of this machine.
                Err(_) => return Ok(None),
            };
            self.next_alias = next;
            self.poll
                .add(&socket, self.sockets.len() as u64, Interest::Read)?;
            self.sockets.push(socket);
            return Ok(Some(self.aliases.add(client, ip, self.now_ns)));
        }
        Ok(None)
    }

    /// Receives from the socket with a token. Returns whether a datagram had arrived. `frame` is
    /// empty if it was dropped.
    fn receive_from(&mut self, token: u64, frame: &mut Vec<u8>) -> io::Result<bool> {
        frame.clear();
        let alias = usize::try_from(token).ok();
        let alias = alias.filter(|number| *number < self.sockets.len());
        let (socket, me) = match alias {
            Some(number) => (&self.sockets[number], self.aliases.ip(number)),
            None => (&self.socket, self.listen),
        };
        let Some((len, sender)) = socket.recv_from(&mut self.buffer)? else {
            return Ok(false);
        };
        // Another port of the same address may be any process.
        if sender.port() != UDP_PORT || (alias.is_some() && *sender.ip() != self.node) {
            self.losses.foreign += 1;
            return Ok(true);
        }
        let addresses = between(*sender.ip(), me, UDP_PORT);
        encapsulate(&addresses, &self.buffer[..len], frame);
        let alias = match alias {
            Some(number) => Some(number),
            None => self.alias_of(*sender.ip(), frame)?,
        };
        let Some(number) = alias else {
            self.losses.unaddressed += 1;
            frame.clear();
            return Ok(true);
        };
        self.aliases.touch(number, self.now_ns);
        if token == LISTEN {
            let translated = between(self.aliases.ip(number), self.node, UDP_PORT);
            if readdress(frame, &translated).is_err() {
                self.losses.foreign += 1;
                frame.clear();
            }
        }
        Ok(true)
    }

    fn send_to_client(&mut self, frame: &[u8]) {
        let target = ip_at(frame, TARGET);
        let Some(number) = target.and_then(|ip| self.aliases.of_ip(ip)) else {
            self.losses.foreign += 1;
            return;
        };
        let client = self.aliases.client(number);
        self.scratch.clear();
        self.scratch.extend_from_slice(frame);
        if readdress(&mut self.scratch, &between(self.listen, client, UDP_PORT)).is_err() {
            self.losses.foreign += 1;
            return;
        }
        let target = SocketAddrV4::new(client, UDP_PORT);
        let is_sent = self.socket.send_to(&self.scratch[TRANSPORT..], target);
        self.losses.unsent += u64::from(!matches!(is_sent, Ok(true)));
    }

    fn send_to_node(&mut self, frame: &[u8]) {
        let source = ip_at(frame, SOURCE);
        let Some(number) = source.and_then(|ip| self.aliases.of_ip(ip)) else {
            self.losses.foreign += 1;
            return;
        };
        let mut transport = &frame[TRANSPORT..];
        // The packets of shared queue pairs have other ports, which a socket cannot write.
        if frame[UDP_SOURCE..][..2] != UDP_PORT.to_be_bytes() {
            self.aliases.keep(number);
            self.scratch.clear();
            self.scratch.extend_from_slice(frame);
            let addresses = between(self.aliases.ip(number), self.node, UDP_PORT);
            if readdress(&mut self.scratch, &addresses).is_err() {
                self.losses.foreign += 1;
                return;
            }
            transport = &self.scratch[TRANSPORT..];
        }
        let target = SocketAddrV4::new(self.node, UDP_PORT);
        let is_sent = self.sockets[number].send_to(transport, target);
        self.losses.unsent += u64::from(!matches!(is_sent, Ok(true)));
    }
}

impl Port for Proxy {
    fn wake_by(&mut self, stop: &Waker) -> io::Result<()> {
        self.poll.add(stop, STOP, Interest::Read)
    }

    fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<bool> {
        self.poll.wait(&mut self.events, timeout_ns)?;
        self.now_ns = monotonic_ns();
        let tokens = self.events.iter().map(|ready| ready.token);
        self.ready.clear();
        self.ready.extend(tokens.filter(|token| *token != STOP));
        Ok(self.events.iter().any(|ready| ready.token == STOP))
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<Option<Side>> {
        let mut dropped = 0;
        while let Some(token) = self.ready.pop_front() {
            if !self.receive_from(token, frame)? {
                continue;
            }
            // Sockets take turns, so that none waits for another that always has more.
            self.ready.push_back(token);
            if !frame.is_empty() {
                let is_client = token == LISTEN;
                return Ok(Some(if is_client {
                    Side::Client
                } else {
                    Side::Memory
                }));
            }
            // Timers and the end have a turn however fast datagrams arrive that are dropped.
            dropped += 1;
            if dropped == BURST {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn send(&mut self, side: Side, frame: &[u8]) {
        match side {
            Side::Client => self.send_to_client(frame),
            Side::Memory => self.send_to_node(frame),
        }
    }

    fn flush(&mut self) {}

    fn losses(&mut self) -> io::Result<Losses> {
        Ok(self.losses)
    }
}

/// Whether a frame is an intact request to connect or to end a client's connections.
fn is_setup(frame: &[u8]) -> bool {
    let Ok(datagram) = Datagram::parse(frame) else {
        return false;
    };
    let message = Message::parse(datagram.payload);
    datagram.qpn == connect::QPN
        && matches!(
            message,
            Some(Message::Connect(..) | Message::Disconnect { .. })
        )
}

fn bind(ip: Ipv4Addr) -> io::Result<BoundDatagram> {
    BoundDatagram::bind(SocketAddrV4::new(ip, UDP_PORT), SOCKET_BUFFER_LEN)
}

/// The headers of a datagram, as its receiver makes them again.
fn between(source: Ipv4Addr, target: Ipv4Addr, udp_source: u16) -> Addresses {
    let mac = |ip: Ipv4Addr| {
        let [a, b, c, d] = ip.octets();
        [2, 0, a, b, c, d]
    };
    Addresses {
        ethernet: Ethernet {
            source: mac(source),
            target: mac(target),
        },
        ip: Ip::V4(Ipv4::between(source.octets(), target.octets())),
        udp_source,
    }
}

/// An address in a frame that has a transport header; none if it is too short.
fn ip_at(frame: &[u8], offset: usize) -> Option<Ipv4Addr> {
    frame.get(TRANSPORT)?;
    let bytes: [u8; 4] = frame.get(offset..offset + 4)?.try_into().ok()?;
    Some(Ipv4Addr::from(bytes))
}
