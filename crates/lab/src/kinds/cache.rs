//! Trials of a cache under an offered load: start a server, prefill it, load it, stop it.
//!
//! | factor | sets |
//! |---|---|
//! | `server` | the server: every experiment of this kind has it, from the `[[server]]` tables |
//! | `rate` | the offered rate, requests per second |
//! | `level` | the offered rate, as a share of the capacity measured before |
//! | `host.KEY` | a key of `[hosts]` ([`crate::hosts_table`]) |
//! | a key of `[load]` | that key, such as `connections` |
//! | another name | `{NAME}` in the arguments of the servers |
//!
//! Trials without a rate and a level, and those of the stage `capacity`, are closed loops.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use report::cache::folder::{self, FigureKind, Settings};
use report::cache::{self, CAPACITY, LEVEL, OFFERED_RPS, RATE, SERVER};
use report::figure::Figure;
use report::record::{Factor, Factors, Measured, Metric, Record, Repeats, Stage, Value};
use serde::{Deserialize, Serialize};
use units::{duration_text, show_duration, show_rate};

use crate::error::Error;
use crate::relayed;
use crate::hosts_table::HostsTable;
use crate::kind::{
    Context, Entry, Estimate, Kind, Performed, Resolved, Trial, TrialError, Violation, settings_of,
};
use crate::{host, location};
use crate::plan::Options;

mod agents;
mod capacity;
mod check;
mod energy;
mod generator;
mod pins;
mod server;
mod servers;
mod summary;
#[cfg(test)]
pub(crate) mod tests;
mod trial;

pub(crate) use trial::cpu_list;

/// This kind.
pub(crate) const ENTRY: Entry = Entry {
    name: cache::KIND,
    read: |source| Ok(Box::new(Cache::from(File::deserialize(source)?))),
    restore: |source| Ok(Box::new(Cache::deserialize(source)?)),
};

/// The tables of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(deserialize_with = "location::duration")]
    trial: Duration,
    #[serde(deserialize_with = "location::duration")]
    warmup: Duration,
    load: LoadTable,
    #[serde(default)]
    pins: Pins,
    #[serde(default)]
    capacity: CapacityTable,
    #[serde(default)]
    hosts: HostsTable,
    server: Vec<ServerTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LoadTable {
    connections: u32,
    depth: u32,
    threads: u32,
    keys: String,
    values: String,
    arrivals: String,
    popularity: String,
    update: f64,
    #[serde(default)]
    mix: String,
    #[serde(default)]
    multiget: String,
    records: u64,
    #[serde(default)]
    saturating: u32,
    #[serde(default = "saturating_depth")]
    saturating_depth: u32,
}

/// The default of `curtail load`.
fn saturating_depth() -> u32 {
    512
}

/// Processors; an empty list: not pinned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Pins {
    server: Vec<usize>,
    load: Vec<usize>,
    /// Raise the scheduling priority of server and generator.
    go_first: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct CapacityTable {
    trials: u32,
    /// Values of factors for all capacities.
    of: Factors,
}

/// A server as a file declares it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ServerTable {
    name: String,
    kind: ServerKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    arguments: Vec<String>,
    /// A program and its arguments that run the server, such as `chrt`. The process must become the
    /// server: what is measured is its.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    under: Vec<String>,
    /// Whether the records are stored before the load.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    prefill: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ServerKind {
    /// This build's `serve`.
    Curtail,
    /// Any other server that speaks the protocol.
    Command,
}

/// The settings of an experiment of this kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Cache {
    /// What the report reads too. The servers are those of `declared`, with their programs.
    #[serde(flatten)]
    settings: Settings,
    /// Closed-loop trials of each server before the sweep.
    capacity_trials: u32,
    /// Whether server and generator are to have raised priority.
    go_first: bool,
    /// The servers as the file declares them.
    declared: Vec<ServerTable>,
    /// Where they run. (`hosts` is the name of the same in words, among the settings.)
    #[serde(
        default,
        rename = "hosts_table",
        skip_serializing_if = "HostsTable::is_default"
    )]
    hosts: HostsTable,
    /// The values that these factors have in each capacity trial, whatever they are in a cell:
    /// levels are then shares of one capacity.
    #[serde(default, skip_serializing_if = "Factors::is_empty")]
    capacity_of: Factors,
}

impl From<File> for Cache {
    fn from(file: File) -> Self {
        let load = file.load;
        let server = |it: &ServerTable| folder::Server {
            name: it.name.clone(),
            command: Vec::new(),
            version: None,
            skipped: None,
        };
        Self {
            settings: Settings {
                trial_ns: nanoseconds(file.trial),
                warmup_ns: nanoseconds(file.warmup),
                server_cpus: file.pins.server,
                load_cpus: file.pins.load,
                goes_first: false,
                load: folder::Load {
                    connections: load.connections,
                    depth: load.depth,
                    threads: load.threads,
                    keys: load.keys,
                    values: load.values,
                    arrivals: load.arrivals,
                    popularity: load.popularity,
                    update: load.update,
                    mix: load.mix,
                    multiget: load.multiget,
                    records: load.records,
                    saturating: load.saturating,
                    saturating_depth: load.saturating_depth,
                },
                servers: file.server.iter().map(server).collect(),
                hosts: match file.hosts.has_namespaces() {
                    true => file.hosts.words([]),
                    false => String::new(),
                },
            },
            capacity_trials: file.capacity.trials,
            capacity_of: file.capacity.of,
            go_first: file.pins.go_first,
            declared: file.server,
            hosts: file.hosts,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Kind for Cache {
    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = cache::metrics();
        metrics.push(summary::connection_metric());
        if self.hosts.has_namespaces() {
            metrics.extend(relayed::metrics());
        }
        if self.hosts.detect_stalls {
            metrics.extend(summary::stall_metrics());
        }
        metrics
    }

    fn settings(&self) -> Result<toml::Table, Error> {
        settings_of(self)
    }

    fn check(&self, cells: &[Factors]) -> Result<(), Violation> {
        check::check(self, cells)
    }

    fn resolve(&mut self, options: &Options) -> Result<Vec<String>, Error> {
        let allowed = sys::thread::allowed_cpus()
            .map_err(Error::system("read the processors this process may use"))?;
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let environment = |name: &str| std::env::var_os(name).map(Into::into);
        self.settings.servers =
            servers::resolve(&self.declared, options, &search_path, &environment)?;
        self.check_capacity_server()?;
        let mut notes = self.resolve_for(&allowed);
        notes.extend(host::profile_note());
        Ok(notes)
    }

    fn own_factors(&self) -> Vec<Factor> {
        let servers = self.settings.servers.iter();
        let names = servers
            .filter(|it| it.skipped.is_none())
            .map(|it| Value::from(it.name.as_str()));
        vec![cache::factor(SERVER, names.collect(), None)]
    }

    fn factor(&self, name: &str, values: Vec<Value>) -> Result<Factor, String> {
        if let Some(factor) = self.hosts.factor(name, &values) {
            return factor;
        }
        let read = |value: Value| check::value(self, name, value);
        let values: Result<Vec<Value>, String> = values.into_iter().map(read).collect();
        let own = cache::load_table(&self.settings.load);
        let reference = own.get(name).and_then(check::value_of);
        let values = values?;
        let reference = reference.filter(|it| values.contains(it));
        Ok(cache::factor(name, values, reference))
    }

    fn stages(&self, cells: Vec<Factors>, repeats: Repeats) -> Vec<Stage> {
        let mut stages = Vec::new();
        if self.capacity_trials > 0 {
            let of = |cell| capacity::factors_with(cell, &self.capacity_of);
            let mut capacity: Vec<Factors> = cells.iter().map(of).collect();
            capacity.dedup();
            let mut seen = BTreeSet::new();
            capacity.retain(|cell| seen.insert(cell.clone()));
            stages.push(Stage {
                name: CAPACITY.to_owned(),
                repeats: Repeats::fixed(self.capacity_trials),
                cells: capacity,
            });
        }
        stages.push(Stage {
            name: cache::SWEEP.to_owned(),
            repeats,
            cells,
        });
        stages
    }

    fn figures(&self, factors: &[Factor]) -> Vec<Figure> {
        use FigureKind::{Bursts, Cpu, Tail, Throughput};
        let figure = |kind| cache::figure(kind, factors);
        [Throughput, Tail, Cpu, Bursts].map(figure).to_vec()
    }

    fn suspects(&self) -> BTreeMap<String, String> {
        let mut suspects = cache::suspects();
        if self.hosts.has_namespaces() {
            suspects.extend(relayed::suspects());
        }
        suspects
    }

    fn prepare(&mut self, cells: &[Factors], context: &Context<'_>) -> Result<(), Error> {
        check::open_files(self, cells)?;
        if self.hosts.has_namespaces() {
            let factors = cells.iter().flat_map(BTreeMap::keys).map(String::as_str);
            let factors: BTreeSet<&str> = factors.collect();
            self.settings.hosts = self.hosts.words(factors);
        }
        // The most that a trial needs, so that a run does not begin which cannot be completed.
        let hosts = self.hosts.largest(cells);
        let hosts = hosts.open(0, &self.settings.server_cpus, &self.settings.load_cpus)?;
        trial::add_versions(self, cells, context, &hosts)
    }

    fn needs_root(&self) -> bool {
        self.hosts.has_namespaces()
    }

    fn estimate(&self, factors: &Factors) -> Estimate {
        /// Starting a server, its first reply, stopping it, writing the record.
        const START_STOP: Duration = Duration::from_millis(250);
        /// Opening one connection, paced.
        const CONNECT: Duration = Duration::from_micros(50);
        /// Prefill of one record, and reading a sample back.
        const FILL: Duration = Duration::from_nanos(2_200);
        let load = self.load_at(factors).unwrap_or(self.settings.load.clone());
        Estimate::about(START_STOP
            + CONNECT.saturating_mul(load.connections)
            + FILL.saturating_mul(u32::try_from(load.records).unwrap_or(u32::MAX))
            + Duration::from_nanos(self.settings.warmup_ns)
            + Duration::from_nanos(self.settings.trial_ns))
    }

    fn group(&self, factors: &Factors) -> Factors {
        capacity::factors(factors)
    }

    fn resolve_trial(
        &self,
        stage: &str,
        factors: &Factors,
        done: &[Record],
    ) -> Result<Resolved, String> {
        if stage == CAPACITY {
            return Ok(Resolved::default());
        }
        if let Some(rate_rps) = factors.get(RATE).and_then(Value::number) {
            return Ok(offered(rate_rps));
        }
        let Some(level) = factors.get(LEVEL).and_then(Value::number) else {
            return Ok(Resolved::default());
        };
        let capacity = capacity::of(done, &capacity::factors_with(factors, &self.capacity_of))
            .ok_or("the rate is a share of the server's capacity, and none was measured")?;
        let mut resolved = offered((level * capacity.rps.value).round().max(1.0));
        if capacity.at_least {
            resolved.notes.push(capacity::AT_LEAST.to_owned());
        }
        Ok(resolved)
    }

    fn schedule(&self, factors: &Factors) -> String {
        let rate = factors.get(RATE).or_else(|| factors.get(LEVEL));
        rate.map(ToString::to_string).unwrap_or_default()
    }

    fn describe(&self) -> Vec<String> {
        trial::describe(self)
    }

    fn perform(&self, trial: &Trial<'_>, context: &Context<'_>) -> Result<Performed, TrialError> {
        trial::perform(self, trial, context)
    }

    fn result(&self, measured: &Measured) -> String {
        let rate = |name: &str| measured.metric(name).map(show_rate).unwrap_or_default();
        let response = measured.metric("response_p99_ns");
        let (p99, name) = match response {
            Some(p99) => (p99, "response_p99_ns"),
            None => (
                measured.metric("service_p99_ns").unwrap_or_default(),
                "service_p99_ns",
            ),
        };
        let bound = if measured.is_lower_bound(name) { "≥" } else { "" };
        let closed = if response.is_none() { " (closed loop)" } else { "" };
        let suspect = measured.suspect.as_ref().map(|it| format!(", {it}"));
        format!(
            "achieved {}/s, p99 {bound}{}{closed}{}",
            rate("achieved_rps"),
            show_duration(p99 as u64),
            suspect.unwrap_or_default(),
        )
    }
}

fn offered(rate_rps: f64) -> Resolved {
    Resolved {
        settings: [(OFFERED_RPS.to_owned(), rate_rps)].into(),
        notes: Vec::new(),
    }
}

impl Cache {
    /// Pins to the processors `allowed`, and decides on priorities.
    fn resolve_for(&mut self, allowed: &[usize]) -> Vec<String> {
        let wanted = Pins {
            server: self.settings.server_cpus.clone(),
            load: self.settings.load_cpus.clone(),
            go_first: self.go_first,
        };
        let (pins, mut notes) = pins::resolve(&wanted, allowed);
        self.settings.server_cpus = pins.server;
        self.settings.load_cpus = pins.load;
        if self.hosts.detect_stalls && self.settings.server_cpus.is_empty() {
            notes.push(NO_STALLS.to_owned());
        }
        self.settings.goes_first = self.go_first && sys::thread::may_go_first();
        if self.go_first && !self.settings.goes_first {
            notes.push(NOT_FIRST.to_owned());
        }
        for server in &self.settings.servers {
            if let Some(reason) = &server.skipped {
                notes.push(format!("Skipped {}: {reason}.", server.name));
            }
        }
        notes
    }

    /// The server of a cell.
    fn server(&self, factors: &Factors) -> Option<&folder::Server> {
        let name = factors.get(SERVER)?.to_string();
        self.settings.servers.iter().find(|it| it.name == name)
    }

    /// Whether the records are stored before the load of a cell.
    fn declares_prefill(&self, factors: &Factors) -> bool {
        let name = factors.get(SERVER).map(ToString::to_string);
        let declared = self.declared.iter().find(|it| Some(&it.name) == name.as_ref());
        declared.is_none_or(|it| it.prefill)
    }

    /// The server whose capacity all levels are shares of must take part.
    fn check_capacity_server(&self) -> Result<(), Error> {
        let server = self.server(&self.capacity_of);
        match server.and_then(|it| Some((&it.name, it.skipped.as_ref()?))) {
            None => Ok(()),
            Some((name, reason)) => Err(Error::NoServers {
                reasons: format!("all rates are shares of the capacity of {name}: {reason}"),
            }),
        }
    }

    /// The load of a cell.
    fn load_at(&self, factors: &Factors) -> Result<folder::Load, String> {
        cache::load_with(&self.settings.load, factors)
    }

    fn interval(&self) -> Duration {
        Duration::from_nanos(self.settings.warmup_ns + self.settings.trial_ns)
    }

    fn times(&self) -> String {
        format!(
            "{} after {} of warm-up",
            duration_text(Duration::from_nanos(self.settings.trial_ns)),
            duration_text(Duration::from_nanos(self.settings.warmup_ns)),
        )
    }
}

const NO_STALLS: &str = "Stalls are not measured: the server is not pinned to a processor.";

const NOT_FIRST: &str = "This user cannot raise priorities (that needs root or CAP_SYS_NICE): other \
    processes share the processors of server and generator, and latencies include their time.";
