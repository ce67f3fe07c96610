//! How fibres wait for the kernel: by a ring of completions for each processor, or by readiness.

pub(crate) mod poll;
pub(crate) mod rings;

use std::io;
use std::os::fd::AsFd;

use poll::Poller;
use rings::{Came, Ring};

use crate::rest::Event;
use crate::scheduler::Scheduler;

/// How fibres are to wait for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wire {
    /// As the scheduler's own author did: the fair one by rings, where the kernel has them, the
    /// others by readiness.
    #[default]
    Auto,
    /// So, or not at all.
    Only(Kind),
}

/// How fibres wait for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An io_uring a processor.
    Rings,
    /// An epoll a processor, edge-triggered.
    Readiness,
}

impl Kind {
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
pub(crate) fn choose(wire: Wire, scheduler: Scheduler) -> io::Result<Kind> {
    match (wire, scheduler) {
        (Wire::Only(Kind::Rings), _) => rings::probe().map(|()| Kind::Rings),
        (Wire::Only(Kind::Readiness), _) => Ok(Kind::Readiness),
        (Wire::Auto, Scheduler::Fair) => Ok(match rings::probe() {
            Ok(()) => Kind::Rings,
            Err(_) => Kind::Readiness,
        }),
        (Wire::Auto, Scheduler::Steal | Scheduler::Global) => Ok(Kind::Readiness),
    }
}

/// A processor's dealings with the kernel. What is not said to be for anybody is for the
/// processor's own thread.
pub(crate) enum Port {
    Rings(Box<Ring>),
    Readiness(Poller),
}

impl Port {
    /// `event`: what is set to call the processor.
    pub(crate) fn new(kind: Kind, processors: usize, event: &Event) -> io::Result<Self> {
        let fd = event.as_fd();
        match kind {
            Kind::Rings => Ring::new(processors, fd).map(|ring| Self::Rings(Box::new(ring))),
            Kind::Readiness => Poller::new(fd).map(Self::Readiness),
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
    pub(crate) fn glance(&self, came: Came<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.drain(came),
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
    pub(crate) fn sleep(&self, patience_ns: Option<u64>) {
        match self {
            Self::Rings(ring) => ring.sleep(patience_ns),
            Self::Readiness(poller) => poller.sleep(patience_ns),
        }
    }

    /// After sleep: rouses those whose wait is over: how many.
    pub(crate) fn woke(&self, came: Came<'_>) -> usize {
        match self {
            Self::Rings(ring) => ring.drain(came),
            Self::Readiness(poller) => poller.woke(),
        }
    }
}
