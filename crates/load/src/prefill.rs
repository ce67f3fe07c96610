//! Stores the records on the servers before a run, and measures how many of them are resident: the
//! servers still have them after the last record has been stored.

use std::sync::atomic::AtomicBool;

use sys::clock::monotonic_ns;
use sys::poll::{Events, Interest, Poll};
use workload::{Op, Popularity, Purpose, RandomStream, RecordSampler, Request};

use crate::batch::{self, Batch, Keys};
use crate::carrier::{Carrier, CarrierError, InFlight, PerOperation, Persistent};
use crate::config::{Config, ConfigError, Protocol, Target};
use crate::error::Error;
use crate::limits::{
    EVENTS_MAX, PREFILL_CONNECTIONS, PREFILL_DEPTH, PREFILL_LOST_NS, PREFILL_TIMEOUT_NS,
    RECEIVE_BYTES_MAX, RESIDENT_SAMPLE_MAX,
};
use crate::opening::{self, Share};
use crate::wire::{Answer, Outcome};

/// The result of a prefill, over all targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prefill {
    /// The number of records set: all records of the run, once for each target.
    pub records: u64,
    /// The number of counters set: one for each record and target if the load increments or
    /// decrements counters, otherwise 0.
    pub counters: u64,
    /// The number of requests answered with an error. With the protocol textile, also the number of
    /// requests that were not answered.
    pub refused: u64,
    /// The number of bytes sent for the sets, commands included.
    pub bytes: u64,
    /// The number of records read back.
    pub sampled: u64,
    /// The share of the records read back that were found.
    pub resident: f64,
    /// The duration of the prefill, including the time in which records are read back.
    pub elapsed_ns: u64,
}

/// The progress of a prefill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of requests answered so far.
    pub done: u64,
    /// The number of all requests of the prefill, sets and gets.
    pub total: u64,
}

/// Sets every record of `config` on every target. If the load increments or decrements counters,
/// also sets the counter of every record to 0. Then reads records back: all of them, or a sample of
/// [`RESIDENT_SAMPLE_MAX`] that is drawn from the seed. `progress` is called about 200 times.
///
/// A prefill uses persistent connections, even if the load itself uses another carrier. The
/// exception is the protocol textile, which has no persistent connections. In this protocol, each
/// set has its own TCP connection, and gets are sent over UDP.
///
/// # Errors
/// A setting is invalid, or a server cannot be reached or stops answering.
pub fn prefill(config: &Config, progress: impl FnMut(Progress)) -> Result<Prefill, Error> {
    match config.protocol {
        Protocol::Text | Protocol::Meta | Protocol::Binary => {
            prefill_over::<Persistent>(config, progress)
        }
        Protocol::Textile => prefill_over::<PerOperation>(config, progress),
        Protocol::Http => {
            let fault = "a web server takes no files; make them with `curtail files make`";
            Err(ConfigError::new("prefill", fault.to_owned()).into())
        }
    }
}

/// What a request of a prefill does with its record.
#[derive(Clone, Copy)]
enum Step {
    /// Sets the record.
    Set,
    /// Sets the record's counter to 0.
    SetCounter,
    /// Gets the record.
    ReadBack,
}

/// Makes a prefill whose requests the carrier `C` transports.
fn prefill_over<C: Carrier>(
    config: &Config,
    mut progress: impl FnMut(Progress),
) -> Result<Prefill, Error> {
    config.validate()?;
    opening::allow_files(PREFILL_CONNECTIONS)?;
    let started_ns = monotonic_ns();
    let keyspace = config.keyspace()?;
    let sampler = config.demand().record_sampler();
    let (records, sampled) = (config.records, config.records.min(RESIDENT_SAMPLE_MAX));
    // `counts`: the operation is an increment or a decrement.
    let counters = if config.mix().operations().any(Op::counts) {
        records
    } else {
        0
    };
    let targets = config.targets.len() as u64;
    let mut result = Prefill {
        records: records * targets,
        counters: counters * targets,
        refused: 0,
        bytes: 0,
        sampled: sampled * targets,
        resident: 0.0,
        elapsed_ns: 0,
    };
    let total = result.records + result.counters + result.sampled;
    let progress_interval = (total / 200).max(1);
    let (mut done, mut hits) = (0, 0);
    let filler = batch::filler(config.value_len_max);
    for target in &config.targets {
        let keys = Keys::Records {
            keyspace: keyspace.clone(),
            sampler: sampler.clone(),
        };
        let batch = Batch::new(config.protocol, keys, filler.clone());
        let mut prefiller = Prefiller::<C>::open(config, target, batch)?;
        let mut count = |answer: Answer| {
            result.refused += u64::from(answer.outcome == Outcome::Error);
            hits += u64::from(answer.outcome == Outcome::Found);
            done += 1;
            if done % progress_interval == 0 {
                progress(Progress { done, total });
            }
        };
        let sets = (0..records).map(|record| (Step::Set, record));
        let counter_sets = (0..counters).map(|record| (Step::SetCounter, record));
        prefiller.run(sets.chain(counter_sets), &mut count)?;
        result.bytes += prefiller.bytes;
        let sampler = RecordSampler::new(Popularity::Uniform, records, config.seed);
        let mut stream = RandomStream::new(config.seed, Purpose::Other, 0);
        let read_back = |n| {
            if sampled == records {
                n
            } else {
                sampler.draw(&mut stream)
            }
        };
        let reads = (0..sampled).map(read_back);
        prefiller.run(reads.map(|record| (Step::ReadBack, record)), &mut count)?;
    }
    result.resident = hits as f64 / result.sampled as f64;
    result.elapsed_ns = monotonic_ns() - started_ns;
    Ok(result)
}

/// The connections of a prefill to one server. While requests remain to be sent, each connection
/// keeps [`Self::DEPTH`] of them outstanding.
struct Prefiller<'a, C: Carrier> {
    target: &'a Target,
    poll: Poll,
    /// The index of a connection is its poll token.
    connections: Vec<C>,
    batch: Batch,
    /// The receive buffer of all connections.
    buffer: Vec<u8>,
    /// The number of values that the server has stored.
    stored: u64,
    /// The number of bytes of all requests so far.
    bytes: u64,
    /// The number of outstanding requests on all connections.
    in_flight: u64,
}

impl<'a, C: Carrier> Prefiller<'a, C> {
    /// The number of requests that a connection keeps outstanding: [`PREFILL_DEPTH`], or 1 if each
    /// request has its own socket.
    const DEPTH: usize = if C::BATCH_MAX < PREFILL_DEPTH as usize {
        C::BATCH_MAX
    } else {
        PREFILL_DEPTH as usize
    };

    /// Opens [`PREFILL_CONNECTIONS`] connections to a server.
    fn open(config: &Config, target: &'a Target, batch: Batch) -> Result<Self, Error> {
        let poll = Poll::new().map_err(Error::system("open an epoll descriptor"))?;
        let share = Share {
            first: 0,
            count: PREFILL_CONNECTIONS,
            all: PREFILL_CONNECTIONS,
            concurrent_max: PREFILL_CONNECTIONS as usize,
        };
        let config = Config {
            targets: vec![target.clone()],
            depth: Self::DEPTH as u32,
            ..config.clone()
        };
        let connections = C::open(&config, &poll, share, &AtomicBool::new(false))?;
        Ok(Self {
            target,
            poll,
            connections,
            batch,
            buffer: vec![0; RECEIVE_BYTES_MAX],
            stored: 0,
            bytes: 0,
            in_flight: 0,
        })
    }

    /// Sends all requests and receives all answers. `count` is called with each answer.
    fn run(
        &mut self,
        mut requests: impl Iterator<Item = (Step, u64)>,
        count: &mut impl FnMut(Answer),
    ) -> Result<(), Error> {
        for number in 0..self.connections.len() {
            self.fill(number, &mut requests)
                .map_err(|error| self.error(error.to_string()))?;
        }
        // A carrier with time-outs may lose a request or an answer. After `PREFILL_LOST_NS` without
        // any answer, all outstanding requests count as lost. On a persistent connection, an answer
        // can be late but not lost.
        let wait_ns = if C::TIMES_OUT {
            PREFILL_LOST_NS
        } else {
            PREFILL_TIMEOUT_NS
        };
        let mut silent_ns = 0;
        let mut events = Events::with_capacity(EVENTS_MAX);
        while self.in_flight > 0 {
            self.poll
                .wait(&mut events, Some(wait_ns))
                .map_err(Error::system("wait for answers"))?;
            if events.is_empty() {
                silent_ns += wait_ns;
                if silent_ns >= PREFILL_TIMEOUT_NS {
                    let waited_s = PREFILL_TIMEOUT_NS / 1_000_000_000;
                    return Err(self.error(format!("no answer came for {waited_s} s")));
                }
                self.give_up_all(&mut requests, count)
                    .map_err(|error| self.error(error.to_string()))?;
                continue;
            }
            silent_ns = 0;
            for event in events.iter() {
                let number = event.token as usize;
                let served = self.serve(number, event.readable, &mut requests, count);
                served.map_err(|error| self.error(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Counts all outstanding requests as failed, because no answer has come for a while, and sends
    /// further requests. Called only if each request has its own socket, so each connection has at
    /// most one outstanding request.
    fn give_up_all(
        &mut self,
        requests: &mut impl Iterator<Item = (Step, u64)>,
        count: &mut impl FnMut(Answer),
    ) -> Result<(), CarrierError> {
        for number in 0..self.connections.len() {
            let connection = &mut self.connections[number];
            let opaque = connection.in_flight().front().map(|it| it.opaque);
            if opaque
                .and_then(|opaque| connection.give_up(opaque))
                .is_some()
            {
                self.in_flight -= 1;
                count(Answer::ERROR);
            }
            self.fill(number, requests)?;
        }
        Ok(())
    }

    /// Serves a connection whose socket is ready: sends the bytes that the socket did not accept
    /// before, receives answers, and sends further requests.
    fn serve(
        &mut self,
        number: usize,
        readable: bool,
        requests: &mut impl Iterator<Item = (Step, u64)>,
        count: &mut impl FnMut(Answer),
    ) -> Result<(), CarrierError> {
        let connection = &mut self.connections[number];
        if connection.is_blocked() {
            connection.send_unsent()?;
            if !connection.is_blocked() {
                connection.set_interest(&self.poll, number as u64, Interest::Read)?;
            }
        }
        if readable {
            let (len, _) = connection.receive(&mut self.buffer)?;
            let mut input = &self.buffer[..len];
            while let Some(answered) = connection.next(&mut input)? {
                self.in_flight -= 1;
                self.stored += u64::from(answered.answer.outcome == Outcome::Stored);
                count(answered.answer);
            }
        }
        self.fill(number, requests)
    }

    /// Sends requests on a connection until [`Self::DEPTH`] of them are outstanding or its socket
    /// is full.
    fn fill(
        &mut self,
        number: usize,
        requests: &mut impl Iterator<Item = (Step, u64)>,
    ) -> Result<(), CarrierError> {
        let connection = &mut self.connections[number];
        while !connection.is_blocked() {
            self.batch.clear();
            while connection.in_flight().len() < Self::DEPTH && !self.batch.is_full() {
                let Some((step, record)) = requests.next() else {
                    break;
                };
                let op = match step {
                    Step::Set | Step::SetCounter => Op::Set,
                    Step::ReadBack => Op::Get,
                };
                let request = Request::new(op, record);
                let (no_cas, opaque) = (0, record);
                match step {
                    Step::SetCounter => self.batch.push_counter(record, opaque),
                    _ => self.batch.push(&request, no_cas, opaque),
                }
                self.in_flight += 1;
                let in_flight = InFlight::unmeasured(self.batch.protocol, request, opaque);
                connection.in_flight_mut().push_back(in_flight);
            }
            if self.batch.len() == 0 {
                break;
            }
            self.bytes += self.batch.len() as u64;
            connection.send(&self.batch, &self.poll, number as u64)?;
            if connection.is_blocked() {
                connection.set_interest(&self.poll, number as u64, Interest::ReadWrite)?;
            }
        }
        Ok(())
    }

    fn error(&self, fault: String) -> Error {
        Error::Prefill {
            target: self.target.clone(),
            fault,
            stored: self.stored,
        }
    }
}
