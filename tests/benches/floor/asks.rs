//! What the client asks, and how long the answers are.
//!
//! Keys are of 30 bytes and values of 139, so that a request for one is 36 bytes and its answer
//! 190; a miss, of 5 bytes, shows in the length.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use curtail_tests::echo::Exchange;
use workload::{Purpose, RandomStream};

const PREFIX: &[u8; 21] = b"floor-of-the-kernel-:";
const DIGITS: usize = 9;
const KEY_LEN: usize = PREFIX.len() + DIGITS;
const VALUE: &[u8; 139] = &[b'v'; 139];
/// Records there are keys for.
pub(crate) const RECORDS_MAX: u64 = 1_000_000_000;

const GET_LEN: usize = "get ".len() + KEY_LEN + "\r\n".len();
const VALUE_LINES_LEN: usize =
    "VALUE ".len() + KEY_LEN + " 0 139\r\n".len() + VALUE.len() + "\r\n".len();
const END_LEN: usize = "END\r\n".len();
const HIT_LEN: usize = VALUE_LINES_LEN + END_LEN;
const STORED_LEN: usize = "STORED\r\n".len();
const _: () = assert!(GET_LEN == 36 && HIT_LEN == 190 && KEY_LEN == 30);

/// Keys of a multiget.
const KEYS: usize = 24;
const MULTIGET_LEN: usize = "get".len() + KEYS * (" ".len() + KEY_LEN) + "\r\n".len();
const MULTIHIT_LEN: usize = KEYS * VALUE_LINES_LEN + END_LEN;

/// Of a hundred requests of a mix, so many are sets.
const SETS: u64 = 25;

/// Records written with one call when a server is filled.
const BATCH: u64 = 1000;
/// How long a server may take to answer while it is filled; under valgrind it is slow.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// One key each.
    Gets,
    /// Twenty-four keys each.
    Multigets,
    /// Three gets to one set, by chance.
    Mix,
}

impl Asks {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gets => "gets",
            Self::Multigets => "multigets of 24",
            Self::Mix => "75/25 gets and sets",
        }
    }

    /// What a server has to know that only counts bytes; none where counting does not do.
    pub(crate) fn exchange(self) -> Option<Exchange> {
        let (request_len, answer_len) = match self {
            Self::Gets => (GET_LEN, HIT_LEN),
            Self::Multigets => (MULTIGET_LEN, MULTIHIT_LEN),
            Self::Mix => return None,
        };
        Some(Exchange {
            request_len,
            answer_len,
        })
    }
}

/// Requests drawn from a seed.
pub(crate) struct Requests {
    asks: Asks,
    records: u64,
    random: RandomStream,
    bytes: Vec<u8>,
}

impl Requests {
    pub(crate) fn new(asks: Asks, records: u64, seed: u64) -> Self {
        Self {
            asks,
            records,
            random: RandomStream::new(seed, Purpose::Other, 0),
            bytes: Vec::new(),
        }
    }

    /// The next `count` requests in a row, and the bytes of their answers.
    pub(crate) fn draw(&mut self, count: usize) -> (&[u8], usize) {
        self.bytes.clear();
        let mut due_len = 0;
        for _ in 0..count {
            due_len += match self.asks {
                Asks::Gets => self.draw_get(),
                Asks::Mix if self.random.below(100) < SETS => {
                    let record = self.random.below(self.records);
                    push_set(&mut self.bytes, record, "");
                    STORED_LEN
                }
                Asks::Mix => self.draw_get(),
                Asks::Multigets => {
                    self.bytes.extend_from_slice(b"get");
                    for _ in 0..KEYS {
                        self.bytes.push(b' ');
                        push_key(&mut self.bytes, self.random.below(self.records));
                    }
                    self.bytes.extend_from_slice(b"\r\n");
                    MULTIHIT_LEN
                }
            };
        }
        (&self.bytes, due_len)
    }

    fn draw_get(&mut self) -> usize {
        self.bytes.extend_from_slice(b"get ");
        push_key(&mut self.bytes, self.random.below(self.records));
        self.bytes.extend_from_slice(b"\r\n");
        HIT_LEN
    }
}

/// Gives a server all records.
pub(crate) fn fill(address: SocketAddr, records: u64) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut bytes = Vec::new();
    for first in (0..records).step_by(BATCH as usize) {
        bytes.clear();
        for record in first..records.min(first + BATCH) {
            push_set(&mut bytes, record, " noreply");
        }
        stream.write_all(&bytes).context("fill the server")?;
    }
    // It is answered when all before it has been done.
    stream.write_all(b"version\r\n")?;
    let mut received = String::new();
    BufReader::new(stream)
        .read_line(&mut received)
        .context("fill the server")?;
    if !received.starts_with("VERSION ") {
        bail!("a server that was filled says {received:?}");
    }
    Ok(())
}

fn push_key(bytes: &mut Vec<u8>, record: u64) {
    bytes.extend_from_slice(PREFIX);
    let mut digits = [b'0'; DIGITS];
    let mut rest = record;
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    bytes.extend_from_slice(&digits);
}

fn push_set(bytes: &mut Vec<u8>, record: u64, how: &str) {
    bytes.extend_from_slice(b"set ");
    push_key(bytes, record);
    bytes.extend_from_slice(b" 0 0 139");
    bytes.extend_from_slice(how.as_bytes());
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(VALUE);
    bytes.extend_from_slice(b"\r\n");
}
