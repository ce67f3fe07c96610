//! Rings: one io_uring per worker.
//!
//! ```text
//! worker: wait → burst → maintain → wait …
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

use crate::restart::{self, EventLoop};
use crate::running::Running;
use crate::setup::Setup;
use crate::worker_context::WorkerContext;
use worker::Worker;

/// Starts the workers. Each makes its ring itself, whose alone it is.
///
/// # Errors
/// No descriptor or thread left, or no io_uring as it is needed.
pub(crate) fn start(running: &mut Running, setup: &Arc<Setup>) -> io::Result<()> {
    for number in 0..setup.workers {
        let context = WorkerContext::new(setup, running, number);
        let (made, is_made) = mpsc::sync_channel(1);
        running.spawn(format!("worker-{number}"), move || {
            match Worker::open(&context.inbox) {
                Ok(kernel) => {
                    let _ = made.send(Ok(()));
                    restart::run(Worker::new(context, kernel));
                }
                Err(error) => {
                    let _ = made.send(Err(error));
                }
            }
        })?;
        let panicked = || io::Error::other("a worker panicked");
        is_made.recv().map_err(|_| panicked())??;
    }
    Ok(())
}
