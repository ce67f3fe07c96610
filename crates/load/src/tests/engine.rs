//! Tests of the load generator against servers with faults. With every fault, the counts of the
//! summary must be consistent with each other.

mod carriers;
mod datagrams;
mod server;
mod textile;
mod textile_server;
mod web;
mod web_server;

use std::net::TcpListener;
use std::sync::atomic::Ordering;

use crate::limits::TIMEOUT_NS;
use crate::{CarrierKind, Config, Error, Rate, Summary};
use server::{Fault, Server};

/// The settings of a short open-loop run of 350 ms. A fifth of the requests are sets.
fn config(server: &Server) -> Config {
    let mut config = Config::new(server.address.parse().unwrap());
    config.rate = Rate::PerSecond(2000.0);
    config.connections = 8;
    config.warmup_ns = 50_000_000;
    config.duration_ns = 300_000_000;
    config.records = 200;
    config.update = 0.2;
    config.spin = false;
    config
}

/// Gives a run the longest time-out (10 s) and a longer grace period, so that no answer is too late
/// on a busy machine. The run ends as soon as all its requests have been answered or have failed.
pub(crate) fn wait_long_for_answers(config: &mut Config) {
    config.timeout_ns = *TIMEOUT_NS.end();
    config.grace_ns = 2 * config.timeout_ns;
}

fn run(config: &Config) -> Summary {
    crate::run(config, |_| ()).unwrap()
}

/// Checks that every intended request is counted exactly once, and that the counts agree with the
/// latency distributions. An intended request is one whose intended time (closed loop: send time)
/// lies in the measured interval.
fn assert_counts_are_consistent(summary: &Summary) {
    assert_eq!(
        summary.intended,
        summary.answered + summary.failures.total() + summary.censored,
        "{summary:?}"
    );
    assert_eq!(summary.answered, summary.gets + summary.sets);
    if summary.response.is_some() {
        assert_eq!(summary.service.count, summary.answered);
    }
    // The distribution of response times (closed loop: of service times) has every intended
    // request.
    let latency = summary.response.as_ref().unwrap_or(&summary.service);
    assert_eq!(latency.count, summary.intended);
    let censored = latency.censored.as_ref().map_or(0, |it| it.count);
    assert_eq!(censored, summary.censored);
    assert!(summary.sent >= summary.answered && summary.sent <= summary.intended);
}

#[test]
fn every_request_of_the_schedule_is_answered_and_counted() {
    let server = Server::start(Fault::None);
    let config = config(&server);
    crate::prefill(&config, |_| ()).unwrap();
    let mut seconds = Vec::new();
    let summary = crate::run(&config, |second| seconds.push(*second)).unwrap();
    assert_counts_are_consistent(&summary);
    let planned = config
        .demand()
        .schedule(2000.0)
        .unwrap()
        .skip_while(|planned| planned.intended_ns < config.warmup_ns)
        .take_while(|planned| planned.intended_ns < config.warmup_ns + config.duration_ns)
        .count() as u64;
    assert_eq!(summary.intended, planned);
    assert_eq!(
        (summary.censored, summary.errors, summary.lost_connections),
        (0, 0, 0)
    );
    assert_eq!(summary.hits, summary.gets);
    let response = summary.response.unwrap();
    assert_eq!(response.count, planned);
    assert!(response.max >= summary.service.max);
    // The warm-up and the interval are both shorter than a second.
    let warmups: Vec<bool> = seconds.iter().map(|second| second.warmup).collect();
    assert_eq!(warmups, [true, false]);
    assert_eq!(seconds[1].hit_rate, Some(1.0));
}

#[test]
fn saturating_connections_do_not_change_the_counts_of_measured_requests() {
    let server = Server::start(Fault::None);
    let mut config = config(&server);
    let alone = run(&config);
    assert_eq!(alone.saturating_rps, None);
    config.saturating_connections = 2;
    config.saturating_depth = 100;
    let shared = run(&config);
    assert_counts_are_consistent(&shared);
    // Saturating connections may change the latencies of the measured requests, but not the
    // schedule.
    assert_eq!((alone.intended, alone.sets), (shared.intended, shared.sets));
    assert_eq!((shared.censored, shared.lost_connections), (0, 0));
    assert!(shared.saturating_rps.unwrap() > 2000.0, "{shared:?}");
    assert!(crate::text::table(&shared).contains("saturating"));
}

#[test]
fn number_of_threads_does_not_change_the_schedule() {
    let server = Server::start(Fault::None);
    let mut config = config(&server);
    let alone = run(&config);
    config.threads = 3;
    let shared = run(&config);
    assert_counts_are_consistent(&shared);
    assert_eq!((alone.intended, alone.sets), (shared.intended, shared.sets));
    assert_eq!(shared.censored, 0);
}

#[test]
fn same_seed_sends_the_same_bytes_and_another_seed_sends_other_bytes() {
    let bytes_of = |seed| {
        let server = Server::start(Fault::None);
        let mut config = config(&server);
        (config.seed, config.connections, config.depth) = (seed, 1, 64);
        assert_eq!(run(&config).censored, 0);
        let received = server.received.lock().unwrap().clone();
        assert!(received.len() > 10_000);
        received
    };
    assert!(bytes_of(7) == bytes_of(7));
    assert!(bytes_of(7) != bytes_of(8));
}

#[test]
fn closed_loop_has_no_response_time_and_keeps_connections_at_their_depth() {
    let server = Server::start(Fault::None);
    let mut config = config(&server);
    (config.rate, config.depth, config.spin) = (Rate::Max, 4, true);
    let summary = run(&config);
    assert_counts_are_consistent(&summary);
    assert!(summary.response.is_none() && summary.slip.is_none() && summary.lateness.is_none());
    assert_eq!(summary.censored, 0);
    assert!(summary.answered > 300, "{}", summary.answered);
    // The count of outstanding requests falls when the generator receives an answer. It rises again
    // immediately afterwards, when the generator sends the next request. So all eight connections
    // have four requests outstanding nearly all the time. The mean that is computed from time
    // stamps is lower, because there a request ends when its answer arrives at the socket.
    let outstanding = summary.outstanding_mean;
    assert!(outstanding > 30.0 && outstanding <= 32.0, "{outstanding}");
    assert!(summary.littles_law().holds, "{:?}", summary.littles_law());
}

#[test]
fn closed_loop_without_warm_up_records_only_requests_of_the_interval() {
    let server = Server::start(Fault::None);
    let mut config = config(&server);
    (config.rate, config.warmup_ns) = (Rate::Max, 0);
    assert_counts_are_consistent(&run(&config));
}

#[test]
fn without_answers_all_requests_are_censored_and_depth_limits_how_many_are_sent() {
    let server = Server::start(Fault::Silent);
    let mut config = config(&server);
    (config.depth, config.grace_ns) = (3, 100_000_000);
    let summary = run(&config);
    assert_counts_are_consistent(&summary);
    assert_eq!(summary.answered, 0);
    assert!(summary.intended > 400);
    assert_eq!(summary.censored, summary.intended);
    // Each of the eight connections sends three requests. `sent` includes only requests of the
    // measured interval, not those of the warm-up.
    assert!(summary.sent <= 8 * 3);
    assert_eq!(server.requests.load(Ordering::Relaxed), 8 * 3);
    let response = summary.response.as_ref().unwrap();
    let censored = response.censored.as_ref().unwrap();
    assert_eq!(censored.lower_bounds, config.percentiles);
    assert!(crate::text::table(&summary).contains("≥"));
}

#[test]
fn service_time_of_a_closed_loop_includes_unanswered_requests_as_lower_bounds() {
    let server = Server::start(Fault::SilentAfter(20));
    let mut config = config(&server);
    (config.rate, config.grace_ns, config.warmup_ns) = (Rate::Max, 100_000_000, 0);
    let summary = run(&config);
    assert_counts_are_consistent(&summary);
    // Each of the eight connections receives 20 answers. The next request of each connection is
    // never answered.
    assert_eq!((summary.answered, summary.censored), (8 * 20, 8));
    let lower_bounds = &summary.service.censored.as_ref().unwrap().lower_bounds;
    assert!(lower_bounds.contains(&99.0) && !lower_bounds.contains(&50.0));
    assert!(summary.service.max >= config.grace_ns, "{summary:?}");
    assert!(crate::text::table(&summary).contains("≥"));
}

#[test]
fn lost_connection_is_counted_and_the_run_continues() {
    let server = Server::start(Fault::ClosesFirst(20));
    let summary = run(&config(&server));
    assert_counts_are_consistent(&summary);
    assert_eq!(summary.lost_connections, 1);
    assert!(summary.censored > 10, "{}", summary.censored);
    assert!(summary.answered > summary.intended / 2);
    // About an eighth of the requests are censored. Their latencies are unknown and may be higher
    // than all others, so the highest percentiles are only lower bounds.
    let response = summary.response.as_ref().unwrap();
    let lower_bounds = &response.censored.as_ref().unwrap().lower_bounds;
    assert!(
        lower_bounds.ends_with(&[95.0, 99.0, 99.9, 99.99]),
        "{response:?}"
    );
    assert!(!lower_bounds.contains(&50.0), "{response:?}");
    let table = crate::text::table(&summary);
    let row = |name| table.lines().find(|line| line.starts_with(name)).unwrap();
    // The mean and the maximum are lower bounds too.
    assert_eq!(row("response").matches('≥').count(), lower_bounds.len() + 2);
    let service = row("service");
    assert!(!service.contains('≥'), "has answered requests only");
}

#[test]
fn run_fails_with_the_reason_when_all_connections_are_lost() {
    let server = Server::start(Fault::ClosesAll(5));
    let error = crate::run(&config(&server), |_| ()).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("keep any of 8 connections: all were lost"),
        "{message}"
    );
}

#[test]
fn run_fails_when_only_a_saturating_connection_is_left() {
    let server = Server::start(Fault::ClosesFirst(20));
    let mut config = config(&server);
    // The measured connection is opened first, so the server closes this one.
    (config.connections, config.saturating_connections) = (1, 1);
    let message = crate::run(&config, |_| ()).unwrap_err().to_string();
    assert!(
        message.starts_with("keep any of 1 connections: all were lost"),
        "{message}"
    );
}

#[test]
fn answer_with_more_values_than_keys_is_malformed() {
    let server = Server::start(Fault::RepeatsValues);
    let mut config = config(&server);
    // There is no prefill, so a get finds a value only if the run itself has set the record.
    config.update = 0.5;
    wait_long_for_answers(&mut config);
    let message = crate::run(&config, |_| ()).unwrap_err().to_string();
    assert!(
        message.contains("more values than its request has keys"),
        "{message}"
    );
    // If each request has its own connection, the loss of a connection fails only one request.
    config.carrier = CarrierKind::OneShot;
    let summary = run(&config);
    assert!(summary.failures.closed > 0, "{summary:?}");
    assert_eq!(
        summary.failures.closed + summary.gets + summary.sets,
        summary.intended
    );
    assert_eq!(summary.hits, 0);
}

#[test]
fn connection_refused_error_names_the_address_and_a_remedy() {
    // The listener is closed immediately, so nothing listens on the address.
    let unused = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let config = Config::new(unused.to_string().parse().unwrap());
    let message = crate::run(&config, |_| ()).unwrap_err().to_string();
    assert!(
        message.starts_with(&format!("connect to {unused}: Connection refused")),
        "{message}"
    );
    assert!(
        message.ends_with("is the server running and the address right?"),
        "{message}"
    );
}

#[test]
fn error_of_a_server_at_its_connection_limit_states_a_sufficient_limit() {
    let server = Server::start(Fault::Full);
    let error = crate::run(&config(&server), |_| ()).unwrap_err();
    let is_expected = matches!(
        error,
        Error::TooManyConnections {
            wanted: 8,
            enough: 72,
            ..
        }
    );
    assert!(is_expected, "{error}");
}

#[test]
fn error_of_a_low_open_files_limit_names_the_remedy() {
    let mut config = Config::new("127.0.0.1:1".parse().unwrap());
    config.connections = 1 << 20;
    // If the machine's hard limit allows a million files, the run fails to connect instead.
    if let Err(error) = crate::run(&config, |_| ()) {
        let message = error.to_string();
        let is_expected =
            message.contains("ulimit -n 1048640") || message.starts_with("connect to");
        assert!(is_expected, "{message}");
    }
}

#[test]
fn prefill_reports_the_share_of_records_that_are_resident() {
    let server = Server::start(Fault::None);
    let mut config = config(&server);
    config.values = "uniform:0,20000".parse().unwrap();
    let filled = crate::prefill(&config, |_| ()).unwrap();
    assert_eq!(
        (filled.records, filled.refused, filled.sampled),
        (200, 0, 200)
    );
    assert_eq!(filled.resident, 1.0);

    let server = Server::start(Fault::Forgetful);
    config.targets = vec![server.address.parse().unwrap()];
    let filled = crate::prefill(&config, |_| ()).unwrap();
    assert!(
        filled.resident > 0.3 && filled.resident < 0.7,
        "{}",
        filled.resident
    );

    let server = Server::start(Fault::RefusesSets);
    config.targets = vec![server.address.parse().unwrap()];
    let filled = crate::prefill(&config, |_| ()).unwrap();
    assert_eq!((filled.refused, filled.resident), (200, 0.0));
}
