//! What a conversation's fibre works with: the desk of the processor it is on.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use super::wake::Waiting;
use super::{Desks, Fibres, Kept};
use crate::acceptor::Exhausted;
use crate::desk::Desk;
use crate::hall::{Crew, Peer, Which};

impl Desks {
    /// A processor's. Nobody else has it for longer than a step of maintenance.
    pub(super) fn of(&self, processor: usize) -> MutexGuard<'_, Kept> {
        let place = &self.all[processor];
        place.lock().unwrap_or_else(|poisoned| {
            // Whoever had it panicked.
            place.clear_poison();
            let mut kept = poisoned.into_inner();
            kept.desk.renew();
            kept
        })
    }

    /// That of the processor this fibre is on.
    fn own(&self) -> MutexGuard<'_, Kept> {
        self.of(fibre::processor().unwrap_or(0))
    }
}

impl Crew for Fibres {
    type Task = fibre::JoinHandle<()>;
    type Line = Waiting;

    fn engage(&self, converse: impl FnOnce() + Send + 'static) -> Result<Self::Task, Exhausted> {
        self.start(converse)
    }

    fn line(&self, peer: &Arc<Peer>) -> io::Result<Self::Line> {
        Waiting::new(peer)
    }

    fn at_desk<R: Send>(&self, work: impl FnOnce(&mut Desk) -> R + Send) -> R {
        fibre::on_processor_stack(|| {
            let desk = &mut self.desks.own().desk;
            let result = work(desk);
            desk.store.quiescent();
            result
        })
    }

    fn maintain(&self, which: Which, now_ns: u64) -> Option<bool> {
        if let Which::UsedLast = which {
            return Some(self.at_desk(|desk| desk.maintain_store(now_ns)));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let kept = self.desks.all[turn % self.desks.all.len()].try_lock();
        // Whose processor is awake, that goes on with it, or sleeps soon.
        let mut kept = kept.ok().filter(|kept| kept.sleeps)?;
        let has_more = kept.desk.maintain_store(now_ns);
        // The next who works at it wakes it.
        kept.desk.store.offline();
        Some(has_more)
    }

    fn desks(&self) -> usize {
        self.desks.all.len()
    }

    fn dismiss(&self) {
        self.end();
    }
}
