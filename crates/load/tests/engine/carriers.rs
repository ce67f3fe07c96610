//! Runs over UDP, with a connection for each request, and from scripts. In every case the counts of
//! the summary must be consistent, and failed requests must be counted by their kind.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::Ordering;

use load::{CarrierKind, Config, Rate, Summary};

use super::datagrams::{self, Network};
use super::server::{Fault, Server};
use super::{config, run};

fn adds_up(summary: &Summary) {
    let failed = summary.failures.total();
    let all = summary.answered + failed + summary.censored;
    assert_eq!(summary.intended, all, "{summary:?}");
    let sum = |of: fn(&load::summary::OperationSummary) -> u64| -> u64 {
        summary.operations.iter().map(of).sum()
    };
    assert_eq!(sum(|it| it.count), summary.answered);
    assert_eq!(sum(|it| it.failures.total()), failed);
    if let Some(response) = &summary.response {
        assert_eq!(response.count, summary.intended);
        let apart = response.censored.as_ref().map_or(0, |it| it.count);
        assert_eq!(apart, failed + summary.censored);
    }
}

fn over_udp(network: Network) -> Summary {
    let mut config = Config::new(datagrams::start(network).parse().unwrap());
    config.rate = Rate::PerSecond(1000.0);
    (config.connections, config.depth) = (4, 8);
    (config.warmup_ns, config.duration_ns) = (50_000_000, 400_000_000);
    (config.records, config.update, config.spin) = (200, 0.2, false);
    (config.carrier, config.timeout_ns) = (CarrierKind::Udp, 100_000_000);
    config.value_len_max = 1000;
    let summary = run(&config);
    adds_up(&summary);
    summary
}

#[test]
fn over_udp_every_answer_counts_once() {
    let good = over_udp(Network::Good);
    assert_eq!(
        (good.failures.total(), good.errors, good.censored),
        (0, 0, 0)
    );
    assert_eq!(good.hits, good.gets);
    let repeated = over_udp(Network::Repeats);
    assert_eq!(repeated.answered, repeated.intended);
    let carrier = repeated.carrier.unwrap();
    assert!(
        carrier.late_or_duplicate >= repeated.answered / 2,
        "{carrier:?}"
    );
    let divided = over_udp(Network::Divides);
    assert_eq!(
        (divided.answered, divided.hits),
        (divided.intended, divided.gets)
    );
}

#[test]
fn a_lost_datagram_is_a_failure_after_the_time_out() {
    let summary = over_udp(Network::LosesEveryFifth);
    let share = summary.failures.timed_out as f64 / summary.intended as f64;
    assert!((share - 0.2).abs() < 0.05, "{share}");
    assert_eq!(summary.failures.total(), summary.failures.timed_out);
    // A fifth of the requests have failed. Their latencies are known only to exceed the time-out.
    let response = summary.response.as_ref().unwrap();
    let lower_bounds = &response.censored.as_ref().unwrap().lower_bounds;
    assert!(lower_bounds.contains(&90.0) && !lower_bounds.contains(&50.0));
    assert!(response.max >= 100_000_000, "{}", response.max);
    assert!(load::text::table(&summary).contains("timed out"));
}

#[test]
fn an_answer_after_the_time_out_is_a_failure_and_is_ignored() {
    let summary = over_udp(Network::DelaysEveryTenth);
    let share = summary.failures.timed_out as f64 / summary.intended as f64;
    assert!((share - 0.1).abs() < 0.05, "{share}");
    assert!(
        summary.service.max <= 100_100_000,
        "{}",
        summary.service.max
    );
    assert!(summary.carrier.unwrap().late_or_duplicate > 0);
}

#[test]
fn udp_without_a_server_is_refused() {
    let unused = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut config = Config::new(unused.to_string().parse().unwrap());
    (config.carrier, config.value_len_max) = (CarrierKind::Udp, 1000);
    let message = load::run(&config, |_| ()).unwrap_err().to_string();
    assert!(message.contains("Connection refused"), "{message}");
}

#[test]
fn each_request_has_its_own_connection() {
    let server = Server::start(Fault::None);
    let mut config = config(&server);
    load::prefill(&config, |_| ()).unwrap();
    config.carrier = CarrierKind::OneShot;
    let summary = run(&config);
    adds_up(&summary);
    assert_eq!((summary.failures.total(), summary.errors), (0, 0));
    assert_eq!(summary.hits, summary.gets);
    let opened = summary.carrier.unwrap().opened;
    // `opened` includes the connections of the warm-up, `answered` does not.
    assert!(opened >= summary.answered, "{opened}");
    let requests = server.requests.load(Ordering::Relaxed);
    assert!(requests >= opened, "{requests}");
}

#[test]
fn a_connection_that_is_closed_before_the_answer_is_a_failure() {
    let server = Server::start(Fault::ClosesAll(0));
    let mut config = config(&server);
    config.carrier = CarrierKind::OneShot;
    let summary = run(&config);
    adds_up(&summary);
    assert_eq!(summary.failures.closed, summary.intended, "{summary:?}");
}

#[test]
fn connections_to_a_port_without_a_listener_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // The server answers `version` on one connection, which opens the run, and then stops
    // listening.
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
    adds_up(&summary);
    assert!(summary.failures.refused > 10, "{summary:?}");
    assert_eq!(summary.answered, 0);
}

#[test]
fn a_script_is_sent_line_by_line_and_ends_the_run() {
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
        adds_up(&summary);
        assert!(
            summary.duration_ns < 10_000_000_000,
            "{}",
            summary.duration_ns
        );
        let script = summary.script.clone().unwrap();
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
fn a_script_that_cannot_be_read_is_named() {
    let server = Server::start(Fault::None);
    let mut config = config(&server);
    config.script = Some("/nonexistent/script".into());
    let message = load::run(&config, |_| ()).unwrap_err().to_string();
    assert!(
        message.starts_with("read --script /nonexistent/script: No such file"),
        "{message}"
    );
}
