//! How fibres wait for input and output. There are two I/O backends: *rings* (an io_uring per
//! processor) and *readiness* (an epoll per processor).

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
    /// The backend for which the scheduler was designed: for the fair scheduler rings, or readiness
    /// if rings cannot be used here ([`IoBackend::probe`]); for the other schedulers readiness.
    #[default]
    Auto,
    /// The given backend. If it cannot be used here, the runtime does not start.
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
    /// Checks that the kernel offers the interface of this backend, and lets this process use it.
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

/// Returns the backend that `io_backend` and the scheduler determine. Fails if `io_backend` names a
/// backend that cannot be used.
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

/// The reactor of a processor: it passes the requests of fibres to the kernel, and wakes the fibres
/// whose wait is over. Only the processor's own thread calls the functions of this type, except for
/// `reap_for_other`.
pub(crate) enum Reactor {
    Rings(Box<Ring>),
    Readiness(Poller),
}

impl Reactor {
    /// Creates a reactor. Other threads set `event` in order to end a sleep of the processor.
    pub(crate) fn new(backend: IoBackend, processors: usize, event: &Event) -> io::Result<Self> {
        let fd = event.as_fd();
        match backend {
            IoBackend::Rings => Ring::new(processors, fd).map(|ring| Self::Rings(Box::new(ring))),
            IoBackend::Readiness => Poller::new(fd).map(Self::Readiness),
        }
    }

    /// Submits the queued requests to the kernel, and wakes the fibres whose wait is over. Returns
    /// the number of woken fibres. Rings pass the bytes that were received for these fibres to
    /// `on_received`; readiness does not call it.
    pub(crate) fn poll(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.poll(on_received),
            Self::Readiness(poller) => poller.poll(),
        }
    }

    /// Wakes the fibres whose wait is over, as far as this can be seen without a system call. With
    /// rings, these are the fibres whose completions the kernel has already posted; with readiness,
    /// there are none. Submits no requests. Returns the number of woken fibres.
    pub(crate) fn poll_completed(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.reap(on_received),
            Self::Readiness(_) => 0,
        }
    }

    /// As `poll_completed`, but called by the thread of another processor, because the processor of
    /// this reactor has not polled for a long time. (To *reap* completions is to take them from an
    /// io_uring.)
    pub(crate) fn reap_for_other(&self) -> usize {
        match self {
            Self::Rings(ring) => ring.reap_for_other(),
            Self::Readiness(_) => 0,
        }
    }

    /// Submits the queued requests, and sleeps until the wait of a fibre is over, until another
    /// thread sets the event of the processor, or until the timeout has passed.
    pub(crate) fn sleep(&self, timeout_ns: Option<u64>) {
        match self {
            Self::Rings(ring) => ring.sleep(timeout_ns),
            Self::Readiness(poller) => poller.sleep(timeout_ns),
        }
    }

    /// Called after `sleep`, which wakes no fibres itself. Wakes the fibres whose wait is over, as
    /// far as this can be seen without a system call. Returns their number.
    pub(crate) fn after_sleep(&self, on_received: OnReceived<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.reap(on_received),
            Self::Readiness(poller) => poller.handle_events(),
        }
    }
}
