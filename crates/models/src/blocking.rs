//! A web server whose files do not fit into memory, in virtual time.
//!
//! ```text
//! connections ─▶ ready ─▶ wait: a batch ─▶ worker, one turn each ─▶ network ─▶ connection
//!                  ▲                        │ cold: blocks here, or
//!                  └──────── helper ◀───────┘ a helper reads it
//!                              └─▶ page cache ─▶ disk: a queue and a law
//! ```
//!
//! The sources of all parameters, and what is assumed of each strategy, are in
//! `docs/decisions/016-slow-disk.md`; they were written down before the first run. The strategies
//! differ in nothing but the places where the worker waits for the disk ([`Strategy`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use disk::law::Law;
use disk::queue::Queue;
use lab::model::{Computed, Default, Model, Settings, Simulate};
use measure::{Burstiness, Histogram, SizeDeciles, SizedLatency, service_inversion};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use report::record::Better;

use crate::limits;

mod files;
mod strategy;

use files::{CHUNK, Files, OpenFiles, PageCache, open_files};
use strategy::{Lock, Strategy};

pub(crate) const MODEL: Model = Model {
    name: "blocking",
    settings: &SETTINGS,
    metrics: &METRICS,
    factors: &[],
    read: |settings| Ok(Box::new(Blocking::read(settings)?)),
};

const SETTINGS: [(&str, Default); 16] = [
    ("strategy", Default::Text("nowait")),
    ("lock", Default::Text("tree")),
    ("disk", Default::Text("spindle-2006")),
    // Share of the capacity that the strategy has; 0: infinite demand.
    ("level", Default::Number(0.0)),
    ("data-mb", Default::Number(3_000.0)),
    ("memory-mb", Default::Number(1_000.0)),
    ("connections", Default::Number(1_024.0)),
    ("requests-per-connection", Default::Number(5.0)),
    ("open-files", Default::Number(512.0)),
    ("request-us", Default::Number(167.0)),
    ("byte-ns", Default::Number(11.3)),
    ("helper-us", Default::Number(20.0)),
    ("link-mbit", Default::Number(1_000.0)),
    ("round-trip-us", Default::Number(200.0)),
    ("requests", Default::Number(100_000.0)),
    ("warm-draws", Default::Number(400_000.0)),
];

#[rustfmt::skip]
const METRICS: [(&str, &str, &str, Better); 16] = [
    ("achieved_rps", "achieved rate", "/s", Better::Higher),
    ("capacity_rps", "achieved rate at infinite demand", "/s", Better::Higher),
    ("throughput_mbit", "throughput", "Mbit/s", Better::Higher),
    ("response_mean_ns", "response time, mean", "ns", Better::Lower),
    ("response_p50_ns", "response time, median", "ns", Better::Lower),
    ("response_p90_ns", "response time, 90th percentile", "ns", Better::Lower),
    ("response_p99_ns", "response time, 99th percentile", "ns", Better::Lower),
    ("service_inversion", "service inversion", "ratio", Better::Lower),
    ("events_per_wait_p50", "events per wait, median", "count", Better::Lower),
    ("events_per_wait_mean", "events per wait, mean", "count", Better::Lower),
    ("events_per_wait_max", "events per wait, most", "count", Better::Lower),
    ("runnable_share", "runnable processes", "share", Better::Lower),
    ("hit_share", "requests that need no read from the disk", "share", Better::Neither),
    ("blocked_share", "time that the worker waits for the disk", "share", Better::Lower),
    ("processor_share", "time that the worker works", "share", Better::Neither),
    ("disk_share", "time that the disk works", "share", Better::Neither),
];

#[derive(Debug, Clone)]
struct Blocking {
    strategy: Strategy,
    lock: Lock,
    law: Law,
    level: f64,
    data_bytes: u64,
    memory_bytes: u64,
    connections: usize,
    requests_per_connection: u64,
    open_files: usize,
    request_ns: f64,
    byte_ns: f64,
    helper_ns: u64,
    link_ns_per_byte: f64,
    round_trip_ns: u64,
    requests: usize,
    warm_draws: usize,
}

/// Distance of blocks on the disk: further than the longest file.
const BLOCK: u64 = 1 << 20;

/// The upper bounds of the four series of sizes whose mix is drawn for each decile.
const SERIES: [u64; 4] = [500, 4_000, 6_000, u64::MAX];

impl Simulate for Blocking {
    fn takes(&self) -> Duration {
        let runs = if self.level > 0.0 { 2 } else { 1 };
        Duration::from_micros((self.requests * runs + self.warm_draws) as u64)
    }

    fn simulate(&self, seed: u64) -> Result<Computed, String> {
        Ok(self.run(seed))
    }
}

impl Blocking {
    fn read(settings: &Settings<'_>) -> Result<Self, String> {
        let within = |name, least, most: usize| {
            settings
                .within(name, least, most as u64)
                .map(|it| it as usize)
        };
        let megabytes = |name| within(name, 1, limits::MEGABYTES).map(|it| it as u64 * 1_000_000);
        let disk = settings.text("disk").parse();
        let blocking = Self {
            strategy: settings.one_of("strategy", &Strategy::ALL)?,
            lock: settings.one_of("lock", &Lock::ALL)?,
            law: disk.map_err(|error| format!("`disk`: {error}"))?,
            level: settings.number("level")?,
            data_bytes: megabytes("data-mb")?,
            memory_bytes: megabytes("memory-mb")?,
            connections: within("connections", 1, limits::CONNECTIONS)?,
            requests_per_connection: settings.within("requests-per-connection", 1, u64::MAX)?,
            open_files: within("open-files", 1, limits::MEGABYTES)?,
            request_ns: settings.number("request-us")? * 1e3,
            byte_ns: settings.number("byte-ns")?,
            helper_ns: (settings.number("helper-us")? * 1e3) as u64,
            link_ns_per_byte: 8e3 / settings.positive("link-mbit")?,
            round_trip_ns: (settings.number("round-trip-us")? * 1e3) as u64,
            requests: within("requests", 100, limits::REQUESTS)?,
            warm_draws: within("warm-draws", 0, limits::REQUESTS)?,
        };
        if !(0.0..=limits::LEVEL).contains(&blocking.level) {
            let (level, most) = (blocking.level, limits::LEVEL);
            return Err(format!("`level` is {level}, not 0 to {most}"));
        }
        Ok(blocking)
    }

    /// Simulates the server: at infinite demand, or at a share of its own capacity.
    fn run(&self, seed: u64) -> Computed {
        let at_most = Simulation::new(self, None, seed).run();
        if self.level == 0.0 {
            return at_most.finish(None);
        }
        let capacity_rps = at_most.rate_rps();
        let rate_rps = self.level * capacity_rps;
        Simulation::new(self, Some(rate_rps), seed)
            .run()
            .finish(Some(capacity_rps))
    }
}

#[derive(Debug, Clone, Copy)]
struct Request {
    file: usize,
    /// The part of the response that is next.
    chunk: usize,
    arrived_ns: u64,
    is_open: bool,
    /// A helper, or a wait, has done what opening needs.
    is_found: bool,
    /// Whether nothing had to be read from the disk yet.
    is_hit: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request arrives by the schedule.
    Arrival,
    /// The server may continue with this connection.
    Ready(usize),
    /// The client of this connection has its response.
    Done(usize),
    /// The worker ends a turn.
    Turn,
}

struct Simulation<'a> {
    model: &'a Blocking,
    files: Files,
    random: Xoshiro256PlusPlus,
    cache: PageCache,
    opened: OpenFiles,
    disk: Queue,
    /// When each block that is being read will be there.
    there_at_ns: Vec<u64>,
    /// Reads under way: when they end, and of which file.
    reads: Vec<(u64, usize)>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    now_ns: u64,
    /// Rate of arrivals; none: infinite demand.
    rate_rps: Option<f64>,
    connections: Vec<(Option<Request>, u64)>,
    free: Vec<usize>,
    /// Arrivals for which no connection is free.
    waiting: VecDeque<u64>,
    ready: VecDeque<usize>,
    batch: VecDeque<usize>,
    is_busy: bool,
    link_free_ns: f64,
    record: Recorded,
}

#[derive(Debug, Default)]
struct Recorded {
    done: usize,
    began_ns: u64,
    ended_ns: u64,
    latencies: Vec<SizedLatency>,
    events_per_wait: Vec<u64>,
    runnable: f64,
    turns: u64,
    blocked_ns: u64,
    busy_ns: f64,
    disk_ns: u64,
    hits: u64,
}

impl std::default::Default for Request {
    fn default() -> Self {
        Self {
            file: 0,
            chunk: 0,
            arrived_ns: 0,
            is_open: false,
            is_found: false,
            is_hit: true,
        }
    }
}

impl<'a> Simulation<'a> {
    fn new(model: &'a Blocking, rate_rps: Option<f64>, seed: u64) -> Self {
        let files = Files::new(model.data_bytes);
        let mut simulation = Self {
            model,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            cache: PageCache::new(model.memory_bytes, files.blocks()),
            opened: open_files(model.open_files, files.count()),
            disk: Queue::new(model.law.clone(), !seed),
            there_at_ns: vec![0; files.blocks()],
            reads: Vec::new(),
            events: BinaryHeap::new(),
            number: 0,
            now_ns: 0,
            rate_rps,
            connections: vec![(None, 0); model.connections],
            free: Vec::new(),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            batch: VecDeque::new(),
            is_busy: false,
            link_free_ns: 0.0,
            record: Recorded::default(),
            files,
        };
        simulation.warm();
        match rate_rps {
            Some(_) => {
                simulation.free = (0..model.connections).rev().collect();
                simulation.at(0, Event::Arrival);
            }
            None => (0..model.connections).for_each(|it| simulation.request(it, 0)),
        }
        simulation
    }

    /// Fills the caches with what earlier requests would have left there.
    fn warm(&mut self) {
        for _ in 0..self.model.warm_draws {
            let file = self.files.draw(&mut self.random);
            if !self.opened.contains(file) {
                self.cache.touch(Files::metadata(file), 1);
            }
            self.opened.touch(file, 1);
            self.cache.touch(Files::data(file), Files::size(file));
        }
    }

    fn at(&mut self, time_ns: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time_ns, self.number, event)));
    }

    fn run(mut self) -> Self {
        let warm_up = self.model.requests / 5;
        let mut counted = false;
        while self.record.done < self.model.requests {
            let Some(Reverse((time_ns, _, event))) = self.events.pop() else {
                break;
            };
            self.now_ns = time_ns;
            match event {
                Event::Arrival => self.arrive(),
                Event::Ready(connection) => {
                    self.ready.push_back(connection);
                    if !self.is_busy {
                        self.is_busy = true;
                        self.at(time_ns, Event::Turn);
                    }
                }
                Event::Turn => self.turn(),
                Event::Done(connection) => {
                    self.done(connection);
                    if !counted && self.record.done >= warm_up {
                        counted = true;
                        self.record = Recorded {
                            done: self.record.done,
                            began_ns: time_ns,
                            ..Recorded::default()
                        };
                    }
                }
            }
        }
        self.record.ended_ns = self.now_ns;
        self
    }

    /// A request by the schedule.
    fn arrive(&mut self) {
        let Some(rate_rps) = self.rate_rps else {
            return;
        };
        match self.free.pop() {
            Some(connection) => self.request(connection, self.now_ns),
            None => self.waiting.push_back(self.now_ns),
        }
        let gap_ns = -(1.0 - self.random.random::<f64>()).ln() * 1e9 / rate_rps;
        self.at(self.now_ns + gap_ns.round() as u64, Event::Arrival);
    }

    /// Sends a request that the schedule had at `arrived_ns`.
    fn request(&mut self, connection: usize, arrived_ns: u64) {
        let file = self.files.draw(&mut self.random);
        let (request, count) = &mut self.connections[connection];
        *request = Some(Request {
            file,
            arrived_ns,
            ..Request::default()
        });
        let opens = *count % self.model.requests_per_connection == 0;
        *count += 1;
        // Half a round trip, and a whole one before it to connect.
        let halves = if opens { 3 } else { 1 };
        let at_ns = self.now_ns + halves * self.model.round_trip_ns / 2;
        self.at(at_ns, Event::Ready(connection));
    }

    fn done(&mut self, connection: usize) {
        if let Some(request) = self.connections[connection].0.take() {
            self.record.done += 1;
            self.record.hits += u64::from(request.is_hit);
            self.record.latencies.push(SizedLatency {
                size_bytes: Files::size(request.file),
                latency_ns: self.now_ns - request.arrived_ns,
            });
        }
        match (self.rate_rps, self.waiting.pop_front()) {
            (None, _) => self.request(connection, self.now_ns),
            (Some(_), Some(arrived_ns)) => self.request(connection, arrived_ns),
            (Some(_), None) => self.free.push(connection),
        }
    }

    /// The worker takes the next connection of its batch, or waits for a new batch.
    fn turn(&mut self) {
        if self.batch.is_empty() {
            if self.ready.is_empty() {
                self.is_busy = false;
                return;
            }
            self.batch = std::mem::take(&mut self.ready);
            self.record.events_per_wait.push(self.batch.len() as u64);
        }
        let runnable = self.batch.len() + self.ready.len();
        self.record.runnable += runnable as f64 / self.connections.len() as f64;
        self.record.turns += 1;
        let Some(connection) = self.batch.pop_front() else {
            return;
        };
        let Some(mut request) = self.connections[connection].0 else {
            return;
        };
        let end_ns = self.serve(connection, &mut request);
        self.connections[connection].0 = Some(request);
        self.at(end_ns, Event::Turn);
    }

    /// One turn of a connection. Returns when the worker has done with it.
    fn serve(&mut self, connection: usize, request: &mut Request) -> u64 {
        let now_ns = self.now_ns;
        let mut worker_ns = now_ns;
        if !request.is_open {
            match self.open(request) {
                Step::Go(at_ns) => worker_ns = at_ns,
                Step::Elsewhere(at_ns) => return self.elsewhere(connection, at_ns, now_ns),
            }
        }
        let (block, size) = (Files::data(request.file), Files::size(request.file));
        if !self.is_resident(block, worker_ns) {
            request.is_hit = false;
            let there_ns = self.read(request.file, block, size, worker_ns);
            if !self.model.strategy.waits_for_data() {
                self.record.blocked_ns += worker_ns - now_ns;
                return self.elsewhere(connection, there_ns, worker_ns);
            }
            worker_ns = there_ns;
        }
        self.record.blocked_ns += worker_ns - now_ns;
        self.cache.touch(block, size);
        let len = Files::chunk_len(request.file, request.chunk);
        let own_ns = if request.chunk == 0 {
            self.model.request_ns
        } else {
            0.0
        };
        let cpu_ns = own_ns + len as f64 * self.model.byte_ns;
        self.record.busy_ns += cpu_ns;
        let end_ns = worker_ns + cpu_ns.round() as u64;
        let sent_ns = self.link_free_ns.max(end_ns as f64);
        self.link_free_ns = sent_ns + len as f64 * self.model.link_ns_per_byte;
        let sent_ns = self.link_free_ns.round() as u64;
        request.chunk += 1;
        match request.chunk < chunks(request.file) {
            true => self.at(sent_ns, Event::Ready(connection)),
            false => self.at(
                sent_ns + self.model.round_trip_ns / 2,
                Event::Done(connection),
            ),
        }
        end_ns
    }

    /// The connection continues at `at_ns`. An event loop has handed it to a helper meanwhile; a
    /// process sleeps.
    fn elsewhere(&mut self, connection: usize, at_ns: u64, worker_ns: u64) -> u64 {
        let helper_ns = match self.model.strategy.is_processes() {
            true => 0,
            false => self.model.helper_ns,
        };
        self.record.busy_ns += helper_ns as f64;
        let end_ns = worker_ns + helper_ns;
        self.at(at_ns.max(end_ns), Event::Ready(connection));
        end_ns
    }

    fn open(&mut self, request: &mut Request) -> Step {
        let (file, strategy, now_ns) = (request.file, self.model.strategy, self.now_ns);
        let metadata = Files::metadata(file);
        let step = if self.opened.contains(file) {
            Step::Go(now_ns)
        } else if request.is_found {
            // Since the helper found the name.
            match strategy {
                Strategy::Flash => Step::Go(self.unlocked_ns(file, now_ns)),
                _ => Step::Go(now_ns),
            }
        } else {
            request.is_found = true;
            let there_ns = match self.is_resident(metadata, now_ns) {
                true => now_ns,
                false => {
                    request.is_hit = false;
                    self.read(file, metadata, 1, now_ns)
                }
            };
            self.cache.touch(metadata, 1);
            match strategy {
                Strategy::Naive => Step::Go(there_ns),
                Strategy::Nowait if there_ns == now_ns => Step::Go(now_ns),
                Strategy::Processes | Strategy::ProcessesFdPass => {
                    let free_ns = match strategy.takes_lock() {
                        true => self.unlocked_ns(file, now_ns),
                        false => now_ns,
                    };
                    match there_ns.max(free_ns) {
                        at_ns if at_ns == now_ns => Step::Go(now_ns),
                        at_ns => Step::Elsewhere(at_ns),
                    }
                }
                _ => Step::Elsewhere(there_ns),
            }
        };
        if matches!(step, Step::Go(_)) {
            request.is_open = true;
            self.opened.touch(file, 1);
        }
        step
    }

    /// When the lock is free that reads under way hold: at the end of the one that the disk serves.
    fn unlocked_ns(&mut self, file: usize, now_ns: u64) -> u64 {
        self.reads.retain(|&(end_ns, _)| end_ns > now_ns);
        let lock = self.model.lock;
        let held = self
            .reads
            .iter()
            .filter(|&&(_, held)| lock.covers(held, file));
        held.map(|&(end_ns, _)| end_ns).min().unwrap_or(now_ns)
    }

    fn is_resident(&self, block: usize, now_ns: u64) -> bool {
        self.cache.contains(block) && self.there_at_ns[block] <= now_ns
    }

    /// Reads a block that is not resident, or waits for the read that is under way. Returns when it
    /// is there.
    fn read(&mut self, file: usize, block: usize, len: u64, now_ns: u64) -> u64 {
        if self.cache.contains(block) && self.there_at_ns[block] > now_ns {
            return self.there_at_ns[block];
        }
        let pages = len.next_multiple_of(4_096) as u32;
        let times = self.disk.admit(now_ns, block as u64 * BLOCK, pages);
        self.record.disk_ns += times.service_ns();
        self.there_at_ns[block] = times.due_ns;
        self.reads.retain(|&(end_ns, _)| end_ns > now_ns);
        self.reads.push((times.due_ns, file));
        self.cache.touch(block, len);
        times.due_ns
    }

    fn rate_rps(&self) -> f64 {
        let elapsed_ns = self
            .record
            .ended_ns
            .saturating_sub(self.record.began_ns)
            .max(1);
        self.record.latencies.len() as f64 * 1e9 / elapsed_ns as f64
    }

    fn finish(self, capacity_rps: Option<f64>) -> Computed {
        let record = &self.record;
        let mut response = Histogram::new();
        let mut bytes = 0;
        for request in &record.latencies {
            response.record(request.latency_ns);
            bytes += request.size_bytes;
        }
        let elapsed_ns = record.ended_ns.saturating_sub(record.began_ns).max(1) as f64;
        let achieved_rps = self.rate_rps();
        let time = |percentile| response.percentile(percentile) as f64;
        let mut metrics = vec![
            ("achieved_rps", achieved_rps),
            ("capacity_rps", capacity_rps.unwrap_or(achieved_rps)),
            ("throughput_mbit", bytes as f64 * 8e3 / elapsed_ns),
            ("response_mean_ns", response.mean()),
            ("response_p50_ns", time(50.0)),
            ("response_p90_ns", time(90.0)),
            ("response_p99_ns", time(99.0)),
            (
                "hit_share",
                record.hits as f64 / record.latencies.len().max(1) as f64,
            ),
            ("blocked_share", record.blocked_ns as f64 / elapsed_ns),
            ("processor_share", record.busy_ns / elapsed_ns),
            (
                "disk_share",
                record.disk_ns as f64 / elapsed_ns / f64::from(self.model.law.channels),
            ),
        ];
        if let Some(inversion) = service_inversion(&record.latencies) {
            metrics.push(("service_inversion", inversion));
        }
        if self.model.strategy.is_processes() {
            metrics.push((
                "runnable_share",
                record.runnable / record.turns.max(1) as f64,
            ));
        } else if let Some(bursts) = Burstiness::of(&record.events_per_wait) {
            metrics.push(("events_per_wait_p50", bursts.median));
            metrics.push(("events_per_wait_mean", bursts.mean));
            metrics.push(("events_per_wait_max", bursts.max as f64));
        }
        let deciles = SizeDeciles::of(&record.latencies, &SERIES);
        let deciles = deciles.map_or_else(Vec::new, |it| it.deciles.concat());
        // The mix of sizes in each tenth of the latencies.
        let series = vec![("size_deciles", deciles)];
        Computed {
            metrics,
            response,
            series,
        }
    }
}

/// What follows an attempt to open a file.
enum Step {
    /// The worker goes on then.
    Go(u64),
    /// The connection continues then, and the worker with others.
    Elsewhere(u64),
}

fn chunks(file: usize) -> usize {
    Files::size(file).div_ceil(CHUNK) as usize
}

#[cfg(test)]
mod tests;
