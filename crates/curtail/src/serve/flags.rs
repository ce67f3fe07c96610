//! memcached's flags and Curtail's own, as the argument parser reads them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{ArgAction, Args};

use server::{AllowedProtocols, Kind, Misses, Scheduler, StrategyKind};

use super::pool::PoolAddresses;
use super::tier::TierFiles;

/// Tools that read `-V` look for memcached's version.
pub(super) const VERSION: &str = concat!("1.6.45 (curtail ", env!("CARGO_PKG_VERSION"), ")");

/// memcached's flags, then Curtail's own.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true,
    override_usage = "curtail serve [FLAGS]"
)]
pub(crate) struct Flags {
    /// TCP port to listen on; 0: none (then -s is needed); -1: a free one [default: 11211]
    #[arg(short = 'p', long = "port", value_name = "NUM",
          value_parser = clap::value_parser!(i32).range(-1..=65_535))]
    pub(super) port: Option<i32>,

    /// UDP port; 0: none; -1: a free one. Without -p it is the TCP port too
    #[arg(short = 'U', long = "udp-port", value_name = "NUM", default_value_t = 0,
          value_parser = clap::value_parser!(i32).range(-1..=65_535))]
    pub(super) udp_port: i32,

    /// Unix socket to listen on instead of TCP
    #[arg(short = 's', long = "unix-socket", value_name = "FILE")]
    pub(super) unix_socket: Option<PathBuf>,

    /// Access mask of the Unix socket, in octal
    #[arg(short = 'a', long = "unix-mask", value_name = "MASK", default_value = "0700",
          value_parser = octal)]
    pub(super) unix_mask: u32,

    /// Enable the command `shutdown`
    #[arg(short = 'A', long = "enable-shutdown")]
    pub(super) enable_shutdown: bool,

    /// Addresses to listen on: host, host:port or [v6]:port, separated by commas; may be repeated
    #[arg(short = 'l', long = "listen", value_name = "ADDR", action = ArgAction::Append)]
    pub(super) listen: Vec<String>,

    /// Run as a daemon; the exit status says whether it started
    #[arg(short = 'd', long = "daemon")]
    pub(super) daemon: bool,

    /// Allow core dumps of any size
    #[arg(short = 'r', long = "enable-coredumps")]
    pub(super) enable_coredumps: bool,

    /// User to become when started as root [default: nobody]
    #[arg(short = 'u', long = "user", value_name = "USER")]
    pub(super) user: Option<String>,

    /// Memory of items and index, in megabytes or with a unit (512m, 4g)
    #[arg(short = 'm', long = "memory-limit", value_name = "NUM", default_value = "64",
          value_parser = megabytes)]
    pub(super) memory_limit: u64,

    /// Refuse a value that does not fit instead of evicting others
    #[arg(short = 'M', long = "disable-evictions")]
    pub(super) disable_evictions: bool,

    /// Maximum number of connections open at a time
    #[arg(short = 'c', long = "conn-limit", value_name = "NUM", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) conn_limit: u32,

    /// Keep all memory from being swapped
    #[arg(short = 'k', long = "lock-memory")]
    pub(super) lock_memory: bool,

    /// Say more on standard error; twice: much more
    #[arg(short = 'v', long = "verbose", action = ArgAction::Count)]
    pub(super) verbose: u8,

    /// Print this help and exit
    #[arg(short = 'h', long = "help", action = ArgAction::Help)]
    help: Option<bool>,

    /// Print the licenses and exit
    #[arg(short = 'i', long = "license")]
    pub(super) license: bool,

    /// Print the version and exit
    #[arg(short = 'V', long = "version")]
    pub(super) version: bool,

    /// Write the process id to this file, once the server listens
    #[arg(short = 'P', long = "pidfile", value_name = "FILE")]
    pub(super) pid_file: Option<PathBuf>,

    /// Growth factor of slab classes; accepted without effect
    #[arg(short = 'f', long = "slab-growth-factor", value_name = "NUM", value_parser = growth)]
    pub(super) slab_growth_factor: Option<f64>,

    /// Minimum size of a slab's chunk in bytes; accepted without effect
    #[arg(short = 'n', long = "slab-min-size", value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) slab_min_size: Option<u32>,

    /// Ask the kernel for huge pages, however long it takes to find them
    #[arg(short = 'L', long = "enable-largepages")]
    pub(super) enable_largepages: bool,

    /// Count by key prefix (`stats detail`); a prefix ends at this character [default: ":"]
    #[arg(short = 'D', value_name = "CHAR", value_parser = delimiter)]
    pub(super) delimiter: Option<u8>,

    /// Worker threads
    #[arg(short = 't', long = "threads", value_name = "NUM", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) threads: u32,

    /// Requests of one connection answered before the next connection's
    #[arg(short = 'R', long = "max-reqs-per-event", value_name = "NUM", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_reqs_per_event: u32,

    /// Leave out CAS; accepted without effect
    #[arg(short = 'C', long = "disable-cas")]
    pub(super) disable_cas: bool,

    /// Maximum number of connections that wait in the kernel to be accepted
    #[arg(short = 'b', long = "listen-backlog", value_name = "NUM", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(super) listen_backlog: u32,

    /// Protocols of the listeners: ascii (text and meta), binary, or auto (all) [default: auto;
    /// ascii with -Y alone, binary with -S alone]
    #[arg(short = 'B', long = "protocol", value_name = "NAME", value_parser = protocol)]
    pub(super) protocol: Option<AllowedProtocols>,

    /// Largest item: value, key and 59 bytes of overhead; with suffix k or m
    #[arg(short = 'I', long = "max-item-size", value_name = "NUM", default_value = "1m",
          value_parser = item_size)]
    pub(super) max_item_size: u32,

    /// Disable the command `flush_all`
    #[arg(short = 'F', long = "disable-flush-all")]
    pub(super) disable_flush_all: bool,

    /// Disable the commands that list keys
    #[arg(short = 'X', long = "disable-dumping")]
    pub(super) disable_dumping: bool,

    /// Disable the command `watch`
    #[arg(short = 'W', long = "disable-watch")]
    pub(super) disable_watch: bool,

    /// Clients need a password: file with a line USER:PASSWORD for each of at most 8 users; SIGHUP
    /// reads it again
    #[arg(short = 'Y', long = "auth-file", value_name = "FILE")]
    pub(super) auth_file: Option<PathBuf>,

    /// Clients of the binary protocol need a password, by SASL (PLAIN): that of -Y, or else of the
    /// file that MEMCACHED_SASL_PWDB names
    #[arg(short = 'S', long = "enable-sasl")]
    pub(super) enable_sasl: bool,

    /// TLS; not served
    #[arg(short = 'Z', long = "enable-ssl", hide = true)]
    pub(super) enable_ssl: bool,

    /// File that keeps the items over a restart; not served
    #[arg(short = 'e', long = "memory-file", value_name = "FILE", hide = true)]
    pub(super) memory_file: Option<PathBuf>,

    /// Extended options, separated by commas; may be repeated
    #[arg(short = 'o', long = "extended", value_name = "KEY[=VALUE],…", action = ArgAction::Append)]
    pub(super) extended: Vec<String>,

    /// NAPI ids of the network card; accepted without effect
    #[arg(short = 'N', long = "napi-ids", value_name = "NUM",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) napi_ids: Option<u32>,

    /// How connections are served: events (epoll), rings (io_uring), threads or fibres (one for
    /// each connection), bypass (a TCP/IP stack of its own), auto
    #[arg(long = "runtime", value_name = "KIND", default_value = "auto", value_parser = runtime_kind)]
    pub(super) runtime: RuntimeKind,

    /// With --runtime bypass: the network device whose frames the server receives and sends
    #[arg(long = "interface", value_name = "NAME", requires = "address")]
    pub(super) interface: Option<String>,

    /// With --runtime bypass: the IPv4 address of the server and the length of its network's
    /// prefix, such as 192.0.2.10/24; the kernel must not have this address
    #[arg(long = "address", value_name = "ADDR/LEN", value_parser = network,
          requires = "interface")]
    pub(super) address: Option<Network>,

    /// Order in which fibres run: fair (none starves; the default), steal (an idle processor
    /// steals), global (one queue for all)
    #[arg(long = "fibre-scheduler", value_name = "KIND", value_parser = fibre_scheduler)]
    pub(super) fibre_scheduler: Option<Scheduler>,

    /// How long a worker polls after a request before it sleeps, such as 50us
    #[arg(long = "busy-poll", value_name = "TIME", default_value = "0", value_parser = wait_ns)]
    pub(super) busy_poll: u64,

    /// Minimum time between two wake-ups of a worker, such as 20us: requests that arrive in between
    /// are one burst
    #[arg(long = "min-wait", value_name = "TIME", default_value = "0", value_parser = wait_ns)]
    pub(super) min_wait: u64,

    /// How long connections may take to finish what has begun after the server was told to stop;
    /// then they are closed
    #[arg(long = "drain", value_name = "TIME", default_value = "5s",
          value_parser = units::duration_ns)]
    pub(super) drain: u64,

    /// Files for evicted items, each with its size, such as /mnt/ssd/cache:100G,/mnt/b/cache:50G;
    /// an item that is requested there returns to memory
    #[arg(long = "tier", value_name = "FILE:SIZE,...", value_parser = tier_files)]
    pub(super) tier: Option<TierFiles>,

    /// With --tier: write at most so many bytes a second, such as 20MiB, which spares flash memory;
    /// further evicted items are dropped
    #[arg(long = "tier-write-rate", value_name = "BYTES", value_parser = units::size_bytes)]
    pub(super) tier_write_rate: Option<u64>,

    /// With --tier: mean size of an item in bytes; the index in memory has 30 bytes for each item
    /// that the files have space for
    #[arg(long = "tier-item-size", value_name = "BYTES",
          default_value_t = server::tier_limits::ITEM_BYTES_DEFAULT)]
    pub(super) tier_item_size: u32,

    /// Keep the items in a pool of memory (curtail pool) instead of a store: address of the
    /// metadata service, and of the memory node if it is reached elsewhere than the service says
    #[arg(long = "pool", value_name = "META[,NODE]", value_parser = super::pool::addresses)]
    pub(super) pool: Option<PoolAddresses>,

    /// With --pool: address of this machine for the first worker; each further worker has the next.
    /// Default for a pool on this machine: free ones
    #[arg(long = "pool-from", value_name = "IP", requires = "pool")]
    pub(super) pool_from: Option<Ipv4Addr>,

    /// With --pool: how long an operation may wait to begin, and how long it may take then
    /// [default: 1s]
    #[arg(long = "pool-timeout", value_name = "TIME", value_parser = super::pool::timeout_ns,
          requires = "pool")]
    pub(super) pool_timeout: Option<u64>,

    /// With --pool: a middlebox redirects operations
    #[arg(long = "pool-steered", requires = "pool")]
    pub(super) pool_steered: bool,

    /// With -U: how many times as long as its request a reply may be, unless the client is on this
    /// machine or in a private network; 0: no limit
    #[arg(long = "udp-reply-limit", value_name = "NUM",
          default_value_t = server::STRANGER_FACTOR)]
    pub(super) udp_reply_limit: u32,

    /// IP address and port for metrics, health checks and statistics over HTTP, such as
    /// 127.0.0.1:9150; there is no authentication
    #[arg(long = "admin", value_name = "ADDR", value_parser = admin_address)]
    pub(super) admin: Option<SocketAddr>,

    /// With --admin and --http: a name of this host, such as cache.example.com, which HTTP clients
    /// use in place of its address; may be repeated. Names without a dot need none
    #[arg(long = "host-name", value_name = "NAME", action = ArgAction::Append,
          value_parser = host_name)]
    pub(super) host_name: Vec<String>,

    /// IP address and port for the documents of --root over HTTP, such as 127.0.0.1:8080; there is
    /// no authentication
    #[arg(long = "http", value_name = "ADDR", value_parser = http_address, requires = "root")]
    pub(super) http: Option<SocketAddr>,

    /// Folder whose files --http serves
    #[arg(long = "root", value_name = "DIR", requires = "http")]
    pub(super) root: Option<PathBuf>,

    /// How --http reads files: nowait (the kernel says what would block; the default). To be
    /// compared with it: flash (remembered names, mappings; processes look names up), fd-pass (they
    /// pass descriptors), no-mmap (without mappings), naive (it blocks)
    #[arg(long = "file-strategy", value_name = "KIND", value_parser = file_strategy,
          requires = "http")]
    pub(super) file_strategy: Option<StrategyKind>,

    /// What reads the bytes that would block a worker: threads (the default) or uring, an io_uring;
    /// only with --file-strategy nowait
    #[arg(long = "file-misses", value_name = "KIND", value_parser = file_misses,
          requires = "http")]
    pub(super) file_misses: Option<Misses>,

    /// How long a client of --http may be silent before its connection is closed; 0: it is kept
    #[arg(long = "http-idle", value_name = "TIME", value_parser = idle_s, requires = "http",
          default_value = "60s")]
    pub(super) http_idle: u32,

    /// File to which the requests of --http are appended, in the common log format; SIGHUP opens it
    /// again
    #[arg(long = "http-log", value_name = "FILE", requires = "http")]
    pub(super) http_log: Option<PathBuf>,

    /// With --http: copy all bytes of documents, and send none by sendfile
    #[arg(long = "http-copy", requires = "http")]
    pub(super) http_copy: bool,

    /// With --http: serve the items of the cache too, at /cache/KEY (GET, HEAD, PUT, DELETE)
    #[arg(long = "http-cache", requires = "http")]
    pub(super) http_cache: bool,

    /// Serve the command `debugtime`, with which any client stops the server's clock or moves it
    /// forward; for tests of what expires
    #[arg(long = "debug-time")]
    pub(super) debug_time: bool,

    /// Serve the command `prefix`, with which any client lists, counts or deletes items by the
    /// beginning of their keys; NUM: entries of the index that it visits in a second, at least
    /// 100, such as 1000000
    // At a much lower rate, a walk would make no step for a minute, and so be superseded.
    #[arg(long = "prefix-commands", value_name = "NUM",
          value_parser = clap::value_parser!(u32).range(100..))]
    pub(super) prefix_commands: Option<u32>,

    /// Do not record how long requests are in the server
    #[arg(long = "no-latency")]
    pub(super) no_latency: bool,
}

/// An IPv4 address, and the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) address: Ipv4Addr,
    pub(super) prefix_len: u8,
}

fn network(text: &str) -> Result<Network, String> {
    let parts = text.split_once('/');
    let parsed = parts.and_then(|(address, len)| {
        let prefix_len = len.parse().ok().filter(|len| *len <= 32)?;
        let address: Ipv4Addr = address.parse().ok()?;
        let is_host =
            !(address.is_unspecified() || address.is_multicast() || address.is_broadcast());
        is_host.then_some(Network {
            address,
            prefix_len,
        })
    });
    parsed.ok_or_else(|| {
        "an IPv4 address and the length of a prefix are needed, such as 192.0.2.10/24".to_owned()
    })
}

/// A runtime; none: the server chooses.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuntimeKind(pub(super) Option<Kind>);

fn runtime_kind(text: &str) -> Result<RuntimeKind, String> {
    if text == "auto" {
        return Ok(RuntimeKind(None));
    }
    // What people call the mechanisms.
    let text = match text {
        "epoll" => "events",
        "io_uring" => "rings",
        "fibers" => "fibres",
        other => other,
    };
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    let names = Kind::ALL.map(Kind::name).join(", ");
    kind.map(|kind| RuntimeKind(Some(kind)))
        .ok_or_else(|| format!("one of auto, {names} is needed"))
}

fn admin_address(text: &str) -> Result<SocketAddr, String> {
    let parsed = text.parse();
    parsed.map_err(|_| "an IP address and a port are needed, such as 127.0.0.1:9150".to_owned())
}

fn host_name(text: &str) -> Result<String, String> {
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_in_name) {
        true => Ok(text.to_owned()),
        false => Err("a name without a port is needed, such as cache.example.com".to_owned()),
    }
}

fn http_address(text: &str) -> Result<SocketAddr, String> {
    let parsed = text.parse();
    parsed.map_err(|_| "an IP address and a port are needed, such as 127.0.0.1:8080".to_owned())
}

fn file_strategy(text: &str) -> Result<StrategyKind, String> {
    let names = StrategyKind::ALL.map(StrategyKind::name).join(", ");
    let named = StrategyKind::ALL
        .into_iter()
        .find(|kind| kind.name() == text);
    named.ok_or_else(|| format!("one of {names} is needed"))
}

fn file_misses(text: &str) -> Result<Misses, String> {
    let named = Misses::ALL.into_iter().find(|it| it.name() == text);
    let names = Misses::ALL.map(Misses::name).join(", ");
    named.ok_or_else(|| format!("one of {names} is needed"))
}

/// A time in whole seconds.
fn idle_s(text: &str) -> Result<u32, String> {
    let time_ns = units::duration_ns(text).map_err(|error| error.to_string())?;
    match u32::try_from(time_ns / 1_000_000_000) {
        Ok(seconds) if time_ns % 1_000_000_000 == 0 => Ok(seconds),
        _ => Err("a time in whole seconds is needed, such as 60s; 0: never".to_owned()),
    }
}

fn tier_files(text: &str) -> Result<TierFiles, String> {
    super::tier::files(text)
}

fn fibre_scheduler(text: &str) -> Result<Scheduler, String> {
    let names = Scheduler::ALL.map(Scheduler::name).join(", ");
    let named = Scheduler::ALL.into_iter().find(|kind| kind.name() == text);
    named.ok_or_else(|| format!("one of {names} is needed"))
}

/// A time of at most a second, in nanoseconds. It has a unit unless it is 0: a number alone is in
/// seconds for every other flag, and a worker that polls for seconds is hardly what was meant.
fn wait_ns(text: &str) -> Result<u64, String> {
    let time_ns = units::duration_ns(text).map_err(|error| error.to_string())?;
    let has_unit = text.trim_end().ends_with(char::is_alphabetic);
    match time_ns {
        0 => Ok(0),
        1..=1_000_000_000 if has_unit => Ok(time_ns),
        _ => Err("a time of at most a second is needed, such as 50us or 1ms; 0: off".to_owned()),
    }
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("permissions in octal are needed, such as 0700".to_owned()),
    }
}

/// Megabytes. memcached takes the digits of `4g` for 4 megabytes.
fn megabytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix(['m', 'g', 't']) {
        Some(digits) if lower.ends_with('t') => (digits, 1 << 20),
        Some(digits) if lower.ends_with('g') => (digits, 1 << 10),
        Some(digits) => (digits, 1),
        None => (lower.as_str(), 1),
    };
    let number = digits.parse::<u64>().ok();
    match number.and_then(|number| number.checked_mul(unit)) {
        Some(size @ 1..=4_000_000) => Ok(size),
        _ => Err("megabytes from 1 to 4000000 are needed, such as 512, or 4g".to_owned()),
    }
}

/// memcached's bounds: 1 KiB to 1 GiB.
fn item_size(text: &str) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix(['k', 'm']) {
        Some(digits) if lower.ends_with('k') => (digits, 1 << 10),
        Some(digits) => (digits, 1 << 20),
        None => (lower.as_str(), 1),
    };
    let size = digits
        .parse::<u32>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    match size {
        Some(size @ 1024..=0x4000_0000) => Ok(size),
        _ => Err("a size from 1k to 1024m is needed, such as 1m".to_owned()),
    }
}

fn growth(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if factor > 1.0 => Ok(factor),
        _ => Err("a number above 1 is needed, such as 1.25".to_owned()),
    }
}

/// The first byte, as in memcached.
fn delimiter(text: &str) -> Result<u8, String> {
    let first = text.bytes().next();
    first.ok_or_else(|| "a character is needed, such as :".to_owned())
}

fn protocol(text: &str) -> Result<AllowedProtocols, String> {
    match text {
        "auto" => Ok(AllowedProtocols::Auto),
        "ascii" => Ok(AllowedProtocols::Text),
        "binary" => Ok(AllowedProtocols::Binary),
        _ => Err("auto, ascii or binary is needed".to_owned()),
    }
}
