//! Hosts with real devices and connections. The tests need root and `ip`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use sys::child::Bounds;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(30);

fn layout(clients: u8, link: Option<Link>) -> Layout {
    Layout { clients, link }
}

fn link(delay_ms: u64, loss: f64) -> Link {
    Link {
        delay: Duration::from_millis(delay_ms),
        jitter: Duration::ZERO,
        loss,
        seed: 7,
    }
}

/// Opens hosts, or says why not if this machine does not allow it.
fn open(layout: &Layout) -> Option<Star> {
    match Hosts::open(layout, &[0], &[0]) {
        Ok(Hosts::Star(star)) => Some(star),
        Ok(Hosts::One) => panic!("a layout gives namespaces"),
        Err(error @ (Error::NotPermitted(_) | Error::NoIp)) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A connection from client `number` to a listener on the server's host: first the client's end.
fn connection(star: &Star, number: usize) -> (TcpStream, TcpStream) {
    let server = star.server();
    let bind = || TcpListener::bind((server.ip_address(), 0)).unwrap();
    let listener = server.namespace().run(bind).unwrap();
    let address = listener.local_addr().unwrap();
    let client = star.clients()[number].namespace();
    let connect = || TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
    let near = client.run(connect).unwrap();
    let (far, peer) = listener.accept().unwrap();
    assert_eq!(peer.ip(), star.clients()[number].ip_address());
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    (near, far)
}

/// The time in which one byte goes to the server and back.
fn round_trip(near: &mut TcpStream, far: &mut TcpStream) -> Duration {
    let started = Instant::now();
    let mut byte = [1];
    near.write_all(&byte).unwrap();
    far.read_exact(&mut byte).unwrap();
    far.write_all(&byte).unwrap();
    near.read_exact(&mut byte).unwrap();
    started.elapsed()
}

/// Takes records until all frames that arrived have left, and `settled` holds.
fn settled_record(star: &Star, settled: impl Fn(&RelayRecord) -> bool) -> RelayRecord {
    let mut total = star.take_relay_record().unwrap().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while !settled(&total) {
        assert!(Instant::now() < deadline, "{total}");
        let more = star.take_relay_record().unwrap().unwrap();
        total.merge(&more);
        thread::yield_now();
    }
    total
}

#[test]
fn values_outside_their_bounds_are_named() {
    let refused = |layout: &Layout| layout.check().unwrap_err().to_string();
    assert_eq!(
        refused(&layout(0, None)),
        "hosts: clients = 0 is outside its bounds, 1 to 60"
    );
    assert!(refused(&layout(61, None)).contains("clients = 61"));
    let mut slow = link(10_001, 0.0);
    let text = refused(&layout(1, Some(slow.clone())));
    assert_eq!(
        text,
        "hosts: delay = 10.001s is outside its bounds, 0s to 10s"
    );
    slow.delay = Duration::ZERO;
    slow.jitter = Duration::from_secs(11);
    assert!(refused(&layout(1, Some(slow))).contains("jitter = 11s"));
    for loss in [-0.1, 0.6, f64::NAN] {
        let text = refused(&layout(1, Some(link(1, loss))));
        let expected = format!("loss = {loss} is outside its bounds, 0 to 0.5 (a probability)");
        assert!(text.contains(&expected), "{text}");
    }
    layout(60, Some(link(10_000, 0.5))).check().unwrap();
}

#[test]
fn one_host_is_this_machine() {
    let one = Hosts::One;
    let listener = one.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    assert_eq!(address.ip(), one.server_ip());
    assert_eq!(one.clients(), 1);
    one.connect(address, TIMEOUT).unwrap();
    one.enter_server().unwrap();
    assert!(one.take_relay_record().unwrap().is_none());
    for command in [
        one.in_server(Command::new("true")),
        one.in_client(0, Command::new("true")),
    ] {
        let mut command = command;
        assert!(command.status().unwrap().success());
    }
}

#[test]
fn clients_reach_the_server_and_the_lab_reaches_it_too() {
    let Some(star) = open(&layout(3, None)) else {
        return;
    };
    for number in [0, 2] {
        let (mut near, mut far) = connection(&star, number);
        round_trip(&mut near, &mut far);
    }
    let hosts = Hosts::Star(star);
    assert_eq!(hosts.clients(), 3);
    assert!(hosts.take_relay_record().unwrap().is_none());
    let listener = hosts.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    assert!(hosts.listen(address.port()).is_err(), "in use");
    hosts.connect(address, TIMEOUT).unwrap();
    // Not from this host, where there is no such address or another's.
    let here = TcpListener::bind((hosts.server_ip(), 0));
    assert!(here.is_err());
    thread::scope(|scope| {
        let entered = scope.spawn(|| {
            hosts.enter_server().unwrap();
            TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
        });
        entered.join().unwrap();
    });
}

#[test]
fn programs_run_on_their_hosts() {
    let Some(star) = open(&layout(1, None)) else {
        return;
    };
    let hosts = Hosts::Star(star);
    let devices = |command: Command| {
        let mut command = command;
        command.args(["-o", "link"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let ip = || Command::new("ip");
    let server = devices(hosts.in_server(ip()));
    assert!(server.contains(" client0@"), "{server}");
    let client = devices(hosts.in_client(0, ip()));
    assert!(client.contains(" server@"), "{client}");
    let here = devices(ip());
    assert!(!here.contains("client0@") && !here.contains(" server@"));
}

#[test]
fn a_round_trip_takes_twice_the_delay() {
    let Some(star) = open(&layout(2, Some(link(2, 0.0)))) else {
        return;
    };
    for number in [0, 1] {
        let (mut near, mut far) = connection(&star, number);
        for _ in 0..20 {
            let taken = round_trip(&mut near, &mut far);
            assert!(taken >= Duration::from_millis(4), "{taken:?}");
        }
    }
    let record = settled_record(&star, |record| record.to_server.forwarded >= 42);
    eprintln!("{record}");
    assert_eq!(record.to_server.lost + record.to_clients.lost, 0);
    assert_eq!(record.to_server.dropped + record.to_clients.dropped, 0);
    let forwarded = record.to_server.forwarded + record.to_clients.forwarded;
    assert_eq!(record.lateness.len(), forwarded);
    // The lab's own connections do not cross the link.
    let hosts = Hosts::Star(star);
    let listener = hosts.listen(0).unwrap();
    hosts
        .connect(listener.local_addr().unwrap(), TIMEOUT)
        .unwrap();
}

#[test]
fn a_transfer_with_loss_completes_intact_and_its_losses_are_counted() {
    let Some(star) = open(&layout(1, Some(link(1, 0.05)))) else {
        return;
    };
    let (mut near, mut far) = connection(&star, 0);
    let sent: Vec<u8> = (0..1_u32 << 20).map(|number| (number / 7) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            near.write_all(&sent).unwrap();
            near.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        far.read_to_end(&mut received).unwrap();
        assert!(received == sent, "the bytes differ");
    });
    let record = star.take_relay_record().unwrap().unwrap();
    eprintln!("{record}");
    let counts = record.to_server;
    let count = counts.forwarded + counts.lost;
    // 1 MiB in segments of 1448 bytes.
    assert!(count >= 725, "{record}");
    let mean = count as f64 * 0.05;
    let bound = 6.0 * (mean * 0.95).sqrt();
    assert!((counts.lost as f64 - mean).abs() <= bound, "{record}");
}

#[test]
fn a_fast_transfer_passes_intact_and_every_frame_is_counted() {
    let Some(star) = open(&layout(1, Some(link(0, 0.0)))) else {
        return;
    };
    let (mut near, mut far) = connection(&star, 0);
    let sent = vec![0xa5; 16 << 20];
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            near.write_all(&sent).unwrap();
            near.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        far.read_to_end(&mut received).unwrap();
        assert!(received == sent, "the bytes differ");
    });
    let taken = started.elapsed();
    let record = star.take_relay_record().unwrap().unwrap();
    eprintln!("16 MiB in {taken:?}; {record}");
    // The receiver's backlog may be full, here where all share a processor: TCP repeats the frames.
    let counts = record.to_server;
    assert!(counts.forwarded >= (16 << 20) / 1448, "{record}");
    assert_eq!(counts.lost, 0);
}

#[test]
fn a_host_that_is_cut_off_loses_frames_and_comes_back() {
    let Some(star) = open(&layout(1, Some(link(1, 0.0)))) else {
        return;
    };
    let (mut near, mut far) = connection(&star, 0);
    round_trip(&mut near, &mut far);
    let client = &star.clients()[0];
    client.ip("link set server down").unwrap();
    star.take_relay_record().unwrap();
    far.write_all(&[1]).unwrap();
    // The device takes the frame and its retransmission, and discards both.
    settled_record(&star, |record| record.to_clients.forwarded > 1);
    client
        .ip("link set server up\nroute add default via 198.51.100.1\n\
             neighbour replace 198.51.100.1 lladdr 02:00:00:00:01:00 dev server nud permanent")
        .unwrap();
    near.read_exact(&mut [0]).unwrap();
    star.take_relay_record().unwrap();
}

#[test]
fn nothing_outlives_the_process_even_if_it_is_killed() {
    // The process to be killed is this program, which then runs this test only.
    const NAME: &str = "tests::nothing_outlives_the_process_even_if_it_is_killed";
    const HOLD: &str = "CURTAIL_TEST_HOLD_HOSTS";
    let Some(star) = open(&layout(2, Some(link(1, 0.0)))) else {
        return;
    };
    if std::env::var_os(HOLD).is_some() {
        let hosts = Hosts::Star(star);
        let mut command = hosts.in_client(1, Command::new("sh"));
        command.args(["-c", "echo; echo started; exec sleep 600"]);
        let bounds = Bounds {
            dies_with_parent: true,
            ..Bounds::default()
        };
        sys::child::bind(&mut command, &bounds).unwrap();
        command.status().unwrap();
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line != "started\n" {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "ended early");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The shell on the client's host, now `sleep`, has the pipe's writing end too. So the end of
    // the stream shows that it has ended.
    output.read_to_end(&mut Vec::new()).unwrap();
}
