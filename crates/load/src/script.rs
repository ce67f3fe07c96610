//! Requests from a script. Each line of a script is an operation. A script of lengths has two lines
//! of numbers instead ([`lengths`]). A separate thread reads the script.
//!
//! ```text
//! FILE ─► reader thread ─► one bounded channel per generator thread ─► ScriptSource ─► engine
//! ```
//!
//! The first key of a request determines its connection. Requests with the same first key are
//! therefore sent in the order of the script. The reader waits while a channel is full, so a script
//! of any length needs the same memory.

mod lengths;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use sys::clock::monotonic_ns;
use workload::{Arrivals, LineError, Op, Request, ScriptLine, Superposition};

use crate::config::{Config, ConfigError, Protocol, Rate};
use crate::error::Error;
use crate::limits::{SCRIPT_BATCH, SCRIPT_BATCHES_MAX, SCRIPT_FAULTS_MAX, SCRIPT_LINE_LEN_MAX};
use crate::summary::ScriptSummary;

/// A request of a script.
#[derive(Debug)]
pub(crate) struct ScriptRequest {
    /// The intended send time, from the beginning of the load. 0 in closed loop.
    pub(crate) intended_ns: u64,
    /// The number of the connection that sends the request.
    pub(crate) connection: u32,
    pub(crate) op: Op,
    pub(crate) item: ScriptItem,
}

/// The keys, the value length and the TTL of one request of a script.
#[derive(Debug)]
pub(crate) struct ScriptItem {
    /// The key, or the keys of a multiget with spaces between them.
    pub(crate) keys: Box<[u8]>,
    pub(crate) key_count: u16,
    pub(crate) value_len: u32,
    pub(crate) ttl_s: u32,
}

/// The items (keys and lengths) of a thread's script requests that have not ended. A [`Request`]
/// has no space for a key. Its record number is the index of the request's item in `items`.
#[derive(Debug, Default)]
pub(crate) struct ScriptItems {
    items: Vec<Option<ScriptItem>>,
    /// The indices of `items` that are unused.
    free: Vec<u32>,
}

impl ScriptItems {
    /// Stores an item and returns a request that refers to it.
    pub(crate) fn insert(&mut self, op: Op, item: ScriptItem) -> Request {
        let (ttl_s, key_count) = (item.ttl_s, item.key_count);
        let index = match self.free.pop() {
            Some(index) => {
                self.items[index as usize] = Some(item);
                index
            }
            None => {
                self.items.push(Some(item));
                (self.items.len() - 1) as u32
            }
        };
        match op {
            Op::MultiGet => {
                // Without a script, this number selects the further records of the multiget.
                let unused = 0;
                Request::multiget(index.into(), key_count, unused)
            }
            _ => Request::new(op, index.into()).with_ttl(ttl_s),
        }
    }

    /// Returns the keys of a request, with spaces between them, and the length of its value.
    pub(crate) fn keys_and_value_len(&self, request: &Request) -> (&[u8], usize) {
        let item = self.items.get(request.record as usize);
        match item.and_then(Option::as_ref) {
            Some(item) => (&item.keys, item.value_len as usize),
            None => (&[], 0),
        }
    }

    /// Removes the item of a request that has ended: the request was answered, has failed, or was
    /// given up.
    pub(crate) fn remove(&mut self, request: &Request) {
        let item = self.items.get_mut(request.record as usize);
        if item.and_then(Option::take).is_some() {
            self.free.push(request.record as u32);
        }
    }
}

/// The script requests of one generator thread.
pub(crate) struct ScriptSource {
    batches: Receiver<Vec<ScriptRequest>>,
    /// The requests of the last received batch that are not taken yet.
    received: VecDeque<ScriptRequest>,
    /// Whether the reader has ended for any reason. Then no further batch will come.
    reader_ended: bool,
    /// Whether the load is an open loop, in which requests have intended times.
    pub(crate) open: bool,
}

impl ScriptSource {
    /// Returns the source of the requests that a reader sends in batches. `open` says whether the
    /// load is an open loop.
    pub(crate) fn new(batches: Receiver<Vec<ScriptRequest>>, open: bool) -> Self {
        Self {
            batches,
            received: VecDeque::new(),
            reader_ended: false,
            open,
        }
    }

    /// If all requests of the last batch are taken, receives the next batch. Does not wait for it.
    fn receive(&mut self) {
        if !self.received.is_empty() || self.reader_ended {
            return;
        }
        match self.batches.try_recv() {
            Ok(batch) => self.received.extend(batch),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => self.reader_ended = true,
        }
    }

    /// Returns the intended time of the next request, from the beginning of the load. None: the
    /// reader has sent no further request yet, or the script has ended.
    pub(crate) fn next_ns(&mut self) -> Option<u64> {
        self.receive();
        self.received.front().map(|it| it.intended_ns)
    }

    /// Takes the next request. Returns None in the same cases as [`Self::next_ns`].
    pub(crate) fn pop(&mut self) -> Option<ScriptRequest> {
        self.receive();
        self.received.pop_front()
    }

    /// Takes the next request, for use at the end of a run. If no request is left of the last
    /// received batch, waits for another batch until `deadline_ns` on the monotonic clock, because
    /// the reader may be late. The reader ends by itself at the first request that lies after the
    /// end of the load. None: the reader has ended, or the script arrives so slowly that the reader
    /// has sent nothing before `deadline_ns`.
    pub(crate) fn pop_until(&mut self, deadline_ns: u64) -> Option<ScriptRequest> {
        if self.received.is_empty() && !self.reader_ended {
            let wait_ns = deadline_ns.saturating_sub(monotonic_ns());
            let batch = self.batches.recv_timeout(Duration::from_nanos(wait_ns));
            self.received.extend(batch.into_iter().flatten());
        }
        self.received.pop_front()
    }

    /// Whether the reader has ended and all its requests were taken.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.reader_ended && self.received.is_empty()
    }
}

/// A script that is being read.
pub(crate) struct Script {
    /// The source of each generator thread, by thread number.
    pub(crate) sources: Vec<ScriptSource>,
    pub(crate) report: ScriptReport,
}

/// The counts of a script. The reader updates them while it reads.
#[derive(Clone, Default)]
pub(crate) struct ScriptReport(Arc<Mutex<ScriptSummary>>);

impl ScriptReport {
    /// Returns a copy of the counts so far.
    pub(crate) fn summary(&self) -> ScriptSummary {
        self.with(|summary| summary.clone())
    }

    fn with<T>(&self, access: impl FnOnce(&mut ScriptSummary) -> T) -> T {
        access(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Script {
    /// Opens the script that `config` names and starts the reader thread. Element n of
    /// `first_connections` is the number of the first connection of generator thread n. Returns
    /// None if `config` names no script.
    pub(crate) fn start(config: &Config, first_connections: &[u32]) -> Result<Option<Self>, Error> {
        let Some(path) = &config.script else {
            return Ok(None);
        };
        let script_error = |source| Error::Script {
            path: path.display().to_string(),
            source,
        };
        let input: Box<dyn Read + Send> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).map_err(script_error)?)
        };
        let report = ScriptReport::default();
        let open = config.rate != Rate::Max;
        let (mut senders, mut sources) = (Vec::new(), Vec::new());
        for _ in first_connections {
            let (sender, batches) = sync_channel(SCRIPT_BATCHES_MAX);
            senders.push(sender);
            sources.push(ScriptSource::new(batches, open));
        }
        let reader = ScriptReader {
            protocol: config.protocol,
            connections: config.connections,
            value_len_max: config.value_len_max,
            first_connections: first_connections.to_vec(),
            pending: senders.iter().map(|_| Vec::new()).collect(),
            senders,
            times: IntendedTimes::new(config)?,
            end_ns: config.warmup_ns + config.duration_ns,
            report: report.clone(),
        };
        let (input, lengths) = (BufReader::new(input), config.lengths);
        // The thread is never joined, because it may still block in a read (from a pipe) when the
        // run is over.
        thread::Builder::new()
            .name("load-script".to_owned())
            .spawn(move || match lengths {
                Some(lengths) => reader.run_lengths(lengths.op(), input),
                None => reader.run(input),
            })
            .map_err(Error::system("start a thread"))?;
        Ok(Some(Self { sources, report }))
    }
}

/// Computes the intended times of a script's lines, in the order of the lines.
struct IntendedTimes {
    /// The arrival process, which gives the intended times of lines without a time. None: closed
    /// loop.
    arrivals: Option<Arrivals>,
    /// The time in the first line that states a time. It is the beginning of the load: the times of
    /// later lines count from it.
    origin_ns: Option<u64>,
    /// The intended time of the last line.
    last_ns: u64,
}

impl IntendedTimes {
    fn new(config: &Config) -> Result<Self, Error> {
        let arrivals = match config.rate {
            Rate::Max => None,
            Rate::PerSecond(rate_rps) => {
                let arrivals = Arrivals::new(
                    config.arrivals,
                    Superposition::Single,
                    rate_rps,
                    config.connections,
                    0..config.connections,
                    config.seed,
                );
                Some(arrivals.map_err(|error| ConfigError::demand(&error.into()))?)
            }
        };
        Ok(Self {
            arrivals,
            origin_ns: None,
            last_ns: 0,
        })
    }

    /// Returns the intended time of the next line, from the beginning of the load. `at_ns` is the
    /// time that the line states. A line without a time gets the next time of the arrival process.
    /// The result is never earlier than the intended time of the previous line.
    fn next_ns(&mut self, at_ns: Option<u64>) -> u64 {
        let Some(arrivals) = &mut self.arrivals else {
            return 0;
        };
        let ns = match at_ns {
            Some(at_ns) => at_ns.saturating_sub(*self.origin_ns.get_or_insert(at_ns)),
            None => arrivals.next().map_or(self.last_ns, |it| it.intended_ns),
        };
        self.last_ns = self.last_ns.max(ns);
        self.last_ns
    }
}

/// Reads the lines and distributes their requests to the generator threads.
struct ScriptReader {
    protocol: Protocol,
    connections: u32,
    value_len_max: u32,
    /// The number of each thread's first connection.
    first_connections: Vec<u32>,
    senders: Vec<SyncSender<Vec<ScriptRequest>>>,
    /// The incomplete batch of each thread.
    pending: Vec<Vec<ScriptRequest>>,
    times: IntendedTimes,
    /// The end of the load. The reader stops at the first request intended at this time or later.
    end_ns: u64,
    report: ScriptReport,
}

impl ScriptReader {
    /// Reads lines until the script ends, a request lies after the end of the load, or a generator
    /// thread has ended.
    fn run(mut self, mut input: BufReader<impl Read>) {
        let mut line = Vec::new();
        let mut number = 0;
        let read_to_end = loop {
            number += 1;
            match read_line(&mut input, &mut line) {
                Ok(Line::End) => break true,
                Ok(Line::Complete) => match self.add(&line) {
                    Ok(true) => {}
                    Ok(false) => break false,
                    Err(fault) => self.count_fault("line", number, &fault),
                },
                Ok(Line::TooLong) => {
                    let fault = format!("longer than {SCRIPT_LINE_LEN_MAX} bytes");
                    self.count_fault("line", number, &fault);
                }
                Err(error) => {
                    self.count_fault("line", number, &error.to_string());
                    break false;
                }
            }
            if !self.send_before_wait(&input) {
                break false;
            }
        };
        self.end(read_to_end);
    }

    /// If the next read may block, for example on a pipe, sends the incomplete batches now.
    /// Returns false if a thread has ended.
    fn send_before_wait(&mut self, input: &BufReader<impl Read>) -> bool {
        !input.buffer().is_empty() || self.send_all()
    }

    /// Sends the remaining requests. Stores in the report whether the script was read to its end.
    fn end(&mut self, read_to_end: bool) {
        let _ = self.send_all();
        self.report.with(|report| report.ended = read_to_end);
    }

    /// Adds the request of a line to the batches. Returns false if the reader can stop, as
    /// [`Self::push`] does. The error says what is wrong with the line.
    fn add(&mut self, line: &[u8]) -> Result<bool, String> {
        let parsed = ScriptLine::parse(line).map_err(|error: LineError| error.to_string())?;
        // An empty line or a comment.
        let Some(parsed) = parsed else {
            return Ok(true);
        };
        if parsed.value_len > self.value_len_max {
            let (len, len_max) = (parsed.value_len, self.value_len_max);
            return Err(format!(
                "a value of {len} bytes is longer than --value-max {len_max}"
            ));
        }
        self.check_protocol(&parsed)?;
        let intended_ns = self.times.next_ns(parsed.at_ns);
        let first_key = parsed.each_key().next().unwrap_or_default();
        let connection = self.connection_of(first_key);
        Ok(self.push(ScriptRequest {
            intended_ns,
            connection,
            op: parsed.op,
            item: ScriptItem {
                keys: parsed.keys.into(),
                key_count: parsed.key_count,
                value_len: parsed.value_len,
                ttl_s: parsed.ttl_s,
            },
        }))
    }

    /// Checks that the protocol has what a line needs: its operation, its TTL and its keys. The
    /// error says what the protocol does not have.
    fn check_protocol(&self, line: &ScriptLine<'_>) -> Result<(), String> {
        if self.protocol != Protocol::Textile {
            return Ok(());
        }
        if !self.protocol.has(line.op) {
            return Err("protocol textile has only get of one key, set and delete".to_owned());
        }
        if line.ttl_s > 0 {
            return Err("protocol textile has no TTL".to_owned());
        }
        if line.keys.contains(&b'/') {
            return Err("a key of protocol textile cannot contain `/`".to_owned());
        }
        Ok(())
    }

    /// Returns the number of the connection for all requests whose first key is `key`.
    fn connection_of(&self, key: &[u8]) -> u32 {
        // Scales the hash, which is below 2³², to a connection number below `connections`.
        let product = u64::from(hash(key)) * u64::from(self.connections);
        (product >> 32) as u32
    }

    /// Adds a request to its thread's batch, and sends the batch if it is full. Returns false if
    /// the reader can stop, because the request lies after the end of the load or the thread has
    /// ended.
    fn push(&mut self, request: ScriptRequest) -> bool {
        if request.intended_ns >= self.end_ns {
            return false;
        }
        self.report.with(|report| report.operations += 1);
        // The threads have ascending ranges of connections. The thread of this connection is the
        // last one whose range begins at or before it.
        let threads = &self.first_connections;
        let thread = threads.partition_point(|&first| first <= request.connection) - 1;
        let pending = &mut self.pending[thread];
        pending.push(request);
        if pending.len() < SCRIPT_BATCH {
            return true;
        }
        let batch = std::mem::take(pending);
        // The send waits while the channel is full, and fails when the thread has ended.
        self.senders[thread].send(batch).is_ok()
    }

    /// Sends the incomplete batches. Returns false if a thread has ended.
    fn send_all(&mut self) -> bool {
        for (pending, sender) in self.pending.iter_mut().zip(&self.senders) {
            if !pending.is_empty() && sender.send(std::mem::take(pending)).is_err() {
                return false;
            }
        }
        true
    }

    /// Counts a piece of the script that is malformed or cannot be read. `kind` names the piece,
    /// such as `line`, `number` is its number, and `fault` says what is wrong with it. Only the
    /// first few faults are recorded as text.
    fn count_fault(&self, kind: &str, number: u64, fault: &str) {
        self.report.with(|report| {
            report.malformed += 1;
            if report.faults.len() < SCRIPT_FAULTS_MAX {
                report.faults.push(format!("{kind} {number}: {fault}"));
            }
        });
    }
}

/// The result of reading a line.
enum Line {
    /// A line was read to its end.
    Complete,
    /// The line is longer than [`SCRIPT_LINE_LEN_MAX`].
    TooLong,
    /// The input has ended.
    End,
}

/// Reads a line into `line`. If the line is too long, its rest is read and discarded.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    // The line end is one byte.
    let len_max = SCRIPT_LINE_LEN_MAX as u64 + 1;
    if input.by_ref().take(len_max).read_until(b'\n', line)? == 0 {
        return Ok(Line::End);
    }
    // The last line of the input may have no line end.
    if line.ends_with(b"\n") || line.len() <= SCRIPT_LINE_LEN_MAX {
        return Ok(Line::Complete);
    }
    loop {
        let buffer = input.fill_buf()?;
        let (used, is_line_end) = match buffer.iter().position(|&byte| byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(used);
        if is_line_end {
            return Ok(Line::TooLong);
        }
    }
}

/// Returns the hash of a key: FNV-1a (Fowler, Noll & Vo), followed by a shift and a multiplication.
/// The shift and the multiplication mix the low bits into the high bits, which choose the
/// connection.
fn hash(key: &[u8]) -> u32 {
    let fnv = |hash: u32, &byte: &u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    let hash = key.iter().fold(2_166_136_261, fnv);
    (hash ^ hash >> 15).wrapping_mul(0x9e37_79b1)
}
