//! Tests of load runs against a web server, and of other load runs whose connections are closed and
//! opened again.
//!
//! The *carrier* of a run is the way in which it transports requests and answers. Here it is always
//! the carrier that is named `renewed`: after a connection is closed, the next request opens it
//! again. In the summary of a run, the counts of the carrier include the warm-up of the run. The
//! other numbers of requests, such as `answered`, do not include it.

use workload::{Distribution, Popularity, WebFiles};

use super::carriers::assert_counts_are_consistent;
use super::run;
use super::server::{Fault, Server};
use super::web_server::{Answers, WebServer};
use crate::{Config, Protocol, Rate, Summary};

/// The files that the web server serves, and that the runs request.
fn files() -> WebFiles {
    let (directories, seed) = (2, 3);
    WebFiles::new(directories, seed).unwrap()
}

/// The settings of a short open-loop run.
fn config(server: &WebServer) -> Config {
    let mut config = Config::new(server.address.parse().unwrap());
    config.rate = Rate::PerSecond(300.0);
    (config.connections, config.spin) = (8, false);
    (config.warmup_ns, config.duration_ns) = (50_000_000, 500_000_000);
    // How long the run waits for its last answers. It is long, because the test server is slow, and
    // other tests run beside it.
    config.grace_ns = 20_000_000_000;
    (config.protocol, config.files) = (Protocol::Http, Some(files()));
    (config.popularity, config.verify) = (Popularity::Zipf(1.0), true);
    config.timeout_ns = config.protocol.default_timeout_ns();
    config
}

/// Starts a web server, and makes a run against it with the settings of [`config`], after `change`
/// has changed them. Returns the server and the summary.
fn measure(answers: Answers, change: impl FnOnce(&mut Config)) -> (WebServer, Summary) {
    let server = WebServer::start(answers, files());
    let mut config = config(&server);
    change(&mut config);
    let summary = run(&config);
    assert_counts_are_consistent(&summary);
    (server, summary)
}

/// Returns the number of answers by status class (2xx, 3xx, 4xx, 5xx), and the number of answers
/// whose body is not that of the requested file.
fn statuses(summary: &Summary) -> ([u64; 4], u64) {
    let carrier = summary.carrier.as_ref().unwrap();
    let http = carrier.http.as_ref().unwrap();
    let all = [
        http.status_2xx,
        http.status_3xx,
        http.status_4xx,
        http.status_5xx,
    ];
    (all, http.wrong_bodies)
}

#[test]
fn answers_with_a_length_or_in_chunks_are_verified_and_counted_by_size_of_file() {
    for answers in [Answers::WithLength, Answers::Chunked] {
        let (_, summary) = measure(answers, |_| ());
        assert_eq!(
            (summary.answered, summary.errors),
            (summary.intended, 0),
            "{summary:?}"
        );
        assert_eq!(
            (summary.hits, summary.gets),
            (summary.intended, summary.intended)
        );
        let (by_class, wrong) = statuses(&summary);
        // The status of every answer is 2xx. Their number may be greater than `answered`, which
        // leaves out the warm-up.
        assert!(by_class[0] >= summary.answered && by_class[1..] == [0; 3] && wrong == 0);
        // The mean size of an answer. The sizes and shares of the files (below) give about 15 kB.
        let mean = summary.operations[0].bytes_received as f64 / summary.answered as f64;
        assert!((8_000.0..25_000.0).contains(&mean), "{mean}");
        let files = summary.files.as_ref().unwrap();
        let counts: Vec<u64> = files.classes.iter().map(|it| it.service.count).collect();
        assert_eq!(counts.iter().sum::<u64>(), summary.answered);
        // `files.classes` are the four classes of file sizes, beginning with the smallest files.
        // The classes have these shares of the requests: 0.35, 0.5, 0.14 and 0.01.
        assert!(counts[1] > counts[0] && counts[0] > counts[2] && counts[2] > counts[3]);
        // The statistics by size are of a sample of `sampled` gets, out of the `sampled_of` gets
        // that found their file. In this short run, every such get is in the sample.
        assert_eq!(
            (files.sampled, files.sampled_of),
            (summary.hits, summary.hits)
        );
        // The service inversion says how far the order of the gets by latency is from their order
        // by size. It is 0 if the orders are the same, and at most 1.
        assert!(
            files
                .service_inversion
                .is_some_and(|it| (0.0..0.95).contains(&it))
        );
        // The share of gets for files of at most 500 bytes, among the gets of all latencies. It is
        // about a quarter.
        let small = files.size_deciles.as_ref().unwrap().all[0];
        assert!((0.15..0.35).contains(&small), "{small}");
        let table = crate::text::table(&summary);
        assert!(
            table.contains("100-900 kB") && table.contains("inversion"),
            "{table}"
        );
    }
}

#[test]
fn connection_is_closed_after_five_requests_and_the_next_request_opens_another() {
    let (server, summary) = measure(Answers::WithLength, |config| {
        config.requests_per_connection = Some(5);
    });
    assert_eq!(
        (summary.answered, summary.failures.total()),
        (summary.intended, 0)
    );
    // The number of requests on each connection to the server.
    let counts = server.counts();
    let full = counts.iter().filter(|&&count| count == 5).count();
    // The run uses eight connections at a time. It closes each one after five requests and opens
    // another. Only the last eight may have fewer requests, because the run ends.
    assert!(
        counts.iter().all(|&count| count <= 5) && counts.len() - full <= 8,
        "{counts:?}"
    );
    let carrier = summary.carrier.unwrap();
    assert_eq!(
        (carrier.name.as_str(), carrier.opened),
        ("renewed", counts.len() as u64)
    );
}

#[test]
fn connection_that_the_server_closes_is_opened_again() {
    // With `ThenClose`, the server closes a connection after the third answer; with `Http10`, after
    // each answer.
    for (answers, answers_max) in [(Answers::ThenClose, 3), (Answers::Http10, 1)] {
        for rate in [Rate::PerSecond(200.0), Rate::Max] {
            let (server, summary) = measure(answers, |config| config.rate = rate);
            assert_eq!(summary.failures.total(), 0, "{summary:?}");
            assert!(summary.answered > 50, "{summary:?}");
            assert!(server.counts().iter().all(|&count| count <= answers_max));
        }
    }
}

#[test]
fn request_with_an_incomplete_answer_fails_and_the_next_request_is_sent() {
    // The fifth answer on each connection has only half of its body; then the server closes the
    // connection. So about one request in five fails.
    let (_, summary) = measure(Answers::Half, |config| {
        // The times between requests are equal, so that the number of requests is not random.
        config.arrivals = Distribution::Fixed(1.0);
    });
    let failed = summary.failures.closed;
    assert_eq!(failed, summary.failures.total());
    let share = failed as f64 / summary.intended as f64;
    assert!((0.1..0.3).contains(&share), "{share}");
    assert_eq!(summary.answered + failed, summary.intended);
}

#[test]
fn missing_files_are_misses_and_server_errors_are_errors() {
    let (_, summary) = measure(Answers::Errors, |_| ());
    let (by_class, wrong) = statuses(&summary);
    assert!(by_class[2] > 0 && by_class[3] > 0 && wrong == 0);
    assert!(summary.errors > 0 && summary.errors <= by_class[3]);
    let misses = summary.operations[0].misses;
    assert!(misses > 0 && misses <= by_class[2]);
    assert_eq!(summary.hits + misses + summary.errors, summary.answered);
    assert_eq!(summary.files.unwrap().sampled_of, summary.hits);
    let (_, redirected) = measure(Answers::Redirects, |_| ());
    assert_eq!(
        (redirected.hits, redirected.errors),
        (0, redirected.answered)
    );
    assert!(statuses(&redirected).0[1] >= redirected.answered);
}

#[test]
fn wrong_length_is_an_error_and_wrong_bytes_are_an_error_only_if_verified() {
    // `is_wrong`: the answers are expected to count as errors.
    for (answers, verify, is_wrong) in [
        (Answers::OtherBytes, true, true),
        (Answers::OtherBytes, false, false),
        (Answers::OtherLength, false, true),
    ] {
        let (_, summary) = measure(answers, |config| config.verify = verify);
        let wrong = statuses(&summary).1;
        assert_eq!(wrong > 0, is_wrong);
        assert_eq!(summary.errors, if is_wrong { summary.answered } else { 0 });
        assert_eq!(
            crate::text::table(&summary).contains("another body"),
            is_wrong
        );
    }
}

#[test]
fn answer_without_a_length_fails_and_the_table_says_why() {
    let (_, summary) = measure(Answers::WithoutLength, |_| ());
    assert_eq!(
        (summary.answered, summary.failures.closed),
        (0, summary.intended)
    );
    assert!(crate::text::table(&summary).contains("malformed: a body without a length"));
}

#[test]
fn requests_to_a_server_that_never_answers_time_out() {
    let (_, summary) = measure(Answers::Silent, |config| {
        (config.timeout_ns, config.connections) = (50_000_000, 64);
    });
    assert_eq!(summary.answered, 0);
    assert!(summary.failures.timed_out > 50, "{summary:?}");
}

#[test]
fn answers_to_head_have_no_bodies() {
    let (_, summary) = measure(Answers::WithLength, |config| {
        config.mix = Some("get=1,head=9".parse().unwrap());
    });
    assert_eq!((summary.answered, summary.errors), (summary.intended, 0));
    let head = summary.operations.iter().find(|it| it.operation == "head");
    let head = head.unwrap();
    // About 90 % of the requests are `HEAD`. Their answers consist of a few header fields.
    assert!(head.count * 10 > summary.answered * 8 && head.hits == head.count);
    assert!(head.bytes_received / head.count < 100);
}

#[test]
fn requests_per_connection_also_applies_to_the_text_protocol_of_memcached() {
    let server = Server::start(Fault::None);
    let mut config = super::config(&server);
    crate::prefill(&config, |_| ()).unwrap();
    config.requests_per_connection = Some(4);
    for rate in [Rate::PerSecond(2000.0), Rate::Max] {
        config.rate = rate;
        let summary = run(&config);
        assert_counts_are_consistent(&summary);
        assert_eq!(
            (summary.failures.total(), summary.errors),
            (0, 0),
            "{summary:?}"
        );
        assert_eq!(summary.hits, summary.gets);
        // Each connection carries at most four requests, so `opened` is at least a quarter of
        // `answered`. It is greater, because it includes the warm-up, and because the last
        // connections carry fewer requests. The upper bound is a third of `answered`, plus about 67
        // connections.
        let opened = summary.carrier.unwrap().opened;
        assert!(opened * 4 >= summary.answered && opened * 3 < summary.answered + 200);
    }
}

#[test]
fn settings_that_do_not_fit_protocol_http_are_errors() {
    let server = WebServer::start(Answers::WithLength, files());
    type Change = fn(&mut Config);
    // Each case consists of an invalid change of the settings and the beginning of the error
    // message. The first message continues: "… has made". The last case is invalid because over
    // HTTP, the generator opens closed connections again, but it cannot open *saturating
    // connections* again. These are connections that always keep a fixed number of requests
    // outstanding.
    let cases: [(Change, &str); 7] = [
        (
            |c| c.files = None,
            "files: protocol http requests those that `curtail files make`",
        ),
        (
            |c| c.depth = 2,
            "depth: a connection that is opened again carries one request at a time",
        ),
        (
            |c| c.mix = Some("get=9,set=1".parse().unwrap()),
            "mix: protocol http has no set; give get and head",
        ),
        (
            |c| c.watch_bursts = true,
            "watch bursts: a web server has no `stats`",
        ),
        (
            |c| c.requests_per_connection = Some(0),
            "requests per connection: 0 is out of bounds",
        ),
        (
            |c| c.protocol = Protocol::Text,
            "files: only protocol http requests them; give --protocol http",
        ),
        (
            |c| c.saturating_connections = 1,
            "saturating connections: they are never opened again",
        ),
    ];
    for (change, message) in cases {
        let mut config = config(&server);
        change(&mut config);
        let error = config.validate().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let refused = crate::prefill(&config(&server), |_| ())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("curtail files make"), "{refused}");
}

#[test]
fn error_says_that_the_server_does_not_speak_http() {
    let server = Server::start(Fault::None);
    let mut config = config(&WebServer::start(Answers::WithLength, files()));
    config.targets = vec![server.address.parse().unwrap()];
    let error = crate::run(&config, |_| ()).unwrap_err().to_string();
    assert!(
        error.contains("over HTTP") && error.contains("does a web server listen"),
        "{error}"
    );
}
