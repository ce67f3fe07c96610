//! The strategies: what a worker does itself, and what it leaves to threads or openers that may
//! wait.

mod naive;
mod nowait;
mod remembering;

use std::sync::Arc;
use std::{fmt, io};

use crate::disk::{Disk, Document};
use naive::Naive;
use nowait::Nowait;
use remembering::Remembering;

/// A kind of strategy. Those from `Flash` to `Nowait` are the steps of Ruan and Pai,
/// "Understanding and Addressing Blocking-Induced Network Server Latency", USENIX ATC 2006.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyKind {
    /// Names from the kernel's cache of names, residency by cachestat, reads that do not wait.
    Nowait,
    /// Remembered names and descriptors, and mappings: residency by mincore. Openers bring names
    /// and bytes into memory; the worker then opens and reads. As in the server of this name: Pai,
    /// Druschel, Zwaenepoel, "Flash: An Efficient and Portable Web Server", USENIX ATC 1999.
    Flash,
    /// As `Flash`, but openers open files and pass descriptors.
    FdPass,
    /// As `FdPass`, but without mappings: residency is unknown, and the worker reads.
    NoMmap,
    /// Everything in the worker, which blocks.
    Naive,
}

/// What reads the bytes that a worker with [`StrategyKind::Nowait`] does not read itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misses {
    /// Threads of this process.
    Threads,
    /// An io_uring, whose threads are the kernel's.
    Uring,
}

impl Misses {
    /// All of them, the default one first.
    pub const ALL: [Self; 2] = [Self::Threads, Self::Uring];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Uring => "uring",
        }
    }
}

/// How an operation is done that a worker does not do itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delegation {
    /// By a thread, which passes the result.
    Thread,
    /// By an opener, which passes the result.
    Opener,
    /// By an opener, which only brings what is needed into memory. The worker then does the
    /// operation itself, and may wait.
    Touch,
}

impl StrategyKind {
    /// All kinds, the default one first.
    pub const ALL: [Self; 5] = [
        Self::Nowait,
        Self::Flash,
        Self::FdPass,
        Self::NoMmap,
        Self::Naive,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nowait => "nowait",
            Self::Flash => "flash",
            Self::FdPass => "fd-pass",
            Self::NoMmap => "no-mmap",
            Self::Naive => "naive",
        }
    }

    /// Whether workers remember names, with a descriptor for each.
    #[must_use]
    pub fn remembers_names(self) -> bool {
        matches!(self, Self::Flash | Self::FdPass | Self::NoMmap)
    }

    /// Whether operations are done by opener processes.
    #[must_use]
    pub fn uses_openers(self) -> bool {
        self.remembers_names()
    }

    /// How names are looked up that would block a worker.
    pub(crate) fn names(self) -> Delegation {
        match self {
            Self::Nowait | Self::Naive => Delegation::Thread,
            Self::FdPass | Self::NoMmap => Delegation::Opener,
            Self::Flash => Delegation::Touch,
        }
    }

    /// How bytes are read that would block a worker.
    pub(crate) fn bytes(self) -> Delegation {
        match self {
            Self::Nowait | Self::Naive | Self::NoMmap => Delegation::Thread,
            Self::Flash | Self::FdPass => Delegation::Touch,
        }
    }
}

/// The outcome of an operation that a worker tried itself.
#[derive(Debug)]
pub enum Attempt<T> {
    /// It is done: this is its result.
    Done(io::Result<T>),
    /// It would wait for the disk.
    WouldBlock,
}

impl<T> Attempt<T> {
    /// The outcome of an operation that was told not to wait.
    fn of(outcome: io::Result<T>) -> Self {
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Self::WouldBlock,
            outcome => Self::Done(outcome),
        }
    }
}

/// A strategy, with its state of one worker.
pub(crate) trait Strategy<D: Disk>: fmt::Debug + Send {
    /// Opens a file, or says that this would block.
    fn open(&mut self, disk: &D, name: &[u8], now_ns: u64) -> Attempt<Arc<Document<D::File>>>;

    /// Reads bytes from `offset` on, or says that this would block.
    fn read(
        &mut self,
        disk: &D,
        document: &Document<D::File>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Attempt<usize>;

    /// Takes note of the outcome of opening a file that would have blocked.
    fn remember(&mut self, name: &[u8], outcome: &io::Result<Arc<Document<D::File>>>, now_ns: u64) {
        let _ = (name, outcome, now_ns);
    }
}

/// The strategy of a new worker. A call through the table is small beside the system call that
/// each operation makes.
pub(crate) fn new<D: Disk>(kind: StrategyKind) -> Box<dyn Strategy<D>> {
    match kind {
        StrategyKind::Nowait => Box::new(Nowait),
        StrategyKind::Flash | StrategyKind::FdPass => Box::new(Remembering::<D>::new(true)),
        StrategyKind::NoMmap => Box::new(Remembering::<D>::new(false)),
        StrategyKind::Naive => Box::new(Naive),
    }
}
