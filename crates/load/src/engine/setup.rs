//! The inputs and the result of a generator thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::{Receiver, Sender};

use workload::{Op, Requests};

use crate::metrics::{Recorded, Totals, Window};
use crate::schedule_source::ScheduleSource;
use crate::script::ScriptSource;

/// Where a thread's requests come from.
pub(crate) enum RequestSource {
    /// Open loop: the schedule.
    Open(ScheduleSource),
    /// Closed loop: the next request replaces the last one answered.
    Closed(Requests),
    /// Either: a script.
    Script(ScriptSource),
}

impl RequestSource {
    /// Whether requests have intended times of their own.
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
    /// Requests a measured connection may have outstanding.
    pub(crate) depth: usize,
    /// Time after which a request without an answer has failed, of carriers that lose requests.
    pub(crate) timeout_ns: u64,
    /// The operations that are expected.
    pub(crate) operations: Vec<Op>,
    /// The thread polls instead of sleeping ([`crate::Config::spin`]).
    pub(crate) spin: bool,
    /// The number of the thread's first connection.
    pub(crate) first: u32,
    /// The opaque token of the thread's first request.
    pub(crate) opaque: u64,
    /// Maximum number of requests whose times are recorded one by one.
    pub(crate) recorded_max: usize,
}

/// A completed window of one thread.
pub(crate) struct EndedWindow {
    pub(crate) thread: usize,
    pub(crate) number: usize,
    pub(crate) window: Window,
}

/// How a thread communicates with the main thread and the other generator threads.
pub(crate) struct Channels {
    /// The thread's number.
    pub(crate) thread: usize,
    /// Completed windows, to the main thread.
    pub(crate) windows: Sender<EndedWindow>,
    /// Cleared windows for reuse, from the main thread.
    pub(crate) spare: Receiver<Window>,
    /// Number of measured connections that are not lost, over all threads.
    pub(crate) alive: Arc<AtomicU32>,
    /// The run is to end at once, without a result.
    pub(crate) stop: Arc<AtomicBool>,
}

/// The result of one thread.
pub(crate) struct Outcome {
    pub(crate) totals: Totals,
    pub(crate) recorded: Vec<Recorded>,
    /// The error of the connection that was lost last.
    pub(crate) last_loss: Option<String>,
    /// When the thread ended.
    pub(crate) ended_ns: u64,
}

impl Outcome {
    /// The result of a thread that was not started.
    pub(crate) fn empty() -> Self {
        Self {
            totals: Totals::new(0, 0),
            recorded: Vec::new(),
            last_loss: None,
            ended_ns: 0,
        }
    }
}
