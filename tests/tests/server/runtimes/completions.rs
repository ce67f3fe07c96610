//! A service that waits for completions, on every runtime.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sys::poll::Interest;

use curtail_tests::in_process::{BUFFERED_MAX, Sockets, answer, everywhere_with, setup, wait};
use curtail_tests::toy::{Source, Toy};
use runtime::memory::Memory;
use runtime::{Kind, Panicked, Scheduler};

/// A running toy service.
struct ServedToy {
    sockets: Sockets,
    source: Arc<Source>,
}

impl ServedToy {
    /// Waits until `count` requests wait in the source.
    fn wait_for_requests(&self, count: usize) {
        self.sockets.until_true("requested", || {
            self.source.waiting.lock().unwrap().len() == count
        });
    }
}

fn everywhere(test: impl Fn(ServedToy)) {
    everywhere_with(|kind, scheduler| {
        let toy = Toy::default();
        let sockets = Sockets::start(kind, &toy, setup(scheduler), || None);
        test(ServedToy {
            sockets,
            source: toy.0,
        });
    });
}

#[test]
fn answers_come_in_order_whatever_the_order_of_completions() {
    everywhere(|served| {
        let (waiting, other) = (served.sockets.connect(), served.sockets.connect());
        waiting.send(b"one\ntwo\nthree\n").unwrap();
        // Only two requests are answered in a turn.
        served.wait_for_requests(2);
        let mut taken = served.source.take();
        let (leased, ticket) = taken.pop().unwrap();
        ticket.complete(leased);
        // Another connection is served meanwhile, by the same worker.
        other.send(b"other\n").unwrap();
        served.sockets.until_true("requested", || {
            let waiting = served.source.waiting.lock().unwrap();
            waiting.iter().any(|(leased, _)| leased.line == b"other\n")
        });
        let other_waiting = served.source.waiting.lock().unwrap();
        let position = other_waiting
            .iter()
            .position(|(it, _)| it.line == b"other\n");
        drop(other_waiting);
        let (leased, ticket) = served
            .source
            .waiting
            .lock()
            .unwrap()
            .remove(position.unwrap());
        ticket.complete(leased);
        assert_eq!(answer(&other), b"other\n");
        let (leased, ticket) = taken.pop().unwrap();
        assert_eq!(leased.line, b"one\n");
        ticket.complete(leased);
        let mut received = answer(&waiting);
        while received.len() < 8 {
            received.extend(answer(&waiting));
        }
        served.wait_for_requests(1);
        for (leased, ticket) in served.source.take() {
            ticket.complete(leased);
        }
        while received.len() < 14 {
            received.extend(answer(&waiting));
        }
        assert_eq!(received, b"one\ntwo\nthree\n");
        served
            .sockets
            .until_true("returned", || served.source.leased() == 0);
        served.sockets.running.stop().unwrap();
    });
}

#[test]
fn a_dropped_ticket_is_an_answer_too() {
    everywhere(|served| {
        let stream = served.sockets.connect();
        stream.send(b"one\n").unwrap();
        served.wait_for_requests(1);
        drop(served.source.take());
        assert_eq!(answer(&stream), b"lost\n");
        served.sockets.running.stop().unwrap();
    });
}

/// The peer is gone before the completion: its ticket is cancelled, the source keeps its memory
/// until it completes the ticket, and the next connection in the same slot gets nothing of it.
#[test]
fn a_peer_that_vanishes_cancels_its_tickets() {
    // Bytes of another request that the peer sends before it vanishes.
    for pipelined in [0, 8000] {
        everywhere(|served| {
            let vanishing = served.sockets.connect_unix();
            vanishing.send(b"secret\n").unwrap();
            served.wait_for_requests(1);
            vanishing.send(&vec![b'x'; pipelined]).unwrap();
            drop(vanishing);
            served.sockets.until("gone", |it| it.current == 0);
            let (lease, ticket) = served.source.take().pop().unwrap();
            assert!(ticket.is_cancelled());
            assert_eq!(served.source.leased(), 1, "the source still has its memory");
            let next = served.sockets.connect();
            next.send(b"mine\n").unwrap();
            served.wait_for_requests(1);
            ticket.complete(lease);
            let is_returned = || served.source.leased() == 1;
            served.sockets.until_true("returned", is_returned);
            for (lease, ticket) in served.source.take() {
                assert!(!ticket.is_cancelled());
                ticket.complete(lease);
            }
            assert_eq!(answer(&next), b"mine\n");
            assert_eq!(served.sockets.counts.snapshot().panics, 0);
            served.sockets.running.stop().unwrap();
        });
    }
}

/// A peer that closes its sending side after a request still gets the reply.
#[test]
fn a_half_closed_connection_gets_its_answer() {
    everywhere(|served| {
        let stream = served.sockets.connect();
        stream.send(b"last\n").unwrap();
        stream.shutdown_send();
        served.wait_for_requests(1);
        for (leased, ticket) in served.source.take() {
            ticket.complete(leased);
        }
        assert_eq!(answer(&stream), b"last\n");
        wait(&stream, Interest::Read);
        assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 0, "then the end");
        served.sockets.running.stop().unwrap();
    });
}

/// While a peer takes no output, results that arrive for it count as its unsent output does. Tasks
/// take no results meanwhile.
#[test]
fn results_for_a_peer_that_takes_nothing_are_within_the_bound() {
    const FIRST_LEN: usize = 600_000;
    // Below the bound together with the first, and above it.
    for (second_len, is_closed) in [(300_000, false), (BUFFERED_MAX as usize, true)] {
        everywhere(|served| {
            if matches!(served.sockets.kind, Kind::Threads | Kind::Fibres) {
                served.sockets.running.stop().unwrap();
                return;
            }
            let sockets = &served.sockets;
            let slow = sockets.connect_unix();
            slow.send(b"one\ntwo\n").unwrap();
            served.wait_for_requests(2);
            let mut taken = served.source.take();
            let (mut second, second_ticket) = taken.pop().unwrap();
            let (mut first, first_ticket) = taken.pop().unwrap();
            first.line = vec![b'1'; FIRST_LEN];
            second.line = vec![b'2'; second_len];
            first_ticket.complete(first);
            sockets.until_true("kept", || {
                // With `rings`, a send is found to be blocked when the worker wakes up again.
                drop(sockets.connect());
                sockets.counts.snapshot().buffered >= FIRST_LEN as u64
            });
            let kept = sockets.counts.snapshot().buffered;
            second_ticket.complete(second);
            if is_closed {
                sockets.until("closed", |it| (it.current, it.buffered_closed) == (0, 1));
            } else {
                let expected = kept + second_len as u64;
                sockets.until("counted", |it| it.buffered == expected);
                let mut received = 0;
                while received < FIRST_LEN + second_len {
                    received += answer(&slow).len();
                }
                sockets.until("given back", |it| it.buffered == 0);
            }
            served.sockets.running.stop().unwrap();
        });
    }
}

/// More lines than a connection may have tickets for.
#[test]
fn tickets_are_bounded_and_the_rest_waits() {
    const LINES: usize = 3 * service::limits::TICKETS_MAX as usize;
    everywhere(|served| {
        let stream = served.sockets.connect();
        stream.send(&b"line\n".repeat(LINES)).unwrap();
        let mut received = 0;
        while received < 5 * LINES {
            served.sockets.until_true("requested", || {
                !served.source.waiting.lock().unwrap().is_empty()
            });
            let taken = served.source.take();
            assert!(taken.len() <= service::limits::TICKETS_MAX as usize);
            let expected = received + 5 * taken.len();
            for (leased, ticket) in taken {
                ticket.complete(leased);
            }
            while received < expected {
                received += answer(&stream).len();
            }
        }
        served.sockets.running.stop().unwrap();
    });
}

#[test]
fn a_runtime_in_memory_waits_for_completions_of_other_threads() {
    let toy = Toy::default();
    let mut server = Memory::new(&toy, setup(Scheduler::Fair));
    let client = server.connect(64, None, 0);
    client.send(b"one\ntwo\n").unwrap();
    server.run(0);
    let taken = toy.0.take();
    assert_eq!(taken.len(), 2);
    std::thread::spawn(move || {
        for (leased, ticket) in taken.into_iter().rev() {
            ticket.complete(leased);
        }
    })
    .join()
    .unwrap();
    server.run(0);
    let mut buffer = [0; 64];
    let len = client.receive(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"one\ntwo\n");
    // A client that vanishes cancels here too.
    client.send(b"three\n").unwrap();
    server.run(0);
    drop(client);
    server.run(0);
    let (_, ticket) = toy.0.take().pop().unwrap();
    assert!(ticket.is_cancelled());
    assert!(server.stop(0));
}

#[test]
fn a_completion_before_the_next_wait_is_not_lost() {
    everywhere(|served| {
        let stream = served.sockets.connect();
        for _ in 0..200 {
            stream.send(b"x\n").unwrap();
            served.wait_for_requests(1);
            let (leased, ticket) = served.source.take().pop().unwrap();
            ticket.complete(leased);
            assert_eq!(answer(&stream), b"x\n");
        }
        served.sockets.running.stop().unwrap();
    });
}

/// The slots and generations of a worker that restarts begin anew, but its old tickets do not.
#[test]
fn a_result_from_before_a_restart_reaches_no_later_connection() {
    everywhere(|served| {
        if matches!(served.sockets.kind, Kind::Threads | Kind::Fibres) {
            // A task has a mailbox of its own, and no other connection is in it.
            served.sockets.running.stop().unwrap();
            return;
        }
        let old = served.sockets.connect();
        old.send(b"secret\n").unwrap();
        served.wait_for_requests(1);
        let (lease, ticket) = served.source.take().pop().unwrap();
        let fails = &served.source.fails_maintenance;
        fails.store(true, Ordering::Relaxed);
        while fails.load(Ordering::Relaxed) {
            // Each connection wakes the worker, after which maintenance is due at times.
            drop(served.sockets.connect());
        }
        served
            .sockets
            .until("restarted", |it| (it.restarts, it.current) == (1, 0));
        drop(served.source.take());
        let next = served.sockets.connect();
        next.send(b"mine\n").unwrap();
        served.wait_for_requests(1);
        ticket.complete(lease);
        for (lease, ticket) in served.source.take() {
            ticket.complete(lease);
        }
        assert_eq!(answer(&next), b"mine\n");
        assert_eq!(served.sockets.running.stop(), Err(Panicked));
    });
}

/// Wake-ups before a wait must not add up.
#[test]
fn many_early_completions_do_not_make_later_waits_spin() {
    everywhere(|served| {
        let stream = served.sockets.connect();
        for _ in 0..1000 {
            stream.send(b"x\n").unwrap();
            served.wait_for_requests(1);
            let (lease, ticket) = served.source.take().pop().unwrap();
            ticket.complete(lease);
            assert_eq!(answer(&stream), b"x\n");
        }
        stream.send(b"slow\n").unwrap();
        served.wait_for_requests(1);
        // A fibre that spins would not let another of its processor run.
        let other = served.sockets.connect();
        other.send(b"y\n").unwrap();
        served.wait_for_requests(2);
        for (lease, ticket) in served.source.take() {
            ticket.complete(lease);
        }
        assert_eq!(answer(&stream), b"slow\n");
        assert_eq!(answer(&other), b"y\n");
        served.sockets.running.stop().unwrap();
    });
}
