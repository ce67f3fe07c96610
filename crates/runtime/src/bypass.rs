//! The runtime `bypass`. As in a library operating system, a TCP/IP stack in the server's own
//! process serves the connections. The kernel's TCP is not on the path of a request.
//!
//! ```text
//! device ─▶ packet socket ─▶ tcpip::Stack ─▶ burst ─▶ tcpip::Stack ─▶ packet socket ─▶ device
//! ```
//!
//! Each worker has a packet socket and a stack. The packet socket has a *ring*, in which the kernel
//! stores received frames (`sys::packet_ring`). The worker serves ready connections by the same
//! code as the runtime `events`, which waits by epoll (`crate::readiness`). The kernel passes all
//! frames of a connection to the same worker. There is no acceptor thread: each worker accepts the
//! connections of its own stack.
//!
//! The kernel must not have the address of the server. Otherwise the kernel's TCP would send a
//! reset for each segment that the server answers. The packet socket receives a copy of each frame,
//! and the kernel's stack gets the original. If the process has the privilege, it attaches a
//! *filter* to the device (a BPF program, `sys::ingress_filter`). The filter discards the original
//! before the kernel looks for a route.
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

/// A network device, opened for a number of workers, and the address that the server has on it.
#[derive(Debug)]
pub struct Interface {
    /// One packet socket per worker.
    rings: Vec<PacketRing>,
    /// The filter that discards the original frames, or the error if it could not be attached.
    filter: io::Result<Arc<IngressFilter>>,
    /// The configuration of each worker's stack. Only the seed of the initial sequence numbers is
    /// missing, because each stack gets another one.
    config: Config,
}

impl Interface {
    /// Opens the device with the name `device`, in the network namespace of the calling thread, for
    /// `workers` workers. The server has the address `address`, in a network whose prefix has
    /// `prefix_len` bits, and accepts connections at the TCP port `port`.
    ///
    /// # Errors
    /// `PermissionDenied`: the process lacks `CAP_NET_RAW`. `NotFound`: there is no such device.
    /// `NetworkDown`: the device is down. `AddrInUse`: `address` is an address of the kernel, or
    /// the kernel lets sockets bind addresses other than its own (`net.ipv4.ip_nonlocal_bind`).
    pub fn open(
        device: &str,
        address: Ipv4Addr,
        prefix_len: u8,
        port: u16,
        workers: usize,
    ) -> io::Result<Self> {
        let device = Device::find(device)?;
        // The bind has to fail: it succeeds only for an address that the kernel has, or if the
        // kernel allows any address.
        if UdpSocket::bind((address, 0)).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        // The sockets of several workers form a group. The kernel passes each frame to one socket
        // of the group.
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
        // The filter only saves work. Without the filter, the kernel's stack looks for a route for
        // each packet to the server before it discards the packet. (A router forwards the packet
        // instead.)
        let filter = IngressFilter::attach(&device.name, address).map(Arc::new);
        Ok(Self {
            rings,
            filter,
            config,
        })
    }

    /// Returns the error because of which the filter is not attached to the device. Then the
    /// kernel's own stack also handles the packets to the server, which costs processor time.
    /// `None` if the filter is attached.
    #[must_use]
    pub fn filter_problem(&self) -> Option<&io::Error> {
        self.filter.as_ref().err()
    }
}

/// Starts the worker threads, one for each ring of the interface.
///
/// # Errors
/// The limit of descriptors or threads is reached. `InvalidInput`: the number of workers of `setup`
/// differs from the number for which the interface was opened.
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
        // Other threads wake the worker by its inbox, and stop it by a flag in its handles.
        let context = WorkerContext::new(setup, service.worker(), running.handles(number));
        let inbox = Arc::clone(&running.inboxes[number]);
        let poll = port::open_poll(&ring, &inbox)?;
        let filter = filter.clone();
        let mut config = interface.config.clone();
        config.seed = random.hash_one(number);
        running.spawn(format!("worker-{number}"), move || {
            worker::run(context, Port::new(ring, filter, poll, inbox), &config);
        })?;
    }
    Ok(())
}
