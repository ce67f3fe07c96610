//! What cannot be brought about from outside: a conversation that panics.

use std::net::SocketAddr;
use std::sync::Arc;

use session::{Board, Now};
use sys::poll::{Events, Interest, Poll};
use sys::socket::{Listener, Stream};

use super::{Live, Peer};
use crate::running::Panicked;
use crate::transport::Transport;
use crate::{Census, Clock, Kind, Running, Scheduler, Setup};

/// Panics when it is asked to forget.
struct Fragile;

impl Board for Fragile {
    fn general(&self, _: Now, _: &mut Vec<u8>) {}

    fn settings(&self, _: &mut Vec<u8>) {}

    fn reset(&self) {
        panic!("as the test asks");
    }

    fn set_memory_limit(&self, _: u64) -> bool {
        false
    }

    fn tend_store(&self) {}

    fn set_verbosity(&self, _: u32) {}
}

struct Served {
    running: Running,
    census: Arc<Census>,
    address: SocketAddr,
}

fn serve(kind: Kind, fibre_scheduler: Scheduler) -> Served {
    let store = store::Store::new(store::Config {
        memory_bytes: 8 << 20,
        memory_max: 8 << 20,
        workers: 1,
        evicts: true,
        huge_pages: false,
        item_max: 1 << 20,
        hash_seed: 1,
    });
    let census = Arc::new(Census::new(16));
    let setup = Setup {
        patience: crate::Patience::default(),
        fibre_scheduler,
        workers: 1,
        requests_a_turn: 2,
        store: store.unwrap(),
        board: Arc::new(Fragile),
        census: Arc::clone(&census),
        clock: Clock::start(),
    };
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    let address = listener.address().unwrap();
    let running = crate::start(kind, setup, vec![listener]).unwrap();
    Served {
        running,
        census,
        address,
    }
}

fn wait(stream: &Stream, interest: Interest) {
    let poll = Poll::new().unwrap();
    poll.add(stream, 0, interest).unwrap();
    let mut events = Events::with_capacity(1);
    poll.wait(&mut events, Some(10_000_000_000)).unwrap();
    assert!(!events.is_empty());
}

fn connect(served: &Served) -> Stream {
    let stream = Stream::connect(served.address).unwrap();
    wait(&stream, Interest::Write);
    stream
}

fn ask(stream: &Stream, question: &[u8]) -> Vec<u8> {
    stream.send(question).unwrap();
    wait(stream, Interest::Read);
    let mut answer = vec![0; 1024];
    let len = stream.recv(&mut answer).unwrap();
    answer.truncate(len);
    answer
}

/// Of each kind that gives a connection a task of its own.
fn each(test: impl Fn(Served)) {
    test(serve(Kind::Threads, Scheduler::Fair));
    for scheduler in Scheduler::ALL {
        test(serve(Kind::Fibres, scheduler));
    }
}

#[test]
fn a_panic_ends_one_conversation_and_leaves_the_desk_to_the_others() {
    each(panics_once);
}

fn panics_once(served: Served) {
    let (other, fragile) = (connect(&served), connect(&served));
    assert_eq!(ask(&other, b"set a 0 0 1\r\n1\r\n"), b"STORED\r\n");
    assert_eq!(ask(&fragile, b"stats reset\r\n"), b"");
    // The only desk there is.
    assert_eq!(ask(&other, b"get a\r\n"), b"VALUE a 0 1\r\n1\r\nEND\r\n");
    assert_eq!(ask(&connect(&served), b"mn\r\n"), b"MN\r\n");
    drop((other, fragile));
    assert_eq!(served.running.stop(), Err(Panicked));
    assert_eq!(served.census.tally().current, 0);
}

#[test]
fn who_is_idle_ends_at_once_and_nobody_is_left() {
    each(ends_at_once);
}

fn ends_at_once(served: Served) {
    let idle: Vec<Stream> = (0..8).map(|_| connect(&served)).collect();
    for stream in &idle {
        assert_eq!(ask(stream, b"mn\r\n"), b"MN\r\n");
    }
    let since_ns = sys::clock::monotonic_ns();
    served.running.stop().unwrap();
    assert!(sys::clock::monotonic_ns() - since_ns < 2_000_000_000);
    assert_eq!(served.census.tally().current, 0);
    for stream in &idle {
        wait(stream, Interest::Read);
        assert_eq!(stream.recv(&mut [0; 16]).unwrap(), 0);
    }
}

#[test]
fn no_more_are_engaged_than_there_may_be() {
    let live = Live::<()>::default();
    let peer = || {
        let (stream, _) = Stream::pair().unwrap();
        Arc::new(Peer::new(Transport::Plain(stream), 1))
    };
    assert_eq!(live.enter(peer(), 1), Some(0));
    assert_eq!(live.enter(peer(), 1), None);
    live.withdraw(0);
    assert_eq!(live.enter(peer(), 1), Some(0));
}
