//! What a conversation's thread works with: a desk, borrowed for a burst.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::Threads;
use super::wake::Blocking;
use crate::acceptor::Exhausted;
use crate::desk::Desk;
use crate::hall::{Crew, Peer, Which};

impl Crew for Threads {
    type Task = JoinHandle<()>;
    type Line = Blocking;

    fn engage(&self, converse: impl FnOnce() + Send + 'static) -> Result<Self::Task, Exhausted> {
        self.start(converse)
    }

    fn line(&self, peer: &Arc<Peer>) -> io::Result<Self::Line> {
        Blocking::new(peer)
    }

    fn at_desk<R: Send>(&self, work: impl FnOnce(&mut Desk) -> R + Send) -> R {
        work(&mut self.desks.borrow())
    }

    fn maintain(&self, which: Which, now_ns: u64) -> Option<bool> {
        let mut desk = self.desks.borrow_if_free(which)?;
        Some(desk.maintain_store(now_ns))
    }

    fn desks(&self) -> usize {
        self.desks.count()
    }

    fn dismiss(&self) {}
}
