//! The runtime `rings`: one io_uring per worker.
//!
//! ```text
//! worker: wait → burst → maintain → wait …
//! ```
//!
//! Receives are multishot: one operation, submitted once, receives repeatedly, each time into a
//! buffer that the kernel selects from a pool. A *burst* is the connections that are served after
//! one wait. The system call that waits for the next events also submits the sends of the last
//! burst. So a burst costs one system call, whatever its number of connections.

mod accept;
mod stop;
mod wake;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::mpsc;

use crate::restart::{self, EventLoop};
use crate::running::Running;
use crate::setup::Shared;
use crate::worker_context::WorkerContext;
use service::Service;
use worker::Worker;

/// Starts the workers. Each worker creates its ring on its own thread, because only the thread that
/// created a ring may use it. So this function waits until each worker has reported whether it
/// could create its ring.
///
/// # Errors
/// The limit of descriptors or threads is reached, or the kernel lacks a feature of io_uring that
/// the runtime needs.
pub(crate) fn start(
    running: &mut Running,
    setup: &Arc<Shared>,
    service: &impl Service,
) -> io::Result<()> {
    for number in 0..setup.workers {
        let context = WorkerContext::new(setup, service.worker(), running.handles(number));
        let inbox = Arc::clone(&running.inboxes[number]);
        let (result_sender, result_receiver) = mpsc::sync_channel(1);
        running.spawn(format!("worker-{number}"), move || match worker::open() {
            Ok(kernel) => {
                let _ = result_sender.send(Ok(()));
                restart::run(Worker::new(context, Arc::clone(&inbox), kernel), &inbox);
            }
            Err(error) => {
                let _ = result_sender.send(Err(error));
            }
        })?;
        let panicked = || io::Error::other("a worker panicked");
        result_receiver.recv().map_err(|_| panicked())??;
    }
    Ok(())
}
