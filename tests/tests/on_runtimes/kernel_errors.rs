//! Errors of the kernel that pass: each call fails now and then, and no client notices more than a
//! delay. The errors are injected by strace(1), where it is installed.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use curtail_tests::client::Client;
use curtail_tests::peer::Address;
use curtail_tests::process::{Server, curtail, curtail_path, installed, server_with_key};
use curtail_tests::runtimes::{Runtime, runtime};
use tempfile::NamedTempFile;

const EPOLL: [Runtime; 2] = [Runtime::Events, Runtime::FibresSteal];
const URING: [Runtime; 2] = [Runtime::Rings, Runtime::Fibres];
const ALL: [Runtime; 5] = [
    Runtime::Events,
    Runtime::Rings,
    Runtime::Threads,
    Runtime::Fibres,
    Runtime::FibresSteal,
];

/// Calls, the errors that each is given, and the runtimes that make them. The thread that serves
/// datagrams makes the same calls under each.
const INJECTED: [(&str, &str, &[Runtime]); 6] = [
    ("io_uring_enter", "EAGAIN ENOMEM EBUSY EINTR", &URING),
    ("epoll_pwait2,epoll_pwait,epoll_wait", "EINTR", &EPOLL),
    (
        "accept4,accept",
        "ECONNABORTED EPROTO EMFILE ENFILE ENOBUFS ENOMEM EINTR",
        &ALL,
    ),
    ("recvfrom,recvmsg", "EINTR", &EPOLL),
    ("sendto,sendmsg", "EINTR ENOBUFS ENOMEM", &EPOLL),
    (
        "recvfrom,recvmsg,sendto,sendmsg",
        "EINTR",
        &[Runtime::Threads],
    ),
];

fn errors_that_pass_are_not_noticed_by_clients() {
    if installed("strace", "STRACE").is_none() {
        eprintln!("skipped: strace not installed");
        return;
    }
    for (calls, errors, runtimes) in INJECTED {
        if !runtimes.contains(&runtime()) {
            continue;
        }
        for error in errors.split(' ') {
            inject(calls, error);
        }
    }
}

/// Calls of the generator, and the errors that each is given.
const INJECTED_IN_GENERATOR: [(&str, &str); 3] = [
    ("epoll_pwait2,epoll_pwait,epoll_wait", "EINTR"),
    ("recvfrom,recvmsg", "EINTR"),
    ("sendto,sendmsg", "EINTR ENOBUFS ENOMEM"),
];

fn errors_that_pass_do_not_count_as_errors_of_the_server() {
    if installed("strace", "STRACE").is_none() {
        eprintln!("skipped: strace not installed");
        return;
    }
    let (server, _client) = server_with_key(&[]);
    let Address::Tcp(address) = &server.address else {
        panic!("asked for a port");
    };
    for (calls, errors) in INJECTED_IN_GENERATOR {
        for error in errors.split(' ') {
            let what = format!("{calls} {error}");
            let trace = NamedTempFile::new().unwrap();
            let mut load = Command::new(curtail_path());
            load.args(["load", &address.to_string()]);
            load.args("--rate 500 -c 8 -w 0 -t 500ms -r 100 --no-spin -q --json -".split(' '));
            let output = failing(&load, calls, error, trace.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let summary: load::Summary = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|error| panic!("{what}: {error}: {said}"));
            assert_eq!(summary.answered, summary.intended, "{what}: {said}");
            let failed = (summary.errors, summary.lost_connections);
            assert_eq!(failed, (0, 0), "{what}: {said}");
            check_injected(&what, trace.path());
        }
    }
}

/// The command in which each third of these calls of a thread fails with this error.
fn failing(command: &Command, calls: &str, error: &str, trace: &Path) -> Command {
    let mut strace = Command::new("strace");
    // `-D`: the program is the process that was started, and ends as such.
    strace.args(["-D", "-f", "-qq", "-o"]).arg(trace);
    strace.args(["-e", &format!("trace={calls}")]);
    strace.args(["-e", &format!("inject={calls}:error={error}:when=3+3")]);
    strace.arg(command.get_program()).args(command.get_args());
    strace
}

fn check_injected(what: &str, trace: &Path) {
    let traced = fs::read_to_string(trace).unwrap();
    assert!(
        traced.contains("(INJECTED)"),
        "{what}: nothing was injected"
    );
}

/// Runs a server in which each third of these calls of a thread fails with this error.
fn inject(calls: &str, error: &str) {
    let what = format!("{calls} {error}");
    let trace = NamedTempFile::new().unwrap();
    let server = Server::tcp(|| {
        let mut serve = curtail();
        serve.args(["-t", "2", "-u", "root", "-U", "-1"]);
        failing(&serve, calls, error, trace.path())
    });
    let server = match server {
        Ok(server) => server,
        Err(error) => {
            let traced = fs::read_to_string(trace.path()).unwrap_or_default();
            panic!("{what}: {error:#}, {traced}");
        }
    };
    exchange(&server).unwrap_or_else(|error| panic!("{what}: {error:#}"));
    check_injected(&what, trace.path());
}

fn exchange(server: &Server) -> anyhow::Result<()> {
    let connect = || Client::connect(&server.address);
    let mut clients = (0..8).map(|_| connect()).collect::<Result<Vec<_>, _>>()?;
    for round in 0..30 {
        for (number, client) in clients.iter_mut().enumerate() {
            let (key, value) = (format!("key{number}"), vec![b'v'; 100 + 700 * round]);
            client.set(&key, &value)?;
            let found = client.get(&key)?;
            anyhow::ensure!(found == Some(value), "another value was found");
        }
        // New connections are accepted meanwhile.
        clients[round % 8] = connect()?;
    }
    exchange_datagrams(&mut clients[0])?;
    for name in ["conn_panics", "worker_restarts"] {
        let count = clients[0].stat(name)?;
        anyhow::ensure!(count == 0, "{name} is {count}");
    }
    Ok(())
}

fn exchange_datagrams(client: &mut Client) -> anyhow::Result<()> {
    client.set("key", b"value")?;
    let port: u16 = client.stats_of("stats settings")?["udpport"].parse()?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    for number in 0..20 {
        let header = [0, number, 0, 0, 0, 1, 0, 0];
        let request = [&header[..], b"get key\r\n"].concat();
        socket.send_to(&request, (Ipv4Addr::LOCALHOST, port))?;
        let mut reply = [0; 100];
        let len = socket.recv(&mut reply)?;
        let expected = [&header[..], b"VALUE key 0 5\r\nvalue\r\nEND\r\n"].concat();
        anyhow::ensure!(reply[..len] == expected, "another reply was sent");
    }
    Ok(())
}

curtail_tests::on_runtimes! {
    [events rings threads fibres fibres_steal]
    errors_that_pass_are_not_noticed_by_clients,
}

curtail_tests::on_runtimes! {
    [events]
    errors_that_pass_do_not_count_as_errors_of_the_server,
}
