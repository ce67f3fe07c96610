//! Instructions of a server for each GET and SET of each protocol, at user level, by callgrind.
//!
//! `cargo xtask bench request-instructions [-- PROGRAM…]`, with valgrind. A program, by default
//! this source's and then an installed memcached, runs under callgrind with one worker of `events`.
//! It answers requests of one connection, each after the reply to the one before. It does so twice,
//! the second time with [`REQUESTS`] more. The difference of the instructions, divided by that
//! number, is what a request took, together with the little that the server does by the clock. The
//! kernel's instructions are not in it. A program of an earlier commit tells what a change has
//! cost, because both programs have the same requests.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::env;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use curtail_tests::binary_frame::binary_frame;
use curtail_tests::callgrind::{self, memcached_for_callgrind, under_callgrind};
use curtail_tests::peer::Address;
use curtail_tests::process::{Server, at_free_address, curtail_path, installed, memcached};
use tempfile::TempDir;

/// A server starts slowly under valgrind.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Requests before the count begins, and the number that is counted.
const WARMUP: u32 = 500;
const REQUESTS: u32 = 10_000;
const KEYS: u32 = 100;
const VALUE: [u8; 32] = [b'v'; 32];

/// The kinds of requests.
const KINDS: [Kind; 5] = [
    Kind::new("get, text", Carrier::Tcp, false, false),
    Kind::new("set, text", Carrier::Tcp, false, true),
    Kind::new("get, binary", Carrier::Tcp, true, false),
    Kind::new("set, binary", Carrier::Tcp, true, true),
    Kind::new("get, text, UDP", Carrier::Udp, false, false),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Tcp,
    Udp,
}

#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    carrier: Carrier,
    is_binary: bool,
    is_set: bool,
}

fn main() -> Result<()> {
    if installed("valgrind", "VALGRIND").is_none() {
        println!("skipped: valgrind is not installed");
        return Ok(());
    }
    let given = env::args_os().skip(1).filter(|it| it != "--bench");
    let mut programs: Vec<PathBuf> = given.map(PathBuf::from).collect();
    if programs.is_empty() {
        programs.push(curtail_path().to_owned());
        programs.extend(memcached());
    }
    for program in &programs {
        println!(
            "{}: instructions for each request, user level",
            program.display()
        );
        for kind in KINDS {
            match each(program, kind) {
                Ok(count) => println!("  {:<16} {count:>8.1}", kind.name),
                Err(error) => println!("  {:<16} not measured: {error:#}", kind.name),
            }
        }
    }
    Ok(())
}

/// Instructions for each request.
fn each(program: &Path, kind: Kind) -> Result<f64> {
    let once = counted(program, kind, WARMUP)?;
    let more = counted(program, kind, WARMUP + REQUESTS)?;
    Ok((more - once) / f64::from(REQUESTS))
}

/// The instructions of a server from its start to its end, with this number of requests.
fn counted(program: &Path, kind: Kind, requests: u32) -> Result<f64> {
    let folder = TempDir::new().context("make a folder")?;
    let log = folder.path().join("log");
    let (mut server, address) = at_free_address(Ipv4Addr::LOCALHOST, |address| {
        let command = under_callgrind(&serve(program, kind, address)?, &log);
        Ok((Server::at(command, Address::Tcp(address))?, address))
    })?;
    converse(kind, address, requests)?;
    server.terminate()?;
    server.wait()?;
    callgrind::instructions(&log)
}

/// The command of a server, which listens at `address`.
fn serve(program: &Path, kind: Kind, address: SocketAddr) -> Result<Command> {
    let is_memcached = program
        .file_name()
        .is_some_and(|name| name.to_string_lossy().contains("memcached"));
    let mut command = if is_memcached {
        memcached_for_callgrind(program)?
    } else {
        let mut command = Command::new(program);
        command.args(["serve", "-u", "root", "--runtime", "events"]);
        command
    };
    let port = address.port().to_string();
    command.args(["-l", "127.0.0.1", "-p", &port, "-m", "64", "-t", "1"]);
    if kind.carrier == Carrier::Udp {
        command.args(["-U", &port]);
    }
    Ok(command)
}

/// Stores all items, and sends the requests, each after the reply to the one before.
fn converse(kind: Kind, address: SocketAddr, requests: u32) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    for key in 0..KEYS {
        let set = Kind {
            is_set: true,
            ..kind
        };
        exchange_on_stream(&mut stream, &set.request(key), set.reply_len())?;
    }
    for number in 0..requests {
        let request = kind.request(number % KEYS);
        match kind.carrier {
            Carrier::Tcp => exchange_on_stream(&mut stream, &request, kind.reply_len())?,
            Carrier::Udp => exchange_on_socket(&mut socket, &request, kind.reply_len())?,
        }
    }
    Ok(())
}

fn exchange_on_stream(stream: &mut TcpStream, request: &[u8], reply_len: usize) -> Result<()> {
    stream.write_all(request)?;
    let mut reply = [0; 256];
    stream
        .read_exact(&mut reply[..reply_len])
        .context("receive a reply")
}

fn exchange_on_socket(socket: &mut UdpSocket, request: &[u8], reply_len: usize) -> Result<()> {
    socket.send(&[&[0, 7, 0, 0, 0, 1, 0, 0], request].concat())?;
    let mut reply = [0; 256];
    let len = socket.recv(&mut reply).context("receive a datagram")?;
    anyhow::ensure!(len == 8 + reply_len, "the reply has {len} bytes");
    Ok(())
}

impl Kind {
    const fn new(name: &'static str, carrier: Carrier, is_binary: bool, is_set: bool) -> Self {
        Self {
            name,
            carrier,
            is_binary,
            is_set,
        }
    }

    fn request(self, key: u32) -> Vec<u8> {
        let key = format!("key{key:05}");
        match (self.is_binary, self.is_set) {
            (false, false) => format!("get {key}\r\n").into_bytes(),
            (false, true) => {
                let line = format!("set {key} 0 0 {}\r\n", VALUE.len());
                [line.as_bytes(), &VALUE, b"\r\n"].concat()
            }
            (true, false) => binary_frame(0x00, &[], key.as_bytes(), &[]),
            (true, true) => binary_frame(0x01, &[0; 8], key.as_bytes(), &VALUE),
        }
    }

    /// The length of the reply to a request, whose item exists.
    fn reply_len(self) -> usize {
        match (self.is_binary, self.is_set) {
            (false, false) => b"VALUE key00000 0 32\r\n".len() + VALUE.len() + b"\r\nEND\r\n".len(),
            (false, true) => b"STORED\r\n".len(),
            (true, false) => 24 + 4 + VALUE.len(),
            (true, true) => 24,
        }
    }
}
