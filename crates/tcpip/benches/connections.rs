//! What a request costs, with few and with many established connections, and a SYN: `cargo bench -p
//! tcpip`.
//!
//! A client made of frames sends requests of 32 bytes on all connections in turn, in a random
//! order, and an owner answers each by 64 bytes. The time is that of the processor, for everything
//! from the frame of the request to the frame of the answer; the acknowledgement is in the next
//! request. Instructions: `valgrind --tool=callgrind` of `connections COUNT REQUESTS`.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss)]

use std::time::Instant;

use tcpip::{Checksums, Config, ConnectionId, Interest, Stack};

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PORT: u16 = 11211;
const FEW: usize = 100;
const MANY: usize = 15_360;
const REQUESTS: usize = 600_000;
const ROUNDS: usize = 7;

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|it| it.parse().ok()).collect();
    if let [count, requests] = numbers[..] {
        let ns = World::new(count).run(requests);
        println!("{count} connections, {requests} requests: {ns:.0} ns a request");
        return;
    }
    let (mut few, mut many) = (World::new(FEW), World::new(MANY));
    let mut ratios = Vec::new();
    // The two take turns, so that a disturbance meets both.
    for _ in 0..ROUNDS {
        let [few_ns, many_ns] = [few.run(REQUESTS), many.run(REQUESTS)];
        println!("{FEW} connections: {few_ns:.0} ns a request; {MANY}: {many_ns:.0} ns");
        ratios.push(many_ns / few_ns);
    }
    ratios.sort_by(f64::total_cmp);
    println!("ratio: {:.2} (median)", ratios[ROUNDS / 2]);
    println!("a SYN that nobody follows: {:.0} ns", few.flood(MANY));
}

/// A connection as its client sees it.
struct Client {
    ip: [u8; 4],
    port: u16,
    sent: u32,
    received: u32,
}

struct World {
    stack: Stack,
    clients: Vec<Client>,
    ids: Vec<ConnectionId>,
    now_ns: u64,
    next: usize,
    frame: Vec<u8>,
}

impl World {
    fn new(count: usize) -> Self {
        let config = Config::new(OWN, [10, 0, 0, 1].into(), vec![PORT]);
        let mut world = Self {
            stack: Stack::new(config, 0),
            clients: Vec::new(),
            ids: Vec::new(),
            now_ns: 0,
            next: 0,
            frame: Vec::new(),
        };
        for number in 0..count {
            world.connect(number);
        }
        // Neighbours in this order are no neighbours in memory.
        let mut order = 12_345_usize;
        for last in (1..count).rev() {
            order = order
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            world.clients.swap(last, (order >> 33) % (last + 1));
        }
        world
    }

    fn connect(&mut self, number: usize) {
        let client = Client {
            ip: [10, 0, 1, (number / 4096) as u8 + 1],
            port: 1024 + (number % 4096) as u16,
            sent: 1000,
            received: 0,
        };
        self.clients.push(client);
        self.send(number, 2, &[]);
        self.clients[number].sent += 1;
        self.stack.flush(self.now_ns);
        self.take_answer(number, 1);
        self.send(number, 0x10, &[]);
        let id = self.stack.accept().unwrap();
        let interest = Interest {
            readable: true,
            writable: false,
        };
        self.stack.watch(id, number as u64, interest);
        self.ids.push(id);
        assert!(!self.stack.has_events());
        self.stack.flush(self.now_ns);
    }

    /// Makes requests, and returns the processor time of each in nanoseconds.
    fn run(&mut self, requests: usize) -> f64 {
        let mut events = Vec::new();
        let mut buffer = [0; 16 * 1024];
        let start = Instant::now();
        for _ in 0..requests {
            self.next = (self.next + 1) % self.clients.len();
            // The clock goes on as it would at 100 000 requests a second.
            self.now_ns += 10_000;
            self.stack.advance(self.now_ns);
            let client = self.next;
            self.send(client, 0x18, &[b'q'; 32]);
            self.clients[client].sent = self.clients[client].sent.wrapping_add(32);
            events.clear();
            self.stack.events(&mut events);
            let id = self.ids[events[0].token as usize];
            assert_eq!(self.stack.recv(id, &mut buffer).unwrap(), 32);
            assert_eq!(self.stack.send(id, &[b'a'; 64]).unwrap(), 64);
            assert!(!self.stack.has_events());
            self.stack.flush(self.now_ns);
            self.take_answer(client, 64);
        }
        start.elapsed().as_nanos() as f64 / requests as f64
    }

    /// Opens connections half, and returns the processor time of each in nanoseconds.
    fn flood(&mut self, count: usize) -> f64 {
        let first = self.clients.len();
        let start = Instant::now();
        for number in 0..count {
            self.clients.push(Client {
                ip: [10, 0, 2, (number / 4096) as u8 + 1],
                port: 1024 + (number % 4096) as u16,
                sent: 1000,
                received: 0,
            });
            self.send(first + number, 2, &[]);
            self.stack.flush(self.now_ns);
            self.take_answer(first + number, 1);
        }
        start.elapsed().as_nanos() as f64 / count as f64
    }

    /// Passes a segment of a client to the stack.
    fn send(&mut self, client: usize, flags: u8, payload: &[u8]) {
        let it = &self.clients[client];
        let frame = &mut self.frame;
        frame.clear();
        frame.extend(OWN);
        frame.extend([2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
        frame.extend((40 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(it.ip);
        frame.extend([10, 0, 0, 1]);
        let words = frame[14..34].chunks(2);
        let sum: u32 = words
            .map(|it| u32::from(it[0]) << 8 | u32::from(it[1]))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame.extend(it.port.to_be_bytes());
        frame.extend(PORT.to_be_bytes());
        frame.extend(it.sent.to_be_bytes());
        frame.extend(it.received.to_be_bytes());
        frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(payload);
        self.stack.receive(frame, Checksums::Verified, self.now_ns);
    }

    /// Takes the only frame of the stack, a segment with `len` bytes of the sequence.
    fn take_answer(&mut self, client: usize, len: u32) {
        let frames = self.stack.frames();
        assert_eq!(frames.len(), 1);
        let frame = frames.iter().next().unwrap();
        let number = u32::from_be_bytes([frame[38], frame[39], frame[40], frame[41]]);
        self.clients[client].received = number.wrapping_add(len);
        frames.clear();
    }
}
