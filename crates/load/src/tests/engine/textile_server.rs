//! A minimal test server for the protocol textile: the protocol of the server in the repository
//! akosik/TextileCache, which contains a study of a multithreaded cache. Clients send gets over
//! UDP, sets and deletes over TCP. A test chooses a fault of the server.
//!
//! Before a run, the generator sends two requests to see whether the server answers, the *probe*:
//! `HEAD` over TCP and a get over UDP.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the server does wrong with some of the requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// Every fifth get is not answered.
    LosesEveryFifth,
    /// No get is answered, except for the probe.
    LosesAll,
    /// The answer to every tenth get is delayed by this time.
    DelaysEveryTenth(Duration),
    /// The answer to every set and delete is delayed by this time.
    DelaysSets(Duration),
    /// Every request over TCP is answered with a text that is not an answer of the protocol.
    Babbles,
}

/// A running test server. Its threads end with the test's process.
pub(crate) struct TextileServer {
    /// The address for TCP as `HOST:PORT`.
    pub(crate) address: String,
    /// The port for UDP, on the same host.
    pub(crate) udp_port: u16,
    pub(crate) seen: Arc<Seen>,
}

/// What the server has received, without the probe; and the values that it stores.
#[derive(Default)]
pub(crate) struct Seen {
    /// The addresses from which TCP connections came.
    pub(crate) tcp_sources: Mutex<HashSet<IpAddr>>,
    /// The addresses from which datagrams came.
    pub(crate) udp_sources: Mutex<HashSet<IpAddr>>,
    /// The requests in the order of their arrival, each without its NUL byte.
    pub(crate) requests: Mutex<Vec<String>>,
    /// The stored values by key.
    store: Mutex<HashMap<String, String>>,
}

impl TextileServer {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let udp_port = socket.local_addr().unwrap().port();
        let seen: Arc<Seen> = Arc::default();
        let (tcp_seen, udp_seen) = (Arc::clone(&seen), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let seen = Arc::clone(&tcp_seen);
                thread::spawn(move || seen.serve_stream(stream.unwrap(), fault));
            }
        });
        thread::spawn(move || udp_seen.serve_datagrams(&socket, fault));
        Self {
            address,
            udp_port,
            seen,
        }
    }
}

impl Seen {
    /// Reads one request from a TCP connection, up to its NUL byte, and answers it. Then the
    /// connection is closed.
    fn serve_stream(&self, mut stream: TcpStream, fault: Fault) {
        let source = stream.peer_addr().unwrap().ip();
        let mut request = Vec::new();
        let mut byte = [0];
        while stream.read(&mut byte).is_ok_and(|len| len > 0) && byte != [0] {
            request.push(byte[0]);
        }
        let request = String::from_utf8(request).unwrap();
        let answer = match request.split_once(" /") {
            // `HEAD`.
            None => "Space Used: 0\n",
            Some(("PUT", item)) => {
                let (key, value) = item.split_once('/').unwrap();
                self.store.lock().unwrap().insert(key.into(), value.into());
                "Value set in cache.\n"
            }
            Some(("DELETE", key)) => {
                self.store.lock().unwrap().remove(key);
                "Value deleted.\n"
            }
            Some(_) => "Malformed requested.\n",
        };
        if request != "HEAD" {
            self.requests.lock().unwrap().push(request);
            self.tcp_sources.lock().unwrap().insert(source);
            if let Fault::DelaysSets(time) = fault {
                thread::sleep(time);
            }
        }
        let answer = match fault {
            Fault::Babbles => "400",
            _ => answer,
        };
        // The generator may have closed its connection.
        let _ = stream.write_all(&[answer.as_bytes(), b"\0"].concat());
    }

    /// Receives gets over UDP and answers them, without end.
    fn serve_datagrams(self: &Arc<Self>, socket: &UdpSocket, fault: Fault) {
        let mut buffer = [0; 1024];
        // The number of gets so far, without the probe.
        let mut number = 0;
        loop {
            let (len, peer) = socket.recv_from(&mut buffer).unwrap();
            let request = String::from_utf8(buffer[..len].to_vec()).unwrap();
            let request = request.strip_suffix('\0').unwrap().to_owned();
            let key = request.strip_prefix("GET /").unwrap();
            let value = self.store.lock().unwrap().get(key).cloned();
            let value = value.as_deref().unwrap_or("NULL");
            let answer = format!("{{ \"key\" : \"{key}\", \"val\" : \"{value}\" }}\0");
            if key == "curtail-probe" {
                send(socket, &answer, peer);
                continue;
            }
            self.udp_sources.lock().unwrap().insert(peer.ip());
            self.requests.lock().unwrap().push(request);
            number += 1;
            match fault {
                Fault::LosesAll => {}
                Fault::LosesEveryFifth if number % 5 == 0 => {}
                Fault::DelaysEveryTenth(time) if number % 10 == 0 => {
                    let socket = socket.try_clone().unwrap();
                    thread::spawn(move || {
                        thread::sleep(time);
                        send(&socket, &answer, peer);
                    });
                }
                _ => send(socket, &answer, peer),
            }
        }
    }
}

/// Sends an answer in datagrams of 1024 bytes, as the original server of the study does.
fn send(socket: &UdpSocket, answer: &str, peer: SocketAddr) {
    for part in answer.as_bytes().chunks(1024) {
        // The generator may have closed its socket.
        let _ = socket.send_to(part, peer);
    }
}
