//! The errors of starting and stopping a server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use thiserror::Error;

use crate::passwords::PasswordFileError;

/// Why a server did not start, or did not stop in order.
#[derive(Debug, Error)]
pub enum Error {
    /// Listening on an address failed.
    #[error("failed to listen on {address}: {source} ({})", listen_remedy(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Binding an address for datagrams failed.
    #[error(
        "failed to receive datagrams at {address}: {source} (choose another port with -U, or leave \
         -U out)"
    )]
    Datagrams {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A datagram cannot have a password.
    #[error("-U has no passwords, and -Y or -S requires one: leave one of them out")]
    DatagramsWithPasswords,
    /// The runtime `bypass` has no sockets of the kernel.
    #[error("--runtime bypass serves no datagrams: leave -U out, or choose another runtime")]
    DatagramsOnBypass,
    /// Listening on a Unix socket failed.
    #[error("failed to listen on the Unix socket {}: {source} (choose another path with -s)", path.display())]
    ListenUnix {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The store rejects the memory limit or the item size.
    #[error("{0} (change -m or -I)")]
    Store(#[from] store::ConfigError),
    /// The user to become does not exist.
    #[error("no user {0:?} to become: name an existing one with -u")]
    NoSuchUser(String),
    /// Root privileges could not be dropped.
    #[error("failed to become user {user:?}: {source}")]
    BecomeUser {
        /// The user.
        user: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Listening on the admin address failed.
    #[error("failed to listen on {address}: {source} (choose another address with --admin)")]
    ListenAdmin {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The log of HTTP requests cannot be written.
    #[error("failed to open {}: {source} (choose another file with --http-log)", path.display())]
    HttpLog {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The io_uring that reads files did not start.
    #[error("failed to {0} (leave --file-misses uring out)")]
    FileRing(files::StartError),
    /// Listening on the address of the documents failed.
    #[error("failed to listen on {address}: {source} (choose another address with --http)")]
    ListenHttp {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The folder with the documents cannot be entered.
    #[error("failed to open the folder {}: {source} (choose another folder with --root)", path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file of passwords cannot be used.
    #[error(
        "failed to read the passwords of {}: {source} (name another file with -Y, or with \
         MEMCACHED_SASL_PWDB for -S)",
        path.display()
    )]
    Passwords {
        /// The path of the file.
        path: PathBuf,
        /// Why.
        source: PasswordFileError,
    },
    /// Items over HTTP need no password.
    #[error(
        "--http-cache serves items to clients without a password, and -Y or -S requires one: \
         leave one of them out"
    )]
    HttpCacheWithPasswords,
    /// Clients without a password could read the passwords.
    #[error(
        "the file of passwords is below the folder of --root, whose files are served without a \
         password: move one of them"
    )]
    PasswordsBelowRoot,
    /// A file of the tier cannot be used.
    #[error("failed to open the file {} of the tier: {source} (choose another with --tier)", path.display())]
    TierFile {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The tier cannot be of these sizes.
    #[error("{0} (change --tier, --tier-item-size or -o ext_page_size)")]
    Tier(#[from] ::tier::RulesError),
    /// A store that does not evict has nothing for the tier.
    #[error("--tier takes evicted items, and -M evicts none: leave one of them out")]
    TierWithoutEviction,
    /// A client of the pool has no port.
    #[error(
        "failed to open UDP port 4791 of {ip}: {source} (each worker needs an address of this machine \
         on which no other process has this port: give the first with --pool-from)"
    )]
    PoolPort {
        /// The address.
        ip: Ipv4Addr,
        /// The system's error.
        source: io::Error,
    },
    /// The clients of a pool on another machine have no addresses.
    #[error("--pool {0}: give the first address of this machine for its clients with --pool-from")]
    PoolFrom(Ipv4Addr),
    /// Flags that need a store.
    #[error("--pool has no store of its own, which --tier and --http need: leave one of them out")]
    PoolAlone,
    /// The clients of a pool have clocks of their own.
    #[error("--debug-time does not change when items of --pool expire: leave one of them out")]
    PoolDebugTime,
    /// A pool has no index on this machine that could be walked.
    #[error("--prefix-commands does not find the items of --pool: leave one of them out")]
    PoolPrefixCommands,
    /// Times that a client has moved forward would be saved with the tier.
    #[error(
        "--debug-time would change when items of --tier expire after a restart: leave one of them \
         out"
    )]
    TierDebugTime,
    /// Locking memory failed.
    #[error("failed to lock memory (-k): {0} (raise the limit: ulimit -l)")]
    LockMemory(io::Error),
    /// Core dumps could not be allowed.
    #[error(
        "failed to allow core dumps (-r): {0} (raise the hard limit: ulimit -Hc unlimited, or leave \
         out -r)"
    )]
    CoreDumps(io::Error),
    /// The limit of locked memory is below the memory of the store.
    #[error(
        "-k locks {wanted} bytes of memory, but the limit is {limit}: raise the limit \
         (ulimit -l), lower -m or leave out -k"
    )]
    LockedMemory {
        /// Bytes of memory of the store.
        wanted: u64,
        /// Bytes that may be locked.
        limit: u64,
    },
    /// The limit of open files is below the number of connections.
    #[error(
        "-c {connections} needs {wanted} open files, but the limit is {limit}: raise it \
         (ulimit -n {wanted}) or lower -c"
    )]
    OpenFiles {
        /// Configured connections.
        connections: u32,
        /// Open files that they need.
        wanted: u64,
        /// The limit of open files.
        limit: u64,
    },
    /// This machine does not support the runtime.
    #[error("failed to use --runtime {}: {source} (leave it out, or give --runtime events)", kind.name())]
    Runtime {
        /// The runtime.
        kind: runtime::Kind,
        /// The system's error.
        source: io::Error,
    },
    /// Flags that do not apply to the runtime.
    #[error(
        "--busy-poll and --min-wait apply to --runtime rings, events and bypass only: leave them out, \
         or choose one of these"
    )]
    WaitPolicy,
    /// A fibre scheduler for a runtime without fibres.
    #[error(
        "--fibre-scheduler applies to --runtime fibres only: leave it out, or choose that runtime"
    )]
    Scheduler,
    /// The runtime and the interface do not go together.
    #[error(
        "--runtime bypass needs --interface and --address, and no other runtime has them: give all \
         three, or none"
    )]
    Interface,
    /// The device of the interface cannot be used.
    #[error("failed to open the interface {device}: {source} ({remedy})")]
    OpenInterface {
        /// The name of the device.
        device: String,
        /// The system's error.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// The system refused a resource, such as a thread or a descriptor.
    #[error("failed to start: {0}")]
    Start(io::Error),
    /// A thread panicked.
    #[error("{0}")]
    Panicked(#[from] runtime::Panicked),
    /// The thread of the datagrams panicked.
    #[error("{0}")]
    DatagramsPanicked(#[from] datagrams::Panicked),
}

fn listen_remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "is another server running? choose another port with -p or address with -l"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have the address: name one that `ip address` shows with -l"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need root or CAP_NET_BIND_SERVICE: choose another one with -p"
        }
        _ => "choose another port with -p or address with -l",
    }
}
