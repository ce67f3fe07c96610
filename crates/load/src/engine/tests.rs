//! The loop on its own, with clocks that tests choose.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::config::Config;
use crate::tally::Part;
use crate::wire;

/// A thread of one connection to a server that finds nothing, before its start.
fn engine(config: &mut Config) -> (Engine, Receiver<Ended>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            assert!(line.unwrap().starts_with("get "));
            stream.write_all(b"END\r\n").unwrap();
        }
    });
    (config.connections, config.update, config.warmup_ns) = (1, 0.0, 0);
    let stream = sys::socket::Stream::connect(address).unwrap();
    let poll = Poll::new().unwrap();
    poll.add(&stream, 0, Interest::Read).unwrap();
    let schedule = config.demand().schedule(1000.0).unwrap();
    let source = Source::Open(Feed::new(schedule, 1000.0, config.duration_ns));
    let manner = Manner {
        depth: 64,
        protocol: Protocol::Text,
        spin: false,
        first: 0,
        opaque: 0,
        recorded_max: 0,
    };
    let (parts, ended) = mpsc::channel();
    let (_, spare) = mpsc::channel::<Part>();
    let wires = Wires {
        thread: 0,
        parts,
        spare,
        alive: Arc::new(AtomicU32::new(1)),
    };
    let filler = wire::filler(config.value_len_max);
    let batch = Batch::new(config.keyspace().unwrap(), Protocol::Text, filler);
    let lanes = vec![Lane::new(stream, 64)];
    (
        Engine::new(poll, lanes, None, source, manner, wires, batch),
        ended,
    )
}

fn planned(config: &Config) -> u64 {
    let schedule = config.demand().schedule(1000.0).unwrap();
    schedule
        .take_while(|planned| planned.intended_ns < config.duration_ns)
        .count() as u64
}

#[test]
fn a_thread_that_wakes_after_the_end_still_sends_and_counts_what_was_due() {
    let mut config = Config::new("127.0.0.1:1".parse().unwrap());
    config.duration_ns = 100_000_000;
    let (engine, ended) = engine(&mut config);
    // The interval was over half a second ago; the grace is not.
    let timeline = Timeline::new(&config, monotonic_ns() - 600_000_000);
    let outcome = engine.run(timeline).unwrap();
    let expected = planned(&config);
    assert!(expected > 50, "{expected}");
    assert_eq!(outcome.totals.intended, expected);
    assert_eq!(outcome.totals.answered, expected);
    let parts: Vec<Ended> = ended.iter().collect();
    let response = &parts[1].part.latencies.response;
    assert_eq!(response.len(), expected);
    assert!(response.min() >= 500_000_000, "{}", response.min());
}

#[test]
fn what_was_never_dispatched_is_intended_all_the_same() {
    let mut config = Config::new("127.0.0.1:1".parse().unwrap());
    config.duration_ns = 100_000_000;
    let (engine, _ended) = engine(&mut config);
    // The grace is over too.
    let timeline = Timeline::new(&config, monotonic_ns() - 5_000_000_000);
    let outcome = engine.run(timeline).unwrap();
    assert_eq!(outcome.totals.intended, planned(&config));
    assert_eq!((outcome.totals.sent, outcome.totals.answered), (0, 0));
}
