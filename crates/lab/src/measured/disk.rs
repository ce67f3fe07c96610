//! The table `[disk]` of an experiment: a slow disk, on which what runs beside the load finds
//! its files.
//!
//! ```toml
//! [disk]
//! law = "spindle"              # or a factor, as in "{disk}"
//! size = "1GiB"
//! memory = "128MiB"            # of the processes on the server's host, with their page cache
//! options = "ro,noatime"
//! fill = "{curtail} … {files}"
//! timeout = "60s"
//! ```
//!
//! Each trial has a disk of its own. `fill`, a command for `/bin/sh`, and the commands of
//! `[[before]]` meet no delays; the program does. What the processes on the server's host start
//! with is `curtail disk enter`, so they alone see the files at `{files}`.

use std::path::Path;
use std::time::Duration;

use disk::control;
use disk::counts::Counts;
use disk::law::Law;
use report::record::{Better, Factors, Measured, Metric, Unit};
use serde::{Deserialize, Serialize};

use super::Side;
use super::beside::{Beside, Place, Ready, Running};
use super::words::Words;
use crate::error::Error;
use crate::kind::{Context, TrialError};
use crate::{limits, location, placeholder};

pub(super) const FILES: &str = "files";
/// The folder on which the disk is mounted. Each machine has it (Filesystem Hierarchy Standard).
const AT: &str = "/mnt";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct DiskTable {
    /// The law of its delays; may have placeholders of factors.
    #[serde(default = "spindle")]
    pub(super) law: String,
    size: String,
    /// The bound of memory; may have placeholders of factors. None: that of the machine.
    pub(super) memory: Option<String>,
    #[serde(default = "read_only")]
    options: String,
    /// A command for `/bin/sh` that writes the files.
    pub(super) fill: String,
    #[serde(with = "location::duration_text")]
    timeout: Duration,
}

fn spindle() -> String {
    "spindle".to_owned()
}

fn read_only() -> String {
    "ro,noatime".to_owned()
}

impl DiskTable {
    /// Checks the settings of these cells: the key, and the problem.
    pub(super) fn check(&self, cells: &[Factors]) -> Result<(), (&'static str, String)> {
        let size = |key, text: &str| {
            let bytes = units::size_bytes(text);
            bytes.map_err(|error| (key, format!("has {error}")))
        };
        let bytes = size("size", &self.size)?;
        let sizes = disk::limits::SIZE_MIN..=disk::limits::SIZE_MAX;
        if !sizes.contains(&bytes) {
            return Err(("size", format!("is {}, not 16MiB to 1TiB", self.size)));
        }
        if self.timeout.is_zero() || self.timeout > limits::PROGRAM_TIMEOUT {
            return Err(("timeout", "is not above 0 and at most 1day".to_owned()));
        }
        for cell in cells {
            // A name without a value is a problem of placeholders.
            let fill =
                |text: &str| placeholder::fill(text, |name| Some(cell.get(name)?.to_string()));
            if let Some(law) = fill(&self.law) {
                let parsed = law.parse::<Law>();
                parsed.map_err(|error| ("law", format!("is wrong: {error}")))?;
            }
            if let Some(memory) = self.memory.as_deref().and_then(fill)
                && size("memory", &memory)? < disk::limits::MEMORY_MIN
            {
                return Err(("memory", format!("is {memory}, not at least 4MiB")));
            }
        }
        Ok(())
    }

    /// The longest time from its start to its end.
    pub(super) fn estimate(&self) -> Duration {
        self.timeout + limits::Timeouts::default().stop
    }

    pub(super) fn words(&self) -> String {
        let memory = self.memory.as_deref().unwrap_or("the machine's");
        format!(
            "{} of {}, with {memory} memory for the server's host",
            self.law, self.size
        )
    }
}

pub(super) fn folder() -> String {
    format!("{AT}/files")
}

type DiskMetric = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Counts, f64) -> f64,
);

#[rustfmt::skip]
const METRICS: [DiskMetric; 6] = [
    ("disk_share", "time that the disk works", "share", |it, channels| it.busy_ns as f64 / elapsed_ns(it) / channels),
    ("disk_requests", "requests of the disk", "count", |it, _| (it.reads + it.writes) as f64),
    ("disk_read_bytes", "bytes read from the disk", "B", |it, _| it.read_bytes as f64),
    ("disk_waiting_mean", "requests at the disk, mean", "count", |it, _| it.response_ns as f64 / elapsed_ns(it)),
    ("disk_waiting_max", "requests at the disk, most", "count", |it, _| it.most_waiting as f64),
    ("disk_late_p99_ns", "lateness of the disk, 99th percentile", "ns", |it, _| it.late_p99_ns as f64),
];

fn elapsed_ns(counts: &Counts) -> f64 {
    counts.elapsed_ns.max(1) as f64
}

pub(super) fn metrics() -> Vec<Metric> {
    METRICS
        .map(|(name, title, unit, _)| {
            Metric::new(name, title, Unit::from(unit.to_owned()), Better::Neither)
        })
        .to_vec()
}

/// A disk that is filled. Dropping it ends it: drop what runs on it before.
#[derive(Debug)]
pub(super) struct RunningDisk {
    running: Running,
    channels: u32,
}

impl RunningDisk {
    /// Makes a disk without delays, and fills it.
    pub(super) fn start(
        table: &DiskTable,
        words: &Words<'_>,
        context: &Context<'_>,
    ) -> Result<Self, TrialError> {
        let law = words.fill(&table.law).unwrap_or_default();
        let channels = law.parse::<Law>().map_or(1, |it| it.channels);
        let mut command = [
            "{curtail}",
            "disk",
            "run",
            "--no-delay",
            "--at",
            AT,
            "--seed={seed}",
        ]
        .map(str::to_owned)
        .to_vec();
        command.push(format!("--law={law}"));
        command.push(format!("--size={}", table.size));
        command.push(format!("--options={}", table.options));
        command.push(format!("--fill={}", table.fill));
        command.extend(table.memory.iter().map(|it| format!("--memory={it}")));
        let disk = Beside {
            name: "disk".to_owned(),
            command,
            host: Side::Server,
            environment: [].into(),
            ready: Ready {
                line: Some("^disk [0-9]+ at ".to_owned()),
                ..Ready::default()
            },
        };
        let place = Place {
            cpus: &[],
            goes_first: false,
            timeout: table.timeout,
        };
        let running = Running::start(&disk, &place, words, context)?;
        Ok(Self { running, channels })
    }

    pub(super) fn pid(&self) -> u32 {
        self.running.process().id()
    }

    /// From now on, requests take the time of the law.
    pub(super) fn begin_delays(&self) -> Result<(), TrialError> {
        self.tell("delay on").map(drop)
    }

    fn tell(&self, command: &str) -> Result<String, TrialError> {
        let socket = control::socket_of(self.pid(), Path::new(AT));
        let told = control::tell(&socket, command);
        let failed = |error| {
            self.running
                .failed(&format!("does not answer `{command}`: {error}"))
        };
        told.map_err(failed)
    }

    /// Adds what it has done since the delays began.
    pub(super) fn add_metrics(&self, measured: &mut Measured) -> Result<(), TrialError> {
        let counts: Counts = serde_json::from_str(&self.tell("counts")?)
            .map_err(|error| self.running.failed(&format!("printed no counts: {error}")))?;
        let value = |of: fn(&Counts, f64) -> f64| of(&counts, f64::from(self.channels));
        let metrics = METRICS.map(|(name, .., of)| (name.to_owned(), value(of)));
        measured.metrics.extend(metrics);
        Ok(())
    }

    /// Unmounts it. What ran on it must have ended.
    pub(super) fn stop(self, context: &Context<'_>) -> Result<Option<String>, Error> {
        self.running.stop(context)
    }
}
