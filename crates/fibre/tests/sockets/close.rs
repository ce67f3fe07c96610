//! Ends and errors of connections.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use fibre::{IoBackend, Socket};
use rustix::net::{AddressFamily, SocketType};

use crate::each::{LONG, each_inside, kinds, start};
use crate::listen;

/// A connection over the loopback, both ends for fibres.
fn connection() -> (Socket<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let near = Socket::new(listener.accept().unwrap().0).unwrap();
    near.set_timeout(Some(LONG));
    (near, far)
}

#[test]
fn an_end_of_stream_with_the_last_data_is_detected() {
    use std::io::Write;
    each_inside(1, || {
        // Known to the processor before, or only with all there is.
        for yields in [0, 100] {
            let (near, mut far) = connection();
            (0..yields).for_each(|_| fibre::yield_now());
            far.write_all(b"bye").unwrap();
            drop(far);
            assert_eq!(near.read(&mut [0; 64]).unwrap(), 3);
            assert_eq!(near.read(&mut [0; 64]).unwrap(), 0);
            assert_eq!(near.read(&mut [0; 64]).unwrap(), 0);
            let (near, far) = UnixStream::pair().unwrap();
            let (near, mut far) = (Socket::new(near).unwrap(), far);
            near.set_timeout(Some(LONG));
            (0..yields).for_each(|_| fibre::yield_now());
            far.write_all(b"bye").unwrap();
            drop(far);
            assert_eq!(near.read(&mut [0; 64]).unwrap(), 3);
            assert_eq!(near.read(&mut [0; 64]).unwrap(), 0);
        }
    });
}

#[test]
fn after_half_an_end_the_other_half_goes_on() {
    use std::io::Read;
    each_inside(2, || {
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
fn a_reset_is_an_error_to_a_waiting_fibre() {
    each_inside(2, || {
        let (near, far) = connection();
        let reader = fibre::spawn(move || {
            let error = near.read(&mut [0; 64]).unwrap_err();
            let after = near.read(&mut [0; 64]);
            let written = near.write(b"more").unwrap_err();
            (error.kind(), after.is_ok_and(|len| len > 0), written.kind())
        });
        fibre::yield_now();
        rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO)).unwrap();
        drop(far);
        let (error, more, written) = reader.join().unwrap();
        assert_eq!(error, ErrorKind::ConnectionReset);
        assert!(!more);
        assert!([ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&written));
    });
}

#[test]
fn connecting_without_a_listener_is_refused() {
    each_inside(2, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let refused = Socket::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

/// The kernel tells of an error once; then it waits again, and not by looking all the time.
#[test]
fn after_an_error_a_socket_without_connections_waits_again() {
    each_inside(1, || {
        let nobody = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.connect(nobody).unwrap();
        let peer = Socket::new(peer).unwrap();
        peer.set_timeout(Some(LONG));
        peer.write(b"anybody?").unwrap();
        let refused = peer.read(&mut [0; 64]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        peer.set_timeout(Some(Duration::from_millis(10)));
        let waited = peer.read(&mut [0; 64]).unwrap_err();
        assert_eq!(waited.kind(), ErrorKind::TimedOut);
    });
}

/// Before it is connected the kernel says of a socket that it has ended.
#[test]
fn a_socket_known_before_it_is_connected_waits() {
    each_inside(1, || {
        let (listener, address) = listen();
        let early = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let early = Socket::new(early).unwrap();
        // The processor hears of it.
        fibre::sleep(Duration::from_millis(5)).unwrap();
        match rustix::net::connect(early.inner(), &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => panic!("{error}"),
        }
        let peer = Socket::new(listener.accept().unwrap()).unwrap();
        early.set_timeout(Some(Duration::from_millis(10)));
        let waited = early.read(&mut [0; 64]).unwrap_err();
        assert_eq!(waited.kind(), ErrorKind::TimedOut);
        early.set_timeout(Some(LONG));
        let reader = fibre::spawn(move || early.read(&mut [0; 64]).unwrap());
        fibre::yield_now();
        peer.write_all(b"there").unwrap();
        assert_eq!(reader.join().unwrap(), 5);
    });
}

#[test]
fn what_is_no_socket_is_refused_where_it_would_be_registered() {
    each_inside(1, || {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(Socket::new(file).is_err());
    });
}

/// A socket that waits by a ring waits for ever where there is none.
#[test]
fn a_socket_of_a_runtime_with_rings_is_refused_where_there_are_none() {
    let of = |wanted| kinds().into_iter().find(|&(_, kind)| kind == wanted);
    let (Some(rings), Some(readiness)) = (of(IoBackend::Rings), of(IoBackend::Readiness)) else {
        return;
    };
    let (rings, readiness) = (start(1, rings), start(1, readiness));
    let (near, _far) = UnixStream::pair().unwrap();
    let socket = rings.run(|| Socket::new(near).unwrap());
    let error = readiness.run(move || socket.read(&mut [0; 8]).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
