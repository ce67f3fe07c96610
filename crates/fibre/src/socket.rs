//! Sockets whose waits block only the fibre.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use io_uring::opcode;
use io_uring::types::Fd;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::fibre::Fibre;
use crate::io::poll::{Gate, Source};
use crate::io::rings::{check, clamp, perform, perform_into};
use crate::io::{IoBackend, Reactor};
use crate::switch::{current, local};
use crate::time::deadline_ns;

/// Results of completions whose operation was not performed: negative error numbers.
const EAGAIN: i32 = -libc::EAGAIN;
const ECANCELED: i32 = -libc::ECANCELED;
/// The value of `timeout_ns` for no timeout.
const NO_TIMEOUT: u64 = u64::MAX;

/// A socket whose waits block only the fibre. `T` owns the descriptor: an [`OwnedFd`], a
/// `std::net::TcpStream`, or another owner. The descriptor is set to non-blocking mode.
///
/// One fibre may receive and one may send at a time. With epoll a second fibre in the same
/// direction gets the error [`ResourceBusy`](io::ErrorKind::ResourceBusy). With rings two receiving
/// fibres would each get a part of the bytes.
#[derive(Debug)]
pub struct Socket<T: AsFd> {
    /// The epoll registration, which is dropped before the descriptor is closed. `None` with rings.
    registered: Option<Registered>,
    timeout_ns: AtomicU64,
    inner: T,
}

#[derive(Debug)]
struct Registered {
    source: Arc<Source>,
    /// Message boundaries are not preserved (a stream socket).
    is_stream: bool,
    fd: RawFd,
    slot: usize,
    fibre: Fibre,
}

/// The direction of a wait.
#[derive(Debug, Clone, Copy)]
enum Direction {
    Reading,
    Accepting,
    Writing,
}

impl Direction {
    /// The poll events of a direction.
    fn flags(self) -> i16 {
        match self {
            Self::Reading | Self::Accepting => libc::POLLIN,
            Self::Writing => libc::POLLOUT,
        }
    }
}

impl<T: AsFd> Socket<T> {
    /// Creates a socket of the current fibre's runtime.
    ///
    /// # Errors
    /// The descriptor is not a socket, or is registered already.
    ///
    /// # Panics
    /// The caller is not a fibre.
    pub fn new(inner: T) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&inner, true)?;
        let is_stream = net::sockopt::socket_type(&inner)? == SocketType::STREAM;
        let fibre = current();
        let slot = local(|local| local.map_or(0, |local| local.number));
        let registered = match &fibre.record.anchor.shared.slots[slot].reactor {
            Reactor::Rings(_) => None,
            Reactor::Readiness(poller) => Some(Registered {
                source: poller.register(inner.as_fd())?,
                is_stream,
                fd: inner.as_fd().as_raw_fd(),
                slot,
                fibre,
            }),
        };
        Ok(Self {
            registered,
            timeout_ns: AtomicU64::new(NO_TIMEOUT),
            inner,
        })
    }

    /// The value that owns the descriptor.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// The I/O backend of the socket. With epoll, a fibre whose calls always succeed at once never
    /// waits, and has to [yield](crate::yield_now) to let others run.
    pub fn kind(&self) -> IoBackend {
        match self.registered {
            Some(_) => IoBackend::Readiness,
            None => IoBackend::Rings,
        }
    }

    /// Sets a timeout for each wait; `None` for no timeout. A longer wait fails with
    /// [`TimedOut`](io::ErrorKind::TimedOut).
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        let ns = timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(NO_TIMEOUT));
        self.timeout_ns
            .store(ns.unwrap_or(NO_TIMEOUT), Ordering::Relaxed);
    }

    fn due_ns(&self) -> Option<u64> {
        let ns = self.timeout_ns.load(Ordering::Relaxed);
        (ns != NO_TIMEOUT).then(|| deadline_ns(Duration::from_nanos(ns)))
    }

    fn fd(&self) -> Fd {
        Fd(self.inner.as_fd().as_raw_fd())
    }

    /// Receives into `buffer`. 0 means that the peer has closed its side.
    ///
    /// # Errors
    /// The connection is lost, the timeout has passed, or the fibre was cancelled.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len();
        if let Some(registered) = &self.registered {
            return registered.attempt(Direction::Reading, self.due_ns(), || {
                let (_, read) = net::recv(&self.inner, &mut *buffer, RecvFlags::empty())?;
                // A short read of a stream means that nothing more is available.
                Ok((read, read == len || !registered.is_stream))
            });
        }
        loop {
            let start = buffer.as_mut_ptr();
            let entry = opcode::Recv::new(self.fd(), start, clamp(len)).build();
            // SAFETY: the buffer is borrowed for the call and has the given length.
            let [result] = unsafe { perform_into([entry], start, self.due_ns())? };
            if !self.wait_if_again(result, Direction::Reading)? {
                return check(result);
            }
        }
    }

    /// Sends as many of `bytes` as there is space for, at least one. Returns their number.
    ///
    /// # Errors
    /// As [`Socket::read`].
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(registered) = &self.registered {
            return registered.attempt(Direction::Writing, self.due_ns(), || {
                Ok((net::send(&self.inner, bytes, SendFlags::NOSIGNAL)?, true))
            });
        }
        loop {
            let entry = opcode::Send::new(self.fd(), bytes.as_ptr(), clamp(bytes.len()));
            let entry = entry.flags(libc::MSG_NOSIGNAL).build();
            // SAFETY: the bytes are borrowed for the call.
            let [result] = unsafe { perform([entry], self.due_ns())? };
            if !self.wait_if_again(result, Direction::Writing)? {
                return check(result);
            }
        }
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// As [`Socket::read`]. The number of sent bytes is then unknown.
    pub fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                len => bytes = &bytes[len..],
            }
        }
        Ok(())
    }

    /// Sends all of `bytes`, then receives into `buffer`; with rings this is a single wait. 0 means
    /// that the peer has closed its side.
    ///
    /// # Errors
    /// As [`Socket::read`].
    pub fn exchange(&self, bytes: &[u8], buffer: &mut [u8]) -> io::Result<usize> {
        if self.registered.is_some() || bytes.is_empty() {
            self.write_all(bytes)?;
            return self.read(buffer);
        }
        let send = opcode::Send::new(self.fd(), bytes.as_ptr(), clamp(bytes.len()));
        let send = send.flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL).build();
        let start = buffer.as_mut_ptr();
        let receive = opcode::Recv::new(self.fd(), start, clamp(buffer.len())).build();
        // SAFETY: the bytes and the buffer are borrowed for the call, and the lengths are theirs.
        let [sent, received] = unsafe { perform_into([send, receive], start, self.due_ns())? };
        // Kernels before 5.19 return EAGAIN instead of waiting.
        let sent = match sent {
            EAGAIN => 0,
            sent => check(sent)?,
        };
        self.write_all(&bytes[sent..])?;
        match received {
            // The kernel did not start the second operation.
            ECANCELED | EAGAIN => self.read(buffer),
            _ => check(received),
        }
    }

    /// Waits until input is available, or the connection has ended.
    ///
    /// # Errors
    /// As [`Socket::read`].
    pub fn wait_readable(&self) -> io::Result<()> {
        self.wait(Direction::Reading)
    }

    /// Waits until there is space to send, or the connection has ended. To be called after a
    /// non-blocking call has found no space.
    ///
    /// # Errors
    /// As [`Socket::read`].
    pub fn wait_writable(&self) -> io::Result<()> {
        self.wait(Direction::Writing)
    }

    /// With rings: waits if the operation failed with EAGAIN, as it does on non-blocking sockets
    /// before Linux 5.19. Returns true if the operation has to be repeated.
    fn wait_if_again(&self, result: i32, direction: Direction) -> io::Result<bool> {
        let must_repeat = result == EAGAIN;
        if must_repeat {
            self.wait(direction)?;
        }
        Ok(must_repeat)
    }

    fn wait(&self, direction: Direction) -> io::Result<()> {
        let flags = direction.flags();
        if let Some(registered) = &self.registered {
            let gate = registered.gate(direction);
            gate.close();
            let mut is_ready_now = is_ready(&self.inner, flags)?;
            if !is_ready_now && gate.close_if_forever() {
                is_ready_now = is_ready(&self.inner, flags)?;
            }
            if is_ready_now {
                gate.reopen();
                return Ok(());
            }
            return gate.wait(self.due_ns());
        }
        let entry = opcode::PollAdd::new(self.fd(), flags as u32).build();
        // SAFETY: no entry contains a pointer.
        let [result] = unsafe { perform([entry], self.due_ns())? };
        check(result).map(drop)
    }

    /// Accepts a connection of a listening socket. The result is non-blocking.
    ///
    /// # Errors
    /// As [`Socket::read`], and those of accepting, for example when no descriptor is left.
    pub fn accept(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        if let Some(registered) = &self.registered {
            return registered.attempt(Direction::Accepting, self.due_ns(), || {
                Ok((net::accept_with(&self.inner, flags)?, true))
            });
        }
        let null = std::ptr::null_mut();
        let result = loop {
            let entry = opcode::Accept::new(self.fd(), null, null.cast());
            let entry = entry.flags(flags.bits().cast_signed()).build();
            // SAFETY: no entry contains a pointer.
            let [result] = unsafe { perform([entry], self.due_ns())? };
            if !self.wait_if_again(result, Direction::Reading)? {
                break result;
            }
        };
        check(result)?;
        // SAFETY: a new descriptor that the kernel created for us.
        Ok(unsafe { OwnedFd::from_raw_fd(result) })
    }
}

impl Socket<OwnedFd> {
    /// Connects to `address` by TCP.
    ///
    /// # Errors
    /// The connection fails; or as [`Socket::read`].
    ///
    /// # Panics
    /// The caller is not a fibre.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = net::socket_with(family, SocketType::STREAM, flags, None)?;
        match net::connect(&fd, &address) {
            Ok(()) => return Self::new(fd),
            Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let socket = Self::new(fd)?;
        // Once there is space to send, the attempt to connect has succeeded or failed.
        socket.wait_writable()?;
        net::sockopt::socket_error(&socket.inner)??;
        Ok(socket)
    }
}

impl Registered {
    fn gate(&self, direction: Direction) -> &Gate {
        match direction {
            Direction::Reading | Direction::Accepting => &self.source.reading,
            Direction::Writing => &self.source.writing,
        }
    }

    /// Repeats a non-blocking call until it succeeds, waiting while the socket is not ready. A read
    /// waits before its first call if the previous one emptied the socket.
    fn attempt<R>(
        &self,
        direction: Direction,
        due_ns: Option<u64>,
        mut call: impl FnMut() -> rustix::io::Result<(R, bool)>,
    ) -> io::Result<R> {
        let gate = self.gate(direction);
        let mut waits_first = matches!(direction, Direction::Reading);
        loop {
            if waits_first {
                gate.wait(due_ns)?;
            }
            gate.close();
            match call() {
                Ok((result, has_more)) => {
                    if has_more {
                        gate.reopen();
                    }
                    return Ok(result);
                }
                Err(rustix::io::Errno::AGAIN) => waits_first = !gate.close_if_forever(),
                Err(error) => {
                    // epoll has reported the readiness already and will not report it again.
                    gate.reopen();
                    if error != rustix::io::Errno::INTR {
                        return Err(error.into());
                    }
                }
            }
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let slots = &self.fibre.record.anchor.shared.slots;
        if let Reactor::Readiness(poller) = &slots[self.slot].reactor {
            // SAFETY: the descriptor is still open, because `inner` is dropped after this.
            let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
            poller.remove(fd, Arc::clone(&self.source));
        }
    }
}

impl<T: AsFd> AsFd for Socket<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// Whether a descriptor is ready.
fn is_ready(fd: impl AsFd, flags: i16) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let flags = PollFlags::from_bits_retain(flags.cast_unsigned());
    let now = Timespec::default();
    Ok(poll(&mut [PollFd::new(&fd, flags)], Some(&now))? > 0)
}
