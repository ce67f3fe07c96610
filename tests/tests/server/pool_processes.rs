//! A memory pool as processes that meet over UDP, with and without a middlebox between them.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use curtail_tests::pool_processes::{
    Bench, Network, Process, count, pool, read_json, start_metadata, start_middlebox, start_node,
};
use serde_json::Value;
use tempfile::TempDir;

/// A folder for the files of a pool.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Runs clients through a middlebox with this step. Returns their results and its counters.
fn bench_through(step: &str) -> (Value, Value) {
    let (network, files) = (Network::new(), Files::new());
    let _node = start_node(network, &files.path("memory")).unwrap();
    let counters = files.path("counters");
    let middlebox = start_middlebox(network, step, &counters).unwrap();
    let _metadata = start_metadata(network, network.ip(4)).unwrap();
    let steered = if step == "none" { "" } else { "--steered" };
    let words = format!("--keys 64 --value 256 --duration 1s {steered}");
    let bench = Bench::start(network, &words, &files.path("bench")).unwrap();
    let results = bench.join().unwrap();
    let printed = middlebox.stop().unwrap();
    assert!(printed.contains("counters: frames"), "{printed}");
    (results, read_json(&counters).unwrap())
}

#[test]
fn clients_get_right_answers_through_each_step_of_a_middlebox() {
    let operations = [
        "swaps_steered",
        "reads_steered",
        "acks_injected",
        "swaps_converted",
    ];
    for (rank, step) in ["none", "write", "read", "mapping", "conversion"]
        .into_iter()
        .enumerate()
    {
        let (results, counters) = bench_through(step);
        assert!(
            count(&results, "/linearizable_calls") > 200,
            "{step}: {results}"
        );
        assert_eq!(count(&results, "/missing"), 0, "{step}");
        for error in ["full", "contended", "unavailable", "unknown"] {
            assert_eq!(count(&results, &format!("/errors/{error}")), 0, "{step}");
        }
        // Each step does what those before do, and one thing more.
        for (index, name) in operations.into_iter().enumerate() {
            let done = count(&counters, &format!("/counters/{name}"));
            assert_eq!(done > 0, index < rank, "{step}: {name} is {done}");
        }
        for lost in ["unsent", "foreign", "unaddressed"] {
            assert_eq!(count(&counters, &format!("/losses/{lost}")), 0, "{step}");
        }
    }
}

/// Kills the memory node and the metadata service with SIGKILL, in turns and together, while
/// clients read and write; then every key is read by a client that knows nothing.
fn bench_with_crashes(middlebox: Option<&str>) {
    let (network, files) = (Network::new(), Files::new());
    let memory = files.path("memory");
    let mut node = start_node(network, &memory).unwrap();
    let middlebox =
        middlebox.map(|step| start_middlebox(network, step, &files.path("counters")).unwrap());
    let node_ip = network.ip(if middlebox.is_some() { 4 } else { 2 });
    let mut metadata = start_metadata(network, node_ip).unwrap();
    let steered = if middlebox.is_some() { "--steered" } else { "" };
    let words = format!("--keys 64 --value 256 --duration 5s {steered}");
    let mut bench = Bench::start(network, &words, &files.path("bench")).unwrap();
    for round in 0..3 {
        // Some load between the crashes.
        thread::sleep(Duration::from_millis(300));
        if round != 1 {
            node.kill().unwrap();
            node = start_node(network, &memory).unwrap();
        }
        thread::sleep(Duration::from_millis(100));
        if round != 0 {
            metadata.kill().unwrap();
            metadata = start_metadata(network, node_ip).unwrap();
        }
    }
    assert!(bench.is_running().unwrap(), "the crashes came too late");
    let results = bench.join().unwrap();
    assert!(count(&results, "/reconnects") > 0, "{results}");
    assert!(count(&results, "/linearizable_calls") > 200, "{results}");
    assert_eq!(count(&results, "/missing"), 0);
}

#[test]
fn nothing_acknowledged_is_lost_when_node_and_metadata_are_killed() {
    bench_with_crashes(None);
}

#[test]
fn nothing_acknowledged_is_lost_when_they_are_killed_behind_a_middlebox() {
    bench_with_crashes(Some("conversion"));
}

#[test]
fn clients_finish_though_their_middlebox_is_killed_and_started_again() {
    let (network, files) = (Network::new(), Files::new());
    let _node = start_node(network, &files.path("memory")).unwrap();
    let counters = files.path("counters");
    let middlebox = start_middlebox(network, "conversion", &counters).unwrap();
    let _metadata = start_metadata(network, network.ip(4)).unwrap();
    let words = "--keys 64 --value 256 --duration 4s --steered";
    let mut bench = Bench::start(network, words, &files.path("bench")).unwrap();
    middlebox.kill().unwrap();
    let middlebox = start_middlebox(network, "conversion", &counters).unwrap();
    assert!(bench.is_running().unwrap(), "the crash came too late");
    let results = bench.join().unwrap();
    assert!(count(&results, "/reconnects") > 0, "{results}");
    assert_eq!(count(&results, "/missing"), 0);
    middlebox.stop().unwrap();
    let counters = read_json(&counters).unwrap();
    assert!(count(&counters, "/counters/swaps_converted") > 0);
}

#[test]
fn a_middlebox_says_what_is_wrong_with_its_flags() {
    let network = Network::new();
    let (here, node) = (network.ip(4), network.ip(2));
    let both = format!("--listen {here} --node {node}");
    for (words, message) in [
        (String::new(), "--listen"),
        (format!("--listen {here}"), "--node"),
        ("--client-device lo".to_owned(), "--memory-device"),
        (
            format!("{both} --client-device lo --memory-device lo"),
            "--client-device",
        ),
        (format!("{both} --step wrote"), "conversion"),
        (format!("{both} --state 100"), "320 bytes"),
        (format!("{both} --resend 0s"), "--resend"),
        (format!("{both} --shared 0"), "--shared"),
        (format!("{both} --exact-key 0xg"), "--exact-key"),
        (format!("{both} --every 0s"), "--every"),
        (format!("--listen {node} --node {node}"), "memory node"),
        ("--client-device lo --memory-device other".to_owned(), "lo"),
        (
            "--client-device one --memory-device one".to_owned(),
            "differ",
        ),
        (
            "--client-device none --memory-device other".to_owned(),
            "none",
        ),
        (format!("--listen 192.0.2.1 --node {node}"), "192.0.2.1"),
    ] {
        let output = pool(&format!("middlebox {words}")).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{words}");
        assert!(printed.contains(message), "{words}: {printed}");
    }
    let command = pool(&format!("middlebox {both}"));
    let _first = Process::start(command, "steering").unwrap();
    let output = pool(&format!("middlebox {both}")).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains("4791"), "{printed}");
}
