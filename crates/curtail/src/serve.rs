//! `curtail serve`: memcached's flags.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{ArgAction, Args};

use server::{Config, Kind, Patience, Scheduler, Server, UnixSocket};

/// Listens on all addresses unless told otherwise, as memcached does.
const ANY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];
const MIB: u64 = 1 << 20;

/// Tools that read `-V` look for memcached's version.
const VERSION_TEXT: &str = concat!(env!("CARGO_PKG_VERSION"), " (answers as memcached 1.6.45)");

/// memcached's flags, for what exists so far.
#[derive(Debug, Args)]
#[command(disable_version_flag = true, version = VERSION_TEXT)]
pub(crate) struct Flags {
    /// TCP port; 0: none (then -s is needed)
    #[arg(
        short = 'p',
        long = "port",
        value_name = "NUM",
        default_value_t = 11211
    )]
    port: u16,

    /// UDP port; only 0 (off) is served
    #[arg(
        short = 'U',
        long = "udp-port",
        value_name = "NUM",
        default_value_t = 0
    )]
    udp_port: u16,

    /// Unix socket to listen on instead of TCP
    #[arg(short = 's', long = "unix-socket", value_name = "PATH")]
    unix_socket: Option<PathBuf>,

    /// Permissions of the Unix socket, in octal
    #[arg(short = 'a', long = "unix-mask", value_name = "MASK", default_value = "0700",
          value_parser = octal)]
    unix_mask: u32,

    /// Addresses to listen on: host, host:port, or [v6]:port; several with commas
    #[arg(
        short = 'l',
        long = "listen",
        value_name = "ADDR",
        value_delimiter = ','
    )]
    listen: Vec<String>,

    /// Memory of items and index, in megabytes
    #[arg(short = 'm', long = "memory-limit", value_name = "NUM", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=4_000_000))]
    memory_limit: u64,

    /// Connections at once
    #[arg(short = 'c', long = "conn-limit", value_name = "NUM", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    conn_limit: u32,

    /// Worker threads
    #[arg(short = 't', long = "threads", value_name = "NUM", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,

    /// Largest item: value, key and 59 bytes of overhead; with suffix k or m
    #[arg(short = 'I', long = "max-item-size", value_name = "NUM", default_value = "1m",
          value_parser = item_size)]
    max_item_size: u32,

    /// Refuse what does not fit instead of evicting for it
    #[arg(short = 'M', long = "disable-evictions")]
    disable_evictions: bool,

    /// Ask the kernel for huge pages
    #[arg(short = 'L', long = "enable-largepages")]
    enable_largepages: bool,

    /// Keep all memory from being swapped
    #[arg(short = 'k', long = "lock-memory")]
    lock_memory: bool,

    /// Requests of one connection answered before others have their turn
    #[arg(short = 'R', long = "max-reqs-per-event", value_name = "NUM", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_reqs_per_event: u32,

    /// Connections the kernel may keep waiting
    #[arg(short = 'b', long = "listen-backlog", value_name = "NUM", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=65_535))]
    listen_backlog: u32,

    /// User to become when started as root (nobody unless told)
    #[arg(short = 'u', long = "user", value_name = "USER")]
    user: Option<String>,

    /// Who runs the conversations: events (epoll), rings (io_uring), threads or fibres (one for
    /// each connection), auto
    #[arg(long = "runtime", value_name = "KIND", default_value = "auto", value_parser = runtime_kind)]
    runtime: RuntimeKind,

    /// Which fibre runs next: fair (nobody starves; the default), steal (who has nothing to do
    /// steals), global (one list for all)
    #[arg(long = "fibre-scheduler", value_name = "KIND", value_parser = fibre_scheduler)]
    fibre_scheduler: Option<Scheduler>,

    /// How long after a request to ask for the next again and again before sleeping, such as 50us
    #[arg(long = "busy-poll", value_name = "TIME", default_value = "0", value_parser = wait_ns)]
    busy_poll: u64,

    /// Least time between two wake-ups of a worker, such as 20us: what comes meanwhile is one burst
    #[arg(long = "min-wait", value_name = "TIME", default_value = "0", value_parser = wait_ns)]
    min_wait: u64,

    /// Say more on standard error; twice: much more
    #[arg(short = 'v', long = "verbose", action = ArgAction::Count)]
    verbose: u8,

    /// Print the version
    #[arg(short = 'V', long = "version", action = ArgAction::Version)]
    version: Option<bool>,
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let config = flags.config()?;
    let talkative = config.verbosity > 0;
    let mut say = |line: &str| {
        // Where it goes may be full or gone: no reason to stop serving.
        let _ = writeln!(io::stderr(), "curtail: {line}");
    };
    let server = Server::start(config, &mut say)?;
    if talkative {
        for address in server.addresses() {
            say(&format!("listening on {address}"));
        }
    }
    server.serve(&mut say)?;
    Ok(ExitCode::SUCCESS)
}

impl Flags {
    fn config(&self) -> anyhow::Result<Config> {
        if self.udp_port != 0 {
            bail!(
                "-U {}: UDP is not served; leave the flag out or give 0",
                self.udp_port
            );
        }
        let unix_socket = self.unix_socket.clone().map(|path| UnixSocket {
            path,
            mode: self.unix_mask,
        });
        // A Unix socket disables the network, as in memcached, unless addresses are named.
        let network = self.port != 0 && (unix_socket.is_none() || !self.listen.is_empty());
        Ok(Config {
            listen: if network {
                self.addresses()?
            } else {
                Vec::new()
            },
            unix_socket,
            memory_bytes: self.memory_limit * MIB,
            item_size_max: self.max_item_size,
            connections_max: self.conn_limit,
            workers: self.threads,
            requests_per_turn: self.max_reqs_per_event,
            backlog: self.listen_backlog,
            evicts: !self.disable_evictions,
            huge_pages: self.enable_largepages,
            lock_memory: self.lock_memory,
            user: self.user.clone(),
            runtime: self.runtime.0,
            fibre_scheduler: self.fibre_scheduler,
            patience: Patience {
                busy_poll_ns: self.busy_poll,
                min_wait_ns: self.min_wait,
            },
            verbosity: u32::from(self.verbose),
        })
    }

    fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        if self.listen.is_empty() {
            return Ok(any(self.port));
        }
        let mut addresses = Vec::new();
        for text in &self.listen {
            addresses.extend(resolve(text, self.port)?);
        }
        Ok(addresses)
    }
}

fn any(port: u16) -> Vec<SocketAddr> {
    ANY.map(|ip| SocketAddr::new(ip, port)).to_vec()
}

fn resolve(text: &str, port: u16) -> anyhow::Result<Vec<SocketAddr>> {
    if text == "*" {
        return Ok(any(port));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(vec![address]);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, digits)) => {
            let port = digits
                .parse()
                .with_context(|| format!("-l {text}: no port {digits:?}"))?;
            (host, port)
        }
        None => (text, port),
    };
    let found = (host, port)
        .to_socket_addrs()
        .with_context(|| format!("-l {text}: no such address (give a host, host:port or IP)"))?;
    Ok(found.collect())
}

/// A runtime; none: the server chooses.
#[derive(Debug, Clone, Copy)]
struct RuntimeKind(Option<Kind>);

fn runtime_kind(text: &str) -> Result<RuntimeKind, String> {
    if text == "auto" {
        return Ok(RuntimeKind(None));
    }
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    let names = Kind::ALL.map(Kind::name).join(", ");
    kind.map(|kind| RuntimeKind(Some(kind)))
        .ok_or_else(|| format!("one of auto, {names} is needed"))
}

fn fibre_scheduler(text: &str) -> Result<Scheduler, String> {
    let names = Scheduler::ALL.map(Scheduler::name).join(", ");
    let named = Scheduler::ALL.into_iter().find(|kind| kind.name() == text);
    named.ok_or_else(|| format!("one of {names} is needed"))
}

/// A time of at most a second, in nanoseconds.
fn wait_ns(text: &str) -> Result<u64, String> {
    let digits_len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits_len);
    let unit_ns = match unit {
        "us" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "" if digits == "0" => Some(0),
        _ => None,
    };
    let time_ns = digits.parse::<u64>().ok().zip(unit_ns);
    match time_ns.and_then(|(number, unit_ns)| number.checked_mul(unit_ns)) {
        Some(time_ns) if time_ns <= 1_000_000_000 => Ok(time_ns),
        _ => Err("a time of at most a second is needed, such as 50us or 1ms; 0: off".to_owned()),
    }
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("permissions in octal are needed, such as 0700".to_owned()),
    }
}

/// Largest items memcached takes: 1 KiB to 1 GiB.
fn item_size(text: &str) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix(['k', 'm']) {
        Some(digits) => (
            digits,
            if lower.ends_with('k') {
                1 << 10
            } else {
                1 << 20
            },
        ),
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
