//! What the runtimes have in common that give each connection a task of its own: a thread, or a
//! fibre.
//!
//! ```text
//! acceptor ──▶ a task: receive → at a desk: prepare, answer → send → …
//!              attendant: joins who is done, closes slow holders, goes on with maintenance
//! ```
//!
//! A desk (a handle on the store, counters, a list of requests) is tens of KiB and a seat that
//! whoever reclaims memory asks. So there are as many as workers, whatever the connections, and a
//! conversation has one for the length of a burst only: between receiving and sending, without a
//! system call in between. One burst answers one connection, so that nothing is fetched ahead for
//! others, but where a processor of fibres sees what has come before any of it runs
//! (`fibres/wake.rs`).

mod attend;
mod buffered;
mod conversation;
mod live;

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use session::Output;
use sys::socket::Stream;

use crate::acceptor::{Exhausted, Host, turn_away};
use crate::desk::Desk;
use crate::inbox::Inbox;
use crate::limits::MAINTAIN_EVERY_NS;
use crate::running::Running;
use crate::setup::Setup;
use crate::transport::Transport;
use attend::Attendant;
use conversation::converse;
use live::Live;
pub(crate) use live::Peer;

/// What all conversations share.
pub(crate) struct Hall<C: Crew> {
    setup: Arc<Setup>,
    pub(crate) crew: C,
    live: Live<C::Task>,
    /// Conversations there may be at once.
    most: usize,
    /// Rouses the attendant.
    inbox: Arc<Inbox>,
    ending: Arc<AtomicBool>,
    /// The attendant has been told that the store has more to do.
    has_more: AtomicBool,
    /// When the store was last maintained.
    maintained_ns: AtomicU64,
    /// What tasks that sleep keep outside the store.
    buffered: Mutex<u64>,
}

/// Which desk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which {
    /// The one whose memory is nearest: what it drains, the next write would go on with.
    UsedLast,
    /// The one that has slept longest, or each in turn: what one had begun to drain must not lie
    /// for ever.
    UsedFirst,
}

/// Who runs the conversations.
pub(crate) trait Crew: Send + Sync + Sized + 'static {
    /// A conversation that runs.
    type Task: Task;
    /// How a conversation waits for its peer.
    type Line: Line;

    /// Starts a conversation.
    ///
    /// # Errors
    /// There is none to be had.
    fn engage(&self, converse: impl FnOnce() + Send + 'static) -> Result<Self::Task, Exhausted>;

    /// The conversation's own: how it is to wait for its peer.
    ///
    /// # Errors
    /// The connection is lost already, or the kernel has no room to watch it.
    fn line(&self, peer: &Arc<Peer>) -> io::Result<Self::Line>;

    /// Does a burst's work at a desk. It makes no system call.
    fn at_desk<R: Send>(&self, work: impl FnOnce(&mut Desk) -> R + Send) -> R;

    /// Does a step of the store's maintenance, if a desk is free; true: there is more to do.
    fn maintain(&self, which: Which, now_ns: u64) -> Option<bool>;

    /// How many desks there are.
    fn desks(&self) -> usize;

    /// The last conversation is over.
    fn dismiss(&self);
}

/// A conversation that runs.
pub(crate) trait Task: Send + 'static {
    /// Waits for its end.
    ///
    /// # Errors
    /// It panicked: with what.
    fn join(self) -> Result<(), Box<dyn Any + Send>>;
}

/// How a conversation waits for its peer. An error that passes is tried again, but of an exchange.
pub(crate) trait Line: Send {
    /// Waits for bytes; 0 is the peer's end.
    fn receive(&self, room: &mut [u8]) -> io::Result<usize>;

    /// Sends from byte `sent` on, `most` bytes at most, what there is room for now.
    fn send_now(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize>;

    /// Sends from byte `sent` on, `most` bytes at most; waits for room.
    fn send_once(&self, output: &Output, sent: usize, most: usize) -> io::Result<usize>;

    /// Whether [`Line::exchange`] is better than sending and receiving.
    fn exchanges(&self) -> bool;

    /// Sends all of `bytes`, then receives; any error means that the connection is lost.
    fn exchange(&self, bytes: &[u8], room: &mut [u8]) -> io::Result<usize>;

    /// Lets other conversations have their turn: this one has more to do, or might never wait,
    /// where its peer sends without end and it does not [exchange](Line::exchange).
    fn let_others(&self);

    /// Waits so long, or until the peer is gone or lost: true.
    fn hangs_up_within(&self, timeout_ns: u64) -> bool;
}

impl<C: Crew> Hall<C> {
    /// Starts the attendant; what it returns gives each connection its task.
    ///
    /// # Errors
    /// No descriptor or thread left.
    pub(crate) fn open(
        running: &mut Running,
        setup: &Arc<Setup>,
        crew: C,
        most: usize,
    ) -> io::Result<Arc<Self>> {
        let hall = Arc::new(Self {
            setup: Arc::clone(setup),
            crew,
            live: Live::default(),
            most,
            inbox: Arc::clone(&running.inboxes[0]),
            ending: Arc::clone(&running.ending),
            has_more: AtomicBool::new(false),
            maintained_ns: AtomicU64::new(0),
            buffered: Mutex::default(),
        });
        let attendant = Attendant::new(Arc::clone(&hall))?;
        running.spawn("attendant".to_owned(), move || attendant.run())?;
        Ok(hall)
    }

    /// Does a step of the store's maintenance if it is time for one and a desk is free; the
    /// attendant goes on with what is left.
    fn maintain(&self, now_ns: u64) {
        // As often as so many workers of another runtime would, together.
        let every_ns = MAINTAIN_EVERY_NS / self.crew.desks().max(1) as u64;
        if !self.is_maintenance_due(every_ns, now_ns) {
            return;
        }
        let maintained = self.maintain_at(Which::UsedLast, now_ns);
        let Some(has_more) = maintained else { return };
        if self.setup.store.wants_tending() {
            self.setup.control.wake_maintenance();
        }
        if has_more && !self.has_more.swap(true, Ordering::Relaxed) {
            self.inbox.waker.wake();
        }
    }

    /// Whether the last step was so long ago.
    fn is_maintenance_due(&self, every_ns: u64, now_ns: u64) -> bool {
        let last_ns = self.maintained_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(last_ns) >= every_ns
    }

    /// A step, if a desk is free; true: there is more to do.
    fn maintain_at(&self, which: Which, now_ns: u64) -> Option<bool> {
        let has_more = self.crew.maintain(which, now_ns)?;
        self.maintained_ns.store(now_ns, Ordering::Relaxed);
        Some(has_more)
    }

    /// Starts a peer's conversation.
    fn engage(self: &Arc<Self>, peer: &Arc<Peer>) -> Result<(), Exhausted> {
        let place = self.live.enter(Arc::clone(peer), self.most);
        let place = place.ok_or(Exhausted::Tasks)?;
        let (its_hall, its_peer) = (Arc::clone(self), Arc::clone(peer));
        let engaged = self
            .crew
            .engage(move || converse(its_hall, its_peer, place));
        match engaged {
            Ok(task) => {
                if self.live.settle(place, task) {
                    self.inbox.waker.wake();
                }
                Ok(())
            }
            Err(exhausted) => {
                self.live.withdraw(place);
                Err(exhausted)
            }
        }
    }
}

impl<C: Crew> Host for Arc<Hall<C>> {
    fn take(&mut self, stream: Stream) -> Result<(), Exhausted> {
        let now_s = self.setup.clock.now().elapsed_s;
        let peer = Arc::new(Peer::new(Transport::Plain(stream), now_s));
        self.engage(&peer).inspect_err(|_| {
            let Transport::Plain(stream) = &peer.transport;
            turn_away(stream, &self.setup.census);
        })
    }

    /// Everybody has a task of their own: nobody sleeps on a new connection.
    fn rouse(&mut self) {}
}

#[cfg(test)]
mod tests;
