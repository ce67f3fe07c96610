//! A fibre ends by itself, and the supervisor joins it. The processors end after the last fibre.

use std::any::Any;
use std::sync::PoisonError;
use std::time::Duration;

use fibre::JoinHandle;
use service::Worker;

use super::Fibres;
use crate::connection_tasks::Task;
use crate::limits::DRAIN_NS;

impl Task for JoinHandle<()> {
    fn join(self) -> Result<(), Box<dyn Any + Send>> {
        Self::join(self)
    }
}

impl<S: Worker> Fibres<S> {
    /// Stops the processors after the last connection has ended.
    pub(super) fn end(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime.take();
        if let Some(runtime) = runtime {
            // All fibres have been joined.
            let _ = runtime.stop(Duration::from_nanos(DRAIN_NS));
        }
    }
}
