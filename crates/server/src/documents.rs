//! The address of documents: a second runtime of the cache's kind, for the service
//! `files::documents`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use files::documents::{DocumentService, WallClock};
use files::limits::{NAMES_MAX, READERS, REQUESTS_PER_TURN};
use files::{FileSet, StrategyKind, SystemDisk};
use runtime::{ConnectionCounts, Kind, Running, Setup};
use sys::clock::{monotonic_ns, unix_ns};
use sys::socket::Bound;

use crate::config::Config;
use crate::error::Error;

/// Documents over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documents {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The folder with the documents.
    pub root: PathBuf,
    /// How files are read.
    pub strategy: StrategyKind,
    /// How long a client may be silent before its connection is closed, in seconds. None: it is
    /// kept.
    pub idle_s: Option<u32>,
}

/// Binds the address. It needs root for a port below 1024.
pub(crate) fn bind(address: SocketAddr) -> Result<Bound, Error> {
    Bound::tcp(address).map_err(|source| Error::ListenHttp { address, source })
}

/// Open files that the documents need: a connection and a document for each client, and the
/// descriptors that workers remember.
pub(crate) fn files_needed(config: &Config) -> u64 {
    let Some(documents) = &config.documents else {
        return 0;
    };
    let remembered = match documents.strategy {
        StrategyKind::Flash => NAMES_MAX as u64,
        StrategyKind::Nowait | StrategyKind::Naive => 0,
    };
    u64::from(config.connections_max) * 2
        + u64::from(config.workers) * (remembered + 2)
        + READERS as u64
}

/// Opens the folder with the documents, as the user who serves them.
pub(crate) fn open_root(path: &Path) -> Result<SystemDisk, Error> {
    SystemDisk::open(path).map_err(|source| Error::Root {
        path: path.to_owned(),
        source,
    })
}

/// The counters of the connections of the documents.
pub(crate) fn counts(config: &Config) -> Arc<ConnectionCounts> {
    let (connections, workers) = (config.connections_max, config.workers.max(1));
    let buffered = runtime::buffered_max(config.memory_bytes, connections, workers);
    Arc::new(ConnectionCounts::new(u64::from(connections), buffered))
}

/// Serves the documents. The limits of connections and of their memory are those of the cache, and
/// are counted apart.
pub(crate) fn start(
    bound: Bound,
    disk: SystemDisk,
    documents: &Documents,
    kind: Kind,
    config: &Config,
    counts: &Arc<ConnectionCounts>,
) -> Result<Running, Error> {
    let setup = Setup {
        workers: config.workers.max(1) as usize,
        requests_per_turn: REQUESTS_PER_TURN,
        wait_policy: config.wait_policy,
        fibre_scheduler: config.fibre_scheduler.unwrap_or(runtime::Scheduler::Fair),
        idle_s: documents.idle_s,
        counts: Arc::clone(counts),
    };
    let files = FileSet::start(disk, documents.strategy).map_err(Error::Start)?;
    let clock = WallClock {
        monotonic_ns: monotonic_ns(),
        unix_ns: unix_ns(),
    };
    let service = DocumentService::new(files, clock);
    let address = bound.address();
    let backlog = i32::try_from(config.backlog).unwrap_or(i32::MAX);
    let listener = bound.listen(backlog).map_err(|source| match address {
        Some(address) => Error::ListenHttp { address, source },
        None => Error::Start(source),
    })?;
    runtime::start(kind, &service, setup, vec![listener.into()]).map_err(Error::Start)
}
