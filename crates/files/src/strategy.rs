//! The strategies: what a worker does itself, and what it leaves to threads that may wait.

mod flash;
mod naive;
mod nowait;

use std::sync::Arc;
use std::{fmt, io};

use crate::disk::{Disk, Document};
use flash::Flash;
use naive::Naive;
use nowait::Nowait;

/// A kind of strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyKind {
    /// Names from the kernel's cache of names, residency by cachestat, reads that do not wait.
    Nowait,
    /// Remembered names, descriptors and mappings; residency by mincore. As in the server of this
    /// name: Pai, Druschel, Zwaenepoel, "Flash: An Efficient and Portable Web Server", USENIX ATC
    /// 1999.
    Flash,
    /// Everything in the worker, which blocks.
    Naive,
}

impl StrategyKind {
    /// All kinds, the default one first.
    pub const ALL: [Self; 3] = [Self::Nowait, Self::Flash, Self::Naive];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nowait => "nowait",
            Self::Flash => "flash",
            Self::Naive => "naive",
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

    /// Takes note of a file that was opened elsewhere.
    fn remember(&mut self, name: &[u8], document: &Arc<Document<D::File>>, now_ns: u64) {
        let _ = (name, document, now_ns);
    }
}

/// The strategy of a new worker. A call through the table is small beside the system call that
/// each operation makes.
pub(crate) fn new<D: Disk>(kind: StrategyKind) -> Box<dyn Strategy<D>> {
    match kind {
        StrategyKind::Nowait => Box::new(Nowait),
        StrategyKind::Flash => Box::new(Flash::<D>::new()),
        StrategyKind::Naive => Box::new(Naive),
    }
}
