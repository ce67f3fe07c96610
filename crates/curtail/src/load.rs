//! `curtail load`: the flags of the load generator and its output.

mod output;
mod search;

use std::io::{self, IsTerminal};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use ::load::agents::{self, AgentAddress, Coordinator, Progress};
use ::load::summary::SecondSummary;
use ::load::{
    CarrierKind, Config, Lengths, MeasuringClient, Protocol, Rate, Second, Summary, Target, text,
};
use anyhow::{Context, bail};
use clap::Args;
use output::{demand_line, write_json};
use search::SearchFlags;
use workload::{Distribution, Mix, Popularity, Superposition, WebFiles};

/// The flags of the load generator; the guide explains them on the pages "measure a server" and
/// "measure a web server".
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Servers: HOST:PORT, HOST, or the path of a Unix socket
    #[arg(required = true, value_name = "SERVER", value_parser = parse::<Target>)]
    servers: Vec<Target>,

    /// Requests per second over all connections, or `max` for closed loop
    #[arg(long, value_name = "RATE", default_value = "20k", value_parser = parse::<Rate>)]
    rate: Rate,

    /// Connections over all threads and servers
    #[arg(long, short = 'c', value_name = "N", default_value_t = 16)]
    connections: u32,

    /// Requests one connection may have outstanding
    #[arg(long, short = 'd', value_name = "N", default_value_t = 1)]
    depth: u32,

    /// Extra connections, all on the first thread, that keep their full depth outstanding whatever
    /// the rate; only their answers are counted
    #[arg(long, value_name = "N", default_value_t = 0)]
    saturating: u32,

    /// Requests each saturating connection keeps outstanding
    #[arg(long, value_name = "N", default_value_t = 512)]
    saturating_depth: u32,

    /// Threads; the connections are divided evenly among them
    #[arg(long, short = 'T', value_name = "N", default_value_t = 1)]
    threads: u32,

    /// Processors to pin the threads to, round-robin, such as 1 or 2,3; those of the agents are
    /// given to the agents. A measuring client takes the one after those of the load; if there is
    /// none, it is not pinned
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,

    /// Length of the measured interval [default: 5s, with --script at most an hour, because the run
    /// ends with the script]
    #[arg(long, short = 't', value_name = "TIME", value_parser = units::duration_ns)]
    duration: Option<u64>,

    /// Load offered before the interval and not recorded [default: 1s, with --script 0s]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = units::duration_ns)]
    warmup: Option<u64>,

    /// How long to wait for outstanding answers after the interval
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration_ns)]
    grace: u64,

    /// Seed of records, requests and their times
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Number of this repeat: the same records as with any other, and other requests
    #[arg(long, value_name = "N", default_value_t = 0)]
    repeat: u64,

    /// Distribution of key lengths: `fixed:N`, `uniform:MAX`, `normal:M,SD`, `exponential:L`,
    /// `pareto:LOC,SCALE,SHAPE`, `gev:LOC,SCALE,SHAPE` or `fb_key`
    #[arg(long, short = 'K', value_name = "DIST", default_value = "fb_key",
          value_parser = parse::<Distribution>)]
    keys: Distribution,

    /// Distribution of value lengths: as for keys, or fb_value
    #[arg(long, short = 'V', value_name = "DIST", default_value = "fb_value",
          value_parser = parse::<Distribution>)]
    values: Distribution,

    /// Longest value; longer samples are cut to it [default: 1000000, over UDP 60000]
    #[arg(long, value_name = "SIZE", value_parser = units::size_bytes)]
    value_max: Option<u64>,

    /// Distribution of times between requests, scaled to the rate: as for keys, or fb_ia
    #[arg(long, short = 'i', value_name = "DIST", default_value = "fb_ia",
          value_parser = parse::<Distribution>)]
    arrivals: Distribution,

    /// One arrival process for all connections together, instead of one for each
    #[arg(long)]
    single_stream: bool,

    /// Popularity of the records, or of the directories of --files: uniform or zipf:THETA [default:
    /// uniform; of files zipf:1]
    #[arg(long, value_name = "DIST", value_parser = parse::<Popularity>)]
    popularity: Option<Popularity>,

    /// Share of sets, 0 to 1; the rest are gets [default: 0.03; http has no sets]
    #[arg(long, short = 'u', value_name = "SHARE")]
    update: Option<f64>,

    /// Weights of operations in place of --update, such as get=90,set=9,delete=1: get, multiget,
    /// set, add, replace, append, prepend, delete, touch, gat, incr, decr, cas (a gets and the cas
    /// after it) and read-through (a get, and a set after a miss)
    #[arg(long, value_name = "WEIGHTS", value_parser = parse::<Mix>, conflicts_with = "update")]
    mix: Option<Mix>,

    /// Distribution of TTLs in seconds, from 1 to 30 days: as for keys; 0: no item expires
    #[arg(long, value_name = "DIST", default_value = "0", value_parser = parse::<Distribution>)]
    ttl: Distribution,

    /// Distribution of the number of keys of a multiget, from 1 to 128: as for keys
    #[arg(long, value_name = "DIST", default_value = "10", value_parser = parse::<Distribution>)]
    multiget: Distribution,

    /// Records
    #[arg(long, short = 'r', value_name = "N", default_value = "10k", value_parser = units::count)]
    records: u64,

    /// Set every record first, and read records back
    #[arg(long)]
    prefill: bool,

    /// Send the operations of a file, one a line such as `get KEY` or `0.25 set KEY LEN [TTL]`, at
    /// the times of the lines or at --rate; `-` is standard input. The run ends with the script
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prefill", "mix", "update", "ttl", "agents", "measure_connections"])]
    script: Option<PathBuf>,

    /// The script has two lines of lengths, as `curtail distribution` prints them: those of keys,
    /// then those of values. Each pair is this operation: get, set or delete
    #[arg(long, value_name = "OPERATION", requires = "script", value_parser = parse::<Lengths>)]
    lengths: Option<Lengths>,

    /// Files of the web servers, made with `curtail files make`: their total size, such as 3GB, or
    /// directories=600; ,seed=N after it if they were made with --seed N. For http
    #[arg(long, value_name = "FILES", value_parser = crate::files::web_files)]
    files: Option<WebFiles>,

    /// Compare the bytes of the files that a web server sends; their lengths always are
    #[arg(long)]
    verify: bool,

    /// Protocol: text, meta, binary, textile (that of the multithreaded-cache study: gets over UDP,
    /// and a TCP connection for each set or delete) or http (a web server's files; give --files,
    /// and the servers as HOST:PORT)
    #[arg(long, value_name = "NAME", default_value = "text", value_parser = parse::<Protocol>)]
    protocol: Protocol,

    /// Carrier of requests: stream (persistent connections), udp (a datagram each; memcached's
    /// frames) or one-shot (a connection each) [default: stream; textile has its own]
    #[arg(long, value_name = "NAME", value_parser = parse::<CarrierKind>)]
    carrier: Option<CarrierKind>,

    /// Requests on a connection before the generator closes it and opens another one, with carrier
    /// stream; the time of opening is part of the latency [default: no limit; http opens a
    /// connection again that the server has closed]
    #[arg(long, value_name = "N")]
    requests_per_connection: Option<u32>,

    /// UDP port of the servers, for textile [default: the TCP port + 1000]
    #[arg(long, value_name = "PORT")]
    udp_port: Option<u16>,

    /// Local addresses of sockets that carry one request or a few, used in turn: each has its own
    /// ports
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    source: Vec<IpAddr>,

    /// Time after which a request without an answer has failed, unless it is on a connection that
    /// is never opened again [default: 1s; for http 10s; for textile 1ms, and at least 1s for sets
    /// and deletes]
    #[arg(long, value_name = "TIME", value_parser = units::duration_ns)]
    timeout: Option<u64>,

    /// Report this process's processor time, memory and context switches over the interval: the
    /// server's, if it runs here
    #[arg(long, value_name = "PID")]
    watch_pid: Option<u32>,

    /// Report how many connections were ready at each wake-up of the first server, from its `stats
    /// curtail` at both ends of the interval; only Curtail counts them
    #[arg(long)]
    watch_bursts: bool,

    /// Report the machine's stalls on this processor, the server's: the wake-up latency of a
    /// real-time thread there. Needs root or CAP_SYS_NICE
    #[arg(long, value_name = "CPU")]
    detect_stalls: Option<usize>,

    /// Sleep between requests instead of polling: frees the processor, adds wake-up latency
    #[arg(long)]
    no_spin: bool,

    /// Agent that offers a part of the load instead of this process: HOST:PORT of a `curtail
    /// agent`. Give one for each host; --threads is then the number for each agent
    #[arg(long = "agent", value_name = "HOST:PORT", value_parser = parse::<AgentAddress>)]
    agents: Vec<AgentAddress>,

    /// File with the agents' token
    #[arg(long, value_name = "FILE", requires = "agents")]
    token_file: Option<PathBuf>,

    /// Connections of a measuring client: a separate open-loop run in this process beside the load,
    /// with a table of its own
    #[arg(long, value_name = "N")]
    measure_connections: Option<u32>,

    /// Requests per second of the measuring client
    #[arg(long, value_name = "RATE", default_value = "1k", value_parser = units::rate_rps,
          requires = "measure_connections")]
    measure_rate: f64,

    /// Requests one connection of the measuring client may have outstanding
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "measure_connections"
    )]
    measure_depth: u32,

    /// Percentiles of the summary table
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values_t = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99])]
    percentiles: Vec<f64>,

    /// Write the summary as JSON (schema curtail.load/3; of a search: curtail.search/1) to a file;
    /// `-` is standard output, and omits the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Do not print a line per second
    #[arg(long, short = 'q')]
    quiet: bool,

    #[command(flatten)]
    search: SearchFlags,
}

/// Parses a flag; the error of the type itself names the fault.
pub(crate) fn parse<T: std::str::FromStr>(text: &str) -> Result<T, T::Err> {
    text.parse()
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let config = flags.config()?;
    let client = flags.measuring_client();
    let coordinator = flags.coordinator(&config, client.as_ref())?;
    let is_verbose = flags.is_verbose();
    let search = match flags.search.is_given() {
        true if coordinator.is_some() || client.is_some() => {
            bail!(
                "--slo: a search runs here and alone; leave out --agent and --measure-connections"
            )
        }
        true => Some(flags.search.config(&config)?),
        false => None,
    };
    let resident = if flags.prefill {
        Some(prefill(&config, is_verbose)?)
    } else {
        None
    };
    if let Some(search) = &search {
        return flags.search.run(&config, search, resident, flags);
    }
    if is_verbose {
        println!("{}", demand_line(&config));
        if coordinator.is_none() {
            println!("{}", text::second_header());
        }
    }
    let mut seconds = Vec::new();
    let each_second = |second: &Second| {
        if !second.warmup {
            seconds.push(SecondSummary::from(second));
        }
        if is_verbose {
            println!("{}", text::second_line(second));
        }
    };
    let mut summary = match (&coordinator, &client) {
        (Some(coordinator), _) => run_agents(coordinator, &config, each_second, is_verbose)?,
        (None, Some(client)) => ::load::run_measured(&config, client, each_second)?,
        (None, None) => ::load::run(&config, each_second)?,
    };
    summary.resident = resident;
    summary.seconds = seconds;
    for fault in summary.script.iter().flat_map(|script| &script.faults) {
        eprintln!("script, {fault}");
    }
    if !flags.is_json_to_stdout() {
        print!("\n{}", text::table(&summary));
    }
    if let Some(path) = &flags.json {
        write_json(path, |is_pretty| match is_pretty {
            true => serde_json::to_string_pretty(&summary),
            false => serde_json::to_string(&summary),
        })?;
    }
    Ok(exit_code(&summary))
}

/// A run of which a share is missing has not succeeded.
fn exit_code(summary: &Summary) -> ExitCode {
    match agents::covered(&summary.agents) {
        Some((present, all)) if present < all => {
            eprintln!("curtail: the run covers {present} of {all} connections");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

impl Flags {
    fn measuring_client(&self) -> Option<MeasuringClient> {
        let connections = self.measure_connections?;
        // Its thread follows those of the load, if those are here. It never shares a processor with
        // them: the load would delay it, and that delay would look like the server's.
        let threads = match self.agents.is_empty() {
            true => self.threads as usize,
            false => 0,
        };
        let own_cpu = self.cpus.get(threads).copied();
        let own_cpu = own_cpu.filter(|cpu| !self.cpus[..threads].contains(cpu));
        Some(MeasuringClient {
            connections,
            rate_rps: self.measure_rate,
            depth: self.measure_depth,
            cpus: own_cpu.into_iter().collect(),
        })
    }

    /// The coordinator of `--agent`, its settings checked. None: the load is offered here.
    fn coordinator(
        &self,
        config: &Config,
        client: Option<&MeasuringClient>,
    ) -> anyhow::Result<Option<Coordinator>> {
        if self.agents.is_empty() {
            client.map_or(Ok(()), |client| client.validate(config))?;
            return Ok(None);
        }
        if client.is_none() && !self.cpus.is_empty() {
            bail!("--cpus: with --agent no thread runs here; give the flag to `curtail agent`");
        }
        let coordinator = Coordinator {
            agents: self.agents.clone(),
            token: crate::agent::token(self.token_file.as_ref())?,
            client: client.cloned(),
        };
        coordinator.validate(config)?;
        Ok(Some(coordinator))
    }

    fn is_json_to_stdout(&self) -> bool {
        let path = self.json.as_deref();
        path.is_some_and(|path| path.as_os_str() == "-")
    }

    fn is_verbose(&self) -> bool {
        !self.quiet && !self.is_json_to_stdout()
    }

    fn config(&self) -> anyhow::Result<Config> {
        let Some(first) = self.servers.first() else {
            bail!("no server given")
        };
        let mut config = Config::new(first.clone());
        config.targets.clone_from(&self.servers);
        config.rate = self.rate;
        config.connections = self.connections;
        config.depth = self.depth;
        config.saturating_connections = self.saturating;
        config.saturating_depth = self.saturating_depth;
        config.threads = self.threads;
        config.cpus.clone_from(&self.cpus);
        config.duration_ns = match self.duration {
            Some(ns) => ns,
            None if self.script.is_some() => ::load::limits::SCRIPT_DURATION_NS,
            None => config.duration_ns,
        };
        config.warmup_ns = match self.warmup {
            Some(ns) => ns,
            None if self.script.is_some() => 0,
            None => config.warmup_ns,
        };
        config.script.clone_from(&self.script);
        config.lengths = self.lengths;
        config.grace_ns = self.grace;
        config.seed = self.seed;
        config.repeat = self.repeat;
        config.keys = self.keys;
        config.values = self.values;
        config.value_len_max = match self.value_max {
            Some(len) => u32::try_from(len)
                .with_context(|| format!("--value-max {len}: give at most 1 GiB"))?,
            None if self.carrier == Some(CarrierKind::Udp) => ::load::limits::UDP_VALUE_LEN_MAX,
            None => config.value_len_max,
        };
        config.arrivals = self.arrivals;
        if self.single_stream {
            config.superposition = Superposition::Single;
        }
        config.popularity = match self.popularity {
            Some(popularity) => popularity,
            None if self.files.is_some() => Popularity::Zipf(1.0),
            None => config.popularity,
        };
        if let Some(share) = self.update {
            if self.protocol == Protocol::Http {
                bail!(
                    "--update: protocol http has no sets; give --mix get=90,head=10 or leave it out"
                );
            }
            config.update = share;
        }
        (config.files, config.verify) = (self.files, self.verify);
        config.mix.clone_from(&self.mix);
        config.ttl = self.ttl;
        config.multiget = self.multiget;
        config.records = self.records;
        config.protocol = self.protocol;
        config.carrier = self
            .carrier
            .or(self.protocol.own_carrier())
            .unwrap_or_default();
        config.requests_per_connection = self.requests_per_connection;
        config.udp_port = self.udp_port;
        config.sources.clone_from(&self.source);
        config.timeout_ns = self.timeout.unwrap_or(self.protocol.default_timeout_ns());
        config.watch_pid = self.watch_pid;
        config.watch_bursts = self.watch_bursts;
        config.stall_detector_cpu = self.detect_stalls;
        config.spin = !self.no_spin;
        config.percentiles.clone_from(&self.percentiles);
        config.validate()?;
        Ok(config)
    }
}

/// Makes a run whose load agents offer, and shows its progress.
fn run_agents(
    coordinator: &Coordinator,
    config: &Config,
    mut each_second: impl FnMut(&Second),
    is_verbose: bool,
) -> Result<Summary, ::load::Error> {
    let show = |progress: Progress<'_>| match progress {
        Progress::Ready(agents) if is_verbose => {
            for agent in agents {
                let clock = agents::clock_text(agent).unwrap_or_default();
                let count = agent.part.count;
                println!("agent {}: {count} connections; {clock}", agent.agent);
            }
            println!("{}", text::second_header());
        }
        Progress::Second(second) => each_second(second),
        Progress::Missing(agent) => {
            let reason = agent.missing.as_deref().unwrap_or_default();
            let (name, count) = (&agent.agent, agent.part.count);
            eprintln!("curtail: agent {name} and its {count} connections are missing: {reason}");
        }
        _ => {}
    };
    coordinator.run(config, show)
}

/// Fills the servers; returns the share of the records that are resident afterwards.
fn prefill(config: &Config, is_verbose: bool) -> anyhow::Result<f64> {
    let on_terminal = is_verbose && io::stderr().is_terminal();
    let done = ::load::prefill(config, |progress| {
        if on_terminal {
            let percent = 100 * progress.done / progress.total.max(1);
            eprint!("\rprefill: {percent} %");
        }
    })?;
    if on_terminal {
        eprint!("\r");
    }
    if is_verbose {
        println!("{}", text::prefill_line(&done));
    }
    Ok(done.resident)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    /// The processor of the measuring client with these flags. None: it is not pinned.
    fn client_cpu(flags: &str) -> Option<usize> {
        let words = ["load", "127.0.0.1:1", "--measure-connections", "4"];
        let words = words.into_iter().chain(flags.split_whitespace());
        let line = Line::try_parse_from(words).unwrap();
        let client = line.flags.measuring_client().unwrap();
        client.cpus.first().copied()
    }

    /// The settings that flags give.
    fn config(flags: &str) -> anyhow::Result<Config> {
        let words = ["load", "127.0.0.1:2001"].into_iter();
        let line = Line::try_parse_from(words.chain(flags.split_whitespace()))?;
        line.flags.config()
    }

    #[test]
    fn defaults_depend_on_the_protocol_and_on_a_script() {
        let text = config("").unwrap();
        assert_eq!(
            (text.carrier, text.timeout_ns),
            (CarrierKind::Stream, 1_000_000_000)
        );
        let textile = config("--protocol textile --source 127.0.0.1,127.0.0.2").unwrap();
        assert_eq!(textile.carrier, CarrierKind::PerOperation);
        assert_eq!((textile.timeout_ns, textile.sources.len()), (1_000_000, 2));
        let script = config("--script - --lengths set --rate max").unwrap();
        let hour_ns = 3_600_000_000_000;
        assert_eq!((script.duration_ns, script.warmup_ns), (hour_ns, 0));
        let short = config("--script - --duration 2s").unwrap();
        assert_eq!(short.duration_ns, 2_000_000_000);
    }

    #[test]
    fn flags_that_contradict_the_protocol_are_errors_that_name_it() {
        for (flags, message) in [
            (
                "--protocol textile --carrier one-shot",
                "carrier: protocol textile decides it",
            ),
            (
                "--protocol textile -d 2",
                "depth: protocol textile opens a socket",
            ),
            ("--udp-port 3001", "UDP port: only protocol textile has one"),
            (
                "--source 127.0.0.2",
                "sources: they are for sockets that are opened often",
            ),
            ("--lengths set", "--script <FILE>"),
            (
                "--script - --lengths touch",
                "lengths: there is no `touch`; give get, set or delete",
            ),
            (
                "--protocol gopher",
                "protocol: there is no `gopher`; give text, meta, binary, textile or http",
            ),
        ] {
            let error = config(flags).unwrap_err().to_string();
            assert!(error.contains(message), "{flags}: {error}");
        }
    }

    #[test]
    fn a_measuring_client_does_not_share_a_processor_with_the_load() {
        assert_eq!(client_cpu("--cpus 1"), None);
        assert_eq!(client_cpu("--cpus 1,1"), None);
        assert_eq!(client_cpu("--cpus 1,2"), Some(2));
        assert_eq!(client_cpu("--cpus 1,2 -T 2"), None);
        assert_eq!(client_cpu("--cpus 1,2 -T 4"), None);
        assert_eq!(client_cpu("-T 2"), None);
        // The threads of agents are on other hosts.
        assert_eq!(client_cpu("--cpus 1 -T 2 --agent 127.0.0.1:2"), Some(1));
    }
}
