//! Rings: one io_uring per worker, and a thread that accepts with one of its own.
//!
//! ```text
//! accept ──▶ inbox of the next worker, in turn ──▶ worker: wait → burst → maintain → wait …
//! ```
//!
//! Receiving goes on by itself, into memory the kernel chooses from; the answers of a burst are
//! handed over together by the system call that waits for the next. So a burst costs one system
//! call, however many connections it has.

mod accept;
mod stop;
mod wake;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};

use sys::ring::{Inputs, Ring, RingConfig};
use sys::socket::Listener;

use crate::dealer::Dealer;
use crate::desk::Desk;
use crate::limits::{RING_BUFFER_LEN, RING_BUFFERS, RING_ENTRIES};
use crate::running::Running;
use crate::setup::Setup;
use accept::Acceptor;
use worker::Worker;

const RING: RingConfig = RingConfig {
    entries: RING_ENTRIES,
    buffers: RING_BUFFERS,
    buffer_len: RING_BUFFER_LEN,
};

/// Starts the workers and the thread that accepts for them.
///
/// # Errors
/// No descriptor or thread left, or no io_uring as it is needed.
pub(crate) fn start(setup: Setup, listeners: Vec<Listener>) -> io::Result<Running> {
    let setup = Arc::new(setup);
    let mut running = Running::new(setup.workers)?;
    match start_threads(&mut running, &setup, listeners) {
        Ok(()) => Ok(running),
        Err(error) => {
            // Those that run have nobody to serve; that one of them panicked is known already.
            let _ = running.stop();
            Err(error)
        }
    }
}

fn start_threads(
    running: &mut Running,
    setup: &Arc<Setup>,
    listeners: Vec<Listener>,
) -> io::Result<()> {
    for number in 0..setup.workers {
        let desk = Desk::new(setup, running, number);
        let (made, is_made) = mpsc::sync_channel(1);
        running.spawn(format!("worker-{number}"), move || {
            if let Some((ring, inputs)) = make(RING, &made) {
                Worker::new(desk, ring, inputs).run();
            }
        })?;
        heard(&is_made)?;
    }
    let dealer = Dealer::new(Arc::clone(setup), running);
    let acceptor = Acceptor::new(listeners, dealer, running);
    let (made, is_made) = mpsc::sync_channel(1);
    running.spawn_acceptor(move || {
        if let Some((ring, _)) = make(accept::RING, &made) {
            acceptor.run(ring);
        }
    })?;
    heard(&is_made)
}

/// Makes the calling thread's ring, whose alone it is, and says whether it could.
fn make(config: RingConfig, made: &SyncSender<io::Result<()>>) -> Option<(Ring, Inputs)> {
    let (said, ring) = match Ring::new(config) {
        Ok(ring) => (Ok(()), Some(ring)),
        Err(error) => (Err(error), None),
    };
    made.send(said).ok()?;
    ring
}

/// What a thread that was started said of its ring; one that says nothing has panicked.
fn heard(is_made: &Receiver<io::Result<()>>) -> io::Result<()> {
    is_made
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}
