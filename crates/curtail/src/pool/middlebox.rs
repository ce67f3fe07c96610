//! `curtail pool middlebox`: steering of operations between clients and a memory node.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use ::middlebox::port::{Bridge, Losses, Port, Proxy};
use ::middlebox::process::{Report, run as run_middlebox};
use ::middlebox::{Config, Counters, Keys, Middlebox, Step};
use ::pool::layout::{EXACT, START, STEERABLE};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use sys::clock::unix_ns;
use sys::poll::Waker;

/// Bytes that a chain takes, with its four addresses (`docs/decisions/022-steering.md`).
const CHAIN_LEN: u64 = 320;
/// Addresses for each chain.
const ADDRESSES_PER_CHAIN: usize = 4;
const NS_PER_S: u64 = 1_000_000_000;

#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Address at which clients and the metadata service reach the memory node through the
    /// middlebox (UDP port 4791, no privileges needed)
    #[arg(
        long,
        value_name = "IP",
        requires = "node",
        required_unless_present = "client_device"
    )]
    listen: Option<Ipv4Addr>,

    /// Address of the memory node
    #[arg(long, value_name = "IP", requires = "listen")]
    node: Option<Ipv4Addr>,

    /// First of the addresses that stand for clients at the memory node; each client has the next
    /// one that is free
    #[arg(long, value_name = "IP", default_value = "127.1.0.1")]
    aliases: Ipv4Addr,

    /// Bridge Ethernet frames instead: the device at which clients and the metadata service are
    #[arg(
        long,
        value_name = "NAME",
        requires = "memory_device",
        conflicts_with = "listen"
    )]
    client_device: Option<String>,

    /// The device at which the memory node is
    #[arg(long, value_name = "NAME", requires = "client_device")]
    memory_device: Option<String>,

    /// How far packets are rewritten; each step includes those before
    #[arg(long, value_name = "STEP", default_value = "conversion")]
    step: StepName,

    /// Steer only this many chains, those with most operations
    #[arg(long, value_name = "N")]
    hottest: Option<usize>,

    /// Memory for what is known of chains. At the bound, chains that were not used for long are
    /// forgotten. Connections and packets have bounds of their own, together below 60 MiB
    #[arg(long, value_name = "SIZE", default_value = "5MiB", value_parser = units::size_bytes)]
    state: u64,

    /// Number of queue pairs at the memory node that all clients share, from the step mapping on
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    shared: u16,

    /// Size of the node's memory. Operations beyond it are refused then, instead of passed to the
    /// memory node, which ends a shared queue pair for them
    #[arg(long, value_name = "SIZE", value_parser = units::size_bytes)]
    memory: Option<u64>,

    /// Key (rkey) of operations that may be redirected
    #[arg(long, value_name = "KEY", default_value_t = Key(STEERABLE))]
    steerable_key: Key,

    /// Key of operations that are executed where they say
    #[arg(long, value_name = "KEY", default_value_t = Key(EXACT))]
    exact_key: Key,

    /// How long an unanswered compare-and-swap holds others of its chain back, before the step
    /// mapping
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = units::duration_ns)]
    hold: u64,

    /// After how long without progress a shared queue pair sends again
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = units::duration_ns)]
    resend: u64,

    /// Number of this start, greater than that of the one before by more than the queue pairs that
    /// were opened again in between, as long as the memory node runs; the time in seconds if it is
    /// not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    instance: Option<u32>,

    /// Print the counters at this interval, and not only at the end
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns)]
    every: Option<u64>,

    /// Also write the counters to this file at the end, as JSON
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StepName {
    /// Packets are forwarded
    #[value(alias = "clover")]
    None,
    /// Compare-and-swap operations go to the tail of their chain
    #[value(alias = "write-steering")]
    Write,
    /// READs too
    #[value(alias = "read-steering")]
    Read,
    /// All operations of a chain use one queue pair of the memory node
    Mapping,
    /// Compare-and-swap operations become WRITEs
    Conversion,
}

impl StepName {
    /// The name as it is given to `--step`.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl From<StepName> for Step {
    fn from(name: StepName) -> Self {
        match name {
            StepName::None => Self::Forward,
            StepName::Write => Self::Write,
            StepName::Read => Self::Read,
            StepName::Mapping => Self::Mapping,
            StepName::Conversion => Self::Conversion,
        }
    }
}

/// A key (rkey). As text, hexadecimal after `0x`, else decimal.
#[derive(Debug, Clone, Copy)]
struct Key(u32);

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}

impl FromStr for Key {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.map(Self)
    }
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    match (
        &flags.listen,
        &flags.node,
        &flags.client_device,
        &flags.memory_device,
    ) {
        (Some(listen), Some(node), _, _) if listen == node => {
            bail!("--listen {listen} is the memory node's address: give the middlebox another one");
        }
        (Some(listen), Some(node), _, _) => {
            let port = Proxy::new(*listen, *node, flags.aliases);
            let port = port.with_context(|| super::cannot_open(*listen))?;
            let ends = format!("{listen} for clients and the memory node at {node}");
            flags.serve(port, &ends)
        }
        (_, _, Some(clients), Some(memory))
            if clients == memory || is_loopback(clients, memory) =>
        {
            bail!("--client-device and --memory-device have to differ, and neither can be lo");
        }
        (_, _, Some(clients), Some(memory)) => {
            let port = Bridge::new(clients, memory);
            let port = port.context("open the devices (does this process have CAP_NET_RAW?)")?;
            let ends = format!("{clients} for clients and {memory} for the memory node");
            flags.serve(port, &ends)
        }
        _ => bail!("--listen and --node, or --client-device and --memory-device, are needed"),
    }
}

impl Flags {
    fn config(&self) -> anyhow::Result<Config> {
        let chains = usize::try_from(self.state / CHAIN_LEN)?;
        if chains == 0 {
            bail!(
                "--state {} is too small: a chain takes {CHAIN_LEN} bytes",
                units::show_size(self.state)
            );
        }
        if self.every == Some(0) {
            bail!("--every 0 would print without end; give an interval as 1s");
        }
        if self.resend == 0 {
            bail!("--resend 0 would send again without end; the default is 5ms");
        }
        let mut config = Config::new(self.step.into(), self.instance.unwrap_or_else(instance));
        config.hottest = self.hottest;
        config.shared = usize::from(self.shared);
        config.keys = Keys {
            steerable: self.steerable_key.0,
            exact: self.exact_key.0,
        };
        if let Some(len) = self.memory {
            config.memory = START..START.saturating_add(len);
        }
        config.chains = chains;
        config.addresses = chains.saturating_mul(ADDRESSES_PER_CHAIN);
        config.hold_max_ns = self.hold;
        config.resend_ns = self.resend;
        Ok(config)
    }

    fn serve(&self, mut port: impl Port, ends: &str) -> anyhow::Result<ExitCode> {
        let mut middlebox = Middlebox::new(self.config()?).context("start the middlebox")?;
        println!("steering (step {}) between {ends}", self.step.name());
        let mut print = |middlebox: &Middlebox| println!("{}", line(&middlebox.counters()));
        let outcome = super::until_stopped(|stop: &Waker| {
            let report = self.every.map(|every_ns| Report {
                every_ns,
                call: &mut print,
            });
            run_middlebox(&mut middlebox, &mut port, stop, report)
        });
        let (counters, losses) = (middlebox.counters(), port.losses()?);
        println!("{}", line(&counters));
        println!("{losses:?}");
        if let Some(path) = &self.json {
            super::write_json(path, &to_json(&counters, &losses))?;
        }
        outcome?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether one of the devices is the loopback device, at which what is sent arrives again.
fn is_loopback(clients: &str, memory: &str) -> bool {
    [clients, memory].contains(&"lo")
}

/// A number that is greater at each start: the time in seconds. This waits until the present second
/// is over, so that a start after this one, however soon, has another number.
fn instance() -> u32 {
    let rest_ns = NS_PER_S - unix_ns() % NS_PER_S;
    std::thread::sleep(Duration::from_nanos(rest_ns));
    (unix_ns() / NS_PER_S) as u32
}

/// The counters that are not 0.
fn line(counters: &Counters) -> String {
    let all = counters.all();
    let counted = all.iter().filter(|(_, count)| *count > 0);
    let words: Vec<String> = counted
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    format!("counters: {}", words.join(", "))
}

fn to_json(counters: &Counters, losses: &Losses) -> Value {
    let mut all = serde_json::Map::new();
    for (name, count) in counters.all() {
        all.insert(name.to_owned(), count.into());
    }
    json!({
        "counters": all,
        "losses": { "discarded": losses.discarded, "unsent": losses.unsent,
                    "foreign": losses.foreign, "downs": losses.downs,
                    "unaddressed": losses.unaddressed },
    })
}
