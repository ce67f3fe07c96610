//! Waits that end by a time, or because the fibre is told to end.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fibre::{JoinHandle, Semaphore, Socket};
use rustix::net::{AddressFamily, SocketType};

use crate::each::{LONG, each_inside};
use crate::listen;

const SHORT: Duration = Duration::from_millis(10);

fn pair() -> (Socket<UnixStream>, Socket<UnixStream>) {
    let (near, far) = UnixStream::pair().unwrap();
    (Socket::new(near).unwrap(), Socket::new(far).unwrap())
}

#[test]
fn a_wait_ends_at_its_time_and_the_next_begins_anew() {
    each_inside(2, || {
        let (near, far) = pair();
        near.set_timeout(Some(SHORT));
        let before = Instant::now();
        assert_eq!(
            near.read(&mut [0; 8]).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        assert!(before.elapsed() >= SHORT);
        let waited = near.exchange(b"anybody?", &mut [0; 8]).unwrap_err();
        assert_eq!(waited.kind(), ErrorKind::TimedOut);
        assert_eq!(
            near.wait_readable().unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        far.write_all(b"here").unwrap();
        near.set_timeout(Some(LONG));
        near.wait_readable().unwrap();
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 4);
        // And the other way, when there is no more room.
        near.set_timeout(Some(SHORT));
        let full = loop {
            if let Err(error) = near.write(&[7; 65_536]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::TimedOut);
        let (listener, _) = listen();
        listener.set_timeout(Some(SHORT));
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::TimedOut);
    });
}

/// Data and the time come together: each byte arrives once, and no other call is ended for it.
#[test]
fn a_late_timeout_ends_no_other_wait() {
    each_inside(2, || {
        const BYTES: usize = 300;
        let (near, far) = pair();
        let writer = fibre::spawn(move || {
            for n in 0..BYTES {
                fibre::sleep(Duration::from_micros(50)).unwrap();
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
                Ok(_) => panic!("the peer ended"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}"),
            }
        }
        drop(writer.join().unwrap());
    });
}

/// Tells a fibre to end, in its wait or on the way to it.
fn cancel<T: Send + 'static>(is_there: &Semaphore, fibre: JoinHandle<std::io::Result<T>>) {
    is_there.acquire();
    (0..20).for_each(|_| fibre::yield_now());
    fibre.fibre().cancel();
    let error = fibre.join().unwrap().map(drop).unwrap_err();
    assert!(fibre::is_cancelled(&error), "{error}");
}

#[test]
fn cancelling_ends_waits() {
    each_inside(2, || {
        let there = Arc::new(Semaphore::new(0));
        let tell = || Arc::clone(&there);
        let (near, _far) = pair();
        let tells = tell();
        let reads = fibre::spawn(move || {
            tells.release();
            near.read(&mut [0; 8])
        });
        cancel(&there, reads);
        let (near, _far) = pair();
        let tells = tell();
        let writes = fibre::spawn(move || {
            tells.release();
            near.write_all(&vec![7; 16 << 20])
        });
        cancel(&there, writes);
        let (near, _far) = pair();
        let tells = tell();
        let exchanges = fibre::spawn(move || {
            tells.release();
            near.exchange(b"anybody?", &mut [0; 8])
        });
        cancel(&there, exchanges);
        let (listener, _) = listen();
        let tells = tell();
        let accepts = fibre::spawn(move || {
            tells.release();
            listener.accept()
        });
        cancel(&there, accepts);
        let (near, _far) = pair();
        let tells = tell();
        let waits = fibre::spawn(move || {
            tells.release();
            near.wait_readable()
        });
        cancel(&there, waits);
    });
}

/// Where nobody accepts, the kernel lets few in and the others wait.
#[test]
fn cancelling_ends_connects() {
    each_inside(2, || {
        let listener = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        rustix::net::bind(&listener, &any).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = rustix::net::getsockname(&listener).unwrap();
        let address = std::net::SocketAddr::try_from(address).unwrap();
        let connecting: Vec<_> = (0..5)
            .map(|_| fibre::spawn(move || Socket::connect(address)))
            .collect();
        (0..20).for_each(|_| fibre::yield_now());
        connecting.iter().for_each(|fibre| fibre.fibre().cancel());
        let ends: Vec<_> = connecting
            .into_iter()
            .map(|fibre| fibre.join().unwrap())
            .collect();
        let mut errors = ends.iter().filter_map(|end| end.as_ref().err());
        assert!(errors.clone().count() >= 1, "all were let in");
        assert!(errors.all(fibre::is_cancelled));
    });
}
