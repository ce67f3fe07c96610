//! Event loops: one epoll loop per worker.
//!
//! ```text
//! worker: wait → burst → maintain → wait …
//! ```

mod accept;
mod stop;
mod wake;
mod worker;

use std::io;
use std::sync::Arc;

use crate::desk::Desk;
use crate::restart::{self, EventLoop};
use crate::running::Running;
use crate::setup::Setup;
use worker::Worker;

/// Starts the workers.
///
/// # Errors
/// No descriptor or thread left.
pub(crate) fn start(running: &mut Running, setup: &Arc<Setup>) -> io::Result<()> {
    for number in 0..setup.workers {
        let desk = Desk::new(setup, running, number);
        let poll = Worker::open(&desk.inbox)?;
        let worker = Worker::new(desk, poll);
        running.spawn(format!("worker-{number}"), move || restart::run(worker))?;
    }
    Ok(())
}
