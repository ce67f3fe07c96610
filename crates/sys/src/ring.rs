//! One io_uring, by which a thread receives, sends and waits for many sockets.
//!
//! ```text
//! receive, send, watch ──► submission queue ─┐
//!                                            ├ wait: one system call for all of them
//! Event ◄── completion queue ◄───────────────┘
//! ```
//!
//! [`Ring::receive`] and [`Ring::watch_readable`] are *multishot* operations: submitted once, they
//! post an event each time, until an event says that the operation has ended. Received bytes are in
//! [`ReceiveBuffers`], a pool from which the kernel selects a buffer when bytes arrive. So a
//! connection that is silent occupies no buffer. Bytes to send are moved into the ring, and the
//! event for the end of the send returns their memory.
//!
//! Invariants:
//! - The ring owns all memory that the kernel may still read or write. A ring that is dropped
//!   cancels its operations and waits until they have ended. It leaks the memory of operations that
//!   do not end in time.
//! - A ring is used only by the thread that created it.
//! - A socket is closed only after the last event of its operations, or after the ring was dropped.
//!   Otherwise the descriptor may be reused and bytes be sent to the wrong peer. The caller of
//!   [`Ring::new`] promises this.

mod features;
mod receive_buffers;

use std::collections::VecDeque;
use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;
use std::thread;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

pub use features::Features;
use receive_buffers::{GROUP, Pool};
pub use receive_buffers::{ReceiveBuffers, ReceivedBytes};

use crate::fork::OfOneProcess;
use crate::shortage::{BACK_OFF, is_serious, is_shortage};
use crate::socket::Stream;

/// Maximum number of waits of a ring that is dropped, for its operations in the kernel to end.
const DRAIN_WAITS_MAX: u32 = 200;
/// Duration of each of these waits, in nanoseconds.
const DRAIN_WAIT_NS: u64 = 1_000_000;

/// The sizes of a ring.
#[derive(Debug, Clone, Copy)]
pub struct RingConfig {
    /// The number of entries of the submission queue. The completion queue has twice as many;
    /// further completions are kept in kernel memory.
    pub entries: u32,
    /// The number of receive buffers: a power of two, at most 32 768.
    pub buffers: u16,
    /// The length of each receive buffer, in bytes.
    pub buffer_len: u32,
}

/// A result of an operation. The token in an event is the one passed when the operation was
/// started.
#[derive(Debug)]
pub enum Event {
    /// Bytes were received.
    Received {
        /// The token of the receive.
        token: u32,
        /// The bytes. They occupy part of a receive buffer until they are given back
        /// ([`ReceiveBuffers::give_back`]).
        bytes: ReceivedBytes,
        /// The receive continues (multishot) and will post another event.
        stays_active: bool,
    },
    /// A receive has ended and returned no bytes.
    ReceiveEnded {
        /// The token of the receive.
        token: u32,
        /// The reason.
        how: ReceiveEnd,
    },
    /// A send has ended.
    Sent {
        /// The token of the send.
        token: u32,
        /// The bytes passed to [`Ring::send`]; the caller may reuse their memory.
        bytes: Vec<u8>,
        /// `Ok` if all bytes were sent. Otherwise the connection is lost.
        result: io::Result<()>,
    },
    /// The end of [`Ring::watch_hang_up`]: the peer has hung up or has shut down its sending side,
    /// or an error is pending.
    HungUp {
        /// The token of the watch.
        token: u32,
    },
    /// A watched descriptor is readable ([`Ring::watch_readable`]) or writable
    /// ([`Ring::watch_writable`]).
    Ready {
        /// The token of the watch.
        token: u32,
        /// The watch continues (multishot) and will post another event.
        stays_active: bool,
    },
}

/// The reason why a receive has ended.
#[derive(Debug)]
pub enum ReceiveEnd {
    /// The end of the stream: the peer has shut down its sending side.
    Closed,
    /// The kernel found no free receive buffer. The caller restarts the receive after it has given
    /// buffers back.
    NoBuffer,
    /// The receive was cancelled by [`Ring::stop_receiving`].
    Stopped,
    /// The connection is lost.
    Lost(io::Error),
}

/// A kind of operation.
///
/// Each operation is submitted with 64 bits of user data, which the kernel returns with its
/// completions. The highest byte is the kind. The lowest four bytes are the token, or for a send
/// the index in [`Ring::sends`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Operation {
    Receive = 1,
    Send,
    WatchReadable,
    WatchWritable,
    WatchHangUp,
    CancelReceive,
}

impl Operation {
    /// Returns the user data of an operation of this kind, with this token or index.
    fn user_data(self, number: u32) -> u64 {
        u64::from(self as u8) << 56 | u64::from(number)
    }

    /// Returns the kind of operation in the user data. `None` if the data names none.
    fn of_user_data(user_data: u64) -> Option<Self> {
        let operations = [
            Self::Receive,
            Self::Send,
            Self::WatchReadable,
            Self::WatchWritable,
            Self::WatchHangUp,
            Self::CancelReceive,
        ];
        operations
            .into_iter()
            .find(|it| *it as u64 == user_data >> 56)
    }
}

/// The state of a send in progress.
#[derive(Debug)]
struct SendState {
    token: u32,
    fd: RawFd,
    bytes: Vec<u8>,
    /// The number of bytes that have been sent. A send may take several operations.
    sent: usize,
}

/// One io_uring, with the memory of its operations.
pub struct Ring {
    uring: IoUring,
    pool: Rc<Pool>,
    /// The sends in progress. The kernel reads their bytes, so `drop` frees them only after all
    /// operations have ended.
    sends: ManuallyDrop<Vec<Option<SendState>>>,
    /// The indices of `sends` that are `None`.
    free_numbers: Vec<u32>,
    /// Operations for which the submission queue had no space, the oldest first.
    backlog: VecDeque<Entry>,
    /// The number of operations for which another completion will come, those in `backlog`
    /// included.
    in_flight: usize,
    /// The ring is being dropped. A send that is incomplete is not continued.
    is_dropping: bool,
    _of_one_process: OfOneProcess,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Creates a ring for the calling thread, and its receive buffers.
    ///
    /// # Errors
    /// The kernel has no io_uring, lacks a feature that this module needs (Linux 6.0 has all), or
    /// does not allow this process to use io_uring.
    ///
    /// # Safety
    /// A descriptor that is passed to an operation of the ring stays open until the last event of
    /// the operation, or until the ring was dropped.
    pub unsafe fn new(config: RingConfig) -> io::Result<(Self, ReceiveBuffers)> {
        let build = |is_deferred: bool| {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(2 * config.entries).setup_submit_all();
            // Linux 5.19: a flag in the submission queue says that completions are pending, which
            // the kernel posts only in a system call.
            builder.setup_taskrun_flag();
            // In a file opener, which is forked while rings exist, the mapping would keep the ring
            // open.
            builder.dontfork();
            if is_deferred {
                // Linux 6.1: the kernel processes completions only when this thread waits, and does
                // not interrupt it otherwise.
                builder.setup_single_issuer().setup_defer_taskrun();
            } else {
                builder.setup_coop_taskrun();
            }
            builder.build(config.entries)
        };
        let uring = match build(true) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => build(false)?,
            built => built?,
        };
        let pool = Rc::new(Pool::new(config.buffers, config.buffer_len)?);
        pool.register(&uring)?;
        let ring = Self {
            uring,
            pool: Rc::clone(&pool),
            sends: ManuallyDrop::default(),
            free_numbers: Vec::new(),
            backlog: VecDeque::new(),
            in_flight: 0,
            is_dropping: false,
            _of_one_process: OfOneProcess::new(),
        };
        Ok((ring, ReceiveBuffers::new(pool)))
    }

    /// Checks whether this machine supports a ring: creates one and receives by it. Returns the
    /// optional features of the kernel.
    ///
    /// # Errors
    /// The feature that is missing.
    pub fn probe() -> io::Result<Features> {
        let config = RingConfig {
            entries: 8,
            buffers: 2,
            buffer_len: 64,
        };
        let (source, target) = Stream::pair()?;
        // SAFETY: the sockets are declared first, so they are dropped after the ring.
        let (mut ring, receive_buffers) = unsafe { Self::new(config) }?;
        ring.receive(&source, 0);
        ring.send(&target, 1, b"probe".to_vec());
        let mut has_received = false;
        for _ in 0..DRAIN_WAITS_MAX {
            ring.wait(Some(DRAIN_WAIT_NS))?;
            while let Some(event) = ring.next_event() {
                match event {
                    Event::Received {
                        bytes,
                        stays_active,
                        ..
                    } => {
                        has_received |= stays_active;
                        receive_buffers.give_back(bytes);
                    }
                    Event::ReceiveEnded {
                        how: ReceiveEnd::Lost(error),
                        ..
                    } => return Err(error),
                    _ => {}
                }
            }
            if has_received {
                return Ok(Features::of(&ring.uring, &ring.pool));
            }
        }
        let what = "io_uring has no multishot receive (Linux 6.0 is needed)";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    /// Starts a multishot receive from a socket. Each event has at most one buffer of bytes. The
    /// receive ends with [`Event::ReceiveEnded`] or with an event that does not stay active.
    pub fn receive(&mut self, source: impl AsFd, token: u32) {
        let fd = Fd(source.as_fd().as_raw_fd());
        let entry = opcode::RecvMulti::new(fd, GROUP).build();
        self.push(entry.user_data(Operation::Receive.user_data(token)));
    }

    /// Starts a single receive from a socket, of at most one buffer of bytes.
    pub fn receive_once(&mut self, source: impl AsFd, token: u32) {
        let fd = Fd(source.as_fd().as_raw_fd());
        let anywhere = std::ptr::null_mut();
        let entry = opcode::Recv::new(fd, anywhere, 0).buf_group(GROUP).build();
        let entry = entry.flags(Flags::BUFFER_SELECT);
        self.push(entry.user_data(Operation::Receive.user_data(token)));
    }

    /// Cancels the receive with this token. Its last event follows.
    pub fn stop_receiving(&mut self, token: u32) {
        let entry = opcode::AsyncCancel::new(Operation::Receive.user_data(token)).build();
        self.push(entry.user_data(Operation::CancelReceive.user_data(token)));
    }

    /// Starts to send all of `bytes` to a socket. The caller must wait for [`Event::Sent`] before
    /// it starts another send to the same socket, because the kernel may reorder two sends.
    pub fn send(&mut self, target: impl AsFd, token: u32, bytes: Vec<u8>) {
        let send = SendState {
            token,
            fd: target.as_fd().as_raw_fd(),
            bytes,
            sent: 0,
        };
        let number = match self.free_numbers.pop() {
            Some(number) => number,
            None => {
                self.sends.push(None);
                self.sends.len() as u32 - 1
            }
        };
        self.submit_send(number, send);
    }

    /// Queues an operation that sends the bytes of `send` that have not been sent, and stores
    /// `send` at index `number`.
    fn submit_send(&mut self, number: u32, send: SendState) {
        let rest = &send.bytes[send.sent..];
        let len = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let entry = opcode::Send::new(Fd(send.fd), rest.as_ptr(), len).flags(flags);
        // Moving `send` does not move the bytes, which are on the heap. The pointer in the entry
        // stays valid.
        self.sends[number as usize] = Some(send);
        self.push(entry.build().user_data(Operation::Send.user_data(number)));
    }

    /// Starts to watch a descriptor. Posts [`Event::Ready`] each time that it becomes readable.
    pub fn watch_readable(&mut self, source: impl AsFd, token: u32) {
        let fd = Fd(source.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true);
        self.push(
            entry
                .build()
                .user_data(Operation::WatchReadable.user_data(token)),
        );
    }

    /// Starts to watch a socket. Posts [`Event::Ready`] once, when the socket is writable.
    pub fn watch_writable(&mut self, target: impl AsFd, token: u32) {
        let fd = Fd(target.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLOUT as u32);
        self.push(
            entry
                .build()
                .user_data(Operation::WatchWritable.user_data(token)),
        );
    }

    /// Starts to watch a socket. Posts [`Event::HungUp`] once, when the peer has hung up or has
    /// shut down its sending side. Received bytes and space to send post no event.
    pub fn watch_hang_up(&mut self, target: impl AsFd, token: u32) {
        let fd = Fd(target.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, 0);
        self.push(
            entry
                .build()
                .user_data(Operation::WatchHangUp.user_data(token)),
        );
    }

    /// Queues an operation, to be submitted by the next [`wait`](Self::wait).
    fn push(&mut self, entry: Entry) {
        self.in_flight += 1;
        self.backlog.push_back(entry);
        self.fill_queue();
    }

    /// Moves operations from `backlog` to the submission queue, as many as it has space for.
    fn fill_queue(&mut self) {
        let mut queue = self.uring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the memory that the entry points to stays valid until the operation has
            // ended. Bytes to send are in `sends`, and receive buffers in `pool`. `drop` frees
            // either only after the last operation has ended.
            if unsafe { queue.push(entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Submits all queued operations, then waits until an event is available or `timeout_ns` has
    /// passed. `None` means that there is no timeout. With a timeout of 0, or if an event is
    /// available already, it does not wait. It returns earlier if the kernel has no memory.
    ///
    /// # Errors
    /// The kernel reports an error. This does not happen in a correct program.
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<()> {
        loop {
            // If the backlog is not empty, the submission queue is full. Submit the queue without
            // waiting, refill it and repeat. Only the last round may wait.
            let is_last = self.backlog.is_empty();
            let has_event = !self.uring.completion().is_empty();
            let timeout_ns = match is_last && !has_event {
                true => timeout_ns,
                false => Some(0),
            };
            let entered = match timeout_ns {
                None => self.uring.submit_and_wait(1),
                // Do not pass a timeout of 0 to the kernel, which would set a timer for it.
                // `submit` does not wait. Skip even that if it would do nothing.
                Some(0) if self.needs_no_system_call() => Ok(0),
                Some(0) => self.uring.submit(),
                Some(ns) => {
                    let time = Timespec::new()
                        .sec(ns / 1_000_000_000)
                        .nsec((ns % 1_000_000_000) as u32);
                    let arguments = SubmitArgs::new().timespec(&time);
                    self.uring.submitter().submit_with_args(1, &arguments)
                }
            };
            if let Err(error) = entered {
                if is_serious(&error) {
                    return Err(error);
                }
                // What has not been submitted is submitted by the next call.
                if is_shortage(&error) {
                    if !has_event {
                        thread::sleep(BACK_OFF);
                    }
                    return Ok(());
                }
                if error.raw_os_error() == Some(libc::EBUSY) {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
            self.fill_queue();
        }
    }

    /// Returns whether a system call would have no effect now: there is nothing to submit, no
    /// completions are pending (`taskrun`), and none are kept in kernel memory because the
    /// completion queue was full (`cq_overflow`).
    fn needs_no_system_call(&mut self) -> bool {
        let queue = self.uring.submission();
        queue.is_empty() && !queue.taskrun() && !queue.cq_overflow()
    }

    /// Returns the next event, or `None` if there is none. Does not wait.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let completion = self.uring.completion().next()?;
            let (result, flags) = (completion.result(), completion.flags());
            let stays_active = cqueue::more(flags);
            if !stays_active {
                self.in_flight -= 1;
            }
            let number = completion.user_data() as u32;
            let result = match u32::try_from(result) {
                Ok(result) => Ok(result),
                Err(_) => Err(io::Error::from_raw_os_error(-result)),
            };
            match Operation::of_user_data(completion.user_data())? {
                Operation::Receive => return Some(self.received(number, result, flags)),
                Operation::Send => {
                    if let Some(event) = self.sent(number, result) {
                        return Some(event);
                    }
                }
                Operation::WatchReadable | Operation::WatchWritable => {
                    let token = number;
                    return Some(Event::Ready {
                        token,
                        stays_active,
                    });
                }
                Operation::WatchHangUp => return Some(Event::HungUp { token: number }),
                Operation::CancelReceive => {}
            }
        }
    }

    /// Converts the completion of a receive to an event.
    fn received(&self, token: u32, result: io::Result<u32>, flags: u32) -> Event {
        let ended = |how| Event::ReceiveEnded { token, how };
        match (result, cqueue::buffer_select(flags)) {
            (Ok(len), Some(buffer)) if len > 0 => Event::Received {
                token,
                bytes: self.pool.record_received(buffer, len, flags),
                stays_active: cqueue::more(flags),
            },
            // The kernel selected a buffer but received nothing: the end of the stream.
            (Ok(_), Some(buffer)) => {
                self.pool
                    .give_back(&self.pool.record_received(buffer, 0, flags));
                ended(ReceiveEnd::Closed)
            }
            (Ok(_), None) => ended(ReceiveEnd::Closed),
            (Err(error), buffer) => {
                if let Some(buffer) = buffer {
                    self.pool
                        .give_back(&self.pool.record_received(buffer, 0, flags));
                }
                ended(match error.raw_os_error() {
                    Some(libc::ENOBUFS) => ReceiveEnd::NoBuffer,
                    Some(libc::ECANCELED) => ReceiveEnd::Stopped,
                    _ => ReceiveEnd::Lost(error),
                })
            }
        }
    }

    /// Handles the completion of a send. Returns the event if the send has ended. Returns `None` if
    /// only some of the bytes were sent, and submits the rest.
    fn sent(&mut self, number: u32, result: io::Result<u32>) -> Option<Event> {
        let mut send = self.sends.get_mut(number as usize)?.take()?;
        let result = match result {
            Ok(len) => {
                send.sent += len as usize;
                let is_whole = send.sent == send.bytes.len();
                if len > 0 && !is_whole && !self.is_dropping {
                    self.submit_send(number, send);
                    return None;
                }
                match is_whole {
                    true => Ok(()),
                    false => Err(io::ErrorKind::WriteZero.into()),
                }
            }
            Err(error) => Err(error),
        };
        self.free_numbers.push(number);
        let SendState { token, bytes, .. } = send;
        Some(Event::Sent {
            token,
            bytes,
            result,
        })
    }
}

/// Cancels the operations of a ring, as far as the kernel can. Those that it cannot still have to
/// be waited for.
pub(crate) fn cancel_all(uring: &IoUring) {
    // Operations in the submission queue can be cancelled only after they were submitted.
    let _ = uring.submit();
    let everything = CancelBuilder::any();
    let _ = uring.submitter().register_sync_cancel(None, everything);
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.is_dropping = true;
        // The kernel may read and write the memory of an operation until its last completion. So
        // the memory must not be freed if this function returns early or panics. (It may panic: a
        // worker that panicked may have left the ring in an inconsistent state.) `sends` and this
        // clone of `pool` are `ManuallyDrop`. They are leaked unless they are dropped explicitly
        // below.
        let pool = ManuallyDrop::new(Rc::clone(&self.pool));
        // No completions come for operations that were never moved to the submission queue.
        self.in_flight = self.in_flight.wrapping_sub(self.backlog.len());
        self.backlog.clear();
        cancel_all(&self.uring);
        for _ in 0..DRAIN_WAITS_MAX {
            while let Some(event) = self.next_event() {
                drop(event);
            }
            if self.in_flight == 0 {
                drop(ManuallyDrop::into_inner(pool));
                drop(mem::take(&mut *self.sends));
                return;
            }
            if self.wait(Some(DRAIN_WAIT_NS)).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
