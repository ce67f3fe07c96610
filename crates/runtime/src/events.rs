//! The runtime `events`: one epoll loop per worker. Most of it is in `crate::readiness`.
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
        let context = WorkerContext::new(setup, service.worker(), running.handles(number));
        let inbox = Arc::clone(&running.inboxes[number]);
        let poll = open(&inbox)?;
        let worker = Worker::new(context, Arc::clone(&inbox), poll);
        running.spawn(format!("worker-{number}"), move || {
            restart::run(worker, &inbox);
        })?;
    }
    Ok(())
}
