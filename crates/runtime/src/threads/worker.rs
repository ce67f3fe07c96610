//! The interface of `threads` to the code that it shares with `fibres`. A thread runs each turn
//! with a context borrowed from the pool.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use service::Worker;

use super::Threads;
use super::wake::BlockingSocket;
use crate::acceptor::Exhausted;
use crate::connection_tasks::{ContextChoice, Peer, TaskRuntime};
use crate::worker_context::{Maintained, WorkerContext};

impl<S: Worker> TaskRuntime for Threads<S> {
    type Service = S;
    type Task = JoinHandle<()>;
    type PeerSocket = BlockingSocket;

    fn spawn(
        &self,
        serve_connection: impl FnOnce() + Send + 'static,
    ) -> Result<Self::Task, Exhausted> {
        self.start(serve_connection)
    }

    fn socket(&self, peer: &Arc<Peer>) -> io::Result<Self::PeerSocket> {
        BlockingSocket::new(peer)
    }

    fn with_context<R: Send>(&self, work: impl FnOnce(&mut WorkerContext<S>) -> R + Send) -> R {
        work(&mut self.contexts.borrow())
    }

    fn maintain(&self, choice: ContextChoice, now_ns: u64) -> Option<Maintained> {
        let mut context = self.contexts.try_borrow(choice)?;
        Some(context.maintain_now(now_ns))
    }

    fn contexts(&self) -> usize {
        self.contexts.count()
    }

    // Each thread ends when its connection is closed.
    fn stop(&self) {}
}
