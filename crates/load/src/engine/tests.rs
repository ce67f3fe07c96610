//! The loop on its own, with clocks that tests choose.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::config::{Config, Rate};
use crate::metrics::Window;
use crate::wire;

/// A thread of one connection to a server that finds nothing, before its start.
fn engine(config: &mut Config) -> (Engine, Receiver<EndedWindow>) {
    engine_to(config, Duration::ZERO)
}

/// Likewise; the server answers each request after so long.
fn engine_to(config: &mut Config, service: Duration) -> (Engine, Receiver<EndedWindow>) {
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
    let source = Source::Open(ScheduleSource::new(schedule, rate_rps, config.duration_ns));
    let options = EngineOptions {
        depth: config.depth as usize,
        protocol: Protocol::Text,
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
    };
    let filler = wire::filler(config.value_len_max);
    let batch = Batch::new(config.keyspace().unwrap(), Protocol::Text, filler);
    let connections = vec![Connection::new(stream, config.depth)];
    (
        Engine::new(poll, connections, None, source, options, channels, batch),
        ended,
    )
}

fn rate_rps(config: &Config) -> f64 {
    match config.rate {
        Rate::PerSecond(rate_rps) => rate_rps,
        Rate::Max => panic!("these tests are of the open loop"),
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
fn a_thread_that_wakes_after_the_end_still_sends_and_counts_what_was_due() {
    let mut config = config();
    let (engine, ended) = engine(&mut config);
    // The interval was over half a second ago; the grace is not.
    let timeline = Timeline::new(&config, monotonic_ns() - 600_000_000);
    let outcome = engine.run(timeline).unwrap();
    let expected = planned(&config);
    assert!(expected > 50, "{expected}");
    assert_eq!(outcome.totals.intended, expected);
    assert_eq!(outcome.totals.answered, expected);
    let windows: Vec<EndedWindow> = ended.iter().collect();
    let response = &windows[1].window.latencies.response;
    assert_eq!(response.len(), expected);
    assert!(response.min() >= 500_000_000, "{}", response.min());
}

#[test]
fn what_was_never_dispatched_is_intended_all_the_same() {
    let mut config = config();
    let (engine, _ended) = engine(&mut config);
    // The grace is over too.
    let timeline = Timeline::new(&config, monotonic_ns() - 5_000_000_000);
    let outcome = engine.run(timeline).unwrap();
    assert_eq!(outcome.totals.intended, planned(&config));
    assert_eq!((outcome.totals.sent, outcome.totals.answered), (0, 0));
}

/// Sends a first request, is away until three milliseconds after its answer came, five after the
/// second was due, and sends that. Returns the second's own lateness and its slip.
fn second_after_an_absence(depth: u32) -> (u64, u64) {
    const MS: u64 = 1_000_000;
    let mut config = config();
    config.arrivals = workload::Law::Fixed(1.0);
    config.superposition = workload::Superposition::Single;
    config.depth = depth;
    let (mut engine, _ended) = engine_to(&mut config, Duration::from_millis(3));
    let start_ns = monotonic_ns();
    engine.timeline = Timeline::new(&config, start_ns);
    while !engine.dispatch(monotonic_ns(), 1) {}
    assert!(engine.flush(monotonic_ns(), 1));
    let first = engine.slots[0].connection.as_ref().unwrap().in_flight[0];
    let mut events = Events::with_capacity(1);
    engine.poll.wait(&mut events, None).unwrap();
    let answered_ns = monotonic_ns();
    while monotonic_ns() < answered_ns + 3 * MS {}
    engine.wait_end_ns = monotonic_ns();
    let now_ns = engine.receive(0, &mut [0; 64], monotonic_ns());
    assert!(engine.dispatch(now_ns, 1) && engine.flush(now_ns, 1));
    let in_flight = &engine.slots[0].connection.as_ref().unwrap().in_flight;
    assert_eq!(in_flight.len(), 1);
    let second = in_flight[0];
    assert_eq!(second.intended_ns, first.intended_ns + MS);
    let slip_ns = second.sent_ns - second.intended_ns;
    assert!(slip_ns >= 5 * MS, "{slip_ns}");
    (u64::from(second.late_ns), slip_ns)
}

#[test]
fn an_answer_excuses_no_lateness_where_the_connection_had_room() {
    let (late_ns, slip_ns) = second_after_an_absence(2);
    assert_eq!(late_ns, slip_ns);
}

#[test]
fn a_connection_at_its_depth_excuses_what_a_request_waited_for_it() {
    let (late_ns, slip_ns) = second_after_an_absence(1);
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

/// A thread that does not sleep knows since when at the earliest an answer has lain there, whatever
/// else the machine does meanwhile.
#[test]
fn the_count_of_outstanding_requests_agrees_with_their_time_stamps() {
    let mut config = config();
    config.arrivals = workload::Law::Fixed(1.0);
    config.superposition = workload::Superposition::Single;
    config.rate = Rate::PerSecond(100.0);
    config.spin = true;
    let (engine, _ended) = engine_to(&mut config, Duration::from_millis(5));
    let timeline = Timeline::new(&config, monotonic_ns());
    let end_ns = timeline.end_ns;
    let check = littles_law(&engine.run(timeline).unwrap().totals, end_ns);
    assert!(check.holds && check.counted > 0.1, "{check:?}");
}

/// One request to a server that answers after five milliseconds, with what is done to the engine
/// before. That nothing was there until
/// then it takes from the server's law, not from looking: no other program can blur that.
fn one_request(wrong: impl FnOnce(&mut Engine)) -> measure::LittlesLaw {
    const SERVICE: Duration = Duration::from_millis(5);
    let mut config = config();
    config.duration_ns = 60_000_000_000;
    let (mut engine, _ended) = engine_to(&mut config, SERVICE);
    engine.timeline = Timeline::new(&config, monotonic_ns());
    let (measure_ns, end_ns) = (engine.timeline.measure_ns, engine.timeline.end_ns);
    engine.totals = Totals::new(measure_ns, end_ns);
    while !engine.dispatch(monotonic_ns(), 1) {}
    assert!(engine.flush(monotonic_ns(), 1));
    let sent_ns = engine.slots[0].connection.as_ref().unwrap().in_flight[0].sent_ns;
    let mut events = Events::with_capacity(1);
    engine.poll.wait(&mut events, None).unwrap();
    engine.earliest_arrival_ns = sent_ns + SERVICE.as_nanos() as u64;
    engine.wait_end_ns = monotonic_ns();
    wrong(&mut engine);
    engine.receive(0, &mut [0; 64], monotonic_ns());
    assert_eq!(engine.totals.answered, 1);
    littles_law(&engine.totals, end_ns)
}

/// The clock that the kernel notes arrivals by, read wrong: answers seem to come before they did,
/// and latencies are told shorter than they were.
#[test]
fn time_stamps_that_are_shifted_do_not_agree_with_the_count() {
    let right = one_request(|_| ());
    assert!(right.holds, "{right:?}");
    let wrong = one_request(|engine| engine.unix_offset_ns += 1_000_000_000);
    assert!(!wrong.holds && wrong.stamped < wrong.counted, "{wrong:?}");
}
