//! A thread ends by itself, and the supervisor joins it.

use std::any::Any;
use std::thread::JoinHandle;

use crate::connection_tasks::Task;

impl Task for JoinHandle<()> {
    fn join(self) -> Result<(), Box<dyn Any + Send>> {
        Self::join(self)
    }
}
