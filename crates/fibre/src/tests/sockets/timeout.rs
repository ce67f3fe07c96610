//! Waits that end by a timeout or by cancellation.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};

use crate::tests::configurations::{LONG, for_each_configuration_in_fibre};
use crate::tests::sockets::listen;
use crate::{JoinHandle, Semaphore, Socket};

/// A timeout that is meant to expire.
const SHORT: Duration = Duration::from_millis(10);

/// Creates two connected Unix sockets.
fn pair() -> (Socket<UnixStream>, Socket<UnixStream>) {
    let (near, far) = UnixStream::pair().unwrap();
    (Socket::new(near).unwrap(), Socket::new(far).unwrap())
}

#[test]
fn socket_waits_time_out_and_the_socket_stays_usable() {
    for_each_configuration_in_fibre(2, || {
        let (near, far) = pair();
        near.set_timeout(Some(SHORT));
        let before = Instant::now();
        assert_eq!(
            near.read(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        assert!(before.elapsed() >= SHORT);
        let timed_out = near.exchange(b"hello", &mut [0; 8]).unwrap_err();
        assert_eq!(timed_out.kind(), ErrorKind::TimedOut);
        assert_eq!(
            near.wait_readable().unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        far.write_all(b"here").unwrap();
        near.set_timeout(Some(LONG));
        near.wait_readable().unwrap();
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 4);
        // The timeout also applies to sending, once the socket has no space.
        near.set_timeout(Some(SHORT));
        let timed_out = loop {
            if let Err(error) = near.write(&[7; 65_536]) {
                break error;
            }
        };
        assert_eq!(timed_out.kind(), ErrorKind::TimedOut);
        let (listener, _) = listen();
        listener.set_timeout(Some(SHORT));
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::TimedOut);
    });
}

/// A fibre sends a byte about every 50 µs, and the reads of the other fibre time out after 60 µs.
/// So the next byte often arrives when a read is timing out. Each byte must be read once, and in
/// order.
#[test]
fn timeout_that_races_with_data_loses_no_byte() {
    for_each_configuration_in_fibre(2, || {
        const BYTES: usize = 300;
        let (near, far) = pair();
        let writer = crate::spawn(move || {
            for n in 0..BYTES {
                crate::sleep(Duration::from_micros(50)).unwrap();
                far.write_all(&[n as u8]).unwrap();
            }
            far
        });
        near.set_timeout(Some(Duration::from_micros(60)));
        let mut count = 0;
        while count < BYTES {
            let mut byte = [0; 1];
            match near.read(&mut byte) {
                Ok(1) => {
                    assert_eq!(byte[0], count as u8);
                    count += 1;
                }
                Ok(_) => panic!("the peer closed the connection"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}"),
            }
        }
        drop(writer.join().unwrap());
    });
}

/// Cancels a fibre that is waiting or is about to wait, and checks that its wait fails. The fibre
/// releases a permit of `has_begun` just before it waits. (In the tests, `begins` is the same
/// semaphore.)
fn cancel<T: Send + 'static>(has_begun: &Semaphore, fibre: JoinHandle<std::io::Result<T>>) {
    has_begun.acquire();
    // Meanwhile the fibre probably begins to wait.
    (0..20).for_each(|_| crate::yield_now());
    fibre.fibre().cancel();
    let error = fibre.join().unwrap().map(drop).unwrap_err();
    assert!(crate::is_cancelled(&error), "{error}");
}

#[test]
fn cancellation_ends_socket_waits() {
    for_each_configuration_in_fibre(2, || {
        let has_begun = Arc::new(Semaphore::new(0));
        let (near, _far) = pair();
        let begins = Arc::clone(&has_begun);
        let reader = crate::spawn(move || {
            begins.release();
            near.read(&mut [0; 8])
        });
        cancel(&has_begun, reader);
        let (near, _far) = pair();
        let begins = Arc::clone(&has_begun);
        let writer = crate::spawn(move || {
            begins.release();
            // 16 MiB do not fit in the buffers of the kernel.
            near.write_all(&vec![7; 16 << 20])
        });
        cancel(&has_begun, writer);
        let (near, _far) = pair();
        let begins = Arc::clone(&has_begun);
        let exchanger = crate::spawn(move || {
            begins.release();
            near.exchange(b"hello", &mut [0; 8])
        });
        cancel(&has_begun, exchanger);
        let (listener, _) = listen();
        let begins = Arc::clone(&has_begun);
        let acceptor = crate::spawn(move || {
            begins.release();
            listener.accept()
        });
        cancel(&has_begun, acceptor);
        let (near, _far) = pair();
        let begins = Arc::clone(&has_begun);
        let waiter = crate::spawn(move || {
            begins.release();
            near.wait_readable()
        });
        cancel(&has_begun, waiter);
    });
}

/// The listener accepts no connection, and its backlog (the queue of connections to be accepted)
/// has the minimum length. So the kernel completes only a few connections, and the fibres that open
/// the other connections wait in `connect`.
#[test]
fn cancellation_ends_connecting() {
    for_each_configuration_in_fibre(2, || {
        let listener = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        rustix::net::bind(&listener, &any).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = rustix::net::getsockname(&listener).unwrap();
        let address = std::net::SocketAddr::try_from(address).unwrap();
        let connecting: Vec<_> = (0..5)
            .map(|_| crate::spawn(move || Socket::connect(address)))
            .collect();
        // Meanwhile the fibres begin to connect.
        (0..20).for_each(|_| crate::yield_now());
        connecting.iter().for_each(|fibre| fibre.fibre().cancel());
        let results: Vec<_> = connecting
            .into_iter()
            .map(|fibre| fibre.join().unwrap())
            .collect();
        let mut errors = results.iter().filter_map(|result| result.as_ref().err());
        assert!(errors.clone().count() >= 1, "no connection had to wait");
        assert!(errors.all(crate::is_cancelled));
    });
}
