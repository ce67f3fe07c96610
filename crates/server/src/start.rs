//! Starting a server in the right order, and stopping it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use runtime::{ConnectionCounts, Kind, Running, Scheduler, bypass};
use session::{Clock, CounterRegistry};
use sys::privileges::{self, User};
use sys::signals::Signals;
use sys::socket::Bound;

use crate::admin;
use crate::config::{Config, DEFAULT_USER, InterfaceConfig};
use crate::datagram_sockets;
use crate::documents;
use crate::error::Error;
use crate::event_collector;
use crate::passwords::PresentPasswords;
use crate::pool;
use crate::serving::{Clients, Foundation, Serving};
use crate::sockets;
use crate::tier;
use crate::watch;

const NS_PER_S: u64 = 1_000_000_000;
/// Descriptors that a server needs in addition to its connections: standard streams, listeners,
/// epoll instances, eventfds.
const OTHER_FILES: u64 = 32;

/// A running server.
pub struct Server {
    serving: Serving,
    /// The admin pages.
    admin: Option<Running>,
    signals: Signals,
    counts: Arc<ConnectionCounts>,
    addresses: Vec<SocketAddr>,
    datagram_addresses: Vec<SocketAddr>,
}

impl Server {
    /// Starts a server. It blocks signals in the calling thread and in threads started later, so
    /// no other thread may exist yet. `say` receives log lines for the operator.
    ///
    /// # Errors
    /// See [`Error`]. After an error nothing is left running.
    pub fn start(mut config: Config, say: &mut dyn FnMut(&str)) -> Result<Self, Error> {
        let signals = Signals::block().map_err(Error::Start)?;
        reject_contradictions(&config)?;
        let user = user_to_become(&config)?;
        raise_open_files(&config)?;
        // This needs root privileges. Clients cannot connect before `listen`, because the
        // remaining steps take time and may fail.
        let bound = sockets::bind(&config, say)?;
        let opened = open_interface(&mut config, say)?;
        let own = config.interface.as_ref();
        let own = own.map(|it| SocketAddr::from((it.address, it.port)));
        let addresses = bound.iter().filter_map(Bound::address).chain(own);
        let addresses: Vec<SocketAddr> = addresses.collect();
        let sockets = config
            .datagrams
            .as_ref()
            .map(datagram_sockets::bind)
            .transpose()?
            .unwrap_or_default();
        let admin = config.admin.map(admin::bind).transpose()?;
        let documents = config.documents.as_ref();
        let http = documents
            .map(|it| documents::bind(it.address))
            .transpose()?;
        let pool = config.pool.as_ref();
        let ports = pool.map(|it| pool::open_ports(it, config.workers.max(1)));
        let ports = ports.transpose()?;
        // As root, which may be the only user that can read them.
        let passwords = read_passwords(&config, say)?;
        // For port 0 the statistics show the port that the kernel chose.
        config.listen.clone_from(&addresses);
        let datagram_addresses = datagram_sockets::addresses(&sockets);
        if let Some(config) = &mut config.datagrams {
            config.addresses.clone_from(&datagram_addresses);
        }
        become_who_serves(&config, user.as_ref(), say)?;
        if let Some(problem) = passwords.as_ref().and_then(|it| it.reload_problem()) {
            say(&problem);
        }
        // As who will serve: root may use what others may not (`kernel.io_uring_disabled = 1`).
        let kind = choose_runtime(&config, say)?;
        config.runtime = Some(kind);
        let root = config.documents.as_ref();
        let root = root.map(documents::Root::open).transpose()?;
        let counts = config.connection_counts();
        let counters = counters(&config, &bound, &sockets);
        let foundation = Foundation {
            config: &config,
            kind,
            fibre_scheduler: config.fibre_scheduler.unwrap_or(Scheduler::Fair),
            counts: Arc::clone(&counts),
            counters,
            clock: clock(&config),
            passwords,
            sockets,
            datagram_counts: Arc::default(),
        };
        let figures = foundation.figures();
        let listen = || {
            let listeners = sockets::listen(&config, bound)?.into_iter();
            Ok(match opened {
                Some(interface) => Clients::Interface(interface),
                None => Clients::Listeners(listeners.map(Into::into).collect()),
            })
        };
        let serving = match config.pool.as_ref().zip(ports) {
            None => foundation.start_cache(listen, http.zip(root), say)?,
            Some((pool, ports)) => foundation.start_pool(listen, pool, ports)?,
        };
        let admin = admin.map(|bound| admin::start(bound, figures, &serving.state, &config));
        match admin.transpose() {
            Ok(admin) => Ok(Self {
                serving,
                admin,
                signals,
                counts,
                addresses,
                datagram_addresses,
            }),
            Err(error) => {
                serving.give_up();
                Err(error)
            }
        }
    }

    /// The TCP addresses that the server listens on.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The addresses at which the server receives datagrams.
    #[must_use]
    pub fn datagram_addresses(&self) -> &[SocketAddr] {
        &self.datagram_addresses
    }

    /// Serves until SIGTERM, SIGINT, SIGUSR1 or the command `shutdown`, then lets each connection
    /// finish its requests.
    ///
    /// # Errors
    /// A thread panicked.
    pub fn serve(mut self, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let (state, counts) = (&self.serving.state, &self.counts);
        let background = self.serving.background.as_mut();
        watch::until_stopped(&self.signals, state, counts, background, say)
            .map_err(Error::Start)?;
        // From now on the admin pages say that the server is not ready.
        state.set_stopping();
        // The admin pages stop last, so that a monitor sees the end.
        let admin = self.admin;
        self.serving
            .stop(|| admin.map_or(Ok(()), Running::stop), say)
    }
}

/// A clock that starts now.
fn clock(config: &Config) -> Clock {
    let clock = Clock::new(sys::clock::monotonic_ns(), sys::clock::unix_ns() / NS_PER_S);
    match config.debug_time {
        true => clock.adjustable(),
        false => clock,
    }
}

/// Rejects flags that do not apply to the configured runtime.
fn reject_contradictions(config: &Config) -> Result<(), Error> {
    let per_connection = matches!(config.runtime, Some(Kind::Threads | Kind::Fibres));
    if per_connection && config.wait_policy != runtime::WaitPolicy::default() {
        return Err(Error::WaitPolicy);
    }
    if (config.runtime == Some(Kind::Bypass)) != config.interface.is_some() {
        return Err(Error::Interface);
    }
    if config.tier.is_some() && !config.evicts {
        return Err(Error::TierWithoutEviction);
    }
    if config.runtime != Some(Kind::Fibres) && config.fibre_scheduler.is_some() {
        return Err(Error::Scheduler);
    }
    if config.datagrams.is_some() && config.passwords.is_some() {
        return Err(Error::DatagramsWithPasswords);
    }
    if config.datagrams.is_some() && config.interface.is_some() {
        return Err(Error::DatagramsOnBypass);
    }
    if let (Some(passwords), Some(documents)) = (&config.passwords, &config.documents) {
        if documents.serves_cache {
            return Err(Error::HttpCacheWithPasswords);
        }
        if passwords.is_below(&documents.root) {
            return Err(Error::PasswordsBelowRoot);
        }
    }
    if config.pool.is_some() && config.debug_time {
        return Err(Error::PoolDebugTime);
    }
    if config.pool.is_some() && config.prefix_rate.is_some() {
        return Err(Error::PoolPrefixCommands);
    }
    if config.tier.is_some() && config.debug_time {
        return Err(Error::TierDebugTime);
    }
    if config.pool.is_some() && (config.tier.is_some() || config.documents.is_some()) {
        return Err(Error::PoolAlone);
    }
    Ok(())
}

/// Reads the file of passwords, if one is configured.
fn read_passwords(
    config: &Config,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Arc<PresentPasswords>>, Error> {
    let Some(file) = &config.passwords else {
        return Ok(None);
    };
    let passwords = file.read().map_err(|source| Error::Passwords {
        path: file.path.clone(),
        source,
    })?;
    if let Some(warning) = file.warning(&passwords) {
        say(&warning);
    }
    let present = PresentPasswords::new(file.clone(), passwords);
    Ok(Some(Arc::new(present)))
}

/// The configured runtime, or the best one that this machine supports.
fn choose_runtime(config: &Config, say: &mut dyn FnMut(&str)) -> Result<Kind, Error> {
    let Some(kind) = config.runtime else {
        return Ok(best_runtime(say));
    };
    kind.probe()
        .map_err(|source| Error::Runtime { kind, source })?;
    let scheduler = config.fibre_scheduler.unwrap_or(Scheduler::Fair);
    if (kind, scheduler) == (Kind::Fibres, Scheduler::Fair)
        && let Err(error) = runtime::rings_for_fibres()
    {
        say(&format!("fibres wait by epoll, since here {error}"));
    }
    Ok(kind)
}

/// The best runtime that this machine supports. `say` receives the reasons against better ones.
pub fn best_runtime(say: &mut dyn FnMut(&str)) -> Kind {
    for kind in Kind::BEST_FIRST {
        match kind.probe() {
            Ok(()) => return kind,
            Err(error) => say(&format!("no --runtime {} here: {error}", kind.name())),
        }
    }
    Kind::Events
}

/// Open files that a server needs for this many connections and workers.
#[must_use]
pub fn open_files_needed(connections: u32, workers: u32) -> u64 {
    u64::from(connections) + u64::from(workers) * 2 + OTHER_FILES
}

/// Raises the limit of open files. Like memcached, a server starts if the limit covers at least
/// the connections. The last few connections may then wait in the kernel for free descriptors.
fn raise_open_files(config: &Config) -> Result<(), Error> {
    let connections = config.connections_max;
    let admin = config.admin.map_or(0, |_| admin::FILES_NEEDED);
    let documents = documents::files_needed(config);
    let wanted = open_files_needed(connections, config.workers)
        + admin
        + documents
        + tier::files_needed(config.tier.as_ref())
        + pool::files_needed(config);
    let limit = sys::limits::raise_open_files(wanted);
    if limit < u64::from(connections) {
        return Err(Error::OpenFiles {
            connections,
            wanted,
            limit,
        });
    }
    Ok(())
}

/// Locks present and future memory, while the process is still root. After root privileges are
/// dropped, locked memory counts against the user's limit, and allocations beyond it fail. The
/// limit must therefore cover the whole store.
fn lock_memory(wanted: u64, user: Option<&User>) -> Result<(), Error> {
    let limit = sys::limits::raise_locked_memory();
    let stays_root = user.is_some_and(|user| user.uid == 0);
    if !stays_root && limit < wanted {
        return Err(Error::LockedMemory { wanted, limit });
    }
    sys::limits::lock_memory().map_err(Error::LockMemory)
}

/// Does what needs root, then drops root privileges.
fn become_who_serves(
    config: &Config,
    user: Option<&User>,
    say: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    if config.lock_memory {
        lock_memory(config.memory_bytes, user)?;
    }
    if config.core_dumps {
        sys::limits::raise_core_dumps().map_err(Error::CoreDumps)?;
    }
    give_up_root(user, config.user.is_some(), say)?;
    if config.core_dumps {
        // The kernel disables core dumps when the user changes.
        sys::limits::allow_core_dumps().map_err(Error::CoreDumps)?;
    }
    Ok(())
}

/// The registry of counters, with a log, and the list of the sockets.
fn counters(config: &Config, bound: &[Bound], datagrams: &[UdpSocket]) -> Arc<CounterRegistry> {
    let counters = Arc::<CounterRegistry>::default();
    event_collector::enable(config, &counters);
    let listening = sockets::listening(config, bound, datagrams);
    counters.connections().set_listening(listening);
    counters
}

/// Opens the device of the runtime `bypass`, if there is one. It needs root.
fn open_interface(
    config: &mut Config,
    say: &mut dyn FnMut(&str),
) -> Result<Option<bypass::Interface>, Error> {
    let Some(InterfaceConfig {
        device,
        address,
        prefix_len,
        port,
    }) = &config.interface
    else {
        return Ok(None);
    };
    let workers = config.workers.max(1) as usize;
    let opened = bypass::Interface::open(device, *address, *prefix_len, *port, workers);
    let opened = opened.map_err(|source| Error::OpenInterface {
        device: device.clone(),
        remedy: match source.kind() {
            io::ErrorKind::PermissionDenied => "start as root, or with CAP_NET_RAW",
            io::ErrorKind::NotFound => "name a device that `ip link` shows with --interface",
            io::ErrorKind::NetworkDown => "set it up: ip link set DEVICE up",
            io::ErrorKind::AddrInUse => {
                "the kernel has the address: give another one with --address, or take it from the \
                 kernel with `ip address del`"
            }
            io::ErrorKind::Unsupported => "an Ethernet device is needed",
            _ => "choose another one with --interface",
        },
        source,
    })?;
    config.settings.push(filter_row(&opened, say));
    Ok(Some(opened))
}

/// The row of `stats settings` that tells whether the kernel's stack is kept from the server's
/// packets. A server without that is complete, but takes more processor time.
fn filter_row(interface: &bypass::Interface, say: &mut dyn FnMut(&str)) -> (&'static str, String) {
    let problem = interface.filter_problem();
    if let Some(problem) = problem {
        say(&format!(
            "the kernel's network stack handles the server's packets too, which takes processor \
             time: no BPF program could be attached to the device: {problem}; it needs Linux 6.6 \
             or newer, CAP_BPF and CAP_NET_ADMIN"
        ));
    }
    let row = if problem.is_none() { "yes" } else { "no" };
    ("bypass_ingress_filter", row.to_owned())
}

/// The user that a server started as root becomes; none if it was not started as root.
fn user_to_become(config: &Config) -> Result<Option<User>, Error> {
    if !privileges::is_root() {
        return Ok(None);
    }
    let name = config.user.as_deref().unwrap_or(DEFAULT_USER);
    let found = privileges::find_user(name).map_err(|source| Error::BecomeUser {
        user: name.to_owned(),
        source,
    })?;
    found
        .ok_or_else(|| Error::NoSuchUser(name.to_owned()))
        .map(Some)
}

fn give_up_root(
    user: Option<&User>,
    was_chosen: bool,
    say: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let Some(user) = user else { return Ok(()) };
    if user.uid == 0 {
        say("running as root, as requested (-u root)");
        return Ok(());
    }
    privileges::become_user(user).map_err(|source| Error::BecomeUser {
        user: user.name.clone(),
        source,
    })?;
    let choice = if was_chosen {
        ""
    } else {
        "; choose another with -u"
    };
    let User { name, uid, .. } = user;
    say(&format!(
        "started as root, now running as {name} (uid {uid}{choice})"
    ));
    Ok(())
}
