//! Reads of files by an io_uring. A thread of the kernel does each read and may wait for the disk;
//! the thread that submits them waits for all of them at once.
//!
//! The reads have the flag `IOSQE_ASYNC`. Without it the kernel first tries to read in the system
//! call that submits, and starts to read ahead there, which was seen to wait for a busy disk.
//!
//! Invariants:
//! - The ring owns the memory of its reads until the kernel has ended them. A ring that is dropped
//!   leaks the memory of those that do not end in time, and their open files: a disk may never
//!   answer. It drops their receivers.
//! - A file may be closed early without harm to memory, but the rest of its bytes may then be those
//!   of another file. So a read has an owner, which contains the open file and comes back with the
//!   result.
//! - A ring is used only by the thread that created it: the kernel's threads belong to that one.

use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::thread;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use crate::fork::OfOneProcess;
use crate::poll::Waker;
use crate::ring::cancel_all;
use crate::shortage::{BACK_OFF, is_serious, is_shortage};

/// User data of the watch of the waker. Reads have their index.
const WAKER: u64 = u64::MAX;
/// Maximum number of waits of a ring that is dropped, for its reads to end.
const DRAIN_WAITS_MAX: u32 = 20;
/// Duration of each of these waits, in nanoseconds.
const DRAIN_WAIT_NS: u64 = 1_000_000;

/// The owner of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<F, T> {
    /// The open file.
    pub file: F,
    /// What the bytes are passed to. The ring only holds it.
    pub receiver: T,
}

/// A read in progress.
#[derive(Debug)]
struct Read<F, T> {
    owner: Owner<F, T>,
    fd: RawFd,
    offset: u64,
    bytes: Vec<u8>,
    /// The number of bytes that have been read. A read may take several operations.
    filled: usize,
}

/// A read that has ended.
#[derive(Debug)]
pub struct ReadEnd<F, T> {
    /// The owner that was passed to [`FileRing::read`].
    pub owner: Owner<F, T>,
    /// The bytes: as many as were wanted, or fewer if the file ends before.
    pub outcome: io::Result<Vec<u8>>,
}

/// An io_uring that reads files.
pub struct FileRing<F, T> {
    uring: IoUring,
    /// The reads in progress, with an entry for each that there may be. The kernel writes to their
    /// bytes, so `drop` frees them only after all have ended.
    reads: ManuallyDrop<Vec<Option<Read<F, T>>>>,
    /// The indices of `reads` that are `None`.
    free_numbers: Vec<u32>,
    /// What ends a wait. Kept here, so that it is open when the kernel gets its descriptor.
    waker: Arc<Waker>,
    _of_one_process: OfOneProcess,
}

impl<F, T> std::fmt::Debug for FileRing<F, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileRing")
            .field("in_progress", &self.in_progress())
            .finish_non_exhaustive()
    }
}

/// Creates a ring, to learn whether that is possible.
///
/// # Errors
/// The kernel has no io_uring, or does not allow this process to use it.
pub fn probe() -> io::Result<()> {
    let waker = Arc::new(Waker::new()?);
    FileRing::<(), ()>::new(1, waker).map(drop)
}

impl<F, T> FileRing<F, T> {
    /// Creates a ring for the calling thread, for at most `max` reads at a time. The kernel starts
    /// as many threads when they are needed. `waker` ends a wait that is [watched](Self::watch).
    ///
    /// # Errors
    /// The kernel has no io_uring, or does not allow this process to use it.
    pub fn new(max: u16, waker: Arc<Waker>) -> io::Result<Self> {
        // One more entry watches the waker.
        let entries = u32::from(max) + 1;
        let mut builder = IoUring::builder();
        // In a file opener, which is forked while rings exist, the mapping would keep the ring
        // open.
        builder.dontfork();
        let uring = builder.build(entries.next_power_of_two())?;
        // Linux 5.15. By default there are four for each processor.
        let mut workers = [u32::from(max), u32::from(max)];
        let _ = uring.submitter().register_iowq_max_workers(&mut workers);
        Ok(Self {
            uring,
            reads: ManuallyDrop::new((0..max).map(|_| None).collect()),
            free_numbers: (0..u32::from(max)).rev().collect(),
            waker,
            _of_one_process: OfOneProcess::new(),
        })
    }

    /// The number of reads in progress.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.reads.len() - self.free_numbers.len()
    }

    /// Whether another read may be started.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free_numbers.is_empty()
    }

    /// Starts to read `len` bytes of the owner's file from `offset` on, submitted by the next
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// The owner, if there is no room for another read.
    pub fn read(&mut self, offset: u64, len: usize, owner: Owner<F, T>) -> Result<(), Owner<F, T>>
    where
        F: AsFd,
    {
        let Some(number) = self.free_numbers.pop() else {
            return Err(owner);
        };
        let read = Read {
            fd: owner.file.as_fd().as_raw_fd(),
            owner,
            offset,
            bytes: vec![0; len],
            filled: 0,
        };
        self.submit_read(number, read);
        Ok(())
    }

    /// Makes [`wait`](Self::wait) return when the waker is signalled. Call it again after each wait
    /// that returned true.
    pub fn watch(&mut self) {
        let fd = Fd(self.waker.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
        self.push(&entry.user_data(WAKER));
    }

    /// Submits the reads, waits until one has ended or the waker is signalled, and passes those
    /// that have ended to `ended`. Returns whether the watch of the waker has ended. It returns
    /// earlier if a signal comes or the kernel has no memory: call it again.
    ///
    /// # Errors
    /// The kernel reports an error. This does not happen in a correct program.
    pub fn wait(&mut self, mut ended: impl FnMut(ReadEnd<F, T>)) -> io::Result<bool> {
        let waited = self.uring.submit_and_wait(1);
        self.after(waited, &mut ended)
    }

    /// Continues after a wait of this outcome.
    fn after(
        &mut self,
        waited: io::Result<usize>,
        ended: &mut impl FnMut(ReadEnd<F, T>),
    ) -> io::Result<bool> {
        if let Err(error) = waited {
            if is_serious(&error) {
                return Err(error);
            }
            // It did not wait. What has not been submitted is submitted by the next call.
            if is_shortage(&error) && self.uring.completion().is_empty() {
                thread::sleep(BACK_OFF);
            }
        }
        Ok(self.take_ended(ended))
    }

    /// Passes the reads that have ended to `ended`, and continues those that are incomplete.
    /// Returns whether the watch of the waker has ended.
    fn take_ended(&mut self, ended: &mut impl FnMut(ReadEnd<F, T>)) -> bool {
        let mut is_woken = false;
        loop {
            // The borrow of the queue ends before a read is continued.
            let Some(completion) = self.uring.completion().next() else {
                return is_woken;
            };
            if completion.user_data() == WAKER {
                is_woken = true;
                continue;
            }
            let number = completion.user_data() as u32;
            let slot = self.reads.get_mut(number as usize);
            let Some(mut read) = slot.and_then(Option::take) else {
                continue;
            };
            let outcome = match completion.result() {
                code if code == -libc::EINTR => {
                    self.submit_read(number, read);
                    continue;
                }
                code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
                len => {
                    read.filled += len as usize;
                    if len > 0 && read.filled < read.bytes.len() {
                        self.submit_read(number, read);
                        continue;
                    }
                    read.bytes.truncate(read.filled);
                    Ok(read.bytes)
                }
            };
            self.free_numbers.push(number);
            ended(ReadEnd {
                owner: read.owner,
                outcome,
            });
        }
    }

    /// Queues an operation for the bytes that have not been read, and stores the read at `number`.
    fn submit_read(&mut self, number: u32, mut read: Read<F, T>) {
        let rest = &mut read.bytes[read.filled..];
        let len = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(Fd(read.fd), rest.as_mut_ptr(), len)
            .offset(read.offset + read.filled as u64)
            .build()
            .flags(Flags::ASYNC)
            .user_data(u64::from(number));
        // Moving `read` does not move the bytes, which are on the heap. The pointer in the entry
        // stays valid.
        self.reads[number as usize] = Some(read);
        self.push(&entry);
    }

    /// Puts an operation into the submission queue. There is room, because each read and the watch
    /// have at most one operation, and the queue has an entry for each of them.
    fn push(&mut self, entry: &Entry) {
        // SAFETY: the memory that the entry points to is that of a read in `reads`. It is freed
        // only after the operation has ended: by `take_ended`, or by `drop`.
        let pushed = unsafe { self.uring.submission().push(entry) };
        debug_assert!(pushed.is_ok(), "more operations than reads");
    }
}

/// Drops the receivers of reads that have not ended. Their memory and their files are leaked: the
/// kernel may still use them.
fn abandon<F, T>(reads: Vec<Option<Read<F, T>>>) {
    let receivers = reads.into_iter().flatten().map(|read| {
        mem::forget((read.bytes, read.owner.file));
        read.owner.receiver
    });
    // A receiver that panics when it is dropped must not have the memory of another read freed.
    drop(receivers.collect::<Vec<T>>());
}

impl<F, T> Drop for FileRing<F, T> {
    fn drop(&mut self) {
        cancel_all(&self.uring);
        for _ in 0..DRAIN_WAITS_MAX {
            while let Some(completion) = self.uring.completion().next() {
                // One that is incomplete is not continued.
                let number = completion.user_data() as usize;
                if let Some(read) = self.reads.get_mut(number).and_then(Option::take) {
                    drop(read);
                    self.free_numbers.push(number as u32);
                }
            }
            if self.in_progress() == 0 {
                break;
            }
            let time = Timespec::new().nsec(DRAIN_WAIT_NS as u32);
            let arguments = SubmitArgs::new().timespec(&time);
            let waited = self.uring.submitter().submit_with_args(1, &arguments);
            match waited {
                Err(error) if is_serious(&error) => break,
                Err(error) if is_shortage(&error) => {
                    thread::sleep(BACK_OFF);
                }
                _ => {}
            }
        }
        abandon(mem::take(&mut *self.reads));
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::BorrowedFd;
    use std::rc::Rc;

    use io_uring::types::CancelBuilder;
    use rustix::pipe::pipe;

    use super::*;

    /// Whether the kernel allows the tests. If not, they are skipped.
    fn is_possible() -> bool {
        let probed = probe();
        if let Err(error) = &probed {
            eprintln!("skipped: io_uring: {error}");
        }
        probed.is_ok()
    }

    /// A ring whose waker is not used.
    fn ring<F, T>(max: u16) -> FileRing<F, T> {
        FileRing::new(max, Arc::new(Waker::new().unwrap())).unwrap()
    }

    fn owner<T>(file: &impl AsFd, receiver: T) -> Owner<BorrowedFd<'_>, T> {
        let file = file.as_fd();
        Owner { file, receiver }
    }

    /// Waits for the next read that ends.
    fn next<F, T>(ring: &mut FileRing<F, T>) -> ReadEnd<F, T> {
        let mut found = Vec::new();
        while found.is_empty() {
            ring.wait(|end| found.push(end)).unwrap();
        }
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    #[test]
    fn reads_return_the_bytes_of_their_offsets_up_to_the_end_of_the_file() {
        if !is_possible() {
            return;
        }
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        file.write_all(&content).unwrap();
        let folder = File::open("/").unwrap();
        let mut ring = ring(4);
        for (offset, len) in [
            (0, 1),
            (7, 100_000),
            (199_999, 10),
            (200_000, 5),
            (300_000, 5),
        ] {
            ring.read(offset, len, owner(&file, offset)).unwrap();
            let end = next(&mut ring);
            assert_eq!(end.owner.receiver, offset);
            let expected = content.iter().skip(offset as usize).take(len).copied();
            assert_eq!(end.outcome.unwrap(), expected.collect::<Vec<u8>>());
        }
        ring.read(0, 1, owner(&folder, 9)).unwrap();
        let error = next(&mut ring).outcome.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }

    /// A pipe takes the place of a file whose disk does not answer.
    #[test]
    fn a_read_that_waits_delays_no_other_and_the_bound_holds() {
        if !is_possible() {
            return;
        }
        let (source, target) = pipe().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        let mut ring = ring(2);
        ring.read(0, 3, owner(&source, "slow")).unwrap();
        for _ in 0..100 {
            assert!(ring.has_room());
            ring.read(0, 7, owner(&file, "fast")).unwrap();
            assert!(!ring.has_room());
            let refused = ring.read(0, 7, owner(&file, "refused")).unwrap_err();
            assert_eq!(refused.receiver, "refused");
            let end = next(&mut ring);
            assert_eq!(
                (end.owner.receiver, end.outcome.unwrap()),
                ("fast", b"content".to_vec())
            );
        }
        rustix::io::write(&target, b"abc").unwrap();
        let end = next(&mut ring);
        assert_eq!(
            (end.owner.receiver, end.outcome.unwrap()),
            ("slow", b"abc".to_vec())
        );
        assert_eq!(ring.in_progress(), 0);
    }

    #[test]
    fn the_waker_ends_a_wait_while_a_read_waits() {
        if !is_possible() {
            return;
        }
        let (source, _target) = pipe().unwrap();
        let waker = Arc::new(Waker::new().unwrap());
        let mut ring = FileRing::new(2, Arc::clone(&waker)).unwrap();
        for _ in 0..3 {
            ring.watch();
            if ring.has_room() {
                ring.read(0, 3, owner(&source, ())).unwrap();
            }
            waker.wake();
            while !ring.wait(|_| panic!("no read can end")).unwrap() {}
            waker.clear();
        }
    }

    /// The kernel reports it before it has submitted anything.
    #[test]
    fn a_ring_for_which_the_kernel_has_no_memory_continues_later() {
        if !is_possible() {
            return;
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        let mut ring = ring(1);
        ring.read(0, 7, owner(&file, "read")).unwrap();
        for code in [libc::EAGAIN, libc::ENOMEM, libc::EBUSY, libc::EINTR] {
            let error = io::Error::from_raw_os_error(code);
            let mut none = |_| panic!("nothing was submitted");
            assert!(!ring.after(Err(error), &mut none).unwrap(), "{code}");
        }
        assert_eq!(next(&mut ring).outcome.unwrap(), b"content");
        let error = io::Error::from_raw_os_error(libc::EBADF);
        assert!(ring.after(Err(error), &mut |_| {}).is_err());
    }

    #[test]
    fn a_read_that_does_not_end_loses_its_receiver_and_keeps_its_file() {
        let (file, receiver) = (Rc::new(()), Rc::new(()));
        let read = || Read {
            owner: Owner {
                file: Rc::clone(&file),
                receiver: Rc::clone(&receiver),
            },
            fd: -1,
            offset: 0,
            bytes: Vec::new(),
            filled: 0,
        };
        abandon(vec![Some(read()), None, Some(read())]);
        assert_eq!(Rc::strong_count(&receiver), 1);
        assert_eq!(Rc::strong_count(&file), 3);
    }

    #[test]
    fn a_ring_is_dropped_while_reads_wait() {
        if !is_possible() {
            return;
        }
        let (source, _target) = pipe().unwrap();
        let file = Rc::new(source);
        let waker = Arc::new(Waker::new().unwrap());
        let mut ring = FileRing::new(3, Arc::clone(&waker)).unwrap();
        let everything = CancelBuilder::any();
        let cancelled = ring
            .uring
            .submitter()
            .register_sync_cancel(None, everything);
        if cancelled.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
            eprintln!("skipped: before Linux 6.0 no read is cancelled");
            return;
        }
        for _ in 0..3 {
            let file = Rc::clone(&file);
            let owner = Owner { file, receiver: () };
            ring.read(0, 3, owner).unwrap();
        }
        ring.watch();
        waker.wake();
        ring.wait(|_| panic!("no read can end")).unwrap();
        drop(ring);
        // A read of a pipe can be cancelled, so nothing was leaked.
        assert_eq!(Rc::strong_count(&file), 1);
    }
}
