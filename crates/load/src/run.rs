//! One run: starts the threads together, collects their windows every second, and merges their
//! results.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use measure::{Bounded, WithCensored};
use sys::clock::monotonic_ns;
use sys::cost;
use sys::poll::Poll;

use crate::aggregate::Aggregate;
use crate::batch::{self, Batch, Keys};
use crate::carrier::{Carrier, OneShot, Persistent, Udp};
use crate::config::{CarrierKind, Config, ConfigError, Protocol, Rate};
use crate::engine::{
    Channels, EndedWindow, Engine, EngineOptions, Outcome, RequestSource, Saturating,
};
use crate::error::Error;
use crate::limits::{OPENING_MAX, RECORDED_MAX};
use crate::metrics::{Recorded, Window};
use crate::opening::{self, Share};
use crate::schedule_source::ScheduleSource;
use crate::script::{Script, ScriptItems, ScriptReport, ScriptSource};
use crate::server_watch::ServerWatch;
use crate::stall_detector::StallDetector;
use crate::summary::Summary;
use crate::timeline::Timeline;
use crate::wire::{Meta, Text};
use workload::Op;

/// The delay from the moment all threads are ready to the start, so that no thread starts late.
const START_AHEAD_NS: u64 = 2_000_000;
/// An opaque token holds the request's number in this many low bits and the thread's number above.
const OPAQUE_BITS: u32 = 44;

/// The measurements of one second of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Second {
    /// The end of the second, from the start of the load.
    pub at_ns: u64,
    /// Its length: one second, or less at an end of a warm-up or interval that is not a whole
    /// number of seconds.
    pub span_ns: u64,
    /// The second belongs to the warm-up, which the summary does not include.
    pub warmup: bool,
    /// Answers per second.
    pub rate_rps: f64,
    /// Median of the response time (closed loop: service time).
    pub p50: Bounded,
    /// Its 99th percentile.
    pub p99: Bounded,
    /// Its 99.9th percentile.
    pub p999: Bounded,
    /// Slip at its 99th percentile. None in closed loop.
    pub slip_p99_ns: Option<u64>,
    /// Share of the answered gets that were hits. None without gets.
    pub hit_rate: Option<f64>,
    /// Requests outstanding at its end.
    pub outstanding: u64,
    /// Requests due but not sent at its end: their connections are at their depth or blocked.
    pub waiting: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// Requests that failed without an answer.
    pub failed: u64,
    /// Connections lost.
    pub lost_connections: u64,
}

/// Makes one run. `on_second` is called with each second as it ends.
///
/// # Errors
/// A setting is invalid, a server cannot be reached, or all connections were lost.
pub fn run(config: &Config, on_second: impl FnMut(&Second)) -> Result<Summary, Error> {
    run_recorded(config, 0, on_second).map(|(summary, _)| summary)
}

/// As [`run`]; also returns the times of up to `recorded_max` measured requests.
///
/// # Errors
/// As [`run`].
pub fn run_recorded(
    config: &Config,
    recorded_max: usize,
    mut on_second: impl FnMut(&Second),
) -> Result<(Summary, Vec<Recorded>), Error> {
    config.validate()?;
    opening::allow_files(config.connections + config.saturating_connections)?;
    if let Some(pid) = config.watch_pid {
        cost::of_process(pid).map_err(|source| Error::Watch { pid, source })?;
    }
    let threads = GeneratorThreads::start(config, recorded_max.min(RECORDED_MAX))?;
    let timeline = Timeline::new(config, monotonic_ns() + START_AHEAD_NS);
    threads.begin(&timeline);
    let watch = ServerWatch::start(config, &timeline)?;
    let stalls = StallDetector::start(config, &timeline)?;
    let mut aggregate = Aggregate::new(config);
    threads.collect(&timeline, &mut aggregate, &mut on_second);
    let script = threads.script.clone();
    aggregate.add_outcomes(threads.join()?);
    if let Some(error) = aggregate.all_lost_error(config) {
        return Err(error);
    }
    let observed = watch.join()?;
    let stalls = stalls.join()?;
    let script = script.map(|report| report.summary());
    Ok(aggregate.into_summary(config, &timeline, observed, stalls.as_ref(), script))
}

/// The threads of a run.
struct GeneratorThreads {
    threads: Vec<ThreadHandle>,
    windows: Receiver<EndedWindow>,
    spares: Vec<Sender<Window>>,
    /// The operations that are expected.
    operations: Vec<Op>,
    /// The loop is open.
    open: bool,
    script: Option<ScriptReport>,
}

struct ThreadHandle {
    start: Sender<Timeline>,
    thread: JoinHandle<Result<Outcome, Error>>,
}

impl GeneratorThreads {
    /// Starts the threads. Waits until each has opened its connections and generated its schedule.
    fn start(config: &Config, recorded_max: usize) -> Result<Self, Error> {
        let keyspace = config.keyspace()?;
        let sampler = config.demand().record_sampler();
        let operations = config.operations();
        let filler = batch::filler(config.value_len_max);
        let alive = Arc::new(AtomicU32::new(config.connections));
        let (windows_sender, windows) = mpsc::channel();
        let (ready_sender, ready) = mpsc::channel();
        let mut threads = Self {
            threads: Vec::new(),
            windows,
            spares: Vec::new(),
            operations: operations.clone(),
            open: config.rate != Rate::Max,
            script: None,
        };
        let first_of = |number: u32| {
            (u64::from(number) * u64::from(config.connections) / u64::from(config.threads)) as u32
        };
        let firsts: Vec<u32> = (0..config.threads).map(first_of).collect();
        let script = Script::start(config, &firsts)?;
        let mut sources = Vec::new();
        if let Some(script) = script {
            threads.script = Some(script.report);
            sources = script.sources;
            sources.reverse();
        }
        for number in 0..config.threads {
            let (spare_sender, spare) = mpsc::channel();
            // The buffer for the second window: that of the first window comes back only after the
            // second window has begun.
            let _ = spare_sender.send(Window::preallocated(&operations));
            let (start_sender, start) = mpsc::channel();
            let share = Share {
                first: first_of(number),
                count: first_of(number + 1) - first_of(number),
                all: config.connections,
                concurrent_max: (OPENING_MAX / config.threads as usize).max(1),
            };
            let source = sources.pop();
            let keys = match source {
                Some(_) => Keys::Script(ScriptItems::default()),
                None => Keys::Records {
                    keyspace: keyspace.clone(),
                    sampler: sampler.clone(),
                },
            };
            let setup = ThreadSetup {
                config: config.clone(),
                number,
                share,
                recorded_max: recorded_max / config.threads as usize,
                batch: Batch::new(keys, Arc::clone(&filler)),
                script: source,
                channels: Channels {
                    thread: number as usize,
                    windows: windows_sender.clone(),
                    spare,
                    alive: Arc::clone(&alive),
                },
            };
            let ready = ready_sender.clone();
            let thread = thread::Builder::new()
                .name(format!("load-{number}"))
                .spawn(move || setup.run(ready, &start))
                .map_err(Error::system("start a thread"))?;
            threads.threads.push(ThreadHandle {
                start: start_sender,
                thread,
            });
            threads.spares.push(spare_sender);
        }
        drop(ready_sender);
        let ready_count = ready.iter().count();
        if ready_count == threads.threads.len() {
            return Ok(threads);
        }
        // `join` drops the start channels, which ends the threads that are ready. It returns the
        // error of the thread that failed.
        match threads.join() {
            Err(error) => Err(error),
            Ok(_) => Err(Error::Panicked),
        }
    }

    fn begin(&self, timeline: &Timeline) {
        for handle in &self.threads {
            // The send fails only if the thread has ended in an error, which `join` returns.
            let _ = handle.start.send(timeline.clone());
        }
    }

    /// Collects the windows of all threads until the run is over.
    fn collect(
        &self,
        timeline: &Timeline,
        aggregate: &mut Aggregate,
        on_second: &mut impl FnMut(&Second),
    ) {
        let mut pending: Vec<(Window, usize)> = Vec::new();
        let mut sums = vec![Window::preallocated(&self.operations)];
        let mut next = 0;
        // Every thread sends every window, unless it ended in an error.
        while next <= timeline.boundaries() {
            let Ok(EndedWindow {
                thread,
                number,
                mut window,
            }) = self.windows.recv()
            else {
                return;
            };
            let index = number - next;
            if pending.len() <= index {
                let empty = || (sums.pop().unwrap_or_default(), 0);
                pending.resize_with(index + 1, empty);
            }
            let (sum, received) = &mut pending[index];
            sum.merge(&window);
            *received += 1;
            window.clear();
            // The send fails if the thread has ended: it needs no more windows.
            let _ = self.spares[thread].send(window);
            while pending
                .first()
                .is_some_and(|(_, received)| *received == self.threads.len())
            {
                let (mut window, _) = pending.remove(0);
                // The seconds after the early end of a script are empty.
                let has_begun = timeline
                    .span(next)
                    .is_some_and(|(from_ns, _)| from_ns <= monotonic_ns());
                if has_begun && let Some(second) = second(timeline, next, &window, self.open) {
                    on_second(&second);
                }
                if timeline.is_measured(next) {
                    aggregate.add(&window);
                }
                next += 1;
                window.clear();
                sums.push(window);
            }
        }
    }

    fn join(self) -> Result<Vec<Outcome>, Error> {
        let Self {
            threads, spares, ..
        } = self;
        drop(spares);
        let handles: Vec<_> = threads.into_iter().map(|handle| handle.thread).collect();
        let ended: Vec<_> = handles.into_iter().map(JoinHandle::join).collect();
        ended
            .into_iter()
            .map(|ended| ended.map_err(|_| Error::Panicked)?)
            .collect()
    }
}

/// Everything one thread needs before it starts.
struct ThreadSetup {
    config: Config,
    number: u32,
    share: Share,
    recorded_max: usize,
    batch: Batch,
    script: Option<ScriptSource>,
    channels: Channels,
}

impl ThreadSetup {
    /// Chooses the carrier and the wire, for which the thread's loop is compiled.
    fn run(self, ready: Sender<()>, start: &Receiver<Timeline>) -> Result<Outcome, Error> {
        match (self.config.carrier, self.config.protocol) {
            (CarrierKind::Stream, Protocol::Text) => self.run_on::<Persistent<Text>>(ready, start),
            (CarrierKind::Stream, Protocol::Meta) => self.run_on::<Persistent<Meta>>(ready, start),
            (CarrierKind::Udp, Protocol::Text) => self.run_on::<Udp<Text>>(ready, start),
            (CarrierKind::Udp, Protocol::Meta) => self.run_on::<Udp<Meta>>(ready, start),
            (CarrierKind::OneShot, Protocol::Text) => self.run_on::<OneShot<Text>>(ready, start),
            (CarrierKind::OneShot, Protocol::Meta) => self.run_on::<OneShot<Meta>>(ready, start),
        }
    }

    /// Pins the thread, opens its connections, generates its schedule, reports that it is ready,
    /// and runs the engine when the timeline arrives.
    fn run_on<C: Carrier>(
        self,
        ready: Sender<()>,
        start: &Receiver<Timeline>,
    ) -> Result<Outcome, Error> {
        let config = &self.config;
        let pinned = (self.number as usize).checked_rem(config.cpus.len());
        if let Some(cpu) = pinned.map(|index| config.cpus[index]) {
            sys::thread::pin(&[cpu]).map_err(|source| Error::Pin { cpu, source })?;
        }
        sys::thread::sleep_precisely();
        let poll = Poll::new().map_err(Error::system("open an epoll descriptor"))?;
        let mut share = self.share;
        if self.number == 0 {
            share.count += config.saturating_connections;
        }
        let mut connections = C::open(config, &poll, share)?;
        let saturating = connections.split_off(self.share.count as usize);
        let demand = config.demand();
        let requests = |stream| {
            let requests = demand.requests(stream);
            requests.map_err(|error| ConfigError::demand(&error))
        };
        let saturating = match saturating.is_empty() {
            true => None,
            false => Some(Saturating::new(
                saturating,
                requests(config.connections)?,
                config.saturating_depth,
            )),
        };
        let first = self.share.first;
        let source = match config.rate {
            _ if self.script.is_some() => None,
            Rate::PerSecond(rate_rps) => {
                let end_ns = config.warmup_ns + config.duration_ns;
                let schedule = demand
                    .schedule_of(rate_rps, first..first + self.share.count)
                    .map_err(|error| ConfigError::demand(&error))?;
                let share_rps = rate_rps / f64::from(config.threads);
                let source = ScheduleSource::new(schedule, share_rps, end_ns);
                Some(RequestSource::Open(source))
            }
            Rate::Max => Some(RequestSource::Closed(requests(first)?)),
        };
        let script = self.script.map(RequestSource::Script);
        let source = script.or(source).ok_or(Error::Panicked)?;
        let options = EngineOptions {
            depth: config.depth as usize,
            timeout_ns: config.timeout_ns,
            operations: config.operations(),
            spin: config.spin,
            first,
            opaque: u64::from(self.number) << OPAQUE_BITS,
            recorded_max: self.recorded_max,
        };
        let engine = Engine::new(
            poll,
            connections,
            saturating,
            source,
            options,
            self.channels,
            self.batch,
        );
        // The send fails only if the main thread has panicked. The main thread counts these
        // messages until every sender is dropped.
        let _ = ready.send(());
        drop(ready);
        match start.recv() {
            Ok(timeline) => engine.run(timeline),
            Err(_) => Ok(Outcome::empty()),
        }
    }
}

fn second(timeline: &Timeline, number: usize, window: &Window, open: bool) -> Option<Second> {
    let (from_ns, to_ns) = timeline.span(number)?;
    let span_ns = to_ns - from_ns;
    let latencies = window.latencies.all();
    let answered = if open {
        &latencies.response
    } else {
        &latencies.service
    };
    let latency = WithCensored::new(answered, &latencies.censored);
    Some(Second {
        at_ns: to_ns - timeline.start_ns,
        span_ns,
        warmup: !timeline.is_measured(number),
        rate_rps: window.counts.answered as f64 * 1e9 / span_ns as f64,
        p50: latency.percentile(50.0),
        p99: latency.percentile(99.0),
        p999: latency.percentile(99.9),
        slip_p99_ns: open.then(|| window.latencies.slip.percentile(99.0)),
        hit_rate: (window.counts.gets > 0)
            .then(|| window.counts.hits as f64 / window.counts.gets as f64),
        outstanding: window.counts.outstanding,
        waiting: window.counts.waiting,
        errors: window.counts.errors,
        failed: window.counts.failed,
        lost_connections: window.counts.lost_connections,
    })
}
