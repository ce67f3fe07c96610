//! Threads that may wait for a disk, and the operations that wait for them.
//!
//! Operations begin in the order in which they were submitted, and at most [`READERS`] run at a
//! time. One whose connection has been closed is skipped.
//!
//! With some strategies each thread has an opener, which is a process, and passes operations to it.
//! If the opener has ended, the thread does them itself.

use std::any::Any;
use std::io;
use std::sync::Arc;

use service::Ticket;
use sys::file::Wait;
use sys::job_pool::{JobPool, PoolSizes};

use crate::counts::{FileCount, FileCounts};
use crate::disk::{Disk, Document};
use crate::limits::{QUEUE_MAX, READER_STACK_LEN, READERS};
use crate::strategy::{Delegation, StrategyKind};

/// The result of an operation, for the connection that needs it.
#[derive(Debug)]
pub enum Completion<F> {
    /// A file was opened.
    Opened {
        /// Its name.
        name: Vec<u8>,
        /// The file, or why it was not opened.
        outcome: io::Result<Arc<Document<F>>>,
    },
    /// Bytes were read: as many as were wanted, or fewer if the file ends before.
    Read(io::Result<Vec<u8>>),
    /// What an operation needs has been brought into memory, as far as possible. The worker has to
    /// do the operation.
    Touched,
    /// An item of the cache was read from slower memory. `None`: it is not there any more.
    Fetched(Option<Fetched>),
}

/// What was read of an item. Only the cache knows its type.
pub type Fetched = Box<dyn Any + Send>;

/// An operation that may wait for the disk.
#[derive(Debug)]
pub(crate) enum Operation<F> {
    Open {
        name: Vec<u8>,
        delegation: Delegation,
    },
    Read {
        document: Arc<Document<F>>,
        offset: u64,
        len: usize,
        delegation: Delegation,
    },
}

/// The openers of the threads: as many as there are threads, or none.
#[derive(Debug)]
pub struct Openers<H>(Vec<H>);

impl<H> Openers<H> {
    /// The openers.
    pub fn iter(&self) -> impl Iterator<Item = &H> {
        self.0.iter()
    }

    /// Starts the openers that a strategy needs. An opener is a copy of this process, so start them
    /// before the process uses much memory.
    ///
    /// # Errors
    /// The limit of processes or descriptors is reached.
    pub fn start<D: Disk<Opener = H>>(disk: &D, kind: StrategyKind) -> io::Result<Self> {
        let count = if kind.uses_openers() { READERS } else { 0 };
        let openers: io::Result<Vec<H>> = (0..count).map(|_| disk.start_opener()).collect();
        Ok(Self(openers?))
    }
}

/// An operation, with the ticket of the connection that needs it.
type Submitted<F> = (Operation<F>, Ticket<Completion<F>>);

/// The threads. Dropping this value ends each of them after the operation that it is in.
#[derive(Debug)]
pub(crate) struct ReaderPool<D: Disk> {
    shared: Arc<Shared<D>>,
    pool: JobPool<Submitted<D::File>>,
}

#[derive(Debug)]
struct Shared<D: Disk> {
    disk: Arc<D>,
    counts: Arc<FileCounts>,
}

impl<D: Disk> ReaderPool<D> {
    /// Starts the threads.
    ///
    /// # Errors
    /// The limit of threads is reached.
    pub(crate) fn start(
        disk: &Arc<D>,
        openers: Openers<D::Opener>,
        counts: &Arc<FileCounts>,
    ) -> io::Result<Self> {
        let shared = Shared::new(disk, counts);
        let sizes = PoolSizes {
            threads: READERS,
            stack_len: READER_STACK_LEN,
            waiting_max: QUEUE_MAX,
        };
        let mut openers = openers.0.into_iter();
        let reader = Arc::clone(&shared);
        let run = move |opener: &mut Option<D::Opener>, (operation, ticket): Submitted<D::File>| {
            if !ticket.is_cancelled() {
                ticket.complete(reader.perform(operation, opener));
            }
        };
        let pool = JobPool::start("file-reader", sizes, || openers.next(), run)?;
        Ok(Self { shared, pool })
    }

    /// A pool to which no operation is submitted.
    pub(crate) fn without_threads(disk: &Arc<D>, counts: &Arc<FileCounts>) -> Self {
        Self {
            shared: Shared::new(disk, counts),
            pool: JobPool::without_threads(QUEUE_MAX),
        }
    }

    /// Gives an operation to the threads, which complete the ticket. If there are too many
    /// operations, the ticket is dropped, so its connection gets `Abandoned`.
    pub(crate) fn submit(
        &self,
        operation: Operation<D::File>,
        ticket: Ticket<Completion<D::File>>,
    ) {
        if self.pool.submit((operation, ticket)).is_err() {
            self.shared.counts.count(FileCount::Refused);
        }
    }
}

impl<D: Disk> Shared<D> {
    fn new(disk: &Arc<D>, counts: &Arc<FileCounts>) -> Arc<Self> {
        Arc::new(Self {
            disk: Arc::clone(disk),
            counts: Arc::clone(counts),
        })
    }

    fn perform(
        &self,
        operation: Operation<D::File>,
        opener: &mut Option<D::Opener>,
    ) -> Completion<D::File> {
        match operation {
            Operation::Open { name, delegation } => {
                self.counts.count(FileCount::Opened);
                self.open(name, delegation, opener)
            }
            Operation::Read {
                document,
                offset,
                len,
                delegation: Delegation::Touch,
            } => {
                self.counts.count(FileCount::Read);
                let touched = self.by_opener(opener, |opener| {
                    self.disk.touch_by(opener, &document.file, offset, len)
                });
                if touched.is_none() {
                    // An error shows again when the worker reads.
                    let _ = self.read(&document, offset, len);
                }
                Completion::Touched
            }
            Operation::Read {
                document,
                offset,
                len,
                ..
            } => {
                self.counts.count(FileCount::Read);
                Completion::Read(self.read(&document, offset, len))
            }
        }
    }

    fn open(
        &self,
        name: Vec<u8>,
        delegation: Delegation,
        opener: &mut Option<D::Opener>,
    ) -> Completion<D::File> {
        let disk = &self.disk;
        let outcome = match delegation {
            Delegation::Touch => {
                let touched = self.by_opener(opener, |opener| disk.touch_name_by(opener, &name));
                if touched.is_none() {
                    // An error shows again when the worker opens the file.
                    let _ = disk.open(&name, Wait::Allowed);
                }
                return Completion::Touched;
            }
            Delegation::Opener => self.by_opener(opener, |opener| disk.open_by(opener, &name)),
            Delegation::Thread => None,
        };
        let outcome = outcome.unwrap_or_else(|| disk.open(&name, Wait::Allowed));
        Completion::Opened {
            name,
            outcome: outcome.map(Arc::new),
        }
    }

    /// Does an operation by the opener. `None` if it has ended; it then gets no further operations.
    fn by_opener<T>(
        &self,
        opener: &mut Option<D::Opener>,
        operation: impl FnOnce(&D::Opener) -> Option<T>,
    ) -> Option<T> {
        let outcome = operation(opener.as_ref()?);
        if outcome.is_none() {
            self.counts.count(FileCount::OpenersLost);
            *opener = None;
        }
        outcome
    }

    fn read(&self, document: &Document<D::File>, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            let (at, rest) = (offset + filled as u64, &mut bytes[filled..]);
            match self.disk.read(&document.file, at, rest, Wait::Allowed)? {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}
