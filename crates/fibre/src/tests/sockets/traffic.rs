//! Traffic over sockets: over many connections, with much data, with datagrams, and in fibres that
//! move between processors.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::net::sockopt;

use crate::Socket;
use crate::tests::configurations::{LONG, for_each_configuration, for_each_configuration_in_fibre};
use crate::tests::sockets::listen;

/// Sends back all received bytes, until the peer closes the connection. Returns the number of
/// reads.
fn echo(socket: &Socket<impl AsFd>) -> usize {
    let (mut bytes, mut reads) = ([0; 512], 0);
    loop {
        match socket.read(&mut bytes).unwrap() {
            0 => return reads,
            len => socket.write_all(&bytes[..len]).unwrap(),
        }
        reads += 1;
    }
}

/// Sends `rounds` messages of different lengths to an echo server, and checks that each is sent
/// back unchanged. `seed` varies the lengths and the contents.
fn exchange_messages(socket: &Socket<impl AsFd>, seed: usize, rounds: usize) {
    let mut answer = [0; 2048];
    for round in 0..rounds {
        let len = 1 + (seed * 31 + round * 257) % answer.len();
        let message: Vec<u8> = (0..len).map(|n| (n + seed + round) as u8).collect();
        let mut received = socket.exchange(&message, &mut answer[..len]).unwrap();
        while received < len {
            let more = socket.read(&mut answer[received..len]).unwrap();
            assert!(more > 0, "the peer closed the connection");
            received += more;
        }
        assert_eq!(answer[..len], message[..]);
    }
}

/// Starts an echo server, opens TCP connections to it, and exchanges `rounds` messages over each
/// connection.
fn echo_over_tcp(connections: usize, rounds: usize) {
    let (listener, address) = listen();
    let acceptor = crate::spawn(move || {
        let served: Vec<_> = (0..connections)
            .map(|_| {
                let socket = Socket::new(listener.accept().unwrap()).unwrap();
                // Without this option, the kernel would delay the second part of an answer until
                // the peer has acknowledged the first part. The kernel also delays this
                // acknowledgement, so each message would take tens of milliseconds.
                sockopt::set_tcp_nodelay(&socket, true).unwrap();
                crate::spawn(move || echo(&socket))
            })
            .collect();
        served
            .into_iter()
            .for_each(|fibre| assert!(fibre.join().is_ok()));
    });
    let clients: Vec<_> = (0..connections)
        .map(|seed| {
            crate::spawn(move || {
                let socket = Socket::connect(address).unwrap();
                sockopt::set_tcp_nodelay(&socket, true).unwrap();
                exchange_messages(&socket, seed, rounds);
            })
        })
        .collect();
    clients.into_iter().for_each(|fibre| fibre.join().unwrap());
    acceptor.join().unwrap();
}

#[test]
fn messages_over_tcp_are_echoed() {
    const CONNECTIONS: usize = 50;
    const ROUNDS: usize = 40;
    for_each_configuration_in_fibre(1, || echo_over_tcp(CONNECTIONS, ROUNDS));
    for_each_configuration_in_fibre(3, || echo_over_tcp(CONNECTIONS, ROUNDS));
}

/// Raises the limit of open descriptors to the maximum that this process may set. Returns the
/// limit.
fn raise_descriptor_limit() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a local variable, which nothing else uses during the call.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the pointer is to a local variable, which nothing else uses during the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        limit.rlim_cur = before;
    }
    limit.rlim_cur as usize
}

#[test]
fn messages_over_up_to_a_thousand_connections_are_echoed() {
    // A connection takes two descriptors of this process, one for each end. Half of the descriptors
    // and 200 more are left for the tests that run at the same time.
    let connections = ((raise_descriptor_limit() - 200) / 4).min(1000);
    let rounds = 3;
    for_each_configuration(2, |runtime| {
        runtime.run(move || echo_over_tcp(connections, rounds));
    });
}

#[test]
fn messages_over_unix_sockets_are_echoed() {
    const ROUNDS: usize = 20;
    for_each_configuration_in_fibre(2, || {
        let pairs: Vec<_> = (0..100)
            .map(|seed| {
                let (near, far) = UnixStream::pair().unwrap();
                crate::spawn(move || {
                    let (near, far) = (Socket::new(near).unwrap(), Socket::new(far).unwrap());
                    let echo = crate::spawn(move || echo(&far));
                    exchange_messages(&near, seed, ROUNDS);
                    drop(near);
                    assert!(echo.join().unwrap() >= ROUNDS);
                })
            })
            .collect();
        pairs.into_iter().for_each(|fibre| fibre.join().unwrap());
    });
}

/// There is only one *processor* (thread that runs fibres). The writer fills the send buffer. If it
/// then blocked the processor, the reader would never run.
#[test]
fn full_send_buffer_blocks_only_its_fibre() {
    for_each_configuration_in_fibre(1, || {
        const LEN: usize = 4 << 20;
        let (near, far) = UnixStream::pair().unwrap();
        let (near, far) = (Socket::new(near).unwrap(), Socket::new(far).unwrap());
        let writer = crate::spawn(move || {
            let bytes: Vec<u8> = (0..LEN).map(|n| (n % 251) as u8).collect();
            near.write_all(&bytes).unwrap();
        });
        let (mut bytes, mut at) = (vec![0; 10_000], 0);
        loop {
            let len = far.read(&mut bytes).unwrap();
            if len == 0 {
                break;
            }
            let is_expected = |(n, &byte): (usize, &u8)| byte == ((at + n) % 251) as u8;
            assert!(bytes[..len].iter().enumerate().all(is_expected));
            at += len;
            crate::yield_now();
        }
        assert_eq!(at, LEN);
        writer.join().unwrap();
    });
}

#[test]
fn exchange_sends_more_than_fits_in_the_send_buffer() {
    for_each_configuration_in_fibre(2, || {
        const LEN: usize = 3 << 20;
        let (near, far) = UnixStream::pair().unwrap();
        let (near, far) = (Socket::new(near).unwrap(), Socket::new(far).unwrap());
        let peer = crate::spawn(move || {
            let (mut bytes, mut left) = (vec![0; 65_536], LEN);
            while left > 0 {
                left -= far.read(&mut bytes).unwrap();
            }
            far.write_all(b"all").unwrap();
        });
        let mut answer = [0; 8];
        assert_eq!(near.exchange(&vec![7; LEN], &mut answer).unwrap(), 3);
        peer.join().unwrap();
    });
}

#[test]
fn all_simultaneous_connections_are_accepted() {
    const PEERS: usize = 200;
    for_each_configuration(2, |runtime| {
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        // Passes the address of the server to this thread.
        let (sender, receiver) = std::sync::mpsc::channel();
        let server = runtime.spawn(move || {
            let (listener, address) = listen();
            sender.send(address).unwrap();
            let peers: Vec<_> = (0..PEERS).map(|_| listener.accept().unwrap()).collect();
            count.store(peers.len(), Ordering::Relaxed);
        });
        let address = receiver.recv().unwrap();
        let peers: Vec<_> = (0..PEERS)
            .map(|_| std::net::TcpStream::connect(address).unwrap())
            .collect();
        server.join().unwrap();
        drop(peers);
        assert_eq!(accepted.load(Ordering::Relaxed), PEERS);
    });
}

/// With epoll, a socket stays registered with the processor on which it was created. But the fibre
/// that uses the socket may move to another processor.
#[test]
fn socket_works_if_its_fibre_moves() {
    for_each_configuration_in_fibre(2, || {
        let pairs: Vec<_> = (0..8)
            .map(|seed| {
                crate::spawn(move || {
                    let (near, far) = UnixStream::pair().unwrap();
                    let (near, far) = (Socket::new(near).unwrap(), Socket::new(far).unwrap());
                    let echo = crate::spawn(move || echo(&far));
                    for round in 0..50 {
                        let messages = 1;
                        exchange_messages(&near, seed + round, messages);
                        // After a yield, the other processor may run the fibre.
                        (0..3).for_each(|_| crate::yield_now());
                    }
                    drop(near);
                    echo.join().unwrap();
                })
            })
            .collect();
        pairs
            .into_iter()
            .for_each(|fibre| assert!(fibre.join().is_ok()));
    });
}

/// A socket is dropped after the kernel has received data for it, before or after the processor
/// polls the kernel.
#[test]
fn socket_can_be_dropped_while_an_event_for_it_is_pending() {
    for_each_configuration_in_fibre(2, || {
        let fibres: Vec<_> = (0..8)
            .map(|_| {
                crate::spawn(|| {
                    for round in 0..100 {
                        let (near, far) = UnixStream::pair().unwrap();
                        let (near, far) = (Socket::new(near).unwrap(), Socket::new(far).unwrap());
                        far.write_all(b"data").unwrap();
                        if round % 3 == 0 {
                            crate::yield_now();
                        }
                        drop(near);
                        if round % 2 == 0 {
                            crate::yield_now();
                        }
                        drop(far);
                    }
                })
            })
            .collect();
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
    });
}

/// Each datagram is shorter than the buffer. If a read of a stream returned less than the buffer
/// has space for, no more input would be available. Here, the next datagram is already available.
#[test]
fn all_queued_datagrams_are_received() {
    for_each_configuration_in_fibre(2, || {
        let (near, far) = UnixDatagram::pair().unwrap();
        let (near, far) = (Socket::new(near).unwrap(), Socket::new(far).unwrap());
        near.set_timeout(Some(LONG));
        for round in 1..=5 {
            for len in 1..=4 {
                assert_eq!(far.write(&[7; 4][..len]).unwrap(), len);
            }
            for len in 1..=4 {
                assert_eq!(near.read(&mut [0; 64]).unwrap(), len, "round {round}");
            }
        }
        let (near, far) = (
            UdpSocket::bind("127.0.0.1:0"),
            UdpSocket::bind("127.0.0.1:0"),
        );
        let (near, far) = (near.unwrap(), far.unwrap());
        far.connect(near.local_addr().unwrap()).unwrap();
        let (near, far) = (Socket::new(near).unwrap(), Socket::new(far).unwrap());
        near.set_timeout(Some(LONG));
        for len in 1..=4 {
            far.write(&[7; 4][..len]).unwrap();
        }
        for len in 1..=4 {
            assert_eq!(near.read(&mut [0; 64]).unwrap(), len);
        }
    });
}

/// A fibre that waits for an event runs soon after a long run of another fibre, even if further
/// fibres are always ready.
#[test]
fn waiting_fibre_runs_soon_after_a_long_run_of_another_fibre() {
    for_each_configuration_in_fibre(1, || {
        let (near, far) = UnixStream::pair().unwrap();
        let (near, far) = (Socket::new(near).unwrap(), Socket::new(far).unwrap());
        let has_ended = Arc::new(AtomicUsize::new(0));
        let ended = Arc::clone(&has_ended);
        let busy = crate::spawn(move || {
            while ended.load(Ordering::Relaxed) == 0 {
                crate::yield_now();
            }
        });
        let ended = Arc::clone(&has_ended);
        let reader = crate::spawn(move || {
            far.read(&mut [0]).unwrap();
            ended.store(1, Ordering::Relaxed);
        });
        // The reader begins to wait, and the kernel gets its request.
        (0..4).for_each(|_| crate::yield_after_long_run());
        near.write_all(b"x").unwrap();
        let mut yields = 0;
        while has_ended.load(Ordering::Relaxed) == 0 {
            crate::yield_after_long_run();
            yields += 1;
        }
        // Without the polls, the processor would first run 61 fibres, thirty times each of the two.
        assert!(yields <= 8, "{yields}");
        busy.join().unwrap();
        reader.join().unwrap();
    });
}
