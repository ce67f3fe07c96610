//! The hostile clients.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use curtail_tests::binary_frame::binary_frame;

use crate::Target;

/// A value that fills the buffers of a client that does not read.
pub(crate) const LONG_VALUE_LEN: usize = 500_000;

/// Maximum number of steps that are taken late.
const CATCH_UP_MAX: u32 = 10;
/// The number of datagrams of a step.
const DATAGRAMS_PER_STEP: usize = 20;

/// What hostile clients do. Where both protocols have it, half of the clients do it in text, the
/// others in frames of the binary protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 200 connections send a part of a request and no more. Each millisecond, one of them is
    /// closed and another one opened.
    HalfSent,
    /// 16 connections send reads of long values and receive nothing. Each millisecond, one of them
    /// is closed and another one opened.
    NeverReading,
    /// 20 000 unknown lines and frames a second.
    Malformed,
    /// 3000 connections a second send bytes that close them: a line without an end, a malformed
    /// frame, and a frame with a wrong first byte behind a good one.
    Fatal,
    /// 64 connections send a byte of a value each millisecond.
    SlowBytes,
    /// 64 connections announce a value of a megabyte or a gigabyte, and do not send it. Each
    /// millisecond, one of them is closed and another one opened.
    LongAnnounced,
    /// 16 connections send keys of a `get` that does not end, 16 of them each millisecond.
    EndlessKeys,
    /// 2000 wrong passwords a second, as text and by SASL.
    Guessing,
    /// 20 000 datagrams a second without a valid header, or whose request is not complete.
    Datagrams,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::HalfSent,
        Self::NeverReading,
        Self::Malformed,
        Self::Fatal,
        Self::SlowBytes,
        Self::LongAnnounced,
        Self::EndlessKeys,
        Self::Guessing,
        Self::Datagrams,
    ];

    /// Whether it needs a server with passwords.
    pub(crate) fn guesses(self) -> bool {
        self == Self::Guessing
    }

    /// Whether they hold memory for values that they send or receive.
    pub(crate) fn holds_memory(self) -> bool {
        matches!(
            self,
            Self::NeverReading | Self::SlowBytes | Self::LongAnnounced
        )
    }

    /// The number of connections that stay open.
    fn connections(self) -> usize {
        match self {
            Self::HalfSent => 200,
            Self::SlowBytes | Self::LongAnnounced => 64,
            Self::NeverReading | Self::EndlessKeys => 16,
            Self::Malformed => 2,
            Self::Fatal | Self::Guessing | Self::Datagrams => 0,
        }
    }

    /// The first bytes of a connection.
    fn opening(self, number: usize) -> Vec<u8> {
        let is_binary = number % 2 == 1;
        match self {
            Self::HalfSent if is_binary => {
                binary_frame(0x01, &[0; 8], b"key", b"value")[..30].into()
            }
            Self::HalfSent => b"get go".to_vec(),
            Self::NeverReading if is_binary => binary_frame(0x00, &[], b"long", b"").repeat(100),
            Self::NeverReading => b"get long\r\n".repeat(100),
            Self::LongAnnounced if is_binary => set_announcing(1 << 30),
            Self::LongAnnounced => b"set key 0 0 1000000\r\n".to_vec(),
            Self::SlowBytes if is_binary => set_announcing(LONG_VALUE_LEN as u32),
            Self::SlowBytes => format!("set key 0 0 {LONG_VALUE_LEN}\r\n").into_bytes(),
            Self::EndlessKeys => b"get ".to_vec(),
            Self::Malformed | Self::Fatal | Self::Guessing | Self::Datagrams => Vec::new(),
        }
    }
}

/// The frame of a `set` whose body has this length, up to the key.
fn set_announcing(body_len: u32) -> Vec<u8> {
    let mut frame = binary_frame(0x01, &[0; 8], b"key", b"");
    frame[8..12].copy_from_slice(&body_len.to_be_bytes());
    frame
}

/// The hostile clients of one kind.
pub(crate) struct HostileClients<'t> {
    kind: Kind,
    target: &'t Target,
    streams: Vec<TcpStream>,
    socket: UdpSocket,
}

impl<'t> HostileClients<'t> {
    /// Opens the connections that stay open.
    pub(crate) fn new(kind: Kind, target: &'t Target) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        let mut clients = Self {
            kind,
            target,
            streams: Vec::new(),
            socket,
        };
        for number in 0..kind.connections() {
            clients.streams.push(clients.open(number)?);
        }
        Ok(clients)
    }

    fn open(&self, number: usize) -> Result<TcpStream> {
        let mut stream = self.target.connect()?;
        stream.write_all(&self.kind.opening(number))?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// Takes a step each `interval` until `must_stop`. After a delay it catches up with at most
    /// [`CATCH_UP_MAX`] steps. Returns the share of the steps that were due. Of datagrams, it is
    /// the share that the server has received.
    pub(crate) fn run(&mut self, interval: Duration, must_stop: &AtomicBool) -> Result<f64> {
        let is_datagrams = self.kind == Kind::Datagrams;
        let received_before = match is_datagrams {
            true => self.target.datagrams_received()?,
            false => 0,
        };
        let began = Instant::now();
        let mut due = began;
        let mut steps = 0;
        while !must_stop.load(Ordering::Relaxed) {
            self.step(steps)?;
            steps += 1;
            due += interval;
            let now = Instant::now();
            thread::sleep(due.saturating_duration_since(now));
            due = due.max(now - CATCH_UP_MAX * interval);
        }
        let steps_due = (began.elapsed().as_secs_f64() / interval.as_secs_f64()).max(1.0);
        if is_datagrams {
            let received = self.target.datagrams_received()? - received_before;
            return Ok(received as f64 / (steps_due * DATAGRAMS_PER_STEP as f64));
        }
        Ok(steps as f64 / steps_due)
    }

    fn step(&mut self, number: usize) -> Result<()> {
        match self.kind {
            Kind::HalfSent | Kind::NeverReading | Kind::LongAnnounced => {
                let at = number % self.streams.len();
                self.streams[at] = self.open(at)?;
                Ok(())
            }
            Kind::Malformed => self.send_unknown(),
            Kind::SlowBytes => self.send_to_each(b"k"),
            Kind::EndlessKeys => self.send_keys(),
            Kind::Fatal => self.open_and_send_fatal(),
            Kind::Guessing => self.guess(),
            Kind::Datagrams => {
                self.send_datagrams();
                Ok(())
            }
        }
    }

    fn send_unknown(&mut self) -> Result<()> {
        let frame = binary_frame(0x40, &[], b"key", b"value");
        for (stream, request) in self.streams.iter_mut().zip([&b"bogus\r\n"[..], &frame]) {
            send(stream, &request.repeat(10))?;
            if !discard(stream)? {
                bail!("the server has closed a connection");
            }
        }
        Ok(())
    }

    fn send_to_each(&mut self, bytes: &[u8]) -> Result<()> {
        let mut streams = self.streams.iter_mut();
        streams.try_for_each(|stream| send(stream, bytes))
    }

    /// A trial is too short for a line of the length for which the server closes the connection. If
    /// the server closes one nevertheless, another one takes its place.
    fn send_keys(&mut self) -> Result<()> {
        let keys = b"kkkkkkk ".repeat(16);
        for number in 0..self.streams.len() {
            let stream = &mut self.streams[number];
            if send(stream, &keys).is_err() || !discard(stream)? {
                self.streams[number] = self.open(number)?;
            }
        }
        Ok(())
    }

    fn open_and_send_fatal(&self) -> Result<()> {
        let malformed = binary_frame(0x00, b"extras", b"key", b"");
        let noop = binary_frame(0x0a, &[], &[], &[]);
        let wrong_magic = [&noop, &b"get good\r\n".repeat(3)[..]].concat();
        for request in [&malformed, &wrong_magic, &vec![b'x'; 3000]] {
            // An error is one of a connection that the server has closed already.
            let _ = self.target.connect()?.write_all(request);
        }
        Ok(())
    }

    fn guess(&self) -> Result<()> {
        let guess = binary_frame(0x21, &[], b"PLAIN", b"\0good\0wrong");
        for request in [&guess[..], b"set login 0 0 10\r\ngood wrong\r\n"] {
            let mut stream = self.target.connect()?;
            stream.write_all(request)?;
            // The password has been compared when a refusal or the connection's end arrives.
            match stream.read(&mut [0; 64]) {
                Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                    return Err(error).context("receive a refusal");
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn send_datagrams(&self) {
        let unordered = [&[0, 1, 0, 1, 0, 2, 0, 0][..], b"get good\r\n"].concat();
        let incomplete = [&[0, 1, 0, 0, 0, 1, 0, 0][..], b"set good 0 0 9999\r\nabc"].concat();
        for _ in 0..DATAGRAMS_PER_STEP / 2 {
            for datagram in [&unordered, &incomplete] {
                // A full queue may drop it.
                let _ = self.socket.send_to(datagram, self.target.udp);
            }
        }
    }
}

/// Sends what the socket takes.
fn send(stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
    match stream.write(bytes) {
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error).context("send a request"),
        _ => Ok(()),
    }
}

/// Receives the replies that have arrived. Returns whether the connection is open.
fn discard(stream: &mut TcpStream) -> Result<bool> {
    let mut buffer = [0; 16_384];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return Ok(true),
                ErrorKind::ConnectionReset => return Ok(false),
                _ => return Err(error).context("receive a reply"),
            },
        }
    }
}
