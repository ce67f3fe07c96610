//! Measured trials: processes beside each other, each a server, a load or any command.
//!
//! ```toml
//! trial = "5s"
//! warmup = "1s"
//!
//! [load]                       # `curtail load`, whose summary is typed
//! connections = 64
//!
//! [[server]]                   # one of them runs in a trial: the factor `server`
//! name = "memcached"
//! program = "memcached"
//! arguments = ["-l", "127.0.0.1", "-p", "{port}"]
//! ```
//!
//! In place of `[load]` there may be any command, and how its output becomes metrics:
//!
//! ```toml
//! [program]
//! command = ["memcslap", "--servers=127.0.0.1:{port}", "--concurrency={connections}"]
//! timeout = "30s"
//!
//! [[beside]]                   # all of them run in a trial
//! name = "memcached"
//! command = ["memcached", "-l", "127.0.0.1", "-p", "{port}", "-u", "root"]
//! ready = { connect = "127.0.0.1:{port}" }
//!
//! [[metric]]
//! name = "took"
//! unit = "s"
//! better = "lower"
//! regex = 'Took: ([0-9.]+) seconds'
//! ```
//!
//! | factor | sets |
//! |---|---|
//! | `server` | the server, of the `[[server]]` tables |
//! | `rate` | the offered rate, requests per second |
//! | `level` | the offered rate, as a share of the capacity measured before |
//! | `host.KEY` | a key of `[hosts]` ([`crate::hosts_table`]) |
//! | a key of `[load]` | that key, such as `connections` |
//! | another name | `{NAME}` in commands, environments and probes |
//!
//! `{port}` is a free port, `{ip}` the address of the server's host, `{seed}` the trial's seed,
//! `{trial}` its identity, `{client}` the number of the client that runs the load, from 0,
//! `{curtail}` the path of this program, and `{build}` that of the build which is measured. An
//! argument with a factor that has no value in a cell is left out there, and a variable is not set.
//!
//! Trials without a rate and a level, and those of the stage `capacity`, are closed loops.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use report::figure::{Figure, FigureKind, Scale};
use report::record::names::{
    ACHIEVED_RPS, CAPACITY_RPS, LEVEL, OFFERED_RPS, RATE, RESPONSE_P99_NS, SERVER,
};
use report::record::{
    Better, Factor, Factors, Measured, Metric, Plan, Record, Repeats, Stage, Unit, Value,
};
use serde::{Deserialize, Serialize};
use units::{duration_text, show_duration, show_rate};

use crate::error::Error;
use crate::hosts_table::HostsTable;
use crate::kind::{
    BUILD, Context, DEFAULT, Entry, Estimate, Kind, Performed, Resolved, Trial, TrialError,
    Violation, settings_of,
};
use crate::plan::Options;
use crate::relayed;
use crate::{host, limits, location};

mod agents;
mod beside;
mod capacity;
mod check;
mod disk;
mod energy;
mod extract;
mod load;
mod pins;
mod servers;
mod summary;
mod task;
#[cfg(test)]
mod tests;
mod trial;
mod words;

use beside::Beside;
use capacity::CapacityTable;
use disk::DiskTable;
use extract::MetricTable;
use load::LoadTable;
use pins::Pins;
use servers::ServerTable;

/// The kind of measured trials.
pub const MEASURED: Entry = Entry::of::<Setup>(DEFAULT);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Setup {
    #[serde(
        default,
        with = "location::optional_duration",
        skip_serializing_if = "Option::is_none"
    )]
    trial: Option<Duration>,
    #[serde(
        default,
        with = "location::optional_duration",
        skip_serializing_if = "Option::is_none"
    )]
    warmup: Option<Duration>,
    /// Errors, losses and refusals as a share of the requests, above which a trial fails.
    #[serde(default = "failures_max")]
    failures_max: f64,
    /// Factors that only name cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    load: Option<LoadTable>,
    program: Option<ProgramTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    server: Vec<ServerTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    beside: Vec<Beside>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    before: Vec<Before>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    metric: Vec<MetricTable>,
    #[serde(default)]
    pins: Pins,
    /// The rates at infinite demand that levels are shares of.
    #[serde(default)]
    capacity: CapacityTable,
    #[serde(default, skip_serializing_if = "HostsTable::is_default")]
    hosts: HostsTable,
    /// A slow disk of the server's host.
    disk: Option<DiskTable>,
    /// The programs of the values of the factor [`BUILD`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    builds: BTreeMap<String, PathBuf>,
}

fn failures_max() -> f64 {
    0.001
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ProgramTable {
    /// The program and its arguments. No shell interprets them.
    command: Vec<String>,
    /// A program whose standard output is the standard input of `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    input: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    environment: BTreeMap<String, String>,
    /// A program that has not ended by then is killed, and its trial fails.
    #[serde(with = "location::duration_text")]
    timeout: Duration,
    #[serde(default = "zero")]
    success: Vec<i32>,
    /// Whether its output has a summary of `curtail load`, with the metrics of one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    summary: bool,
    /// The metric that tells how many requests there were: a count or a rate. With it, energy and
    /// its proxies are also given per request.
    requests: Option<String>,
}

fn zero() -> Vec<i32> {
    vec![0]
}

/// A command that ends before the load starts, and is not measured: it fills a cache, for example.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Before {
    command: Vec<String>,
    /// A program whose standard output is the standard input of `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    input: Vec<String>,
    /// A command that has not ended by then is killed, and the trial fails.
    #[serde(with = "location::duration_text")]
    timeout: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Side {
    #[default]
    Server,
    Client,
}

impl Side {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_server(&self) -> bool {
        *self == Self::Server
    }
}

/// The metrics that every program has: name, title, unit, whether lower is better.
#[rustfmt::skip]
const OWN: [(&str, &str, &str, bool); 7] = [
    ("elapsed_ns", "time from start to end", "ns", true),
    ("user_ns", "processor time, user", "ns", true),
    ("system_ns", "processor time, system", "ns", true),
    ("resident_bytes", "greatest resident memory", "B", true),
    ("voluntary_switches", "voluntary context switches", "count", false),
    ("involuntary_switches", "involuntary context switches", "count", false),
    ("exit_status", "exit status", "count", false),
];

#[rustfmt::skip]
const AROUND: [(&str, &str, &str); 2] = [
    ("server_stolen_share", "steal time, server's processors", "share"),
    ("load_stolen_share", "steal time, generator's processors", "share"),
];

/// Figures that need no declaration: name, what is drawn, title, unit.
#[rustfmt::skip]
const FIGURES: [(&str, &str, &str, &str); 4] = [
    ("throughput", ACHIEVED_RPS, "Achieved rate", ""),
    ("tail", RESPONSE_P99_NS, "99th percentile of response time", ""),
    ("cpu", "server_cpu_ns_per_request", "Server processor time per request", "us"),
    ("bursts", "burst_mean", "Connections served per wake-up", ""),
];

impl Kind for Setup {
    fn metrics(&self) -> Vec<Metric> {
        let plain = |name, title, unit: &str, better| {
            Metric::new(name, title, Unit::from(unit.to_owned()), better)
        };
        let mut metrics = vec![
            Metric {
                axis_title: Some("offered rate (requests/s)".to_owned()),
                phrase: Some("at {} offered".to_owned()),
                planned: Some(RATE.to_owned()),
                ..plain(OFFERED_RPS, "offered rate", "/s", Better::Neither)
            },
            plain(
                CAPACITY_RPS,
                "rate at infinite demand, median",
                "/s",
                Better::Neither,
            ),
        ];
        let declared = |all: &[MetricTable]| all.iter().map(MetricTable::definition).collect();
        let mut declared: Vec<Metric> = declared(&self.metric);
        if self.has_summary() {
            let names: Vec<String> = declared.iter().map(|it| it.name.clone()).collect();
            declared.extend(
                summary::metrics()
                    .into_iter()
                    .filter(|it| !names.contains(&it.name)),
            );
        }
        metrics.extend(declared);
        if self.program.is_some() {
            metrics.extend(OWN.map(|(name, title, unit, is_lower_better)| {
                let better = match is_lower_better {
                    true => Better::Lower,
                    false => Better::Neither,
                };
                plain(name, title, unit, better)
            }));
        }
        metrics.extend(energy::metrics(self.counts_requests()));
        metrics.extend(AROUND.map(|(name, title, unit)| plain(name, title, unit, Better::Neither)));
        if self.hosts.has_namespaces() {
            metrics.extend(relayed::metrics());
        }
        if self.disk.is_some() {
            metrics.extend(disk::metrics());
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
        if self.server.is_empty() {
            self.builds.extend(options.servers.iter().cloned());
        } else {
            servers::resolve(&mut self.server, options, &search_path, &environment)?;
            self.check_capacity_server()?;
        }
        let (pins, mut notes) = pins::resolve(&self.pins, &allowed);
        self.pins = pins;
        if self.pins.go_first && !sys::thread::may_go_first() {
            self.pins.go_first = false;
            notes.push(NOT_FIRST.to_owned());
        }
        if self.hosts.detect_stalls && self.pins.server.is_empty() {
            notes.push(NO_STALLS.to_owned());
        }
        let skipped = self
            .server
            .iter()
            .filter_map(|it| Some((&it.name, it.skipped.as_ref()?)));
        notes.extend(skipped.map(|(name, reason)| format!("Skipped {name}: {reason}.")));
        let builds = self.builds.iter();
        notes.extend(builds.map(|(name, path)| format!("The build {name} is {}.", path.display())));
        notes.extend(host::profile_note());
        Ok(notes)
    }

    fn own_factors(&self) -> Vec<Factor> {
        let taking_part = self.server.iter().filter(|it| it.skipped.is_none());
        let names: Vec<Value> = taking_part
            .map(|it| Value::from(it.name.as_str()))
            .collect();
        if names.is_empty() {
            return Vec::new();
        }
        let mut factor = described(Factor::new(SERVER, names));
        // A server looks the same in runs that lack one before it.
        let numbered = (0..)
            .zip(&self.server)
            .filter(|(_, it)| it.skipped.is_none());
        factor.styles = numbered.map(|(number, _)| number).collect();
        vec![factor]
    }

    fn factor(&self, name: &str, values: Vec<Value>) -> Result<Factor, String> {
        if let Some(factor) = self.hosts.factor(name, &values) {
            return factor;
        }
        if name == SERVER && !self.server.is_empty() {
            return Err("is set by the [[server]] tables: name servers there".to_owned());
        }
        let read = |value: Value| self.factor_value(name, value);
        let values = values
            .into_iter()
            .map(read)
            .collect::<Result<_, String>>()?;
        Ok(described(Factor::new(name, values)))
    }

    fn stages(&self, cells: Vec<Factors>, repeats: Repeats) -> Vec<Stage> {
        self.capacity.stages(cells, repeats)
    }

    fn figures(&self, factors: &[Factor]) -> Vec<Figure> {
        match self.has_summary() {
            true => FIGURES.map(|it| named_figure(it, factors)).to_vec(),
            false => Vec::new(),
        }
    }

    fn prepare(&mut self, cells: &[Factors], context: &Context<'_>) -> Result<(), Error> {
        check::open_files(self, cells)?;
        // The most that a trial needs, so that a run does not begin which cannot be completed.
        let hosts = self.hosts.largest(cells);
        let hosts = hosts.open(0, &self.pins.server, &self.pins.load)?;
        trial::add_versions(self, cells, context, &hosts)
    }

    fn needs_root(&self) -> bool {
        self.disk.is_some() || self.hosts.has_namespaces()
    }

    fn estimate(&self, factors: &Factors) -> Estimate {
        /// Starting a server, its first reply, stopping it, writing the record.
        const START_STOP: Duration = Duration::from_millis(250);
        /// Opening one connection, paced.
        const CONNECT: Duration = Duration::from_micros(50);
        /// Prefill of one record, and reading a sample back.
        const FILL: Duration = Duration::from_nanos(2_200);
        /// A command of which nothing is known but its time-out.
        const COMMAND: Duration = Duration::from_secs(1);
        let timeouts = limits::Timeouts::default();
        let mut likely = START_STOP;
        let mut most = Duration::ZERO;
        let load = self.load.as_ref().and_then(|it| it.at(factors).ok());
        if let Some(load) = load {
            likely += CONNECT.saturating_mul(load.connections());
            if load.is_memcached() && !self.server.is_empty() {
                let records = u32::try_from(load.config.records).unwrap_or(u32::MAX);
                likely += FILL.saturating_mul(records);
            }
            let times = self.times().into_iter().flatten().sum::<Duration>();
            likely += times;
            most += match self.times()[1] {
                Some(_) => likely + timeouts.generator,
                None => limits::SCRIPT_TIMEOUT,
            };
        }
        let commands = self.before.iter().map(|it| it.timeout);
        for timeout in commands.chain(self.program.as_ref().map(|it| it.timeout)) {
            likely += timeout.min(COMMAND);
            most += timeout;
        }
        let disk = self
            .disk
            .as_ref()
            .map_or(Duration::ZERO, DiskTable::estimate);
        let processes = self.beside.len() + usize::from(!self.server.is_empty());
        let processes = (timeouts.start + timeouts.stop) * processes as u32;
        Estimate {
            likely: likely + disk.min(COMMAND),
            most: most + disk + processes,
        }
    }

    fn group(&self, factors: &Factors) -> Factors {
        match self.load.is_some() || self.capacity.trials > 0 {
            true => capacity::factors(factors),
            false => factors.clone(),
        }
    }

    fn resolve_trial(
        &self,
        stage: &str,
        factors: &Factors,
        done: &[Record],
    ) -> Result<Resolved, String> {
        self.capacity
            .resolve(self.rate_of_all(), stage, factors, done)
    }

    fn schedule(&self, factors: &Factors) -> String {
        let rate = factors.get(RATE).or_else(|| factors.get(LEVEL));
        rate.map(ToString::to_string).unwrap_or_default()
    }

    fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = |what: &str, words: String| lines.push(format!("{what:<8} {words}"));
        let pipeline = |input: &[String], command: &[String]| match input {
            [] => command.join(" "),
            input => format!("{} | {}", input.join(" "), command.join(" ")),
        };
        for server in &self.server {
            match &server.skipped {
                Some(reason) => line("skipped", format!("{}: {reason}", server.name)),
                None => line(
                    "server",
                    format!("{}: {}", server.name, server.command.join(" ")),
                ),
            }
        }
        if let Some(disk) = &self.disk {
            line("disk", disk.words());
        }
        for beside in &self.beside {
            line(
                "beside",
                format!("{}: {}", beside.name, beside.command.join(" ")),
            );
        }
        for before in &self.before {
            line("before", pipeline(&before.input, &before.command));
        }
        if let Some(load) = &self.load {
            line("load", load.words());
        }
        if let Some(program) = &self.program {
            line("program", pipeline(&program.input, &program.command));
            line("timeout", duration_text(program.timeout));
        }
        line("pinned", self.pins.words());
        if !self.hosts.is_default() {
            line("hosts", self.hosts.words());
        }
        if let [Some(warmup), Some(trial)] = self.times() {
            let (trial, warmup) = (duration_text(trial), duration_text(warmup));
            line("trial", format!("{trial} after {warmup} of warm-up"));
        }
        lines
    }

    fn perform(&self, trial: &Trial<'_>, context: &Context<'_>) -> Result<Performed, TrialError> {
        trial::perform(self, trial, context)
    }

    fn result(&self, measured: &Measured) -> String {
        if !self.has_summary() {
            let shown = self.metrics().into_iter().filter_map(|metric| {
                let value = measured.metric(&metric.name)?;
                Some(format!("{} {}", metric.title, metric.unit.words(value)))
            });
            return shown.take(3).collect::<Vec<_>>().join(", ");
        }
        let rate = measured
            .metric(ACHIEVED_RPS)
            .map(show_rate)
            .unwrap_or_default();
        let (name, closed) = match measured.metric(RESPONSE_P99_NS) {
            Some(_) => (RESPONSE_P99_NS, ""),
            None => ("service_p99_ns", " (closed loop)"),
        };
        let p99 = measured.metric(name).unwrap_or_default();
        let bound = if measured.is_lower_bound(name) {
            "≥"
        } else {
            ""
        };
        let fault = measured.fault.as_ref().map(|it| format!(", {}", it.reason));
        format!(
            "achieved {rate}/s, p99 {bound}{}{closed}{}",
            show_duration(p99 as u64),
            fault.unwrap_or_default(),
        )
    }
}

/// What the trials of a plan need of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The most connections of a load.
    pub connections: u32,
    /// The servers other than this build.
    pub servers: Vec<NeededServer>,
}

/// A server other than this build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededServer {
    /// Its name.
    pub name: String,
    /// Its program.
    pub program: String,
    /// Why it takes no part.
    pub skipped: Option<String>,
}

/// What the trials of a plan need of a machine. None: they are not measured.
#[must_use]
pub fn needs(plan: &Plan) -> Option<Needs> {
    let setup: Setup = plan.settings.clone().try_into().ok()?;
    let cells = plan.stages.iter().flat_map(|it| &it.cells);
    let loads = cells.filter_map(|cell| setup.load.as_ref()?.at(cell).ok());
    let others = setup.server.iter().filter(|it| it.program.is_some());
    Some(Needs {
        connections: loads
            .map(|it| it.config.connections)
            .max()
            .unwrap_or_default(),
        servers: others
            .map(|it| NeededServer {
                name: it.name.clone(),
                program: it.command.get(it.under.len()).cloned().unwrap_or_default(),
                skipped: it.skipped.clone(),
            })
            .collect(),
    })
}

/// A factor with the words of a known name.
fn described(mut factor: Factor) -> Factor {
    match factor.name.as_str() {
        SERVER => factor.phrase = Some("{}".to_owned()),
        LEVEL => {
            factor.title = "load level".to_owned();
            factor.phrase = Some("at load level {}".to_owned());
            factor.label = Some("level {}".to_owned());
        }
        RATE => {
            factor.title = "offered rate".to_owned();
            factor.axis_title = Some("offered rate (requests/s)".to_owned());
            factor.phrase = Some("at {} offered".to_owned());
            factor.unit = Some(Unit::per_second());
        }
        _ => return load::describe(factor),
    }
    factor
}

/// A figure that a load has by name: against the offered rate or, if there is one rate and one
/// other factor but the servers, against that factor.
fn named_figure((name, y, title, unit): (&str, &str, &str, &str), factors: &[Factor]) -> Figure {
    let is_rate = |it: &&Factor| it.name == LEVEL || it.name == RATE;
    let rates = factors.iter().find(is_rate).map_or(0, |it| it.values.len());
    let varied = factors.iter().find(|it| it.name != SERVER && !is_rate(it));
    let over = varied.filter(|_| rates <= 1);
    let server = Some(SERVER).filter(|it| factors.iter().any(|factor| factor.name == *it));
    let against = over.map_or("offered rate", |it| it.title.as_str());
    let x = over.map_or(OFFERED_RPS, |it| it.name.as_str());
    let by = match over {
        None => varied.map(|it| it.name.as_str()).or(server),
        Some(_) => server,
    };
    let panel = server.filter(|it| by != Some(*it));
    let is_log = matches!(name, "tail" | "bursts");
    Figure {
        title: Some(format!("{title} against {against}")),
        x: Some(x.to_owned()),
        by: by.map(str::to_owned),
        panel: panel.map(str::to_owned),
        unit: (!unit.is_empty()).then(|| Unit::from(unit.to_owned())),
        scale: if is_log { Scale::Log } else { Scale::Linear },
        knee: over.is_none().then(|| RESPONSE_P99_NS.to_owned()),
        diagonal: name == "throughput" && over.is_none(),
        ..Figure::new(name, FigureKind::Curve, y)
    }
}

impl Setup {
    fn has_summary(&self) -> bool {
        self.load.is_some() || self.program.as_ref().is_some_and(|it| it.summary)
    }

    fn counts_requests(&self) -> bool {
        self.has_summary()
            || self
                .program
                .as_ref()
                .is_some_and(|it| it.requests.is_some())
    }

    /// The warm-up and the measured interval, with the defaults of `curtail load`. A script has
    /// neither, unless the file says so.
    fn times(&self) -> [Option<Duration>; 2] {
        let is_script = self.load.as_ref().is_none_or(|it| !it.input.is_empty());
        let or = |time: Option<Duration>, default| match is_script {
            true => time,
            false => time.or(Some(Duration::from_secs(default))),
        };
        [or(self.warmup, 1), or(self.trial, 5)]
    }

    /// The rate of `[load]`, of all trials that have no other.
    fn rate_of_all(&self) -> Option<f64> {
        self.load.as_ref()?.rate_rps().ok()?
    }

    fn server(&self, factors: &Factors) -> Option<&ServerTable> {
        let name = factors.get(SERVER)?.to_string();
        self.server.iter().find(|it| it.name == name)
    }

    /// A value of a factor as trials use it, or its problem.
    fn factor_value(&self, name: &str, value: Value) -> Result<Value, String> {
        let in_range = |number: f64, most: f64| match number > 0.0 && number <= most {
            true => Ok(Value::from(number)),
            false => Err(format!(
                "has {number}, which is not above 0 and at most {most}"
            )),
        };
        match (name, &value) {
            // To a command, a rate is text that it reads itself.
            (RATE, Value::Text(text)) if text == load::MAX => Ok(value),
            (RATE, Value::Text(text)) => match units::rate_rps(text) {
                Ok(rate) => in_range(rate, limits::RATE_RPS),
                Err(_) if self.load.is_none() => Ok(value),
                Err(error) => Err(format!("has {error}")),
            },
            (RATE, Value::Number(rate)) if self.load.is_some() => in_range(*rate, limits::RATE_RPS),
            // Without capacities, a level is what the program makes of it.
            (LEVEL, _) if self.capacity.trials == 0 && self.load.is_none() => Ok(value),
            (LEVEL, Value::Number(level)) => in_range(*level, limits::LEVEL),
            (LEVEL, Value::Text(text)) => Err(format!("has {text:?}, which is no number")),
            _ => match self
                .load
                .as_ref()
                .and_then(|it| it.problem_of(name, &value))
            {
                Some(problem) => Err(problem),
                None => Ok(value),
            },
        }
    }

    /// The server whose capacity all levels are shares of must take part.
    fn check_capacity_server(&self) -> Result<(), Error> {
        let server = self.server(&self.capacity.of);
        match server.and_then(|it| Some((&it.name, it.skipped.as_ref()?))) {
            None => Ok(()),
            Some((name, reason)) => Err(servers::no_servers(&format!(
                "all rates are shares of the capacity of {name}: {reason}"
            ))),
        }
    }
}

const NO_STALLS: &str = "Stalls are not measured: the server is not pinned to a processor.";

const NOT_FIRST: &str = "This user cannot raise priorities (that needs root or CAP_SYS_NICE): other \
    processes share the processors of server and generator, and latencies include their time.";
