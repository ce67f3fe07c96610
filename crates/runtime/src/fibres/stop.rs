//! How a fibre ends: by itself, and the attendant waits for it; then the processors.

use std::any::Any;
use std::sync::PoisonError;
use std::time::Duration;

use fibre::JoinHandle;

use super::Fibres;
use crate::connection_tasks::Task;
use crate::limits::DRAIN_NS;

impl Task for JoinHandle<()> {
    fn join(self) -> Result<(), Box<dyn Any + Send>> {
        Self::join(self)
    }
}

impl Fibres {
    /// Ends the processors: nobody converses any more.
    pub(super) fn end(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime.take();
        if let Some(runtime) = runtime {
            // All have been joined: none is left.
            let _ = runtime.stop(Duration::from_nanos(DRAIN_NS));
        }
    }
}
