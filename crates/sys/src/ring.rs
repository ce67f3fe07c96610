//! Completions: one io_uring that receives and sends for its thread.
//!
//! ```text
//! receive, send, watch_readable ──► submission queue ─┐
//!                                            ├ wait: one system call for all of them
//! Event ◄── completion queue ◄───────────────┘
//! ```
//!
//! Receiving and watching are *multishot*: asked for once, they go on by themselves until an event
//! says that they have ended. What is received lies in [`ReceiveBuffers`], memory the kernel chooses from
//! as bytes come, so that a connection that says nothing holds none. What is to be sent is given
//! away until its event gives it back.
//!
//! Invariants: memory the kernel may read or write belongs to this module for as long as it may: a
//! ring that is dropped first ends what is under way, and leaks what the kernel does not give back.
//! A ring stays on the thread that made it. A socket must not be closed before the event that ends
//! what was asked for it; nothing worse than a message to the wrong peer would come of that.

mod features;
mod receive_buffers;

use std::collections::VecDeque;
use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

pub use features::Features;
use receive_buffers::{GROUP, Pool};
pub use receive_buffers::{ReceiveBuffers, ReceivedBytes};

use crate::socket::Stream;

/// How long a ring that is dropped waits for the kernel to end what is under way, in turns of a
/// millisecond.
const DRAIN_WAITS_MAX: u32 = 200;
const DRAIN_WAIT_NS: u64 = 1_000_000;

/// What a ring is made for.
#[derive(Debug, Clone, Copy)]
pub struct RingConfig {
    /// Requests submitted at once; twice as many events wait at most before the kernel has to keep
    /// them elsewhere.
    pub entries: u32,
    /// Buffers to receive into, a power of two, 32 768 at most.
    pub buffers: u16,
    /// Bytes of each.
    pub buffer_len: u32,
}

/// What has happened. Tokens are those that were given with what was asked for.
#[derive(Debug)]
pub enum Event {
    /// Bytes have come.
    Received {
        /// Whose.
        token: u32,
        /// Where they are.
        bytes: ReceivedBytes,
        /// The receive stays active (multishot).
        stays_active: bool,
    },
    /// Receiving has ended.
    ReceiveEnded {
        /// Whose.
        token: u32,
        /// Why.
        how: ReceiveEnd,
    },
    /// What was to be sent has been, or cannot be.
    Sent {
        /// Whose.
        token: u32,
        /// The memory it was in.
        bytes: Vec<u8>,
        /// An error: the connection is lost.
        result: io::Result<()>,
    },
    /// Both directions of a watched socket are closed, or an error is pending.
    HungUp {
        /// Its token.
        token: u32,
    },
    /// What was watched is ready.
    Ready {
        /// Its token.
        token: u32,
        /// The poll stays active (multishot).
        stays_active: bool,
    },
}

/// Why receiving has ended.
#[derive(Debug)]
pub enum ReceiveEnd {
    /// The peer will send no more.
    Closed,
    /// No buffer was left: once some are given back, ask again.
    NoBuffer,
    /// [`Ring::stop_receiving`].
    Stopped,
    /// The connection is lost.
    Lost(io::Error),
}

/// What an event is of: the highest byte of a request's number.
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
    fn user_data(self, number: u32) -> u64 {
        u64::from(self as u8) << 56 | u64::from(number)
    }

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

/// Bytes on their way out.
#[derive(Debug)]
struct SendState {
    token: u32,
    fd: RawFd,
    bytes: Vec<u8>,
    sent: usize,
}

/// One io_uring.
pub struct Ring {
    uring: IoUring,
    pool: Rc<Pool>,
    /// Freed only when the kernel is done with all of it ([`Ring`]'s `drop`).
    sends: ManuallyDrop<Vec<Option<SendState>>>,
    free_numbers: Vec<u32>,
    /// What the submission queue had no room for.
    backlog: VecDeque<Entry>,
    /// Requests that the kernel will still say something of.
    in_flight: usize,
    /// Nothing is asked for any more.
    is_dropping: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring for the calling thread, and the memory it receives into.
    ///
    /// # Errors
    /// The kernel has no io_uring, or not what this needs of it (Linux 6.0 has), or does not let
    /// this process use it.
    pub fn new(config: RingConfig) -> io::Result<(Self, ReceiveBuffers)> {
        let build = |is_deferred: bool| {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(2 * config.entries).setup_submit_all();
            // Linux 5.19: it says when it has work to do for an event.
            builder.setup_taskrun_flag();
            if is_deferred {
                // Linux 6.1: nothing happens but while this thread waits.
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
        };
        Ok((ring, ReceiveBuffers::new(pool)))
    }

    /// Whether this machine has what a ring needs: makes one and receives through it. Then, what
    /// else its kernel does.
    ///
    /// # Errors
    /// What is missing.
    pub fn probe() -> io::Result<Features> {
        let config = RingConfig {
            entries: 8,
            buffers: 2,
            buffer_len: 64,
        };
        let (mut ring, receive_buffers) = Self::new(config)?;
        let (source, target) = Stream::pair()?;
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
        let what = "io_uring does not receive by itself (Linux 6.0 is needed)";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    /// Receives from a socket until an event says that it has ended.
    pub fn receive(&mut self, source: impl AsFd, token: u32) {
        let fd = Fd(source.as_fd().as_raw_fd());
        let entry = opcode::RecvMulti::new(fd, GROUP).build();
        self.push(entry.user_data(Operation::Receive.user_data(token)));
    }

    /// Receives once from a socket, a buffer at most.
    pub fn receive_once(&mut self, source: impl AsFd, token: u32) {
        let fd = Fd(source.as_fd().as_raw_fd());
        let anywhere = std::ptr::null_mut();
        let entry = opcode::Recv::new(fd, anywhere, 0).buf_group(GROUP).build();
        let entry = entry.flags(Flags::BUFFER_SELECT);
        self.push(entry.user_data(Operation::Receive.user_data(token)));
    }

    /// Ends receiving for a token; its event follows.
    pub fn stop_receiving(&mut self, token: u32) {
        let entry = opcode::AsyncCancel::new(Operation::Receive.user_data(token)).build();
        self.push(entry.user_data(Operation::CancelReceive.user_data(token)));
    }

    /// Sends all of `bytes`. Only one at a time may be under way to a socket: the kernel promises
    /// no order.
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

    fn submit_send(&mut self, number: u32, send: SendState) {
        let rest = &send.bytes[send.sent..];
        let len = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let entry = opcode::Send::new(Fd(send.fd), rest.as_ptr(), len).flags(flags);
        // What moves here is the list's head: its bytes stay where they are.
        self.sends[number as usize] = Some(send);
        self.push(entry.build().user_data(Operation::Send.user_data(number)));
    }

    /// Says each time that something has become readable.
    pub fn watch_readable(&mut self, source: impl AsFd, token: u32) {
        let fd = Fd(source.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true);
        self.push(
            entry
                .build()
                .user_data(Operation::WatchReadable.user_data(token)),
        );
    }

    /// Says once that a socket has room to send.
    pub fn watch_writable(&mut self, target: impl AsFd, token: u32) {
        let fd = Fd(target.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLOUT as u32);
        self.push(
            entry
                .build()
                .user_data(Operation::WatchWritable.user_data(token)),
        );
    }

    /// Says once that the peer of a socket has hung up, or has shut down its send side. Neither
    /// bytes nor room end the wait.
    pub fn watch_hang_up(&mut self, target: impl AsFd, token: u32) {
        let fd = Fd(target.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, 0);
        self.push(
            entry
                .build()
                .user_data(Operation::WatchHangUp.user_data(token)),
        );
    }

    fn push(&mut self, entry: Entry) {
        self.in_flight += 1;
        self.backlog.push_back(entry);
        self.fill_queue();
    }

    fn fill_queue(&mut self) {
        let mut queue = self.uring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: what the entry points to is kept until the event that ends it: bytes to be
            // sent in `sends`, memory to receive into in `pool`; both outlive the ring (`drop`).
            if unsafe { queue.push(entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Hands over all that was asked for and waits for an event, or until `timeout_ns` has passed
    /// (none: for ever; 0: not at all).
    ///
    /// # Errors
    /// The kernel's own, none in a correct program.
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<()> {
        loop {
            // More than the queue holds goes in several turns, without waiting.
            let is_last = self.backlog.is_empty();
            let has_event = !self.uring.completion().is_empty();
            let timeout_ns = match is_last && !has_event {
                true => timeout_ns,
                false => Some(0),
            };
            let entered = match timeout_ns {
                None => self.uring.submit_and_wait(1),
                // A time of 0 would be waited for like any other, with a timer.
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
                let code = error.raw_os_error();
                // The time is over, a signal came, or events have to be taken first.
                if ![libc::ETIME, libc::EINTR, libc::EBUSY]
                    .map(Some)
                    .contains(&code)
                {
                    return Err(error);
                }
                if code == Some(libc::EBUSY) {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
            self.fill_queue();
        }
    }

    /// Whether there is nothing to be handed over, and nothing the kernel has to do for events to
    /// come.
    fn needs_no_system_call(&mut self) -> bool {
        let queue = self.uring.submission();
        queue.is_empty() && !queue.taskrun() && !queue.cq_overflow()
    }

    /// The next event, if one has come.
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

    fn received(&self, token: u32, result: io::Result<u32>, flags: u32) -> Event {
        let ended = |how| Event::ReceiveEnded { token, how };
        match (result, cqueue::buffer_select(flags)) {
            (Ok(len), Some(buffer)) if len > 0 => Event::Received {
                token,
                bytes: self.pool.record_received(buffer, len, flags),
                stays_active: cqueue::more(flags),
            },
            // A buffer that was chosen for nothing.
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

impl Drop for Ring {
    fn drop(&mut self) {
        self.is_dropping = true;
        // The kernel may read and write its memory until it has said its last. A clone of the pool
        // that is not dropped leaks it, and so it is with what is being sent, however this ends: a
        // worker that panicked may have left the ring in a state in which this panics, too.
        let pool = ManuallyDrop::new(Rc::clone(&self.pool));
        // What was not handed over has nothing to say.
        self.in_flight = self.in_flight.wrapping_sub(self.backlog.len());
        self.backlog.clear();
        // What is in the queue can be ended when the kernel has it.
        let _ = self.uring.submit();
        let everything = CancelBuilder::any();
        // What cannot be ended is waited for.
        let _ = self
            .uring
            .submitter()
            .register_sync_cancel(None, everything);
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
