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
    /// The backend that the scheduler's authors used: rings for the fair scheduler, if the kernel
    /// has them; readiness for the others.
    #[default]
    Auto,
    /// This backend; starting fails without it.
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

/// A processor's reactor. Only the processor's own thread calls it, except `help`.
pub(crate) enum Reactor {
    Rings(Box<Ring>),
    Readiness(Poller),
}

impl Reactor {
    /// `event`: the event that wakes the processor.
    pub(crate) fn new(kind: IoBackend, processors: usize, event: &Event) -> io::Result<Self> {
        let fd = event.as_fd();
        match kind {
            IoBackend::Rings => Ring::new(processors, fd).map(|ring| Self::Rings(Box::new(ring))),
            IoBackend::Readiness => Poller::new(fd).map(Self::Readiness),
        }
    }

    /// Submits requests and wakes the fibres whose wait is over. Returns their number. `on_received` is
    /// shown the bytes received for them, where they are visible here (rings).
    pub(crate) fn poll(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.poll(on_received),
            Self::Readiness(poller) => poller.poll(),
        }
    }

    /// As `poll`, as far as completions can be seen without a system call.
    pub(crate) fn poll_completed(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.reap(on_received),
            Self::Readiness(_) => 0,
        }
    }

    /// As `poll_completed`, on behalf of a processor that is busy. Callable from any thread.
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
