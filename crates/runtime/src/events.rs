//! The runtime `events`: one epoll loop per worker. Most of its code is in `crate::readiness`.
//!
//! ```text
//! worker: wait → burst → maintain → wait …
//! ```
//!
//! A *burst* is the set of connections that are ready after a wait; they are answered together.
//! *Maintain* is one step of the service's background work.

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
