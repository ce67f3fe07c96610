//! The clients of a pool of memory, for a server whose items are there.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use pool::client_thread::{ClientStatus, ClientThread};
use pool::port::{Port, UDP_PORT};
use pool::{ClientConfig, Station};
use session::StatWriter;

use crate::config::Config;
use crate::error::Error;
use crate::limits::{POOL_ADDRESS_TRIES, POOL_OPERATIONS_MAX, POOL_REFUSALS_MAX};

/// Where the items are, if they are in a pool of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// The address of the metadata service.
    pub metadata: Ipv4Addr,
    /// The address at which the memory node is reached, if not where the metadata service says.
    pub node: Option<Ipv4Addr>,
    /// The address of the first client; each further one has the next. `None`: loopback addresses
    /// that no process has.
    pub from: Option<Ipv4Addr>,
    /// A middlebox redirects operations.
    pub is_steered: bool,
    /// How long an operation may wait to begin, and how long it may take then, in nanoseconds.
    pub timeout_ns: u64,
}

/// Open files that the clients need: each a socket, an epoll instance and an event.
pub(crate) fn files_needed(config: &Config) -> u64 {
    config
        .pool
        .as_ref()
        .map_or(0, |_| 3 * u64::from(config.workers.max(1)))
}

/// Opens the ports of as many clients.
pub(crate) fn open_ports(config: &PoolConfig, clients: u32) -> Result<Vec<Port>, Error> {
    let random = RandomState::new();
    let open = |number: u32| match config.from {
        Some(first) => {
            let ip = Ipv4Addr::from(u32::from(first).saturating_add(number));
            Port::loopback(ip.octets()).map_err(|source| Error::PoolPort { ip, source })
        }
        None if config.metadata.is_loopback() => open_free(&random, number).map_err(Error::Start),
        None => Err(Error::PoolFrom(config.metadata)),
    };
    (0..clients).map(open).collect()
}

/// Opens a port at a loopback address above 127.64.0.0 that no other process has.
fn open_free(random: &RandomState, number: u32) -> io::Result<Port> {
    let mut last_error = io::Error::from(io::ErrorKind::AddrInUse);
    for attempt in 0..POOL_ADDRESS_TRIES {
        let [_, a, b, c, ..] = random.hash_one((number, attempt)).to_be_bytes();
        match Port::loopback([127, 64 | a & 63, b, c.clamp(1, 254)]) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last_error = error,
            opened => return opened,
        }
    }
    Err(last_error)
}

/// Starts a client at each port. They connect when the pool answers. `unix_start_ns` is the Unix
/// time at time 0 of the monotonic clock, in nanoseconds.
pub(crate) fn start(
    config: &PoolConfig,
    ports: Vec<Port>,
    unix_start_ns: u64,
) -> Result<Arc<[ClientThread]>, Error> {
    let station = |ip: Ipv4Addr| Station::of_ip(ip.octets(), UDP_PORT);
    let random = RandomState::new();
    let start = |port: Port| {
        let me = port.station();
        let seed = random.hash_one(me.ip);
        let client = ClientConfig {
            node: config.node.map(station),
            outstanding_max: POOL_OPERATIONS_MAX,
            is_steered: config.is_steered,
            timeout_ns: config.timeout_ns,
            refusals_max: POOL_REFUSALS_MAX,
            unix_start_ns,
            ..ClientConfig::new(me, station(config.metadata), seed)
        };
        ClientThread::start(client, port).map_err(Error::Start)
    };
    ports.into_iter().map(start).collect()
}

/// Writes the statistics of all clients together. They are counts since the start, also after
/// `stats reset`.
pub(crate) fn write_stats(clients: &[ClientThread], out: &mut dyn StatWriter) {
    let (mut sum, mut ready) = (ClientStatus::default(), 0);
    for client in clients {
        let status = client.status();
        ready += u64::from(status.is_ready);
        sum.pending += status.pending;
        sum.pending_bytes += status.pending_bytes;
        sum.draft_bytes += status.draft_bytes;
        sum.refused += status.refused;
        sum.counters = sum.counters.plus(&status.counters);
    }
    let counters = sum.counters;
    for (name, value) in [
        ("pool_clients", clients.len() as u64),
        ("pool_clients_ready", ready),
        ("pool_operations_pending", sum.pending as u64),
        ("pool_bytes_pending", sum.pending_bytes as u64),
        ("pool_bytes_changing", sum.draft_bytes as u64),
        ("pool_operations_refused", sum.refused),
        ("pool_operations", counters.completed),
        ("pool_operations_failed", counters.failed),
        ("pool_reads", counters.reads),
        ("pool_writes", counters.writes),
        ("pool_swaps", counters.swaps),
        ("pool_swaps_won", counters.swaps_won),
        ("pool_stale_nodes", counters.stale),
        ("pool_restarts", counters.restarts),
        ("pool_lookups", counters.lookups),
        ("pool_reconnects", counters.reconnects),
        ("pool_changes_refused", counters.changes_refused),
        ("pool_leases_ended", counters.expired),
        ("pool_bytes_sent", counters.sent_bytes),
        ("pool_bytes_received", counters.received_bytes),
    ] {
        out.number(name.as_bytes(), value);
    }
}
