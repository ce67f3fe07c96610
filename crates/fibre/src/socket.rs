//! Sockets that block the fibre only.

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
use crate::io::rings::{clamp, perform, perform_into, told};
use crate::io::{IoBackend, Reactor};
use crate::switch::{current, local};
use crate::time::deadline_ns;

/// What completions say of what was not done.
const EAGAIN: i32 = -libc::EAGAIN;
const ECANCELED: i32 = -libc::ECANCELED;
/// No end.
const PATIENT: u64 = u64::MAX;

/// A socket whose waits block the fibre only. `T` owns the descriptor: an [`OwnedFd`], a
/// `std::net::TcpStream`, or what else has one. It is made not to block.
///
/// One fibre may receive and one may send at a time: another would find it
/// [busy](io::ErrorKind::ResourceBusy), or, over rings, share what comes with it.
#[derive(Debug)]
pub struct Socket<T: AsFd> {
    /// Before the descriptor is closed.
    registered: Option<Registered>,
    timeout_ns: AtomicU64,
    inner: T,
}

#[derive(Debug)]
struct Registered {
    source: Arc<Source>,
    /// What comes is not in parts of a length of their own.
    is_stream: bool,
    fd: RawFd,
    slot: usize,
    fibre: Fibre,
}

/// Which way.
#[derive(Debug, Clone, Copy)]
enum Direction {
    Reading,
    Accepting,
    Writing,
}

impl Direction {
    /// What is polled for.
    fn flags(self) -> i16 {
        match self {
            Self::Reading | Self::Accepting => libc::POLLIN,
            Self::Writing => libc::POLLOUT,
        }
    }
}

impl<T: AsFd> Socket<T> {
    /// Of the runtime whose fibre runs here.
    ///
    /// # Errors
    /// The descriptor is none of a socket, or is one already.
    ///
    /// # Panics
    /// Not in a fibre.
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
            timeout_ns: AtomicU64::new(PATIENT),
            inner,
        })
    }

    /// What owns the descriptor.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// How its fibres wait. By readiness one that finds all it wants at each call never waits:
    /// where others are to have their turn, it has to [yield](crate::yield_now).
    pub fn kind(&self) -> IoBackend {
        match self.registered {
            Some(_) => IoBackend::Readiness,
            None => IoBackend::Rings,
        }
    }

    /// How long a wait may last, from now on; none: for ever. One that lasts longer fails with
    /// [`TimedOut`](io::ErrorKind::TimedOut).
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        let ns = timeout.map(|timeout| u64::try_from(timeout.as_nanos()).unwrap_or(PATIENT));
        self.timeout_ns
            .store(ns.unwrap_or(PATIENT), Ordering::Relaxed);
    }

    fn due_ns(&self) -> Option<u64> {
        let ns = self.timeout_ns.load(Ordering::Relaxed);
        (ns != PATIENT).then(|| deadline_ns(Duration::from_nanos(ns)))
    }

    fn fd(&self) -> Fd {
        Fd(self.inner.as_fd().as_raw_fd())
    }

    /// Receives into `buffer`; 0 is the peer's end.
    ///
    /// # Errors
    /// The connection is lost, the time is over, or the fibre was told to end.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len();
        if let Some(registered) = &self.registered {
            return registered.attempt(Direction::Reading, self.due_ns(), || {
                let (_, read) = net::recv(&self.inner, &mut *buffer, RecvFlags::empty())?;
                // Less than there was room for is all there was, of what comes in a stream.
                Ok((read, read == len || !registered.is_stream))
            });
        }
        loop {
            let room = buffer.as_mut_ptr();
            let entry = opcode::Recv::new(self.fd(), room, clamp(len)).build();
            // SAFETY: the buffer is borrowed for the call, and has the room that is asked for.
            let [result] = unsafe { perform_into([entry], room, self.due_ns())? };
            if !self.is_to_wait(result, Direction::Reading)? {
                return told(result);
            }
        }
    }

    /// Sends from `bytes`, as much as there is room for, at least one: how many.
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
            if !self.is_to_wait(result, Direction::Writing)? {
                return told(result);
            }
        }
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// As [`Socket::read`]; how much was sent is not known then.
    pub fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                len => bytes = &bytes[len..],
            }
        }
        Ok(())
    }

    /// Sends all of `bytes`, then receives into `buffer`: one wait for both, over rings. 0 is the
    /// peer's end.
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
        let room = buffer.as_mut_ptr();
        let receive = opcode::Recv::new(self.fd(), room, clamp(buffer.len())).build();
        // SAFETY: both are borrowed for the call, and the buffer has the room that is asked for.
        let [sent, received] = unsafe { perform_into([send, receive], room, self.due_ns())? };
        // Kernels before 5.19 say so where they might have waited.
        let sent = match sent {
            EAGAIN => 0,
            sent => told(sent)?,
        };
        self.write_all(&bytes[sent..])?;
        match received {
            // The kernel did not go on to it.
            ECANCELED | EAGAIN => self.read(buffer),
            _ => told(received),
        }
    }

    /// Waits until something can be received, or the peer is gone.
    ///
    /// # Errors
    /// As [`Socket::read`].
    pub fn wait_readable(&self) -> io::Result<()> {
        self.wait(Direction::Reading)
    }

    /// Waits until there is room to send, or the peer is gone. To be called when a call that does
    /// not block has said that there is none.
    ///
    /// # Errors
    /// As [`Socket::read`].
    pub fn wait_writable(&self) -> io::Result<()> {
        self.wait(Direction::Writing)
    }

    /// Over rings: waits where the kernel has not, as before Linux 5.19 with what does not block.
    /// True: it is to be asked again.
    fn is_to_wait(&self, result: i32, direction: Direction) -> io::Result<bool> {
        let is_to_wait = result == EAGAIN;
        if is_to_wait {
            self.wait(direction)?;
        }
        Ok(is_to_wait)
    }

    fn wait(&self, direction: Direction) -> io::Result<()> {
        let flags = direction.flags();
        if let Some(registered) = &self.registered {
            let gate = registered.gate(direction);
            gate.close();
            let mut is_ready_now = is_ready(&self.inner, flags)?;
            if !is_ready_now && gate.take_back() {
                is_ready_now = is_ready(&self.inner, flags)?;
            }
            if is_ready_now {
                gate.reopen();
                return Ok(());
            }
            return gate.wait(self.due_ns());
        }
        let entry = opcode::PollAdd::new(self.fd(), flags as u32).build();
        // SAFETY: it points nowhere.
        let [result] = unsafe { perform([entry], self.due_ns())? };
        told(result).map(drop)
    }

    /// Accepts a connection of a listening socket; what comes does not block.
    ///
    /// # Errors
    /// As [`Socket::read`], and what accepting may bring: no descriptor left, say.
    pub fn accept(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        if let Some(registered) = &self.registered {
            return registered.attempt(Direction::Accepting, self.due_ns(), || {
                Ok((net::accept_with(&self.inner, flags)?, true))
            });
        }
        let nowhere = std::ptr::null_mut();
        let result = loop {
            let entry = opcode::Accept::new(self.fd(), nowhere, nowhere.cast());
            let entry = entry.flags(flags.bits().cast_signed()).build();
            // SAFETY: it points nowhere.
            let [result] = unsafe { perform([entry], self.due_ns())? };
            if !self.is_to_wait(result, Direction::Reading)? {
                break result;
            }
        };
        told(result)?;
        // SAFETY: the kernel has just made it, for us.
        Ok(unsafe { OwnedFd::from_raw_fd(result) })
    }
}

impl Socket<OwnedFd> {
    /// Connects to `address`, by TCP.
    ///
    /// # Errors
    /// Nobody answers there; or as [`Socket::read`].
    ///
    /// # Panics
    /// Not in a fibre.
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
        // Room to send means that it is decided.
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

    /// Makes a call that does not block and says whether another may find more; waits where it
    /// finds nothing, as is known of reading beforehand where the last call found all there was.
    fn attempt<R>(
        &self,
        direction: Direction,
        due_ns: Option<u64>,
        mut call: impl FnMut() -> rustix::io::Result<(R, bool)>,
    ) -> io::Result<R> {
        let gate = self.gate(direction);
        let mut waits = matches!(direction, Direction::Reading);
        loop {
            if waits {
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
                Err(rustix::io::Errno::AGAIN) => waits = !gate.take_back(),
                Err(error) => {
                    // It was told of what may be read all the same, and is not told again.
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
            // SAFETY: the descriptor is closed after this: `inner` is dropped last.
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

/// Whether a descriptor is ready now.
fn is_ready(fd: impl AsFd, flags: i16) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let flags = PollFlags::from_bits_retain(flags.cast_unsigned());
    let now = Timespec::default();
    Ok(poll(&mut [PollFd::new(&fd, flags)], Some(&now))? > 0)
}
