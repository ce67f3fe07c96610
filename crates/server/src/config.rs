//! What a server is started with, in memcached's terms.

use std::net::SocketAddr;
use std::path::PathBuf;

/// A Unix socket to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixSocket {
    /// Where it stands.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
}

/// What a server is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// TCP addresses to listen on. `[::]` beside `0.0.0.0` is left out where there is no IPv6.
    pub listen: Vec<SocketAddr>,
    /// A Unix socket to listen on.
    pub unix_socket: Option<UnixSocket>,
    /// Memory of items and index, in bytes (`-m`).
    pub memory_bytes: u64,
    /// Largest item in bytes: value, key and memcached's overhead of 59 (`-I`).
    pub item_size_max: u32,
    /// Connections at once (`-c`).
    pub connections_max: u32,
    /// Worker threads (`-t`).
    pub workers: u32,
    /// Requests of one connection answered before others have their turn (`-R`).
    pub requests_per_turn: u32,
    /// Connections the kernel may keep waiting (`-b`).
    pub backlog: u32,
    /// Items leave to make room for others; otherwise what does not fit is refused (`-M`).
    pub evicts: bool,
    /// Ask the kernel for huge pages (`-L`).
    pub huge_pages: bool,
    /// Keep all memory from being swapped (`-k`).
    pub lock_memory: bool,
    /// The user to become when started as root (`-u`).
    pub user: Option<String>,
    /// Who runs the conversations; none: what this machine does best.
    pub runtime: Option<runtime::Kind>,
    /// Which fibre runs next, where fibres converse; none: the fair one's.
    pub fibre_scheduler: Option<runtime::Scheduler>,
    /// How its workers wait.
    pub patience: runtime::Patience,
    /// How much to say on standard error (`-v`).
    pub verbosity: u32,
}

/// The user a server started as root becomes if it is told none.
pub const DEFAULT_USER: &str = "nobody";
