//! Starting the services: the cache with a store, or with a pool of memory, and the documents.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::mem;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use ::pool::client_thread::ClientThread;
use ::pool::port::Port;
use ::tier::Tier;
use runtime::{ConnectionCounts, Kind, Listening, Running, Scheduler, Setup, bypass};
use service::Service;
use session::{CacheService, Clock, CounterRegistry, PoolService};
use store::limits::MEMORY_MAX;
use store::{SharedTier, Store};
use sys::socket::Bound;

use crate::admin::Figures;
use crate::config::Config;
use crate::documents::{self, Parts, Root};
use crate::error::Error;
use crate::expired_items::ExpiredItems;
use crate::maintenance::MaintenancePacer;
use crate::passwords::PresentPasswords;
use crate::pool;
use crate::state::{HttpState, Items, ServerState, Sources};
use crate::tier::{self, OpenTier, RunningTier};
use crate::watch::Background;

/// Factor by which `cache_memlimit` may grow the memory of a running server. Until then, the
/// growth is reserved address space only.
const MEMORY_GROWTH: u64 = 16;

/// Where the clients of the cache connect.
pub(crate) enum Clients {
    /// At sockets of the kernel.
    Listeners(Vec<Listening>),
    /// At a device, with the runtime `bypass`.
    Interface(bypass::Interface),
}

/// The threads that serve the cache.
struct RunningCache {
    connections: Running,
    datagrams: Option<datagrams::Running>,
}

/// The parts of a server that exist before the services start.
pub(crate) struct Foundation<'a> {
    pub(crate) config: &'a Config,
    pub(crate) kind: Kind,
    pub(crate) fibre_scheduler: Scheduler,
    pub(crate) counts: Arc<ConnectionCounts>,
    pub(crate) counters: Arc<CounterRegistry>,
    pub(crate) clock: Clock,
    pub(crate) passwords: Option<Arc<PresentPasswords>>,
    /// The sockets for datagrams. Empty: there are none.
    pub(crate) sockets: Vec<UdpSocket>,
    pub(crate) datagram_counts: Arc<datagrams::Counts>,
}

/// The services that run, without the admin pages.
pub(crate) struct Serving {
    pub(crate) state: Arc<ServerState>,
    running: RunningCache,
    /// The documents over HTTP.
    documents: Option<Running>,
    /// The tier that takes evicted items.
    tier: Option<RunningTier>,
    /// The work on the store. `None`: the items are in a pool.
    pub(crate) background: Option<Background>,
    /// The clients of a pool.
    clients: Arc<[ClientThread]>,
}

impl Serving {
    /// Stops the services, after each connection has finished its requests.
    pub(crate) fn stop(
        self,
        stop_last: impl FnOnce() -> Result<(), runtime::Panicked>,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        // This releases the segment that is being populated. Otherwise a worker could wait for it
        // while the server stops.
        drop(self.background);
        let datagrams_stopped = self
            .running
            .datagrams
            .map_or(Ok(()), datagrams::Running::stop);
        let stopped = self.running.connections.stop();
        let documents_stopped = self.documents.map_or(Ok(()), Running::stop);
        // All at once, so that none waits for the end of another's lease.
        self.clients.iter().for_each(ClientThread::close);
        stop_last()?;
        stopped?;
        datagrams_stopped?;
        if let Some(tier) = self.tier {
            tier.stop(say);
        }
        Ok(documents_stopped?)
    }

    /// Stops the services because another one did not start.
    pub(crate) fn give_up(self) {
        // No connection has been served, so nothing has panicked.
        let _ = self.stop(|| Ok(()), &mut |_| {});
    }
}

impl Foundation<'_> {
    /// The sources of the admin pages besides the state.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            clock: self.clock.clone(),
            counters: Arc::clone(&self.counters),
            // A pool's operations take longer than a burst.
            records_latency: self.config.records_latency && self.config.pool.is_none(),
        }
    }

    /// Starts the cache with a store, and the documents.
    pub(crate) fn start_cache(
        mut self,
        listen: impl FnOnce() -> Result<Clients, Error>,
        documents: Option<(Bound, Root)>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Serving, Error> {
        let config = self.config;
        let (store, lower) = open_store(config, &self.clock, say)?;
        // Populate memory now, or else the first requests would wait for page faults.
        let mut maintenance = MaintenancePacer::new(&store, config.huge_pages);
        let mut log_verbose = |line: &str| {
            if config.verbosity > 0 {
                say(line);
            }
        };
        maintenance.run_at_start(&mut log_verbose);
        let documents = documents.map(|(bound, root)| Parts::new(bound, root, config));
        let documents = documents.transpose()?;
        let http = documents.as_ref().map(HttpState::new);
        let items = Items::Store {
            store: Arc::clone(&store),
            tier: lower.as_ref().map(|it| Arc::clone(&it.tier)),
        };
        let state = self.state(items, http)?;
        let lower = lower.map(|lower| lower.start(&store)).transpose()?;
        let expired = ExpiredItems::new(&store, self.clock.clone());
        let cache = CacheService {
            tier: lower.as_ref().map(|lower| Arc::clone(&lower.readers)),
            access: config.access(),
            store,
            control: Arc::<ServerState>::clone(&state),
            counters: Arc::clone(&self.counters),
            clock: self.clock.clone(),
            latency: config.latency_recording(),
        };
        let mut serving = Serving {
            state,
            running: self.run(&cache, listen()?)?,
            documents: None,
            tier: lower,
            background: Some(Background {
                maintenance,
                expired,
            }),
            clients: Arc::default(),
        };
        let started = documents.map(|parts| documents::start(parts, self.kind, config, &cache));
        match started.transpose() {
            Ok(documents) => serving.documents = documents,
            Err(error) => {
                serving.give_up();
                return Err(error);
            }
        }
        Ok(serving)
    }

    /// Starts the cache in a pool, whose clients have these ports.
    pub(crate) fn start_pool(
        mut self,
        listen: impl FnOnce() -> Result<Clients, Error>,
        config: &pool::PoolConfig,
        ports: Vec<Port>,
    ) -> Result<Serving, Error> {
        let unix_start_ns = sys::clock::unix_less_monotonic_ns();
        let clients = pool::start(config, ports, unix_start_ns)?;
        let running = self.run_pool(listen, &clients, unix_start_ns);
        // All begin to end before one is dropped: each may have to wait for the pool until it ends.
        let close = |_: &Error| clients.iter().for_each(ClientThread::close);
        let (state, running) = running.inspect_err(close)?;
        Ok(Serving {
            state,
            running,
            documents: None,
            tier: None,
            background: None,
            clients,
        })
    }

    fn run_pool(
        &mut self,
        listen: impl FnOnce() -> Result<Clients, Error>,
        clients: &Arc<[ClientThread]>,
        unix_start_ns: u64,
    ) -> Result<(Arc<ServerState>, RunningCache), Error> {
        let state = self.state(Items::Pool(Arc::clone(clients)), None)?;
        let service = PoolService {
            clients: Arc::clone(clients),
            control: Arc::<ServerState>::clone(&state),
            counters: Arc::clone(&self.counters),
            clock: self.clock.clone(),
            unix_start_ns,
            access: self.config.access(),
            workers: AtomicUsize::new(0),
        };
        let running = self.run(&service, listen()?)?;
        Ok((state, running))
    }

    /// Serves connections, and datagrams if there are sockets for them.
    fn run(&mut self, service: &impl Service, clients: Clients) -> Result<RunningCache, Error> {
        let datagrams = self.run_datagrams(service)?;
        let connections = match clients {
            Clients::Listeners(all) => runtime::start(self.kind, service, self.setup(), all),
            Clients::Interface(it) => runtime::start_bypass(service, self.setup(), it),
        };
        match connections {
            Ok(connections) => Ok(RunningCache {
                connections,
                datagrams,
            }),
            Err(error) => {
                // Nothing but the failed start is to be reported.
                let _ = datagrams.map(datagrams::Running::stop);
                Err(Error::Start(error))
            }
        }
    }

    fn run_datagrams(
        &mut self,
        service: &impl Service,
    ) -> Result<Option<datagrams::Running>, Error> {
        let Some(config) = &self.config.datagrams else {
            return Ok(None);
        };
        let (sockets, counts) = (mem::take(&mut self.sockets), &self.datagram_counts);
        let started = datagrams::start(service, sockets, config.limit, Arc::clone(counts));
        started.map(Some).map_err(Error::Start)
    }

    fn state(&self, items: Items, http: Option<HttpState>) -> Result<Arc<ServerState>, Error> {
        if let Some(delimiter) = self.config.prefix_delimiter {
            self.counters.set_prefix_counting(true, delimiter);
        }
        let sources = Sources {
            counts: Arc::clone(&self.counts),
            counters: Arc::clone(&self.counters),
            datagram_counts: Arc::clone(&self.datagram_counts),
            clock: self.clock.clone(),
            passwords: self.passwords.clone(),
        };
        let state = ServerState::new(self.config, items, http, sources);
        Ok(Arc::new(state.map_err(Error::Start)?))
    }

    fn setup(&self) -> Setup {
        let config = self.config;
        let per_turn = config.requests_per_turn.max(1) as usize;
        Setup {
            workers: config.workers.max(1) as usize,
            requests_per_turn: per_turn.min(session::limits::REQUESTS_PER_TURN_MAX),
            wait_policy: config.wait_policy,
            idle_s: config.idle_s,
            drain_ns: config.drain_ns,
            fibre_scheduler: self.fibre_scheduler,
            counts: Arc::clone(&self.counts),
        }
    }
}

/// Creates the store, and opens the tier below it, if one is configured.
fn open_store(
    config: &Config,
    clock: &Clock,
    say: &mut dyn FnMut(&str),
) -> Result<(Arc<Store>, Option<OpenTier>), Error> {
    // The standard library seeds its hashers with system randomness.
    let hash_seed = RandomState::new().hash_one(std::process::id());
    let epoch_unix_s = clock.at(0).epoch_unix_s;
    let open_tier = |it| tier::open(it, hash_seed, epoch_unix_s, say);
    let opened = config.tier.as_ref().map(open_tier).transpose()?;
    let tier = opened.as_ref();
    let store_config = store::Config {
        memory_bytes: config.memory_bytes,
        memory_max: config
            .memory_bytes
            .saturating_mul(MEMORY_GROWTH)
            .min(MEMORY_MAX),
        workers: config.workers.max(1) as usize,
        evicts: config.evicts,
        huge_pages: config.huge_pages,
        item_max: config.item_size_max,
        // The hashes of a tier that is continued have its seed.
        hash_seed: tier.map_or(hash_seed, |tier| tier.hash_seed),
    };
    let tier = tier.map(|it| -> SharedTier { Arc::<Tier>::clone(&it.tier) });
    Ok((Store::with_tier(store_config, tier)?, opened))
}
