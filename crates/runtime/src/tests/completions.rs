//! A service that waits for completions, on every runtime.

use std::sync::Arc;

use sys::poll::Interest;

use crate::memory::Memory;
use crate::testing::toy::{Source, Toy};
use crate::testing::{Sockets, answer, everywhere_with, setup, wait};

/// A running toy service.
struct ServedToy {
    sockets: Sockets,
    source: Arc<Source>,
}

impl ServedToy {
    /// Waits until the source has been asked for `count` lines.
    fn asked(&self, count: usize) {
        self.sockets
            .until_true("asked", || self.source.asked.lock().unwrap().len() == count);
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
        served.asked(2);
        let mut taken = served.source.take();
        let (lent, ticket) = taken.pop().unwrap();
        ticket.complete(lent);
        // Another connection is served meanwhile, by the same worker.
        other.send(b"other\n").unwrap();
        served.sockets.until_true("asked", || {
            let asked = served.source.asked.lock().unwrap();
            asked.iter().any(|(lent, _)| lent.line == b"other\n")
        });
        let other_asked = served.source.asked.lock().unwrap();
        let position = other_asked.iter().position(|(it, _)| it.line == b"other\n");
        drop(other_asked);
        let (lent, ticket) = served
            .source
            .asked
            .lock()
            .unwrap()
            .remove(position.unwrap());
        ticket.complete(lent);
        assert_eq!(answer(&other), b"other\n");
        let (lent, ticket) = taken.pop().unwrap();
        assert_eq!(lent.line, b"one\n");
        ticket.complete(lent);
        let mut heard = answer(&waiting);
        while heard.len() < 8 {
            heard.extend(answer(&waiting));
        }
        served.asked(1);
        for (lent, ticket) in served.source.take() {
            ticket.complete(lent);
        }
        while heard.len() < 14 {
            heard.extend(answer(&waiting));
        }
        assert_eq!(heard, b"one\ntwo\nthree\n");
        served
            .sockets
            .until_true("returned", || served.source.lent() == 0);
        served.sockets.running.stop().unwrap();
    });
}

#[test]
fn a_dropped_ticket_is_an_answer_too() {
    everywhere(|served| {
        let stream = served.sockets.connect();
        stream.send(b"one\n").unwrap();
        served.asked(1);
        drop(served.source.take());
        assert_eq!(answer(&stream), b"lost\n");
        served.sockets.running.stop().unwrap();
    });
}

/// The peer is gone before the completion: its ticket is cancelled, the source keeps its memory
/// until it completes the ticket, and the next connection in the same slot gets nothing of it.
#[test]
fn a_peer_that_vanishes_cancels_its_tickets() {
    everywhere(|served| {
        let vanishing = served.sockets.connect_unix();
        vanishing.send(b"secret\n").unwrap();
        served.asked(1);
        drop(vanishing);
        served
            .sockets
            .until("gone", |snapshot| snapshot.current == 0);
        let mut taken = served.source.take();
        let (lent, ticket) = taken.pop().unwrap();
        assert!(ticket.is_cancelled());
        assert_eq!(served.source.lent(), 1, "the source still has its memory");
        let next = served.sockets.connect();
        next.send(b"mine\n").unwrap();
        served.asked(1);
        ticket.complete(lent);
        served
            .sockets
            .until_true("returned", || served.source.lent() == 1);
        for (lent, ticket) in served.source.take() {
            assert!(!ticket.is_cancelled());
            ticket.complete(lent);
        }
        assert_eq!(answer(&next), b"mine\n");
        assert_eq!(served.sockets.counts.snapshot().panics, 0);
        served.sockets.running.stop().unwrap();
    });
}

/// Who sends a request and closes its sending side still gets the answer.
#[test]
fn a_half_closed_connection_gets_its_answer() {
    everywhere(|served| {
        let stream = served.sockets.connect();
        stream.send(b"last\n").unwrap();
        stream.shutdown_send();
        served.asked(1);
        for (lent, ticket) in served.source.take() {
            ticket.complete(lent);
        }
        assert_eq!(answer(&stream), b"last\n");
        wait(&stream, Interest::Read);
        assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 0, "then the end");
        served.sockets.running.stop().unwrap();
    });
}

/// More lines than a connection may have tickets for.
#[test]
fn tickets_are_bounded_and_the_rest_waits() {
    const LINES: usize = 3 * service::limits::TICKETS_MAX as usize;
    everywhere(|served| {
        let stream = served.sockets.connect();
        stream.send(&b"line\n".repeat(LINES)).unwrap();
        let mut heard = 0;
        while heard < 5 * LINES {
            served
                .sockets
                .until_true("asked", || !served.source.asked.lock().unwrap().is_empty());
            let taken = served.source.take();
            assert!(taken.len() <= service::limits::TICKETS_MAX as usize);
            let expected = heard + 5 * taken.len();
            for (lent, ticket) in taken {
                ticket.complete(lent);
            }
            while heard < expected {
                heard += answer(&stream).len();
            }
        }
        served.sockets.running.stop().unwrap();
    });
}

#[test]
fn a_runtime_in_memory_waits_for_completions_of_other_threads() {
    let toy = Toy::default();
    let mut server = Memory::new(&toy, setup(fibre::Scheduler::Fair));
    let client = server.connect(64, None, 0);
    client.send(b"one\ntwo\n").unwrap();
    server.run(0);
    let taken = toy.0.take();
    assert_eq!(taken.len(), 2);
    std::thread::spawn(move || {
        for (lent, ticket) in taken.into_iter().rev() {
            ticket.complete(lent);
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
            served.asked(1);
            let (lent, ticket) = served.source.take().pop().unwrap();
            ticket.complete(lent);
            assert_eq!(answer(&stream), b"x\n");
        }
        served.sockets.running.stop().unwrap();
    });
}
