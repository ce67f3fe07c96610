//! Tests of runs over UDP, of runs with a connection for each request, and of runs from scripts. In
//! every case the counts of the summary must be consistent, and failed requests must be counted by
//! the kind of the failure.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::Ordering;

use super::datagrams::{self, Network};
use super::server::{Fault, Server};
use super::{config, run, wait_long_for_answers};
use crate::{CarrierKind, Config, Rate, Summary};

/// Checks that every intended request is counted exactly once, and that the counts agree with those
/// of the operations and with the latency distributions. Unlike the function of this name in the
/// parent module, it is also for runs with failed requests.
pub(crate) fn assert_counts_are_consistent(summary: &Summary) {
    let failed = summary.failures.total();
    let all = summary.answered + failed + summary.censored;
    assert_eq!(summary.intended, all, "{summary:?}");
    let sum = |of: fn(&crate::summary::OperationSummary) -> u64| -> u64 {
        summary.operations.iter().map(of).sum()
    };
    assert_eq!(sum(|it| it.count), summary.answered);
    assert_eq!(sum(|it| it.failures.total()), failed);
    if let Some(response) = &summary.response {
        assert_eq!(response.count, summary.intended);
        let censored = response.censored.as_ref().map_or(0, |it| it.count);
        assert_eq!(censored, failed + summary.censored);
    }
}

/// Long enough for an answer that does come, also next to busy processes.
const TIME_OUT_NS: u64 = 500_000_000;

/// Makes a short run over UDP.
fn run_over_udp(network: Network) -> Summary {
    let mut config = Config::new(datagrams::start(network).parse().unwrap());
    config.rate = Rate::PerSecond(1000.0);
    (config.connections, config.depth) = (4, 8);
    (config.warmup_ns, config.duration_ns) = (50_000_000, 400_000_000);
    // `update` is the share of sets. All other requests are gets.
    (config.records, config.update, config.spin) = (200, 0.2, false);
    (config.carrier, config.timeout_ns) = (CarrierKind::Udp, TIME_OUT_NS);
    config.grace_ns = 3 * TIME_OUT_NS;
    config.value_len_max = 1000;
    let summary = run(&config);
    assert_counts_are_consistent(&summary);
    summary
}

#[test]
fn repeated_or_divided_udp_answers_count_once() {
    let good = run_over_udp(Network::Good);
    assert_eq!(
        (good.failures.total(), good.errors, good.censored),
        (0, 0, 0)
    );
    assert_eq!(good.hits, good.gets);
    let repeated = run_over_udp(Network::Repeats);
    assert_eq!(repeated.answered, repeated.intended);
    let carrier = repeated.carrier.unwrap();
    assert!(
        carrier.late_or_duplicate >= repeated.answered / 2,
        "{carrier:?}"
    );
    let divided = run_over_udp(Network::Divides);
    assert_eq!(
        (divided.answered, divided.hits),
        (divided.intended, divided.gets)
    );
}

#[test]
fn request_whose_udp_answer_is_lost_fails_after_the_time_out() {
    let summary = run_over_udp(Network::LosesEveryFifth);
    let share = summary.failures.timed_out as f64 / summary.intended as f64;
    assert!((share - 0.2).abs() < 0.05, "{share}");
    assert_eq!(summary.failures.total(), summary.failures.timed_out);
    // A fifth of the requests have failed. All that is known of their latencies is that they exceed
    // the time-out.
    let response = summary.response.as_ref().unwrap();
    let lower_bounds = &response.censored.as_ref().unwrap().lower_bounds;
    assert!(lower_bounds.contains(&90.0) && !lower_bounds.contains(&50.0));
    assert!(response.max >= TIME_OUT_NS, "{}", response.max);
    assert!(crate::text::table(&summary).contains("timed out"));
}

#[test]
fn request_whose_udp_answer_is_late_fails_and_the_answer_is_ignored() {
    let summary = run_over_udp(Network::DelaysEveryTenth);
    let share = summary.failures.timed_out as f64 / summary.intended as f64;
    assert!((share - 0.1).abs() < 0.05, "{share}");
    // A histogram rounds up by at most 0.1 %.
    let most = TIME_OUT_NS + TIME_OUT_NS / 1000;
    assert!(summary.service.max <= most, "{}", summary.service.max);
    assert!(summary.carrier.unwrap().late_or_duplicate > 0);
}

#[test]
fn run_over_udp_without_a_server_ends_with_connection_refused() {
    // The socket is closed immediately, so nothing listens on the address.
    let unused = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut config = Config::new(unused.to_string().parse().unwrap());
    (config.carrier, config.value_len_max) = (CarrierKind::Udp, 1000);
    let message = crate::run(&config, |_| ()).unwrap_err().to_string();
    assert!(message.contains("Connection refused"), "{message}");
}

#[test]
fn one_shot_carrier_opens_a_connection_for_each_request() {
    let server = Server::start(Fault::None);
    let mut config = config(&server);
    crate::prefill(&config, |_| ()).unwrap();
    config.carrier = CarrierKind::OneShot;
    let summary = run(&config);
    assert_counts_are_consistent(&summary);
    assert_eq!((summary.failures.total(), summary.errors), (0, 0));
    assert_eq!(summary.hits, summary.gets);
    let opened = summary.carrier.unwrap().opened;
    // `opened` includes the connections of the warm-up, but `answered` does not include the
    // requests of the warm-up.
    assert!(opened >= summary.answered, "{opened}");
    let requests = server.requests.load(Ordering::Relaxed);
    assert!(requests >= opened, "{requests}");
}

#[test]
fn request_fails_as_closed_if_the_server_closes_its_connection_unanswered() {
    let requests_before_close = 0;
    let server = Server::start(Fault::ClosesAll(requests_before_close));
    let mut config = config(&server);
    config.carrier = CarrierKind::OneShot;
    wait_long_for_answers(&mut config);
    let summary = run(&config);
    assert_counts_are_consistent(&summary);
    assert_eq!(summary.failures.closed, summary.intended, "{summary:?}");
}

#[test]
fn requests_fail_as_refused_if_the_server_no_longer_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Before the run, the generator checks the server with `version` on one connection. The server
    // answers this request and then stops listening.
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 64]).unwrap();
        stream.write_all(b"VERSION 0\r\n").unwrap();
    });
    let mut config = Config::new(address.parse().unwrap());
    (config.rate, config.connections) = (Rate::PerSecond(200.0), 2);
    (config.warmup_ns, config.duration_ns) = (100_000_000, 200_000_000);
    (config.carrier, config.spin) = (CarrierKind::OneShot, false);
    let summary = run(&config);
    server.join().unwrap();
    assert_counts_are_consistent(&summary);
    assert!(summary.failures.refused > 10, "{summary:?}");
    assert_eq!(summary.answered, 0);
    // The rows of service, slip and lateness are of answered requests only. Without an answer, they
    // have no figures.
    let table = crate::text::table(&summary);
    let row = |name| table.lines().find(|line| line.starts_with(name)).unwrap();
    for name in ["service", "slip", "lateness"] {
        let mut figures = row(name).split_whitespace().skip(1);
        assert!(figures.all(|figure| figure == "-"), "{table}");
    }
    assert!(row("answers").contains("0 gets (- hits)"), "{table}");
}

#[test]
fn run_sends_the_lines_of_a_script_in_order_and_ends_after_the_last() {
    let server = Server::start(Fault::None);
    let path = std::env::temp_dir().join(format!("curtail-script-{}", std::process::id()));
    let mut script =
        String::from("set a 100\nget a\nfetch a\n\nget b\nread-through c 9\nget c\nset a\n");
    for number in 0..1000 {
        script += &format!("set k{number} 10\nget k{number}\n");
    }
    fs::write(&path, script).unwrap();
    for (rate, threads) in [(Rate::PerSecond(10_000.0), 1), (Rate::Max, 2)] {
        let mut config = config(&server);
        config.script = Some(path.clone());
        (config.rate, config.warmup_ns) = (rate, 0);
        (config.duration_ns, config.threads) = (20_000_000_000, threads);
        let summary = run(&config);
        assert_counts_are_consistent(&summary);
        assert!(
            summary.duration_ns < 10_000_000_000,
            "{}",
            summary.duration_ns
        );
        let script = summary.script.clone().unwrap();
        // Lines 3 and 8 are malformed. Line 4 is empty. Each other line is an operation.
        assert_eq!((script.operations, script.malformed), (2005, 2));
        assert!(script.ended && script.faults[0].starts_with("line 3: unknown operation"));
        assert!(script.faults[1].starts_with("line 8: no length"));
        let count = |name: &str| {
            let found = summary.operations.iter().find(|it| it.operation == name);
            found.map_or((0, 0), |it| (it.count, it.hits))
        };
        // Requests for a key stay in order, so each get finds the value that the line before it
        // set. The gets of `b` and of `c` may miss: `b` is never set, and the fill of `c` is sent
        // only after the answer of the read-through.
        assert_eq!(count("set"), (1001, 1001));
        let (gets, hits) = count("get");
        assert!(gets == 1003 && hits >= 1001, "{hits}");
        assert_eq!(count("read-through").0, 1);
        assert_eq!(summary.follow_ups, count("fill").0);
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn error_for_an_unreadable_script_names_its_path() {
    let server = Server::start(Fault::None);
    let mut config = config(&server);
    config.script = Some("/nonexistent/script".into());
    let message = crate::run(&config, |_| ()).unwrap_err().to_string();
    assert!(
        message.starts_with("read --script /nonexistent/script: No such file"),
        "{message}"
    );
}
