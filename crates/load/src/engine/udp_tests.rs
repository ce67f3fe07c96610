//! Tests of one generator thread over UDP, step by step. Each step waits for the event that it
//! needs, so the order of datagrams and errors is known.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::batch::{self, Keys};
use crate::carrier::{Failure, Udp};
use crate::config::{CarrierKind, Config, Rate};
use crate::opening::Share;

/// How long a test waits for an event that is expected to come.
const LONG: Duration = Duration::from_secs(20);

/// An engine in a closed loop, and the socket of its server. The engine has one connection, of this
/// depth. The test itself receives and answers the requests on the server's socket.
fn engine(depth: u32) -> (Engine<Udp>, UdpSocket) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(LONG)).unwrap();
    let address = server.local_addr().unwrap();
    let mut config = Config::new(address.to_string().parse().unwrap());
    (config.carrier, config.depth, config.rate) = (CarrierKind::Udp, depth, Rate::Max);
    (config.connections, config.update, config.warmup_ns) = (1, 0.0, 0);
    config.duration_ns = 3_600_000_000_000;
    let poll = Poll::new().unwrap();
    let share = Share {
        first: 0,
        count: 1,
        all: 1,
        concurrent_max: 1,
    };
    let connections = std::thread::scope(|scope| {
        // `open` sends the probe `version` and waits for the answer.
        scope.spawn(|| answer(&server, b"VERSION 1\r\n"));
        Udp::open(&config, &poll, share, &AtomicBool::new(false)).unwrap()
    });
    let options = EngineOptions {
        depth: depth as usize,
        timeout_ns: config.timeout_ns,
        operations: config.operations(),
        files: false,
        spin: false,
        first: 0,
        opaque: 0,
        recorded_max: 0,
    };
    let channels = Channels {
        thread: 0,
        windows: mpsc::channel().0,
        spare: mpsc::channel().1,
        alive: Arc::new(AtomicU32::new(1)),
        stop: Arc::default(),
    };
    let keys = Keys::Records {
        keyspace: config.keyspace().unwrap(),
        sampler: config.demand().record_sampler(),
    };
    let batch = Batch::new(config.protocol, keys, batch::filler(config.value_len_max));
    let source = RequestSource::Closed(config.demand().requests(0).unwrap());
    let mut engine = Engine::new(poll, connections, None, source, options, channels, batch);
    engine.timeline = Timeline::new(&config, monotonic_ns());
    engine.totals = Totals::new(engine.timeline.measure_ns, engine.timeline.end_ns);
    (engine, server)
}

/// Receives the next request at the server. Returns its frame header and the client's address.
fn request(server: &UdpSocket) -> ([u8; 8], SocketAddr) {
    let mut buffer = [0; 2048];
    let (_, peer) = server.recv_from(&mut buffer).unwrap();
    (buffer[..8].try_into().unwrap(), peer)
}

/// Answers the next request at the server.
fn answer(server: &UdpSocket, text: &[u8]) {
    let (header, peer) = request(server);
    server.send_to(&[&header[..], text].concat(), peer).unwrap();
}

/// Waits until the poll reports an event of the connection.
fn wait(engine: &mut Engine<Udp>) {
    let mut events = Events::with_capacity(1);
    let longest_ns = LONG.as_nanos() as u64;
    engine.poll.wait(&mut events, Some(longest_ns)).unwrap();
    assert!(!events.is_empty(), "nothing arrived");
}

fn in_flight(engine: &Engine<Udp>) -> usize {
    engine.slots[0]
        .connection
        .as_ref()
        .unwrap()
        .in_flight()
        .len()
}

/// A server stops and starts again. The host refuses the request that came in between. The socket
/// reports the refusal when the next request is sent.
#[test]
fn request_sent_after_a_refused_one_reaches_the_server() {
    let (mut engine, server) = engine(2);
    let address = server.local_addr().unwrap();
    drop(server);
    engine.send(0, monotonic_ns());
    wait(&mut engine);
    let server = UdpSocket::bind(address).unwrap();
    server.set_read_timeout(Some(LONG)).unwrap();
    engine.send(0, monotonic_ns());
    let failures = |engine: &Engine<Udp>| engine.totals.of(|_| true).failures;
    assert_eq!(failures(&engine)[Failure::Refused as usize], 1);
    assert_eq!(in_flight(&engine), 1);
    // The second request was kept. It is sent now, because the socket is writable.
    wait(&mut engine);
    engine.send_unsent(0);
    answer(&server, b"END\r\n");
    wait(&mut engine);
    engine.receive(0, &mut [0; 2048], monotonic_ns());
    let counts = engine.totals.of(|_| true);
    assert_eq!((counts.answered, counts.failed()), (1, 1));
}

/// Sends `count` requests on one connection, waits until all are answered, and receives once.
fn receive_together(count: usize) -> Engine<Udp> {
    let (mut engine, server) = engine(count as u32);
    for _ in 0..count {
        engine.send(0, monotonic_ns());
    }
    (0..count).for_each(|_| answer(&server, b"END\r\n"));
    wait(&mut engine);
    // The measured interval is over, so no request is sent in place of the answered ones.
    engine.timeline.end_ns = 0;
    engine.receive(0, &mut [0; 2048], monotonic_ns());
    engine
}

/// `Arrivals::record` computes a lower bound of the arrival time of answers. For this,
/// `Engine::receive` must receive all answers that have arrived, or set `has_unread`.
#[test]
fn receive_takes_all_answers_that_have_arrived_or_records_that_some_are_unread() {
    let engine = receive_together(3);
    assert_eq!((in_flight(&engine), engine.arrivals.has_unread), (0, false));
    let many = receive_together(Udp::RECEIVES_MAX + 2);
    assert_eq!((in_flight(&many), many.arrivals.has_unread), (2, true));
}

#[test]
fn connection_has_one_deadline_after_many_answered_requests() {
    let (mut engine, server) = engine(2);
    engine.send(0, monotonic_ns());
    for _ in 0..100 {
        engine.send(0, monotonic_ns());
        answer(&server, b"END\r\n");
        wait(&mut engine);
        // In a closed loop, each answer makes the engine send the next request.
        engine.receive(0, &mut [0; 2048], monotonic_ns());
    }
    assert!(engine.totals.of(|_| true).answered >= 100);
    assert_eq!(engine.deadlines.len(), 1);
}

/// The first of two requests is answered, and the second is not. The second request fails when its
/// own time-out has passed. The connection then has no deadline left.
#[test]
fn request_sent_after_an_answered_one_fails_at_its_own_time_out() {
    let (mut engine, server) = engine(2);
    let timeout_ns = engine.options.timeout_ns;
    engine.send(0, monotonic_ns());
    engine.send(0, monotonic_ns());
    let sent_ns = |engine: &Engine<Udp>, index: usize| {
        let connection = engine.slots[0].connection.as_ref().unwrap();
        connection.in_flight()[index].sent_ns
    };
    let (first_ns, second_ns) = (sent_ns(&engine, 0), sent_ns(&engine, 1));
    assert!(first_ns < second_ns);
    answer(&server, b"END\r\n");
    wait(&mut engine);
    // The measured interval is over, so no request is sent in place of the answered one.
    engine.timeline.end_ns = 0;
    engine.expire(first_ns + timeout_ns, &mut [0; 2048]);
    let next_ns = engine.deadlines.peek().map(|it| it.0.at_ns);
    assert_eq!(
        (in_flight(&engine), next_ns),
        (1, Some(second_ns + timeout_ns))
    );
    engine.expire(second_ns + timeout_ns, &mut [0; 2048]);
    assert_eq!((in_flight(&engine), engine.deadlines.len()), (0, 0));
    let failures = engine.totals.of(|_| true).failures;
    assert_eq!(failures[Failure::TimedOut as usize], 1);
}
