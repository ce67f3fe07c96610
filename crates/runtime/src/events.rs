//! Event loops: one epoll loop per worker, and a thread that accepts.
//!
//! ```text
//! accept ──▶ inbox of the next worker, in turn ──▶ worker: wait → burst → maintain → wait …
//! ```

mod accept;
mod stop;
mod wake;
mod worker;

use std::io;
use std::sync::Arc;

use sys::socket::Listener;

use crate::dealer::Dealer;
use crate::desk::Desk;
use crate::running::Running;
use crate::setup::Setup;
use accept::Acceptor;
use worker::Worker;

/// Starts the workers and the thread that accepts for them.
///
/// # Errors
/// No descriptor or thread left.
pub(crate) fn start(setup: Setup, listeners: Vec<Listener>) -> io::Result<Running> {
    let setup = Arc::new(setup);
    let mut running = Running::new(setup.workers)?;
    for number in 0..setup.workers {
        let worker = Worker::new(Desk::new(&setup, &running, number))?;
        running.spawn(format!("worker-{number}"), move || worker.run())?;
    }
    let dealer = Dealer::new(setup, &running);
    let acceptor = Acceptor::new(listeners, dealer, &running)?;
    running.spawn_acceptor(move || acceptor.run())?;
    Ok(running)
}
