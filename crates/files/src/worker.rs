//! The files of a service: what its workers share, and what each has of its own.

use std::io;
use std::sync::Arc;

use service::Ticket;
use sys::file::Wait;

use crate::counts::{FileCount, FileCounts};
use crate::disk::{Disk, Document};
use crate::miss_ring::MissRing;
use crate::reader_pool::{Completion, Openers, Operation, ReaderPool};
use crate::strategy::{self, Attempt, Strategy, StrategyKind};

/// The files below a root, with the threads that may wait for their disk. Workers share it.
#[derive(Debug)]
pub struct FileSet<D: Disk> {
    disk: Arc<D>,
    kind: StrategyKind,
    pool: ReaderPool<D>,
    /// What reads in place of the threads.
    ring: Option<MissRing<D>>,
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
    /// The limit of threads or processes is reached.
    pub fn start(disk: D, kind: StrategyKind) -> io::Result<Arc<Self>> {
        let openers = Openers::start(&disk, kind)?;
        Self::start_with(disk, kind, openers)
    }

    /// Starts the threads that may wait for `disk`, with openers that run already.
    ///
    /// # Errors
    /// The limit of threads is reached.
    pub fn start_with(
        disk: D,
        kind: StrategyKind,
        openers: Openers<D::Opener>,
    ) -> io::Result<Arc<Self>> {
        let disk = Arc::new(disk);
        let pool = ReaderPool::start(&disk, openers)?;
        let ring = None;
        let files = Self {
            disk,
            kind,
            pool,
            ring,
        };
        Ok(Arc::new(files))
    }

    /// Starts an io_uring for the reads that would block, and threads that look names up. The
    /// strategy is [`StrategyKind::Nowait`].
    ///
    /// # Errors
    /// The kernel has no io_uring or does not allow it; the limit of threads is reached.
    pub fn start_ring(disk: D) -> io::Result<Arc<Self>> {
        let disk = Arc::new(disk);
        let kind = StrategyKind::Nowait;
        let openers = Openers::start(&*disk, kind)?;
        let pool = ReaderPool::start(&disk, openers)?;
        let ring = Some(MissRing::start(&disk)?);
        let files = Self {
            disk,
            kind,
            pool,
            ring,
        };
        Ok(Arc::new(files))
    }

    /// The files for workers that do everything themselves ([`StrategyKind::Naive`]). There are no
    /// threads.
    #[must_use]
    pub fn blocking(disk: D) -> Arc<Self> {
        let disk = Arc::new(disk);
        let pool = ReaderPool::without_threads(&disk);
        Arc::new(Self {
            disk,
            kind: StrategyKind::Naive,
            pool,
            ring: None,
        })
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> &FileCounts {
        self.pool.counts()
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
        let document = Arc::clone(document);
        if let Some(ring) = &self.files.ring {
            let is_accepted = ring.submit(document, offset, len, ticket);
            self.files.counts().count(match is_accepted {
                true => FileCount::Read,
                false => FileCount::Refused,
            });
            return;
        }
        let operation = Operation::Read {
            document,
            offset,
            len,
            delegation: self.files.kind.bytes(),
        };
        self.files.pool.submit(operation, ticket);
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
