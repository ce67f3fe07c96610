//! How `fibres` starts a fibre for an admitted connection.

use std::sync::PoisonError;

use fibre::JoinHandle;
use service::Worker;

use super::Fibres;
use crate::acceptor::Exhausted;

impl<S: Worker> Fibres<S> {
    /// Starts a fibre that runs `serve_connection`, the main function of a connection's fibre.
    ///
    /// # Errors
    /// There is no memory for the fibre's stack, or the processors have been stopped.
    pub(super) fn start(
        &self,
        serve_connection: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, Exhausted> {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime.as_ref().ok_or(Exhausted::Tasks)?;
        runtime
            .try_spawn(serve_connection)
            .map_err(|_| Exhausted::Tasks)
    }
}
