//! Errors of the kernel that pass: each call fails now and then, and no client notices more than a
//! delay. The errors are injected by strace(1), where it is installed.

use std::fs;
use std::process::Command;

use curtail_tests::client::Client;
use curtail_tests::process::{Server, curtail, installed};
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

/// Calls, the errors that each is given, and the runtimes that make them.
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

/// Runs a server in which each third of these calls of a thread fails with this error.
fn inject(calls: &str, error: &str) {
    let what = format!("{calls} {error}");
    let trace = NamedTempFile::new().unwrap();
    let server = Server::tcp(|| {
        let serve = curtail();
        let mut command = Command::new("strace");
        // `-D`: the server is the process that was started, and ends as such.
        command.args(["-D", "-f", "-qq", "-o"]).arg(trace.path());
        command.args(["-e", &format!("trace={calls}")]);
        command.args(["-e", &format!("inject={calls}:error={error}:when=3+3")]);
        command.arg(serve.get_program()).args(serve.get_args());
        command.args(["-t", "2", "-u", "root"]);
        command
    });
    let server = match server {
        Ok(server) => server,
        Err(error) => {
            let traced = fs::read_to_string(trace.path()).unwrap_or_default();
            panic!("{what}: {error:#}, {traced}");
        }
    };
    exchange(&server).unwrap_or_else(|error| panic!("{what}: {error:#}"));
    let traced = fs::read_to_string(trace.path()).unwrap();
    assert!(
        traced.contains("(INJECTED)"),
        "{what}: nothing was injected"
    );
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
    for name in ["conn_panics", "worker_restarts"] {
        let count = clients[0].stat(name)?;
        anyhow::ensure!(count == 0, "{name} is {count}");
    }
    Ok(())
}

curtail_tests::on_runtimes! {
    [events rings threads fibres fibres_steal]
    errors_that_pass_are_not_noticed_by_clients,
}
