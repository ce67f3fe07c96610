//! The configuration of a server, in memcached's terms.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use runtime::ConnectionCounts;
use session::{Access, AllowedProtocols, LatencyRecording, Permissions};

use crate::datagram_sockets::DatagramsConfig;
use crate::documents::Documents;
use crate::passwords::PasswordFile;
use crate::pool::PoolConfig;
use crate::tier::TierConfig;

/// A Unix socket to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixSocket {
    /// The path of the socket.
    pub path: PathBuf,
    /// The permissions of the socket file.
    pub mode: u32,
}

/// The device and the address of a server on the runtime `bypass`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// The name of the device.
    pub device: String,
    /// The address of the server, which the kernel must not have.
    pub address: Ipv4Addr,
    /// The number of bits of `address` that are those of its network.
    pub prefix_len: u8,
    /// The TCP port.
    pub port: u16,
}

/// The configuration of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// TCP addresses to listen on. `[::]` in addition to `0.0.0.0` is skipped on systems without
    /// IPv6.
    pub listen: Vec<SocketAddr>,
    /// Datagrams (`-U`).
    pub datagrams: Option<DatagramsConfig>,
    /// A Unix socket to listen on.
    pub unix_socket: Option<UnixSocket>,
    /// The device and the address of the runtime `bypass`, which has them instead of sockets to
    /// listen on.
    pub interface: Option<InterfaceConfig>,
    /// Memory of items and index, in bytes (`-m`).
    pub memory_bytes: u64,
    /// Largest item in bytes: value, key and memcached's overhead of 59 (`-I`).
    pub item_size_max: u32,
    /// Maximum number of simultaneous connections (`-c`).
    pub connections_max: u32,
    /// Worker threads (`-t`).
    pub workers: u32,
    /// Maximum number of requests of one connection that are answered in one turn (`-R`).
    pub requests_per_turn: u32,
    /// Maximum number of connections that wait in the kernel to be accepted (`-b`).
    pub backlog: u32,
    /// Evict items when memory is full; `-M` refuses new values instead.
    pub evicts: bool,
    /// How long a client may be silent before its connection is closed, in seconds
    /// (`-o idle_timeout`). None: it is kept.
    pub idle_s: Option<u32>,
    /// How long connections may take to finish after the server was told to stop (`--drain`).
    pub drain_ns: u64,
    /// Ask the kernel for huge pages (`-L`).
    pub huge_pages: bool,
    /// Keep all memory from being swapped (`-k`).
    pub lock_memory: bool,
    /// Allow core dumps of any size (`-r`).
    pub core_dumps: bool,
    /// The protocols that clients may use (`-B`).
    pub protocols: AllowedProtocols,
    /// The file of passwords (`-Y`, `-S`). `None`: clients need no password.
    pub passwords: Option<PasswordFile>,
    /// Commands that flags enable or disable (`-A`, `-F`, `-X`, `-W`).
    pub permissions: Permissions,
    /// Whether clients may stop and advance the server's clock (`--debug-time`).
    pub debug_time: bool,
    /// How many entries of the index the command `prefix` visits in a second
    /// (`--prefix-commands`). `None`: it is not served.
    pub prefix_rate: Option<u32>,
    /// Count by key prefix from the start; this byte ends a prefix (`-D`).
    pub prefix_delimiter: Option<u8>,
    /// Further rows of `stats settings`: values of memcached's flags, most of which have no effect.
    pub settings: Vec<(&'static str, String)>,
    /// The user to become when started as root (`-u`).
    pub user: Option<String>,
    /// The runtime that serves the connections; none means the best one that this machine
    /// supports.
    pub runtime: Option<runtime::Kind>,
    /// The scheduler of the fibres runtime; none means the fair one.
    pub fibre_scheduler: Option<runtime::Scheduler>,
    /// How the workers wait for events.
    pub wait_policy: runtime::WaitPolicy,
    /// The address of the admin pages.
    pub admin: Option<SocketAddr>,
    /// The names of this host for the admin pages and the documents, besides its addresses and
    /// names without a dot.
    pub host_names: Vec<String>,
    /// Documents over HTTP.
    pub documents: Option<Documents>,
    /// The tier that takes evicted items.
    pub tier: Option<TierConfig>,
    /// The pool of memory in which the items are, instead of a store.
    pub pool: Option<PoolConfig>,
    /// Record how long requests are in the server: of all bursts with `admin`, else of some.
    pub records_latency: bool,
    /// The level of detail on standard error (`-v`).
    pub verbosity: u32,
}

impl Config {
    /// What a new connection may do.
    pub(crate) fn access(&self) -> Access {
        Access {
            protocols: self.protocols,
            needs_login: self.passwords.is_some(),
        }
    }

    /// The bursts whose times are recorded.
    pub(crate) fn latency_recording(&self) -> LatencyRecording {
        match (self.records_latency, self.admin) {
            (false, _) => LatencyRecording::Off,
            (true, None) => LatencyRecording::Sampled,
            (true, Some(_)) => LatencyRecording::Every,
        }
    }

    /// The value of a further row of `stats settings`, if a flag gave one.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let given = self.settings.iter().find(|(given, _)| *given == name);
        given.map(|(_, value)| value.as_str())
    }

    /// The counts of the connections of one runtime, with the limits of connections and of their
    /// memory. Runtimes are limited and counted apart.
    pub(crate) fn connection_counts(&self) -> Arc<ConnectionCounts> {
        let (connections, workers) = (self.connections_max, self.workers.max(1));
        let buffered = runtime::buffered_max(self.memory_bytes, connections, workers);
        Arc::new(ConnectionCounts::new(u64::from(connections), buffered))
    }
}

/// The user that a server started as root becomes by default.
pub const DEFAULT_USER: &str = "nobody";
