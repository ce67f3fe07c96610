//! Tests of runs with the protocol textile (from the multithreaded-cache study
//! akosik/TextileCache), and of runs from scripts of lengths.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use workload::Distribution;

use super::carriers::assert_counts_are_consistent;
use super::run;
use super::server::{self, Server};
use super::textile_server::{Fault, TextileServer};
use crate::{CarrierKind, Config, Lengths, Protocol, Rate, Summary};

const MS: u64 = 1_000_000;

/// Long enough for an answer that does come, also next to busy processes.
const TIME_OUT_MS: u64 = 500;

/// The settings of a short open-loop run of gets.
fn config(server: &TextileServer) -> Config {
    let mut config = Config::new(server.address.parse().unwrap());
    (config.protocol, config.carrier) = (Protocol::Textile, CarrierKind::PerOperation);
    (config.udp_port, config.timeout_ns) = (Some(server.udp_port), TIME_OUT_MS * MS);
    config.grace_ns = 3 * TIME_OUT_MS * MS;
    (config.rate, config.connections) = (Rate::PerSecond(1000.0), 64);
    (config.warmup_ns, config.duration_ns) = (50 * MS, 400 * MS);
    (config.records, config.update, config.spin) = (200, 0.0, false);
    config
}

/// The path of a temporary file. `name` differs between tests.
fn script_path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("curtail-{name}-{}", std::process::id()))
}

/// Makes a run from a script of lengths, in a closed loop on one connection.
fn run_lengths(config: &mut Config, lengths: Lengths, name: &str, script: &str) -> Summary {
    let path = script_path(name);
    fs::write(&path, script).unwrap();
    (config.rate, config.connections, config.warmup_ns) = (Rate::Max, 1, 0);
    (config.duration_ns, config.lengths) = (60_000 * MS, Some(lengths));
    config.script = Some(path.clone());
    let summary = run(config);
    fs::remove_file(&path).unwrap();
    assert_counts_are_consistent(&summary);
    summary
}

#[test]
fn gets_find_stored_values_until_deletes_remove_them() {
    let server = TextileServer::start(Fault::None);
    let mut config = config(&server);
    // Each answer to a get consists of three datagrams.
    config.values = Distribution::Fixed(2500.0);
    let prefill = crate::prefill(&config, |_| ()).unwrap();
    assert_eq!((prefill.records, prefill.refused), (200, 0));
    assert!((prefill.resident - 1.0).abs() < 1e-9, "{prefill:?}");
    let gets = run(&config);
    assert_counts_are_consistent(&gets);
    assert_eq!(
        (gets.failures.total(), gets.errors, gets.censored),
        (0, 0, 0)
    );
    assert_eq!((gets.hits, gets.gets), (gets.gets, gets.answered));
    let received = &gets.operations[0].bytes_received;
    assert!(*received > 2500 * gets.gets, "{received}");
    config.mix = Some("get=50,delete=50".parse().unwrap());
    let mixed = run(&config);
    assert_counts_are_consistent(&mixed);
    assert_eq!((mixed.failures.total(), mixed.errors), (0, 0));
    assert!(mixed.hits < mixed.gets, "{mixed:?}");
    let carrier = mixed.carrier.unwrap();
    assert_eq!(carrier.name, "per-operation");
    assert!(carrier.opened > 0, "{carrier:?}");
}

#[test]
fn get_whose_answer_is_lost_or_late_fails_at_the_time_out() {
    let late = Fault::DelaysEveryTenth(Duration::from_millis(2 * TIME_OUT_MS));
    for (fault, expected) in [(Fault::LosesEveryFifth, 0.2), (late, 0.1)] {
        let server = TextileServer::start(fault);
        let summary = run(&config(&server));
        assert_counts_are_consistent(&summary);
        let share = summary.failures.timed_out as f64 / summary.intended as f64;
        assert!((share - expected).abs() < 0.05, "{share}");
        assert_eq!(summary.failures.total(), summary.failures.timed_out);
        // A histogram rounds up by at most 0.1 %.
        let most = TIME_OUT_MS * MS + TIME_OUT_MS * MS / 1000;
        assert!(summary.service.max <= most, "{}", summary.service.max);
        // The server has no values, so every answer is a miss.
        assert_eq!((summary.hits, summary.errors), (0, 0));
    }
}

#[test]
fn set_does_not_fail_at_the_shorter_time_out_of_gets() {
    let server = TextileServer::start(Fault::DelaysSets(Duration::from_millis(20)));
    let mut config = config(&server);
    (config.update, config.timeout_ns) = (1.0, MS);
    config.rate = Rate::PerSecond(100.0);
    let summary = run(&config);
    assert_counts_are_consistent(&summary);
    assert_eq!(summary.failures.total(), 0, "{summary:?}");
    assert!(summary.service.min >= 20 * MS);
}

#[test]
fn get_after_a_set_on_the_same_connection_fails_at_the_time_out_of_gets() {
    let server = TextileServer::start(Fault::LosesAll);
    let mut config = config(&server);
    (config.rate, config.connections) = (Rate::Max, 1);
    (config.warmup_ns, config.duration_ns) = (0, 1000 * MS);
    (config.update, config.timeout_ns) = (0.5, 10 * MS);
    let summary = run(&config);
    assert_counts_are_consistent(&summary);
    assert_eq!(summary.failures.timed_out, summary.failures.total());
    // Each get ends at its time-out of 10 ms, and each set is answered far earlier. With the
    // time-out of sets, 1 s, a single get would take the whole interval.
    assert!(
        summary.failures.timed_out > 30,
        "{}",
        summary.failures.timed_out
    );
    assert!(summary.answered > 10, "{}", summary.answered);
    // The mean service time of a closed loop includes the failed requests with lower bounds. The
    // bound of each failed request is at least its time-out, 10 ms.
    let share = summary.failures.timed_out as f64 / summary.sent as f64;
    assert!(
        summary.service.mean >= share * 9.9e6,
        "{}",
        summary.service.mean
    );
}

#[test]
fn answer_with_a_text_that_the_protocol_does_not_have_is_an_error() {
    let server = TextileServer::start(Fault::Babbles);
    let mut config = config(&server);
    config.update = 1.0;
    let summary = run(&config);
    assert_counts_are_consistent(&summary);
    assert_eq!(
        (summary.errors, summary.failures.total()),
        (summary.answered, 0)
    );
    assert!(summary.answered > 0);
}

#[test]
fn error_of_a_udp_port_without_a_server_names_the_address() {
    let server = TextileServer::start(Fault::None);
    let mut config = config(&server);
    // The socket is closed immediately, so nothing listens on the port.
    let unused = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    config.udp_port = Some(unused.port());
    let message = crate::run(&config, |_| ()).unwrap_err().to_string();
    let expected = format!("reach {unused} over UDP: Connection refused");
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn sockets_use_all_source_addresses() {
    let sources = ["127.0.0.1", "127.0.0.5", "127.0.0.6"].map(|it| it.parse::<IpAddr>().unwrap());
    let server = TextileServer::start(Fault::None);
    let mut config = config(&server);
    (config.sources, config.update) = (sources.to_vec(), 0.5);
    // A single connection of the run opens many sockets, which use the addresses in turn.
    (config.connections, config.rate) = (1, Rate::Max);
    let summary = run(&config);
    assert_eq!(summary.failures.total(), 0);
    let all = HashSet::from(sources);
    assert_eq!(*server.seen.tcp_sources.lock().unwrap(), all);
    assert_eq!(*server.seen.udp_sources.lock().unwrap(), all);
}

#[test]
fn closed_loop_sends_each_operation_of_a_script_once_and_in_order() {
    let server = TextileServer::start(Fault::LosesEveryFifth);
    let mut config = config(&server);
    let script = "3 4 0 5\n10 20 30 1\n\n";
    let sets = run_lengths(&mut config, Lengths::Set, "sets", script);
    assert_eq!((sets.intended, sets.answered, sets.sets), (3, 3, 3));
    let counts = sets.script.clone().unwrap();
    assert!(counts.ended);
    assert_eq!((counts.operations, counts.malformed), (3, 1));
    assert_eq!(
        counts.faults,
        ["key length 3: `0` is not a length from 2 to 251"]
    );
    let script = format!("{}\n", "3 4 6 ".repeat(10));
    let gets = run_lengths(&mut config, Lengths::Get, "gets", &script);
    // Every fifth get is not answered. Of three gets in succession, the last has a key that is not
    // stored.
    assert_eq!((gets.intended, gets.answered), (30, 24));
    assert_eq!((gets.failures.timed_out, gets.hits), (6, 16));
    // The run ends with the script. The 6 gets without an answer take most of its duration.
    assert!(
        (6 * TIME_OUT_MS * MS..30_000 * MS).contains(&gets.duration_ns),
        "{}",
        gets.duration_ns
    );
    let expected_rps = 24e9 / gets.duration_ns as f64;
    assert!((gets.achieved_rps / expected_rps - 1.0).abs() < 1e-9);
    assert!((gets.service.mean - gets.duration_ns as f64 / 30.0).abs() < 5e6);
    let rates = gets.closed_loop.unwrap();
    let requests_per_s = 30e9 / gets.duration_ns as f64;
    assert!((rates.requests_per_s / requests_per_s - 1.0).abs() < 1e-9);
    assert!((rates.connections_over_mean_rps * gets.service.mean / 1e9 - 1.0).abs() < 1e-9);
    // A single client waits for answers nearly all the time, so the two definitions of the rate
    // nearly agree.
    assert!((rates.connections_over_mean_rps / requests_per_s - 1.0).abs() < 0.2);
    run_lengths(&mut config, Lengths::Delete, "deletes", "3\n");
    let mut expected = [
        "PUT /KK/abcdefghi",
        "PUT /KKK/abcdefghijklmnopqrs",
        "PUT /KKKK/",
    ]
    .map(str::to_owned)
    .to_vec();
    for _ in 0..10 {
        expected.extend(["GET /KK", "GET /KKK", "GET /KKKKK"].map(str::to_owned));
    }
    expected.push("DELETE /KK".to_owned());
    assert_eq!(*server.seen.requests.lock().unwrap(), expected);
}

#[test]
fn script_of_lengths_works_with_protocol_text() {
    let server = Server::start(server::Fault::None);
    let mut config = super::config(&server);
    run_lengths(&mut config, Lengths::Set, "text-sets", "3 4\n10 20\n");
    let gets = run_lengths(&mut config, Lengths::Get, "text-gets", "3 4 5\n1 1 1\n");
    assert_eq!((gets.answered, gets.hits), (3, 2));
}

#[test]
fn lines_of_a_script_that_the_protocol_does_not_have_are_malformed() {
    let server = TextileServer::start(Fault::None);
    let mut config = config(&server);
    let path = script_path("lines");
    fs::write(
        &path,
        "set a 3\nget a\nincr a\nget a b\nset a 3 60\nget a/b\ndelete a\n",
    )
    .unwrap();
    (config.rate, config.connections, config.warmup_ns) = (Rate::Max, 1, 0);
    (config.duration_ns, config.script) = (60_000 * MS, Some(path.clone()));
    let summary = run(&config);
    fs::remove_file(&path).unwrap();
    assert_counts_are_consistent(&summary);
    assert_eq!((summary.answered, summary.hits, summary.errors), (3, 1, 0));
    let operations = "protocol textile has only get of one key, set and delete";
    assert_eq!(
        summary.script.unwrap().faults,
        [
            format!("line 3: {operations}"),
            format!("line 4: {operations}"),
            "line 5: protocol textile has no TTL".to_owned(),
            "line 6: a key of protocol textile cannot contain `/`".to_owned(),
        ]
    );
}
