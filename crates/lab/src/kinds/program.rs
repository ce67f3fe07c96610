//! Any program: a command line, what must run beside it, and how its output becomes metrics.
//!
//! ```toml
//! kind = "program"
//!
//! [program]
//! command = ["memcslap", "--servers=127.0.0.1:{port}", "--concurrency={connections}"]
//! timeout = "30s"
//!
//! [[beside]]
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
//! In commands, environment and probes, `{NAME}` stands for the value of a factor, `{port}` for a
//! free port, `{ip}` for the address of the server's host, `{seed}` for the trial's seed, `{trial}`
//! for its identity, `{client}` for the number of the client that runs the program, from 0,
//! `{curtail}` for the path of this program, and `{build}` for that of the build which is measured:
//! this program too, unless the factor [`BUILD`] chooses among several. An argument with a factor
//! that has no value in a cell (a nested one) is left out there, and a variable is not set.
//!
//! The commands of `[[before]]` run to their end before the program, and are not measured. With
//! several clients, each runs the program ([`task`]), and their metrics are combined
//! ([`combine`]).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use report::record::{
    Better, Factor, Factors, Metric, Record, Repeats, Stage, Unit, Value,
};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::relayed;
use crate::hosts_table::HostsTable;
use crate::kind::{
    Context, Entry, Estimate, Kind, Performed, Resolved, Trial, TrialError, Violation, settings_of,
};
use crate::plan::Options;
use crate::{host, limits, location, placeholder};

mod beside;
mod check;
mod combine;
mod disk;
mod energy;
mod extract;
mod histogram;
mod level;
mod task;
mod trial;
mod words;

use disk::DiskTable;
use energy::RequestsUnit;
use extract::MetricTable;
use histogram::HistogramTable;
use level::LevelTable;

/// The factor whose values are builds of this program, and the placeholder of the build's path.
pub(crate) const BUILD: &str = "build";

/// This kind.
pub(crate) const ENTRY: Entry = Entry::of::<Program>("program");

/// The settings of an experiment of this kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Program {
    program: ProgramTable,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    before: Vec<Before>,
    #[serde(default)]
    beside: Vec<Beside>,
    #[serde(default)]
    metric: Vec<MetricTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    histogram: Vec<HistogramTable>,
    #[serde(default, skip_serializing_if = "HostsTable::is_default")]
    hosts: HostsTable,
    /// A slow disk of the server's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk: Option<DiskTable>,
    /// Rates that are shares of a capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<LevelTable>,
    /// The programs of the values of the factor [`BUILD`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    builds: BTreeMap<String, PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ProgramTable {
    /// The program and its arguments. No shell interprets them.
    command: Vec<String>,
    /// A program whose standard output is the standard input of `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    input: Vec<String>,
    /// Variables in addition to those of the laboratory.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// A program that has not ended by then is killed, and its trial fails.
    #[serde(with = "location::duration_text")]
    timeout: Duration,
    /// How much later than the client before it each client starts: a duration, which may have
    /// placeholders of factors. Empty: all start together.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    stagger: String,
    /// The exit statuses of a success.
    #[serde(default = "zero")]
    success: Vec<i32>,
    /// Processors to which the program and its input are pinned; empty: not pinned.
    #[serde(default)]
    cpus: Vec<usize>,
    /// The metric that tells how many requests there were: a count or a rate. With it, energy and
    /// its proxies are also given for each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requests: Option<String>,
}

impl ProgramTable {
    /// The time from the start of one client to that of the next, in a cell. A factor that has no
    /// value there makes it 0.
    ///
    /// # Errors
    /// It is no duration, or too long: the problem, which follows `stagger` in a sentence.
    fn stagger(&self, cell: &Factors) -> Result<Duration, String> {
        let filled = placeholder::fill(&self.stagger, |name| Some(cell.get(name)?.to_string()));
        let Some(text) = filled.filter(|it| !it.is_empty()) else {
            return Ok(Duration::ZERO);
        };
        let ns = units::duration_ns(&text).map_err(|error| format!("has {error}"))?;
        let stagger = Duration::from_nanos(ns);
        let most = limits::PROGRAM_TIMEOUT;
        match stagger > most {
            true => Err(format!("is {text}, at most {}", units::duration_text(most))),
            false => Ok(stagger),
        }
    }
}

fn zero() -> Vec<i32> {
    vec![0]
}

/// A command that ends before the program starts, and is not measured: it fills a cache, for
/// example. It has the environment and the processors of the program.
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
    /// Whether all clients run it, at the same time, and not only the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    each_client: bool,
}

/// A process that runs beside the program: started before it, and stopped after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Beside {
    /// Its name in messages and logs.
    name: String,
    command: Vec<String>,
    /// The host on which it runs.
    #[serde(default, skip_serializing_if = "Side::is_server")]
    host: Side,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// When the next process may start.
    #[serde(default)]
    ready: Ready,
    #[serde(default)]
    cpus: Vec<usize>,
}

/// The host of a process. The program itself runs on the client's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Side {
    #[default]
    Server,
    Client,
}

impl Side {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_server(&self) -> bool {
        *self == Self::Server
    }
}

impl Program {
    /// The name and the unit of the metric that tells the number of requests, if there is one.
    fn requests(&self) -> Option<(&str, RequestsUnit)> {
        let name = self.program.requests.as_deref()?;
        let metric = self.metric.iter().find(|it| it.name() == name)?;
        Some((name, RequestsUnit::of(metric.unit())?))
    }

    /// The processors of what runs on the server's host.
    fn server_cpus(&self) -> Vec<usize> {
        let on_server = self.beside.iter().filter(|it| it.host.is_server());
        let mut cpus: Vec<usize> = on_server.flat_map(|it| it.cpus.clone()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

/// The condition for a process to be ready. Several must all hold; none: as soon as it is started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Ready {
    /// A TCP connection to this address succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    connect: Option<String>,
    /// A line of its output matches this regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    /// This command exits with status 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    command: Vec<String>,
}

/// The metrics that every program has: name, title, unit, whether lower is better.
const OWN: [(&str, &str, &str, bool); 7] = [
    ("elapsed_ns", "time from start to end", "ns", true),
    ("user_ns", "processor time, user", "ns", true),
    ("system_ns", "processor time, system", "ns", true),
    ("resident_bytes", "greatest resident memory", "B", true),
    ("voluntary_switches", "voluntary context switches", "count", false),
    ("involuntary_switches", "involuntary context switches", "count", false),
    ("exit_status", "exit status", "count", false),
];

impl Kind for Program {
    fn metrics(&self) -> Vec<Metric> {
        let own = OWN.map(|(name, title, unit, is_lower_better)| {
            let better = match is_lower_better {
                true => Better::Lower,
                false => Better::Neither,
            };
            Metric::new(name, title, Unit::from(unit.to_owned()), better)
        });
        let declared = self.metric.iter().map(MetricTable::definition);
        let mut metrics: Vec<Metric> = declared.chain(own).collect();
        metrics.extend(energy::metrics(self.program.requests.is_some()));
        if self.hosts.has_namespaces() {
            metrics.extend(relayed::metrics());
        }
        if self.disk.is_some() {
            metrics.extend(disk::metrics());
        }
        if self.level.is_some() {
            metrics.extend(level::metrics());
        }
        metrics
    }

    fn factor(&self, name: &str, values: Vec<Value>) -> Result<Factor, String> {
        let of_hosts = self.hosts.factor(name, &values);
        of_hosts.unwrap_or_else(|| Ok(Factor::new(name, values)))
    }

    fn suspects(&self) -> BTreeMap<String, String> {
        match self.hosts.has_namespaces() {
            true => relayed::suspects(),
            false => BTreeMap::new(),
        }
    }

    fn prepare(&mut self, cells: &[Factors], _context: &Context<'_>) -> Result<(), Error> {
        // The most that a trial needs, so that a run does not begin which cannot be completed.
        let hosts = self.hosts.largest(cells);
        hosts.open(0, &self.server_cpus(), &self.program.cpus)?;
        Ok(())
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
        check::check_cpus(self, &allowed)?;
        self.builds.extend(options.servers.iter().cloned());
        let builds = self.builds.iter();
        let builds = builds.map(|(name, path)| format!("the build {name} is {}.", path.display()));
        Ok(builds.chain(host::profile_note()).collect())
    }

    /// The longest that one attempt may take: each process beside the program may start and stop
    /// late, and the program of the input may end late.
    fn needs_root(&self) -> bool {
        self.disk.is_some() || self.hosts.has_namespaces()
    }

    fn estimate(&self, factors: &Factors) -> Estimate {
        let timeouts = limits::Timeouts::default();
        let of_input = |input: &[String]| match input.is_empty() {
            true => Duration::ZERO,
            false => timeouts.stop,
        };
        let beside = (timeouts.start + timeouts.stop) * self.beside.len() as u32;
        let before = self.before.iter();
        let before: Duration = before.map(|it| it.timeout + of_input(&it.input)).sum();
        let last = self.hosts.at(factors).map_or(0, |it| it.clients.saturating_sub(1));
        let stagger = self.program.stagger(factors).unwrap_or_default() * u32::from(last);
        let program = self.program.timeout + stagger + of_input(&self.program.input);
        let disk = self.disk.as_ref().map_or(Duration::ZERO, DiskTable::estimate);
        Estimate::about(program + before + beside + disk)
    }

    fn stages(&self, cells: Vec<Factors>, repeats: Repeats) -> Vec<Stage> {
        match &self.level {
            Some(level) => level.stages(cells, repeats),
            None => vec![Stage {
                name: "sweep".to_owned(),
                repeats,
                cells,
            }],
        }
    }

    fn resolve_trial(
        &self,
        stage: &str,
        factors: &Factors,
        done: &[Record],
    ) -> Result<Resolved, String> {
        match &self.level {
            Some(level) => level.resolve(stage, factors, done),
            None => Ok(Resolved::default()),
        }
    }

    /// Nothing is known of a program before its first trial but its limit.
    fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(disk) = &self.disk {
            lines.push(format!("disk     {}", disk.words()));
        }
        for beside in &self.beside {
            lines.push(format!("beside   {}: {}", beside.name, beside.command.join(" ")));
        }
        let pipeline = |input: &[String], command: &[String]| match input {
            [] => command.join(" "),
            input => format!("{} | {}", input.join(" "), command.join(" ")),
        };
        for before in &self.before {
            let by = if before.each_client { " (each client)" } else { "" };
            lines.push(format!("before   {}{by}", pipeline(&before.input, &before.command)));
        }
        let program = &self.program;
        lines.push(format!("program  {}", pipeline(&program.input, &program.command)));
        if !self.program.stagger.is_empty() {
            lines.push(format!("stagger  {}", self.program.stagger));
        }
        if !self.hosts.is_default() {
            lines.push(format!("hosts    {}", self.hosts.words([])));
        }
        let timeout = units::duration_text(self.program.timeout);
        lines.push(format!("timeout  {timeout}"));
        lines
    }

    fn perform(&self, trial: &Trial<'_>, context: &Context<'_>) -> Result<Performed, TrialError> {
        trial::perform(self, trial, context)
    }
}

#[cfg(test)]
mod tests;
