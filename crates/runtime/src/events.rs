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

use crate::restart::{self, EventLoop};
use crate::running::Running;
use crate::setup::Setup;
use crate::worker_context::WorkerContext;
use worker::Worker;

/// Starts the workers.
///
/// # Errors
/// The limit of descriptors or threads is reached.
pub(crate) fn start(running: &mut Running, setup: &Arc<Setup>) -> io::Result<()> {
    for number in 0..setup.workers {
        let context = WorkerContext::new(setup, running, number);
        let poll = Worker::open(&context.inbox)?;
        let worker = Worker::new(context, poll);
        running.spawn(format!("worker-{number}"), move || restart::run(worker))?;
    }
    Ok(())
}
