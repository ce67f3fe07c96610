//! The files of a service: what its workers share, and what each has of its own.

use std::io;
use std::sync::Arc;

use service::Ticket;

use crate::disk::{Disk, Document};
use crate::reader_pool::{Completion, Operation, ReaderPool};
use crate::strategy::{self, Attempt, Strategy, StrategyKind};

/// The files below a root, with the threads that may wait for their disk. Workers share it.
#[derive(Debug)]
pub struct FileSet<D: Disk> {
    disk: Arc<D>,
    kind: StrategyKind,
    pool: ReaderPool<D>,
}

/// A worker's access to the files.
#[derive(Debug)]
pub struct FileWorker<D: Disk> {
    files: Arc<FileSet<D>>,
    strategy: Box<dyn Strategy<D>>,
}

impl<D: Disk> FileSet<D> {
    /// Starts the threads that may wait for `disk`.
    ///
    /// # Errors
    /// The limit of threads is reached.
    pub fn start(disk: D, kind: StrategyKind) -> io::Result<Arc<Self>> {
        let disk = Arc::new(disk);
        let pool = ReaderPool::start(&disk)?;
        Ok(Arc::new(Self { disk, kind, pool }))
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

    /// Opens a file by its name relative to the root, or says that this would block.
    pub fn open(&mut self, name: &[u8], now_ns: u64) -> Attempt<Arc<Document<D::File>>> {
        self.strategy.open(&self.files.disk, name, now_ns)
    }

    /// Reads at most `len` bytes from `offset` on and appends them to `out`, or says that this
    /// would block. Returns the number of bytes; 0 means that the file ends there.
    pub fn read(
        &mut self,
        document: &Document<D::File>,
        offset: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Attempt<usize> {
        let start = out.len();
        out.resize(start + len, 0);
        let buffer = &mut out[start..];
        let attempt = self
            .strategy
            .read(&self.files.disk, document, offset, buffer);
        let read = match attempt {
            Attempt::Done(Ok(read)) => read.min(len),
            _ => 0,
        };
        out.truncate(start + read);
        attempt
    }

    /// Opens a file on a thread that may wait, which completes the ticket with
    /// [`Completion::Opened`].
    pub fn open_elsewhere(&self, name: Vec<u8>, ticket: Ticket<Completion<D::File>>) {
        self.files.pool.submit(Operation::Open { name }, ticket);
    }

    /// Reads `len` bytes on a thread that may wait, which completes the ticket with
    /// [`Completion::Read`].
    pub fn read_elsewhere(
        &self,
        document: &Arc<Document<D::File>>,
        offset: u64,
        len: usize,
        ticket: Ticket<Completion<D::File>>,
    ) {
        let document = Arc::clone(document);
        let operation = Operation::Read {
            document,
            offset,
            len,
        };
        self.files.pool.submit(operation, ticket);
    }

    /// Takes note of a file that was opened elsewhere.
    pub fn remember(&mut self, name: &[u8], document: &Arc<Document<D::File>>, now_ns: u64) {
        self.strategy.remember(name, document, now_ns);
    }

    /// Forgets everything that a panic may have left inconsistent.
    pub fn reset(&mut self) {
        self.strategy = strategy::new(self.files.kind);
    }
}
