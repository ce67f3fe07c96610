//! The address of documents: a second runtime of the cache's kind, for the service
//! `files::documents`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use files::documents::{AccessLog, DocumentService, ItemService, WallClock};
use files::limits::{ITEM_VALUE_MAX, NAMES_MAX, READERS, REQUESTS_PER_TURN};
use files::{FileSet, Misses, Openers, StartError, StrategyKind, SystemDisk};
use runtime::{ConnectionCounts, Kind, Running, Setup};
use service::Service as _;
use session::CacheService;
use sys::clock::{monotonic_ns, unix_ns};
use sys::file_opener::FileOpener;
use sys::socket::Bound;

use crate::cached_items::CachedItems;
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
    /// What reads the bytes that would block a worker. An io_uring is possible with
    /// [`StrategyKind::Nowait`] alone.
    pub misses: Misses,
    /// How long a client may be silent before its connection is closed, in seconds. None: it is
    /// kept.
    pub idle_s: Option<u32>,
    /// Whether the items of the cache are served too, below `/cache/`.
    pub serves_cache: bool,
    /// The file for the log of requests.
    pub log: Option<PathBuf>,
    /// Whether long documents in memory are sent by sendfile.
    pub sends_files: bool,
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
    let remembered = match documents.strategy.remembers_names() {
        true => NAMES_MAX as u64,
        false => 0,
    };
    let openers = match documents.strategy.uses_openers() {
        true => READERS as u64,
        false => 0,
    };
    // The io_uring and its waker.
    let ring = match documents.misses {
        Misses::Threads => 0,
        Misses::Uring => 2,
    };
    u64::from(config.connections_max) * 2
        + u64::from(config.workers) * (remembered + 2)
        + READERS as u64
        + openers
        + ring
}

/// The folder with the documents, and the processes that open its files if the strategy needs
/// them.
pub(crate) struct Root {
    documents: Documents,
    disk: SystemDisk,
    openers: Openers<FileOpener>,
}

impl Root {
    /// Opens the folder as the user who serves it, and starts the openers. They are copies of this
    /// process, so this happens before the memory of the cache is populated.
    pub(crate) fn open(documents: &Documents) -> Result<Self, Error> {
        let disk = SystemDisk::open(&documents.root).map_err(|source| Error::Root {
            path: documents.root.clone(),
            source,
        })?;
        let openers = Openers::start(&disk, documents.strategy).map_err(Error::Start)?;
        Ok(Self {
            documents: documents.clone(),
            disk,
            openers,
        })
    }
}

/// The parts of the documents that exist before they are served.
pub(crate) struct Parts {
    documents: Documents,
    bound: Bound,
    pub(crate) files: Arc<FileSet<SystemDisk>>,
    pub(crate) counts: Arc<ConnectionCounts>,
    pub(crate) log: Option<Arc<AccessLog>>,
}

impl Parts {
    /// Opens the log, and starts the threads that may wait for the disk.
    pub(crate) fn new(bound: Bound, root: Root, config: &Config) -> Result<Self, Error> {
        let Root {
            documents,
            disk,
            openers,
        } = root;
        let open_log = |path: &PathBuf| {
            AccessLog::open(path).map_err(|source| Error::HttpLog {
                path: path.clone(),
                source,
            })
        };
        let log = documents.log.as_ref().map(open_log).transpose()?;
        let files = FileSet::start_with(disk, documents.strategy, documents.misses, openers);
        let files = files.map_err(|error| match error {
            StartError::Readers(source) => Error::Start(source),
            error => Error::FileRing(error),
        })?;
        Ok(Self {
            documents,
            bound,
            files,
            counts: config.connection_counts(),
            log,
        })
    }
}

/// The items of the cache.
fn items(cache: &CacheService, config: &Config) -> ItemService {
    let (store, readers, clock) = (
        Arc::clone(&cache.store),
        cache.tier.clone(),
        cache.clock.clone(),
    );
    ItemService {
        worker: Arc::new(move || {
            Box::new(CachedItems::new(&store, readers.as_ref(), clock.clone()))
        }),
        wake_maintenance: Arc::from(cache.maintenance_waker()),
        value_max: (config.item_size_max as usize).min(ITEM_VALUE_MAX),
    }
}

/// Serves the documents. The limits of connections and of their memory are those of the cache, and
/// are counted apart.
pub(crate) fn start(
    parts: Parts,
    kind: Kind,
    config: &Config,
    cache: &CacheService,
) -> Result<Running, Error> {
    let documents = parts.documents;
    let setup = Setup {
        workers: config.workers.max(1) as usize,
        requests_per_turn: REQUESTS_PER_TURN,
        wait_policy: config.wait_policy,
        fibre_scheduler: config.fibre_scheduler.unwrap_or(runtime::Scheduler::Fair),
        idle_s: documents.idle_s,
        drain_ns: config.drain_ns,
        counts: parts.counts,
    };
    let clock = WallClock {
        monotonic_ns: monotonic_ns(),
        unix_ns: unix_ns(),
    };
    let service = DocumentService::new(parts.files, clock)
        .with_log(parts.log)
        .with_host_names(&config.host_names)
        .with_sendfile(documents.sends_files)
        .with_items(documents.serves_cache.then(|| items(cache, config)));
    let bound = parts.bound;
    let address = bound.address();
    let backlog = i32::try_from(config.backlog).unwrap_or(i32::MAX);
    let listener = bound.listen(backlog).map_err(|source| match address {
        Some(address) => Error::ListenHttp { address, source },
        None => Error::Start(source),
    })?;
    // A device is for the cache alone.
    let kind = match kind {
        Kind::Bypass => Kind::Events,
        kind => kind,
    };
    runtime::start(kind, &service, setup, vec![listener.into()]).map_err(Error::Start)
}
