//! An echo server on the stack, a client host, and the link between them.

use std::io;

use crate::testing::{ClientSocket, End, Faults, FaultyLink, Host, State};
use crate::{Checksums, Config, ConnectionId, Interest, Stack};

pub(crate) const PORT: u16 = 11211;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The steps after which a test is considered stuck.
const STEPS_MAX: usize = 2_000_000;
const READ: Interest = Interest {
    readable: true,
    writable: false,
};
const WRITE: Interest = Interest {
    readable: false,
    writable: true,
};

/// Everything, in virtual time.
pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) host: Host,
    pub(crate) now_ns: u64,
    /// No frame reaches the other end.
    pub(crate) is_cut: bool,
    /// Connections that were lost by a reset.
    pub(crate) lost: usize,
    /// When the last undamaged frame arrived at the stack.
    pub(crate) last_arrival_ns: u64,
    /// The number of frames that the stack has sent in the last turn.
    pub(crate) frames_of_turn: usize,
    link: FaultyLink,
    open: Vec<Option<Echo>>,
}

/// A connection of the echo server, and the bytes that it has not sent back.
struct Echo {
    id: ConnectionId,
    unsent: Vec<u8>,
    ends: bool,
}

impl World {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        let mut config = Config::new(SERVER_MAC, [10, 0, 0, 1].into(), vec![PORT]);
        config.seed = seed;
        config.receive_buffer = 16 * 1024;
        config.send_buffer = 16 * 1024;
        Self {
            stack: Stack::new(config, 0),
            host: Host::new([2, 0, 0, 0, 0, 2], [10, 0, 0, 2].into(), seed ^ 1),
            now_ns: 0,
            is_cut: false,
            lost: 0,
            last_arrival_ns: 0,
            frames_of_turn: 0,
            link: FaultyLink::new(faults, seed ^ 2),
            open: Vec::new(),
        }
    }

    /// Begins to connect.
    pub(crate) fn begin(&mut self, port: u16) -> ClientSocket {
        self.host.connect([10, 0, 0, 1].into(), port).unwrap()
    }

    /// Connects, and waits until the connection is established.
    pub(crate) fn connect(&mut self, port: u16) -> ClientSocket {
        let client = self.begin(port);
        self.run_until("connected", |world| {
            world.host.socket(client).state() == State::Established
        });
        client
    }

    /// Sends bytes as the client, and returns as many that it receives: fewer only if an end has
    /// reset the connection.
    pub(crate) fn exchange(&mut self, client: ClientSocket, bytes: &[u8]) -> Vec<u8> {
        let mut unsent = bytes;
        let mut received = Vec::new();
        let reset_before = self.stack.counts().reset;
        self.run_until("echoed", |world| {
            let socket = world.host.socket(client);
            if let Ok(len) = socket.send_slice(unsent) {
                unsent = &unsent[len..];
            }
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = socket.recv_slice(&mut buffer) {
                received.extend_from_slice(&buffer[..len]);
            }
            let is_reset = socket.state() == State::Closed;
            received.len() >= bytes.len() || is_reset || world.stack.counts().reset > reset_before
        });
        received
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time_ns: u64) {
        let end_ns = self.now_ns + time_ns;
        while self.now_ns < end_ns {
            self.turn();
            self.jump(end_ns);
        }
        self.turn();
    }

    /// Runs until a condition is true.
    pub(crate) fn run_until(&mut self, what: &str, mut is_true: impl FnMut(&mut Self) -> bool) {
        for _ in 0..STEPS_MAX {
            self.turn();
            if is_true(self) {
                return;
            }
            self.jump(u64::MAX);
        }
        panic!("not {what} after {} ns: {:?}", self.now_ns, self.stack);
    }

    /// Closes all connections as the server.
    pub(crate) fn close_all(&mut self) {
        for echo in self.open.drain(..).flatten() {
            self.stack.close(echo.id);
        }
    }

    /// Receives a SYN of a host that does not exist, and sends the answer nowhere.
    pub(crate) fn flood(&mut self, number: u32) {
        self.syn(number);
        self.stack.frames().clear();
    }

    /// Receives a SYN of a host that does not exist.
    pub(crate) fn syn(&mut self, number: u32) {
        self.segment(number, SYN, [1, 0]);
    }

    /// Receives a segment of a host that does not exist, with these flags, sequence number and
    /// acknowledgement.
    pub(crate) fn segment(&mut self, number: u32, flags: u8, numbers: [u32; 2]) {
        let mut segment = SERVER_MAC.to_vec();
        segment.extend([2, 0, 0, 0, 0, 3, 8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6]);
        let sum = 0x4500_u32 + 40 + 0x4000 + 0x4006 + 0x0a00 + 1 + 0x0a63 + (number >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        segment.extend((!(sum as u16)).to_be_bytes());
        segment.extend([
            10,
            99,
            (number >> 24) as u8,
            (number >> 16) as u8,
            10,
            0,
            0,
            1,
        ]);
        // Different ports for different numbers.
        segment.extend((1024 + number as u16).to_be_bytes());
        segment.extend(PORT.to_be_bytes());
        segment.extend(numbers.map(u32::to_be_bytes).concat());
        segment.extend([0x50, flags, 4, 0, 0, 0, 0, 0]);
        self.stack
            .receive(&segment, Checksums::Verified, self.now_ns);
        self.stack.flush(self.now_ns);
    }

    /// Takes the frames that the stack sends, instead of the link.
    pub(crate) fn take_frames(&mut self) -> Vec<Vec<u8>> {
        let frames = self.stack.frames().iter().map(<[u8]>::to_vec).collect();
        self.stack.frames().clear();
        frames
    }

    /// Goes to the time of the next event, at most to `end_ns`.
    fn jump(&mut self, end_ns: u64) {
        let next_ns = [
            self.link.next_arrival_ns(),
            self.stack.next_deadline_ns(),
            self.host.next_deadline_ns(self.now_ns),
        ];
        let next_ns = next_ns.into_iter().flatten().min().unwrap_or(end_ns);
        assert!(next_ns < u64::MAX, "nothing will happen any more");
        self.now_ns = next_ns.max(self.now_ns + 1_000).min(end_ns);
    }

    /// Delivers the frames that arrive now, serves, and sends.
    fn turn(&mut self) {
        while let Some((to, frame)) = self.link.take(self.now_ns) {
            match to {
                End::Server => {
                    let damaged = self.stack.counts().damaged;
                    let unverified = Checksums::Unverified;
                    self.stack.receive(&frame, unverified, self.now_ns);
                    if self.stack.counts().damaged == damaged {
                        self.last_arrival_ns = self.now_ns;
                    }
                }
                End::Client => self.host.receive(frame),
            }
        }
        self.serve();
        self.stack.advance(self.now_ns);
        self.stack.flush(self.now_ns);
        self.host.poll(self.now_ns);
        while let Some(frame) = self.host.take_frame() {
            if !self.is_cut {
                self.link.send(End::Server, frame, self.now_ns);
            }
        }
        let frames = self.take_frames();
        self.frames_of_turn = frames.len();
        for frame in frames {
            if !self.is_cut {
                self.link.send(End::Client, frame, self.now_ns);
            }
        }
    }

    /// The echo server.
    fn serve(&mut self) {
        while let Some(id) = self.stack.accept() {
            self.stack.watch(id, self.open.len() as u64, READ);
            self.open.push(Some(Echo {
                id,
                unsent: Vec::new(),
                ends: false,
            }));
        }
        let mut events = Vec::new();
        self.stack.events(&mut events);
        for event in events {
            let slot = event.token as usize;
            let Some(echo) = self.open[slot].as_mut() else {
                panic!("an event for a connection that was closed: {event:?}");
            };
            let mut buffer = [0; 3000];
            if echo.unsent.is_empty() && !echo.ends {
                match self.stack.recv(echo.id, &mut buffer) {
                    Ok(0) => echo.ends = true,
                    Ok(len) => echo.unsent.extend_from_slice(&buffer[..len]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => {
                        self.lost += 1;
                        echo.ends = true;
                        echo.unsent.clear();
                    }
                }
            }
            if let Ok(len) = self.stack.send(echo.id, &echo.unsent) {
                echo.unsent.drain(..len);
            }
            let is_sent = echo.unsent.is_empty();
            self.stack
                .watch(echo.id, event.token, if is_sent { READ } else { WRITE });
            if is_sent && echo.ends {
                self.stack.close(echo.id);
                self.open[slot] = None;
            }
        }
    }
}
