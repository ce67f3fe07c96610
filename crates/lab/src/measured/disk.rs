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

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use disk::control;
use disk::counts::Counts;
use disk::law::Law;
use report::record::{Better, Factors, Measured, Metric, Unit};
use serde::{Deserialize, Serialize};

use super::words::Words;
use crate::error::Error;
use crate::kind::{Context, TrialError};
use crate::process::{Process, WaitResult, with_last_lines};
use crate::{limits, location, placeholder};

/// The placeholder of the folder with the files.
pub(super) const FILES: &str = "files";
/// The folder on which the disk is mounted. Each machine has it (Filesystem Hierarchy Standard).
const AT: &str = "/mnt";
/// The name of its log.
const NAME: &str = "disk";

/// The settings of a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct DiskTable {
    /// The law of its delays; may have placeholders of factors.
    #[serde(default = "spindle")]
    pub(super) law: String,
    /// Its size.
    size: String,
    /// The bound of memory; may have placeholders of factors. None: that of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<String>,
    #[serde(default = "read_only")]
    options: String,
    /// A command for `/bin/sh` that writes the files.
    pub(super) fill: String,
    /// The time in which they must be written.
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

    /// The disk in words.
    pub(super) fn words(&self) -> String {
        let memory = self.memory.as_deref().unwrap_or("the machine's");
        format!(
            "{} of {}, with {memory} memory for the server's host",
            self.law, self.size
        )
    }
}

/// The folder with the files.
pub(super) fn folder() -> String {
    format!("{AT}/files")
}

/// The metrics of a disk.
pub(super) fn metrics() -> Vec<Metric> {
    [
        ("disk_share", "time that the disk works", "share"),
        ("disk_requests", "requests of the disk", "count"),
        ("disk_read_bytes", "bytes read from the disk", "B"),
        ("disk_waiting_mean", "requests at the disk, mean", "count"),
        ("disk_waiting_max", "requests at the disk, most", "count"),
        (
            "disk_late_p99_ns",
            "lateness of the disk, 99th percentile",
            "ns",
        ),
    ]
    .map(|(name, title, unit)| {
        Metric::new(name, title, Unit::from(unit.to_owned()), Better::Neither)
    })
    .to_vec()
}

/// A disk that is filled. Dropping it ends it: drop what runs on it before.
#[derive(Debug)]
pub(super) struct RunningDisk {
    process: Process,
    log: PathBuf,
    channels: u32,
}

impl RunningDisk {
    /// Makes a disk without delays, and fills it.
    pub(super) fn start(
        table: &DiskTable,
        words: &Words<'_>,
        context: &Context<'_>,
    ) -> Result<Self, TrialError> {
        let fill = |text: &str| words.fill(text).unwrap_or_default();
        let law = fill(&table.law);
        let channels = law.parse::<Law>().map_or(1, |it| it.channels);
        let mut line = ["disk", "run", "--no-delay", "--at", AT]
            .map(str::to_owned)
            .to_vec();
        line.push(format!("--law={law}"));
        line.push(format!("--size={}", table.size));
        line.push(format!("--options={}", table.options));
        line.push(format!("--seed={}", fill("{seed}")));
        line.push(format!("--fill={}", fill(&table.fill)));
        line.extend(
            table
                .memory
                .iter()
                .map(|it| format!("--memory={}", fill(it))),
        );
        let log = context.log(words.trial_id(), NAME);
        let output = File::create(&log).map_err(Error::file("create", &log))?;
        let errors = output.try_clone().map_err(Error::file("open", &log))?;
        let mut command = words.on_server(&line);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let process = Process::start_guarded(&mut command, &[], false, NAME)?;
        let mut disk = Self {
            process,
            log,
            channels,
        };
        disk.wait_until_filled(table.timeout, context)?;
        Ok(disk)
    }

    fn wait_until_filled(
        &mut self,
        timeout: Duration,
        context: &Context<'_>,
    ) -> Result<(), TrialError> {
        let deadline = Instant::now() + timeout;
        let ready = format!("disk {} at ", self.process.id());
        loop {
            let printed = read_start(&self.log).map_err(Error::file("read", &self.log))?;
            if printed.lines().any(|line| line.starts_with(&ready)) {
                return Ok(());
            }
            match self
                .process
                .wait(limits::PROBE_GAP, Some(context.stop_signals))?
            {
                WaitResult::Exited => {
                    let status = self.process.finish()?;
                    return Err(self.failed(&format!("exited before it was filled ({status})")));
                }
                WaitResult::StopRequested => return Err(TrialError::StopRequested),
                WaitResult::TimedOut if Instant::now() >= deadline => {
                    let timeout = units::duration_text(timeout);
                    return Err(self.failed(&format!("was not filled within {timeout}")));
                }
                WaitResult::TimedOut => {}
            }
        }
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// From now on, requests take the time of the law.
    pub(super) fn begin_delays(&self) -> Result<(), TrialError> {
        self.tell("delay on").map(drop)
    }

    fn tell(&self, command: &str) -> Result<String, TrialError> {
        let socket = control::socket_of(self.pid(), Path::new(AT));
        let told = control::tell(&socket, command);
        told.map_err(|error| self.failed(&format!("does not answer `{command}`: {error}")))
    }

    /// Adds what it has done since the delays began.
    pub(super) fn add_metrics(&self, measured: &mut Measured) -> Result<(), TrialError> {
        let text = self.tell("counts")?;
        let counts: Counts = serde_json::from_str(&text)
            .map_err(|error| self.failed(&format!("printed no counts: {error}")))?;
        let elapsed_ns = counts.elapsed_ns.max(1) as f64;
        for (name, value) in [
            (
                "disk_share",
                counts.busy_ns as f64 / elapsed_ns / f64::from(self.channels),
            ),
            ("disk_requests", (counts.reads + counts.writes) as f64),
            ("disk_read_bytes", counts.read_bytes as f64),
            ("disk_waiting_mean", counts.response_ns as f64 / elapsed_ns),
            ("disk_waiting_max", counts.most_waiting as f64),
            ("disk_late_p99_ns", counts.late_p99_ns as f64),
        ] {
            measured.metrics.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// Unmounts it. What ran on it must have ended.
    pub(super) fn stop(mut self, context: &Context<'_>) -> Result<Option<String>, Error> {
        self.process.terminate();
        let in_time = self.process.wait(context.options.timeouts.stop, None)?;
        self.process.finish()?;
        let note = || "the disk did not end in time and was killed".to_owned();
        Ok((in_time != WaitResult::Exited).then(note))
    }

    fn failed(&self, what: &str) -> TrialError {
        TrialError::Failed(with_last_lines(&format!("{NAME} {what}"), &self.log))
    }
}

/// The beginning of a log: a disk prints little.
fn read_start(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(limits::QUOTED_LEN)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
