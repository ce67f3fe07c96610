use super::*;
use crate::socket::Listener;

const CONFIG: RingConfig = RingConfig {
    entries: 8,
    buffers: 4,
    buffer_len: 64,
};

fn ring() -> (Ring, ReceiveBuffers) {
    // SAFETY: each test closes its sockets after its ring is dropped, or after the last event.
    unsafe { Ring::new(CONFIG) }.unwrap()
}

/// Passes the events of the ring to `wanted` until it returns true. Panics after ten seconds.
fn until(ring: &mut Ring, mut wanted: impl FnMut(&mut Ring, Event) -> bool) {
    for _ in 0..1_000 {
        ring.wait(Some(DRAIN_WAIT_NS * 10)).unwrap();
        while let Some(event) = ring.next_event() {
            if wanted(ring, event) {
                return;
            }
        }
    }
    panic!("the expected events did not come");
}

#[test]
fn sent_bytes_are_received_in_reused_buffers_until_the_peer_closes() {
    Ring::probe().unwrap();
    let (source, target) = Stream::pair().unwrap();
    let (mut ring, receive_buffers) = ring();
    ring.receive(&source, 7);
    for turn in 0..100_u8 {
        ring.send(&target, 9, vec![turn; 50]);
        let (mut got, mut is_sent) = (Vec::new(), false);
        until(&mut ring, |_, event| {
            match event {
                Event::Received {
                    token,
                    bytes,
                    stays_active,
                } => {
                    assert!(token == 7 && stays_active);
                    // The bytes may be split between two buffers, and so between two events.
                    got.extend_from_slice(receive_buffers.bytes(&bytes));
                    receive_buffers.give_back(bytes);
                }
                Event::Sent {
                    token,
                    bytes,
                    result,
                } => {
                    assert_eq!((token, bytes), (9, vec![turn; 50]));
                    result.unwrap();
                    is_sent = true;
                }
                other => panic!("{other:?}"),
            }
            got.len() >= 50 && is_sent
        });
        assert_eq!(got, [turn; 50]);
    }
    drop(target);
    until(&mut ring, |_, event| {
        matches!(
            event,
            Event::ReceiveEnded {
                how: ReceiveEnd::Closed,
                ..
            }
        )
    });
    assert_eq!(ring.in_flight, 0);
}

#[test]
fn receive_without_free_buffer_ends_and_can_be_restarted() {
    let (source, target) = Stream::pair().unwrap();
    let (mut ring, receive_buffers) = ring();
    ring.receive(&source, 1);
    target.send(&[b'x'; 1000]).unwrap();
    let (mut kept, mut total, mut starved) = (Vec::new(), 0, 0);
    until(&mut ring, |ring, event| {
        match event {
            Event::Received {
                bytes,
                stays_active,
                ..
            } => {
                total += bytes.len();
                kept.push(bytes);
                if !stays_active {
                    ring.receive(&source, 1);
                }
            }
            Event::ReceiveEnded {
                how: ReceiveEnd::NoBuffer,
                ..
            } => {
                starved += 1;
                kept.drain(..)
                    .for_each(|bytes| receive_buffers.give_back(bytes));
                ring.receive(&source, 1);
            }
            other => panic!("{other:?}"),
        }
        total == 1000
    });
    assert!(starved > 0);
}

#[test]
fn single_receive_takes_one_buffer_and_leaves_the_other_bytes_in_the_socket() {
    let (source, target) = Stream::pair().unwrap();
    let (mut ring, receive_buffers) = ring();
    target.send(&[b'x'; 100]).unwrap();
    for len in [64, 36] {
        ring.receive_once(&source, 4);
        until(&mut ring, |_, event| match event {
            Event::Received {
                token: 4,
                bytes,
                stays_active: false,
            } => {
                assert_eq!(bytes.len(), len);
                receive_buffers.give_back(bytes);
                true
            }
            other => panic!("{other:?}"),
        });
        ring.wait(Some(DRAIN_WAIT_NS)).unwrap();
        assert!(ring.next_event().is_none());
    }
}

#[test]
fn stopped_receive_takes_no_bytes_and_the_next_receive_gets_them() {
    let (source, target) = Stream::pair().unwrap();
    let (mut ring, receive_buffers) = ring();
    ring.receive(&source, 1);
    ring.wait(Some(0)).unwrap();
    ring.stop_receiving(1);
    until(&mut ring, |_, event| {
        matches!(
            event,
            Event::ReceiveEnded {
                how: ReceiveEnd::Stopped,
                ..
            }
        )
    });
    target.send(b"later").unwrap();
    ring.wait(Some(DRAIN_WAIT_NS)).unwrap();
    assert!(ring.next_event().is_none());
    ring.receive(&source, 2);
    until(&mut ring, |_, event| match event {
        Event::Received { token, bytes, .. } => {
            assert_eq!((token, receive_buffers.bytes(&bytes)), (2, &b"later"[..]));
            receive_buffers.give_back(bytes);
            true
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn more_operations_than_the_submission_queue_holds_are_submitted() {
    let pairs: Vec<_> = (0..100).map(|_| Stream::pair().unwrap()).collect();
    let (mut ring, _inputs) = ring();
    for (token, (_, target)) in pairs.iter().enumerate() {
        ring.send(target, token as u32, b"hello".to_vec());
    }
    let mut sent = [false; 100];
    until(&mut ring, |_, event| {
        if let Event::Sent { token, result, .. } = event {
            result.unwrap();
            sent[token as usize] = true;
        }
        sent.iter().all(|&it| it)
    });
    let mut buffer = [0; 8];
    for (source, _) in &pairs {
        assert_eq!(source.recv(&mut buffer).unwrap(), 5);
    }
}

#[test]
fn long_send_to_a_slow_peer_arrives_completely() {
    let (source, target) = Stream::pair().unwrap();
    let (mut ring, _inputs) = ring();
    let bytes: Vec<u8> = (0..4_000_000_u32).map(|at| (at % 251) as u8).collect();
    ring.send(&target, 3, bytes.clone());
    let (mut got, mut is_sent, mut buffer) = (Vec::new(), false, [0; 65_536]);
    while !is_sent || got.len() < bytes.len() {
        ring.wait(Some(0)).unwrap();
        while let Some(event) = ring.next_event() {
            is_sent |= matches!(event, Event::Sent { result: Ok(()), .. });
        }
        if let Ok(len) = source.recv(&mut buffer) {
            got.extend_from_slice(&buffer[..len]);
        }
    }
    assert!(got == bytes);
}

#[test]
fn dropping_a_ring_cancels_a_send_to_a_peer_that_does_not_read() {
    let (_source, target) = Stream::pair().unwrap();
    let (mut ring, _inputs) = ring();
    ring.send(&target, 3, vec![0; 10_000_000]);
    ring.wait(Some(0)).unwrap();
    let start = std::time::Instant::now();
    drop(ring);
    let took = start.elapsed();
    assert!(took < std::time::Duration::from_millis(150), "{took:?}");
}

#[test]
fn multishot_watch_reports_each_wake_up() {
    use crate::poll::Waker;
    let waker = Waker::new().unwrap();
    let (mut ring, _inputs) = ring();
    ring.watch_readable(&waker, 6);
    for _ in 0..2 {
        waker.wake();
        until(&mut ring, |_, event| {
            waker.clear();
            matches!(
                event,
                Event::Ready {
                    token: 6,
                    stays_active: true
                }
            )
        });
    }
}

#[test]
fn bytes_sent_over_tcp_are_received() {
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    let client = Stream::connect(listener.address().unwrap()).unwrap();
    let (mut ring, receive_buffers) = ring();
    ring.watch_readable(&listener, 5);
    until(&mut ring, |_, event| {
        matches!(event, Event::Ready { token: 5, .. })
    });
    let server = listener.accept().unwrap();
    ring.receive(&server, 8);
    client.send(b"over tcp").unwrap();
    until(&mut ring, |_, event| match event {
        Event::Received {
            token: 8, bytes, ..
        } => {
            assert_eq!(receive_buffers.bytes(&bytes), b"over tcp");
            receive_buffers.give_back(bytes);
            true
        }
        other => panic!("{other:?}"),
    });
    // A watch and a receive are in progress.
    drop(ring);
}
