//! The files of a service: what its workers share, and what each has of its own.

use std::io;
use std::sync::Arc;

use http::ByteRange;
use service::{FileRange, Ticket};
use sys::file::Wait;

use crate::counts::FileCounts;
use crate::disk::{Disk, Document, ResidencyProbe};
use crate::limits::{FILE_RANGE_MAX, FILE_RANGE_MIN};
use crate::miss_ring::{MissRing, RingRead};
use crate::reader_pool::{Completion, Openers, Operation, ReaderPool};
use crate::strategy::{self, Attempt, Misses, Strategy, StrategyKind};

/// The files below a root, with the threads that may wait for their disk. Workers share it.
#[derive(Debug)]
pub struct FileSet<D: Disk> {
    disk: Arc<D>,
    kind: StrategyKind,
    counts: Arc<FileCounts>,
    pool: ReaderPool<D>,
    /// What reads in place of the threads.
    ring: Option<MissRing<D>>,
}

/// Why the files of a service were not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The limit of threads, processes or descriptors is reached.
    #[error("start the threads and processes that read files: {0}")]
    Readers(#[source] io::Error),
    /// The kernel has no io_uring or does not allow it, or the limit of threads is reached.
    #[error("start an io_uring for files: {0}")]
    Ring(#[source] io::Error),
    /// Only [`StrategyKind::Nowait`] reads by an io_uring.
    #[error("read files by an io_uring with the strategy {}: only nowait can", .0.name())]
    Misses(StrategyKind),
}

/// A worker's access to the files.
#[derive(Debug)]
pub struct FileWorker<D: Disk> {
    files: Arc<FileSet<D>>,
    strategy: Box<dyn Strategy<D>>,
}

impl<D: Disk> FileSet<D> {
    /// Starts the threads that may wait for `disk`, and the openers that the strategy needs.
    ///
    /// # Errors
    /// See [`start_with`](Self::start_with).
    pub fn start(disk: D, kind: StrategyKind, misses: Misses) -> Result<Arc<Self>, StartError> {
        let openers = Openers::start(&disk, kind).map_err(StartError::Readers)?;
        Self::start_with(disk, kind, misses, openers)
    }

    /// Starts the threads that may wait for `disk`, with openers that run already, and an io_uring
    /// if that reads what would block a worker.
    ///
    /// # Errors
    /// An io_uring with a strategy other than [`StrategyKind::Nowait`]; the system's error.
    pub fn start_with(
        disk: D,
        kind: StrategyKind,
        misses: Misses,
        openers: Openers<D::Opener>,
    ) -> Result<Arc<Self>, StartError> {
        if misses == Misses::Uring && kind != StrategyKind::Nowait {
            return Err(StartError::Misses(kind));
        }
        let (disk, counts) = (Arc::new(disk), Arc::default());
        let pool = ReaderPool::start(&disk, openers, &counts).map_err(StartError::Readers)?;
        let ring = match misses {
            Misses::Threads => None,
            Misses::Uring => Some(MissRing::start(&disk, &counts).map_err(StartError::Ring)?),
        };
        Ok(Arc::new(Self {
            disk,
            kind,
            counts,
            pool,
            ring,
        }))
    }

    /// The files for workers that do everything themselves ([`StrategyKind::Naive`]). There are no
    /// threads.
    #[must_use]
    pub fn blocking(disk: D) -> Arc<Self> {
        let (disk, counts) = (Arc::new(disk), Arc::default());
        let pool = ReaderPool::without_threads(&disk, &counts);
        Arc::new(Self {
            disk,
            kind: StrategyKind::Naive,
            counts,
            pool,
            ring: None,
        })
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> &FileCounts {
        &self.counts
    }
}

impl<D: Disk> FileWorker<D> {
    /// The access of a new worker.
    #[must_use]
    pub fn new(files: &Arc<FileSet<D>>) -> Self {
        Self {
            files: Arc::clone(files),
            strategy: strategy::new(files.kind),
        }
    }

    /// The counts of the files.
    pub(crate) fn counts(&self) -> &FileCounts {
        self.files.counts()
    }

    /// Opens a file by its name relative to the root, or says that this would block.
    pub fn open(&mut self, name: &[u8], now_ns: u64) -> Attempt<Arc<Document<D::File>>> {
        self.strategy.open(&self.files.disk, name, now_ns)
    }

    /// Opens a file after [`Completion::Touched`], and may wait.
    ///
    /// # Errors
    /// See [`Disk::open`].
    pub fn open_touched(&self, name: &[u8]) -> io::Result<Arc<Document<D::File>>> {
        self.files.disk.open(name, Wait::Allowed).map(Arc::new)
    }

    /// Reads at most `len` bytes from `offset` on and appends them to `out`, or says that this
    /// would block. Returns the number of bytes; 0 means that the file ends there. If the bytes
    /// have been touched ([`Completion::Touched`]), it reads them in any case, and may wait.
    pub fn read(
        &mut self,
        document: &Document<D::File>,
        offset: u64,
        len: usize,
        is_touched: bool,
        out: &mut Vec<u8>,
    ) -> Attempt<usize> {
        let start = out.len();
        out.resize(start + len, 0);
        let (disk, buffer) = (&self.files.disk, &mut out[start..]);
        let attempt = match is_touched {
            true => Attempt::Done(disk.read(&document.file, offset, buffer, Wait::Allowed)),
            false => self.strategy.read(disk, document, offset, buffer),
        };
        let read = match attempt {
            Attempt::Done(Ok(read)) => read.min(len),
            _ => 0,
        };
        out.truncate(start + read);
        attempt
    }

    /// A part of a document from the start of `rest` on that a runtime can send from the page
    /// cache, because all of it is there. `None`: the bytes have to be read. Only with
    /// [`StrategyKind::Nowait`], whose look at the page cache is by descriptor.
    pub fn resident_part(
        &self,
        document: &Arc<Document<D::File>>,
        rest: ByteRange,
    ) -> Option<FileRange> {
        let len = (rest.end - rest.start).min(FILE_RANGE_MAX);
        if len < FILE_RANGE_MIN || self.files.kind != StrategyKind::Nowait {
            return None;
        }
        let descriptor = D::descriptor(document)?;
        let len = usize::try_from(len).ok()?;
        let (disk, probe) = (&self.files.disk, ResidencyProbe::PageCache);
        let is_resident = disk.is_resident(&document.file, rest.start, len, probe);
        matches!(is_resident, Ok(true)).then(|| FileRange::new(descriptor, rest.start, len))
    }

    /// Opens a file, or brings its name into memory, on a thread that may wait. It completes the
    /// ticket with [`Completion::Opened`] or [`Completion::Touched`].
    pub fn open_elsewhere(&self, name: Vec<u8>, ticket: Ticket<Completion<D::File>>) {
        let delegation = self.files.kind.names();
        let operation = Operation::Open { name, delegation };
        self.files.pool.submit(operation, ticket);
    }

    /// Reads `len` bytes, or brings them into memory, where it may wait. That completes the ticket
    /// with [`Completion::Read`] or [`Completion::Touched`].
    pub fn read_elsewhere(
        &self,
        document: &Arc<Document<D::File>>,
        offset: u64,
        len: usize,
        ticket: Ticket<Completion<D::File>>,
    ) {
        let read = RingRead {
            document: Arc::clone(document),
            offset,
            len,
            ticket,
        };
        let read = match &self.files.ring {
            None => read,
            Some(ring) => match ring.submit(read) {
                Ok(()) => return,
                Err(read) => read,
            },
        };
        let operation = Operation::Read {
            document: read.document,
            offset,
            len,
            delegation: self.files.kind.bytes(),
        };
        self.files.pool.submit(operation, read.ticket);
    }

    /// Takes note of the outcome of opening a file that would have blocked.
    pub fn remember(
        &mut self,
        name: &[u8],
        outcome: &io::Result<Arc<Document<D::File>>>,
        now_ns: u64,
    ) {
        self.strategy.remember(name, outcome, now_ns);
    }

    /// Forgets everything that a panic may have left inconsistent.
    pub fn reset(&mut self) {
        self.strategy = strategy::new(self.files.kind);
    }
}
