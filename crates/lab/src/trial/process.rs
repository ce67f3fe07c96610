//! Child processes, whose exit is awaited together with the user's stop signals.
//!
//! The kernel kills a child when the *thread* that started it ends. The thread that calls
//! [`crate::run`] therefore starts all children of a run and reaps each before it returns. The
//! child registers its parent-death signal between fork and exec, and exits if its parent has ended
//! by then ([`sys::child::bind`]).

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
    /// The child has exited.
    Exited,
    /// The timeout has passed.
    TimedOut,
    /// The user requested a stop.
    StopRequested,
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

    /// Waits until the child exits, `timeout` passes or, given `stop_signals`, the user requests a
    /// stop.
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

    /// Sends SIGTERM to the child.
    pub(crate) fn terminate(&self) {
        // This fails only if the child has exited meanwhile. It is not reaped yet, so its id cannot
        // have been reused.
        let _ = sys::child::terminate(self.child.id());
    }

    /// Kills the rest of the child's process group and reaps the child.
    pub(crate) fn finish(&mut self) -> Result<ExitStatus, Error> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // Before reaping, because until then the id cannot be reused. This fails only if nothing
        // but the exited child is left in the group.
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
