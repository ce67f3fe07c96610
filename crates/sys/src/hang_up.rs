//! Whether the peer of a socket of another thread has gone.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Returns whether the peer of a socket has shut down its sending side, or the connection has
/// failed. False if there is no such descriptor. For threads that do not own the socket: it may be
/// closed meanwhile, and its number may be that of another one, so the answer is a hint.
#[must_use]
pub fn has_hung_up(descriptor: i32) -> bool {
    if descriptor < 0 {
        return false;
    }
    // SAFETY: a borrowed descriptor has to stay open while it is borrowed, which no caller can
    // promise here: this is an exception. It is sound because the borrow is used for one call only,
    // and `poll` neither reads from the descriptor nor closes it. For a number that is not open it
    // reports POLLNVAL, which is not tested below.
    let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut descriptors = [PollFd::new(&socket, PollFlags::RDHUP)];
    let hung_up = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut descriptors, Some(&now)).is_ok() && descriptors[0].revents().intersects(hung_up)
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_peer_that_has_shut_down_its_sending_side_is_noticed_although_bytes_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(!has_hung_up(server.as_raw_fd()));
        std::io::Write::write_all(&mut &client, b"x").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        // Loopback delivers the end of the stream before `shutdown` returns.
        assert!(has_hung_up(server.as_raw_fd()));
        assert!(!has_hung_up(-1));
        assert!(!has_hung_up(i32::MAX), "no such descriptor");
    }
}
