//! How a thread of a connection stops: its function returns when the connection is closed, and the
//! supervisor joins it.

use std::any::Any;
use std::thread::JoinHandle;

use crate::connection_tasks::Task;

impl Task for JoinHandle<()> {
    fn join(self) -> Result<(), Box<dyn Any + Send>> {
        Self::join(self)
    }
}
