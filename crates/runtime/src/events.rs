//! Event loops: one epoll loop per worker, and a thread that accepts.
//!
//! ```text
//! accept ──▶ inbox of the next worker, in turn ──▶ worker: wait → burst → maintain → wait …
//! ```

pub mod accept;
pub mod stop;
mod wake;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use sys::socket::Listener;

use crate::setup::Setup;
use stop::Running;
use wake::Inbox;
use worker::Worker;

/// Starts the workers and the thread that accepts for them.
///
/// # Errors
/// No descriptor or thread left.
pub fn start(setup: Setup, listeners: Vec<Listener>) -> io::Result<Running> {
    let setup = Arc::new(setup);
    let stopping = Arc::new(AtomicBool::new(false));
    let ending = Arc::new(AtomicBool::new(false));
    let inboxes = (0..setup.workers)
        .map(|_| Inbox::new().map(Arc::new))
        .collect::<io::Result<Vec<_>>>()?;
    let mut threads = Vec::new();
    for number in 0..setup.workers {
        let worker = Worker::new(
            Arc::clone(&setup),
            inboxes.clone(),
            number,
            Arc::clone(&ending),
        )?;
        let named = thread::Builder::new().name(format!("worker-{number}"));
        threads.push(named.spawn(move || worker.run())?);
    }
    let acceptor = accept::Acceptor::new(listeners, inboxes.clone(), setup, Arc::clone(&stopping))?;
    let accept_waker = acceptor.waker();
    let named = thread::Builder::new().name("accept".to_owned());
    let accepting = named.spawn(move || acceptor.run())?;
    Ok(Running::new(
        stopping,
        ending,
        accept_waker,
        accepting,
        inboxes,
        threads,
    ))
}
