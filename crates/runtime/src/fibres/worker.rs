//! What a conversation's fibre works with: the desk of the processor it is on.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError};

use super::wake::Waiting;
use super::{Desks, Fibres};
use crate::acceptor::Exhausted;
use crate::desk::Desk;
use crate::hall::{Crew, Peer, Which};

impl Desks {
    /// A processor's. Nobody else has it for longer than a step of maintenance.
    pub(super) fn of(&self, processor: usize) -> MutexGuard<'_, Desk> {
        let kept = &self.all[processor];
        kept.lock().unwrap_or_else(|poisoned| {
            // Whoever had it panicked.
            kept.clear_poison();
            let mut desk = poisoned.into_inner();
            desk.renew();
            desk
        })
    }

    /// That of the processor this fibre is on.
    fn own(&self) -> MutexGuard<'_, Desk> {
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
            let mut desk = self.desks.own();
            let result = work(&mut desk);
            desk.store.quiescent();
            result
        })
    }

    fn maintain(&self, which: Which, every_ns: u64, now_ns: u64) -> Option<bool> {
        let last_ns = self.maintained_ns.load(Ordering::Relaxed);
        if now_ns.saturating_sub(last_ns) < every_ns {
            return None;
        }
        self.maintained_ns.store(now_ns, Ordering::Relaxed);
        match which {
            Which::UsedLast => fibre::on_processor_stack(|| {
                let mut desk = self.desks.own();
                let has_more = desk.maintain_store(now_ns);
                desk.store.quiescent();
                Some(has_more)
            }),
            Which::UsedFirst => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                let desk = self.desks.all[turn % self.desks.all.len()].try_lock();
                // Whose processor is at work maintains it itself, or will renew it.
                let mut desk = match desk {
                    Ok(desk) => desk,
                    Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return None,
                };
                let has_more = desk.maintain_store(now_ns);
                // The next who works at it wakes it.
                desk.store.offline();
                Some(has_more)
            }
        }
    }

    fn desks(&self) -> usize {
        self.desks.all.len()
    }

    fn dismiss(&self) {
        self.end();
    }
}
