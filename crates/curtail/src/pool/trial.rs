//! `curtail pool trial`: one measurement of a pool with all its processes, for experiments.
//!
//! Simulated, or over real packets: memory node, middlebox, metadata service and clients are
//! processes that meet over UDP on this machine, or over Ethernet between network namespaces.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

use ::pool::hosts::{HOSTS, Host, Hosts, device};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use sim::steering::{Config, Costs, Step, simulate};
use sys::child::{Bounds, bind};
use workload::Ycsb;

use super::middlebox::StepName;
use crate::load::parse;

#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Where the processes meet. The result has the number of network namespaces
    #[arg(long, value_name = "NETWORK", default_value = "loopback")]
    network: Network,

    /// How far the middlebox rewrites packets
    #[arg(long, value_name = "STEP", default_value = "none")]
    step: StepName,

    /// Number of threads, each of which is a client
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,

    /// Operations that a thread keeps going
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    depth: u8,

    /// The mix: ycsb-a, ycsb-b, ycsb-c or write-only
    #[arg(long, value_name = "NAME", default_value = "ycsb-a", value_parser = parse::<Ycsb>)]
    workload: Ycsb,

    /// Exponent of Zipf's law, by which keys are chosen
    #[arg(long, value_name = "X", default_value_t = 0.75)]
    theta: f64,

    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 1024)]
    keys: u32,

    /// Length of values
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = units::size_bytes)]
    value: u64,

    /// How long to measure over real packets
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration_ns)]
    duration: u64,

    /// What things cost in virtual time
    #[arg(long, value_name = "COSTS", default_value = "prototype")]
    costs: CostsName,

    /// Number of simulated operations
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    operations: u64,

    /// Seed of keys and operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Over real packets: judge all answers, and fail if they are wrong
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CostsName {
    /// Those of the published prototype
    Prototype,
    /// The same, but for our middlebox, as its benchmark without ports has measured it
    Ours,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Network {
    /// None: virtual time
    Simulated,
    /// UDP between addresses of this machine
    Loopback,
    /// Ethernet between network namespaces; needs root
    Namespaces,
    /// As namespaces if this process may create them, else as loopback
    Packets,
}

/// Runs the trial and prints what was measured, as one line of JSON.
pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let measured = match flags.network {
        Network::Simulated => flags.simulate()?,
        Network::Loopback => flags.measure(None)?,
        Network::Namespaces => {
            let hosts = Hosts::open().context("create the hosts of a pool (needs root)")?;
            flags.measure(Some(&hosts))?
        }
        Network::Packets => flags.measure(hosts_if_possible()?.as_ref())?,
    };
    println!("{measured}");
    Ok(ExitCode::SUCCESS)
}

/// The hosts of a pool, unless this process may not create them, or this machine lacks the means.
fn hosts_if_possible() -> anyhow::Result<Option<Hosts>> {
    match Hosts::open() {
        Ok(hosts) => Ok(Some(hosts)),
        Err(error) if Hosts::is_unavailable(&error) => {
            eprintln!("over UDP on this machine, as there are no network namespaces: {error}");
            Ok(None)
        }
        Err(error) => Err(error).context("create the hosts of a pool"),
    }
}

impl Flags {
    fn simulate(&self) -> anyhow::Result<Value> {
        let steps = Step::ALL.map(|(_, step)| step);
        let config = Config {
            threads: self.threads.into(),
            outstanding: self.depth.into(),
            workload: self.workload,
            theta: self.theta,
            keys: self.keys,
            value_len: u32::try_from(self.value).context("--value is too long")?,
            step: steps[self.step as usize],
            hottest: None,
            is_steering: true,
            cores: 1,
            costs: match self.costs {
                CostsName::Prototype => Costs::prototype(),
                CostsName::Ours => Costs::ours(),
            },
            operations: self.operations,
            seed: self.seed,
        };
        config.check()?;
        let found = simulate(&config)?;
        let percentile = |latencies: &measure::Histogram, percent| {
            (!latencies.is_empty()).then(|| latencies.percentile(percent))
        };
        Ok(json!({
            "threads_rps": found.threads_rps,
            "total_rps": found.total_rps,
            "read_p50_ns": percentile(&found.reads, 50.0),
            "read_p99_ns": percentile(&found.reads, 99.0),
            "write_p50_ns": percentile(&found.writes, 50.0),
            "write_p99_ns": percentile(&found.writes, 99.0),
            "swap_success_share": found.swap_success,
            "bytes_per_operation": found.bytes,
            "core_busy_share": found.core_busy,
        }))
    }

    /// Starts all processes, on hosts or on this machine, and measures.
    fn measure(&self, hosts: Option<&Hosts>) -> anyhow::Result<Value> {
        let setting = Setting { hosts };
        let step = self.step.name();
        let [node, meta, middlebox, client, alias] =
            [2, 3, 4, 10, 100].map(|last| setting.ip(last));
        let mut words = format!("node --listen {node} --memory 1GiB");
        let _node = setting.start(Host::Memory, &words, device::MEMORY)?;
        // The memory node is new, so the first number will do.
        words = format!("middlebox --step {step} --instance 1");
        words += &match hosts {
            Some(_) => format!(
                " --client-device {} --memory-device {}",
                device::TO_CLIENTS,
                device::TO_MEMORY
            ),
            None => format!(" --listen {middlebox} --node {node} --aliases {alias}"),
        };
        let middlebox_process = setting.start(Host::Middlebox, &words, "")?;
        let reached = if hosts.is_some() { node } else { middlebox };
        words = format!("meta --listen {meta} --node {reached}");
        let _meta = setting.start(Host::Metadata, &words, device::METADATA)?;
        let json = JsonFile::new();
        words = format!(
            "bench --meta {meta} --from {client} --threads {} --depth {} --workload {} \
             --popularity zipf:{} --keys {} --value {} --duration {}ns --seed {}",
            self.threads,
            self.depth,
            self.workload.name(),
            self.theta,
            self.keys,
            self.value,
            self.duration,
            self.seed,
        );
        for (is_given, flag) in [
            (self.step != StepName::None, " --steered"),
            (self.check, " --check"),
        ] {
            words += if is_given { flag } else { "" };
        }
        let mut command = setting.command(Host::Clients, &words, device::CLIENTS)?;
        // Its path may have spaces.
        command.arg("--json").arg(&json.0);
        let bench = PoolProcess::start(command, &words)?;
        let before_ns = middlebox_process.processor_ns()?;
        bench.wait_for_time(self.duration)?;
        let busy_ns = middlebox_process.processor_ns()?.saturating_sub(before_ns);
        bench.join()?;
        let text = std::fs::read(&json.0).context("read the results")?;
        let results: Value = serde_json::from_slice(&text).context("read the results")?;
        Ok(self.found(&results, busy_ns, hosts.is_some()))
    }

    fn found(&self, results: &Value, busy_ns: u64, has_namespaces: bool) -> Value {
        let errors = results["errors"].as_object();
        let errors: u64 = errors.map_or(0, |all| all.values().filter_map(Value::as_u64).sum());
        json!({
            "threads_rps": results["throughput_sum_of_averages_rps"],
            "total_rps": results["throughput_total_rps"],
            "read_p50_ns": results["reads"]["p50_ns"],
            "read_p99_ns": results["reads"]["p99_ns"],
            "write_p50_ns": results["writes"]["p50_ns"],
            "write_p99_ns": results["writes"]["p99_ns"],
            "swap_success_share": results["swap_success"],
            "bytes_per_operation": results["bytes_per_operation"],
            "core_busy_share": busy_ns as f64 / self.duration.max(1) as f64,
            "namespaces": if has_namespaces { HOSTS } else { 0 },
            "errors": errors,
            "reconnects": results["reconnects"],
            "linearizable_calls": results["linearizable_calls"],
        })
    }
}

/// A file for the results, which is removed at the end.
struct JsonFile(PathBuf);

impl JsonFile {
    fn new() -> Self {
        let name = format!("curtail-pool-trial-{}.json", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for JsonFile {
    fn drop(&mut self) {
        // It may not have been written.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Where processes run.
struct Setting<'a> {
    hosts: Option<&'a Hosts>,
}

impl Setting<'_> {
    /// An address. Those of this machine depend on the process number, as trials may overlap.
    fn ip(&self, last: u8) -> Ipv4Addr {
        match self.hosts {
            Some(_) => Ipv4Addr::new(192, 0, 2, last),
            None => {
                let [.., high, low] = std::process::id().to_be_bytes();
                Ipv4Addr::new(127, 64 | (high & 63), low, last)
            }
        }
    }

    /// Starts [`Setting::command`], and waits until it has printed a line.
    fn start(&self, host: Host, words: &str, device: &str) -> anyhow::Result<PoolProcess> {
        PoolProcess::start(self.command(host, words, device)?, words)
    }

    /// The command `curtail pool` with these words, at a device if there are hosts and `device` is
    /// not empty.
    fn command(&self, host: Host, words: &str, device: &str) -> anyhow::Result<Command> {
        let program = std::env::current_exe().context("find this program")?;
        let mut command = Command::new(program);
        command.arg("pool").args(words.split_whitespace());
        if let Some(hosts) = self.hosts {
            hosts.namespace(host).place(&mut command);
            if !device.is_empty() {
                command.args(["--device", device]);
            }
        }
        Ok(command)
    }
}

/// A process that ends with this value, or with this program.
struct PoolProcess {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    name: String,
}

impl PoolProcess {
    fn start(mut command: Command, words: &str) -> anyhow::Result<Self> {
        let name = format!("curtail pool {words}");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let bounds = Bounds {
            dies_with_parent: true,
            ..Bounds::default()
        };
        bind(&mut command, &bounds)?;
        let mut child = command.spawn().with_context(|| format!("start {name}"))?;
        let output = child.stdout.take().context("it has no output")?;
        let mut process = Self {
            child,
            output: BufReader::new(output),
            name,
        };
        let mut line = String::new();
        if process.output.read_line(&mut line)? == 0 {
            bail!("{} has ended", process.name);
        }
        Ok(process)
    }

    fn processor_ns(&self) -> anyhow::Result<u64> {
        let cost = sys::cost::of_process(self.child.id())?;
        Ok(cost.user_ns + cost.system_ns)
    }

    /// Waits for a time, but not beyond the end of the process.
    fn wait_for_time(&self, timeout_ns: u64) -> anyhow::Result<()> {
        let ended = sys::child::ended(&self.child)?;
        let poll = sys::poll::Poll::new()?;
        poll.add(&ended, 0, sys::poll::Interest::Read)?;
        let mut events = sys::poll::Events::with_capacity(1);
        Ok(poll.wait(&mut events, Some(timeout_ns))?)
    }

    /// Waits for the end, which must be a success.
    fn join(mut self) -> anyhow::Result<()> {
        std::io::copy(&mut self.output, &mut std::io::sink())?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{} has ended with {status}", self.name);
        }
        Ok(())
    }
}

impl Drop for PoolProcess {
    fn drop(&mut self) {
        // Both calls fail if it has ended, which is not an error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
