//! What only a server with a device of its own has to do.

use std::io::{Read, Seek};
use std::process::Command;
use std::sync::Arc;

use curtail_tests::client::Client;
use curtail_tests::device_pair::DevicePair;
use curtail_tests::in_process::{cache, setup};
use curtail_tests::process::{curtail, curtail_path, server, server_with_key};
use runtime::{Panicked, Scheduler};

/// The connections of the published experiments.
const CONNECTIONS: u64 = 15_360;

fn all_connections_of_the_published_experiments_are_held_and_served() {
    let server = server(&["-c", "16000", "-t", "2"]);
    let mut observer = Client::connect(&server.address).unwrap();
    let curtail_tests::peer::Address::Tcp(address) = &server.address else {
        panic!("asked for a port");
    };
    let mut load = Command::new(curtail_path());
    load.args(["load", &address.to_string(), "--rate", "4k"]);
    load.args(["-c", &CONNECTIONS.to_string()]);
    load.args("-w 1s -t 4s -r 1000 --prefill --no-spin -q --json -".split(' '));
    let load = load.output().unwrap();
    let said = String::from_utf8_lossy(&load.stderr);
    let summary: load::Summary =
        serde_json::from_slice(&load.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(summary.answered, summary.intended, "{said}");
    assert_eq!((summary.errors, summary.lost_connections), (0, 0), "{said}");
    assert!(observer.stat("total_connections").unwrap() >= CONNECTIONS);
    observer
        .stat_until("curr_connections", |count| count == 1)
        .unwrap();
}

fn an_address_of_the_kernel_is_refused() {
    let pair = DevicePair::new().unwrap();
    let start = |address: &str, device: &str| {
        let mut command = curtail();
        command.args(["--address", address, "--interface", device]);
        pair.enter(&mut command);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = start("127.0.0.1/8", "server");
    assert!(said.contains("the kernel has the address"), "{said}");
    let said = start("10.77.0.1/24", "no-such-device");
    assert!(
        said.contains("name a device that `ip link` shows"),
        "{said}"
    );
    let said = start("10.77.0.1/24", "lo");
    assert!(said.contains("an Ethernet device is needed"), "{said}");
}

/// Root loses the capabilities for the program that keeps packets from the kernel's stack.
fn a_server_that_may_attach_no_program_says_so_and_serves() {
    let pair = DevicePair::new().unwrap();
    let at = || curtail_tests::peer::Address::Tcp(pair.address);
    let mut said = tempfile::tempfile().unwrap();
    let mut command = Command::new("setpriv");
    let lost = "-bpf,-net_admin,-sys_admin";
    command.args([&format!("--bounding-set={lost}"), "--"]);
    command.arg(curtail_path());
    command.args(["serve", "--runtime", "bypass"]);
    command.stderr(said.try_clone().unwrap());
    pair.place(&mut command);
    let server = curtail_tests::process::Server::at(command, at()).unwrap();
    let mut client = Client::connect(&server.address).unwrap();
    let settings = client.stats_of("stats settings").unwrap();
    assert_eq!(settings["bypass_ingress_filter"], "no");
    let mut text = String::new();
    said.rewind().unwrap();
    said.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("no BPF program").count(), 1, "{text}");
}

/// The kernel of a killed server knows nothing of its connections.
fn a_connection_of_a_killed_server_is_reset_by_the_next_one() {
    let pair = DevicePair::new().unwrap();
    let start = || {
        let mut command = curtail();
        pair.place(&mut command);
        curtail_tests::process::Server::at(command, curtail_tests::peer::Address::Tcp(pair.address))
            .unwrap()
    };
    let first = start();
    let mut client = Client::connect(&first.address).unwrap();
    client.set("key", b"value").unwrap();
    drop(first);
    let second = start();
    assert!(client.request("mn").is_err());
    assert_eq!(
        Client::connect(&second.address)
            .unwrap()
            .request("mn")
            .unwrap(),
        "MN"
    );
}

/// The stack ends with the process, so the process has to wait until everything has arrived.
fn a_server_that_is_told_to_stop_finishes_its_answers_first() {
    const COUNT: usize = 20;
    let (mut server, mut client) = server_with_key(&["-t", "2"]);
    let mut idle = Client::connect(&server.address).unwrap();
    assert_eq!(idle.request("mn").unwrap(), "MN");
    let value = vec![b'x'; 500_000];
    client.set("big", &value).unwrap();
    client.send(&b"get big\r\n".repeat(COUNT)).unwrap();
    let answer = [b"VALUE big 0 500000\r\n", &value[..], b"\r\nEND\r\n"].concat();
    assert!(client.take(answer.len()).unwrap() == answer);
    server.terminate().unwrap();
    assert_eq!(idle.rest().unwrap(), b"");
    for number in 1..COUNT {
        assert!(client.take(answer.len()).unwrap() == answer, "{number}");
    }
    assert_eq!(client.rest().unwrap(), b"");
    assert!(server.wait().unwrap().success());
}

/// A client that takes nothing keeps its connection open until the time to stop is over. Without a
/// reset it would wait forever for the rest.
fn connections_that_outlast_the_time_to_stop_are_reset() {
    let (mut server, mut client) = server_with_key(&["--drain", "500ms"]);
    let value = vec![b'x'; 500_000];
    client.set("big", &value).unwrap();
    client.send(&b"get big\r\n".repeat(40)).unwrap();
    client.take(1000).unwrap();
    server.terminate().unwrap();
    server.wait().unwrap();
    let rest = client.rest().unwrap();
    assert!(rest.len() < 40 * value.len(), "all was sent");
}

/// A panic outside of any session, as in `a_worker_that_panics_restarts` for the other runtimes.
/// The new stack knows nothing of the connections, so the old one resets them.
fn a_worker_that_panics_resets_its_connections_and_restarts() {
    let pair = DevicePair::new().unwrap();
    let (control, setup) = (Arc::default(), setup(Scheduler::Fair));
    let counts = Arc::clone(&setup.counts);
    let service = cache(&control);
    let running = runtime::start_bypass(&service, setup, pair.open().unwrap()).unwrap();
    let address = curtail_tests::peer::Address::Tcp(pair.address);
    let mut waiting = Client::connect(&address).unwrap();
    assert_eq!(waiting.request("mn").unwrap(), "MN");
    waiting.send(b"get unfinished").unwrap();
    let mut writer = Client::connect(&address).unwrap();
    writer.send(b"verbosity 1 noreply\r\n").unwrap();
    // Writing to memory that is not populated causes store maintenance.
    let value = vec![b'x'; 30_000];
    let lost = (0..2000).any(|number| writer.set(&format!("k{number}"), &value).is_err());
    assert!(lost, "nothing has panicked");
    assert_eq!(waiting.rest().unwrap(), b"");
    let mut next = Client::connect(&address).unwrap();
    assert_eq!(next.request("mn").unwrap(), "MN");
    let snapshot = counts.snapshot();
    assert_eq!((snapshot.restarts, snapshot.current), (1, 1));
    assert_eq!(running.stop(), Err(Panicked));
}

/// What the device and the stack count is in `stats curtail`.
fn frames_are_counted() {
    let (server, mut client) = server_with_key(&["-t", "2"]);
    let mut frames = |name| client.stat(name).unwrap();
    assert!(frames("bypass_frames_received") >= 4);
    assert!(frames("bypass_frames_sent") >= 3);
    assert_eq!(frames("bypass_segments_unknown"), 0);
    // To a port without a service.
    let curtail_tests::peer::Address::Tcp(mut address) = server.address else {
        panic!("asked for a port");
    };
    address.set_port(9);
    assert!(std::net::TcpStream::connect(address).is_err());
    // The other worker may have received the segment; it counts it when it has sent the refusal.
    client
        .stat_until("bypass_segments_unknown", |count| count == 1)
        .unwrap();
    assert_eq!(client.stat("bypass_frames_damaged").unwrap(), 0);
}

/// Two workers share a device.
fn each_worker_has_connections() {
    let (server, mut client) = server_with_key(&["-t", "2"]);
    let mut others: Vec<Client> = (0..32)
        .map(|_| Client::connect(&server.address).unwrap())
        .collect();
    for other in &mut others {
        assert_eq!(other.get("key").unwrap().unwrap(), b"value");
    }
    assert_eq!(client.stat("curr_connections").unwrap(), 33);
}

curtail_tests::on_runtimes! {
    [bypass]
    all_connections_of_the_published_experiments_are_held_and_served,
    an_address_of_the_kernel_is_refused,
    a_server_that_may_attach_no_program_says_so_and_serves,
    a_connection_of_a_killed_server_is_reset_by_the_next_one,
    a_server_that_is_told_to_stop_finishes_its_answers_first,
    connections_that_outlast_the_time_to_stop_are_reset,
    a_worker_that_panics_resets_its_connections_and_restarts,
    frames_are_counted,
    each_worker_has_connections,
}
