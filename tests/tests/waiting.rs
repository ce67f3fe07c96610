//! How workers wait: an idle server does nothing at all, and the flags that trade processor time
//! for latency, either way, do what they say.
// Tests all the way down: helpers may do what tests may.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::time::{Duration, Instant};

use curtail_tests::client::Client;
use curtail_tests::peer::Address;
use curtail_tests::process::{Server, curtail, curtail_path, runtime};
use sys::cost::{Cost, of_process};

fn server(arguments: &[&str]) -> (Server, Client) {
    let server = Server::tcp(|| {
        let mut command = curtail();
        command.args(arguments);
        command
    })
    .unwrap();
    let mut client = Client::connect(&server.address).unwrap();
    client.set("key", b"value").unwrap();
    (server, client)
}

/// What a server pays in a while in which nobody asks it for anything.
fn idle_cost(server: &Server, time: Duration) -> Cost {
    let before = of_process(server.pid()).unwrap();
    std::thread::sleep(time);
    of_process(server.pid()).unwrap().since(&before)
}

#[test]
fn an_idle_server_neither_wakes_up_nor_works() {
    let (server, mut client) = server(&["-t", "2"]);
    // What it finds in order after the last request is done soon.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let cost = idle_cost(&server, Duration::from_millis(300));
        if cost.user_ns + cost.system_ns == 0 && cost.voluntary_switches == Some(0) {
            break;
        }
        assert!(Instant::now() < deadline, "it never rests: {cost:?}");
    }
    assert_eq!(client.get("key").unwrap().unwrap(), b"value");
}

#[test]
fn least_time_between_wake_ups_is_kept_and_the_first_request_does_not_wait() {
    let (_server, mut client) = server(&["-t", "1", "--min-wait", "20ms"]);
    std::thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    client.get("key").unwrap();
    let first = start.elapsed();
    for _ in 0..5 {
        client.get("key").unwrap();
    }
    let all = start.elapsed();
    assert!(
        first < Duration::from_millis(19),
        "the first took {first:?}"
    );
    assert!(all >= Duration::from_millis(95), "six took {all:?}");
    // Each was a burst by itself, and so was this.
    assert!(client.stat("bursts_of_1").unwrap() >= 7);
}

#[test]
fn busy_polling_lasts_as_long_as_it_was_told_and_no_longer() {
    let (server, mut client) = server(&["-t", "1", "--busy-poll", "300ms"]);
    client.get("key").unwrap();
    let busy = idle_cost(&server, Duration::from_millis(200));
    assert!(
        busy.user_ns + busy.system_ns > 50_000_000,
        "it slept: {busy:?}"
    );
    std::thread::sleep(Duration::from_millis(300));
    let idle = idle_cost(&server, Duration::from_millis(300));
    assert!(
        idle.user_ns + idle.system_ns < 10_000_000,
        "it goes on: {idle:?}"
    );
}

#[test]
fn the_generator_reports_the_bursts_of_its_interval() {
    let (server, mut client) = server(&["-t", "1"]);
    // None of these is of the interval.
    for _ in 0..100 {
        client.get("key").unwrap();
    }
    let Address::Tcp(address) = &server.address else {
        panic!("asked for a port");
    };
    let mut load = Command::new(curtail_path());
    load.args(["load", &address.to_string()]);
    load.args(
        "--rate 2k -c 8 -w 100ms -t 500ms -r 100 --no-spin --watch-bursts --json -".split(' '),
    );
    let output = load.output().unwrap();
    let summary: load::Summary = serde_json::from_slice(&output.stdout).unwrap();
    let Some(bursts) = summary.bursts else {
        // Who has a thread for each connection has no bursts.
        assert_eq!(runtime(), "threads");
        return;
    };
    assert!(bursts.wakes() > 0 && bursts.connections >= bursts.wakes());
    // Every request came with a burst; `stats` was one of them, or two.
    let requests = summary.answered + 2;
    assert!(bursts.connections <= requests + requests / 10, "{bursts:?}");
    assert!(bursts.connections >= summary.answered / 2, "{bursts:?}");
}
