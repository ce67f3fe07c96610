//! A load over a link with delay and loss: server and generator on hosts of their own, which are
//! network namespaces, if this process may create them.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use curtail_tests::agents::{Run, add_words};
use curtail_tests::process::curtail_path;
use hosts::{Error, Hosts, Layout, Link};
use sys::child::{Bounds, bind};

const TIMEOUT: Duration = Duration::from_secs(30);
const PORT: u16 = 11211;

/// A small load of one second.
const LOAD: [&str; 14] = [
    "--rate",
    "1k",
    "-c",
    "20",
    "-w",
    "200ms",
    "-t",
    "1s",
    "--records",
    "200",
    "--no-spin",
    "-u",
    "0.2",
    "--prefill",
];

fn open(delay_ms: u64, loss: f64) -> Option<Hosts> {
    let link = Link {
        delay: Duration::from_millis(delay_ms),
        jitter: Duration::ZERO,
        loss,
        seed: 3,
    };
    let layout = Layout {
        clients: 1,
        link: Some(link),
    };
    match Hosts::open(&layout, &[], &[]) {
        Ok(hosts) => Some(hosts),
        Err(error @ (Error::NotPermitted(_) | Error::NoIp)) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A server on its host, which ends with this test.
struct Server(Child);

impl Server {
    fn start(hosts: &Hosts) -> Self {
        let mut command = hosts.in_server(Command::new(curtail_path()));
        let ip = hosts.server_ip().to_string();
        command.args(["serve", "-m", "64", "-p", &PORT.to_string(), "-l", &ip]);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let bounds = Bounds {
            dies_with_parent: true,
            ..Bounds::default()
        };
        bind(&mut command, &bounds).unwrap();
        let server = Self(command.spawn().unwrap());
        let address = SocketAddr::from((hosts.server_ip(), PORT));
        let deadline = Instant::now() + TIMEOUT;
        while let Err(error) = hosts.connect(address, TIMEOUT) {
            assert!(Instant::now() < deadline, "no server: {error}");
            thread::sleep(Duration::from_millis(2));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(hosts: &Hosts) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let mut command = hosts.in_client(0, Command::new(curtail_path()));
    let address = format!("{}:{PORT}", hosts.server_ip());
    add_words(&mut command, &address, &[], &LOAD);
    let run = Run::of(command, folder.path()).unwrap();
    assert_eq!(run.verdict(), (Some(0), String::new()), "{}", run.printed());
    run
}

#[test]
fn a_load_over_a_link_has_its_delay() {
    let Some(hosts) = open(2, 0.0) else { return };
    let _server = Server::start(&hosts);
    let summary = run(&hosts).summary.unwrap();
    assert_eq!(summary.intended, summary.answered);
    let least_ns = summary.service.min;
    assert!(least_ns >= 4_000_000, "{least_ns}");
    let record = hosts.take_relay_record().unwrap().unwrap();
    eprintln!("{record}");
    assert_eq!(record.to_server.lost + record.to_clients.lost, 0);
    assert_eq!(record.to_server.dropped + record.to_clients.dropped, 0);
    assert!(record.to_server.forwarded >= summary.answered, "{record}");
}

#[test]
fn a_load_over_a_link_with_loss_is_answered_after_retransmissions() {
    let Some(hosts) = open(1, 0.02) else { return };
    let _server = Server::start(&hosts);
    let summary = run(&hosts).summary.unwrap();
    let record = hosts.take_relay_record().unwrap().unwrap();
    eprintln!("{record}");
    assert!(record.to_server.lost > 0, "{record}");
    assert!(record.to_clients.lost > 0, "{record}");
    assert!(summary.answered > summary.intended * 9 / 10);
    // The tail is that of lost frames: TCP repeats the last frame of a flight after 200 ms or, with
    // a probe, two round trips.
    assert!(summary.service.max >= 4_000_000);
    assert_eq!(summary.errors, 0);
}
