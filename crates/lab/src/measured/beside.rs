//! The processes that run beside a load: start, until they are ready, stop.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::ToSocketAddrs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use regex_lite::Regex;

use serde::{Deserialize, Serialize};

use super::words::Words;
use super::{Setup, Side};
use crate::error::Error;
use crate::kind::{Context, TrialError};
use crate::limits;
use crate::process::{Process, ProcessGuard, WaitResult, with_last_lines};

/// A process that runs beside the load: started before it, and stopped after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Beside {
    /// Its name in messages and logs.
    pub(super) name: String,
    pub(super) command: Vec<String>,
    #[serde(default, skip_serializing_if = "Side::is_server")]
    pub(super) host: Side,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) environment: BTreeMap<String, String>,
    /// When the next process may start.
    #[serde(default)]
    pub(super) ready: Ready,
}

/// The condition for a process to be ready. Several must all hold; none: as soon as it is started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct Ready {
    /// A TCP connection to this address succeeds.
    pub(super) connect: Option<String>,
    /// A line of its output matches this regular expression.
    pub(super) line: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) command: Vec<String>,
    /// It answers memcached's `version` at the trial's port.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) version: bool,
}

/// Grace time for a process that may be about to exit by itself: a crash closes its connections,
/// which ends the load, before it has exited.
const MOMENT: Duration = Duration::from_millis(250);
/// The signal's number, equal on every architecture of Linux.
const SIGTERM: i32 = 15;

/// Where a process runs, and in which time it must be ready.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) cpus: &'a [usize],
    pub(super) goes_first: bool,
    pub(super) timeout: Duration,
}

#[derive(Debug)]
pub(super) struct Running {
    name: String,
    log: PathBuf,
    process: Process,
    pub(super) version: Option<String>,
}

impl Running {
    /// Starts a process of the file where the file pins it.
    pub(super) fn start_pinned(
        beside: &Beside,
        setup: &Setup,
        words: &Words<'_>,
        context: &Context<'_>,
    ) -> Result<Self, TrialError> {
        let cpus = match beside.host {
            Side::Server => &setup.pins.server,
            Side::Client => &setup.pins.load,
        };
        let place = Place {
            cpus,
            goes_first: setup.pins.go_first,
            timeout: context.options.timeouts.start,
        };
        Self::start(beside, &place, words, context)
    }

    /// Starts a process and waits until it is ready.
    pub(super) fn start(
        beside: &Beside,
        place: &Place<'_>,
        words: &Words<'_>,
        context: &Context<'_>,
    ) -> Result<Self, TrialError> {
        let log = context.log(words.trial_id(), &beside.name);
        let output = File::create(&log).map_err(Error::file("create", &log))?;
        let errors = output.try_clone().map_err(Error::file("open", &log))?;
        let mut command = words.command(beside.host, &beside.command, &beside.environment);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let (cpus, first, name) = (place.cpus, place.goes_first, &beside.name);
        let process =
            Process::start_under(ProcessGuard::start()?, &mut command, cpus, first, name)?;
        let mut running = Self {
            name: name.clone(),
            log,
            process,
            version: None,
        };
        running.wait_until_ready(beside, place.timeout, words, context)?;
        Ok(running)
    }

    fn wait_until_ready(
        &mut self,
        beside: &Beside,
        timeout: Duration,
        words: &Words<'_>,
        context: &Context<'_>,
    ) -> Result<(), TrialError> {
        let deadline = Instant::now() + timeout;
        let line = beside.ready.line.as_deref();
        let mut search = line.map(|it| LineSearch::open(it, &self.log)).transpose()?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let ready = match search.as_mut().map_or(Ok(()), LineSearch::advance) {
                Ok(()) => self.answers(beside, words, context, left),
                lacking => lacking,
            };
            let Err(lacking) = ready else {
                return Ok(());
            };
            match self
                .process
                .wait(limits::PROBE_GAP, Some(context.stop_signals))?
            {
                WaitResult::Exited(_) => {
                    let status = self.process.finish()?;
                    return Err(self.failed(&format!("exited before it was ready ({status})")));
                }
                WaitResult::StopRequested => return Err(TrialError::StopRequested),
                WaitResult::TimedOut if Instant::now() >= deadline => {
                    let timeout = units::duration_text(timeout);
                    return Err(self.failed(&format!("was not ready within {timeout} ({lacking})")));
                }
                WaitResult::TimedOut => {}
            }
        }
    }

    /// Whether the probes that connect and run a command succeed; the first that does not, as a
    /// fragment. An attempt takes `left` at most, and ends with this process.
    fn answers(
        &mut self,
        beside: &Beside,
        words: &Words<'_>,
        context: &Context<'_>,
        left: Duration,
    ) -> Result<(), String> {
        let ready = &beside.ready;
        // The address has a value in every cell (`check_placeholders`).
        if let Some(address) = ready.connect.as_ref().and_then(|it| words.fill(it)) {
            let timeout = limits::CONNECT_ATTEMPT.min(left).max(limits::PROBE_GAP);
            let mut addresses = address.to_socket_addrs().into_iter().flatten();
            if !addresses.any(|it| words.connect(beside.host, it, timeout).is_ok()) {
                return Err(format!("no connection to {address}"));
            }
        }
        if ready.version {
            let version = ask_version(words);
            self.version = Some(version.map_err(|_| "no reply to `version`".to_owned())?);
        }
        if ready.command.is_empty() {
            return Ok(());
        }
        let mut probe: Command = words.command(beside.host, &ready.command, &beside.environment);
        probe
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let shown = ready.command.join(" ");
        let probe = Process::start(&mut probe, &[], false, None);
        let mut probe = probe.map_err(|error| format!("`{shown}`: {error}"))?;
        let timeout = limits::COMMAND_ATTEMPT.min(left).max(limits::PROBE_GAP);
        let awaited = [&probe, &self.process];
        match Process::wait_for_first(&awaited, timeout, Some(context.stop_signals)) {
            Ok(WaitResult::Exited(0)) => {}
            _ => {
                let timeout = units::duration_text(timeout);
                return Err(format!("`{shown}` did not exit within {timeout}"));
            }
        }
        match probe.finish().is_ok_and(|it| it.success()) {
            true => Ok(()),
            false => Err(format!("`{shown}` did not exit with 0")),
        }
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    /// Fails if the process has exited; after a load that was `abnormal`, if it is about to.
    pub(super) fn check(&mut self, abnormal: bool) -> Result<(), TrialError> {
        let moment = if abnormal { MOMENT } else { Duration::ZERO };
        if self.process.wait(moment, None)?.is_exit() {
            let status = self.process.finish()?;
            return Err(self.failed(&format!("exited during the trial ({status})")));
        }
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Terminates the process, and kills it if it does not exit in time. Returns a remark if it
    /// ends badly.
    pub(super) fn stop(mut self, context: &Context<'_>) -> Result<Option<String>, Error> {
        self.process.terminate();
        let timeout = context.options.timeouts.stop;
        let in_time = self.process.wait(timeout, None)?.is_exit();
        let status = self.process.finish()?;
        let name = &self.name;
        let timeout = units::duration_text(timeout);
        Ok(match in_time {
            false => Some(format!(
                "{name} did not exit within {timeout} of SIGTERM and was killed"
            )),
            true if status.success() || status.signal() == Some(SIGTERM) => None,
            true => Some(format!("after SIGTERM, {name} exited with {status}")),
        })
    }

    pub(super) fn failed(&self, what: &str) -> TrialError {
        TrialError::Failed(with_last_lines(&format!("{} {what}", self.name), &self.log))
    }
}

fn ask_version(words: &Words<'_>) -> io::Result<String> {
    let mut stream = words.connect(Side::Server, words.address(), limits::CONNECT_ATTEMPT)?;
    stream.set_read_timeout(Some(limits::CONNECT_ATTEMPT))?;
    stream.set_write_timeout(Some(limits::CONNECT_ATTEMPT))?;
    stream.write_all(b"version\r\n")?;
    let mut line = String::new();
    BufReader::new(stream.take(limits::VERSION_LEN as u64)).read_line(&mut line)?;
    match line.trim_end().strip_prefix("VERSION ") {
        Some(version) => Ok(version.to_owned()),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A search for a line of a log that grows. It reads each byte once, and not beyond a bound.
struct LineSearch {
    regex: Regex,
    log: File,
    /// Bytes that may yet be read.
    left: u64,
    /// What follows the last complete line.
    rest: Vec<u8>,
    is_found: bool,
}

impl LineSearch {
    fn open(line: &str, log: &Path) -> Result<Self, TrialError> {
        let regex = Regex::new(line).map_err(|error| TrialError::Failed(error.to_string()))?;
        Ok(Self {
            regex,
            log: File::open(log).map_err(Error::file("open", log))?,
            left: limits::SUMMARY_LEN,
            rest: Vec::new(),
            is_found: false,
        })
    }

    /// Searches what was printed since the last call. What is missing, as a fragment.
    fn advance(&mut self) -> Result<(), String> {
        self.read()
            .map_err(|error| format!("its output: {error}"))?;
        let line = self.regex.as_str();
        match (self.is_found, self.left) {
            (true, _) => Ok(()),
            (false, 0) => {
                let most = limits::SUMMARY_LEN >> 20;
                Err(format!(
                    "no line of the first {most} MiB of its output matches `{line}`"
                ))
            }
            (false, _) => Err(format!("no line matches `{line}`")),
        }
    }

    fn read(&mut self) -> io::Result<()> {
        if self.is_found || self.left == 0 {
            return Ok(());
        }
        let len = (&self.log).take(self.left).read_to_end(&mut self.rest)? as u64;
        self.left -= len;
        if len > 0 {
            // A line that is not complete yet may match too: a prompt has no end of line.
            let text = String::from_utf8_lossy(&self.rest);
            self.is_found = text.lines().any(|it| self.regex.is_match(it));
            let searched = self.rest.iter().rposition(|&it| it == b'\n');
            self.rest.drain(..searched.map_or(0, |at| at + 1));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(printed: &[&[u8]]) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = File::create(&path).unwrap();
        let mut search = LineSearch::open("^rea.y$", &path).unwrap();
        let mut found = search.advance();
        for part in printed {
            log.write_all(part).unwrap();
            found = search.advance();
        }
        found
    }

    #[test]
    fn a_line_is_found_in_any_pieces_and_without_its_end() {
        assert_eq!(search(&[b"up\n", b"rea", b"dy\nmore\n", b"and\n"]), Ok(()));
        assert_eq!(search(&[b"up\nready"]), Ok(()));
        let missing = Err("no line matches `^rea.y$`".to_owned());
        assert_eq!(search(&[]), missing);
        assert_eq!(search(&[b"not re", b"ady\n", b"\n"]), missing);
    }

    #[test]
    fn output_beyond_the_bound_is_not_searched() {
        let most = usize::try_from(limits::SUMMARY_LEN).unwrap();
        let mut long = vec![b'x'; most];
        long[most - 1] = b'\n';
        let refused = "no line of the first 32 MiB of its output matches `^rea.y$`";
        assert_eq!(search(&[&long, b"ready\n"]), Err(refused.to_owned()));
    }
}
