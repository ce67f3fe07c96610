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
//! [`reader_pool`](crate::reader_pool).

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use service::Ticket;
use sys::file_ring::{FileRing, ReadEnd};
use sys::poll::Waker;

use crate::disk::{Disk, Document};
use crate::limits::{QUEUE_MAX, READER_STACK_LEN, RING_READS};
use crate::reader_pool::Completion;

/// A read that waits for its turn.
#[derive(Debug)]
struct Submitted<F> {
    document: Arc<Document<F>>,
    offset: u64,
    len: usize,
    ticket: Ticket<Completion<F>>,
}

/// What keeps the file of a read open, and who gets the bytes.
type Owner<F> = (Arc<Document<F>>, Ticket<Completion<F>>);

/// The io_uring. Dropping this value ends its thread, which waits for reads in the kernel only for
/// some milliseconds, because a disk may never answer.
#[derive(Debug)]
pub(crate) struct MissRing<D: Disk> {
    shared: Arc<Shared<D>>,
}

#[derive(Debug)]
struct Shared<D: Disk> {
    disk: Arc<D>,
    queue: Mutex<Queue<D::File>>,
    waker: Waker,
}

#[derive(Debug)]
struct Queue<F> {
    reads: VecDeque<Submitted<F>>,
    is_stopped: bool,
}

impl<D: Disk> MissRing<D> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The kernel has no io_uring or does not allow it; the limit of threads is reached.
    pub(crate) fn start(disk: &Arc<D>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            disk: Arc::clone(disk),
            queue: Mutex::new(Queue {
                reads: VecDeque::new(),
                is_stopped: false,
            }),
            waker: Waker::new()?,
        });
        let max = reads_max(disk.queue_len());
        let (sender, outcome) = mpsc::sync_channel(1);
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("file-ring".to_owned())
            .stack_size(READER_STACK_LEN)
            .spawn(move || match FileRing::new(max) {
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

    /// Gives a read to the ring, which completes the ticket. Returns false if too many wait
    /// already: the ticket is dropped, so its connection gets `Abandoned`.
    #[must_use]
    pub(crate) fn submit(
        &self,
        document: Arc<Document<D::File>>,
        offset: u64,
        len: usize,
        ticket: Ticket<Completion<D::File>>,
    ) -> bool {
        let mut queue = self.shared.lock();
        if queue.reads.len() >= QUEUE_MAX || queue.is_stopped {
            // Dropping the ticket takes the lock of a mailbox.
            drop(queue);
            drop(ticket);
            return false;
        }
        queue.reads.push_back(Submitted {
            document,
            offset,
            len,
            ticket,
        });
        drop(queue);
        self.shared.waker.wake();
        true
    }
}

/// Maximum number of reads at a time, for a device that has `queue_len` requests at most: less than
/// that, so that reads never wait for a place in the queue of the device.
fn reads_max(queue_len: Option<u32>) -> u16 {
    let half = queue_len.map_or(u32::MAX, |len| len / 2);
    half.clamp(1, u32::from(RING_READS)) as u16
}

impl<D: Disk> Drop for MissRing<D> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.is_stopped = true;
        let reads = std::mem::take(&mut queue.reads);
        drop(queue);
        drop(reads);
        self.shared.waker.wake();
    }
}

impl<D: Disk> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, Queue<D::File>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut ring: FileRing<Owner<D::File>>) {
        ring.watch(&self.waker);
        while self.fill(&mut ring) {
            match ring.wait(complete) {
                Ok(true) => {
                    self.waker.clear();
                    ring.watch(&self.waker);
                }
                Ok(false) => {}
                Err(_) => break,
            }
        }
        // The tickets of reads that wait are dropped, outside of the lock.
        let mut queue = self.lock();
        queue.is_stopped = true;
        let reads = std::mem::take(&mut queue.reads);
        drop(queue);
        drop(reads);
    }

    /// Starts reads of the queue as long as the ring has room. Returns false once it is stopped.
    fn fill(&self, ring: &mut FileRing<Owner<D::File>>) -> bool {
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

    fn start_read(&self, ring: &mut FileRing<Owner<D::File>>, read: Submitted<D::File>) {
        let document = Arc::clone(&read.document);
        let owner = (read.document, read.ticket);
        let (offset, len) = (read.offset, read.len);
        // Without room the ticket is dropped; `fill` has looked.
        let started = self
            .disk
            .start_read(ring, &document.file, offset, len, owner);
        debug_assert!(started.is_ok(), "the ring has room");
    }
}

/// Passes the bytes of a read to its connection.
fn complete<F>(end: ReadEnd<Owner<F>>) {
    let (document, ticket) = end.owner;
    drop(document);
    ticket.complete(Completion::Read(end.outcome));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_leaves_room_in_the_queue_of_the_device() {
        for (queue_len, expected) in [
            (None, RING_READS),
            (Some(1), 1),
            (Some(2), 1),
            (Some(10), 5),
            (Some(1023), RING_READS),
        ] {
            assert_eq!(reads_max(queue_len), expected, "{queue_len:?}");
        }
    }
}
