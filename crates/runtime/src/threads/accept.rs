//! How a connection that was admitted is given a thread.

use std::sync::Arc;
use std::thread;

use sys::socket::Stream;

use super::Hall;
use super::wake::Peer;
use super::worker::converse;
use crate::acceptor::{Exhausted, Host, turn_away};
use crate::limits::CONVERSATION_STACK_LEN;
use crate::transport::Transport;

impl Host for Arc<Hall> {
    fn take(&mut self, stream: Stream) -> Result<(), Exhausted> {
        let now_s = self.setup.clock.now().elapsed_s;
        let peer = Arc::new(Peer::new(Transport::Plain(stream), now_s));
        start(self, &peer).inspect_err(|_| {
            let Transport::Plain(stream) = &peer.transport;
            turn_away(stream, &self.setup.census);
        })
    }

    /// Everybody has a thread of their own: nobody sleeps on a new connection.
    fn rouse(&mut self) {}
}

/// Starts a peer's thread.
fn start(hall: &Arc<Hall>, peer: &Arc<Peer>) -> Result<(), Exhausted> {
    let place = hall.live.enter(Arc::clone(peer), hall.conversations_max);
    let place = place.ok_or(Exhausted)?;
    let (its_hall, its_peer) = (Arc::clone(hall), Arc::clone(peer));
    let started = thread::Builder::new()
        .name("conversation".to_owned())
        .stack_size(CONVERSATION_STACK_LEN)
        .spawn(move || converse(its_hall, its_peer, place));
    let Ok(thread) = started else {
        hall.live.withdraw(place);
        return Err(Exhausted);
    };
    if hall.live.settle(place, thread) {
        hall.inbox.waker.wake();
    }
    Ok(())
}
