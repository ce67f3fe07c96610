//! Stream sockets, TCP and Unix, listening and connected. None of them blocks, but a connected one
//! that is told to ([`Stream::set_blocking`]).

use std::fs;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, getsockname, listen, recv, send, sendmsg,
    shutdown, socket_with, socketpair, sockopt,
};

pub(crate) const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

pub(crate) const fn family_of(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// A connected stream.
#[derive(Debug)]
pub struct Stream {
    fd: OwnedFd,
}

impl Stream {
    /// Starts a connection; it stands when the stream is writable and [`Stream::take_error`]
    /// says none.
    ///
    /// # Errors
    /// No descriptor or port left, or the peer refuses at once.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let fd = socket_with(family_of(address), SocketType::STREAM, FLAGS, None)?;
        match connect(&fd, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self { fd }),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Stream::connect`], to a Unix socket.
    ///
    /// # Errors
    /// Nobody listens there, or its backlog is full (`WouldBlock`: try again).
    pub fn connect_unix(path: &Path) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Self { fd })
    }

    /// Two streams that are each other's peer.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        Ok((one.into(), other.into()))
    }

    /// The error a connection attempt ended in, if any.
    ///
    /// # Errors
    /// That error.
    pub fn take_error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.fd)??)
    }

    /// Sends small segments at once. Does nothing on a Unix socket.
    pub fn set_nodelay(&self) {
        // A Unix socket has no such option; a TCP socket cannot refuse it.
        let _ = sockopt::set_tcp_nodelay(&self.fd, true);
    }

    /// From now on its thread sleeps where [`Stream::recv`] finds nothing and [`Stream::send`] no
    /// room. A send gives up after `send_ns`: it returns what was taken until then, or
    /// `WouldBlock` where nothing was.
    ///
    /// # Errors
    /// The kernel's own, none for a connected stream and a time above a microsecond.
    pub fn set_blocking(&self, send_ns: u64) -> io::Result<()> {
        let patience = Some(Duration::from_nanos(send_ns));
        sockopt::set_socket_timeout(&self.fd, sockopt::Timeout::Send, patience)?;
        Ok(ioctl_fionbio(&self.fd, false)?)
    }

    /// A blocking [`Stream::recv`] that finds nothing for `timeout_ns` fails with `WouldBlock`.
    ///
    /// # Errors
    /// The kernel's own, none for a connected stream and a time above a microsecond.
    pub fn set_receive_timeout(&self, timeout_ns: u64) -> io::Result<()> {
        let timeout = Some(Duration::from_nanos(timeout_ns));
        Ok(sockopt::set_socket_timeout(
            &self.fd,
            sockopt::Timeout::Recv,
            timeout,
        )?)
    }

    /// Sleeps for `timeout_ns`, or until both directions are closed or an error is pending: true.
    /// Neither bytes nor room end it.
    #[must_use]
    pub fn hangs_up_within(&self, timeout_ns: u64) -> bool {
        let timeout = Timespec {
            tv_sec: (timeout_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (timeout_ns % 1_000_000_000).cast_signed(),
        };
        let mut asked = [PollFd::new(&self.fd, PollFlags::empty())];
        // Only a signal can interrupt it, and the caller checks again.
        poll(&mut asked, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    /// Receives what is there, at most the buffer; 0 is the peer's end.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is there. Otherwise the connection is lost.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (len, _) = recv(&self.fd, buffer, RecvFlags::empty())?;
        Ok(len)
    }

    /// Asks the kernel to note when bytes arrive; see [`Stream::recv_stamped`]. On a loopback
    /// interface that is while the peer sends.
    ///
    /// # Errors
    /// The kernel knows no such notes for this kind of socket.
    pub fn stamp_receives(&self) -> io::Result<()> {
        stamp_receives(&self.fd)
    }

    /// As [`Stream::recv`], with the unix time in nanoseconds at which the last of the bytes
    /// arrived; none where the kernel did not note it.
    ///
    /// # Errors
    /// As [`Stream::recv`].
    pub fn recv_stamped(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        recv_stamped(&self.fd, buffer)
    }

    /// Sends as much as there is room for.
    ///
    /// # Errors
    /// `WouldBlock`: there is no room. Otherwise the connection is lost.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.fd, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Sends as much of several pieces as there is room for. At most 1024 pieces.
    ///
    /// # Errors
    /// As [`Stream::send`].
    pub fn send_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut control = SendAncillaryBuffer::default();
        Ok(sendmsg(
            &self.fd,
            pieces,
            &mut control,
            SendFlags::NOSIGNAL,
        )?)
    }

    /// As [`Stream::send`], but never sleeps, whatever [`Stream::set_blocking`] has set.
    ///
    /// # Errors
    /// As [`Stream::send`].
    pub fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(send(&self.fd, bytes, flags)?)
    }

    /// As [`Stream::send_vectored`], but never sleeps, whatever [`Stream::set_blocking`] has set.
    ///
    /// # Errors
    /// As [`Stream::send`].
    pub fn send_vectored_now(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut control = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(sendmsg(&self.fd, pieces, &mut control, flags)?)
    }

    /// Closing the stream resets the connection instead of ending it: unsent bytes are discarded,
    /// and the socket does not stay in TIME_WAIT.
    ///
    /// # Errors
    /// The kernel's own, none for a connected stream.
    pub fn reset_on_close(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO))?)
    }

    /// Shuts both directions down, and wakes threads that wait for bytes or space. The descriptor
    /// stays open.
    pub fn shut(&self) {
        // Fails only when the connection is gone already.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// Receives no more: what has come can still be received, then the end, at once. The other
    /// direction stays.
    pub fn shutdown_receive(&self) {
        // Fails only when the connection is gone already.
        let _ = shutdown(&self.fd, Shutdown::Read);
    }

    /// Tells the peer that nothing more will come, keeping the other direction.
    pub fn shutdown_send(&self) {
        // Fails only when the connection is gone already.
        let _ = shutdown(&self.fd, Shutdown::Write);
    }
}

/// Ends a TCP connection with an error once its peer has been silent for `timeout_ns`: data sent
/// was not acknowledged, or idle probes were not answered. A host that lost power or its network
/// sends no end of its own. Errors are ignored: the connection then ends later.
pub fn end_with_silent_peer(stream: &impl AsFd, timeout_ns: u64) {
    let timeout = Duration::from_nanos(timeout_ns);
    let seconds = Duration::from_secs(timeout.as_secs().max(1));
    let _ = sockopt::set_tcp_user_timeout(stream, u32::try_from(timeout.as_millis()).unwrap_or(0));
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, seconds);
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1));
}

impl From<OwnedFd> for Stream {
    /// Of a connected stream socket that does not block.
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    path: Option<PathBuf>,
}

/// A socket that is bound and does not listen yet: connection attempts are refused.
#[derive(Debug)]
pub struct Bound(Listener);

impl Bound {
    /// Takes a TCP address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is in use, not this machine's, or not allowed.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let fd = socket_with(family_of(address), SocketType::STREAM, FLAGS, None)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        // Accepted sockets inherit it, so that a connection costs no further system call. Without
        // it a peer whose machine is gone would keep its connection for ever.
        sockopt::set_socket_keepalive(&fd, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        bind(&fd, &address)?;
        Ok(Self(Listener { fd, path: None }))
    }

    /// Takes a path, with the permissions `mode`. A socket that stands there already is replaced;
    /// anything else is left alone. The socket is removed when this, or the listener it becomes,
    /// is dropped.
    ///
    /// # Errors
    /// Something that is no socket stands there, or the folder does not allow it.
    pub fn unix(path: &Path, mode: u32) -> io::Result<Self> {
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                let what = "something that is not a socket stands there";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
            fs::remove_file(path)?;
        }
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        bind(&fd, &SocketAddrUnix::new(path)?)?;
        let listener = Listener {
            fd,
            path: Some(path.to_owned()),
        };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        Ok(Self(listener))
    }

    /// The TCP address; none of a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.address()
    }

    /// From now on connections wait to be accepted, at most `backlog` of them.
    ///
    /// # Errors
    /// Another socket took the address as this one did, and listens already.
    pub fn listen(self, backlog: i32) -> io::Result<Listener> {
        listen(&self.0.fd, backlog)?;
        Ok(self.0)
    }
}

impl Listener {
    /// Listens on a TCP address; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is in use, not this machine's, or not allowed.
    pub fn tcp(address: SocketAddr, backlog: i32) -> io::Result<Self> {
        Bound::tcp(address)?.listen(backlog)
    }

    /// The next connection that waits.
    ///
    /// # Errors
    /// `WouldBlock`: none waits. EMFILE and its kin: no descriptor is left and the connection
    /// waits on.
    pub fn accept(&self) -> io::Result<Stream> {
        loop {
            match accept_with(&self.fd, FLAGS) {
                Ok(fd) => return Ok(Stream { fd }),
                // The peer gave up while it waited, or a signal came: the next may be fine.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The TCP address it listens on; none of a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        getsockname(&self.fd).ok()?.try_into().ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Somebody may have removed it already.
            let _ = fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// See [`Stream::stamp_receives`].
pub(crate) fn stamp_receives(fd: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an integer that outlives the call, and its size is given.
    let failed = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// See [`Stream::recv_stamped`].
#[inline]
pub(crate) fn recv_stamped(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    // Aligned for the header of a control message, and room for one time.
    let mut control = [0_u64; 8];
    let mut piece = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeroes is a valid empty message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the header names one writable piece and a writable control buffer, with their
    // lengths; all outlive the call.
    let len = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
    match usize::try_from(len) {
        Ok(len) => Ok((len, stamp_of(&message))),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// The time of arrival that a received message's control part holds, unix nanoseconds.
fn stamp_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled the header, whose control buffer is still there.
    let first = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or the first control message within that buffer.
    let header = unsafe { first.as_ref() }?;
    let is_stamp =
        header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_TIMESTAMPNS;
    if !is_stamp {
        return None;
    }
    // SAFETY: a message of this type holds one `timespec`.
    let data = unsafe { libc::CMSG_DATA(first) }.cast::<libc::timespec>();
    // SAFETY: as above; it need not be aligned.
    let time = unsafe { data.read_unaligned() };
    let (seconds, ns) = (
        u64::try_from(time.tv_sec).ok()?,
        u64::try_from(time.tv_nsec).ok()?,
    );
    Some(seconds * 1_000_000_000 + ns)
}

/// Whether an error of `accept` means that descriptors or memory have run out: waiting, not
/// trying again at once, is the answer.
#[must_use]
pub fn is_exhaustion(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Events, Interest, Poll};

    fn wait(source: impl AsFd, interest: Interest) {
        let poll = Poll::new().unwrap();
        poll.add(source, 0, interest).unwrap();
        let mut events = Events::with_capacity(1);
        poll.wait(&mut events, Some(5_000_000_000)).unwrap();
        assert!(!events.is_empty());
    }

    fn converse(client: &Stream, server: &Stream) {
        let mut buffer = [0; 16];
        assert_eq!(
            server.recv(&mut buffer).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let pieces = [IoSlice::new(b"ab"), IoSlice::new(b"cd")];
        assert_eq!(client.send_vectored(&pieces).unwrap(), 4);
        wait(server, Interest::Read);
        assert_eq!(server.recv(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"abcd");
        client.shutdown_send();
        wait(server, Interest::Read);
        assert_eq!(server.recv(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn a_connection_before_listen_is_refused() {
        use std::net::TcpStream;
        let bound = Bound::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.address().unwrap();
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _listener = bound.listen(1).unwrap();
        TcpStream::connect(address).unwrap();
    }

    #[test]
    fn tcp_streams_carry_bytes_both_ways() {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        assert_eq!(
            listener.accept().unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let client = Stream::connect(listener.address().unwrap()).unwrap();
        wait(&client, Interest::Write);
        client.take_error().unwrap();
        wait(&listener, Interest::Read);
        let server = listener.accept().unwrap();
        server.set_nodelay();
        converse(&client, &server);
    }

    #[test]
    fn accepted_tcp_connections_are_probed_for_peers_that_are_gone() {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let client = Stream::connect(listener.address().unwrap()).unwrap();
        wait(&listener, Interest::Read);
        let server = listener.accept().unwrap();
        assert!(sockopt::socket_keepalive(&server.fd).unwrap());
        assert!(!sockopt::socket_keepalive(&client.fd).unwrap());
    }

    #[test]
    fn unix_sockets_have_their_mode_and_go_with_their_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        {
            let _replaced = Bound::unix(&path, 0o700).unwrap();
            let listener = Bound::unix(&path, 0o640).unwrap().listen(1).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o640);
            assert_eq!(listener.address(), None);
            let client = Stream::connect_unix(&path).unwrap();
            let server = listener.accept().unwrap();
            converse(&client, &server);
        }
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(Bound::unix(&path, 0o700).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_blocked_read_ends_at_shutdown() {
        let (client, server) = Stream::pair().unwrap();
        server.set_blocking(1_000_000).unwrap();
        client.send(b"abc").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(server.recv(&mut buffer).unwrap(), 3);
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| server.recv(&mut [0; 16]).unwrap());
            server.shutdown_receive();
            assert_eq!(receiving.join().unwrap(), 0);
        });
        // Nobody reads: what there is room for is taken, then nothing.
        let chunk = [0; 64 * 1024];
        let full = (0..1_000).find_map(|_| server.send(&chunk).err()).unwrap();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        server.set_blocking(3_600_000_000_000).unwrap();
        for full in [
            server.send_now(&chunk),
            server.send_vectored_now(&[IoSlice::new(&chunk)]),
        ] {
            assert_eq!(full.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        assert!(!server.hangs_up_within(1_000));
        drop(client);
        assert!(server.hangs_up_within(5_000_000_000));
    }

    #[test]
    fn bytes_bear_the_time_they_arrived() {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let client = Stream::connect(listener.address().unwrap()).unwrap();
        wait(&listener, Interest::Read);
        let server = listener.accept().unwrap();
        client.stamp_receives().unwrap();
        let mut buffer = [0; 16];
        // The kernel begins to note times a moment after it is asked to.
        for _ in 0..1_000 {
            let before_ns = crate::clock::unix_ns();
            server.send(b"abc").unwrap();
            wait(&client, Interest::Read);
            let (len, stamp_ns) = client.recv_stamped(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], b"abc");
            if let Some(stamp_ns) = stamp_ns {
                assert!((before_ns..=crate::clock::unix_ns()).contains(&stamp_ns));
                return;
            }
        }
        panic!("no receive was stamped");
    }

    #[test]
    fn connecting_without_a_listener_is_an_error() {
        let unused = Listener::tcp("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = unused.address().unwrap();
        drop(unused);
        if let Ok(client) = Stream::connect(address) {
            wait(&client, Interest::Write);
            assert!(client.take_error().is_err());
        }
    }
}
