//! Sockets whose connection ends or fails.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};

use crate::tests::configurations::{LONG, configurations, for_each_configuration_in_fibre, start};
use crate::tests::sockets::listen;
use crate::{IoBackend, Socket};

/// Creates a TCP connection over the loopback interface, and returns its two ends. Only the first
/// end can be used without blocking the processor.
fn connection() -> (Socket<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let near = Socket::new(listener.accept().unwrap().0).unwrap();
    near.set_timeout(Some(LONG));
    (near, far)
}

#[test]
fn read_after_the_last_data_returns_0() {
    use std::io::Write;
    for_each_configuration_in_fibre(1, || {
        // After 100 yields, the processor has polled the kernel before the peer sends: it polls
        // once in `RUNS_PER_POLL` (61) runs of fibres. Without yields, its first poll finds both
        // the data and the end of the connection.
        for yields in [0, 100] {
            let (near, mut far) = connection();
            (0..yields).for_each(|_| crate::yield_now());
            far.write_all(b"bye").unwrap();
            drop(far);
            assert_eq!(near.read(&mut [0; 64]).unwrap(), 3);
            assert_eq!(near.read(&mut [0; 64]).unwrap(), 0);
            assert_eq!(near.read(&mut [0; 64]).unwrap(), 0);
            let (near, far) = UnixStream::pair().unwrap();
            let (near, mut far) = (Socket::new(near).unwrap(), far);
            near.set_timeout(Some(LONG));
            (0..yields).for_each(|_| crate::yield_now());
            far.write_all(b"bye").unwrap();
            drop(far);
            assert_eq!(near.read(&mut [0; 64]).unwrap(), 3);
            assert_eq!(near.read(&mut [0; 64]).unwrap(), 0);
        }
    });
}

#[test]
fn peer_that_has_shut_down_writing_still_receives() {
    use std::io::Read;
    for_each_configuration_in_fibre(2, || {
        let (near, mut far) = connection();
        far.shutdown(Shutdown::Write).unwrap();
        assert_eq!(near.read(&mut [0; 64]).unwrap(), 0);
        near.write_all(b"still here").unwrap();
        drop(near);
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"still here");
    });
}

#[test]
fn reset_connection_fails_the_waiting_read() {
    for_each_configuration_in_fibre(2, || {
        let (near, far) = connection();
        // Returns the error of the read that waits, whether the next read returned any bytes, and
        // the error of a write after that.
        let reader = crate::spawn(move || {
            let error = near.read(&mut [0; 64]).unwrap_err();
            let next_read = near.read(&mut [0; 64]);
            let write_error = near.write(b"more").unwrap_err();
            let has_read_more = next_read.is_ok_and(|len| len > 0);
            (error.kind(), has_read_more, write_error.kind())
        });
        crate::yield_now();
        // A linger time of 0 makes the kernel reset the connection when the socket is closed.
        rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
        drop(far);
        let (error, has_read_more, write_error) = reader.join().unwrap();
        assert_eq!(error, ErrorKind::ConnectionReset);
        assert!(!has_read_more);
        assert!([ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&write_error));
    });
}

#[test]
fn connecting_without_a_listener_is_refused() {
    for_each_configuration_in_fibre(2, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let refused = Socket::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

/// The kernel reports each error of a datagram socket to one call only. So after a read that has
/// failed, the next read must wait for a datagram, and must not fail again.
#[test]
fn datagram_socket_waits_again_after_an_error() {
    for_each_configuration_in_fibre(1, || {
        let unused_address = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.connect(unused_address).unwrap();
        let peer = Socket::new(peer).unwrap();
        peer.set_timeout(Some(LONG));
        // No socket receives this datagram, so the kernel answers with an error.
        peer.write(b"hello").unwrap();
        let refused = peer.read(&mut [0; 64]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        peer.set_timeout(Some(Duration::from_millis(10)));
        let timed_out = peer.read(&mut [0; 64]).unwrap_err();
        assert_eq!(timed_out.kind(), ErrorKind::TimedOut);
    });
}

/// epoll reports a hang-up for a TCP socket that is not connected yet, as if the connection had
/// ended. Once the socket is connected, a read must wait for data nevertheless.
#[test]
fn read_waits_on_a_socket_that_was_registered_before_connecting() {
    for_each_configuration_in_fibre(1, || {
        let (listener, address) = listen();
        let early = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let early = Socket::new(early).unwrap();
        // No other fibre is ready, so the processor now polls epoll and receives the hang-up.
        crate::yield_to_all();
        match rustix::net::connect(early.inner(), &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => panic!("{error}"),
        }
        let peer = Socket::new(listener.accept().unwrap()).unwrap();
        early.set_timeout(Some(Duration::from_millis(10)));
        let timed_out = early.read(&mut [0; 64]).unwrap_err();
        assert_eq!(timed_out.kind(), ErrorKind::TimedOut);
        early.set_timeout(Some(LONG));
        let reader = crate::spawn(move || early.read(&mut [0; 64]).unwrap());
        crate::yield_now();
        peer.write_all(b"there").unwrap();
        assert_eq!(reader.join().unwrap(), 5);
    });
}

#[test]
fn descriptor_that_is_not_a_socket_is_refused() {
    for_each_configuration_in_fibre(1, || {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(Socket::new(file).is_err());
    });
}

/// A socket that was created in a runtime with rings (io_uring) cannot be waited for in a runtime
/// with epoll. A read there must fail, and must not wait for ever.
#[test]
fn socket_created_with_rings_fails_in_a_runtime_with_epoll() {
    let configuration_with = |wanted| {
        let mut configurations = configurations().into_iter();
        configurations.find(|&(_, io_backend)| io_backend == wanted)
    };
    let rings = configuration_with(IoBackend::Rings);
    let readiness = configuration_with(IoBackend::Readiness);
    let (Some(rings), Some(readiness)) = (rings, readiness) else {
        eprintln!("skipped: io_uring and epoll cannot both be used here");
        return;
    };
    let (rings, readiness) = (start(1, rings), start(1, readiness));
    let (near, _far) = UnixStream::pair().unwrap();
    let socket = rings.run(|| Socket::new(near).unwrap());
    let error = readiness.run(move || socket.read(&mut [0; 8]).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
