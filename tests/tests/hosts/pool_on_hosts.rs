//! A memory pool on hosts of their own, with a middlebox between two devices, if this process may
//! create network namespaces. Every frame at both sides of the middlebox is captured, and read by
//! other tools.

#[path = "../../../crates/roce/src/tests/other_tools/scapy.rs"]
mod scapy;

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use curtail_tests::pool_capture::{
    Capture, Frames, Sequence, check_requests, check_responses, compare_with_tshark, connections,
    write,
};
use curtail_tests::pool_hosts::PoolHosts;
use curtail_tests::pool_processes::{count, read_json};
use pool::hosts::{Host, device};
use serde_json::Value;

/// Most frames of a capture that scapy reads: it takes about a millisecond for each.
const SCAPY_MAX: usize = 1500;

/// Runs are made one after the other, so that none waits for the processors of another. What they
/// captured is read at the same time.
static ONE_RUN: Mutex<()> = Mutex::new(());

/// What was captured of a run.
struct Run {
    /// From clients to the middlebox, and on to the memory node.
    requests: [Frames; 2],
    /// From the memory node to the middlebox, and on to clients.
    responses: [Frames; 2],
    results: Value,
    counters: Value,
}

fn run(hosts: &PoolHosts, step: &str, folder: &Path) -> Run {
    let capture = Capture::start(hosts.capture().unwrap().into()).unwrap();
    let node = hosts.start_node().unwrap();
    let (counters, results) = (folder.join("counters"), folder.join("results"));
    let words = format!("--step {step} --json {}", counters.display());
    let middlebox = hosts.start_middlebox(&words).unwrap();
    let metadata = hosts.start_metadata().unwrap();
    let steered = if step == "none" { "" } else { "--steered" };
    let words = format!(
        "--threads 3 --keys 24 --value 128 --duration 100ms --check {steered} --json {}",
        results.display()
    );
    hosts.start_bench(&words).unwrap().join().unwrap();
    // In this order nothing remains without an answer, or unseen by the middlebox.
    metadata.stop().unwrap();
    node.stop().unwrap();
    middlebox.stop().unwrap();
    let frames: [Frames; 4] = capture.finish().unwrap().try_into().unwrap();
    let [from_clients, from_memory, to_clients, to_memory] = frames;
    Run {
        requests: [from_clients, to_memory],
        responses: [from_memory, to_clients],
        results: read_json(&results).unwrap(),
        counters: read_json(&counters).unwrap(),
    }
}

/// The capture has each frame that the middlebox has counted.
fn check_complete(run: &Run, step: &str) {
    let [from_clients, to_memory] = run.requests.each_ref().map(|it| it.len() as u64);
    let [from_memory, to_clients] = run.responses.each_ref().map(|it| it.len() as u64);
    let counters = &run.counters;
    for lost in ["discarded", "unsent", "foreign"] {
        assert_eq!(
            count(counters, &format!("/losses/{lost}")),
            0,
            "{step}: {counters}"
        );
    }
    let received = count(counters, "/counters/frames");
    let captured = from_clients + from_memory;
    assert_eq!(
        captured,
        received,
        "{step}: {}",
        ends(&[&run.requests[0], &run.responses[0]])
    );
    assert_eq!(
        to_memory + to_clients,
        count(counters, "/counters/sent"),
        "{step}"
    );
}

/// The first and last frames of captures, for a message.
fn ends(captures: &[&Frames]) -> String {
    let mut text = String::new();
    for frames in captures {
        for frame in frames.iter().take(3).chain(frames.iter().rev().take(3)) {
            let start: Vec<String> = frame
                .iter()
                .take(80)
                .map(|it| format!("{it:02x}"))
                .collect();
            text += &format!("\n{} bytes: {}", frame.len(), start.concat());
        }
    }
    text
}

fn repeated<'a>(sequences: impl IntoIterator<Item = &'a Sequence>) -> u64 {
    sequences
        .into_iter()
        .map(|sequence| sequence.repeated)
        .sum()
}

/// Sequence numbers of both sides: of clients' connections, and of those at the memory node.
fn check_sequences(run: &Run, step: &str) {
    for side in [0, 1] {
        let requests = check_requests(&run.requests[side]).unwrap();
        // The other order: responses of the memory node are at side 1.
        let answers = &run.responses[1 - side];
        let connections = connections(&run.requests[side], answers).unwrap();
        // Only responses on the same connection may be repeated.
        let is_repeated = |there| requests.get(there).is_some_and(|sent| sent.repeated > 0);
        let answered_again = connections
            .iter()
            .filter(|(there, _)| is_repeated(there))
            .map(|(_, back)| *back)
            .collect();
        let responses = check_responses(answers, &answered_again).unwrap();
        let mut answered = 0;
        for (there, back) in connections {
            let (Some(sent), Some(received)) = (requests.get(&there), responses.get(&back)) else {
                continue;
            };
            answered += sent.packets;
            assert_eq!(sent.last, received.last, "{step}, side {side}: {there:?}");
        }
        let sent: u64 = requests.values().map(|sequence| sequence.packets).sum();
        eprintln!(
            "step {step}, side {side}: {sent} requests on {} queue pairs, {} repeated",
            requests.len(),
            repeated(requests.values())
        );
        assert!(sent > 100, "{step}");
        assert_eq!(
            answered, sent,
            "{step}, side {side}: of connections that were accepted"
        );
    }
}

/// Whether tshark is there, and agrees.
fn check_with_tshark(run: &Run, folder: &Path) {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed");
        return;
    }
    // At once: its start takes as long as some thousand frames.
    let frames: Frames = run
        .requests
        .iter()
        .chain(&run.responses)
        .flatten()
        .cloned()
        .collect();
    let path = folder.join("capture.pcap");
    write(&path, &frames).unwrap();
    compare_with_tshark(&path, &frames).unwrap();
}

/// Whether scapy is there, and computes the same ICRC.
fn check_with_scapy(run: &Run, folder: &Path) {
    let mut frames: Frames = Vec::new();
    for all in run.requests.iter().chain(&run.responses) {
        frames.extend(all.iter().take(SCAPY_MAX / 4).cloned());
    }
    let path = folder.join("scapy.pcap");
    write(&path, &frames).unwrap();
    scapy::assert_agrees(path, frames.len());
}

/// The captures of a run with one step are complete, and right for other tools.
fn check_captures(step: &str) {
    let Some(hosts) = PoolHosts::open().unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let run = {
        let _alone = ONE_RUN.lock().unwrap_or_else(PoisonError::into_inner);
        run(&hosts, step, folder.path())
    };
    assert!(count(&run.results, "/linearizable_calls") > 50, "{step}");
    for error in ["full", "contended", "unavailable", "unknown"] {
        assert_eq!(
            count(&run.results, &format!("/errors/{error}")),
            0,
            "{step}"
        );
    }
    check_complete(&run, step);
    check_sequences(&run, step);
    thread::scope(|scope| {
        scope.spawn(|| check_with_tshark(&run, folder.path()));
        check_with_scapy(&run, folder.path());
    });
}

#[test]
fn captures_without_a_step_are_complete_and_right() {
    check_captures("none");
}

#[test]
fn captures_of_the_step_write_are_complete_and_right() {
    check_captures("write");
}

#[test]
fn captures_of_the_step_read_are_complete_and_right() {
    check_captures("read");
}

#[test]
fn captures_of_the_step_mapping_are_complete_and_right() {
    check_captures("mapping");
}

#[test]
fn captures_of_the_step_conversion_are_complete_and_right() {
    check_captures("conversion");
}

#[test]
fn devices_that_are_set_down_and_up_again_cost_no_write() {
    let Some(hosts) = PoolHosts::open().unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (counters, results) = (
        folder.path().join("counters"),
        folder.path().join("results"),
    );
    let _node = hosts.start_node().unwrap();
    let words = format!("--step mapping --json {}", counters.display());
    let middlebox = hosts.start_middlebox(&words).unwrap();
    let _metadata = hosts.start_metadata().unwrap();
    let words = format!(
        "--threads 2 --keys 8 --value 128 --duration 1s --check --steered --json {}",
        results.display()
    );
    let bench = hosts.start_bench(&words).unwrap();
    for (host, device) in [
        (Host::Middlebox, device::TO_MEMORY),
        (Host::Middlebox, device::TO_CLIENTS),
        (Host::Memory, device::MEMORY),
        (Host::Metadata, device::METADATA),
        (Host::Clients, device::CLIENTS),
    ] {
        for state in ["down", "up"] {
            let words = format!("link set {device} {state}");
            hosts.ip(host, &words).unwrap();
        }
    }
    bench.join().unwrap();
    let results = read_json(&results).unwrap();
    assert!(count(&results, "/linearizable_calls") > 50);
    middlebox.stop().unwrap();
    let counters = read_json(&counters).unwrap();
    assert_eq!(count(&counters, "/losses/downs"), 2);
}

#[test]
fn a_middlebox_whose_device_is_removed_ends_and_writes_its_counters() {
    let Some(hosts) = PoolHosts::open().unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let counters = folder.path().join("counters");
    let words = format!("--step mapping --json {}", counters.display());
    let middlebox = hosts.start_middlebox(&words).unwrap();
    let words = format!("link set {} down", device::TO_MEMORY);
    hosts.ip(Host::Middlebox, &words).unwrap();
    let words = format!("link delete {}", device::TO_MEMORY);
    hosts.ip(Host::Middlebox, &words).unwrap();
    let error = middlebox.join().unwrap_err();
    assert!(error.to_string().contains("counters:"), "{error}");
    let counters = read_json(&counters).unwrap();
    assert_eq!(count(&counters, "/losses/downs"), 1);
}
