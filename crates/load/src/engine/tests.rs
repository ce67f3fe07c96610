//! Tests of one generator thread against a small server. The tests choose the start time of the
//! run, so they can simulate a thread that wakes too late.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use sys::poll::Interest;

use workload::Op;

use super::*;
use crate::batch::{self, Keys};
use crate::carrier::Persistent;
use crate::config::{Config, Rate};
use crate::limits::{GRACE_NS_MAX, SCRIPT_POLL_NS};
use crate::metrics::Window;
use crate::schedule_source::ScheduleSource;
use crate::script::{ScriptItem, ScriptItems, ScriptRequest, ScriptSource};

type TextEngine = Engine<Persistent>;

/// Returns an engine that is not started, with one connection to a server that answers every get
/// with a miss.
fn engine(config: &mut Config) -> (TextEngine, Receiver<EndedWindow>) {
    engine_with_delay(config, Duration::ZERO)
}

/// Returns an engine like that of [`engine`], with a server that waits for `delay` before each
/// answer.
fn engine_with_delay(config: &mut Config, delay: Duration) -> (TextEngine, Receiver<EndedWindow>) {
    let rate_rps = rate_rps(config);
    (config.connections, config.update, config.warmup_ns) = (1, 0.0, 0);
    let schedule = config.demand().schedule(rate_rps).unwrap();
    let source = RequestSource::Open(ScheduleSource::new(schedule, rate_rps, config.duration_ns));
    let keys = Keys::Records {
        keyspace: config.keyspace().unwrap(),
        sampler: config.demand().record_sampler(),
    };
    engine_of(config, source, keys, delay)
}

/// Returns an engine like that of [`engine`], but which sends the requests of a script, in an open
/// loop. The sender passes batches of these requests to the engine, as the reader of a script does.
fn engine_with_script(config: &mut Config) -> (TextEngine, SyncSender<Vec<ScriptRequest>>) {
    (config.connections, config.warmup_ns) = (1, 0);
    let (sender, batches) = mpsc::sync_channel(0);
    let source = RequestSource::Script(ScriptSource::new(batches, true));
    let keys = Keys::Script(ScriptItems::default());
    let (engine, _) = engine_of(config, source, keys, Duration::ZERO);
    (engine, sender)
}

/// Returns a batch with one get for each intended time.
fn script_batch(intended_ns: impl IntoIterator<Item = u64>) -> Vec<ScriptRequest> {
    let request = |intended_ns| ScriptRequest {
        intended_ns,
        connection: 0,
        op: Op::Get,
        item: ScriptItem {
            keys: (*b"a").into(),
            key_count: 1,
            value_len: 0,
            ttl_s: 0,
        },
    };
    intended_ns.into_iter().map(request).collect()
}

/// Returns an engine that is not started, with one connection to a server that waits for `delay`
/// and then answers a get with a miss. The receiver receives the engine's ended windows.
fn engine_of(
    config: &Config,
    source: RequestSource,
    keys: Keys,
    delay: Duration,
) -> (TextEngine, Receiver<EndedWindow>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            assert!(line.unwrap().starts_with("get "));
            thread::sleep(delay);
            stream.write_all(b"END\r\n").unwrap();
        }
    });
    let stream = sys::socket::Stream::connect(address).unwrap();
    let poll = Poll::new().unwrap();
    poll.add(&stream, 0, Interest::Read).unwrap();
    let options = EngineOptions {
        depth: config.depth as usize,
        timeout_ns: config.timeout_ns,
        operations: config.operations(),
        files: false,
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
    let batch = Batch::new(config.protocol, keys, filler);
    let connections = vec![Persistent::new(config.protocol, stream, config.depth)];
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

/// Settings with a rate of one request per millisecond, for 100 ms.
fn config() -> Config {
    let mut config = Config::new("127.0.0.1:1".parse().unwrap());
    config.duration_ns = 100_000_000;
    config.rate = Rate::PerSecond(1000.0);
    (config.depth, config.spin) = (64, false);
    config
}

/// The number of requests that the schedule has in the measured interval.
fn scheduled_count(config: &Config) -> u64 {
    let schedule = config.demand().schedule(rate_rps(config)).unwrap();
    schedule
        .take_while(|planned| planned.intended_ns < config.duration_ns)
        .count() as u64
}

#[test]
fn thread_that_wakes_in_the_grace_period_sends_and_counts_all_requests() {
    let mut config = config();
    let (engine, ended) = engine(&mut config);
    // The measured interval ended 500 ms ago, and the grace period of 1 s has not ended yet.
    let timeline = Timeline::new(&config, monotonic_ns() - 600_000_000);
    let outcome = engine.run(timeline).unwrap();
    let expected = scheduled_count(&config);
    assert!(expected > 50, "{expected}");
    assert_eq!(outcome.totals.intended, expected);
    assert_eq!(outcome.totals.of(|_| true).answered, expected);
    let windows: Vec<EndedWindow> = ended.iter().collect();
    // Without a warm-up, window 0 is the measured interval, which was over before the thread began.
    // Window 1 is the grace period, in which all answers came.
    let response = windows[1].window.latencies.all().response;
    assert_eq!(response.len(), expected);
    assert!(response.min() >= 500_000_000, "{}", response.min());
}

#[test]
fn thread_that_waits_for_answers_in_the_grace_period_checks_for_a_stop() {
    let mut config = config();
    config.grace_ns = GRACE_NS_MAX;
    let never = Duration::from_secs(3600);
    let (mut engine, _ended) = engine_with_delay(&mut config, never);
    // The measured interval has ended. All its requests have been sent, and none is answered.
    engine.timeline = Timeline::new(&config, monotonic_ns() - 2 * config.duration_ns);
    let now_ns = monotonic_ns();
    engine.tick(now_ns);
    while engine.dispatch(now_ns, usize::MAX) | engine.flush(now_ns, usize::MAX) {}
    assert!(engine.unanswered > 0);
    assert!(!engine.is_over(now_ns));
    assert_eq!(engine.timeout_ns(now_ns), STOP_CHECK_NS);
    engine.channels.stop.store(true, Ordering::Relaxed);
    assert!(engine.is_over(now_ns));
}

#[test]
fn requests_not_dispatched_before_the_grace_period_ends_count_as_intended_but_not_sent() {
    let mut config = config();
    let (engine, _ended) = engine(&mut config);
    // The run began 5 s ago, so the measured interval and the grace period have already ended.
    let timeline = Timeline::new(&config, monotonic_ns() - 5_000_000_000);
    let outcome = engine.run(timeline).unwrap();
    assert_eq!(outcome.totals.intended, scheduled_count(&config));
    assert_eq!(
        (outcome.totals.sent, outcome.totals.of(|_| true).answered),
        (0, 0)
    );
}

/// Sends two requests on a connection of the given depth, and stalls the thread before the second
/// send. Returns the lateness and the slip (send time − intended time) of the second request.
///
/// The second request is due 1 ms after the first. The answer to the first comes after 3 ms. The
/// thread then stalls for 3 ms more before it sends the second request. The slip of the second
/// request is therefore at least 5 ms.
fn lateness_and_slip_after_a_stall(depth: u32) -> (u64, u64) {
    const MS: u64 = 1_000_000;
    let mut config = config();
    config.arrivals = workload::Distribution::Fixed(1.0);
    config.superposition = workload::Superposition::Single;
    config.depth = depth;
    let (mut engine, _ended) = engine_with_delay(&mut config, Duration::from_millis(3));
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
fn lateness_equals_slip_on_a_connection_below_its_depth() {
    let (late_ns, slip_ns) = lateness_and_slip_after_a_stall(2);
    assert_eq!(late_ns, slip_ns);
}

#[test]
fn time_waited_for_a_connection_at_its_depth_is_not_lateness() {
    let (late_ns, slip_ns) = lateness_and_slip_after_a_stall(1);
    assert!(late_ns + 1_000_000 < slip_ns, "{late_ns} of {slip_ns}");
}

/// Compares two measurements of the mean number of outstanding requests: one from a counter, and
/// one from the time stamps of the requests.
fn littles_law(totals: &Totals, end_ns: u64) -> measure::LittlesLaw {
    measure::LittlesLaw::check(
        totals.outstanding_count.mean(),
        totals.outstanding_count.mean_unread(),
        totals.outstanding.mean(end_ns),
        measure::LITTLES_LAW_TOLERANCE,
    )
}

/// The thread polls (`spin`). When a poll reports no answer, the next answer cannot have arrived
/// before that poll began. This gives a lower bound of each arrival time. With the bound, the check
/// holds on a busy machine too.
#[test]
fn count_of_outstanding_requests_agrees_with_their_time_stamps() {
    let mut config = config();
    config.arrivals = workload::Distribution::Fixed(1.0);
    config.superposition = workload::Superposition::Single;
    config.rate = Rate::PerSecond(100.0);
    config.spin = true;
    let (engine, _ended) = engine_with_delay(&mut config, Duration::from_millis(5));
    let timeline = Timeline::new(&config, monotonic_ns());
    let end_ns = timeline.end_ns;
    let check = littles_law(&engine.run(timeline).unwrap().totals, end_ns);
    // The expected mean is 0.5 outstanding requests: 100 per second for 5 ms each.
    assert!(check.holds && check.counted > 0.1, "{check:?}");
}

/// Checks Little's law over one request to a server that answers after 5 ms. `distort` may change
/// the engine before the engine receives the answer. This function computes the lower bound of the
/// arrival time from the server's known delay, because its thread sleeps in the wait for the answer
/// instead of polling.
fn littles_law_of_one_request(distort: impl FnOnce(&mut TextEngine)) -> measure::LittlesLaw {
    const DELAY: Duration = Duration::from_millis(5);
    let mut config = config();
    config.duration_ns = 60_000_000_000;
    let (mut engine, _ended) = engine_with_delay(&mut config, DELAY);
    engine.timeline = Timeline::new(&config, monotonic_ns());
    let (measure_ns, end_ns) = (engine.timeline.measure_ns, engine.timeline.end_ns);
    engine.totals = Totals::new(measure_ns, end_ns);
    while !engine.dispatch(monotonic_ns(), 1) {}
    assert!(engine.flush(monotonic_ns(), 1));
    let sent_ns = engine.slots[0].connection.as_ref().unwrap().in_flight()[0].sent_ns;
    let mut events = Events::with_capacity(1);
    engine.poll.wait(&mut events, None).unwrap();
    engine.arrivals.earliest_ns = sent_ns + DELAY.as_nanos() as u64;
    engine.wait_end_ns = monotonic_ns();
    distort(&mut engine);
    engine.receive(0, &mut [0; 64], monotonic_ns());
    assert_eq!(engine.totals.of(|_| true).answered, 1);
    littles_law(&engine.totals, end_ns)
}

/// A wrong offset between the kernel's clock of arrivals and the monotonic clock makes answers seem
/// to arrive too early, and latencies seem too short. The check must then fail.
#[test]
fn wrong_clock_offset_fails_the_check_of_littles_law() {
    let right = littles_law_of_one_request(|_| ());
    assert!(right.holds, "{right:?}");
    let wrong = littles_law_of_one_request(|engine| engine.unix_offset_ns += 1_000_000_000);
    assert!(!wrong.holds && wrong.stamped < wrong.counted, "{wrong:?}");
}

/// The thread sleeps between requests (`spin` is not set).
#[test]
fn sleep_ends_when_the_next_line_of_a_script_is_due() {
    let mut config = config();
    // `reader` takes the place of the script's reader.
    let (mut engine, reader) = engine_with_script(&mut config);
    let start_ns = 1_000_000_000;
    engine.timeline = Timeline::new(&config, start_ns);
    let poll_ns = engine.timeout_ns(start_ns);
    assert_eq!(poll_ns, SCRIPT_POLL_NS, "no line is received yet");
    let reader_thread = thread::spawn(move || {
        reader.send(script_batch([100_000, 90_000_000])).unwrap();
        reader
    });
    // The channel has no buffer, so the engine can receive the batch only while the other thread
    // sends it. The loop repeats until that has happened.
    while engine.timeout_ns(start_ns) == poll_ns {}
    assert_eq!(engine.timeout_ns(start_ns), 100_000);
    assert_eq!(engine.timeout_ns(start_ns + 150_000), 0, "a line is due");
    assert!(engine.dispatch(start_ns + 150_000, 2));
    assert!(engine.flush(start_ns + 150_000, 1));
    // The next line is due much later, at 90 ms. Until then, no other line can become due.
    assert_eq!(engine.timeout_ns(start_ns + 200_000), 89_800_000);
    drop(reader_thread.join().unwrap());
}

#[test]
fn lines_that_the_reader_has_not_passed_on_at_the_end_of_the_run_count_as_intended() {
    let mut config = config();
    let (engine, reader) = engine_with_script(&mut config);
    // The run began 5 s ago, so the measured interval and the grace period have already ended.
    let timeline = Timeline::new(&config, monotonic_ns() - 5_000_000_000);
    let reader_thread = thread::spawn(move || {
        for number in 0..20 {
            reader.send(script_batch([number, number])).unwrap();
        }
    });
    let outcome = engine.run(timeline).unwrap();
    reader_thread.join().unwrap();
    assert_eq!((outcome.totals.intended, outcome.totals.sent), (40, 0));
}
