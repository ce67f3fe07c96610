//! A minimal test server for memcached's text protocol over UDP. It can lose, delay, repeat or
//! divide its answers, as a network would.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// The effect of the simulated network on the server's answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// Every answer arrives once, in one datagram.
    Good,
    /// Every fifth answer is lost.
    LosesEveryFifth,
    /// Every answer arrives twice.
    Repeats,
    /// Each answer is divided into three datagrams that arrive in reverse order.
    Divides,
    /// Every tenth answer is sent 200 ms after its request.
    DelaysEveryTenth,
}

/// Starts a server and returns its address. The server's thread ends with the test's process.
pub(crate) fn start(network: Network) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    thread::spawn(move || serve(&socket, network));
    address
}

/// Answers `version`, every get with the same value, and any other request with `STORED`. The
/// network affects all answers except that to `version`.
fn serve(socket: &UdpSocket, network: Network) {
    let mut buffer = [0; 65_536];
    // The number of answers so far, without those to `version`.
    let mut count = 0;
    loop {
        let (len, peer) = socket.recv_from(&mut buffer).unwrap();
        let (header, request) = buffer[..len].split_first_chunk::<8>().unwrap();
        assert_eq!(header[2..], [0, 0, 0, 1, 0, 0], "a request is one datagram");
        let number = [header[0], header[1]];
        let request = std::str::from_utf8(request).unwrap();
        let answer = match request.split(' ').next() {
            Some("version\r\n") => {
                send(socket, peer, number, &[b"VERSION 0\r\n"]);
                continue;
            }
            Some("get") => "VALUE k 0 4\r\nabcd\r\nEND\r\n",
            _ => "STORED\r\n",
        };
        count += 1;
        let answer = answer.as_bytes();
        match network {
            Network::LosesEveryFifth if count % 5 == 0 => {}
            Network::Repeats => {
                send(socket, peer, number, &[answer]);
                send(socket, peer, number, &[answer]);
            }
            Network::Divides => {
                let (first, rest) = answer.split_at(3);
                let (second, third) = rest.split_at(3);
                send(socket, peer, number, &[first, second, third]);
            }
            Network::DelaysEveryTenth if count % 10 == 0 => {
                let socket = socket.try_clone().unwrap();
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(1000));
                    send(&socket, peer, number, &[answer]);
                });
            }
            _ => send(socket, peer, number, &[answer]),
        }
    }
}

/// Sends an answer whose parts are `parts`, one part in each datagram, the last part first. `high`
/// and `low` are the two bytes of the request number. The header of memcached's UDP protocol has
/// four 16-bit fields: request number, number of the datagram, number of datagrams, and zero.
fn send(socket: &UdpSocket, peer: SocketAddr, [high, low]: [u8; 2], parts: &[&[u8]]) {
    let total = parts.len() as u8;
    for (number, part) in (0..total).zip(parts).rev() {
        let header = [high, low, 0, number, 0, total, 0, 0];
        socket.send_to(&[&header[..], part].concat(), peer).unwrap();
    }
}
