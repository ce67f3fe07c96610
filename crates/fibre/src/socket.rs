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

use crate::clock::deadline_ns;
use crate::fibre::Fibre;
use crate::io::poll::{Gate, Source};
use crate::io::rings::{check, clamp, perform, perform_into};
use crate::io::{IoBackend, Reactor};
use crate::switch::{current, local};

/// Results of io_uring requests that have transferred nothing: the socket was not ready, or the
/// request was cancelled. io_uring reports an error as a negative error number.
const EAGAIN: i32 = -libc::EAGAIN;
const ECANCELED: i32 = -libc::ECANCELED;
/// The value of [`Socket::timeout_ns`] if waits have no timeout.
const NO_TIMEOUT: u64 = u64::MAX;

/// A socket whose waits block only the fibre. `T` owns the descriptor: an [`OwnedFd`], a
/// `std::net::TcpStream`, or another owner. The descriptor is set to non-blocking mode.
///
/// At any time, at most one fibre may receive and at most one fibre may send. With epoll, if a
/// second fibre waits in the same direction, its wait fails with
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy). With rings, two fibres that receive would each
/// get a part of the bytes.
///
/// A socket needs its descriptor to the end, so a `T` that is borrowed outlives it, and this does
/// not compile:
///
/// ```compile_fail
/// let socket;
/// let stream = std::net::TcpStream::connect("127.0.0.1:1").unwrap();
/// socket = fibre::Socket::new(&stream).unwrap();
/// ```
#[derive(Debug)]
pub struct Socket<T: AsFd> {
    /// The registration with epoll. `None` with rings.
    registered: Option<Registered>,
    /// The timeout of each wait, in nanoseconds; or [`NO_TIMEOUT`].
    timeout_ns: AtomicU64,
    inner: T,
}

/// The registration of a socket with the epoll of one processor.
#[derive(Debug)]
struct Registered {
    /// The readiness of the socket: a *gate* for reading and one for writing. A fibre waits at a
    /// closed gate, and the processor opens the gate when epoll reports that the socket is ready.
    source: Arc<Source>,
    /// The socket transfers a stream of bytes, not separate messages.
    is_stream: bool,
    /// The descriptor of the socket.
    fd: RawFd,
    /// The number of the processor with whose epoll the socket is registered.
    processor: usize,
    /// The fibre that created the socket. Its record leads `drop` to the processor's epoll.
    fibre: Fibre,
}

/// The direction in which a fibre uses a socket.
#[derive(Debug, Clone, Copy)]
enum Direction {
    Reading,
    /// As `Reading`, for a listening socket. With epoll, a fibre that reads waits before its first
    /// call; a fibre that accepts calls `accept` first.
    Accepting,
    Writing,
}

impl Direction {
    /// The events of `poll(2)` that mean readiness in this direction.
    fn flags(self) -> i16 {
        match self {
            Self::Reading | Self::Accepting => libc::POLLIN,
            Self::Writing => libc::POLLOUT,
        }
    }
}

impl<T: AsFd> Socket<T> {
    /// Creates a socket for the runtime of the current fibre.
    ///
    /// # Errors
    /// The descriptor is not a socket, or is already registered with epoll.
    ///
    /// # Panics
    /// The caller is not a fibre.
    pub fn new(inner: T) -> io::Result<Self> {
        // Asked once: another call may return another descriptor.
        let fd = inner.as_fd();
        rustix::io::ioctl_fionbio(fd, true)?;
        let is_stream = net::sockopt::socket_type(fd)? == SocketType::STREAM;
        let fibre = current();
        let processor = local(|local| local.map_or(0, |local| local.number));
        let registered = match &fibre.record.anchor.shared.slots[processor].reactor {
            Reactor::Rings(_) => None,
            Reactor::Readiness(poller) => Some(Registered {
                source: poller.register(fd)?,
                is_stream,
                fd: fd.as_raw_fd(),
                processor,
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

    /// The I/O backend of the socket. With rings, each read or write lets other fibres run. With
    /// epoll, a read or write of a socket that is ready does not; so a fibre that never has to wait
    /// must [yield](crate::yield_now) now and then.
    pub fn kind(&self) -> IoBackend {
        match self.registered {
            Some(_) => IoBackend::Readiness,
            None => IoBackend::Rings,
        }
    }

    /// Sets a timeout that applies to each wait of a fibre for this socket; `None` means no
    /// timeout. If the timeout passes, the operation fails with
    /// [`TimedOut`](io::ErrorKind::TimedOut).
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        let ns = timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(NO_TIMEOUT));
        self.timeout_ns
            .store(ns.unwrap_or(NO_TIMEOUT), Ordering::Relaxed);
    }

    /// The time at which a wait that begins now times out, in nanoseconds of the monotonic clock;
    /// `None` if there is no timeout.
    fn due_ns(&self) -> Option<u64> {
        let ns = self.timeout_ns.load(Ordering::Relaxed);
        (ns != NO_TIMEOUT).then(|| deadline_ns(Duration::from_nanos(ns)))
    }

    /// The descriptor, as io_uring's requests take it.
    fn fd(&self) -> Fd {
        Fd(self.inner.as_fd().as_raw_fd())
    }

    /// Waits for input, and receives into `buffer`. Returns the number of bytes received; 0 means
    /// that the peer will send nothing more.
    ///
    /// # Errors
    /// The connection is lost, the timeout has passed, or the fibre was cancelled.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len();
        if let Some(registered) = &self.registered {
            return registered.attempt(Direction::Reading, self.due_ns(), || {
                let (_, read) = net::recv(&self.inner, &mut *buffer, RecvFlags::empty())?;
                // If a read of a stream returns less than requested, no more input is available.
                // But a datagram may be shorter than the buffer, and another one be available.
                let may_have_more = read == len || !registered.is_stream;
                Ok((read, may_have_more))
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

    /// Sends `bytes`, or as many of them, from the first, as the socket has space for. If there is
    /// no space, waits until there is. Returns the number of bytes sent.
    ///
    /// # Errors
    /// The same as for [`Socket::read`].
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
    /// The same as for [`Socket::read`]. The number of bytes sent before the error is unknown.
    pub fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                len => bytes = &bytes[len..],
            }
        }
        Ok(())
    }

    /// Sends all of `bytes`, then receives into `buffer`. Returns the number of received bytes; 0
    /// means that the peer will send nothing more. With rings, the kernel gets both requests at
    /// once, and the fibre waits only once.
    ///
    /// # Errors
    /// The same as for [`Socket::read`].
    pub fn exchange(&self, bytes: &[u8], buffer: &mut [u8]) -> io::Result<usize> {
        if self.registered.is_some() || bytes.is_empty() {
            self.write_all(bytes)?;
            return self.read(buffer);
        }
        let send = opcode::Send::new(self.fd(), bytes.as_ptr(), clamp(bytes.len()));
        let send = send.flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL).build();
        let start = buffer.as_mut_ptr();
        let receive = opcode::Recv::new(self.fd(), start, clamp(buffer.len())).build();
        // SAFETY: the bytes and the buffer are borrowed for the call, and the lengths are those of
        // the two slices.
        let [sent, received] = unsafe { perform_into([send, receive], start, self.due_ns())? };
        // Before Linux 5.19, io_uring returns EAGAIN if a non-blocking socket is not ready.
        let sent = match sent {
            EAGAIN => 0,
            sent => check(sent)?,
        };
        self.write_all(&bytes[sent..])?;
        match received {
            // ECANCELED: the kernel cancelled the receive request, because the send request failed
            // or sent only a part. EAGAIN: there was no input. In both cases, nothing has been
            // received yet.
            ECANCELED | EAGAIN => self.read(buffer),
            _ => check(received),
        }
    }

    /// Waits until input is available, or the connection has ended.
    ///
    /// # Errors
    /// The same as for [`Socket::read`].
    pub fn wait_readable(&self) -> io::Result<()> {
        self.wait(Direction::Reading)
    }

    /// Waits until there is space to send, or the connection has ended. Call this after a
    /// non-blocking call has found no space.
    ///
    /// # Errors
    /// The same as for [`Socket::read`].
    pub fn wait_writable(&self) -> io::Result<()> {
        self.wait(Direction::Writing)
    }

    /// If `result` (of an io_uring request) is EAGAIN, waits until the socket is ready, and returns
    /// true: the caller then repeats the request. Before Linux 5.19, io_uring returns EAGAIN for a
    /// non-blocking socket that is not ready, instead of waiting.
    fn wait_if_again(&self, result: i32, direction: Direction) -> io::Result<bool> {
        let must_repeat = result == EAGAIN;
        if must_repeat {
            self.wait(direction)?;
        }
        Ok(must_repeat)
    }

    /// Waits until the socket is ready in a direction, or the connection has ended.
    fn wait(&self, direction: Direction) -> io::Result<()> {
        let flags = direction.flags();
        if let Some(registered) = &self.registered {
            let gate = registered.gate(direction);
            // The gate is closed before `is_ready` is called, so that an event after that call
            // opens it.
            gate.close();
            let mut is_ready_now = is_ready(&self.inner, flags)?;
            // A gate is *open forever* after epoll has reported the end of the connection. Such a
            // gate ignores events, and `close` does not close it. So the socket may have become
            // ready between the call of `is_ready` and that of `close_if_forever`, and `is_ready`
            // is called again.
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
        // SAFETY: the entry contains no pointer into memory.
        let [result] = unsafe { perform([entry], self.due_ns())? };
        check(result).map(drop)
    }

    /// Accepts a connection on a listening socket. Returns its descriptor, in non-blocking mode.
    ///
    /// # Errors
    /// The same as for [`Socket::read`], and the errors of `accept(2)`: for example, the process
    /// has no descriptor left.
    pub fn accept(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        if let Some(registered) = &self.registered {
            return registered.attempt(Direction::Accepting, self.due_ns(), || {
                Ok((net::accept_with(&self.inner, flags)?, true))
            });
        }
        // The address of the peer is not requested.
        let null = std::ptr::null_mut();
        let result = loop {
            let entry = opcode::Accept::new(self.fd(), null, null.cast());
            let entry = entry.flags(flags.bits().cast_signed()).build();
            // SAFETY: the entry contains no pointer into memory.
            let [result] = unsafe { perform([entry], self.due_ns())? };
            if !self.wait_if_again(result, Direction::Reading)? {
                break result;
            }
        };
        check(result)?;
        // SAFETY: the kernel created this descriptor for this call, so nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(result) })
    }
}

impl Socket<OwnedFd> {
    /// Connects to `address` by TCP.
    ///
    /// # Errors
    /// The peer cannot be reached or refuses the connection; and the same as for [`Socket::read`].
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
        // The kernel reports the socket as writable when the attempt to connect has either
        // succeeded or failed. If it has failed, the socket option `SO_ERROR` is its error.
        socket.wait_writable()?;
        net::sockopt::socket_error(&socket.inner)??;
        Ok(socket)
    }
}

impl Registered {
    /// The gate at which a fibre waits for readiness in a direction.
    fn gate(&self, direction: Direction) -> &Gate {
        match direction {
            Direction::Reading | Direction::Accepting => &self.source.reading,
            Direction::Writing => &self.source.writing,
        }
    }

    /// Calls `call`, which makes a non-blocking system call. Whenever the socket is not ready for
    /// it, waits at the gate until epoll reports the socket as ready, then calls `call` again.
    /// `call` returns a result, and whether the socket may still be ready after it.
    ///
    /// A read also waits at the gate before it first calls `call`. If the previous read left the
    /// gate open, this wait takes no time. If the previous read took all input of the socket, a
    /// system call before the next event would be wasted.
    fn attempt<R>(
        &self,
        direction: Direction,
        due_ns: Option<u64>,
        mut call: impl FnMut() -> rustix::io::Result<(R, bool)>,
    ) -> io::Result<R> {
        let gate = self.gate(direction);
        let mut must_wait = matches!(direction, Direction::Reading);
        loop {
            if must_wait {
                gate.wait(due_ns)?;
            }
            // The gate is closed before the system call, so that an event after it opens the gate.
            gate.close();
            match call() {
                Ok((result, has_more)) => {
                    if has_more {
                        gate.reopen();
                    }
                    return Ok(result);
                }
                // The socket is not ready, so the next round waits first. But if the gate was open
                // forever, it may have ignored an event since the system call; then the next round
                // does not wait.
                Err(rustix::io::Errno::AGAIN) => must_wait = !gate.close_if_forever(),
                Err(error) => {
                    // The system call has not used up the readiness of the socket. epoll does not
                    // report this readiness again, so the gate is opened here.
                    gate.reopen();
                    if error != rustix::io::Errno::INTR {
                        return Err(error.into());
                    }
                }
            }
        }
    }
}

/// Of the socket and not of `Registered`, so that `T` and what it borrows are still there.
impl<T: AsFd> Drop for Socket<T> {
    fn drop(&mut self) {
        let Some(registered) = self.registered.take() else {
            return;
        };
        let slots = &registered.fibre.record.anchor.shared.slots;
        if let Reactor::Readiness(poller) = &slots[registered.processor].reactor {
            // SAFETY: `inner` has lent this descriptor, and is only shared until it is dropped, so
            // the descriptor is still open.
            let fd = unsafe { BorrowedFd::borrow_raw(registered.fd) };
            poller.remove(fd, registered.source);
        }
    }
}

impl<T: AsFd> AsFd for Socket<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// Whether a descriptor is ready now for one of the events in `flags` (those of `poll(2)`).
fn is_ready(fd: impl AsFd, flags: i16) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let flags = PollFlags::from_bits_retain(flags.cast_unsigned());
    let now = Timespec::default();
    Ok(poll(&mut [PollFd::new(&fd, flags)], Some(&now))? > 0)
}
