//! `curtail pool`: a key-value store in the memory of a passive host, as processes that meet only
//! through packets.

mod bench;
mod middlebox;
mod trial;

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::pool::layout::{self, Layout};
use ::pool::port::{Port, UDP_PORT};
use ::pool::process::{NodeMemory, run_metadata, run_node};
use ::pool::{MemoryNode, Metadata, MetadataConfig, Station};
use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use serde_json::Value;
use sys::poll::Waker;
use sys::shared_memory::SharedMemory;
use sys::signals::Signals;

use crate::stop;

/// A key-value store in the memory of a passive host, over RDMA packets.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve memory; it knows nothing of keys and values
    Node(Node),
    /// Serve where the chains of keys are, and which memory clients write to
    Meta(Meta),
    /// Stand between clients and the memory node, and send their operations to the present ends of
    /// chains
    Middlebox(middlebox::Flags),
    /// Read and write keys in closed loops, and print throughput and latency
    Bench(bench::Flags),
    /// Measure a pool with all its processes once, or simulate it, for experiments
    Trial(trial::Flags),
}

/// Where packets go: a UDP socket, or a network device.
#[derive(Debug, Args)]
struct Network {
    /// IPv4 address of this process, on which it has UDP port 4791; no two processes share one
    #[arg(long, value_name = "IP")]
    listen: Ipv4Addr,

    /// Send and receive Ethernet frames at this device instead. The address must not be one that
    /// the machine has
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

#[derive(Debug, Args)]
struct Node {
    #[command(flatten)]
    network: Network,

    /// Size of the memory
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = units::size_bytes)]
    memory: u64,

    /// Size of a slab, the part of memory that a client is given at once: a multiple of 4 KiB up to
    /// 1 MiB. Values are shorter
    #[arg(long, value_name = "SIZE", default_value = "256KiB", value_parser = units::size_bytes)]
    slab: u64,

    /// Keep the memory in this file, which survives the process but not a crash of the machine
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Meta {
    #[command(flatten)]
    network: Network,

    /// Address of the memory node
    #[arg(long, value_name = "IP")]
    node: Ipv4Addr,

    /// How long a client may be silent before its memory is given to others
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = units::duration_ns)]
    lease: u64,
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    match &flags.command {
        Verb::Node(node) => serve_memory(node),
        Verb::Meta(meta) => serve_metadata(meta),
        Verb::Middlebox(flags) => middlebox::run(flags),
        Verb::Bench(flags) => bench::run(flags),
        Verb::Trial(flags) => trial::run(flags),
    }
}

impl Network {
    fn open(&self) -> anyhow::Result<Port> {
        open(self.listen, self.device.as_deref())
    }
}

/// Opens a port for an address.
fn open(ip: Ipv4Addr, device: Option<&str>) -> anyhow::Result<Port> {
    match device {
        None => Port::loopback(ip.octets()).with_context(|| cannot_open(ip)),
        Some(device) => Port::device(device, ip.octets()).with_context(|| {
            format!("open device {device} (is there one, and does this process have CAP_NET_RAW?)")
        }),
    }
}

/// The beginning of an error's message.
fn cannot_open(ip: Ipv4Addr) -> String {
    format!(
        "open UDP port {UDP_PORT} of {ip} (does another process have it, or has the machine no \
         such address?)"
    )
}

/// The station of another process.
fn station(ip: Ipv4Addr) -> Station {
    Station::of_ip(ip.octets(), UDP_PORT)
}

/// A number that differs from start to start.
fn seed() -> u64 {
    sys::clock::unix_ns() ^ (u64::from(std::process::id()) << 40)
}

/// Replaces a file by JSON for readers.
fn write_json(path: &Path, value: &Value) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value).context("write JSON")?;
    std::fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))
}

fn serve_memory(flags: &Node) -> anyhow::Result<ExitCode> {
    let slab_len = u32::try_from(flags.slab).ok();
    let Some(slab_len) = slab_len.filter(|len| layout::is_slab_len(*len)) else {
        bail!(
            "--slab {} is not a multiple of 4 KiB up to 1 MiB",
            flags.slab
        );
    };
    let memory = match &flags.file {
        None => SharedMemory::anonymous(flags.memory),
        Some(path) => {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            let file = options.open(path);
            file.and_then(|file| SharedMemory::of_file(file, flags.memory))
        }
    };
    let mut memory = NodeMemory(memory.map_err(|error| {
        let size = units::show_size(flags.memory);
        let what = match &flags.file {
            None => format!("map {size} of memory"),
            Some(path) => format!("map {size} of --file {}{}", path.display(), hint(&error)),
        };
        anyhow!(error).context(what)
    })?);
    let Some(Layout { slab_len, slabs }) = layout::format(&mut memory, flags.memory, slab_len)
    else {
        bail!(
            "--memory {} has no space for a slab, or --file has a larger pool or another content",
            units::show_size(flags.memory)
        );
    };
    let mut port = flags.network.open()?;
    let mut node = MemoryNode::new(port.station(), flags.memory, seed());
    println!(
        "serving {} slabs of {} at {}",
        slabs,
        units::show_size(slab_len.into()),
        flags.network.listen
    );
    until_stopped(|stop| run_node(&mut node, &mut memory, &mut port, stop))?;
    println!("{:?}", node.counters());
    Ok(ExitCode::SUCCESS)
}

/// What may help if the file of the memory cannot be mapped.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy => {
            " (another process uses it: stop that one, or name another file)"
        }
        io::ErrorKind::NotFound => " (its folder does not exist)",
        io::ErrorKind::StorageFull => " (there is no space for --memory)",
        _ => "",
    }
}

fn serve_metadata(flags: &Meta) -> anyhow::Result<ExitCode> {
    let mut port = flags.network.open()?;
    let mut config = MetadataConfig::new(port.station(), station(flags.node), seed());
    config.lease_ns = flags.lease;
    config.unix_start_ns = sys::clock::unix_less_monotonic_ns();
    let mut metadata = Metadata::new(config);
    println!(
        "serving the metadata of {} at {}",
        flags.node, flags.network.listen
    );
    until_stopped(|stop| run_metadata(&mut metadata, &mut port, stop))?;
    if let Some(error) = metadata.error() {
        return Err(error).context("serve the pool's metadata");
    }
    println!("{:?}", metadata.counters());
    Ok(ExitCode::SUCCESS)
}

/// Runs a loop, and stops it at the first SIGTERM or SIGINT.
fn until_stopped(run: impl FnOnce(&Waker) -> io::Result<()>) -> anyhow::Result<()> {
    let signals = Signals::block().context("block signals")?;
    let stopped = Waker::new().context("create an event")?;
    let ended = Waker::new().context("create an event")?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Without the means to wait, it is better to stop.
            let _ = stop::wait(&signals, Some(&ended));
            stopped.wake();
        });
        let outcome = run(&stopped);
        ended.wake();
        outcome.context("serve")
    })
}
