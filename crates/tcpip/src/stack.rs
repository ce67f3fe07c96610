//! The stack: its connections, and what the owner does with them.

mod ingress;
mod timers;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::RandomState;
use std::io;
use std::ops::Add;

use smoltcp::iface::{self, Interface, SocketSet};
use smoltcp::socket::tcp::RecvError;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr, Ipv4Address, Ipv4Cidr};

use crate::acknowledgement::SentEnd;
use crate::arrival::Key;
use crate::connection::{Connection, Phase};
use crate::deadlines::{Queue, Timers};
use crate::half_open::HalfOpenTable;
use crate::limits::{CLOSING_MAX, CLOSING_NS, RECEIVE_BUFFER, SEND_BUFFER};
use crate::link::{Frames, Link};

/// The addresses, ports and buffers of a stack.
#[derive(Debug, Clone)]
pub struct Config {
    /// The hardware address of this end.
    pub hardware_address: [u8; 6],
    /// The IPv4 address of this end.
    pub address: Ipv4Address,
    /// The number of leading bits of `address` that its network has, at most 32.
    pub prefix_len: u8,
    /// Maximum length of a packet in bytes, without the Ethernet header.
    pub mtu: usize,
    /// The TCP ports at which connections are accepted.
    pub ports: Vec<u16>,
    /// Seed of initial sequence numbers. It has to be unpredictable.
    pub seed: u64,
    /// Length of a connection's receive buffer in bytes, at most [`RECEIVE_BUFFER`].
    pub receive_buffer: usize,
    /// Length of a connection's send buffer in bytes.
    pub send_buffer: usize,
}

impl Config {
    /// Creates a configuration with the default buffers, for an Ethernet with packets of 1500
    /// bytes.
    #[must_use]
    pub fn new(hardware_address: [u8; 6], address: Ipv4Address, ports: Vec<u16>) -> Self {
        Self {
            hardware_address,
            address,
            prefix_len: 24,
            mtu: 1500,
            ports,
            seed: 0,
            receive_buffer: RECEIVE_BUFFER,
            send_buffer: SEND_BUFFER,
        }
    }
}

/// Whether the checksums of TCP and ICMP in a received frame have to be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// They have to be.
    Unverified,
    /// The device has verified them, or the frame has never left this machine and they are not set.
    Verified,
}

/// The identity of a connection. It is never used again for another one, except after 2³² further
/// connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// The events of a connection that its owner waits for. Hang-ups are always reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interest {
    /// Bytes, or the end of the stream, can be received.
    pub readable: bool,
    /// There is space to send.
    pub writable: bool,
}

/// A connection that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The token that the owner gave the connection.
    pub token: u64,
    /// A receive would return bytes, the end of the stream or an error.
    pub readable: bool,
    /// A send would take bytes or return an error.
    pub writable: bool,
    /// Both directions are closed.
    pub hung_up: bool,
}

/// What the stack has counted since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames received.
    pub frames: u64,
    /// Of these, frames for other hosts or of kinds that are not supported.
    pub foreign: u64,
    /// Of these, frames that were truncated or had a wrong checksum.
    pub damaged: u64,
    /// Of these, frames dropped because too many frames waited to be taken.
    pub dropped: u64,
    /// Segments that opened a connection.
    pub opened: u64,
    /// Connections that became established.
    pub established: u64,
    /// Half-open connections dropped at the bound, or after their time.
    pub half_open_dropped: u64,
    /// Connections reset by this end: closed ones at a bound or after their time, open ones whose
    /// peer was silent for too long, and those that were left when the stack ended.
    pub reset: u64,
    /// TCP segments that belonged to no connection.
    pub unknown: u64,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            foreign: self.foreign + other.foreign,
            damaged: self.damaged + other.damaged,
            dropped: self.dropped + other.dropped,
            opened: self.opened + other.opened,
            established: self.established + other.established,
            half_open_dropped: self.half_open_dropped + other.half_open_dropped,
            reset: self.reset + other.reset,
            unknown: self.unknown + other.unknown,
        }
    }
}

/// A TCP/IP stack. See the [crate] documentation.
pub struct Stack {
    config: Config,
    interface: Interface,
    /// A set without sockets, for packets of no connection.
    no_sockets: SocketSet<'static>,
    frames: Frames,
    connections: Vec<Option<Box<Connection>>>,
    /// The slots without a connection.
    free: Vec<u32>,
    generation: u32,
    by_key: HashMap<Key, u32, RandomState>,
    /// Established connections that the owner has not taken.
    accepted: VecDeque<ConnectionId>,
    half_open: HalfOpenTable,
    closing: Queue<ConnectionId>,
    closing_count: usize,
    timers: Timers,
    /// Slots of connections that may have something to send.
    pending: Vec<u32>,
    /// Slots of connections that may be ready for their owner.
    ready: VecDeque<u32>,
    is_listening: bool,
    /// The time of the last call that had one.
    now_ns: u64,
    counts: Counts,
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.connections.len() - self.free.len();
        let mut f = f.debug_struct("Stack");
        f.field("address", &self.config.address);
        f.field("connections", &open);
        f.finish_non_exhaustive()
    }
}

impl Stack {
    /// Creates a stack without connections.
    #[must_use]
    pub fn new(mut config: Config, now_ns: u64) -> Self {
        config.receive_buffer = config.receive_buffer.min(RECEIVE_BUFFER);
        let mut frames = Frames::default();
        // smoltcp sends nothing yet.
        let any_peer = EthernetAddress::BROADCAST;
        let mut no_end = SentEnd::default();
        let mut link = Link::new(&config, any_peer, None, &mut frames, &mut no_end);
        let interface = new_interface(&config, config.seed, &mut link, instant(now_ns));
        Self {
            half_open: HalfOpenTable::new(&config),
            config,
            interface,
            no_sockets: SocketSet::new(Vec::new()),
            frames,
            connections: Vec::new(),
            free: Vec::new(),
            generation: 0,
            by_key: HashMap::default(),
            accepted: VecDeque::new(),
            closing: Queue::default(),
            closing_count: 0,
            timers: Timers::default(),
            pending: Vec::new(),
            ready: VecDeque::new(),
            is_listening: true,
            now_ns,
            counts: Counts::default(),
        }
    }

    /// Stops accepting connections: further SYNs are answered by a reset.
    pub fn stop_listening(&mut self) {
        self.is_listening = false;
    }

    /// Takes the next established connection. Its events are reported after [`Stack::watch`].
    pub fn accept(&mut self) -> Option<ConnectionId> {
        self.accepted.pop_front()
    }

    /// Returns the address and the port of the peer of a connection.
    #[must_use]
    pub fn peer(&self, id: ConnectionId) -> Option<(Ipv4Address, u16)> {
        let key = find(&self.connections, id)?.key;
        Some((Ipv4Address::from_bits(key.peer), key.peer_port))
    }

    /// Sets the token of a connection's events, and the events to wait for.
    pub fn watch(&mut self, id: ConnectionId, token: u64, interest: Interest) {
        if let Some(connection) = self.find_mut(id) {
            connection.token = Some(token);
            connection.interest = interest;
            self.queue_ready(id.slot);
        }
    }

    /// Appends the connections that are ready to `events`. One may be appended twice. A connection
    /// stays ready until the cause is gone, as with a level-triggered epoll.
    pub fn events(&mut self, events: &mut Vec<Event>) {
        for _ in 0..self.ready.len() {
            let Some(event) = self.next_event() else {
                return;
            };
            events.push(event);
        }
    }

    /// Returns whether a connection is ready, or one can be accepted.
    pub fn has_events(&mut self) -> bool {
        if !self.accepted.is_empty() {
            return true;
        }
        self.next_event().is_some()
    }

    /// Receives bytes that have arrived, as many as fit into `buffer`. Returns their number; 0
    /// means that the peer has closed its sending side.
    ///
    /// # Errors
    /// `WouldBlock`: no bytes have arrived. `ConnectionReset`: the connection is lost.
    pub fn recv(&mut self, id: ConnectionId, buffer: &mut [u8]) -> io::Result<usize> {
        let connection = self.find_mut(id).ok_or(io::ErrorKind::NotConnected)?;
        let received = connection.socket_mut().recv_slice(buffer);
        match received {
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(len) => {
                // The window may have grown.
                self.queue_pending(id.slot);
                Ok(len)
            }
            Err(RecvError::Finished) => Ok(0),
            Err(RecvError::InvalidState) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// Takes as many of the bytes as the send buffer has space for. Returns their number. They are
    /// sent by the next [`Stack::flush`].
    ///
    /// # Errors
    /// `WouldBlock`: there is no space. `BrokenPipe`: the connection is closed.
    pub fn send(&mut self, id: ConnectionId, bytes: &[u8]) -> io::Result<usize> {
        let connection = self.find_mut(id).ok_or(io::ErrorKind::BrokenPipe)?;
        match connection.socket_mut().send_slice(bytes) {
            Ok(0) if !bytes.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            Ok(len) => {
                self.queue_pending(id.slot);
                Ok(len)
            }
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Closes a connection, at the time of the last call that had a time. The stack still sends
    /// what is in the send buffer, then the end. Bytes that arrive are discarded. The identity is
    /// not valid any more.
    pub fn close(&mut self, id: ConnectionId) {
        let Some(connection) = self.find_mut(id) else {
            return;
        };
        if connection.phase != Phase::Open {
            return;
        }
        connection.discard_received();
        connection.socket_mut().close();
        connection.phase = Phase::Closing;
        connection.token = None;
        self.closing_count += 1;
        let (connections, at_ns) = (&self.connections, self.now_ns + CLOSING_NS);
        let is_closing = |id| is_in(connections, id, Phase::Closing);
        self.closing.push(at_ns, id, CLOSING_MAX, is_closing);
        self.queue_pending(id.slot);
        while self.closing_count > CLOSING_MAX {
            let Some(oldest) = self.closing.pop() else {
                return;
            };
            self.reset(oldest, Phase::Closing);
        }
    }

    /// Resets connections, as many as there is space for frames. Returns whether any are left.
    /// Connections whose data and end the peer has acknowledged are removed without a reset.
    pub fn reset_some(&mut self) -> bool {
        for slot in 0..self.connections.len() as u32 {
            let is_full = self.frames.is_full();
            let Some(connection) = self.in_slot(slot) else {
                continue;
            };
            let is_ended = connection.phase == Phase::Closing && connection.is_drained();
            if is_ended || connection.is_hung_up() {
                self.remove(slot);
            } else if is_full {
                return true;
            } else {
                self.reset_and_remove(slot);
            }
        }
        self.half_open.clear();
        false
    }

    /// Returns whether all that was sent on all connections has been acknowledged.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let mut connections = self.connections.iter().flatten();
        connections.all(|connection| connection.is_drained())
    }

    /// Returns the frames to send. The caller clears them after it has sent them.
    pub fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// Returns what has been counted since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of connections, half-open and closing ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len() - self.free.len() + self.half_open.len()
    }

    /// Returns whether there are no connections.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(id.slot as usize)?.as_deref_mut()?;
        (connection.generation == id.generation).then_some(connection)
    }

    fn in_slot(&mut self, slot: u32) -> Option<&mut Connection> {
        self.connections.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Adds a connection to the list of those that may have something to send.
    fn queue_pending(&mut self, slot: u32) {
        if let Some(connection) = self.in_slot(slot)
            && !std::mem::replace(&mut connection.is_in_pending, true)
        {
            self.pending.push(slot);
        }
    }

    /// Adds a connection to the queue of those that may be ready.
    fn queue_ready(&mut self, slot: u32) {
        if let Some(connection) = self.in_slot(slot)
            && connection.token.is_some()
            && !std::mem::replace(&mut connection.is_in_ready, true)
        {
            self.ready.push_back(slot);
        }
    }

    /// Removes connections from the front of the queue until one is ready. Returns its event, and
    /// adds it at the end.
    fn next_event(&mut self) -> Option<Event> {
        while let Some(slot) = self.ready.pop_front() {
            let Some(connection) = self.in_slot(slot) else {
                continue;
            };
            connection.is_in_ready = false;
            let Some(token) = connection.token else {
                continue;
            };
            let event = Event {
                token,
                readable: connection.is_readable(),
                writable: connection.is_writable(),
                hung_up: connection.is_hung_up(),
            };
            let interest = connection.interest;
            let is_awaited = (interest.readable && event.readable)
                || (interest.writable && event.writable)
                || event.hung_up;
            if is_awaited {
                self.queue_ready(slot);
                return Some(event);
            }
        }
        None
    }

    /// Resets a connection if it is in the phase `phase`, and removes it. If there is no space for
    /// a frame, its peer gets a reset only as the answer to a later segment.
    fn reset(&mut self, id: ConnectionId, phase: Phase) {
        if is_in(&self.connections, id, phase) {
            self.reset_and_remove(id.slot);
        }
    }

    /// Resets a connection, unless it has ended already, and removes it.
    fn reset_and_remove(&mut self, slot: u32) {
        if let Some(connection) = self.in_slot(slot)
            && !connection.is_hung_up()
        {
            connection.socket_mut().abort();
            self.counts.reset += 1;
            self.send_segments(slot);
        }
        self.remove(slot);
    }

    /// Removes a connection without sending anything.
    fn remove(&mut self, slot: u32) {
        let removed = self.connections.get_mut(slot as usize);
        let Some(connection) = removed.and_then(Option::take) else {
            return;
        };
        if connection.phase == Phase::Closing {
            self.closing_count -= 1;
        }
        self.timers.remove(slot);
        self.by_key.remove(&connection.key);
        self.free.push(slot);
        // Its entries in lists and queues are skipped, or they find the next connection in the slot
        // with nothing to do.
    }
}

/// Returns the connection, if it still exists.
fn find(connections: &[Option<Box<Connection>>], id: ConnectionId) -> Option<&Connection> {
    let connection = connections.get(id.slot as usize)?.as_deref()?;
    (connection.generation == id.generation).then_some(connection)
}

/// Returns whether the connection exists and is in this phase.
fn is_in(connections: &[Option<Box<Connection>>], id: ConnectionId, phase: Phase) -> bool {
    find(connections, id).is_some_and(|it| it.phase == phase)
}

/// Creates smoltcp's interface. `seed` is that of its random numbers.
pub(crate) fn new_interface(
    config: &Config,
    seed: u64,
    link: &mut Link<'_>,
    at: Instant,
) -> Interface {
    let mut settings = iface::Config::new(HardwareAddress::Ip);
    settings.random_seed = seed;
    let mut interface = Interface::new(settings, link, at);
    let network = Ipv4Cidr::new(config.address, config.prefix_len.min(32));
    interface.update_ip_addrs(|addresses| {
        // The list has space for at least one address.
        let _ = addresses.push(IpCidr::Ipv4(network));
    });
    interface
}

/// Converts a time to smoltcp's, which counts microseconds.
pub(crate) fn instant(now_ns: u64) -> Instant {
    Instant::from_micros(i64::try_from(now_ns / 1000).unwrap_or(i64::MAX))
}
