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
//! for its identity, and `{curtail}` for the path of this program. An argument with a factor that
//! has no value in a cell (a nested one) is left out there, and a variable is not set.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use report::record::{Better, Factor, Factors, Metric, Unit, Value};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::hosts::relayed;
use crate::hosts::table::HostsTable;
use crate::kind::{Context, Entry, Kind, Performed, Trial, TrialError, Violation, settings_of};
use crate::plan::Options;
use crate::{limits, location, placeholder};

mod beside;
mod extract;
mod trial;

use extract::MetricTable;

/// This kind.
pub(crate) const ENTRY: Entry = Entry::of::<Program>("program");

/// The settings of an experiment of this kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Program {
    program: ProgramTable,
    #[serde(default)]
    beside: Vec<Beside>,
    #[serde(default)]
    metric: Vec<MetricTable>,
    #[serde(default, skip_serializing_if = "HostsTable::is_default")]
    hosts: HostsTable,
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
    /// The exit statuses of a success.
    #[serde(default = "zero")]
    success: Vec<i32>,
    /// Processors to which the program and its input are pinned; empty: not pinned.
    #[serde(default)]
    cpus: Vec<usize>,
}

fn zero() -> Vec<i32> {
    vec![0]
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
        if self.hosts.has_namespaces() {
            metrics.extend(relayed::metrics());
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
        check(self, cells)
    }

    fn resolve(&mut self, _options: &Options) -> Result<Vec<String>, Error> {
        let allowed = sys::thread::allowed_cpus()
            .map_err(Error::system("read the processors this process may use"))?;
        check_cpus(self, &allowed)?;
        Ok(Vec::new())
    }

    /// The longest that one attempt may take: each process beside the program may start and stop
    /// late, and the program of the input may end late.
    fn estimate(&self, _factors: &Factors) -> Duration {
        let timeouts = limits::Timeouts::default();
        let each = timeouts.start + timeouts.stop;
        let of_input = match self.program.input.is_empty() {
            true => Duration::ZERO,
            false => timeouts.stop,
        };
        let number = u32::try_from(self.beside.len()).unwrap_or(u32::MAX);
        let beside = each.saturating_mul(number);
        self.program.timeout.saturating_add(beside) + of_input
    }

    /// Nothing is known of a program before its first trial but its limit.
    fn estimate_is_limit(&self) -> bool {
        true
    }

    fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for beside in &self.beside {
            lines.push(format!("beside   {}: {}", beside.name, beside.command.join(" ")));
        }
        let input = match self.program.input.as_slice() {
            [] => String::new(),
            words => format!("{} | ", words.join(" ")),
        };
        lines.push(format!("program  {input}{}", self.program.command.join(" ")));
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

/// The placeholders that are no factors.
const PLACEHOLDERS: [&str; 5] = ["ip", "port", "seed", "trial", "curtail"];

fn check(program: &Program, cells: &[Factors]) -> Result<(), Violation> {
    let table = &program.program;
    let violation = |table, nth, key, problem: String| Err(Violation::new(table, nth, key, problem));
    if table.command.is_empty() {
        let problem = "is empty: give the program and its arguments";
        return violation("[program]", 0, "command", problem.to_owned());
    }
    let most = limits::PROGRAM_TIMEOUT;
    if table.timeout.is_zero() || table.timeout > most {
        let problem = format!("is not above 0 and at most {}", units::duration_text(most));
        return violation("[program]", 0, "timeout", problem);
    }
    if program.beside.len() > limits::BESIDE {
        let problem = format!("tables are {}, at most {}", program.beside.len(), limits::BESIDE);
        return violation("", 0, "beside", problem);
    }
    for (nth, beside) in program.beside.iter().enumerate() {
        if beside.command.is_empty() {
            let problem = "is empty: give the program and its arguments";
            return violation("[[beside]]", nth, "command", problem.to_owned());
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_again = program.beside[..nth].iter().any(|it| it.name == beside.name);
        if beside.name.is_empty() || !beside.name.chars().all(is_plain) || is_again {
            let problem = "must be letters, digits, `_` or `-`, and of no other process";
            return violation("[[beside]]", nth, "name", problem.to_owned());
        }
        if let Some(line) = &beside.ready.line
            && let Err(error) = regex_lite::Regex::new(line)
        {
            let problem = format!("has a `line` that is no regular expression: {error}");
            return violation("[[beside]]", nth, "ready", problem);
        }
    }
    check_hosts(&program.hosts, cells)?;
    extract::check(&program.metric)?;
    for metric in &program.metric {
        let is_own = OWN.iter().any(|it| it.0 == metric.name());
        let is_relays = relayed::metrics().iter().any(|it| it.name == metric.name());
        if is_own || (is_relays && program.hosts.has_namespaces()) {
            let problem = format!("`{}` is measured of every program", metric.name());
            return violation("", 0, "metric", problem);
        }
    }
    check_placeholders(program, cells)
}

/// A process cannot be started on processors that are not there.
fn check_cpus(program: &Program, allowed: &[usize]) -> Result<(), Error> {
    let beside = program.beside.iter();
    let beside = beside.map(|it| (format!("[[beside]] `{}`", it.name), &it.cpus));
    let own = ("[program]".to_owned(), &program.program.cpus);
    for (table, cpus) in std::iter::once(own).chain(beside) {
        if let Some(absent) = cpus.iter().find(|it| !allowed.contains(it)) {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            return Err(Error::Experiment {
                place: format!("`cpus` in {table}"),
                problem: format!(
                    "has {absent}, which this process may not use: choose from {}, or remove \
                     `cpus`",
                    allowed.join(", ")
                ),
            });
        }
    }
    Ok(())
}

fn check_hosts(hosts: &HostsTable, cells: &[Factors]) -> Result<(), Violation> {
    let violation = |key, problem: &str| Err(Violation::new("[hosts]", 0, key, problem));
    if hosts.detect_stalls {
        let problem = "is of kind `cache`: use `curtail load --detect-stalls` as the program";
        return violation("detect-stalls", problem);
    }
    hosts.check(cells)?;
    let clients = |cell: &Factors| hosts.at(cell).is_ok_and(|it| it.clients > 1);
    if hosts.clients > 1 || cells.iter().any(clients) {
        return violation("clients", "is above 1, but a program runs on one host");
    }
    Ok(())
}

/// Each placeholder must be a factor of some cell, and each factor must be used. What a process
/// cannot do without must have a value in every cell.
fn check_placeholders(program: &Program, cells: &[Factors]) -> Result<(), Violation> {
    let table = &program.program;
    let mut words: Vec<&String> = table.command.iter().chain(&table.input).collect();
    words.extend(table.environment.values());
    // The programs, and the addresses of probes.
    let mut needed: Vec<&String> = table.command.first().into_iter().collect();
    needed.extend(table.input.first());
    for beside in &program.beside {
        words.extend(beside.command.iter().chain(beside.environment.values()));
        words.extend(beside.ready.command.iter().chain(&beside.ready.connect));
        needed.extend(beside.command.first().into_iter().chain(&beside.ready.connect));
        needed.extend(beside.ready.command.first());
    }
    let refuse = |word: &String, problem: String| {
        let (table, nth, key) = place_of(program, word);
        Err(Violation::new(table, nth, key, problem))
    };
    let factors: BTreeSet<&str> = cells.iter().flat_map(Factors::keys).map(String::as_str).collect();
    for word in &words {
        let mut names = placeholder::names(word).into_iter();
        let is_known = |it: &&str| factors.contains(it) || PLACEHOLDERS.contains(it);
        if let Some(name) = names.find(|it| !is_known(it)) {
            let near = crate::error::nearest(name, factors.iter().copied());
            let near = crate::error::did_you_mean(near);
            return refuse(word, format!("has `{{{name}}}`, which is no factor{near}"));
        }
    }
    for cell in cells {
        for word in &needed {
            let mut names = placeholder::names(word).into_iter();
            let has_value = |it: &&str| cell.contains_key(*it) || PLACEHOLDERS.contains(it);
            if let Some(name) = names.find(|it| !has_value(it)) {
                let problem = "which has no value in some cells: only an argument can be left out";
                return refuse(word, format!("has `{{{name}}}`, {problem}"));
            }
        }
        let is_used = |name: &&String| {
            let holder = format!("{{{name}}}");
            HostsTable::is_factor(name) || words.iter().any(|word| word.contains(&holder))
        };
        if let Some(unused) = cell.keys().find(|name| !is_used(name)) {
            let problem = format!("has `{unused}`, but no command contains `{{{unused}}}`");
            return Err(Violation::new("", 0, "factor", problem));
        }
    }
    Ok(())
}

/// The table and key of a word of a command, an environment or a probe.
fn place_of(program: &Program, word: &String) -> (&'static str, usize, &'static str) {
    let of_beside = |it: &Beside| {
        let in_ready = it.ready.command.contains(word) || it.ready.connect.as_ref() == Some(word);
        let is_value = it.environment.values().any(|value| value == word);
        match it.command.contains(word) {
            true => Some("command"),
            false if is_value => Some("environment"),
            false => in_ready.then_some("ready"),
        }
    };
    let table = &program.program;
    if table.command.contains(word) {
        return ("[program]", 0, "command");
    }
    if table.input.contains(word) {
        return ("[program]", 0, "input");
    }
    let beside = program.beside.iter().enumerate();
    let mut places = beside.filter_map(|(nth, it)| Some(("[[beside]]", nth, of_beside(it)?)));
    places.next().unwrap_or(("[program]", 0, "environment"))
}

#[cfg(test)]
mod tests;
