//! The loop of one thread against a small server, at start times that the tests choose.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use sys::poll::Interest;

use super::*;
use crate::batch::{self, Keys};
use crate::carrier::Persistent;
use crate::config::{Config, Rate};
use crate::metrics::Window;
use crate::schedule_source::ScheduleSource;
use crate::wire::Text;

type TextEngine = Engine<Persistent<Text>>;

/// An engine of one connection to a server that answers every get with a miss; not started yet.
fn engine(config: &mut Config) -> (TextEngine, Receiver<EndedWindow>) {
    engine_to(config, Duration::ZERO)
}

/// As [`engine`]; the server answers each request after `service`.
fn engine_to(config: &mut Config, service: Duration) -> (TextEngine, Receiver<EndedWindow>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            assert!(line.unwrap().starts_with("get "));
            thread::sleep(service);
            stream.write_all(b"END\r\n").unwrap();
        }
    });
    (config.connections, config.update, config.warmup_ns) = (1, 0.0, 0);
    let rate_rps = rate_rps(config);
    let stream = sys::socket::Stream::connect(address).unwrap();
    let poll = Poll::new().unwrap();
    poll.add(&stream, 0, Interest::Read).unwrap();
    let schedule = config.demand().schedule(rate_rps).unwrap();
    let source = RequestSource::Open(ScheduleSource::new(schedule, rate_rps, config.duration_ns));
    let options = EngineOptions {
        depth: config.depth as usize,
        timeout_ns: config.timeout_ns,
        operations: config.operations(),
        spin: config.spin,
        first: 0,
        opaque: 0,
        recorded_max: 0,
    };
    let (windows, ended) = mpsc::channel();
    let (_, spare) = mpsc::channel::<Window>();
    let channels = Channels {
        thread: 0,
        windows,
        spare,
        alive: Arc::new(AtomicU32::new(1)),
        stop: Arc::default(),
    };
    let filler = batch::filler(config.value_len_max);
    let keys = Keys::Records {
        keyspace: config.keyspace().unwrap(),
        sampler: config.demand().record_sampler(),
    };
    let batch = Batch::new(keys, filler);
    let connections = vec![Persistent::new(stream, config.depth)];
    (
        Engine::new(poll, connections, None, source, options, channels, batch),
        ended,
    )
}

fn rate_rps(config: &Config) -> f64 {
    match config.rate {
        Rate::PerSecond(rate_rps) => rate_rps,
        Rate::Max => panic!("these tests cover the open loop only"),
    }
}

/// One request a millisecond, for a tenth of a second.
fn config() -> Config {
    let mut config = Config::new("127.0.0.1:1".parse().unwrap());
    config.duration_ns = 100_000_000;
    config.rate = Rate::PerSecond(1000.0);
    (config.depth, config.spin) = (64, false);
    config
}

fn planned(config: &Config) -> u64 {
    let schedule = config.demand().schedule(rate_rps(config)).unwrap();
    schedule
        .take_while(|planned| planned.intended_ns < config.duration_ns)
        .count() as u64
}

#[test]
fn a_thread_that_wakes_after_the_end_still_sends_and_counts_all_due_requests() {
    let mut config = config();
    let (engine, ended) = engine(&mut config);
    // The measured interval ended 500 ms ago, and the grace period of 1 s has not ended yet.
    let timeline = Timeline::new(&config, monotonic_ns() - 600_000_000);
    let outcome = engine.run(timeline).unwrap();
    let expected = planned(&config);
    assert!(expected > 50, "{expected}");
    assert_eq!(outcome.totals.intended, expected);
    assert_eq!(outcome.totals.of(|_| true).answered, expected);
    let windows: Vec<EndedWindow> = ended.iter().collect();
    let response = windows[1].window.latencies.all().response;
    assert_eq!(response.len(), expected);
    assert!(response.min() >= 500_000_000, "{}", response.min());
}

#[test]
fn requests_never_dispatched_count_as_intended() {
    let mut config = config();
    let (engine, _ended) = engine(&mut config);
    // The grace period has ended too.
    let timeline = Timeline::new(&config, monotonic_ns() - 5_000_000_000);
    let outcome = engine.run(timeline).unwrap();
    assert_eq!(outcome.totals.intended, planned(&config));
    assert_eq!(
        (outcome.totals.sent, outcome.totals.of(|_| true).answered),
        (0, 0)
    );
}

/// Sends a first request. Stalls until 3 ms after its answer has arrived, which is at least 5 ms
/// after the second request was due. Then sends the second request. Returns its lateness and its
/// slip.
fn second_after_a_stall(depth: u32) -> (u64, u64) {
    const MS: u64 = 1_000_000;
    let mut config = config();
    config.arrivals = workload::Distribution::Fixed(1.0);
    config.superposition = workload::Superposition::Single;
    config.depth = depth;
    let (mut engine, _ended) = engine_to(&mut config, Duration::from_millis(3));
    let start_ns = monotonic_ns();
    engine.timeline = Timeline::new(&config, start_ns);
    while !engine.dispatch(monotonic_ns(), 1) {}
    assert!(engine.flush(monotonic_ns(), 1));
    let first = engine.slots[0].connection.as_ref().unwrap().in_flight()[0];
    let mut events = Events::with_capacity(1);
    engine.poll.wait(&mut events, None).unwrap();
    let answered_ns = monotonic_ns();
    while monotonic_ns() < answered_ns + 3 * MS {}
    engine.wait_end_ns = monotonic_ns();
    let now_ns = engine.receive(0, &mut [0; 64], monotonic_ns());
    assert!(engine.dispatch(now_ns, 1) && engine.flush(now_ns, 1));
    let in_flight = engine.slots[0].connection.as_ref().unwrap().in_flight();
    assert_eq!(in_flight.len(), 1);
    let second = in_flight[0];
    assert_eq!(second.intended_ns, first.intended_ns + MS);
    let slip_ns = second.sent_ns - second.intended_ns;
    assert!(slip_ns >= 5 * MS, "{slip_ns}");
    (u64::from(second.late_ns), slip_ns)
}

#[test]
fn below_the_depth_all_slip_is_lateness() {
    let (late_ns, slip_ns) = second_after_a_stall(2);
    assert_eq!(late_ns, slip_ns);
}

#[test]
fn waiting_for_a_connection_at_its_depth_is_not_lateness() {
    let (late_ns, slip_ns) = second_after_a_stall(1);
    assert!(late_ns + 1_000_000 < slip_ns, "{late_ns} of {slip_ns}");
}

fn littles_law(totals: &Totals, end_ns: u64) -> measure::LittlesLaw {
    measure::LittlesLaw::check(
        totals.outstanding_count.mean(),
        totals.outstanding_count.mean_unread(),
        totals.outstanding.mean(end_ns),
        measure::LITTLES_LAW_TOLERANCE,
    )
}

/// The thread polls (`spin`). Each poll that reports no answer is a lower bound of the next
/// answer's arrival time, so the check has exact bounds even on a busy machine.
#[test]
fn the_count_of_outstanding_requests_agrees_with_their_time_stamps() {
    let mut config = config();
    config.arrivals = workload::Distribution::Fixed(1.0);
    config.superposition = workload::Superposition::Single;
    config.rate = Rate::PerSecond(100.0);
    config.spin = true;
    let (engine, _ended) = engine_to(&mut config, Duration::from_millis(5));
    let timeline = Timeline::new(&config, monotonic_ns());
    let end_ns = timeline.end_ns;
    let check = littles_law(&engine.run(timeline).unwrap().totals, end_ns);
    assert!(check.holds && check.counted > 0.1, "{check:?}");
}

/// Little's law over one request to a server that answers after 5 ms; `distort` changes the engine
/// before the answer is received. The earliest arrival time is computed from the server's known
/// delay and not from polling, so other programs cannot make it inexact.
fn one_request(distort: impl FnOnce(&mut TextEngine)) -> measure::LittlesLaw {
    const SERVICE: Duration = Duration::from_millis(5);
    let mut config = config();
    config.duration_ns = 60_000_000_000;
    let (mut engine, _ended) = engine_to(&mut config, SERVICE);
    engine.timeline = Timeline::new(&config, monotonic_ns());
    let (measure_ns, end_ns) = (engine.timeline.measure_ns, engine.timeline.end_ns);
    engine.totals = Totals::new(measure_ns, end_ns);
    while !engine.dispatch(monotonic_ns(), 1) {}
    assert!(engine.flush(monotonic_ns(), 1));
    let sent_ns = engine.slots[0].connection.as_ref().unwrap().in_flight()[0].sent_ns;
    let mut events = Events::with_capacity(1);
    engine.poll.wait(&mut events, None).unwrap();
    engine.earliest_arrival_ns = sent_ns + SERVICE.as_nanos() as u64;
    engine.wait_end_ns = monotonic_ns();
    distort(&mut engine);
    engine.receive(0, &mut [0; 64], monotonic_ns());
    assert_eq!(engine.totals.of(|_| true).answered, 1);
    littles_law(&engine.totals, end_ns)
}

/// With a wrong offset of the kernel's clock, answers seem to arrive too early and latencies are
/// under-reported: the check must fail.
#[test]
fn shifted_time_stamps_fail_the_check() {
    let right = one_request(|_| ());
    assert!(right.holds, "{right:?}");
    let wrong = one_request(|engine| engine.unix_offset_ns += 1_000_000_000);
    assert!(!wrong.holds && wrong.stamped < wrong.counted, "{wrong:?}");
}
