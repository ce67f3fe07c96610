//! For tests: a client host, and a link in memory that loses, repeats, delays and damages frames.

use std::collections::{BTreeMap, VecDeque};

use crate::limits::ETHERNET_HEADER;
use crate::stack::instant;
use smoltcp::iface::{self, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::SocketBuffer;
pub use smoltcp::socket::tcp::{Socket, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr, Ipv4Address, Ipv4Cidr};

/// The handle of a client's connection.
pub type ClientSocket = SocketHandle;

/// The delay of a frame without faults.
pub const DELAY_NS: u64 = 20_000;
/// The length of the buffers of a client's connection.
const BUFFER: usize = 32 * 1024;
/// The port before those of a client.
const FIRST_PORT: u16 = 40_000;

/// A client host: a whole smoltcp stack, with ARP.
pub struct Host {
    interface: Interface,
    sockets: SocketSet<'static>,
    frames: HostFrames,
    address: Ipv4Address,
    next_port: u16,
}

/// The frames that have arrived at a host, and those that it sends.
#[derive(Debug, Default)]
struct HostFrames {
    arrived: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
}

impl Host {
    /// Creates a host with an address of the network of 24 bits.
    #[must_use]
    pub fn new(hardware_address: [u8; 6], address: Ipv4Address, seed: u64) -> Self {
        let hardware_address = HardwareAddress::Ethernet(EthernetAddress(hardware_address));
        let mut settings = iface::Config::new(hardware_address);
        settings.random_seed = seed;
        let mut frames = HostFrames::default();
        let mut interface = Interface::new(settings, &mut frames, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            let _ = addresses.push(IpCidr::Ipv4(Ipv4Cidr::new(address, 24)));
        });
        Self {
            interface,
            sockets: SocketSet::new(Vec::new()),
            frames,
            address,
            next_port: FIRST_PORT,
        }
    }

    /// Begins to connect. Returns `None` if that is not possible, which is an error of the caller.
    pub fn connect(&mut self, server: Ipv4Address, port: u16) -> Option<ClientSocket> {
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        self.next_port += 1;
        let local = (self.address, self.next_port);
        let connected = socket.connect(self.interface.context(), (server, port), local);
        connected.ok()?;
        Some(self.sockets.add(socket))
    }

    /// Returns a connection.
    pub fn socket(&mut self, socket: ClientSocket) -> &mut Socket<'static> {
        self.sockets.get_mut(socket)
    }

    /// Removes a connection and sends nothing to its peer.
    pub fn remove(&mut self, socket: ClientSocket) {
        self.sockets.remove(socket);
    }

    /// Removes all connections and sends nothing. Ports are used from the first one again.
    pub fn reboot(&mut self) {
        self.sockets = SocketSet::new(Vec::new());
        self.next_port = FIRST_PORT;
    }

    /// Receives a frame, which [`Host::poll`] processes.
    pub fn receive(&mut self, frame: Vec<u8>) {
        self.frames.arrived.push_back(frame);
    }

    /// Processes what has arrived and what is due.
    pub fn poll(&mut self, now_ns: u64) {
        let sockets = &mut self.sockets;
        self.interface
            .poll(instant(now_ns), &mut self.frames, sockets);
    }

    /// Takes a frame that the host sends.
    pub fn take_frame(&mut self) -> Option<Vec<u8>> {
        self.frames.sent.pop_front()
    }

    /// Returns when [`Host::poll`] has to be called next if no frame arrives.
    pub fn next_deadline_ns(&mut self, now_ns: u64) -> Option<u64> {
        let due = self.interface.poll_at(instant(now_ns), &self.sockets)?;
        u64::try_from(due.total_micros()).ok().map(|us| us * 1000)
    }
}

impl Device for HostFrames {
    type RxToken<'t> = Arrived;
    type TxToken<'t> = Sending<'t>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Sending<'_>)> {
        let frame = self.arrived.pop_front()?;
        Some((Arrived(frame), Sending(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

struct Arrived(Vec<u8>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

struct Sending<'t>(&'t mut VecDeque<Vec<u8>>);

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let written = write(&mut frame);
        self.0.push_back(frame);
        written
    }
}

/// A sequence of numbers from a seed (SplitMix64; Steele, Lea and Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next_u64() % end as u64) as usize
    }
}

/// What a link does to frames, each in thousandths of all frames.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Frames that do not arrive.
    pub lost: u64,
    /// Frames that arrive twice.
    pub repeated: u64,
    /// Frames that arrive up to a millisecond late, so that others overtake them.
    pub late: u64,
    /// IPv4 frames of which one bit is wrong, behind the Ethernet header. What damages more is
    /// found by the checksum of Ethernet, which ends at each link.
    pub damaged: u64,
}

/// The end of a link at which a frame arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server's.
    Server,
    /// The client's.
    Client,
}

/// A link in virtual time.
#[derive(Debug)]
pub struct FaultyLink {
    faults: Faults,
    random: Random,
    /// Frames on their way, by the time of arrival and a number.
    frames: BTreeMap<(u64, u64), (End, Vec<u8>)>,
    number: u64,
}

impl FaultyLink {
    /// Creates a link. The same seed gives the same faults.
    #[must_use]
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            random: Random(seed),
            frames: BTreeMap::new(),
            number: 0,
        }
    }

    /// Sends a frame to one end.
    pub fn send(&mut self, to: End, mut frame: Vec<u8>, now_ns: u64) {
        let faults = self.faults;
        if self.happens(faults.lost) {
            return;
        }
        if self.happens(faults.repeated) {
            self.deliver(to, frame.clone(), now_ns);
        }
        if self.happens(faults.damaged) && frame.get(12..14) == Some(&[8, 0]) {
            let packet = &mut frame[ETHERNET_HEADER..];
            let bit = self.random.below(packet.len() * 8);
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        self.deliver(to, frame, now_ns);
    }

    /// Takes the next frame that has arrived at time `now_ns`.
    pub fn take(&mut self, now_ns: u64) -> Option<(End, Vec<u8>)> {
        let first = self.frames.first_entry()?;
        (first.key().0 <= now_ns).then(|| first.remove())
    }

    /// Returns when the next frame arrives.
    #[must_use]
    pub fn next_arrival_ns(&self) -> Option<u64> {
        self.frames.first_key_value().map(|(key, _)| key.0)
    }

    fn deliver(&mut self, to: End, frame: Vec<u8>, now_ns: u64) {
        let late_ns = match self.happens(self.faults.late) {
            true => self.random.next_u64() % 1_000_000,
            false => 0,
        };
        self.number += 1;
        let key = (now_ns + DELAY_NS + late_ns, self.number);
        self.frames.insert(key, (to, frame));
    }

    fn happens(&mut self, thousandths: u64) -> bool {
        self.random.next_u64() % 1000 < thousandths
    }
}
