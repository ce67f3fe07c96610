//! The run of an agent. It has its own thread, so that the session's thread can continue to receive
//! messages from the coordinator, such as a stop.

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
use crate::limits::PREPARE_TIMEOUT;
use crate::opening;
use crate::part::Part;
use crate::run::{GeneratorThreads, START_AHEAD_NS};
use crate::summary::Summary;
use crate::timeline::Timeline;

/// How long a run that waits for its start sleeps before it checks whether it was stopped.
const POLL_INTERVAL_NS: u64 = 20_000_000;

/// A handle on the thread of a run. Dropping it stops the run and waits until its connections are
/// closed.
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
        // Only the coordinator observes the server and its machine.
        config.watch_pid = None;
        config.watch_bursts = false;
        config.stall_detector_cpu = None;
        let (start, start_receiver) = mpsc::sync_channel(1);
        let stop: Arc<AtomicBool> = Arc::default();
        let stopped = Arc::clone(&stop);
        let run = move || match run(&config, part, &stopped, &start_receiver, &sender) {
            Ok(summary) => send_last(&sender, &Message::Done(Box::new(summary)), AgentEvent::Done),
            Err(error) => {
                let reason = format!("failed to {error}");
                let event = AgentEvent::Ended(reason.clone());
                send_last(&sender, &Message::Failed { reason }, event)
            }
        };
        let builder = thread::Builder::new().name("agent-run".to_owned());
        Ok(Self {
            stop,
            start,
            thread: Some(builder.spawn(run)?),
        })
    }

    /// Sets the start time of the run, in nanoseconds of Unix time. A second call has no effect.
    pub(super) fn set_start(&self, at_ns: u64) {
        // Converted to the monotonic clock now, so that a later correction of the Unix clock does
        // not move the start.
        let at_ns = at_ns.saturating_sub(unix_less_monotonic_ns());
        // The send fails if the run has ended or the channel still has the first start time. A
        // start time that is sent after the thread has received the first is never received.
        let _ = self.start.try_send(at_ns);
    }

    /// Whether the thread has ended, so that [`Runner::join`] returns immediately.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Makes the run end within a second.
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
/// sends the measurements of each second.
fn run(
    config: &Config,
    part: Part,
    stop: &Arc<AtomicBool>,
    start: &mpsc::Receiver<u64>,
    sender: &SharedSender,
) -> Result<Summary, Error> {
    config.validate()?;
    config.validate_without_script("--agent")?;
    if !part.fits(config) {
        let fault = format!(
            "{} connections from number {} on are not a part of {} with one for each of {} threads",
            part.count, part.first, config.connections, config.threads
        );
        return Err(ConfigError::new("connections", fault).into());
    }
    opening::allow_files(part.all_connections(config))?;
    let threads = GeneratorThreads::start(config, part, 0, stop)?;
    send(sender, stop, &Message::Ready);
    let start_ns = wait_for_start(start, stop)?;
    // The threads receive the timeline a little before the start, so that none starts late.
    let begin_ns = start_ns.saturating_sub(START_AHEAD_NS);
    let late_ns = monotonic_ns().saturating_sub(begin_ns);
    if late_ns > 0 {
        return Err(Error::LateStart { late_ns });
    }
    while monotonic_ns() < begin_ns {
        let left_ns = begin_ns.saturating_sub(monotonic_ns());
        thread::sleep(Duration::from_nanos(left_ns.min(POLL_INTERVAL_NS)));
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
    }
    let timeline = Timeline::new(config, start_ns);
    threads.begin(&timeline);
    let open_loop = config.rate != Rate::Max;
    // Sends a window: the measurements of one second.
    let on_window = &mut |number, window: &crate::metrics::Window| {
        // If all connections are lost, the threads pass their remaining windows on immediately. The
        // coordinator would reject the window of a second that has not ended, so it is not sent.
        let boundary = timeline.boundary(number);
        if boundary.is_some_and(|end_ns| end_ns <= monotonic_ns()) {
            let second = EndedSecond::of(number, window, open_loop);
            send(sender, stop, &Message::Second(Box::new(second)));
        }
    };
    let (summary, _) = threads.finish(config, part, &timeline, on_window)?;
    match stop.load(Ordering::Relaxed) {
        true => Err(Error::Stopped),
        false => Ok(summary),
    }
}

/// Waits until the coordinator has sent the start time. Returns it, in nanoseconds of the monotonic
/// clock.
fn wait_for_start(start: &mpsc::Receiver<u64>, stop: &AtomicBool) -> Result<u64, Error> {
    let deadline_ns = monotonic_ns() + PREPARE_TIMEOUT.as_nanos() as u64;
    loop {
        match start.recv_timeout(Duration::from_nanos(POLL_INTERVAL_NS)) {
            Ok(start_ns) => return Ok(start_ns),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Stopped),
            Err(RecvTimeoutError::Timeout) => {
                if stop.load(Ordering::Relaxed) || monotonic_ns() > deadline_ns {
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
