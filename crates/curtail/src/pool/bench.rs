//! `curtail pool bench`: closed loops of reads and writes, as in the evaluation of Clover.
//!
//! A thread is a client with its own connection and cache. It keeps a number of operations going,
//! begins the next when one completes, and so measures service times: the schedule is not
//! independent of the answers (a closed loop).

mod history;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Barrier, OnceLock};

use ::pool::port::Port;
use ::pool::process::ClientPort;
use ::pool::{
    Action, Client, ClientConfig, ClientCounters, Completion, NewItem, Operation, OperationError,
    Outcome,
};
use anyhow::{Context, anyhow, bail};
use clap::Args;
use measure::Histogram;
use serde_json::json;
use sys::clock::monotonic_ns;
use workload::{Popularity, Purpose, RandomStream, RecordSampler, Ycsb};

use crate::load::parse;
use history::History;

/// How long a thread waits for its first completions and for its last ones.
const PATIENCE_NS: u64 = 20_000_000_000;

#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Address of the metadata service
    #[arg(long, value_name = "IP")]
    meta: Ipv4Addr,

    /// Address of the first thread; each further one has the next address
    #[arg(long, value_name = "IP")]
    from: Ipv4Addr,

    /// Send and receive Ethernet frames at this device
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Address at which the memory node is reached, if not where the metadata service says
    #[arg(long, value_name = "IP")]
    node: Option<Ipv4Addr>,

    /// A middlebox redirects operations
    #[arg(long)]
    steered: bool,

    /// Number of threads
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(1..=200))]
    threads: u8,

    /// Operations that a thread keeps going
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    depth: u8,

    /// The mix: ycsb-a, ycsb-b, ycsb-c or write-only
    #[arg(long, value_name = "NAME", default_value = "ycsb-a", value_parser = parse::<Ycsb>)]
    workload: Ycsb,

    /// Popularity of keys
    #[arg(long, value_name = "LAW", default_value = "zipf:0.75", value_parser = parse::<Popularity>)]
    popularity: Popularity,

    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: u64,

    /// Length of values
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = units::size_bytes)]
    value: u64,

    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration_ns)]
    duration: u64,

    /// Seed of keys and operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Do not store every key first
    #[arg(long)]
    no_fill: bool,

    /// Keep all calls and answers, read every key at the end, from one more address, and fail if
    /// no order of the calls explains the answers. Values have at least 8 bytes, and the run at
    /// most a million operations
    #[arg(long, conflicts_with = "no_fill")]
    check: bool,

    /// Also write the results to this file, as JSON
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

/// What a thread, or all of them, have measured in the duration of the run.
#[derive(Default)]
struct Measured {
    reads: Histogram,
    writes: Histogram,
    missing: u64,
    /// Full, contended, unavailable, unknown.
    errors: [u64; 4],
    counters: ClientCounters,
    history: Option<History>,
}

pub(crate) fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    if flags.check && flags.value < history::VALUE_LEN_MIN {
        bail!(
            "--value {}: values that are checked have at least {} bytes",
            flags.value,
            history::VALUE_LEN_MIN
        );
    }
    let first = u32::from(flags.from);
    // One more reads at the end.
    if first.checked_add(flags.threads.into()).is_none() {
        bail!(
            "--from {}: there are no addresses behind it for {} threads",
            flags.from,
            flags.threads
        );
    }
    let mut ports = Vec::new();
    for thread in 0..flags.threads {
        let ip = Ipv4Addr::from(first + u32::from(thread));
        ports.push((thread, super::open(ip, flags.device.as_deref())?));
    }
    let barrier = Barrier::new(ports.len());
    let start = OnceLock::new();
    let results: Vec<anyhow::Result<Measured>> = std::thread::scope(|scope| {
        let (barrier, start) = (&barrier, &start);
        let spawn =
            |(thread, port)| scope.spawn(move || measure(flags, thread, port, barrier, start));
        let threads: Vec<_> = ports.into_iter().map(spawn).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|joined| joined.unwrap_or_else(|_| Err(anyhow!("a thread has panicked"))))
            .collect()
    });
    let mut measured = Vec::new();
    for (thread, result) in results.into_iter().enumerate() {
        measured.push(result.with_context(|| format!("run thread {thread}"))?);
    }
    let histories: Vec<History> = measured
        .iter_mut()
        .filter_map(|it| it.history.take())
        .collect();
    let checked = flags.check.then(|| check(flags, histories)).transpose()?;
    report(flags, &measured, checked)
}

/// Reads every key by a client that knows nothing yet, and judges all calls. Returns their number.
fn check(flags: &Flags, mut histories: Vec<History>) -> anyhow::Result<usize> {
    let ip = Ipv4Addr::from(u32::from(flags.from) + u32::from(flags.threads));
    let port = super::open(ip, flags.device.as_deref())?;
    let mut reader = ClosedLoop::new(flags, flags.threads, port)?;
    reader.complete(flags, (0..flags.keys).map(|record| (record, false)))?;
    histories.extend(reader.leave()?);
    history::judge(&histories)
}

/// What a thread does: it stores its part of the keys, waits for the others, and measures.
fn measure(
    flags: &Flags,
    thread: u8,
    port: Port,
    barrier: &Barrier,
    start: &OnceLock<u64>,
) -> anyhow::Result<Measured> {
    let filled = ClosedLoop::new(flags, thread, port).and_then(|mut it| {
        it.fill(flags)?;
        Ok(it)
    });
    // Every thread passes the barrier, or the others would wait for ever.
    let is_first = barrier.wait().is_leader();
    let mut it = filled?;
    if is_first {
        println!("measuring for {}", units::show_duration(flags.duration));
    }
    it.measure(flags, *start.get_or_init(monotonic_ns))
}

/// One thread's client and what it does.
struct ClosedLoop {
    thread: u8,
    it: ClientPort,
    sampler: RecordSampler,
    stream: RandomStream,
    value: Vec<u8>,
    history: Option<History>,
}

impl ClosedLoop {
    fn new(flags: &Flags, thread: u8, port: Port) -> anyhow::Result<Self> {
        let seed = super::seed() ^ u64::from(thread) << 32;
        let metadata = super::station(flags.meta);
        let mut config = ClientConfig::new(port.station(), metadata, seed);
        config.outstanding_max = usize::from(flags.depth);
        config.is_steered = flags.steered;
        config.node = flags.node.map(super::station);
        config.unix_start_ns = sys::clock::unix_less_monotonic_ns();
        Ok(Self {
            thread,
            it: ClientPort::new(Client::new(config), port).context("create a poll")?,
            sampler: RecordSampler::new(flags.popularity, flags.keys, flags.seed),
            stream: RandomStream::new(flags.seed, Purpose::Requests, thread.into()),
            value: vec![b'v'; usize::try_from(flags.value)?],
            history: flags.check.then(|| History::new(thread, flags.threads)),
        })
    }

    fn measure(&mut self, flags: &Flags, start_ns: u64) -> anyhow::Result<Measured> {
        let before = self.it.client.counters();
        let mut measured = Measured::default();
        let end_ns = start_ns.saturating_add(flags.duration);
        // When each operation that is not complete began, and whether it is a write, by its number.
        let mut begun = HashMap::new();
        let mut next = 0_u64;
        loop {
            let now_ns = monotonic_ns();
            while now_ns < end_ns && self.it.client.pending() < usize::from(flags.depth) {
                let is_write = self.stream.unit() < flags.workload.update_share();
                let record = self.sampler.draw(&mut self.stream);
                begun.insert(next, (monotonic_ns(), is_write));
                self.submit(next, record, is_write)?;
                next += 1;
            }
            if self.it.client.pending() == 0 {
                break;
            }
            if now_ns > end_ns.saturating_add(PATIENCE_NS) {
                bail!("operations did not complete");
            }
            self.it
                .turn(end_ns.max(now_ns + 1))
                .context("use the port")?;
            let now_ns = monotonic_ns();
            while let Some(completion) = self.take_completion()? {
                if let Some((begin_ns, is_write)) = begun.remove(&completion.id)
                    && now_ns <= end_ns
                {
                    let latency_ns = now_ns - begin_ns;
                    measured.count(completion.result, is_write, latency_ns);
                }
            }
        }
        measured.counters = self.it.client.counters().since(&before);
        measured.history = self.leave()?;
        Ok(measured)
    }

    fn submit(&mut self, id: u64, record: u64, is_write: bool) -> anyhow::Result<()> {
        let key = format!("user{record:016}").into_bytes();
        if let Some(history) = &mut self.history {
            history.invoke(monotonic_ns(), id, record, is_write, &mut self.value);
        }
        let action = if is_write {
            Action::Set(NewItem {
                value: self.value.clone(),
                ..NewItem::default()
            })
        } else {
            Action::Get
        };
        let operation = Operation { key, action };
        let submitted = self.it.client.submit(monotonic_ns(), id, operation);
        submitted.context("submit an operation")
    }

    /// Stores this thread's part of the keys.
    fn fill(&mut self, flags: &Flags) -> anyhow::Result<()> {
        if flags.no_fill {
            return Ok(());
        }
        let (thread, threads) = (u64::from(self.thread), u64::from(flags.threads));
        let part = (0..flags.keys).filter(|record| record % threads == thread);
        self.complete(flags, part.map(|record| (record, true)))
    }

    /// Reads or writes these keys, each of which must succeed.
    fn complete(
        &mut self,
        flags: &Flags,
        mut operations: impl Iterator<Item = (u64, bool)>,
    ) -> anyhow::Result<()> {
        let mut last_ns = monotonic_ns();
        loop {
            while self.it.client.pending() < usize::from(flags.depth)
                && let Some((record, is_write)) = operations.next()
            {
                self.submit(record, record, is_write)?;
            }
            if self.it.client.pending() == 0 {
                return Ok(());
            }
            let now_ns = monotonic_ns();
            if now_ns > last_ns.saturating_add(PATIENCE_NS) {
                bail!(
                    "the pool does not answer at {} (is `curtail pool meta` running?)",
                    flags.meta
                );
            }
            self.it.turn(now_ns + 100_000_000).context("use the port")?;
            while let Some(completion) = self.take_completion()? {
                last_ns = now_ns;
                match completion.result {
                    Ok(Outcome::Refused(refusal)) => bail!("store a key: {refusal:?}"),
                    Ok(_) => {}
                    Err(error) => return Err(error).context("store or read a key"),
                }
            }
        }
    }

    fn take_completion(&mut self) -> anyhow::Result<Option<Completion>> {
        let completion = self.it.client.take_completion();
        if let (Some(history), Some(completion)) = (&mut self.history, &completion) {
            history.answer(monotonic_ns(), completion)?;
        }
        Ok(completion)
    }

    /// Ends the client's lease. Returns what it has called.
    fn leave(&mut self) -> anyhow::Result<Option<History>> {
        self.it.client.leave();
        let end_ns = monotonic_ns() + 1_000_000_000;
        while !self.it.client.has_left() && monotonic_ns() < end_ns {
            self.it.turn(end_ns).context("use the port")?;
        }
        Ok(self.history.take())
    }
}

impl Measured {
    fn count(&mut self, result: Result<Outcome, OperationError>, is_write: bool, latency_ns: u64) {
        match result {
            Ok(outcome) => {
                self.missing += u64::from(outcome == Outcome::Missing);
                let latencies = if is_write {
                    &mut self.writes
                } else {
                    &mut self.reads
                };
                latencies.record(latency_ns);
            }
            Err(error) => {
                let index = match error {
                    OperationError::Full => 0,
                    OperationError::Contended => 1,
                    OperationError::Unavailable => 2,
                    OperationError::Unknown => 3,
                };
                self.errors[index] += 1;
            }
        }
    }

    fn completed(&self) -> u64 {
        self.reads.len() + self.writes.len()
    }

    fn merge(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.missing += other.missing;
        for (sum, count) in self.errors.iter_mut().zip(other.errors) {
            *sum += count;
        }
        self.counters = self.counters.plus(&other.counters);
    }
}

/// The results of all threads together.
struct Summary {
    /// Sum of the threads' averages, operations a second.
    averages_rps: f64,
    /// All operations, divided by the time.
    total_rps: f64,
    all: Measured,
    /// Calls whose answers were found to be right, if they were checked.
    checked: Option<usize>,
}

impl Summary {
    fn new(flags: &Flags, threads: &[Measured], checked: Option<usize>) -> Self {
        let seconds = flags.duration.max(1) as f64 / 1e9;
        let mut all = Measured::default();
        threads.iter().for_each(|thread| all.merge(thread));
        let averages = threads.iter().map(|it| it.completed() as f64 / seconds);
        Self {
            averages_rps: averages.sum(),
            total_rps: all.completed() as f64 / seconds,
            all,
            checked,
        }
    }

    /// The share of compare-and-swaps that linked a node.
    fn swap_success(&self) -> Option<f64> {
        ratio(self.all.counters.swaps_won, self.all.counters.swaps)
    }

    /// Bytes an operation with all headers, in both directions. Operations at the end that were not
    /// timed count too.
    fn bytes(&self) -> Option<f64> {
        let counters = &self.all.counters;
        let bytes = counters.sent_bytes + counters.received_bytes;
        ratio(bytes, counters.completed + counters.failed)
    }

    fn json(&self, flags: &Flags) -> serde_json::Value {
        let latency = |it: &Histogram| {
            (!it.is_empty()).then(|| {
                json!({ "count": it.len(), "p50_ns": it.percentile(50.0),
                        "p99_ns": it.percentile(99.0), "max_ns": it.max() })
            })
        };
        let all = &self.all;
        let [full, contended, unavailable, unknown] = all.errors;
        json!({
            "workload": flags.workload.name(),
            "popularity": flags.popularity,
            "threads": flags.threads,
            "depth": flags.depth,
            "keys": flags.keys,
            "value_len": flags.value,
            "duration_ns": flags.duration,
            "loop": "closed",
            "throughput_sum_of_averages_rps": self.averages_rps,
            "throughput_total_rps": self.total_rps,
            "completed": all.completed(),
            "missing": all.missing,
            "errors": { "full": full, "contended": contended, "unavailable": unavailable,
                        "unknown": unknown },
            "swaps": all.counters.swaps,
            "swap_success": self.swap_success(),
            "stale_nodes": all.counters.stale,
            "restarts": all.counters.restarts,
            "reconnects": all.counters.reconnects,
            "expired": all.counters.expired,
            "bytes_per_operation": self.bytes(),
            "linearizable_calls": self.checked,
            "reads": latency(&all.reads),
            "writes": latency(&all.writes),
        })
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn report(
    flags: &Flags,
    measured: &[Measured],
    checked: Option<usize>,
) -> anyhow::Result<ExitCode> {
    let it = Summary::new(flags, measured, checked);
    if let Some(path) = &flags.json {
        super::write_json(path, &it.json(flags))?;
    }
    println!(
        "{}, {} threads, {} operations each (closed loop)",
        flags.workload, flags.threads, flags.depth
    );
    println!(
        "throughput   {}/s as the sum of the threads' averages, {}/s in all",
        units::show_rate(it.averages_rps),
        units::show_rate(it.total_rps)
    );
    for (name, latencies) in [("reads", &it.all.reads), ("writes", &it.all.writes)] {
        if !latencies.is_empty() {
            println!(
                "{name:12} {}, p50 {}, p99 {}, longest {}",
                latencies.len(),
                units::show_duration(latencies.percentile(50.0)),
                units::show_duration(latencies.percentile(99.0)),
                units::show_duration(latencies.max())
            );
        }
    }
    let success = it.swap_success();
    let success = success.map_or("none".to_owned(), units::show_share);
    println!(
        "swaps        {}, successful {success}",
        it.all.counters.swaps
    );
    let bytes = it.bytes().unwrap_or(0.0);
    println!("bytes        {bytes:.0} an operation, with all headers");
    println!("missing      {}", it.all.missing);
    let [full, contended, unavailable, unknown] = it.all.errors;
    println!(
        "errors       {full} full, {contended} contended, {unavailable} unavailable, {unknown} \
         unknown"
    );
    if let Some(calls) = checked {
        println!("history      {calls} calls, linearizable");
    }
    Ok(ExitCode::SUCCESS)
}
