//! Panics, and connections that keep too much memory.

use std::sync::Barrier;

use sys::socket::Stream;

use curtail_tests::in_process::{BUFFERED_MAX, Fragile, Served, answer, everywhere, request};
use runtime::limits::{IDLE_BUFFER_LEN, RECEIVE_LEN};
use runtime::{ConnectionSnapshot, Kind, Panicked};

#[test]
fn a_panic_closes_one_connection_and_no_other() {
    everywhere(|start| {
        let served = start(Fragile::default());
        let (other, fragile) = (served.connect(), served.connect());
        assert_eq!(request(&other, b"set a 0 0 1\r\n1\r\n"), b"STORED\r\n");
        assert_eq!(request(&fragile, b"stats reset\r\n"), b"");
        assert_eq!(
            request(&other, b"get a\r\n"),
            b"VALUE a 0 1\r\n1\r\nEND\r\n"
        );
        // The same worker serves new connections.
        assert_eq!(request(&served.connect(), b"mn\r\n"), b"MN\r\n");
        served.until("counted", |snapshot| snapshot.panics == 1);
        drop((other, fragile));
        served.until("empty", |snapshot| snapshot.current == 0);
        assert_eq!(served.counts.snapshot().restarts, 0);
        assert_eq!(served.sockets.running.stop(), Err(Panicked));
    });
}

/// Other requests of the same burst were already prepared. Each still gets exactly one full reply.
#[test]
fn a_panic_leaves_the_others_of_its_burst_their_answers() {
    everywhere(|start| {
        let served = start(Fragile {
            gate: Some(Barrier::new(2)),
            ..Fragile::default()
        });
        let gate = served.control.gate.as_ref().unwrap();
        let holding = served.connect();
        let all: Vec<_> = (0..8).map(|_| served.connect()).collect();
        for stream in &all {
            assert_eq!(request(stream, b"mn\r\n"), b"MN\r\n");
        }
        // The other connections send while the worker answers this one.
        holding.send(b"stats settings\r\n").unwrap();
        gate.wait();
        for (number, stream) in all.iter().enumerate() {
            let question = match number {
                3 => &b"mn\r\nstats reset\r\nmn\r\n"[..],
                // The beginning of a line: parsed, and not answered yet.
                number if number % 2 == 0 => b"mn\r\nget unfinished",
                _ => b"mn\r\n",
            };
            stream.send(question).unwrap();
        }
        gate.wait();
        assert_eq!(answer(&holding), b"END\r\n");
        for (number, stream) in all.iter().enumerate() {
            match number {
                3 => {}
                number if number % 2 == 0 => {
                    assert_eq!(answer(stream), b"MN\r\n");
                    assert_eq!(request(stream, b"-key\r\nmn\r\n"), b"END\r\nMN\r\n");
                }
                _ => assert_eq!(answer(stream), b"MN\r\n"),
            }
        }
        served.until("closed", |snapshot| {
            (snapshot.panics, snapshot.current) == (1, 8)
        });
        assert_eq!(served.sockets.running.stop(), Err(Panicked));
    });
}

/// A panic between bursts must not block new connections.
#[test]
fn a_worker_that_panics_restarts() {
    everywhere(|start| {
        let served = start(Fragile::default());
        let all: Vec<_> = (0..8).map(|_| served.connect()).collect();
        for stream in &all {
            assert_eq!(request(stream, b"mn\r\n"), b"MN\r\n");
        }
        // An incomplete upload holds store memory.
        all[1].send(b"set half 0 0 20000\r\nhalf").unwrap();
        all[0].send(b"verbosity 1 noreply\r\n").unwrap();
        // Writing to memory that is not populated causes store maintenance.
        let is_over = |snapshot: &ConnectionSnapshot| snapshot.restarts + snapshot.panics > 0;
        let mut writer = served.connect();
        for number in 0..2000 {
            if is_over(&served.counts.snapshot()) {
                break;
            }
            let socket = format!("set k{number} 0 0 30000\r\n");
            let set = [socket.as_bytes(), &[b'x'; 30_000], b"\r\n"].concat();
            if writer.send(&set).is_err() || answer(&writer).is_empty() {
                writer = served.connect();
            }
        }
        served.until("panicked", is_over);
        if let Kind::Events | Kind::Rings = served.kind {
            served.until("begun anew", |snapshot| snapshot.restarts == 1);
            for stream in &all {
                assert_eq!(answer(stream), b"");
            }
        }
        drop((all, writer));
        // New connections do not wait, and the counts decrease.
        for _ in 0..4 {
            assert_eq!(request(&served.connect(), b"mn\r\n"), b"MN\r\n");
        }
        served.until("empty", |snapshot| snapshot.current == 0);
        let snapshot = served.counts.snapshot();
        match served.kind {
            Kind::Events | Kind::Rings => assert!(snapshot.panics >= 8, "{snapshot:?}"),
            Kind::Threads | Kind::Fibres => assert_eq!(snapshot.panics + snapshot.restarts, 1),
            Kind::Bypass => unreachable!("it is not over sockets"),
        }
        assert_eq!(served.sockets.running.stop(), Err(Panicked));
    });
}

/// The beginning of a line, with at least this many bytes.
fn unfinished(len: usize) -> Vec<u8> {
    [&b"get"[..], &b" key".repeat(len / 4)].concat()
}

/// Sends all bytes, however long the server takes. Returns false if the server has closed the
/// connection.
fn send_all(stream: &Stream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match stream.send(bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::yield_now();
            }
            Err(_) => return false,
        }
    }
    true
}

/// Whether the server has closed a connection without pending replies.
fn is_closed(stream: &Stream) -> bool {
    match stream.recv(&mut [0; 16]) {
        Ok(len) => len == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

fn assert_within_bound(served: &Served) {
    let snapshot = served.counts.snapshot();
    assert_eq!(snapshot.buffered_max, BUFFERED_MAX);
    assert!(
        snapshot.buffered <= BUFFERED_MAX,
        "{}: {snapshot:?}",
        served.kind.name()
    );
}

#[test]
fn unfinished_lines_and_answers_not_taken_share_one_bound() {
    everywhere(|start| {
        let served = start(Fragile::default());
        let witness = served.connect();
        let set = [&b"set big 0 0 10000\r\n"[..], &[b'x'; 10_000], b"\r\n"].concat();
        assert_eq!(request(&witness, &set), b"STORED\r\n");
        let (socket, gets) = (unfinished(40_000), b"get big\r\n".repeat(100));
        let mut all = Vec::new();
        // Together they would keep several megabytes, and so would most kinds alone.
        for number in 0..80 {
            let stream = served.connect_unix();
            send_all(&stream, if number % 2 == 0 { &socket } else { &gets });
            all.push(stream);
            assert_within_bound(&served);
            assert_eq!(request(&witness, b"mn\r\n"), b"MN\r\n");
        }
        served.until("reached", |snapshot| snapshot.buffered_closed > 0);
        assert_within_bound(&served);
        served.until("kept", |snapshot| snapshot.buffered > BUFFERED_MAX / 4);
        assert_eq!(served.counts.snapshot().panics, 0);
        // Closed connections leave. The others continue when their peers do.
        served.until("gone", |it| it.current + it.buffered_closed == 81);
        drop(all);
        served.until("given back", |it| (it.buffered, it.current) == (0, 1));
        assert_eq!(request(&witness, b"mn\r\n"), b"MN\r\n");
        served.sockets.running.stop().unwrap();
    });
}

#[test]
fn the_connection_that_keeps_most_is_closed_first() {
    everywhere(|start| {
        let served = start(Fragile::default());
        let large = served.connect();
        assert!(send_all(&large, &unfinished(60_000)));
        served.until("kept", |snapshot| snapshot.buffered >= 60_000);
        let mut small = Vec::new();
        while served.counts.snapshot().buffered_closed == 0 {
            let stream = served.connect();
            let before = served.counts.snapshot().buffered;
            assert!(send_all(&stream, &unfinished(10_000)));
            small.push(stream);
            served.until("kept", |it| {
                it.buffered_closed > 0 || it.buffered >= before + 10_000
            });
        }
        served.until("closed", |snapshot| snapshot.current == small.len() as u64);
        assert!(is_closed(&large), "{}", served.kind.name());
        assert_eq!(served.counts.snapshot().buffered_closed, 1);
        // The lines that the others began can still be completed.
        for stream in &small {
            assert!(!is_closed(stream), "{}", served.kind.name());
            assert_eq!(
                request(stream, b"\r\n"),
                b"END\r\n",
                "{}",
                served.kind.name()
            );
        }
        // A task keeps its long receive buffer until the next short request.
        for stream in &small {
            assert_eq!(request(stream, b"mn\r\n"), b"MN\r\n");
        }
        served.until("given back", |snapshot| snapshot.buffered == 0);
        served.sockets.running.stop().unwrap();
    });
}

/// Tasks have a receive buffer each, and keep a long one while they sleep.
#[test]
fn long_receive_buffers_of_sleeping_tasks_count() {
    everywhere(|start| {
        let served = start(Fragile::default());
        if matches!(served.kind, Kind::Threads | Kind::Fibres) {
            let stream = served.connect();
            // These requests fill the initial buffer, so the task makes a longer one.
            let requests = b"mn\r\n".repeat(IDLE_BUFFER_LEN / 4);
            let mut received = request(&stream, &requests).len();
            while received < requests.len() {
                received += answer(&stream).len();
            }
            let added = (RECEIVE_LEN - IDLE_BUFFER_LEN) as u64;
            served.until("kept", |it| it.buffered >= added);
            assert_eq!(request(&stream, b"mn\r\n"), b"MN\r\n");
            served.until("given back", |it| it.buffered == 0);
        }
        served.sockets.running.stop().unwrap();
    });
}

/// Regression: the rest of a request that was longer than the initial buffer made the buffer short
/// again. So each such request changed the counted bytes twice, under a lock of all tasks.
#[test]
fn receive_buffer_stays_long_while_requests_are_long() {
    everywhere(|start| {
        let served = start(Fragile::default());
        if matches!(served.kind, Kind::Threads | Kind::Fibres) {
            let stream = served.connect();
            // The initial buffer holds more than half of each request.
            let len = IDLE_BUFFER_LEN * 3 / 2;
            let set = [
                format!("set a 0 0 {len}\r\n").as_bytes(),
                &vec![b'x'; len],
                b"\r\n",
            ]
            .concat();
            let get = [&unfinished(len)[..], b"\r\n"].concat();
            let added = (RECEIVE_LEN - IDLE_BUFFER_LEN) as u64;
            for (long, reply) in [(set, &b"STORED\r\n"[..]), (get, b"END\r\n")] {
                assert_eq!(request(&stream, &long), reply);
                served.until("kept", |it| it.buffered >= added);
                for _ in 0..100 {
                    assert_eq!(request(&stream, &long), reply);
                    let kept = served.counts.snapshot().buffered;
                    assert!(kept >= added, "{}: {kept}", served.kind.name());
                }
                assert_eq!(request(&stream, b"mn\r\n"), b"MN\r\n");
                served.until("given back", |it| it.buffered == 0);
            }
        }
        served.sockets.running.stop().unwrap();
    });
}
