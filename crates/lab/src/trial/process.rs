//! Children that are waited for together with the user's wish to stop.
//!
//! A child is killed by the kernel when the *thread* that started it ends. All children of a run
//! are therefore started by the thread that calls [`crate::run`], which outlives them: it reaps
//! each before it returns. Between fork and exec the child has already asked for that death, or
//! finds its parent gone and ends ([`sys::child::bind`]).

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use sys::child::Bounds;
use sys::poll::{Events, Interest, Poll};
use sys::signals::{Signal, Signals};

use crate::error::Error;

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitResult {
    /// The child has ended.
    Exited,
    /// The time is over.
    TimedOut,
    /// The user wants to stop.
    StopRequested,
}

/// The user's wish to stop, as an event to wait for.
#[derive(Debug)]
pub(crate) struct StopSignals {
    signals: Signals,
    stopped: Cell<bool>,
}

impl StopSignals {
    /// From now on SIGINT, SIGTERM and SIGHUP do not end this process but this run, provided no
    /// other thread takes them.
    pub(crate) fn new() -> Result<Self, Error> {
        let signals = Signals::block().map_err(Error::system("take over the signals"))?;
        Ok(Self {
            signals,
            stopped: Cell::new(false),
        })
    }

    /// Whether the user has asked to stop.
    pub(crate) fn stopped(&self) -> bool {
        while let Some(signal) = self.signals.take() {
            if matches!(signal, Signal::Stop | Signal::Reload) {
                self.stopped.set(true);
            }
        }
        self.stopped.get()
    }
}

/// A child that leads a session and dies with the laboratory.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    ended: OwnedFd,
    status: Option<ExitStatus>,
}

impl Process {
    pub(crate) fn start(
        command: &mut Command,
        cpus: &[usize],
        goes_first: bool,
    ) -> std::io::Result<Self> {
        let bounds = Bounds {
            cpus: cpus.to_vec(),
            dies_with_parent: true,
            own_session: true,
            goes_first,
        };
        sys::child::bind(command, &bounds)?;
        let mut child = command.spawn()?;
        match sys::child::ended(&child) {
            Ok(ended) => Ok(Self {
                child,
                ended,
                status: None,
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the child ends, `timeout` is over or, where there is a `stop_signals`, the user
    /// wants to stop.
    pub(crate) fn wait(
        &self,
        timeout: Duration,
        stop_signals: Option<&StopSignals>,
    ) -> Result<WaitResult, Error> {
        let attempt = || -> std::io::Result<WaitResult> {
            let poll = Poll::new()?;
            poll.add(&self.ended, 0, Interest::Read)?;
            if let Some(stop_signals) = stop_signals {
                poll.add(&stop_signals.signals, 1, Interest::Read)?;
            }
            let deadline = Instant::now() + timeout;
            let mut events = Events::with_capacity(2);
            loop {
                if stop_signals.is_some_and(StopSignals::stopped) {
                    return Ok(WaitResult::StopRequested);
                }
                let left = deadline.saturating_duration_since(Instant::now());
                let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
                poll.wait(&mut events, Some(left_ns))?;
                if events.iter().any(|ready| ready.token == 0) {
                    return Ok(WaitResult::Exited);
                }
                if left.is_zero() {
                    return Ok(WaitResult::TimedOut);
                }
            }
        };
        attempt().map_err(Error::system("wait for a child"))
    }

    /// Asks the child to end.
    pub(crate) fn terminate(&self) {
        // It fails only where the child has ended meanwhile: it is not reaped, so the number is
        // still its own.
        let _ = sys::child::terminate(self.child.id());
    }

    /// Kills what is left of the child's group and reaps the child.
    pub(crate) fn finish(&mut self) -> Result<ExitStatus, Error> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // Before reaping: until then the number cannot become another's. It fails only where
        // nothing but the child, ended already, is left.
        let _ = sys::child::kill_group(self.child.id());
        let status = self
            .child
            .wait()
            .map_err(Error::system("wait for a child"))?;
        self.status = Some(status);
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
