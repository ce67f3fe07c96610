//! How fibres wait for the kernel: by an io_uring per processor, or by readiness (epoll).

pub(crate) mod poll;
pub(crate) mod rings;

use std::io;
use std::os::fd::AsFd;

use poll::Poller;
use rings::{OnReceived, Ring};

use crate::idle::Event;
use crate::scheduler::Scheduler;

/// The choice of an I/O backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// The backend for which the scheduler was designed: rings for the fair scheduler, if the
    /// kernel has them; readiness for the others.
    #[default]
    Auto,
    /// The given backend. If the kernel does not have it, the runtime does not start.
    Only(IoBackend),
}

/// The way fibres wait for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoBackend {
    /// An io_uring per processor.
    Rings,
    /// An edge-triggered epoll per processor.
    Readiness,
}

impl IoBackend {
    /// Checks that the kernel has the backend and lets this process use it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn probe(self) -> io::Result<()> {
        match self {
            Self::Rings => rings::probe(),
            Self::Readiness => Ok(()),
        }
    }

    /// The kernel's name of the backend.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rings => "io_uring",
            Self::Readiness => "epoll",
        }
    }
}

/// The configured backend, or the default for the scheduler.
pub(crate) fn choose(io_backend: IoChoice, scheduler: Scheduler) -> io::Result<IoBackend> {
    match (io_backend, scheduler) {
        (IoChoice::Only(IoBackend::Rings), _) => rings::probe().map(|()| IoBackend::Rings),
        (IoChoice::Only(IoBackend::Readiness), _) => Ok(IoBackend::Readiness),
        (IoChoice::Auto, Scheduler::Fair) => Ok(match rings::probe() {
            Ok(()) => IoBackend::Rings,
            Err(_) => IoBackend::Readiness,
        }),
        (IoChoice::Auto, Scheduler::Steal | Scheduler::Global) => Ok(IoBackend::Readiness),
    }
}

/// A processor's reactor. Only the processor's own thread calls it, except for `reap_for_other`.
pub(crate) enum Reactor {
    Rings(Box<Ring>),
    Readiness(Poller),
}

impl Reactor {
    /// Creates a reactor. `event` is the event that wakes the processor.
    pub(crate) fn new(kind: IoBackend, processors: usize, event: &Event) -> io::Result<Self> {
        let fd = event.as_fd();
        match kind {
            IoBackend::Rings => Ring::new(processors, fd).map(|ring| Self::Rings(Box::new(ring))),
            IoBackend::Readiness => Poller::new(fd).map(Self::Readiness),
        }
    }

    /// Submits requests and wakes the fibres whose wait is over. Returns their number. Rings pass
    /// the bytes received for these fibres to `on_received`.
    pub(crate) fn poll(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.poll(on_received),
            Self::Readiness(poller) => poller.poll(),
        }
    }

    /// As `poll`, but without a system call: submits nothing, and takes only completions that the
    /// kernel has posted.
    pub(crate) fn poll_completed(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.reap(on_received),
            Self::Readiness(_) => 0,
        }
    }

    /// As `poll_completed`, called by another thread because the processor is busy.
    pub(crate) fn reap_for_other(&self) -> usize {
        match self {
            Self::Rings(ring) => ring.reap_for_other(),
            Self::Readiness(_) => 0,
        }
    }

    /// Submits requests, and sleeps until an event or the timeout.
    pub(crate) fn sleep(&self, timeout_ns: Option<u64>) {
        match self {
            Self::Rings(ring) => ring.sleep(timeout_ns),
            Self::Readiness(poller) => poller.sleep(timeout_ns),
        }
    }

    /// Called after `sleep`: wakes the fibres whose wait is over. Returns their number.
    pub(crate) fn after_sleep(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.reap(on_received),
            Self::Readiness(poller) => poller.after_sleep(),
        }
    }
}
