//! TCP and Unix stream sockets, listening and connected. All are non-blocking, except a connected
//! socket after [`Stream::set_blocking`].

use std::fs;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, getsockname, listen, recv, send, sendmsg,
    shutdown, socket_with, socketpair, sockopt,
};

use rustix::process::umask;

use crate::limits::UNSENT_MAX;
use crate::shortage::BACK_OFF;
use crate::socket_option::{set_int, switch_on};

/// How often a send is tried again for which the kernel has no memory.
const NO_MEMORY_TRIES: u32 = 8;

/// The flags of every new socket: non-blocking, and closed by exec.
pub(crate) const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Returns the address family (IPv4 or IPv6) of an address.
pub(crate) const fn family_of(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// A connected stream socket.
#[derive(Debug)]
pub struct Stream {
    fd: OwnedFd,
}

impl Stream {
    /// Starts to connect to a TCP address, without waiting. The attempt has ended when the socket
    /// is writable; [`Stream::take_error`] then says whether it has succeeded.
    ///
    /// # Errors
    /// No descriptor or port is available, or the connection is refused immediately.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::connect_from(None, address)
    }

    /// Connects to a Unix socket. Unlike [`Stream::connect`], the connection is complete on return.
    ///
    /// # Errors
    /// No listener has this path, or its backlog is full (`WouldBlock`; try again later).
    pub fn connect_unix(path: &Path) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Self { fd })
    }

    /// Creates two Unix stream sockets that are connected to each other.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        Ok((one.into(), other.into()))
    }

    /// Takes the pending error of the socket, such as that of a failed connection attempt. Returns
    /// `Ok` if there is none.
    ///
    /// # Errors
    /// The pending error.
    pub fn take_error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.fd)??)
    }

    /// Disables Nagle's algorithm (`TCP_NODELAY`), so that small segments are sent without delay.
    /// Does nothing for a Unix socket.
    pub fn set_nodelay(&self) {
        // This fails only for a Unix socket, which has no such option.
        let _ = sockopt::set_tcp_nodelay(&self.fd, true);
    }

    /// Makes the socket blocking: [`Stream::recv`] waits for bytes, and [`Stream::send`] waits
    /// until all bytes are taken. A send that has waited for `send_ns` nanoseconds returns the
    /// number of bytes taken so far, or fails with `WouldBlock` if there are none.
    ///
    /// # Errors
    /// The timeout is below a microsecond. There are no other errors for a connected socket.
    pub fn set_blocking(&self, send_ns: u64) -> io::Result<()> {
        let timeout = Some(Duration::from_nanos(send_ns));
        sockopt::set_socket_timeout(&self.fd, sockopt::Timeout::Send, timeout)?;
        Ok(ioctl_fionbio(&self.fd, false)?)
    }

    /// Sets the timeout of [`Stream::recv`] on a blocking socket. A receive that has waited for
    /// `timeout_ns` nanoseconds without bytes fails with `WouldBlock`.
    ///
    /// # Errors
    /// The timeout is below a microsecond. There are no other errors for a connected socket.
    pub fn set_receive_timeout(&self, timeout_ns: u64) -> io::Result<()> {
        let timeout = Some(Duration::from_nanos(timeout_ns));
        Ok(sockopt::set_socket_timeout(
            &self.fd,
            sockopt::Timeout::Recv,
            timeout,
        )?)
    }

    /// Makes receives wait for this many bytes (`SO_RCVLOWAT`), or for the end of the stream.
    /// Fewer do not make the socket readable.
    pub fn set_receive_min(&self, bytes: usize) {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        // Any socket has this option.
        let _ = set_int(&self.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes);
    }

    /// Sleeps until both directions of the connection are closed or an error is pending, for at
    /// most `timeout_ns` nanoseconds. Returns true in these two cases, and false after the timeout
    /// or a signal. Received bytes, and space to send, do not end the sleep.
    #[must_use]
    pub fn hangs_up_within(&self, timeout_ns: u64) -> bool {
        let timeout = Timespec {
            tv_sec: (timeout_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (timeout_ns % 1_000_000_000).cast_signed(),
        };
        // Without requested events, `poll` reports only a hang-up (POLLHUP) or an error (POLLERR).
        let mut descriptors = [PollFd::new(&self.fd, PollFlags::empty())];
        poll(&mut descriptors, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    /// Receives available bytes, as many as fit into `buffer`. Returns their number; 0 means that
    /// the peer has shut down its sending side.
    ///
    /// # Errors
    /// `WouldBlock`: no bytes are available. After any other error the connection is lost.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (len, _) = recv(&self.fd, buffer, RecvFlags::empty())?;
        Ok(len)
    }

    /// Makes the kernel record the time at which bytes arrive (`SO_TIMESTAMPNS`), for
    /// [`Stream::recv_stamped`]. On a loopback interface, bytes arrive during the peer's send.
    ///
    /// # Errors
    /// The kernel does not support time stamps for this kind of socket.
    pub fn stamp_receives(&self) -> io::Result<()> {
        stamp_receives(&self.fd)
    }

    /// Receives like [`Stream::recv`]. Also returns the unix time, in nanoseconds, at which the
    /// last of the bytes arrived, or `None` if the kernel has not recorded it.
    ///
    /// # Errors
    /// The same as for [`Stream::recv`].
    pub fn recv_stamped(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        recv_stamped(&self.fd, buffer)
    }

    /// Sends as many of the bytes as the socket has space for. Returns their number.
    ///
    /// # Errors
    /// `WouldBlock`: the socket has no space. After any other error the connection is lost.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        with_memory(|| send(&self.fd, bytes, SendFlags::NOSIGNAL))
    }

    /// Sends the bytes of at most 1024 slices, as many as the socket has space for. Returns the
    /// number of bytes sent.
    ///
    /// # Errors
    /// The same as for [`Stream::send`].
    pub fn send_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send_pieces(pieces, SendFlags::NOSIGNAL)
    }

    /// Sends like [`Stream::send`], but does not wait even if the socket is blocking.
    ///
    /// # Errors
    /// The same as for [`Stream::send`].
    pub fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        with_memory(|| send(&self.fd, bytes, flags))
    }

    /// Sends like [`Stream::send_vectored`], but does not wait even if the socket is blocking.
    ///
    /// # Errors
    /// The same as for [`Stream::send`].
    pub fn send_vectored_now(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send_pieces(pieces, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    fn send_pieces(&self, pieces: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
        with_memory(|| {
            let mut control = SendAncillaryBuffer::default();
            sendmsg(&self.fd, pieces, &mut control, flags)
        })
    }

    /// Makes a later close reset the connection (RST) instead of ending it in order (FIN). Unsent
    /// bytes are then discarded, and the socket does not stay in the state TIME_WAIT.
    ///
    /// # Errors
    /// The kernel reports an error. It does not for a connected socket.
    pub fn reset_on_close(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO))?)
    }

    /// Shuts down both directions of the connection, and wakes threads that wait for bytes or
    /// space. The descriptor stays open.
    pub fn shut(&self) {
        // This fails only if the connection is closed already.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// Shuts down the receiving direction. Bytes that have arrived can still be received; after
    /// them, a receive returns the end of the stream without waiting. Sending is not affected.
    pub fn shutdown_receive(&self) {
        // This fails only if the connection is closed already.
        let _ = shutdown(&self.fd, Shutdown::Read);
    }

    /// Shuts down the sending direction, so that the peer receives the end of the stream. Receiving
    /// is not affected.
    pub fn shutdown_send(&self) {
        // This fails only if the connection is closed already.
        let _ = shutdown(&self.fd, Shutdown::Write);
    }
}

/// Sets timeouts by which the kernel ends a TCP connection whose peer's host is unreachable. Such a
/// host, for example one without power, cannot close the connection itself. The connection ends
/// with an error once sent data has not been acknowledged, or keepalive probes have not been
/// answered, for `timeout_ns` nanoseconds. Errors are ignored, because without these timeouts the
/// connection only ends later.
pub fn end_with_silent_peer(stream: &impl AsFd, timeout_ns: u64) {
    let timeout = Duration::from_nanos(timeout_ns);
    let seconds = Duration::from_secs(timeout.as_secs().max(1));
    let _ = sockopt::set_tcp_user_timeout(stream, u32::try_from(timeout.as_millis()).unwrap_or(0));
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, seconds);
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1));
}

impl From<OwnedFd> for Stream {
    /// Takes over a descriptor, which must be a connected, non-blocking stream socket.
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
    /// The path of a Unix socket, which is removed when the listener is dropped.
    path: Option<PathBuf>,
}

/// A socket that has an address but does not listen yet, so that connection attempts are refused.
#[derive(Debug)]
pub struct Bound(Listener);

impl Bound {
    /// Binds a socket to a TCP address. Port 0 selects a free port.
    ///
    /// # Errors
    /// The address is in use, does not belong to this machine, or is not allowed for this process.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let fd = socket_with(family_of(address), SocketType::STREAM, FLAGS, None)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        // With keepalive, the kernel closes connections whose peer's host has become unreachable;
        // otherwise they would stay open forever. Accepted sockets inherit the option, which saves
        // a system call for each connection.
        sockopt::set_socket_keepalive(&fd, true)?;
        // So is this one. Without it the kernel copies up to 4 MiB (`tcp_wmem`) for a client that
        // reads nothing, in time that other connections wait.
        let level = libc::IPPROTO_TCP;
        set_int(&fd, level, libc::TCP_NOTSENT_LOWAT, UNSENT_MAX)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        bind(&fd, &address)?;
        Ok(Self(Listener { fd, path: None }))
    }

    /// Binds a Unix socket to a path, with the permissions `mode`. Replaces a socket at that path
    /// at which nobody listens. The path is removed when this value, or the listener made of it, is
    /// dropped. Files that other threads create meanwhile get at most these permissions too.
    ///
    /// # Errors
    /// The path names something other than a socket, or a process listens there: both are left
    /// unchanged. Or the folder does not allow this process to create the socket.
    pub fn unix(path: &Path, mode: u32) -> io::Result<Self> {
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                let what = "the path exists and is not a socket";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
            }
            use io::ErrorKind::{AddrInUse, ConnectionRefused, NotFound, WouldBlock};
            match Stream::connect_unix(path).map_err(|error| (error.kind(), error)) {
                Err((ConnectionRefused | NotFound, _)) => {}
                // The queue of a process that listens may be full.
                Ok(_) | Err((WouldBlock, _)) => {
                    return Err(io::Error::new(
                        AddrInUse,
                        "a process listens at this socket",
                    ));
                }
                Err((_, error)) => return Err(error),
            }
            match fs::remove_file(path) {
                Err(error) if error.kind() != NotFound => return Err(error),
                _ => {}
            }
        }
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        let address = SocketAddrUnix::new(path)?;
        // Changing the permissions later, by the path, could change those of another file.
        let mask = umask(Mode::from_raw_mode(0o777 & !mode));
        let bound = bind(&fd, &address);
        umask(mask);
        bound?;
        // So that a process that starts meanwhile does not take the socket for a left one. Early
        // clients wait.
        listen(&fd, 1)?;
        let path = Some(path.to_owned());
        Ok(Self(Listener { fd, path }))
    }

    /// Returns the TCP address, or `None` for a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.address()
    }

    /// Starts to listen. The kernel then accepts connections and queues at most `backlog` of them
    /// until [`Listener::accept`] takes them.
    ///
    /// # Errors
    /// Another socket has been bound to the same address and listens already.
    pub fn listen(self, backlog: i32) -> io::Result<Listener> {
        listen(&self.0.fd, backlog)?;
        Ok(self.0)
    }
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends, and tries again for some milliseconds while the kernel has no memory for it. No event
/// says that it has some again.
pub(crate) fn with_memory(send: impl Fn() -> Result<usize, Errno>) -> io::Result<usize> {
    for _ in 0..NO_MEMORY_TRIES {
        match send() {
            Err(Errno::NOBUFS | Errno::NOMEM) => thread::sleep(BACK_OFF),
            sent => return Ok(sent?),
        }
    }
    Ok(send()?)
}

impl Listener {
    /// Listens on a TCP address. Port 0 selects a free port.
    ///
    /// # Errors
    /// The address is in use, does not belong to this machine, or is not allowed for this process.
    pub fn tcp(address: SocketAddr, backlog: i32) -> io::Result<Self> {
        Bound::tcp(address)?.listen(backlog)
    }

    /// Takes the next connection from the queue.
    ///
    /// # Errors
    /// `WouldBlock`: the queue is empty. Errors for which [`is_exhaustion`] returns true, such as
    /// EMFILE: no descriptor is available, and the connection stays in the queue.
    pub fn accept(&self) -> io::Result<Stream> {
        loop {
            match accept_with(&self.fd, FLAGS) {
                Ok(fd) => return Ok(Stream { fd }),
                // The peer has closed the queued connection, or a signal came. Take the next one.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes [`Self::accept`] wait for a connection. Several processes may then share the
    /// listener: the kernel wakes one of them for each connection.
    ///
    /// # Errors
    /// There are none for a listener.
    pub fn set_blocking(&self) -> io::Result<()> {
        Ok(ioctl_fionbio(&self.fd, false)?)
    }

    /// Returns the TCP address of the listener, or `None` for a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        getsockname(&self.fd).ok()?.try_into().ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Another process may have removed the path already.
            let _ = fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Implements [`Stream::stamp_receives`] for any socket.
pub(crate) fn stamp_receives(fd: &OwnedFd) -> io::Result<()> {
    switch_on(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
}

/// Implements [`Stream::recv_stamped`] for any socket.
#[inline]
pub(crate) fn recv_stamped(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    // 64 bytes, aligned for the header, suffice for a control message with one time stamp.
    let mut control = [0_u64; 8];
    let mut slice = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeroes is a valid empty message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message header points to one writable slice and to a writable control buffer,
    // with their lengths. Both outlive the call.
    let len = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
    match usize::try_from(len) {
        Ok(len) => Ok((len, stamp_of(&message))),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Returns the time of arrival in the control messages of a received message, in unix nanoseconds.
fn stamp_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled the message header, and its control buffer still exists.
    let first = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: the pointer is null or points to the first control message in the control buffer.
    let header = unsafe { first.as_ref() }?;
    let is_stamp =
        header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_TIMESTAMPNS;
    if !is_stamp {
        return None;
    }
    // SAFETY: `first` points to a control message (checked above).
    let data = unsafe { libc::CMSG_DATA(first) }.cast::<libc::timespec>();
    // SAFETY: a control message of this type contains one `timespec`. The read does not require
    // alignment.
    let time = unsafe { data.read_unaligned() };
    let (seconds, ns) = (
        u64::try_from(time.tv_sec).ok()?,
        u64::try_from(time.tv_nsec).ok()?,
    );
    Some(seconds * 1_000_000_000 + ns)
}

/// Returns whether an error of [`Listener::accept`] means that descriptors or kernel memory are
/// exhausted. The caller then waits before it tries again, because an immediate retry would fail
/// too.
#[must_use]
pub fn is_exhaustion(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::poll::{Interest, is_ready_within};

    fn wait(source: impl AsFd, interest: Interest) {
        assert!(is_ready_within(source, interest, 5_000_000_000).unwrap());
    }

    /// A client, and the connection that a listener has accepted of it.
    fn connected() -> (Stream, Stream) {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        let client = Stream::connect(listener.address().unwrap()).unwrap();
        wait(&listener, Interest::Read);
        let server = listener.accept().unwrap();
        (client, server)
    }

    /// Checks that bytes and the end of the stream travel from `client` to `server`.
    fn check_transfer(client: &Stream, server: &Stream) {
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
    fn connection_to_a_bound_socket_is_refused_until_it_listens() {
        use std::net::TcpStream;
        let bound = Bound::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.address().unwrap();
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _listener = bound.listen(1).unwrap();
        TcpStream::connect(address).unwrap();
    }

    #[test]
    fn bytes_and_end_of_stream_travel_over_tcp() {
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
        check_transfer(&client, &server);
    }

    #[test]
    fn the_kernel_keeps_little_for_a_client_that_does_not_read() {
        let (client, server) = connected();
        let mut taken = 0;
        while let Ok(len) = server.send(&[0; 65_536]) {
            taken += len;
        }
        let received_max = sockopt::socket_recv_buffer_size(&client.fd).unwrap();
        assert!(
            taken < UNSENT_MAX as usize + 131_072 + received_max,
            "{taken}"
        );
    }

    #[test]
    fn a_socket_is_readable_when_as_much_as_is_wanted_has_arrived() {
        let (client, server) = connected();
        let is_readable = || is_ready_within(&server, Interest::Read, 50_000_000).unwrap();
        server.set_receive_min(3);
        client.send(b"12").unwrap();
        assert!(!is_readable());
        client.send(b"3").unwrap();
        assert!(is_readable());
        assert_eq!(server.recv(&mut [0; 9]).unwrap(), 3);
        client.send(b"4").unwrap();
        client.shutdown_send();
        assert!(is_readable(), "the end");
    }

    #[test]
    fn accepted_tcp_connections_inherit_keepalive_from_the_listener() {
        let (client, server) = connected();
        assert!(sockopt::socket_keepalive(&server.fd).unwrap());
        assert!(!sockopt::socket_keepalive(&client.fd).unwrap());
    }

    #[test]
    fn unix_socket_has_the_given_mode_replaces_only_sockets_and_is_removed_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        {
            // Nobody listens at the socket of a listener that has ended.
            drop(UnixListener::bind(&path).unwrap());
            let listener = Bound::unix(&path, 0o640).unwrap().listen(1).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o640);
            assert_eq!(listener.address(), None);
            let client = Stream::connect_unix(&path).unwrap();
            let server = listener.accept().unwrap();
            check_transfer(&client, &server);
            let taken = Bound::unix(&path, 0o700).unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        }
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(Bound::unix(&path, 0o700).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn blocking_calls_end_at_shutdown_or_timeout_and_hang_up_is_noticed() {
        let (client, server) = Stream::pair().unwrap();
        server.set_blocking(1_000_000).unwrap();
        client.send(b"abc").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(server.recv(&mut buffer).unwrap(), 3);
        thread::scope(|scope| {
            let receiving = scope.spawn(|| server.recv(&mut [0; 16]).unwrap());
            server.shutdown_receive();
            assert_eq!(receiving.join().unwrap(), 0);
        });
        // The client does not read. Sends succeed until the socket has no space; the next one times
        // out.
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
    fn stamped_receive_returns_the_time_of_arrival() {
        let (client, server) = connected();
        client.stamp_receives().unwrap();
        let mut buffer = [0; 16];
        // The kernel starts to record times with a delay, so the first receives may have no stamp.
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
    fn connection_attempt_without_a_listener_fails() {
        let unused = Listener::tcp("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = unused.address().unwrap();
        drop(unused);
        if let Ok(client) = Stream::connect(address) {
            wait(&client, Interest::Write);
            assert!(client.take_error().is_err());
        }
    }
}
