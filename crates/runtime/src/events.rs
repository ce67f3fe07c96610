//! The runtime `events`: one epoll loop per worker. Most of its code is in `crate::readiness`.
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
use crate::setup::Shared;
use crate::worker_context::WorkerContext;
use service::Service;
use worker::{Worker, open};

/// Starts the worker threads.
///
/// # Errors
/// The limit of descriptors or threads is reached.
pub(crate) fn start(
    running: &mut Running,
    setup: &Arc<Shared>,
    service: &impl Service,
) -> io::Result<()> {
    for number in 0..setup.workers {
        // The handles by which other threads wake the worker and tell it to stop.
        let handles = running.handles(number);
        let context = WorkerContext::new(setup, service.worker(), handles);
        let inbox = Arc::clone(&running.inboxes[number]);
        // An epoll instance that waits for the inbox.
        let poll = open(&inbox)?;
        let worker = Worker::new(context, Arc::clone(&inbox), poll);
        running.spawn(format!("worker-{number}"), move || {
            // Runs the worker's loop, and runs it again after a failure.
            restart::run(worker, &inbox);
        })?;
    }
    Ok(())
}
