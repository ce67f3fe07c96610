//! How fibres wait for the kernel: by a ring of completions for each processor, or by readiness.

pub(crate) mod poll;
pub(crate) mod rings;

use std::io;
use std::os::fd::AsFd;

use poll::Poller;
use rings::{Came, Ring};

use crate::idle::Event;
use crate::scheduler::Scheduler;

/// How fibres are to wait for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// As the scheduler's own author did: the fair one by rings, where the kernel has them, the
    /// others by readiness.
    #[default]
    Auto,
    /// So, or not at all.
    Only(IoBackend),
}

/// How fibres wait for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoBackend {
    /// An io_uring a processor.
    Rings,
    /// An epoll a processor, edge-triggered.
    Readiness,
}

impl IoBackend {
    /// Whether this machine has it, and lets this process use it.
    ///
    /// # Errors
    /// What is missing.
    pub fn probe(self) -> io::Result<()> {
        match self {
            Self::Rings => rings::probe(),
            Self::Readiness => Ok(()),
        }
    }

    /// What the kernel calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rings => "io_uring",
            Self::Readiness => "epoll",
        }
    }
}

/// What is asked for, or the best there is.
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

/// A processor's dealings with the kernel. What is not said to be for anybody is for the
/// processor's own thread.
pub(crate) enum Reactor {
    Rings(Box<Ring>),
    Readiness(Poller),
}

impl Reactor {
    /// `event`: what is set to call the processor.
    pub(crate) fn new(kind: IoBackend, processors: usize, event: &Event) -> io::Result<Self> {
        let fd = event.as_fd();
        match kind {
            IoBackend::Rings => Ring::new(processors, fd).map(|ring| Self::Rings(Box::new(ring))),
            IoBackend::Readiness => Poller::new(fd).map(Self::Readiness),
        }
    }

    /// Hands over what was asked for, and rouses those whose wait is over: how many. `came`: shown
    /// what has come for them, where that can be seen here.
    pub(crate) fn poll(&self, came: Came<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.poll(came),
            Self::Readiness(poller) => poller.poll(),
        }
    }

    /// The same, as far as it can be seen without a system call.
    pub(crate) fn poll_completed(&self, came: Came<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.reap(came),
            Self::Readiness(_) => 0,
        }
    }

    /// Anybody: the same, for a processor that has no time.
    pub(crate) fn help(&self) -> usize {
        match self {
            Self::Rings(ring) => ring.help(),
            Self::Readiness(_) => 0,
        }
    }

    /// Hands over, and sleeps until something has happened, or so long.
    pub(crate) fn sleep(&self, timeout_ns: Option<u64>) {
        match self {
            Self::Rings(ring) => ring.sleep(timeout_ns),
            Self::Readiness(poller) => poller.sleep(timeout_ns),
        }
    }

    /// After sleep: rouses those whose wait is over: how many.
    pub(crate) fn after_sleep(&self, came: Came<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.reap(came),
            Self::Readiness(poller) => poller.after_sleep(),
        }
    }
}
