//! How `fibres` stops. The main function of a fibre returns when its connection is closed, and the
//! supervisor thread joins the fibre. The processors (the kernel threads that run fibres) are
//! stopped after the last fibre has ended.

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
    /// Stops the processors. Called after the last fibre has been joined.
    pub(super) fn end(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime.take();
        if let Some(runtime) = runtime {
            // The only possible error is that some fibres have not ended. But all have ended.
            let _ = runtime.stop(Duration::from_nanos(DRAIN_NS));
        }
    }
}
