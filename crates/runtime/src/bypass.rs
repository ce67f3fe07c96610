//! The runtime `bypass`: it serves connections by a TCP/IP stack in this process, as a library
//! operating system does. The kernel's TCP is not on the path of a request.
//!
//! ```text
//! device ─▶ ring of frames ─▶ tcpip::Stack ─▶ burst ─▶ Stack ─▶ frames ─▶ device
//! ```
//!
//! A *burst* is the set of connections that are ready at the same time; they are answered together.
//!
//! Each worker has a packet socket with a ring of received frames (`sys::packet_ring`), a stack,
//! and the same loop as `events` (`crate::readiness`). The kernel passes all frames of a connection
//! to the same worker. There is no acceptor thread: each worker accepts from its stack.
//!
//! The kernel must not have the address of the server. Otherwise the kernel's TCP would answer each
//! segment as well, with a reset. The packet socket receives a copy of each frame, and the kernel's
//! stack gets the original. If the process has the privilege, it attaches a BPF program to the
//! device (`sys::ingress_filter`), which discards the original before the kernel looks for a route.
//!
//! [`InMemory`] is the same runtime without a device, threads or a clock, for tests.

mod accept;
mod in_memory;
mod port;
mod server;
mod stop;
mod transport;
mod wake;
mod worker;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use service::Service;
use sys::ingress_filter::IngressFilter;
use sys::packet_ring::{Device, PacketRing};
use tcpip::Config;

use crate::limits::RING_FRAMES;
use crate::running::Running;
use crate::setup::Shared;
use crate::worker_context::WorkerContext;
use port::Port;

pub use in_memory::InMemory;

/// A device with an address for the server, opened for a number of workers.
#[derive(Debug)]
pub struct Interface {
    /// One packet socket per worker.
    rings: Vec<PacketRing>,
    /// The error if the process could not attach the filter.
    filter: io::Result<Arc<IngressFilter>>,
    /// The configuration of the stacks, except for their seeds.
    config: Config,
}

impl Interface {
    /// Opens the device with the name `device`, in the network namespace of the calling thread, for
    /// `workers` workers. The server has the address `address`, in a network whose prefix has
    /// `prefix_len` bits, and accepts connections at `port`.
    ///
    /// # Errors
    /// `PermissionDenied`: the process lacks `CAP_NET_RAW`. `NotFound`: there is no such device.
    /// `NetworkDown`: the device is down. `AddrInUse`: the kernel has the address, or allows
    /// sockets to bind addresses that it does not have (`net.ipv4.ip_nonlocal_bind`).
    pub fn open(
        device: &str,
        address: Ipv4Addr,
        prefix_len: u8,
        port: u16,
        workers: usize,
    ) -> io::Result<Self> {
        let device = Device::find(device)?;
        if UdpSocket::bind((address, 0)).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let mut rings = Vec::new();
        let mut group = None;
        for _ in 0..workers.max(1) {
            let ring = PacketRing::open(&device, address, RING_FRAMES)?;
            if workers > 1 {
                group = Some(ring.share(group)?);
            }
            rings.push(ring);
        }
        let mut config = Config::new(device.hardware_address, address, vec![port]);
        config.prefix_len = prefix_len;
        config.mtu = device.mtu;
        // The filter only saves work: without it, the kernel discards the packets a little later.
        let filter = IngressFilter::attach(&device.name, address).map(Arc::new);
        Ok(Self {
            rings,
            filter,
            config,
        })
    }

    /// Why no program at the device keeps the server's packets from the kernel's own stack, which
    /// then spends processor time on them. None: one does.
    #[must_use]
    pub fn filter_problem(&self) -> Option<&io::Error> {
        self.filter.as_ref().err()
    }
}

/// Starts the worker threads, one for each ring of the interface.
///
/// # Errors
/// The limit of descriptors or threads is reached, or the interface was opened for another number
/// of workers.
pub(crate) fn start(
    running: &mut Running,
    setup: &Arc<Shared>,
    service: &impl Service,
    interface: Interface,
) -> io::Result<()> {
    if interface.rings.len() != setup.workers {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // The seed of each stack's initial sequence numbers has to be unpredictable. The standard
    // library seeds its hashers with system randomness.
    let random = RandomState::new();
    let filter = interface.filter.ok();
    for (number, ring) in interface.rings.into_iter().enumerate() {
        let context = WorkerContext::new(setup, service.worker(), running.handles(number));
        let inbox = Arc::clone(&running.inboxes[number]);
        let poll = port::open(&ring, &inbox)?;
        let filter = filter.clone();
        let mut config = interface.config.clone();
        config.seed = random.hash_one(number);
        running.spawn(format!("worker-{number}"), move || {
            worker::run(context, Port::new(ring, filter, poll, inbox), &config);
        })?;
    }
    Ok(())
}
