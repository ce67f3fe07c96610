//! Makes one run, or one part of a run (some of its connections). Starts the load of all generator
//! threads at the same time, collects their windows (the measurements of each second), and merges
//! their results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use sys::clock::monotonic_ns;
use sys::cost;
use sys::poll::Poll;

use crate::aggregate::Aggregate;
use crate::batch::{self, Batch, Keys};
use crate::carrier::{Carrier, PerOperation, Persistent, Renewed, Udp};
use crate::config::{CarrierKind, Config, ConfigError, Rate};
use crate::engine::{
    Channels, EndedWindow, Engine, EngineOptions, Outcome, RequestSource, Saturating,
};
use crate::error::Error;
use crate::limits::{OPENING_MAX, PARTS_MAX, RECORDED_MAX, THREADS_MAX};
use crate::measuring::{MeasuringClient, MeasuringRun, MeasuringThreads};
use crate::metrics::{Recorded, Window};
use crate::opening::{self, Share};
use crate::part::Part;
use crate::schedule_source::ScheduleSource;
use crate::script::{Script, ScriptItems, ScriptReport, ScriptSource};
use crate::second::{Second, second};
use crate::server_watch::{Observed, ServerWatch};
use crate::stall_detector::StallDetector;
use crate::summary::{LatencyDistribution, Summary, Watched};
use crate::timeline::Timeline;
use workload::Op;

/// The delay from the time at which all threads are ready to the start of the load. It is long
/// enough for every thread to receive the timeline, so no thread starts late.
pub(crate) const START_AHEAD_NS: u64 = 2_000_000;
/// A request is identified by a token of 64 bits, its `opaque`. This is the number of low bits that
/// hold the number of the request within its thread. The bits above them hold the numbers of the
/// part and of the thread, so no two requests of a run share a token.
const OPAQUE_BITS: u32 = 44;
const _: () = assert!(PARTS_MAX * THREADS_MAX <= 1 << (64 - OPAQUE_BITS));

/// Makes one run and returns its summary. `on_second` is called at the end of each second.
///
/// # Errors
/// A setting is invalid, a server cannot be reached, or all connections were lost.
pub fn run(config: &Config, on_second: impl FnMut(&Second)) -> Result<Summary, Error> {
    run_recorded(config, 0, on_second).map(|(summary, _)| summary)
}

/// Makes one run as [`run`] does, and also returns the times of up to `recorded_max` measured
/// requests.
///
/// # Errors
/// As [`run`].
pub fn run_recorded(
    config: &Config,
    recorded_max: usize,
    mut on_second: impl FnMut(&Second),
) -> Result<(Summary, Vec<Recorded>), Error> {
    run_local(config, None, recorded_max, &mut on_second)
}

/// Makes one run with a measuring client at the same time as the load. The summary's
/// `measuring_client` is the result of the client.
///
/// # Errors
/// As [`run`], for the load or for the measuring client.
pub fn run_measured(
    config: &Config,
    client: &MeasuringClient,
    mut on_second: impl FnMut(&Second),
) -> Result<Summary, Error> {
    let run = run_local(config, Some(client), 0, &mut on_second);
    run.map(|(summary, _)| summary)
}

/// Makes one run whose connections are all opened by this process, and a measuring client if
/// `client` is given.
fn run_local(
    config: &Config,
    client: Option<&MeasuringClient>,
    recorded_max: usize,
    on_second: &mut dyn FnMut(&Second),
) -> Result<(Summary, Vec<Recorded>), Error> {
    config.validate()?;
    let part = Part::whole(config);
    let client_connections = client.map_or(0, |client| client.connections);
    opening::allow_files(
        part.all_connections(config)
            .saturating_add(client_connections),
    )?;
    let resident_before_bytes = Observers::resident_bytes(config)?;
    let recorded_max = recorded_max.min(RECORDED_MAX);
    let stop = Arc::default();
    let threads = GeneratorThreads::start(config, part, recorded_max, &stop)?;
    let client = client.map(|client| MeasuringThreads::open(config, client));
    let client = client.transpose()?;
    let timeline = Timeline::new(config, monotonic_ns() + START_AHEAD_NS);
    threads.begin(&timeline);
    // If an error occurs from here on, the load must be stopped. Otherwise it would still run
    // during the next trial of a search.
    let stop_load = |_: &Error| stop.store(true, Ordering::Relaxed);
    let client = client.map(|client| client.begin(&timeline)).transpose();
    let client = client.inspect_err(stop_load)?;
    let observers = Observers::start(config, &timeline).inspect_err(stop_load)?;
    let open = config.rate != Rate::Max;
    let on_window = &mut |number, window: &Window| {
        let span = timeline.span(number);
        // A script may end before the measured interval does. The threads then send their remaining
        // windows immediately. These windows are empty and lie in the future, so they are not
        // shown.
        let has_begun = span.is_some_and(|(from_ns, _)| from_ns <= monotonic_ns());
        if has_begun && let Some(second) = second(&timeline, number, window, open) {
            on_second(&second);
        }
    };
    let (mut summary, recorded) = threads.finish(config, part, &timeline, on_window)?;
    observers.join(config, resident_before_bytes, &mut summary)?;
    summary.measuring_client = client.map(MeasuringRun::join).transpose()?;
    Ok((summary, recorded))
}

/// The threads that observe the server and the machine during the measured interval.
pub(crate) struct Observers {
    watch: ServerWatch,
    stalls: StallDetector,
}

impl Observers {
    /// Returns the present resident memory of the process that `--watch-pid` names. None: no
    /// process is named. Called before the connections are opened, so that the memory of the server
    /// for these connections is not included.
    ///
    /// # Errors
    /// The process does not exist.
    pub(crate) fn resident_bytes(config: &Config) -> Result<Option<u64>, Error> {
        let cost = config
            .watch_pid
            .map(|pid| cost::of_process(pid).map_err(|source| Error::Watch { pid, source }));
        Ok(cost.transpose()?.map(|it| it.resident_bytes))
    }

    /// Starts the observers that `config` enables.
    pub(crate) fn start(config: &Config, timeline: &Timeline) -> Result<Self, Error> {
        Ok(Self {
            watch: ServerWatch::start(config, timeline)?,
            stalls: StallDetector::start(config, timeline)?,
        })
    }

    /// Waits for the end of the measured interval and adds the observations to the summary.
    pub(crate) fn join(
        self,
        config: &Config,
        resident_before_bytes: Option<u64>,
        summary: &mut Summary,
    ) -> Result<(), Error> {
        let Observed { watched, bursts } = self.watch.join()?;
        let watched = watched.map(|it| Watched {
            resident_before_bytes,
            ..it
        });
        let stalls = self.stalls.join()?;
        (summary.watched, summary.bursts) = (watched, bursts);
        summary.stalls = stalls.map(|stalls| LatencyDistribution::of(&stalls, &config.percentiles));
        Ok(())
    }
}

/// The threads that generate the load of one part of a run.
pub(crate) struct GeneratorThreads {
    threads: Vec<ThreadHandle>,
    /// Receives the windows of all threads as they end.
    windows: Receiver<EndedWindow>,
    /// Channels that return cleared windows to the threads for reuse. The index is the thread's
    /// number.
    spares: Vec<Sender<Window>>,
    /// The operations that the load may have.
    operations: Vec<Op>,
    /// Whether files are requested.
    files: bool,
    /// The counts of the script. None: there is no script.
    script: Option<ScriptReport>,
}

struct ThreadHandle {
    /// Sends the timeline to the thread, which then starts its load. If the sender is dropped
    /// before it has sent a timeline, the thread ends.
    start: Sender<Timeline>,
    thread: JoinHandle<Result<Outcome, Error>>,
}

impl GeneratorThreads {
    /// Starts the threads and waits until each has opened its connections and generated its
    /// schedule. When `stop` is set later, the threads end early.
    pub(crate) fn start(
        config: &Config,
        part: Part,
        recorded_max: usize,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let keyspace = config.keyspace()?;
        let sampler = config.demand().record_sampler();
        let operations = config.operations();
        let filler = batch::filler(config.value_len_max);
        let alive = Arc::new(AtomicU32::new(part.count));
        let (windows_sender, windows) = mpsc::channel();
        let (ready_sender, ready) = mpsc::channel();
        let mut threads = Self {
            threads: Vec::new(),
            windows,
            spares: Vec::new(),
            operations: operations.clone(),
            files: config.files.is_some(),
            script: None,
        };
        let first_connection = |number: u32| part.of_thread(number, config.threads).start;
        let first_connections: Vec<u32> = (0..config.threads).map(first_connection).collect();
        let script = Script::start(config, &first_connections)?;
        let mut sources = Vec::new();
        if let Some(script) = script {
            threads.script = Some(script.report);
            sources = script.sources;
            // For each thread, from the first on, the loop below pops the last source of the list.
            sources.reverse();
        }
        for number in 0..config.threads {
            let (spare_sender, spare) = mpsc::channel();
            // The engine allocates its first window itself, and takes its further windows from the
            // channel. The second one is sent here, because it begins before the main thread can
            // have returned the first one.
            let _ = spare_sender.send(Window::preallocated(&operations, threads.files));
            let (start_sender, start) = mpsc::channel();
            let connections = part.of_thread(number, config.threads);
            let share = Share {
                first: connections.start,
                count: connections.end - connections.start,
                all: config.connections,
                concurrent_max: (OPENING_MAX / config.threads as usize).max(1),
            };
            let source = sources.pop();
            let keys = match source {
                Some(_) => Keys::Script(ScriptItems::default()),
                None if config.files.is_some() => Keys::Files,
                None => Keys::Records {
                    keyspace: keyspace.clone(),
                    sampler: sampler.clone(),
                },
            };
            let setup = ThreadSetup {
                config: config.clone(),
                part,
                number,
                share,
                recorded_max: recorded_max / config.threads as usize,
                batch: Batch::new(config.protocol, keys, Arc::clone(&filler)),
                script: source,
                channels: Channels {
                    thread: number as usize,
                    windows: windows_sender.clone(),
                    spare,
                    alive: Arc::clone(&alive),
                    stop: Arc::clone(stop),
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
        // A thread has failed before it was ready. `join` drops the start channels, which ends the
        // other threads. It returns the error of the thread that failed.
        match threads.join() {
            Err(error) => Err(error),
            Ok(_) => Err(Error::Panicked),
        }
    }

    /// Starts the load on all threads at the beginning of `timeline`.
    pub(crate) fn begin(&self, timeline: &Timeline) {
        for handle in &self.threads {
            // The send fails only if the thread has ended with an error. `join` returns that error.
            let _ = handle.start.send(timeline.clone());
        }
    }

    /// Waits for the end of the run. Returns the summary of the part, and the requests whose times
    /// were recorded one by one. As soon as all threads have sent their windows with the same
    /// number, calls `on_window` with this number and the sum of these windows.
    pub(crate) fn finish(
        self,
        config: &Config,
        part: Part,
        timeline: &Timeline,
        on_window: &mut dyn FnMut(usize, &Window),
    ) -> Result<(Summary, Vec<Recorded>), Error> {
        let mut aggregate = Aggregate::new(config);
        self.collect(timeline, &mut aggregate, on_window);
        let script = self.script.clone();
        aggregate.add_outcomes(self.join()?);
        if let Some(error) = aggregate.all_lost_error(part) {
            return Err(error);
        }
        let script = script.map(|report| report.summary());
        Ok(aggregate.into_summary(config, part, timeline, script))
    }

    /// Collects the windows of all threads and adds up those of the same number. Ends when all
    /// threads have sent their last window, or when all threads have ended.
    fn collect(
        &self,
        timeline: &Timeline,
        aggregate: &mut Aggregate,
        on_window: &mut dyn FnMut(usize, &Window),
    ) {
        // For each window number from `next` on: the sum of the windows of this number that were
        // received, and how many were received.
        let mut pending: Vec<(Window, usize)> = Vec::new();
        // Empty windows, for new sums.
        let mut free_sums = vec![Window::preallocated(&self.operations, self.files)];
        // The number of the first window that not all threads have sent.
        let mut next = 0;
        // Every thread sends all its windows, unless it fails or is stopped. If windows are missing
        // for this reason, `recv` fails as soon as all threads have ended.
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
                let empty = || (free_sums.pop().unwrap_or_default(), 0);
                pending.resize_with(index + 1, empty);
            }
            let (sum, received) = &mut pending[index];
            sum.merge(&window);
            *received += 1;
            window.clear();
            // The send fails only if the thread has ended. Then the thread needs no window.
            let _ = self.spares[thread].send(window);
            while pending
                .first()
                .is_some_and(|(_, received)| *received == self.threads.len())
            {
                let (mut window, _) = pending.remove(0);
                on_window(next, &window);
                if timeline.is_measured(next) {
                    aggregate.add(&window);
                }
                next += 1;
                window.clear();
                free_sums.push(window);
            }
        }
    }

    /// Waits for all threads. Returns their results or, if a thread failed, the first error.
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

/// The inputs of a generator thread, from which it builds its engine.
struct ThreadSetup {
    config: Config,
    part: Part,
    number: u32,
    share: Share,
    recorded_max: usize,
    batch: Batch,
    script: Option<ScriptSource>,
    channels: Channels,
}

impl ThreadSetup {
    /// Runs the thread with the loop that is compiled for the carrier of `config`.
    fn run(self, ready: Sender<()>, start: &Receiver<Timeline>) -> Result<Outcome, Error> {
        match self.config.carrier {
            CarrierKind::Stream if !self.config.renews_connections() => {
                self.run_on::<Persistent>(ready, start)
            }
            CarrierKind::Stream | CarrierKind::OneShot => self.run_on::<Renewed>(ready, start),
            CarrierKind::Udp => self.run_on::<Udp>(ready, start),
            CarrierKind::PerOperation => self.run_on::<PerOperation>(ready, start),
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
        // The first thread also opens all saturating connections, after its measured ones.
        if self.number == 0 && self.part.is_saturating(config) {
            share.count += config.saturating_connections;
        }
        let mut connections = C::open(config, &poll, share, &self.channels.stop)?;
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
                // The random streams with the numbers below `config.connections` are those of the
                // measured connections.
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
                let share_rps = self.part.rate_rps(config, rate_rps) / f64::from(config.threads);
                let source = ScheduleSource::new(schedule, share_rps, end_ns);
                Some(RequestSource::Open(source))
            }
            // All connections of the thread take their requests from one random stream.
            Rate::Max => Some(RequestSource::Closed(requests(first)?)),
        };
        let script = self.script.map(RequestSource::Script);
        let source = script.or(source).ok_or(Error::Panicked)?;
        let options = EngineOptions {
            depth: config.depth as usize,
            timeout_ns: config.timeout_ns,
            operations: config.operations(),
            spin: config.spin,
            files: config.files.is_some(),
            first,
            opaque: u64::from(self.part.number * THREADS_MAX + self.number) << OPAQUE_BITS,
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
        // The main thread counts the messages of all threads until every sender is dropped, so this
        // thread drops its sender. The send fails only if the main thread has panicked.
        let _ = ready.send(());
        drop(ready);
        match start.recv() {
            Ok(timeline) => engine.run(timeline),
            Err(_) => Ok(Outcome::empty()),
        }
    }
}
