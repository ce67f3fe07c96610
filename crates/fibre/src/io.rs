//! How fibres wait for the kernel. There are two I/O backends: *rings* (an io_uring per processor)
//! and *readiness* (an epoll per processor).

pub(crate) mod poll;
pub(crate) mod rings;

use std::io;
use std::os::fd::AsFd;

use poll::Poller;
use rings::{OnReceived, Ring};

use crate::idle::Event;
use crate::scheduler::Scheduler;

/// The configured choice of an I/O backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// The backend for which the scheduler was designed. This is rings for the fair scheduler, if
    /// the kernel has them, and readiness for the other schedulers.
    #[default]
    Auto,
    /// The given backend. If the kernel does not have it, the runtime does not start.
    Only(IoBackend),
}

/// An I/O backend: the way in which fibres wait for sockets.
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

    /// The name of the kernel interface that the backend uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rings => "io_uring",
            Self::Readiness => "epoll",
        }
    }
}

/// Returns the configured backend, or the default for the scheduler. Fails if the configured
/// backend cannot be used.
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

/// The reactor of a processor: it passes requests to the kernel, and wakes the fibres whose wait is
/// over. Only the processor's own thread calls its functions, except for `reap_for_other`.
pub(crate) enum Reactor {
    Rings(Box<Ring>),
    Readiness(Poller),
}

impl Reactor {
    /// Creates a reactor. Other threads set `event` to wake the processor.
    pub(crate) fn new(kind: IoBackend, processors: usize, event: &Event) -> io::Result<Self> {
        let fd = event.as_fd();
        match kind {
            IoBackend::Rings => Ring::new(processors, fd).map(|ring| Self::Rings(Box::new(ring))),
            IoBackend::Readiness => Poller::new(fd).map(Self::Readiness),
        }
    }

    /// Submits requests and wakes the fibres whose wait is over. Returns the number of woken
    /// fibres. Rings pass the bytes received for these fibres to `on_received`.
    pub(crate) fn poll(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.poll(on_received),
            Self::Readiness(poller) => poller.poll(),
        }
    }

    /// Wakes the fibres whose wait is over, as far as this can be seen without a system call. With
    /// rings, these are the fibres whose completions the kernel has posted; with readiness, there
    /// are none. Submits nothing. Returns the number of woken fibres.
    pub(crate) fn poll_completed(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.reap(on_received),
            Self::Readiness(_) => 0,
        }
    }

    /// As `poll_completed`, but called by the thread of another processor, because the reactor's
    /// own processor has not polled for long.
    pub(crate) fn reap_for_other(&self) -> usize {
        match self {
            Self::Rings(ring) => ring.reap_for_other(),
            Self::Readiness(_) => 0,
        }
    }

    /// Submits requests, and sleeps until an event occurs or the timeout has passed.
    pub(crate) fn sleep(&self, timeout_ns: Option<u64>) {
        match self {
            Self::Rings(ring) => ring.sleep(timeout_ns),
            Self::Readiness(poller) => poller.sleep(timeout_ns),
        }
    }

    /// Wakes the fibres whose wait was over when `sleep` returned. Returns their number.
    pub(crate) fn after_sleep(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.reap(on_received),
            Self::Readiness(poller) => poller.after_sleep(),
        }
    }
}
