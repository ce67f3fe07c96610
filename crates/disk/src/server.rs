//! The process that serves the disk's file: receives requests of the kernel, waits for as long as
//! the law says, and answers.
//!
//! One thread waits for the kernel, for the control socket and for the next request that is due.
//! The content is in memory that is not swapped for a file: a disk whose own disk were slow would
//! have another law.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};

use sys::poll::{Events, Interest, Poll};

use crate::control::Command;
use crate::counts::Tally;
use crate::law::Law;
use crate::limits;
use crate::message::{self, Operation, Request};
use crate::queue::Queue;

const DEVICE: u64 = 0;
const LISTENER: u64 = 1;
const FIRST_CONTROL: u64 = 2;

/// What a server serves.
#[derive(Debug)]
pub struct Served {
    /// The law of its delays.
    pub law: Law,
    /// The seed of these.
    pub seed: u64,
    /// Size of the file.
    pub size: u64,
}

/// A request that waits for its delay.
#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    unique: u64,
    offset: u64,
    len: u32,
    /// None: a read.
    data: Option<Vec<u8>>,
    fails: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Due {
    at_ns: u64,
    number: u64,
    waiting: Waiting,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
struct Server {
    device: File,
    content: File,
    size: u64,
    queue: Queue,
    delays: bool,
    fails: bool,
    due: BinaryHeap<Reverse<Due>>,
    admitted: u64,
    tally: Tally,
    buffer: Vec<u8>,
}

/// Serves the file of `device` until it is unmounted. The disk begins without delays; `listener`
/// accepts [commands](crate::control).
///
/// # Errors
/// The memory of the content, or a descriptor, is not available.
pub fn serve(device: File, listener: &UnixListener, served: Served) -> io::Result<()> {
    sys::thread::sleep_precisely();
    let content = File::from(sys::file::memory_file("curtail-disk")?);
    content.set_len(served.size)?;
    listener.set_nonblocking(true)?;
    let poll = Poll::new()?;
    poll.add(&device, DEVICE, Interest::Read)?;
    poll.add(listener, LISTENER, Interest::Read)?;
    let mut server = Server {
        device,
        content,
        size: served.size,
        queue: Queue::new(served.law, served.seed),
        delays: false,
        fails: false,
        due: BinaryHeap::new(),
        admitted: 0,
        tally: Tally::new(sys::clock::monotonic_ns()),
        buffer: vec![0; message::BUFFER_LEN],
    };
    let mut controls: Vec<Option<Control>> = Vec::new();
    controls.resize_with(limits::CONTROLS, || None);
    let mut events = Events::with_capacity(2 + limits::CONTROLS);
    loop {
        server.answer_due();
        let wait_ns = server
            .due
            .peek()
            .map(|next| next.0.at_ns.saturating_sub(sys::clock::monotonic_ns()));
        poll.wait(&mut events, wait_ns)?;
        for ready in events.iter() {
            match ready.token {
                DEVICE if !server.receive()? => return Ok(()),
                DEVICE => {}
                LISTENER => accept(listener, &poll, &mut controls),
                token => {
                    let slot = usize::try_from(token - FIRST_CONTROL).unwrap_or(usize::MAX);
                    if let Some(control) = controls.get_mut(slot)
                        && control.as_mut().is_some_and(|it| it.advance(&mut server))
                    {
                        *control = None;
                    }
                }
            }
        }
    }
}

impl Server {
    /// Receives some requests. Returns false if the file was unmounted.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut received = Ok(true);
        for _ in 0..limits::BATCH {
            match self.device.read(&mut buffer) {
                Ok(len) => self.take(buffer.get(..len).unwrap_or_default()),
                Err(error) => {
                    match (error.kind(), error.raw_os_error()) {
                        (io::ErrorKind::WouldBlock, _) => break,
                        // The requester was killed before its request was read.
                        (io::ErrorKind::Interrupted | io::ErrorKind::NotFound, _) => {}
                        // ENODEV.
                        (_, Some(19)) => {
                            received = Ok(false);
                            break;
                        }
                        _ => {
                            received = Err(error);
                            break;
                        }
                    }
                }
            }
        }
        self.buffer = buffer;
        received
    }

    fn take(&mut self, message: &[u8]) {
        let Some(Request { unique, operation }) = Request::parse(message) else {
            return;
        };
        let size = self.size;
        match operation {
            Operation::Init { flags } => self.answer(unique, &message::init(flags)),
            Operation::Attributes => self.answer(unique, &message::attributes(size)),
            Operation::Open => self.answer(unique, &message::opened()),
            Operation::Statistics => self.answer(unique, &message::statistics(size)),
            Operation::Nothing => self.answer(unique, &[]),
            Operation::Unanswered => {}
            Operation::Unsupported => self.refuse(unique, message::error::NOT_SUPPORTED),
            Operation::Malformed => self.refuse(unique, message::error::INVALID),
            Operation::Read { offset, len } => self.admit(unique, offset, len, None),
            Operation::Write { offset, data } => {
                let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
                self.admit(unique, offset, len, Some(data.to_vec()));
            }
        }
    }

    fn admit(&mut self, unique: u64, offset: u64, len: u32, data: Option<Vec<u8>>) {
        let within = offset
            .checked_add(u64::from(len))
            .is_some_and(|end| end <= self.size);
        if len > limits::REQUEST_LEN || (data.is_some() && !within) {
            self.refuse(unique, message::error::INVALID);
            return;
        }
        if self.due.len() >= limits::WAITING {
            self.refuse(unique, message::error::IO);
            return;
        }
        let now_ns = sys::clock::monotonic_ns();
        let waiting = Waiting {
            unique,
            offset,
            len,
            data,
            fails: self.fails,
        };
        if !self.delays {
            self.complete(&waiting, 0);
            return;
        }
        let times = self.queue.admit(now_ns, offset, len);
        self.tally.admitted(now_ns, times, self.due.len() + 1);
        self.admitted += 1;
        self.due.push(Reverse(Due {
            at_ns: times.due_ns,
            number: self.admitted,
            waiting,
        }));
    }

    fn answer_due(&mut self) {
        loop {
            let now_ns = sys::clock::monotonic_ns();
            let Some(next) = self.due.peek_mut().filter(|next| next.0.at_ns <= now_ns) else {
                return;
            };
            let due = std::collections::binary_heap::PeekMut::pop(next).0;
            self.complete(&due.waiting, now_ns - due.at_ns);
        }
    }

    fn complete(&mut self, waiting: &Waiting, late_ns: u64) {
        if waiting.fails {
            self.tally.refused();
            self.refuse(waiting.unique, message::error::IO);
            return;
        }
        let len = waiting.len as usize;
        let is_read = waiting.data.is_none();
        let outcome = match &waiting.data {
            Some(data) => {
                let written = self.content.write_all_at(data, waiting.offset);
                written.map(|()| self.answer(waiting.unique, &message::written(waiting.len)))
            }
            None => {
                let mut content = vec![0; len];
                read_some(&self.content, &mut content, waiting.offset).map(|len| {
                    content.truncate(len);
                    self.answer(waiting.unique, &content);
                })
            }
        };
        match outcome {
            Ok(()) => self.tally.answered(is_read, waiting.len, late_ns),
            Err(_) => self.refuse(waiting.unique, message::error::IO),
        }
    }

    fn answer(&mut self, unique: u64, body: &[u8]) {
        self.send(&message::header(unique, 0, body.len()), body);
    }

    fn refuse(&mut self, unique: u64, error: i32) {
        self.send(&message::header(unique, error, 0), &[]);
    }

    fn send(&mut self, header: &[u8], body: &[u8]) {
        // It fails if the requester was interrupted, or the file unmounted: there is no receiver.
        let _ = self
            .device
            .write_vectored(&[IoSlice::new(header), IoSlice::new(body)]);
    }

    fn execute(&mut self, command: Command) -> String {
        let now_ns = sys::clock::monotonic_ns();
        match command {
            Command::Delay(delays) => {
                self.delays = delays;
                self.queue.clear();
                self.tally = Tally::new(now_ns);
            }
            Command::Errors(fails) => self.fails = fails,
            Command::Reset => self.tally = Tally::new(now_ns),
            Command::Counts => {
                let counts = serde_json::to_string(&self.tally.counts(now_ns));
                return counts.unwrap_or_else(|error| format!("error: {error}"));
            }
        }
        "ok".to_owned()
    }
}

/// Reads up to the end of the file.
fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], offset + len as u64)? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}

/// A connection of the control socket.
#[derive(Debug)]
struct Control {
    stream: UnixStream,
    line: Vec<u8>,
}

fn accept(listener: &UnixListener, poll: &Poll, controls: &mut [Option<Control>]) {
    while let Ok((stream, _)) = listener.accept() {
        let Some(slot) = controls.iter().position(Option::is_none) else {
            // Closing it tells the other side.
            continue;
        };
        let token = FIRST_CONTROL + slot as u64;
        let ready = stream.set_nonblocking(true);
        if ready
            .and_then(|()| poll.add(&stream, token, Interest::Read))
            .is_ok()
        {
            controls[slot] = Some(Control {
                stream,
                line: Vec::new(),
            });
        }
    }
}

impl Control {
    /// Reads, and answers the lines that are complete. Returns whether the connection has ended.
    fn advance(&mut self, server: &mut Server) -> bool {
        let mut bytes = [0; limits::COMMAND_LEN];
        let has_ended = match self.stream.read(&mut bytes) {
            Ok(0) => true,
            Ok(len) => {
                self.line.extend_from_slice(&bytes[..len]);
                false
            }
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let command = Command::parse(&String::from_utf8_lossy(&line));
            let answer = match command {
                Ok(command) => server.execute(command),
                Err(problem) => format!("error: {problem}"),
            };
            // A peer that does not take its answer loses it.
            let _ = self.stream.write_all(format!("{answer}\n").as_bytes());
        }
        has_ended || self.line.len() > limits::COMMAND_LEN
    }
}
