//! Starting and stopping the thread that serves datagrams.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::thread::{self, JoinHandle};

use service::Service;
use sys::poll;

use crate::counts::{Count, Counts};
use crate::reply_limit::ReplyLimit;
use crate::worker::Datagrams;

/// The event by which results of tickets and the stop wake the thread.
#[derive(Debug)]
pub(crate) struct Alarm {
    pub(crate) waker: poll::Waker,
    must_stop: AtomicBool,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            waker: poll::Waker::new()?,
            must_stop: AtomicBool::new(false),
        }))
    }

    /// Whether the thread has to stop soon: it begins no datagrams, and waits for nothing.
    pub(crate) fn must_stop(&self) -> bool {
        self.must_stop.load(Ordering::Relaxed)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.waker.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.waker.wake();
    }
}

/// A panic happened while datagrams were served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the thread of the datagrams panicked")]
pub struct Panicked;

/// The thread that serves datagrams. It continues to run if this value is dropped.
#[derive(Debug)]
pub struct Running {
    alarm: Arc<Alarm>,
    counts: Arc<Counts>,
    thread: JoinHandle<()>,
}

/// Serves the datagrams of these sockets on a thread of its own. The sockets must be non-blocking.
///
/// # Errors
/// The limit of descriptors or threads is reached.
pub fn start(
    service: &impl Service,
    sockets: Vec<UdpSocket>,
    limit: ReplyLimit,
    counts: Arc<Counts>,
) -> io::Result<Running> {
    let alarm = Alarm::new()?;
    let datagrams = Datagrams::new(service, sockets, limit, &counts, &alarm)?;
    let named = thread::Builder::new().name("datagrams".to_owned());
    let thread = named.spawn(move || datagrams.run())?;
    Ok(Running {
        alarm,
        counts,
        thread,
    })
}

impl Running {
    /// Stops serving. Datagrams that have not been answered are dropped.
    ///
    /// # Errors
    /// A panic happened since the start.
    pub fn stop(self) -> Result<(), Panicked> {
        self.alarm.must_stop.store(true, Ordering::Relaxed);
        self.alarm.waker.wake();
        let joined = self.thread.join();
        match joined.is_err() || self.counts.of(Count::Panics) > 0 {
            true => Err(Panicked),
            false => Ok(()),
        }
    }
}
