//! Why a server could not start or did not end in order.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Why a server could not start or did not end in order.
#[derive(Debug, Error)]
pub enum Error {
    /// Neither a TCP address nor a Unix socket was asked for.
    #[error("nothing to listen on: give a port other than 0 (-p) or a Unix socket (-s)")]
    NothingToListenOn,
    /// An address could not be listened on.
    #[error(
        "failed to listen on {address}: {source} (is another server running? choose another \
         port with -p or address with -l)"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A Unix socket could not be listened on.
    #[error("failed to listen on the Unix socket {}: {source} (choose another path with -s)", path.display())]
    ListenUnix {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The memory and item size cannot work together.
    #[error("{0} (change -m or -I)")]
    Store(#[from] store::ConfigError),
    /// The user to become does not exist.
    #[error("no user {0:?} to become: name an existing one with -u")]
    NoSuchUser(String),
    /// Root could not be given up.
    #[error("failed to become user {user:?}: {source}")]
    BecomeUser {
        /// The user.
        user: String,
        /// What the system said.
        source: io::Error,
    },
    /// Memory could not be locked.
    #[error("failed to lock memory (-k): {0} (raise the limit: ulimit -l)")]
    LockMemory(io::Error),
    /// Less memory may be locked than the store will use.
    #[error(
        "{wanted} bytes of memory are to be locked (-k), and {limit} may be: raise the limit \
         (ulimit -l), lower -m or leave out -k"
    )]
    LockedMemory {
        /// Bytes of the store.
        wanted: u64,
        /// Bytes that may be locked.
        limit: u64,
    },
    /// Too few descriptors for the connections asked for.
    #[error(
        "{wanted} open files are needed for -c {connections}, and the limit is {limit}: raise it \
         (ulimit -n {wanted}) or lower -c"
    )]
    OpenFiles {
        /// Connections asked for.
        connections: u32,
        /// Descriptors they take.
        wanted: u64,
        /// Descriptors there may be.
        limit: u64,
    },
    /// The machine has not what the runtime needs.
    #[error("failed to use --runtime {}: {source} (leave it out, or give --runtime events)", kind.name())]
    Runtime {
        /// Which.
        kind: runtime::Kind,
        /// What is missing.
        source: io::Error,
    },
    /// Flags that the runtime has no use for.
    #[error(
        "--busy-poll and --min-wait are for workers that serve many connections: leave them out, or \
         give --runtime rings or events"
    )]
    Patience,
    /// A scheduler of fibres where there are none.
    #[error(
        "--fibre-scheduler chooses among fibres: leave it out, or give --runtime fibres as well"
    )]
    Scheduler,
    /// Threads or descriptors ran out while starting.
    #[error("failed to start: {0}")]
    Start(io::Error),
    /// A thread panicked.
    #[error("{0}")]
    Panicked(#[from] runtime::Panicked),
}
