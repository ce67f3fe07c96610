//! The processor time of a server for a document in memory: sent by sendfile, or copied
//! (`--http-copy`), on each runtime: `cargo xtask bench sendfile [RUNTIME]… [BYTES]…`.
//!
//! Both servers are processes with one worker on the same processor; the client, a closed loop over
//! some connections, is on another one. The kernel delivers to a loopback socket within the send,
//! so that part of the time is the same for both. Rounds of both alternate, and a ratio is that of
//! two neighbouring rounds.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark"
)]

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use curtail_tests::client::Client;
use curtail_tests::process::{Server, curtail_path, free_address};

const LENGTHS: [usize; 6] = [5_000, 20_000, 65_536, 100_000, 250_000, 1_000_000];
const RUNTIMES: [&str; 4] = ["events", "rings", "threads", "fibres"];
const CONNECTIONS: usize = 8;
const ROUNDS: usize = 11;
const ROUND: Duration = Duration::from_millis(150);
const CLIENT_CPU: usize = 0;
const SERVER_CPU: usize = 1;

/// A server, and connections to it.
struct Subject {
    server: Server,
    connections: Vec<TcpStream>,
}

fn main() -> Result<()> {
    let arguments = env::args().skip(1).filter(|it| it != "--bench");
    let (numbers, mut runtimes): (Vec<String>, Vec<String>) =
        arguments.partition(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
    let lengths: Result<Vec<usize>, _> = numbers.iter().map(|it| it.parse()).collect();
    let mut lengths = lengths.context("a number of bytes")?;
    if lengths.is_empty() {
        lengths.extend(LENGTHS);
    }
    if runtimes.is_empty() {
        runtimes.extend(RUNTIMES.map(ToOwned::to_owned));
    }
    let folder = tempfile::tempdir()?;
    for &len in &lengths {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        fs::write(folder.path().join(len.to_string()), bytes)?;
    }
    sys::thread::pin(&[CLIENT_CPU]).context("a processor for the client")?;
    println!("runtime   bytes   copied µs  sendfile µs   ratio: median [least, greatest]");
    for runtime in runtimes {
        measure(&runtime, folder.path(), &lengths)?;
    }
    Ok(())
}

fn measure(runtime: &str, root: &Path, lengths: &[usize]) -> Result<()> {
    let mut copies = Subject::start(runtime, root, &["--http-copy"])?;
    let mut sends = Subject::start(runtime, root, &[])?;
    for &len in lengths {
        copies.round(len)?;
        sends.round(len)?;
        let mut pairs = Vec::new();
        for round in 0..ROUNDS {
            let pair = match round % 2 {
                0 => (copies.round(len)?, sends.round(len)?),
                _ => {
                    let sent = sends.round(len)?;
                    (copies.round(len)?, sent)
                }
            };
            pairs.push(pair);
        }
        let sorted = |of: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = pairs.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (copied_us, sent_us) = (sorted(|it| it.0), sorted(|it| it.1));
        let ratios = sorted(|it| it.1 / it.0);
        let median = ROUNDS / 2;
        println!(
            "{runtime:8} {len:7} {:10.1} {:12.1}   {:.2} [{:.2}, {:.2}]",
            copied_us[median],
            sent_us[median],
            ratios[median],
            ratios[0],
            ratios[ROUNDS - 1],
        );
    }
    let (copied, sent) = (copies.sent_bytes()?, sends.sent_bytes()?);
    ensure!(
        copied == 0 && sent > 0,
        "{copied} and {sent} bytes by sendfile"
    );
    Ok(())
}

impl Subject {
    fn start(runtime: &str, root: &Path, flags: &[&str]) -> Result<Self> {
        let address = free_address(Ipv4Addr::LOCALHOST)?;
        let command = || {
            let mut command = Command::new(curtail_path());
            // Only the owner of a file is told which pages are in memory.
            let user = sys::privileges::is_root().then_some(["-u", "root"]);
            command
                .args(["serve", "-t", "1", "-m", "64", "--runtime", runtime])
                .args(user.into_iter().flatten())
                .args(["--http", &address.to_string(), "--root"])
                .arg(root)
                .args(flags);
            command
        };
        let server = Server::tcp_on(Ipv4Addr::LOCALHOST, &[SERVER_CPU], command)?;
        let connections: Result<_> = (0..CONNECTIONS).map(|_| connect(address)).collect();
        Ok(Self {
            server,
            connections: connections?,
        })
    }

    /// Requests a document for [`ROUND`]. Returns the server's microseconds for each request.
    fn round(&mut self, len: usize) -> Result<f64> {
        let request = format!("GET /{len} HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut buffer = vec![0; len + 1024];
        let (start, before_ns) = (Instant::now(), self.server.processor_ns()?);
        let mut requests = 0;
        while start.elapsed() < ROUND {
            for stream in &mut self.connections {
                stream.write_all(request.as_bytes())?;
            }
            for stream in &mut self.connections {
                receive(stream, len, &mut buffer)?;
                requests += 1;
            }
        }
        let spent_ns = self.server.processor_ns()? - before_ns;
        Ok(spent_ns as f64 / 1e3 / f64::from(requests))
    }

    /// The bytes that the server has sent by sendfile.
    fn sent_bytes(&self) -> Result<u64> {
        Client::connect(&self.server.address)?.stat("http_sendfile_bytes")
    }
}

/// Connects, as soon as the server listens at this address too.
fn connect(address: SocketAddr) -> Result<TcpStream> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// Receives a reply whose body has `len` bytes.
fn receive(stream: &mut TcpStream, len: usize, buffer: &mut [u8]) -> Result<()> {
    let mut received = 0;
    let reply_len = loop {
        received += read(stream, &mut buffer[received..])?;
        let head = buffer[..received]
            .windows(4)
            .position(|it| it == b"\r\n\r\n");
        if let Some(head_len) = head {
            break head_len + 4 + len;
        }
    };
    while received < reply_len {
        received += read(stream, &mut buffer[received..])?;
    }
    ensure!(received == reply_len, "{received} bytes for {reply_len}");
    ensure!(buffer.starts_with(b"HTTP/1.1 200 "), "another status");
    Ok(())
}

fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<usize> {
    match stream.read(buffer)? {
        0 => bail!("the server closed a connection"),
        len => Ok(len),
    }
}
