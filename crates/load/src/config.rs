//! The settings of a run: the servers, the load, the times, and what is measured.

mod carriers;
mod names;

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use workload::{
    Demand, DemandError, Distribution, Keyspace, Mix, Op, Popularity, Superposition, WebFiles,
};

use crate::limits::{
    CONNECTIONS_MAX, DEPTH_MAX, DURATION_NS_MAX, GRACE_NS_MAX, OUTSTANDING_MAX, SATURATING_MAX,
    TARGETS_MAX, THREADS_MAX,
};

/// A server's address. As text: `HOST:PORT`, `HOST` (port 11211), or the path of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// An IP address and a port, for TCP or UDP.
    Tcp(SocketAddr),
    /// The path of a Unix stream socket.
    Unix(PathBuf),
}

/// The offered rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Rate {
    /// Open loop: requests per second, over all connections.
    PerSecond(f64),
    /// Closed loop: each connection sends its next request as soon as it has received an answer.
    Max,
}

/// The protocol of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Protocol {
    /// The text commands (`get`, `set`, …). Replies do not identify their requests: the next answer
    /// on a connection belongs to the connection's oldest outstanding request.
    #[default]
    Text,
    /// The meta commands (`mg`, `ms`, …). Each request has a number, its opaque token, which the
    /// reply repeats.
    Meta,
    /// The binary protocol. As with [`Protocol::Text`], replies come in the order of requests.
    Binary,
    /// The protocol of a published study of a multithreaded cache (akosik/TextileCache, 2016). Each
    /// request and answer is a text that ends with a NUL byte. Gets use UDP, and sets and deletes
    /// use TCP. Used with [`CarrierKind::PerOperation`] only.
    Textile,
    /// HTTP/1.1: GET and HEAD of the files of [`Config::files`], on connections that are opened
    /// again when they end.
    Http,
}

/// The transport of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CarrierKind {
    /// Connections for many requests each. They are opened again during the run only with
    /// [`Config::requests_per_connection`] or [`Protocol::Http`].
    #[default]
    Stream,
    /// UDP, with one datagram for each request. Requests and answers may be lost.
    Udp,
    /// A new connection for each request.
    OneShot,
    /// A new socket for each request: UDP for a get, TCP for any other operation. The carrier of
    /// [`Protocol::Textile`], and of no other protocol.
    PerOperation,
}

/// The operation of all requests of a script of lengths ([`Config::lengths`]). Each request is made
/// from a key length and a value length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lengths {
    /// Gets. The lengths of values are not used.
    Get,
    /// Sets.
    Set,
    /// Deletes. The lengths of values are not used.
    Delete,
}

/// The settings of one run. [`Config::new`] gives every field a valid default. The value of every
/// field can be parsed from text, by `FromStr` or by a function of [`units`]. If several machines
/// generate the load, the process that coordinates them sends the serialised settings to its agents
/// ([`crate::agents`]). The coordinator and the agents must be the same version of the program, so
/// an unknown field is an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The servers. Connections are assigned to them round-robin. Every server holds every record.
    pub targets: Vec<Target>,
    /// The offered rate.
    pub rate: Rate,
    /// The number of measured connections, over all threads and targets. Their latencies are
    /// recorded.
    pub connections: u32,
    /// The maximum number of outstanding requests of each measured connection.
    pub depth: u32,
    /// The number of saturating connections, in addition to the measured ones. Each keeps
    /// [`Config::saturating_depth`] requests outstanding, whatever the rate. Their answers are
    /// counted, but no latency is recorded. The first thread serves all of them.
    pub saturating_connections: u32,
    /// The number of requests that each saturating connection keeps outstanding.
    pub saturating_depth: u32,
    /// The number of generator threads. The connections are divided evenly among them.
    pub threads: u32,
    /// Thread `i` is pinned to processor `cpus[i % cpus.len()]`. If the list is empty, threads are
    /// not pinned.
    pub cpus: Vec<usize>,
    /// The length of the measured interval.
    pub duration_ns: u64,
    /// The length of the warm-up: before the measured interval, load is offered but not recorded.
    pub warmup_ns: u64,
    /// The length of the grace period: how long to wait for outstanding answers after the measured
    /// interval. A request answered in the grace period is recorded with its true latency. A
    /// request that has no answer at the end of the grace period is censored.
    pub grace_ns: u64,
    /// The seed of all random draws: records, the order of requests and their times.
    pub seed: u64,
    /// The number of this repeat of the run. Repeats with the same seed have the same records with
    /// the same popularity, but different requests at different times.
    pub repeat: u64,
    /// Distribution of key lengths.
    pub keys: Distribution,
    /// Distribution of value lengths.
    pub values: Distribution,
    /// The maximum length of a value in bytes. A greater length drawn from `values` is reduced to
    /// this maximum.
    pub value_len_max: u32,
    /// Distribution of the times between requests. The times are scaled, so that their mean gives
    /// the rate.
    pub arrivals: Distribution,
    /// Whether the arrival distribution is that of each connection, or that of all connections
    /// together.
    pub superposition: Superposition,
    /// Distribution of requests over the records.
    pub popularity: Popularity,
    /// Share of sets among the requests, 0 to 1; the rest are gets. Ignored if `mix` is given.
    pub update: f64,
    /// The share of each operation. None: gets and sets, in the shares that `update` gives.
    pub mix: Option<Mix>,
    /// Distribution of TTLs in seconds ([`Demand::ttl`]). With `fixed:0` no item expires.
    pub ttl: Distribution,
    /// Distribution of the number of keys of a multiget.
    pub multiget: Distribution,
    /// Number of records.
    pub records: u64,
    /// The files of the web servers, for [`Protocol::Http`] only. They take the place of the
    /// records: requests are distributed over their directories by [`Config::popularity`].
    pub files: Option<WebFiles>,
    /// Whether the bytes of answers are compared with those of the files. The lengths are always
    /// compared.
    #[serde(default)]
    pub verify: bool,
    /// A file with one operation on each line, which replaces the load drawn from the seed. `-` is
    /// standard input. Lines without a time are paced by `rate` and `arrivals`.
    pub script: Option<PathBuf>,
    /// If given, the script is a script of lengths. It has two lines: the lengths of the keys, and
    /// then the lengths of the values. As in the C programs of the study ([`Protocol::Textile`]), a
    /// length includes the NUL byte at the end of a C string. So a key of length 31 is 30 letters
    /// `K`.
    pub lengths: Option<Lengths>,
    /// The protocol of requests and answers.
    pub protocol: Protocol,
    /// The transport of requests and answers.
    pub carrier: CarrierKind,
    /// The number of requests on a connection of [`CarrierKind::Stream`] after which the generator
    /// closes the connection and opens another one. None: there is no such number.
    pub requests_per_connection: Option<u32>,
    /// The UDP port of the servers. Used only by [`CarrierKind::PerOperation`]. None: the TCP port
    /// of the target + [`crate::limits::TEXTILE_UDP_PORT_OFFSET`].
    pub udp_port: Option<u16>,
    /// The local addresses, used in turn, of the sockets that are opened during the run. Each
    /// address has its own ports, so that with several addresses the free ports last longer. Empty:
    /// the kernel chooses the address.
    pub sources: Vec<IpAddr>,
    /// The time after which a request without an answer has failed. Requests on connections that
    /// are never opened again have no time-out. With [`CarrierKind::PerOperation`] this is the
    /// time-out of gets; other operations have at least
    /// [`crate::limits::TEXTILE_TCP_TIMEOUT_MIN_NS`].
    pub timeout_ns: u64,
    /// The process, usually the server, whose processor time, memory and context switches during
    /// the measured interval are reported.
    pub watch_pid: Option<u32>,
    /// Whether to read `stats curtail` of the first server at the start and the end of the measured
    /// interval, to report how many ready connections the server finds at each wake-up.
    pub watch_bursts: bool,
    /// The processor on which a real-time thread measures the stalls of the machine. None: stalls
    /// are not measured.
    pub stall_detector_cpu: Option<usize>,
    /// Whether a thread polls instead of sleeping while requests are outstanding or the next
    /// request is due soon. Polling avoids the wake-up latency, but the thread then occupies a
    /// complete processor.
    pub spin: bool,
    /// The percentiles of the summary, ascending.
    pub percentiles: Vec<f64>,
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{setting}: {fault}")]
pub struct ConfigError {
    setting: &'static str,
    fault: String,
}

impl ConfigError {
    pub(crate) fn new(setting: &'static str, fault: String) -> Self {
        Self { setting, fault }
    }

    /// An error of the description of the load ([`Config::demand`]).
    pub(crate) fn demand(error: &DemandError) -> Self {
        Self {
            setting: "load",
            fault: error.to_string(),
        }
    }

    pub(crate) fn search(fault: String) -> Self {
        Self {
            setting: "search",
            fault,
        }
    }
}

impl Config {
    /// The default settings for one server: 20 000 requests per second over 16 connections of depth
    /// 1 for 5 s. Key and value lengths are distributed as in Facebook's ETC pool.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            targets: vec![target],
            rate: Rate::PerSecond(20_000.0),
            connections: 16,
            depth: 1,
            saturating_connections: 0,
            saturating_depth: 512,
            threads: 1,
            cpus: Vec::new(),
            duration_ns: 5_000_000_000,
            warmup_ns: 1_000_000_000,
            grace_ns: 1_000_000_000,
            seed: 1,
            repeat: 0,
            keys: Distribution::FacebookKey,
            values: Distribution::FacebookValue,
            value_len_max: workload::limits::VALUE_LEN_MAX,
            arrivals: Distribution::FacebookArrival,
            superposition: Superposition::PerConnection,
            popularity: Popularity::Uniform,
            update: 0.03,
            mix: None,
            ttl: Distribution::Fixed(0.0),
            multiget: Distribution::Fixed(1.0),
            records: 10_000,
            files: None,
            verify: false,
            script: None,
            lengths: None,
            protocol: Protocol::Text,
            carrier: CarrierKind::Stream,
            requests_per_connection: None,
            udp_port: None,
            sources: Vec::new(),
            timeout_ns: 1_000_000_000,
            watch_pid: None,
            watch_bursts: false,
            stall_detector_cpu: None,
            spin: true,
            percentiles: vec![50.0, 90.0, 95.0, 99.0, 99.9, 99.99],
        }
    }

    /// Checks every setting against its bounds.
    ///
    /// # Errors
    /// The first invalid setting, and the values that are valid for it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within("targets", self.targets.len() as u64, 1, TARGETS_MAX as u64)?;
        // Each target and each thread has at least one connection.
        let least = self.targets.len().max(self.threads as usize) as u64;
        within(
            "threads",
            u64::from(self.threads),
            1,
            u64::from(THREADS_MAX),
        )?;
        let connections = u64::from(self.connections);
        within(
            "connections",
            connections,
            least,
            u64::from(CONNECTIONS_MAX),
        )?;
        within("depth", u64::from(self.depth), 1, u64::from(DEPTH_MAX))?;
        let outstanding = connections * u64::from(self.depth);
        within("connections × depth", outstanding, 1, OUTSTANDING_MAX)?;
        within(
            "saturating connections",
            u64::from(self.saturating_connections),
            0,
            u64::from(SATURATING_MAX),
        )?;
        within(
            "saturating depth",
            u64::from(self.saturating_depth),
            1,
            u64::from(DEPTH_MAX),
        )?;
        within(
            "duration in ns",
            self.duration_ns,
            1_000_000,
            DURATION_NS_MAX,
        )?;
        within("warm-up in ns", self.warmup_ns, 0, DURATION_NS_MAX)?;
        within("grace in ns", self.grace_ns, 0, GRACE_NS_MAX)?;
        self.validate_carrier()?;
        let in_order = self.percentiles.is_sorted_by(|a, b| a < b);
        let in_range = self.percentiles.iter().all(|p| (0.0..=100.0).contains(p));
        if !in_order || !in_range || self.percentiles.is_empty() {
            let fault = "give numbers from 0 to 100, ascending, such as 50,99,99.9".to_owned();
            return Err(ConfigError {
                setting: "percentiles",
                fault,
            });
        }
        self.keyspace()?;
        let demand = self.demand();
        let demanded = match self.rate {
            Rate::PerSecond(rate_rps) => demand.schedule_of(rate_rps, 0..1).map(drop),
            Rate::Max => demand.requests(0).map(drop),
        };
        demanded.map_err(|error| ConfigError::demand(&error))
    }

    /// Checks that no script is given. A script cannot be divided among processes, because one
    /// process reads it and sends its requests. A second load beside a script could not use the
    /// same records, because a script has its own keys. `flag` is the option that excludes
    /// `--script`.
    pub(crate) fn validate_without_script(&self, flag: &str) -> Result<(), ConfigError> {
        match self.script {
            None => Ok(()),
            Some(_) => {
                let fault = format!("a script is sent by a single process; leave out {flag}");
                Err(ConfigError::new("--script", fault))
            }
        }
    }

    /// Checks that no files are requested. A run that requests files reports its service inversion
    /// ([`measure::service_inversion`]), which is computed from the latencies of single requests.
    /// Agents send histograms only.
    pub(crate) fn validate_without_files(&self) -> Result<(), ConfigError> {
        match self.files {
            None => Ok(()),
            Some(_) => {
                let fault = "protocol http is measured by a single process; leave out --agent";
                Err(ConfigError::new("--agent", fault.to_owned()))
            }
        }
    }

    /// The share of each operation: `mix` if it is given, otherwise gets and sets by `update`. Over
    /// HTTP there are no sets.
    #[must_use]
    pub fn mix(&self) -> Mix {
        let mix = self.mix.clone();
        mix.unwrap_or_else(|| match self.protocol {
            Protocol::Http => Mix::sets(0.0),
            _ => Mix::sets(self.update),
        })
    }

    /// The operations that the load may have. Includes operations that are sent because of an
    /// answer, such as the cas after a gets.
    pub(crate) fn operations(&self) -> Vec<Op> {
        let mix = self.mix();
        let scheduled = mix.operations();
        scheduled
            .flat_map(|op| std::iter::once(op).chain(op.follow_up()))
            .collect()
    }

    /// The records: their keys and the lengths of their values.
    ///
    /// # Errors
    /// The number of records is 0 or too large.
    pub fn keyspace(&self) -> Result<Keyspace, ConfigError> {
        Keyspace::new(
            self.records,
            self.keys,
            self.values,
            self.value_len_max,
            self.seed,
        )
        .map_err(|error| ConfigError {
            setting: "records",
            fault: error.to_string(),
        })
    }

    /// The description from which requests and their intended times are generated.
    #[must_use]
    pub fn demand(&self) -> Demand {
        Demand {
            seed: self.seed,
            repeat: self.repeat,
            connections: self.connections,
            arrivals: self.arrivals,
            superposition: self.superposition,
            popularity: self.popularity,
            records: self.records,
            files: self.files,
            mix: self.mix(),
            ttl: self.ttl,
            multiget: self.multiget,
        }
    }
}

/// Checks that a setting is from `least` to `most`.
fn within(setting: &'static str, value: u64, least: u64, most: u64) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let fault = format!("{value} is out of bounds; give {least} to {most}");
    Err(ConfigError { setting, fault })
}

impl FromStr for Target {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if text.contains('/') {
            return Ok(Self::Unix(PathBuf::from(text)));
        }
        let looked_up = match text.to_socket_addrs() {
            Ok(addresses) => Ok(addresses),
            // `text` has no port, so memcached's default is used.
            Err(_) => (text.trim_matches(['[', ']']), 11211).to_socket_addrs(),
        };
        let fault = |why: String| ConfigError {
            setting: "target",
            fault: format!("`{text}`: {why}; give HOST:PORT or the path of a Unix socket"),
        };
        match looked_up.map(|mut addresses| addresses.next()) {
            Ok(Some(address)) => Ok(Self::Tcp(address)),
            Ok(None) => Err(fault("the name has no address".to_owned())),
            Err(error) => Err(fault(error.to_string())),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => path.display().fmt(out),
        }
    }
}

impl FromStr for Rate {
    type Err = units::UnitError;

    fn from_str(text: &str) -> Result<Self, units::UnitError> {
        match text {
            "max" => Ok(Self::Max),
            _ => units::rate_rps(text).map(Self::PerSecond),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new("127.0.0.1:11211".parse().unwrap())
    }

    #[test]
    fn default_settings_are_valid() {
        config().validate().unwrap();
    }

    #[test]
    fn error_of_a_setting_out_of_bounds_names_the_setting_and_its_bounds() {
        type Change = fn(&mut Config);
        let cases: [(Change, &str); 6] = [
            (
                |c| c.connections = 0,
                "connections: 0 is out of bounds; give 1 to 1048576",
            ),
            // The 16 connections of the default are too few for 17 threads.
            (
                |c| c.threads = 17,
                "connections: 16 is out of bounds; give 17 to 1048576",
            ),
            (
                |c| c.depth = 5000,
                "depth: 5000 is out of bounds; give 1 to 1024",
            ),
            (
                |c| c.records = 0,
                "records: 0 records: give between 1 and 1099511627776",
            ),
            (
                |c| c.update = 1.5,
                "load: update 1.5: give the share of sets, from 0 to 1",
            ),
            (
                |c| c.percentiles = vec![99.0, 50.0],
                "percentiles: give numbers from 0 to 100, ascending, such as 50,99,99.9",
            ),
        ];
        for (change, message) in cases {
            let mut config = config();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn targets_rates_and_protocols_are_parsed_from_text() {
        let parse = |text: &str| text.parse::<Target>().unwrap().to_string();
        assert_eq!(parse("127.0.0.1:7"), "127.0.0.1:7");
        assert_eq!(parse("127.0.0.1"), "127.0.0.1:11211");
        assert_eq!(parse("[::1]:7"), "[::1]:7");
        assert_eq!(parse("/run/cache.sock"), "/run/cache.sock");
        assert!("".parse::<Target>().is_err());
        assert_eq!("max".parse::<Rate>().unwrap(), Rate::Max);
        assert_eq!("200k".parse::<Rate>().unwrap(), Rate::PerSecond(200_000.0));
        assert_eq!("meta".parse::<Protocol>().unwrap(), Protocol::Meta);
        assert!(
            "ascii"
                .parse::<Protocol>()
                .unwrap_err()
                .to_string()
                .contains("text, meta, binary, textile or http")
        );
    }
}
