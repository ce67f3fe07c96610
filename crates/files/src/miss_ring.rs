//! Reads that would block a worker, done by an io_uring: one thread submits them all, and the
//! kernel's threads wait for the disk.
//!
//! ```text
//! worker ──▶ queue ──▶ thread ──▶ io_uring: at most `reads_max` reads at a time
//!                        └── ticket ◀── completion
//! ```
//!
//! Reads begin in the order in which they were submitted. One whose connection has been closed
//! before is skipped. Names are still looked up by the threads of
//! [`reader_pool`](crate::reader_pool), and these read too once the io_uring has failed.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use service::Ticket;
use sys::file_ring::{FileRing, Owner, ReadEnd};
use sys::poll::Waker;

use crate::counts::{FileCount, FileCounts};
use crate::disk::{Disk, Document, OpenFile};
use crate::limits::{QUEUE_MAX, READER_STACK_LEN, RING_READS};
use crate::reader_pool::Completion;

/// A read that is to be done by the ring.
#[derive(Debug)]
pub(crate) struct RingRead<F> {
    pub(crate) document: Arc<Document<F>>,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) ticket: Ticket<Completion<F>>,
}

/// The ring of the thread: a ticket gets the bytes.
type Ring<F> = FileRing<OpenFile, Ticket<Completion<F>>>;

/// The io_uring. Dropping this value stops its thread and does not wait for it: the thread stays
/// until the kernel's threads have ended their reads, and a disk may never answer. The tickets are
/// dropped after some milliseconds.
#[derive(Debug)]
pub(crate) struct MissRing<D: Disk> {
    shared: Arc<Shared<D>>,
}

#[derive(Debug)]
struct Shared<D: Disk> {
    disk: Arc<D>,
    counts: Arc<FileCounts>,
    queue: Mutex<Queue<D::File>>,
    waker: Arc<Waker>,
}

#[derive(Debug)]
struct Queue<F> {
    reads: VecDeque<RingRead<F>>,
    /// No read is taken from the queue any more.
    is_stopped: bool,
}

impl<D: Disk> MissRing<D> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel has no io_uring or does not allow it; the limit of threads is reached.
    pub(crate) fn start(disk: &Arc<D>, counts: &Arc<FileCounts>) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        let shared = Arc::new(Shared {
            disk: Arc::clone(disk),
            counts: Arc::clone(counts),
            queue: Mutex::new(Queue {
                reads: VecDeque::new(),
                is_stopped: false,
            }),
            waker: Arc::clone(&waker),
        });
        let max = reads_max(disk.queue_len());
        let (sender, outcome) = mpsc::sync_channel(1);
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("file-ring".to_owned())
            .stack_size(READER_STACK_LEN)
            .spawn(move || match FileRing::new(max, waker) {
                Ok(ring) => {
                    let _ = sender.send(Ok(()));
                    of_thread.run(ring);
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                }
            })?;
        let ended = |_| Err(io::Error::other("the thread of the io_uring has ended"));
        outcome.recv().unwrap_or_else(ended)?;
        Ok(Self { shared })
    }

    /// Gives a read to the ring, which completes the ticket. If too many wait already, the ticket
    /// is dropped, so its connection gets `Abandoned`.
    ///
    /// # Errors
    /// The read, if the ring has ended.
    pub(crate) fn submit(&self, read: RingRead<D::File>) -> Result<(), RingRead<D::File>> {
        let mut queue = self.shared.lock();
        if queue.is_stopped {
            return Err(read);
        }
        if queue.reads.len() >= QUEUE_MAX {
            // Dropping the ticket takes the lock of a mailbox.
            drop(queue);
            drop(read);
            self.shared.counts.count(FileCount::Refused);
            return Ok(());
        }
        queue.reads.push_back(read);
        drop(queue);
        self.shared.waker.wake();
        Ok(())
    }
}

/// Maximum number of reads at a time, for a device that has `queue_len` requests at most. Half of
/// them are left to lookups of names and to the kernel's reading ahead, which use the same queue.
fn reads_max(queue_len: Option<u32>) -> u16 {
    let half = queue_len.map_or(u32::MAX, |len| len / 2);
    half.clamp(1, u32::from(RING_READS)) as u16
}

impl<D: Disk> Drop for MissRing<D> {
    fn drop(&mut self) {
        self.shared.stop();
        self.shared.waker.wake();
    }
}

/// Ends the queue when the thread ends, also by a panic.
struct End<'a, D: Disk>(&'a Shared<D>);

impl<D: Disk> Drop for End<'_, D> {
    fn drop(&mut self) {
        if !self.0.stop() {
            self.0.counts.count(FileCount::RingLost);
        }
    }
}

impl<D: Disk> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, Queue<D::File>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has no further read join the queue, and drops the tickets of those that wait. Returns
    /// whether it was stopped before.
    fn stop(&self) -> bool {
        let mut queue = self.lock();
        let was_stopped = std::mem::replace(&mut queue.is_stopped, true);
        let reads = std::mem::take(&mut queue.reads);
        drop(queue);
        // Dropping a ticket takes the lock of a mailbox.
        drop(reads);
        was_stopped
    }

    fn run(&self, mut ring: Ring<D::File>) {
        // It is dropped before the ring, which waits for its reads.
        let _end = End(self);
        ring.watch();
        while self.fill(&mut ring) {
            match ring.wait(complete) {
                Ok(true) => {
                    self.waker.clear();
                    ring.watch();
                }
                Ok(false) => {}
                Err(_) => break,
            }
        }
    }

    /// Starts reads of the queue as long as the ring has room. Returns false once it is stopped.
    fn fill(&self, ring: &mut Ring<D::File>) -> bool {
        loop {
            let mut queue = self.lock();
            if queue.is_stopped {
                return false;
            }
            if !ring.has_room() {
                return true;
            }
            let Some(read) = queue.reads.pop_front() else {
                return true;
            };
            drop(queue);
            if !read.ticket.is_cancelled() {
                self.start_read(ring, read);
            }
        }
    }

    fn start_read(&self, ring: &mut Ring<D::File>, read: RingRead<D::File>) {
        self.counts.count(FileCount::Read);
        let RingRead {
            document,
            offset,
            len,
            ticket,
        } = read;
        // Without room the ticket is dropped; `fill` has looked.
        let started = self.disk.start_read(ring, document, offset, len, ticket);
        debug_assert!(started.is_ok(), "the ring has room");
    }
}

/// Passes the bytes of a read to its connection.
fn complete<F>(end: ReadEnd<OpenFile, Ticket<Completion<F>>>) {
    let Owner { file, receiver } = end.owner;
    drop(file);
    receiver.complete(Completion::Read(end.outcome));
}

#[cfg(test)]
mod tests;
