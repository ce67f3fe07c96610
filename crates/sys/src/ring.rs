//! Completions: one io_uring that receives and sends for its thread.
//!
//! ```text
//! receive, send, watch ──► submission queue ─┐
//!                                            ├ wait: one system call for all of them
//! Event ◄── completion queue ◄───────────────┘
//! ```
//!
//! Receiving and watching are *multishot*: asked for once, they go on by themselves until an event
//! says that they have ended. What is received lies in [`Inputs`], memory the kernel chooses from
//! as bytes come, so that a connection that says nothing holds none. What is to be sent is given
//! away until its event gives it back.
//!
//! Invariants: memory the kernel may read or write belongs to this module for as long as it may: a
//! ring that is dropped first ends what is under way, and leaks what the kernel does not give back.
//! A ring stays on the thread that made it. A socket must not be closed before the event that ends
//! what was asked for it; nothing worse than a message to the wrong peer would come of that.

mod features;
mod inputs;

use std::collections::VecDeque;
use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

pub use features::Features;
pub use inputs::{Arrived, Inputs};
use inputs::{GROUP, Pool};

use crate::socket::Stream;

/// How long a ring that is dropped waits for the kernel to end what is under way, in turns of a
/// millisecond.
const END_TURNS: u32 = 200;
const TURN_NS: u64 = 1_000_000;

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
        bytes: Arrived,
        /// The receive stays active (multishot).
        stays_active: bool,
    },
    /// Receiving has ended.
    ReceiveEnded {
        /// Whose.
        token: u32,
        /// Why.
        how: Ended,
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
pub enum Ended {
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
enum Kind {
    Receive = 1,
    Send,
    Watch,
    WatchOnce,
    HangUp,
    Stop,
}

impl Kind {
    fn data(self, number: u32) -> u64 {
        u64::from(self as u8) << 56 | u64::from(number)
    }

    fn of(data: u64) -> Option<Self> {
        let kinds = [
            Self::Receive,
            Self::Send,
            Self::Watch,
            Self::WatchOnce,
            Self::HangUp,
            Self::Stop,
        ];
        kinds.into_iter().find(|kind| *kind as u64 == data >> 56)
    }
}

/// Bytes on their way out.
#[derive(Debug)]
struct Sending {
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
    sendings: ManuallyDrop<Vec<Option<Sending>>>,
    unused: Vec<u32>,
    /// What the submission queue had no room for.
    backlog: VecDeque<Entry>,
    /// Requests that the kernel will still say something of.
    under_way: usize,
    /// Nothing is asked for any more.
    is_ending: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring for the calling thread, and the memory it receives into.
    ///
    /// # Errors
    /// The kernel has no io_uring, or not what this needs of it (Linux 6.0 has), or does not let
    /// this process use it.
    pub fn new(config: RingConfig) -> io::Result<(Self, Inputs)> {
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
            sendings: ManuallyDrop::default(),
            unused: Vec::new(),
            backlog: VecDeque::new(),
            under_way: 0,
            is_ending: false,
        };
        Ok((ring, Inputs::new(pool)))
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
        let (mut ring, inputs) = Self::new(config)?;
        let (source, target) = Stream::pair()?;
        ring.receive(&source, 0);
        ring.send(&target, 1, b"probe".to_vec());
        let mut has_come = false;
        for _ in 0..END_TURNS {
            ring.wait(Some(TURN_NS))?;
            while let Some(event) = ring.next_event() {
                match event {
                    Event::Received {
                        bytes,
                        stays_active,
                        ..
                    } => {
                        has_come |= stays_active;
                        inputs.give_back(bytes);
                    }
                    Event::ReceiveEnded {
                        how: Ended::Lost(error),
                        ..
                    } => return Err(error),
                    _ => {}
                }
            }
            if has_come {
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
        self.push(entry.user_data(Kind::Receive.data(token)));
    }

    /// Receives once from a socket, a buffer at most.
    pub fn receive_once(&mut self, source: impl AsFd, token: u32) {
        let fd = Fd(source.as_fd().as_raw_fd());
        let anywhere = std::ptr::null_mut();
        let entry = opcode::Recv::new(fd, anywhere, 0).buf_group(GROUP).build();
        let entry = entry.flags(Flags::BUFFER_SELECT);
        self.push(entry.user_data(Kind::Receive.data(token)));
    }

    /// Ends receiving for a token; its event follows.
    pub fn stop_receiving(&mut self, token: u32) {
        let entry = opcode::AsyncCancel::new(Kind::Receive.data(token)).build();
        self.push(entry.user_data(Kind::Stop.data(token)));
    }

    /// Sends all of `bytes`. Only one at a time may be under way to a socket: the kernel promises
    /// no order.
    pub fn send(&mut self, target: impl AsFd, token: u32, bytes: Vec<u8>) {
        let sending = Sending {
            token,
            fd: target.as_fd().as_raw_fd(),
            bytes,
            sent: 0,
        };
        let number = match self.unused.pop() {
            Some(number) => number,
            None => {
                self.sendings.push(None);
                self.sendings.len() as u32 - 1
            }
        };
        self.send_rest(number, sending);
    }

    fn send_rest(&mut self, number: u32, sending: Sending) {
        let rest = &sending.bytes[sending.sent..];
        let len = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let entry = opcode::Send::new(Fd(sending.fd), rest.as_ptr(), len).flags(flags);
        // What moves here is the list's head: its bytes stay where they are.
        self.sendings[number as usize] = Some(sending);
        self.push(entry.build().user_data(Kind::Send.data(number)));
    }

    /// Says each time that something has become readable.
    pub fn watch(&mut self, source: impl AsFd, token: u32) {
        let fd = Fd(source.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true);
        self.push(entry.build().user_data(Kind::Watch.data(token)));
    }

    /// Says once that a socket has room to send.
    pub fn watch_writable(&mut self, target: impl AsFd, token: u32) {
        let fd = Fd(target.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLOUT as u32);
        self.push(entry.build().user_data(Kind::WatchOnce.data(token)));
    }

    /// Says once that the peer of a socket has hung up, or has shut down its sending side. Neither
    /// bytes nor room end the wait.
    pub fn watch_hang_up(&mut self, target: impl AsFd, token: u32) {
        let fd = Fd(target.as_fd().as_raw_fd());
        let entry = opcode::PollAdd::new(fd, 0);
        self.push(entry.build().user_data(Kind::HangUp.data(token)));
    }

    fn push(&mut self, entry: Entry) {
        self.under_way += 1;
        self.backlog.push_back(entry);
        self.fill_queue();
    }

    fn fill_queue(&mut self) {
        let mut queue = self.uring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: what the entry points to is kept until the event that ends it: bytes to be
            // sent in `sendings`, memory to receive into in `pool`; both outlive the ring (`drop`).
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
                Some(0) if self.is_at_rest() => Ok(0),
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
    fn is_at_rest(&mut self) -> bool {
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
                self.under_way -= 1;
            }
            let number = completion.user_data() as u32;
            let result = match u32::try_from(result) {
                Ok(result) => Ok(result),
                Err(_) => Err(io::Error::from_raw_os_error(-result)),
            };
            match Kind::of(completion.user_data())? {
                Kind::Receive => return Some(self.received(number, result, flags)),
                Kind::Send => {
                    if let Some(event) = self.sent(number, result) {
                        return Some(event);
                    }
                }
                Kind::Watch | Kind::WatchOnce => {
                    let token = number;
                    return Some(Event::Ready {
                        token,
                        stays_active,
                    });
                }
                Kind::HangUp => return Some(Event::HungUp { token: number }),
                Kind::Stop => {}
            }
        }
    }

    fn received(&self, token: u32, result: io::Result<u32>, flags: u32) -> Event {
        let ended = |how| Event::ReceiveEnded { token, how };
        match (result, cqueue::buffer_select(flags)) {
            (Ok(len), Some(buffer)) if len > 0 => Event::Received {
                token,
                bytes: self.pool.arrived(buffer, len, flags),
                stays_active: cqueue::more(flags),
            },
            // A buffer that was chosen for nothing.
            (Ok(_), Some(buffer)) => {
                self.pool.give_back(&self.pool.arrived(buffer, 0, flags));
                ended(Ended::Closed)
            }
            (Ok(_), None) => ended(Ended::Closed),
            (Err(error), buffer) => {
                if let Some(buffer) = buffer {
                    self.pool.give_back(&self.pool.arrived(buffer, 0, flags));
                }
                ended(match error.raw_os_error() {
                    Some(libc::ENOBUFS) => Ended::NoBuffer,
                    Some(libc::ECANCELED) => Ended::Stopped,
                    _ => Ended::Lost(error),
                })
            }
        }
    }

    fn sent(&mut self, number: u32, result: io::Result<u32>) -> Option<Event> {
        let mut sending = self.sendings.get_mut(number as usize)?.take()?;
        let result = match result {
            Ok(len) => {
                sending.sent += len as usize;
                let is_whole = sending.sent == sending.bytes.len();
                if len > 0 && !is_whole && !self.is_ending {
                    self.send_rest(number, sending);
                    return None;
                }
                match is_whole {
                    true => Ok(()),
                    false => Err(io::ErrorKind::WriteZero.into()),
                }
            }
            Err(error) => Err(error),
        };
        self.unused.push(number);
        let Sending { token, bytes, .. } = sending;
        Some(Event::Sent {
            token,
            bytes,
            result,
        })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.is_ending = true;
        // The kernel may read and write its memory until it has said its last. A clone of the pool
        // that is not dropped leaks it, and so it is with what is being sent, however this ends: a
        // worker that panicked may have left the ring in a state in which this panics, too.
        let pool = ManuallyDrop::new(Rc::clone(&self.pool));
        // What was not handed over has nothing to say.
        self.under_way = self.under_way.wrapping_sub(self.backlog.len());
        self.backlog.clear();
        // What is in the queue can be ended when the kernel has it.
        let _ = self.uring.submit();
        let everything = CancelBuilder::any();
        // What cannot be ended is waited for.
        let _ = self
            .uring
            .submitter()
            .register_sync_cancel(None, everything);
        for _ in 0..END_TURNS {
            while let Some(event) = self.next_event() {
                drop(event);
            }
            if self.under_way == 0 {
                drop(ManuallyDrop::into_inner(pool));
                drop(mem::take(&mut *self.sendings));
                return;
            }
            if self.wait(Some(TURN_NS)).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
