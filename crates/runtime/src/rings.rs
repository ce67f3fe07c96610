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
use std::sync::mpsc;

use sys::ring::{Ring, RingConfig};
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
    // A ring belongs to the thread that makes it: each says whether it could.
    let (made, is_made) = mpsc::sync_channel(1);
    for number in 0..setup.workers {
        let desk = Desk::new(&setup, &running, number);
        let made = made.clone();
        running.spawn(format!("worker-{number}"), move || {
            let ring = Ring::new(RING);
            let (ring, inputs) = match ring {
                Ok(ring) => ring,
                Err(error) => return drop(made.send(Err(error))),
            };
            if made.send(Ok(())).is_ok() {
                Worker::new(desk, ring, inputs).run();
            }
        })?;
        let result = is_made.recv().unwrap_or(Err(io::ErrorKind::Other.into()));
        if let Err(error) = result {
            // The others have nobody to serve.
            let _ = running.stop();
            return Err(error);
        }
    }
    let dealer = Dealer::new(setup, &running);
    let acceptor = Acceptor::new(listeners, dealer, &running);
    running.spawn_acceptor(move || acceptor.run())?;
    Ok(running)
}
