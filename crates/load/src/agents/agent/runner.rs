//! The thread that performs an agent's part of a run (here called *the run*). The thread of the
//! session can meanwhile receive messages from the coordinator, such as a stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sys::clock::{monotonic_ns, unix_less_monotonic_ns};

use super::super::message::{EndedSecond, Message};
use super::{AgentEvent, SharedSender, locked};
use crate::config::{Config, ConfigError, Rate};
use crate::error::Error;
use crate::limits::START_TIMEOUT;
use crate::opening;
use crate::part::Part;
use crate::run::{GeneratorThreads, START_AHEAD_NS};
use crate::summary::Summary;
use crate::timeline::Timeline;

/// While the run waits for its start, it checks once in this interval whether it must end.
const POLL_INTERVAL_NS: u64 = 20_000_000;

/// A handle on the thread of a run. Dropping the handle stops the run and waits until the thread
/// has closed the run's connections and ended.
pub(super) struct Runner {
    /// Set when the run must end.
    stop: Arc<AtomicBool>,
    /// Sends the start time of the run to its thread, in nanoseconds of the monotonic clock.
    start: SyncSender<u64>,
    /// None: the thread was joined.
    thread: Option<JoinHandle<AgentEvent>>,
}

impl Runner {
    /// Starts the thread. It prepares the run, performs it, and sends the run's messages to the
    /// coordinator.
    pub(super) fn new(mut config: Config, part: Part, sender: SharedSender) -> io::Result<Self> {
        // The coordinator alone takes these measurements: the resources of a process, the bursts
        // (ready connections per wake-up) of a server, and the stalls of a processor.
        config.watch_pid = None;
        config.watch_bursts = false;
        config.stall_detector_cpu = None;
        // The channel holds one value, because a run has one start time.
        let (start, start_receiver) = mpsc::sync_channel(1);
        let stop: Arc<AtomicBool> = Arc::default();
        let thread_stop = Arc::clone(&stop);
        let body = move || match run(&config, part, &thread_stop, &start_receiver, &sender) {
            Ok(summary) => send_last(&sender, &Message::Done(Box::new(summary)), AgentEvent::Done),
            Err(error) => {
                // The texts of run errors are written to follow "failed to".
                let reason = format!("failed to {error}");
                let event = AgentEvent::Ended(reason.clone());
                send_last(&sender, &Message::Failed { reason }, event)
            }
        };
        let builder = thread::Builder::new().name("agent-run".to_owned());
        Ok(Self {
            stop,
            start,
            thread: Some(builder.spawn(body)?),
        })
    }

    /// Sets the start time of the run, in nanoseconds of Unix time. A second call has no effect.
    pub(super) fn set_start(&self, start_unix_ns: u64) {
        // Converted to the monotonic clock now, so that a later correction of the Unix clock does
        // not move the start. The subtracted offset is Unix time minus monotonic time.
        let start_ns = start_unix_ns.saturating_sub(unix_less_monotonic_ns());
        // The send fails if the run has ended, or if the channel still contains an earlier start
        // time. The thread receives only one start time, so any later one is ignored.
        let _ = self.start.try_send(start_ns);
    }

    /// Whether the thread has ended, so that [`Runner::join`] returns immediately.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Makes the run end early. Its threads notice the stop within some 100 ms.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end of the run. Returns the event that says how it ended.
    pub(super) fn join(mut self) -> AgentEvent {
        let joined = self.thread.take().map(JoinHandle::join);
        let panicked = || AgentEvent::Ended("the run panicked; this is a defect of curtail".into());
        joined.and_then(Result::ok).unwrap_or_else(panicked)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // The event of the run is not needed any more, even if it says that the run panicked.
            let _ = thread.join();
        }
    }
}

/// Sends the last message of a run. Returns `event`, or the error of the send as an event.
fn send_last(sender: &SharedSender, message: &Message, event: AgentEvent) -> AgentEvent {
    match locked(sender).send(message) {
        Ok(()) => event,
        Err(error) => AgentEvent::Ended(format!("the result could not be sent: {error}")),
    }
}

/// Prepares and performs the run: opens the connections, waits for the start, offers the load and
/// sends the measurements of each second. Returns the summary of the part. `start` receives the
/// start time, in nanoseconds of the monotonic clock.
fn run(
    config: &Config,
    part: Part,
    stop: &Arc<AtomicBool>,
    start: &mpsc::Receiver<u64>,
    sender: &SharedSender,
) -> Result<Summary, Error> {
    config.validate()?;
    // A script cannot be divided among agents. The error text names the option `--agent`.
    config.validate_without_script("--agent")?;
    // The part must be a range of connection numbers below `config.connections`, and must contain
    // at least one connection for each thread. An example of the message: "3 connections from
    // number 8 on are not a part of 20 with one for each of 4 threads": 4 threads need 4.
    if !part.fits(config) {
        let fault = format!(
            "{} connections from number {} on are not a part of {} with one for each of {} threads",
            part.count, part.first, config.connections, config.threads
        );
        return Err(ConfigError::new("connections", fault).into());
    }
    // Raises the limit of open files. The connections are those of this part, including its
    // saturating connections, which always have a fixed number of requests outstanding.
    opening::allow_files(part.all_connections(config))?;
    // The times of single requests are not recorded.
    let recorded_max = 0;
    // Opens the connections and generates the schedule. The load does not start yet.
    let threads = GeneratorThreads::start(config, part, recorded_max, stop)?;
    send(sender, stop, &Message::Ready);
    let start_ns = wait_for_start(start, stop)?;
    // The threads receive the timeline (the start and the end of each phase of the run)
    // `START_AHEAD_NS` before the start of the load. Otherwise a thread could start late.
    let timeline_due_ns = start_ns.saturating_sub(START_AHEAD_NS);
    let late_ns = monotonic_ns().saturating_sub(timeline_due_ns);
    if late_ns > 0 {
        return Err(Error::LateStart { late_ns });
    }
    while monotonic_ns() < timeline_due_ns {
        let left_ns = timeline_due_ns.saturating_sub(monotonic_ns());
        thread::sleep(Duration::from_nanos(left_ns.min(POLL_INTERVAL_NS)));
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
    }
    let timeline = Timeline::new(config, start_ns);
    threads.begin(&timeline);
    // `Rate::Max` is a closed loop.
    let open_loop = config.rate != Rate::Max;
    // Sends a window (the measurements of one second) and its number in the run, from 0.
    let on_window = &mut |number, window: &crate::metrics::Window| {
        // A window is sent only if its second has ended. The boundary is the end of this second.
        // The last window is the grace period. It has no boundary and is not sent. If all
        // connections are lost, the threads deliver all further windows immediately. The boundaries
        // of these windows are in the future, so the coordinator would reject them.
        let boundary = timeline.boundary(number);
        if boundary.is_some_and(|end_ns| end_ns <= monotonic_ns()) {
            let second = EndedSecond::of(number, window, open_loop);
            send(sender, stop, &Message::Second(Box::new(second)));
        }
    };
    // Waits for the end of the run. The second result, the recorded requests, is empty.
    let (summary, _) = threads.finish(config, part, &timeline, on_window)?;
    // The summary of a run that was stopped covers only the time until the stop.
    match stop.load(Ordering::Relaxed) {
        true => Err(Error::Stopped),
        false => Ok(summary),
    }
}

/// Waits until the session has received the start time, and returns it in nanoseconds of the
/// monotonic clock. Returns [`Error::Stopped`] if the run is stopped. If no start time comes within
/// [`START_TIMEOUT`], the agent itself stops the run, with the same error.
fn wait_for_start(start: &mpsc::Receiver<u64>, stop: &AtomicBool) -> Result<u64, Error> {
    let deadline_ns = monotonic_ns() + START_TIMEOUT.as_nanos() as u64;
    loop {
        match start.recv_timeout(Duration::from_nanos(POLL_INTERVAL_NS)) {
            Ok(start_ns) => return Ok(start_ns),
            // Not expected: the `Runner` keeps the sender until this thread has ended.
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Stopped),
            Err(RecvTimeoutError::Timeout) => {
                let has_timed_out = monotonic_ns() > deadline_ns;
                if stop.load(Ordering::Relaxed) || has_timed_out {
                    return Err(Error::Stopped);
                }
            }
        }
    }
}

/// Sends a message of the run. If the send fails, the coordinator is gone, so the run is stopped.
fn send(sender: &SharedSender, stop: &AtomicBool, message: &Message) {
    if locked(sender).send(message).is_err() {
        stop.store(true, Ordering::Relaxed);
    }
}
