//! The table `[hosts]` of an experiment file: where servers and clients run, and the factors
//! `host.*` that change it from cell to cell.
//!
//! ```toml
//! [hosts]
//! kind = "namespaces"     # or "loopback", the default
//! clients = 1
//! detect-stalls = true
//! [hosts.link]
//! delay = "1ms"
//! jitter = "0us"
//! loss = 0.001
//! ```

use std::time::Duration;

use report::record::{Factor, Factors, Unit, Value};
use serde::{Deserialize, Serialize};

use crate::error::suggestion;
use crate::kind::Violation;
use crate::location;
use hosts::{Error, Hosts, Layout, Link};

const PREFIX: &str = "host.";
const KEYS: [&str; 4] = ["clients", "delay", "jitter", "loss"];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct HostsTable {
    pub(crate) kind: HostsKind,
    pub(crate) clients: u8,
    /// Whether a real-time thread measures the stalls of the server's first processor.
    pub(crate) detect_stalls: bool,
    /// Delay and loss between the server and each client. None: a device pair, without a relay.
    pub(crate) link: Option<LinkTable>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HostsKind {
    /// This machine as it is.
    #[default]
    Loopback,
    /// A network namespace for the server and one for each client.
    Namespaces,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct LinkTable {
    #[serde(with = "location::duration_text")]
    delay: Duration,
    #[serde(with = "location::duration_text")]
    jitter: Duration,
    loss: f64,
}

impl Default for HostsTable {
    fn default() -> Self {
        Self {
            kind: HostsKind::default(),
            clients: 1,
            detect_stalls: false,
            link: None,
        }
    }
}

impl HostsTable {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn is_factor(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    pub(crate) fn has_namespaces(&self) -> bool {
        self.kind == HostsKind::Namespaces
    }

    /// The table of a cell: with the values of its factors `host.*`.
    pub(crate) fn at(&self, cell: &Factors) -> Result<Self, String> {
        let mut table = self.clone();
        for (name, value) in cell {
            if let Some(key) = name.strip_prefix(PREFIX) {
                table.set(key, value)?;
            }
        }
        Ok(table)
    }

    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let number = value.number().ok_or_else(|| wrong(value))?;
        if key == "clients" {
            let is_count = number.fract() == 0.0 && (0.0..=255.0).contains(&number);
            self.clients = is_count
                .then_some(number as u8)
                .ok_or_else(|| wrong(value))?;
            return Ok(());
        }
        if !self.has_namespaces() {
            return Err("needs `kind = \"namespaces\"` in [hosts]".to_owned());
        }
        let link = self.link.get_or_insert_default();
        match key {
            "delay" => link.delay = duration(number).ok_or_else(|| wrong(value))?,
            "jitter" => link.jitter = duration(number).ok_or_else(|| wrong(value))?,
            "loss" => link.loss = number,
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    /// The definition of a factor `host.*`. None: it is no such factor.
    pub(crate) fn factor(&self, name: &str, values: &[Value]) -> Option<Result<Factor, String>> {
        let key = name.strip_prefix(PREFIX)?;
        Some(self.read_factor(name, key, values))
    }

    fn read_factor(&self, name: &str, key: &str, values: &[Value]) -> Result<Factor, String> {
        let link = |of: fn(&LinkTable) -> f64| self.link.as_ref().map(of);
        let ns = Unit::nanoseconds;
        let (title, phrase, unit, own) = match key {
            "clients" => (
                "client hosts",
                "{} client hosts",
                Unit::count(),
                Some(f64::from(self.clients)),
            ),
            "delay" => (
                "delay of the link",
                "a delay of {}",
                ns(),
                link(|it| it.delay.as_nanos() as f64),
            ),
            "jitter" => (
                "jitter of the link",
                "a jitter of {}",
                ns(),
                link(|it| it.jitter.as_nanos() as f64),
            ),
            "loss" => (
                "loss of the link",
                "a loss of {}",
                Unit::share(),
                link(|it| it.loss),
            ),
            _ => return Err(unknown(key)),
        };
        let is_time = matches!(key, "delay" | "jitter");
        let read = |value: &Value| read_value(is_time, value);
        let values = values.iter().map(read).collect::<Result<Vec<Value>, _>>()?;
        for value in &values {
            self.clone().set(key, value)?;
        }
        let mut factor = Factor::new(name, values);
        factor.title = title.to_owned();
        factor.unit = Some(unit);
        factor.phrase = Some(format!("with {phrase}"));
        let own = own.map(Value::from);
        factor.reference = own.filter(|it| factor.values.contains(it));
        Ok(factor)
    }

    /// Checks the table under these cells, without looking at the machine.
    pub(crate) fn check(&self, cells: &[Factors]) -> Result<(), Violation> {
        if !self.has_namespaces() && self.link.is_some() {
            let problem = "needs `kind = \"namespaces\"`: over loopback there is no link";
            return Err(Violation::new("[hosts]", 0, "link", problem));
        }
        self.check_bounds()?;
        for cell in cells {
            let at = self.at(cell).and_then(|table| {
                let bounds = table.check_bounds();
                bounds
                    .map_err(|it| format!("makes `{}` of [hosts] wrong: it {}", it.key, it.problem))
            });
            at.map_err(|problem| Violation::new("", 0, "factor", problem))?;
        }
        Ok(())
    }

    /// For kinds whose clients are hosts, and no mere processes: over loopback there is one.
    pub(crate) fn check_clients_are_hosts(&self, cells: &[Factors]) -> Result<(), Violation> {
        if self.has_namespaces() {
            return Ok(());
        }
        let what = "needs `kind = \"namespaces\"`: loopback is one host";
        if self.clients != 1 {
            return Err(Violation::new("[hosts]", 0, "clients", what));
        }
        let has_several = |cell: &Factors| self.at(cell).is_ok_and(|it| it.clients != 1);
        if cells.iter().any(has_several) {
            let problem = format!("makes `clients` of [hosts] wrong: it {what}");
            return Err(Violation::new("", 0, "factor", problem));
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), Violation> {
        match self.layout(0).check() {
            Err(Error::Bounds { key, value, bounds }) => {
                let table = if key == "clients" {
                    "[hosts]"
                } else {
                    "[hosts.link]"
                };
                let problem = format!("is {value}, not {bounds}");
                Err(Violation::new(table, 0, key, problem))
            }
            _ => Ok(()),
        }
    }

    fn layout(&self, seed: u64) -> Layout {
        Layout {
            clients: self.clients,
            link: self.link.as_ref().map(|link| Link {
                delay: link.delay,
                jitter: link.jitter,
                loss: link.loss,
                seed,
            }),
        }
    }

    /// Creates the hosts. The server's host processes what it receives on `server_cpus`, each
    /// client's on `client_cpus`.
    pub(crate) fn open(
        &self,
        seed: u64,
        server_cpus: &[usize],
        client_cpus: &[usize],
    ) -> Result<Hosts, Error> {
        match self.kind {
            HostsKind::Loopback => Ok(Hosts::One),
            HostsKind::Namespaces => Hosts::open(&self.layout(seed), server_cpus, client_cpus),
        }
    }

    pub(crate) fn largest(&self, cells: &[Factors]) -> Self {
        let tables = cells.iter().filter_map(|cell| self.at(cell).ok());
        let largest = tables.max_by_key(|it| it.clients);
        largest.unwrap_or_else(|| self.clone())
    }

    /// The hosts in words, for the plan.
    pub(crate) fn words(&self) -> String {
        let clients = report::plural(u64::from(self.clients), "client");
        if !self.has_namespaces() {
            return match self.clients {
                1 => "this machine, over loopback".to_owned(),
                _ => format!("this machine, over loopback, with {clients}"),
            };
        }
        let link = match &self.link {
            None => "joined by device pairs, without a delay".to_owned(),
            Some(link) => format!(
                "joined by links with a delay of {}, a jitter of {} and a loss of {} % in each \
                 direction",
                time(link.delay),
                time(link.jitter),
                (link.loss * 1e6).round() / 1e4,
            ),
        };
        format!("network namespaces of a server and {clients}, {link}")
    }
}

/// A value of a factor as cells hold it: a time in nanoseconds.
fn read_value(is_time: bool, value: &Value) -> Result<Value, String> {
    match value {
        Value::Text(text) if is_time => {
            let ns = units::duration_ns(text).map_err(|it| format!("has {it}"))?;
            Ok(Value::from(ns as f64))
        }
        Value::Number(number) if is_time && *number != 0.0 => Err(format!(
            "has {number}, a time without a unit: write \"{number}ms\" or \"{number}us\""
        )),
        Value::Number(_) => Ok(value.clone()),
        Value::Text(_) => Err(wrong(value)),
    }
}

fn duration(ns: f64) -> Option<Duration> {
    let most = u64::MAX as f64;
    (0.0..most)
        .contains(&ns)
        .then(|| Duration::from_nanos(ns as u64))
}

fn time(duration: Duration) -> String {
    units::duration_argument(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn wrong(value: &Value) -> String {
    format!("has {value}, which is no such number")
}

fn unknown(key: &str) -> String {
    let near = suggestion(key, KEYS);
    format!(
        "is no key of [hosts] that may be a factor (`host.` and {}){near}",
        KEYS.join(", ")
    )
}

#[cfg(test)]
mod tests;
