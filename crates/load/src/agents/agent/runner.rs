//! The run of an agent, on a thread of its own: the session's thread keeps listening to the
//! coordinator.

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

/// How often a run that waits for its start checks whether it was stopped.
const POLL_INTERVAL_NS: u64 = 20_000_000;

/// A run. Dropping it stops it and waits until its connections are closed.
pub(super) struct Runner {
    stop: Arc<AtomicBool>,
    start: SyncSender<u64>,
    /// None: joined.
    thread: Option<JoinHandle<AgentEvent>>,
}

impl Runner {
    /// Starts the thread, which prepares the run and sends its messages.
    pub(super) fn new(mut config: Config, part: Part, sender: SharedSender) -> io::Result<Self> {
        // The coordinator observes the server and its machine.
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

    /// Tells the run the Unix time of its start. Only the first time counts.
    pub(super) fn set_start(&self, at_ns: u64) {
        // Converted at once, so that a later correction of the Unix clock does not move the start.
        let at_ns = at_ns.saturating_sub(unix_less_monotonic_ns());
        // It fails if the run has ended, or has a start.
        let _ = self.start.try_send(at_ns);
    }

    /// Whether [`Runner::join`] returns at once.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the run within a second, if it has not ended.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end of the run.
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

/// Sends the last message of a run.
fn send_last(sender: &SharedSender, message: &Message, event: AgentEvent) -> AgentEvent {
    match locked(sender).send(message) {
        Ok(()) => event,
        Err(error) => AgentEvent::Ended(format!("the result could not be sent: {error}")),
    }
}

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
            "{} from {} on are not a part of {} with a connection for each of {} threads",
            part.count, part.first, config.connections, config.threads
        );
        return Err(ConfigError::new("connections", fault).into());
    }
    opening::allow_files(part.all_connections(config))?;
    let threads = GeneratorThreads::start(config, part, 0, stop)?;
    send(sender, stop, &Message::Ready);
    let start_ns = wait_for_start(start, stop)?;
    if monotonic_ns() + START_AHEAD_NS > start_ns {
        return Err(Error::LateStart {
            late_ns: (monotonic_ns() + START_AHEAD_NS) - start_ns,
        });
    }
    while monotonic_ns() + START_AHEAD_NS < start_ns {
        let left_ns = start_ns - START_AHEAD_NS - monotonic_ns().min(start_ns - START_AHEAD_NS);
        thread::sleep(Duration::from_nanos(left_ns.min(POLL_INTERVAL_NS)));
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
    }
    let timeline = Timeline::new(config, start_ns);
    threads.begin(&timeline);
    let last = timeline.boundaries();
    let open_loop = config.rate != Rate::Max;
    let on_window = &mut |number, window: &crate::metrics::Window| {
        if number < last {
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

/// Waits until the coordinator has told the start, on the monotonic clock.
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

/// Sends a message of the run. A coordinator that does not take it is gone, so the run is stopped.
fn send(sender: &SharedSender, stop: &AtomicBool, message: &Message) {
    if locked(sender).send(message).is_err() {
        stop.store(true, Ordering::Relaxed);
    }
}
