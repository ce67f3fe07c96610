//! A server with a client of TCP, and a client of UDP.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use curtail_tests::client::Client;
use curtail_tests::process::{Server, curtail};
use rustix::process::Signal;

const TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_LEN: usize = 8;
const PAYLOAD_MAX: usize = 1392;

/// A server with a client of TCP and one of UDP.
pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) tcp: Client,
    pub(crate) udp: Udp,
}

impl Served {
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST, || {
            let mut command = curtail();
            command.args(["-U", "-1"]).args(flags);
            command
        })
    }

    pub(crate) fn start_at(ip: Ipv4Addr, command: impl Fn() -> Command) -> Self {
        let server = Server::tcp_on(ip, &[], command).unwrap();
        let mut tcp = Client::connect(&server.address).unwrap();
        let port = udp_port(&mut tcp);
        Self {
            server,
            tcp,
            udp: Udp::new(ip, port),
        }
    }

    pub(crate) fn count(&mut self, name: &str) -> u64 {
        self.tcp.stat(name).unwrap()
    }

    /// Sends these requests while the process is stopped, so that they are one burst. Returns the
    /// replies.
    pub(crate) fn burst(&mut self, requests: &[String]) -> Vec<String> {
        self.server.signal(Signal::STOP).unwrap();
        wait_until_stopped(self.server.pid());
        let sent = requests.iter().map(|it| self.udp.send(it.as_bytes()));
        let numbers: Vec<u16> = sent.collect();
        self.server.signal(Signal::CONT).unwrap();
        let replies = numbers.iter().map(|&number| self.udp.reply(number));
        replies
            .map(|reply| String::from_utf8(reply).unwrap())
            .collect()
    }
}

/// Waits until all threads of a process are stopped.
fn wait_until_stopped(pid: u32) {
    let is_stopped = |stat: &str| stat.rsplit(") ").next().unwrap().starts_with('T');
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut stats = threads.map(|it| fs::read_to_string(it.unwrap().path().join("stat")));
        if stats.all(|stat| is_stopped(&stat.unwrap())) {
            return;
        }
        assert!(Instant::now() < deadline, "the process does not stop");
        thread::yield_now();
    }
}

pub(crate) fn udp_port(client: &mut Client) -> u16 {
    let settings = client.stats_of("stats settings").unwrap();
    settings["udpport"].parse().unwrap()
}

/// A client whose requests are numbered.
pub(crate) struct Udp {
    pub(crate) socket: UdpSocket,
    next: u16,
}

impl Udp {
    pub(crate) fn new(ip: Ipv4Addr, port: u16) -> Self {
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        socket
            .connect(SocketAddr::new(IpAddr::V4(ip), port))
            .unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self {
            socket,
            next: 0xfff0,
        }
    }

    /// Sends a request, and returns its number.
    pub(crate) fn send(&mut self, payload: &[u8]) -> u16 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        let [n0, n1] = number.to_be_bytes();
        self.send_raw(&[&[n0, n1, 0, 0, 0, 1, 0, 0], payload].concat());
        number
    }

    pub(crate) fn send_raw(&self, datagram: &[u8]) {
        self.socket.send(datagram).unwrap();
    }

    /// Receives the reply to a request, whose datagrams must arrive in order, before any other.
    pub(crate) fn reply(&self, number: u16) -> Vec<u8> {
        let mut reply = Vec::new();
        let mut buffer = [0; 2048];
        for sequence in 0.. {
            let len = self.socket.recv(&mut buffer).unwrap();
            assert!(
                (HEADER_LEN + 1..=HEADER_LEN + PAYLOAD_MAX).contains(&len),
                "{len} bytes"
            );
            let field = |at: usize| u16::from_be_bytes([buffer[at], buffer[at + 1]]);
            assert_eq!((field(0), field(2), field(6)), (number, sequence, 0));
            reply.extend_from_slice(&buffer[HEADER_LEN..len]);
            if sequence + 1 == field(4) {
                return reply;
            }
            assert_eq!(
                len,
                HEADER_LEN + PAYLOAD_MAX,
                "only the last datagram is shorter"
            );
        }
        reply
    }

    pub(crate) fn request(&mut self, payload: &[u8]) -> Vec<u8> {
        let number = self.send(payload);
        self.reply(number)
    }

    pub(crate) fn text(&mut self, request: &str) -> String {
        String::from_utf8(self.request(request.as_bytes())).unwrap()
    }

    /// Asserts that nothing of what was sent before is answered any more.
    pub(crate) fn assert_silent(&mut self) {
        assert_eq!(self.text("mn\r\n"), "MN\r\n");
    }
}
