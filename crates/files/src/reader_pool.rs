//! Threads that may wait for a disk, and the operations that wait for them.
//!
//! Operations begin in the order in which they were submitted, and at most [`READERS`] run at a
//! time. One whose connection has been closed is skipped.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use service::Ticket;
use sys::file::Wait;

use crate::disk::{Disk, Document};
use crate::limits::{QUEUE_MAX, READER_STACK_LEN, READERS};

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
}

/// An operation that may wait for the disk.
#[derive(Debug)]
pub(crate) enum Operation<F> {
    Open {
        name: Vec<u8>,
    },
    Read {
        document: Arc<Document<F>>,
        offset: u64,
        len: usize,
    },
}

/// An operation, with the ticket of the connection that needs it.
type Submitted<F> = (Operation<F>, Ticket<Completion<F>>);

/// The threads. Dropping this value ends each of them after the operation that it is in. It does
/// not wait for them, because a disk may never answer.
#[derive(Debug)]
pub(crate) struct ReaderPool<D: Disk> {
    shared: Arc<Shared<D>>,
}

#[derive(Debug)]
struct Shared<D: Disk> {
    disk: Arc<D>,
    queue: Mutex<Queue<D::File>>,
    has_changed: Condvar,
}

#[derive(Debug)]
struct Queue<F> {
    operations: VecDeque<Submitted<F>>,
    is_stopped: bool,
}

impl<D: Disk> ReaderPool<D> {
    /// Starts the threads.
    ///
    /// # Errors
    /// The limit of threads is reached.
    pub(crate) fn start(disk: &Arc<D>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            disk: Arc::clone(disk),
            queue: Mutex::new(Queue {
                operations: VecDeque::new(),
                is_stopped: false,
            }),
            has_changed: Condvar::new(),
        });
        let pool = Self { shared };
        for _ in 0..READERS {
            let shared = Arc::clone(&pool.shared);
            let thread = thread::Builder::new().name("file-reader".to_owned());
            thread
                .stack_size(READER_STACK_LEN)
                .spawn(move || shared.run())?;
        }
        Ok(pool)
    }

    /// Gives an operation to the threads, which complete the ticket. If there are too many
    /// operations, the ticket is dropped, so its connection gets `Abandoned`.
    pub(crate) fn submit(
        &self,
        operation: Operation<D::File>,
        ticket: Ticket<Completion<D::File>>,
    ) {
        let mut queue = self.shared.lock();
        if queue.operations.len() >= QUEUE_MAX {
            // Dropping the ticket takes the lock of a mailbox.
            drop(queue);
            drop(ticket);
            return;
        }
        queue.operations.push_back((operation, ticket));
        drop(queue);
        self.shared.has_changed.notify_one();
    }
}

impl<D: Disk> Drop for ReaderPool<D> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.is_stopped = true;
        let operations = std::mem::take(&mut queue.operations);
        drop(queue);
        drop(operations);
        self.shared.has_changed.notify_all();
    }
}

impl<D: Disk> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, Queue<D::File>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some((operation, ticket)) = self.next() {
            if ticket.is_cancelled() {
                continue;
            }
            // A panic costs one operation: its ticket is dropped.
            let outcome = catch_unwind(AssertUnwindSafe(|| self.perform(operation)));
            if let Ok(completion) = outcome {
                ticket.complete(completion);
            }
        }
    }

    /// Waits for the next operation. `None` once the pool is stopped.
    fn next(&self) -> Option<Submitted<D::File>> {
        let mut queue = self.lock();
        loop {
            if queue.is_stopped {
                return None;
            }
            if let Some(next) = queue.operations.pop_front() {
                return Some(next);
            }
            queue = self
                .has_changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn perform(&self, operation: Operation<D::File>) -> Completion<D::File> {
        match operation {
            Operation::Open { name } => {
                let outcome = self.disk.open(&name, Wait::Allowed).map(Arc::new);
                Completion::Opened { name, outcome }
            }
            Operation::Read {
                document,
                offset,
                len,
            } => Completion::Read(self.read(&document, offset, len)),
        }
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
