//! The inputs of a generator thread, and the thread's result ([`Outcome`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::{Receiver, Sender};

use workload::{Op, Requests};

use crate::metrics::{Recorded, Totals, Window};
use crate::schedule_source::ScheduleSource;
use crate::script::ScriptSource;
use crate::sized_sample::SizedSample;

/// The source of a thread's requests.
pub(crate) enum RequestSource {
    /// Open loop: requests with intended times, from the schedule.
    Open(ScheduleSource),
    /// Closed loop: requests without times. Each is sent when an answer makes space for it.
    Closed(Requests),
    /// Requests from a script, in an open or a closed loop.
    Script(ScriptSource),
}

impl RequestSource {
    /// Whether the load is an open loop, in which requests have intended times.
    #[inline]
    pub(crate) fn is_open_loop(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Closed(_) => false,
            Self::Script(source) => source.open,
        }
    }
}

/// The settings of one thread.
pub(crate) struct EngineOptions {
    /// The maximum number of outstanding requests of each measured connection.
    pub(crate) depth: usize,
    /// The shortest time after which a request without an answer has failed. Used only by carriers
    /// that have time-outs ([`crate::carrier::Carrier::TIMES_OUT`]).
    pub(crate) timeout_ns: u64,
    /// The operations whose histograms are allocated before the run.
    pub(crate) operations: Vec<Op>,
    /// Whether the thread polls instead of sleeping ([`crate::Config::spin`]).
    pub(crate) spin: bool,
    /// Whether the requests are for files, so that latencies are also recorded by size.
    pub(crate) files: bool,
    /// The number of the thread's first connection among all connections of the run.
    pub(crate) first: u32,
    /// The opaque token of the thread's first request. The token of each later request is 1 more.
    pub(crate) opaque: u64,
    /// Maximum number of requests whose times are recorded one by one.
    pub(crate) recorded_max: usize,
}

/// A window of the run that has ended: the measurements of one thread, usually for a second.
pub(crate) struct EndedWindow {
    pub(crate) thread: usize,
    /// The number of the window in the run, from 0.
    pub(crate) number: usize,
    pub(crate) window: Window,
}

/// How a thread communicates with the main thread and the other generator threads.
pub(crate) struct Channels {
    /// The thread's number.
    pub(crate) thread: usize,
    /// Sends ended windows to the main thread.
    pub(crate) windows: Sender<EndedWindow>,
    /// Receives cleared windows for reuse from the main thread.
    pub(crate) spare: Receiver<Window>,
    /// Number of measured connections that are not lost, over all threads.
    pub(crate) alive: Arc<AtomicU32>,
    /// Set when the run must end immediately, without a result.
    pub(crate) stop: Arc<AtomicBool>,
}

/// The result of one thread ([`crate::wire::Outcome`] is the result of one request).
pub(crate) struct Outcome {
    pub(crate) totals: Totals,
    /// The requests whose times were recorded one by one.
    pub(crate) recorded: Vec<Recorded>,
    /// The sizes and latencies of some requests for files.
    pub(crate) sized: SizedSample,
    /// Number of the thread's measured connections that are not lost.
    pub(crate) alive: usize,
    /// The error with which the most recent connection was lost.
    pub(crate) last_loss: Option<String>,
    /// When the thread's loop ended, on the monotonic clock.
    pub(crate) ended_ns: u64,
}

impl Outcome {
    /// The result of a thread whose run did not start.
    pub(crate) fn empty() -> Self {
        Self {
            totals: Totals::new(0, 0),
            recorded: Vec::new(),
            sized: SizedSample::default(),
            alive: 0,
            last_loss: None,
            ended_ns: 0,
        }
    }
}
