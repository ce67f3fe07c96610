//! An idle server does not wake up; and `curtail load` reports the bursts of a server.

use std::process::Command;
use std::time::{Duration, Instant};

use curtail_tests::peer::Address;
use curtail_tests::process::{curtail_path, server_with_key};
use curtail_tests::runtimes::{Runtime, runtime};

fn an_idle_server_neither_wakes_up_nor_works() {
    let (server, mut client) = server_with_key(&["-t", "2"]);
    // Maintenance after the last request ends soon.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let cost = server.idle_cost(Duration::from_millis(300)).unwrap();
        if cost.user_ns + cost.system_ns == 0 && cost.voluntary_switches == Some(0) {
            break;
        }
        assert!(Instant::now() < deadline, "it never rests: {cost:?}");
    }
    assert_eq!(client.get("key").unwrap().unwrap(), b"value");
}

fn the_generator_reports_the_bursts_of_its_interval() {
    let (server, mut client) = server_with_key(&["-t", "1"]);
    // None of these requests is part of the interval.
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
        // A runtime with a thread per connection has no bursts.
        assert_eq!(runtime(), Runtime::Threads);
        return;
    };
    assert!(bursts.wakes() > 0 && bursts.connections >= bursts.wakes());
    // Every request was part of a burst; one or two of them were `stats`.
    let requests = summary.answered + 2;
    assert!(bursts.connections <= requests + requests / 10, "{bursts:?}");
    assert!(bursts.connections >= summary.answered / 2, "{bursts:?}");
}

curtail_tests::on_runtimes! {
    [events rings threads fibres fibres_steal bypass]
    an_idle_server_neither_wakes_up_nor_works,
    the_generator_reports_the_bursts_of_its_interval,
}
