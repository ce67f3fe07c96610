//! Child processes, whose exit is awaited together with the user's stop signals.
//!
//! The kernel kills a child when the *thread* that started it ends. The thread that calls
//! [`crate::run`] therefore starts all children of a run and reaps each before it returns. The
//! child registers its parent-death signal between fork and exec, and exits if its parent has ended
//! by then ([`sys::child::bind`]).

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

use sys::child::{Bounds, Usage};
use sys::poll::{Events, Interest, Poll};
use sys::signals::{Signal, Signals};

use crate::error::Error;
use crate::kind::TrialError;
use crate::limits;

mod guard;

pub(crate) use guard::ProcessGuard;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitResult {
    /// The child with this index has exited; of several, the one with the lowest index.
    Exited(usize),
    TimedOut,
    StopRequested,
}

impl WaitResult {
    pub(crate) fn is_exit(self) -> bool {
        matches!(self, Self::Exited(_))
    }
}

/// The signals that request a stop, as an event to wait for.
#[derive(Debug)]
pub(crate) struct StopSignals {
    signals: Signals,
    stopped: Cell<bool>,
}

impl StopSignals {
    /// Blocks SIGINT, SIGTERM and SIGHUP in this thread. They then stop the run instead of the
    /// process, unless another thread receives them.
    pub(crate) fn new() -> Result<Self, Error> {
        let signals = Signals::block().map_err(Error::system("take over the signals"))?;
        Ok(Self {
            signals,
            stopped: Cell::new(false),
        })
    }

    /// Whether the user has requested a stop.
    pub(crate) fn stopped(&self) -> bool {
        while let Some(signal) = self.signals.take() {
            if matches!(signal, Signal::Stop | Signal::Reload) {
                self.stopped.set(true);
            }
        }
        self.stopped.get()
    }
}

/// A child that leads its own session and is killed when the lab ends.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    ended: OwnedFd,
    ended_with: Option<(ExitStatus, Usage)>,
    began: Instant,
    /// Fields are dropped after the process itself, which is then reaped.
    #[expect(dead_code, reason = "dropped after the process is reaped")]
    guard: Option<ProcessGuard>,
}

impl Process {
    /// Starts a process. A `guard` kills it if the lab is killed.
    pub(crate) fn start(
        command: &mut Command,
        cpus: &[usize],
        goes_first: bool,
        guard: Option<ProcessGuard>,
    ) -> io::Result<Self> {
        let announces_to = guard
            .as_ref()
            .map(ProcessGuard::pipe)
            .transpose()?
            .flatten();
        let bounds = Bounds {
            announces_to,
            cpus: cpus.to_vec(),
            dies_with_parent: true,
            own_session: true,
            goes_first,
        };
        // A number that a program prints must not depend on where the lab runs.
        let is_locale =
            |name: &OsStr| name == "LANG" || name.to_str().is_some_and(|it| it.starts_with("LC_"));
        if !command.get_envs().any(|(name, _)| is_locale(name)) {
            command.env("LC_ALL", "C");
        }
        sys::child::bind(command, &bounds)?;
        let began = Instant::now();
        let mut child = command.spawn()?;
        match sys::child::ended(&child) {
            Ok(ended) => Ok(Self {
                child,
                ended,
                ended_with: None,
                began,
                guard,
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// As [`Process::start`], with a guard that was started before it: the process's time does not
    /// hold another's start. Messages call the process `name`.
    pub(crate) fn start_under(
        guard: ProcessGuard,
        command: &mut Command,
        cpus: &[usize],
        goes_first: bool,
        name: &str,
    ) -> Result<Self, TrialError> {
        Self::start(command, cpus, goes_first, Some(guard))
            .map_err(|error| TrialError::Failed(format!("{name} could not be started: {error}")))
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// The child's standard output, if it is a pipe and was not taken before.
    pub(crate) fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the child exits, `timeout` passes or, given `stop_signals`, the user requests a
    /// stop.
    pub(crate) fn wait(
        &self,
        timeout: Duration,
        stop_signals: Option<&StopSignals>,
    ) -> Result<WaitResult, Error> {
        Self::wait_for_first(&[self], timeout, stop_signals)
    }

    /// Waits until one of the children exits, `timeout` passes or, given `stop_signals`, the user
    /// requests a stop.
    pub(crate) fn wait_for_first(
        children: &[&Self],
        timeout: Duration,
        stop_signals: Option<&StopSignals>,
    ) -> Result<WaitResult, Error> {
        let attempt = || -> io::Result<WaitResult> {
            let poll = Poll::new()?;
            for (nth, child) in children.iter().enumerate() {
                poll.add(&child.ended, nth as u64, Interest::Read)?;
            }
            let stop = children.len();
            if let Some(stop_signals) = stop_signals {
                poll.add(&stop_signals.signals, stop as u64, Interest::Read)?;
            }
            let deadline = Instant::now() + timeout;
            let mut events = Events::with_capacity(stop + 1);
            loop {
                if stop_signals.is_some_and(StopSignals::stopped) {
                    return Ok(WaitResult::StopRequested);
                }
                let left = deadline.saturating_duration_since(Instant::now());
                let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
                poll.wait(&mut events, Some(left_ns))?;
                let tokens = events.iter().map(|ready| ready.token as usize);
                if let Some(nth) = tokens.filter(|&it| it < stop).min() {
                    return Ok(WaitResult::Exited(nth));
                }
                if left.is_zero() {
                    return Ok(WaitResult::TimedOut);
                }
            }
        };
        attempt().map_err(Error::system("wait for a child"))
    }

    pub(crate) fn terminate(&self) {
        // This fails only if the child has exited meanwhile. It is not reaped yet, so its id cannot
        // have been reused.
        let _ = sys::child::terminate(self.child.id());
    }

    /// Kills the rest of the child's process group and reaps the child.
    pub(crate) fn finish(&mut self) -> Result<ExitStatus, Error> {
        self.finish_with_usage().map(|(status, _)| status)
    }

    /// As [`Process::finish`]; returns the resources that the child has used too.
    pub(crate) fn finish_with_usage(&mut self) -> Result<(ExitStatus, Usage), Error> {
        if let Some(ended) = self.ended_with {
            return Ok(ended);
        }
        // Before reaping, because until then the id cannot be reused. This fails only if nothing
        // but the exited child is left in the group.
        let _ = sys::child::kill_group(self.child.id());
        let ended = sys::child::reap(&self.child).map_err(Error::system("wait for a child"))?;
        self.ended_with = Some(ended);
        Ok(ended)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// `reason`, followed by the last lines of a child's output.
pub(crate) fn with_last_lines(reason: &str, log: &Path) -> String {
    let tail = read_tail(log, limits::QUOTED_LEN).unwrap_or_default();
    let text = String::from_utf8_lossy(&tail);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(limits::QUOTED_LINES)..];
    if last.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}: {}", last.join(" | "))
    }
}

fn read_tail(path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(len_max)))?;
    let mut tail = Vec::new();
    file.take(len_max).read_to_end(&mut tail)?;
    Ok(tail)
}
