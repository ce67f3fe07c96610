//! How `threads` starts a thread for an admitted connection.

use std::thread::{self, JoinHandle};

use service::Worker;

use super::Threads;
use crate::acceptor::Exhausted;
use crate::limits::TASK_STACK_LEN;

impl<S: Worker> Threads<S> {
    /// Starts a thread that runs `serve_connection`.
    pub(super) fn start(
        &self,
        serve_connection: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, Exhausted> {
        thread::Builder::new()
            .name("connection".to_owned())
            .stack_size(TASK_STACK_LEN)
            .spawn(serve_connection)
            .map_err(|_| Exhausted::Tasks)
    }
}
