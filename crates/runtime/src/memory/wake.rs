//! The two ways in which the worker of the runtime `memory` gets work: other threads wake it with a
//! flag, and it searches for pipes that are ready. (The connections of this runtime are pipes in
//! memory.)

use std::cell::RefCell;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use sys::poll::{Interest, Ready};

use super::pipe::{MemoryTransport, Pipe};
use crate::connection_table::Slot;
use crate::readiness::Registry;

/// A flag that another thread sets when it has completed a ticket (has produced the result for
/// which a connection waits). The worker checks the flag after each burst.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    /// Clears the flag. Returns whether it was set.
    pub(crate) fn take(&self) -> bool {
        // Acquire: pairs with the release in `wake_by_ref`. (The results themselves do not depend
        // on this pair, because they are in a mailbox with a lock.)
        self.0.swap(false, Ordering::Acquire)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: pairs with the acquire in `take`.
        self.0.store(true, Ordering::Release);
    }
}

/// The pipes of the worker's connections, each with the events that the worker waits for. The index
/// is the connection's slot.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    by_slot: RefCell<Vec<(Weak<RefCell<Pipe>>, Interest)>>,
}

impl Pipes {
    /// Returns the present events of all pipes. As with epoll, a hang-up is reported even if the
    /// interest is `None`.
    pub(super) fn ready(&self) -> Vec<Ready> {
        let by_slot = self.by_slot.borrow();
        let event = |(slot, (pipe, interest)): (Slot, &(Weak<RefCell<Pipe>>, Interest))| {
            let pipe = pipe.upgrade()?;
            let pipe = pipe.borrow();
            let is_closed_by_server = pipe.to_server.is_receiver_closed;
            if is_closed_by_server {
                // There are no events for this connection. The pipe still exists because the client
                // has not dropped its end.
                return None;
            }
            let is_closed_by_client = pipe.to_client.is_receiver_closed;
            let hung_up = is_closed_by_client;
            let writable = *interest == Interest::Write && pipe.to_client.is_writable();
            let readable = *interest == Interest::Read && pipe.to_server.is_readable();
            (hung_up || writable || readable).then_some(Ready {
                token: slot as u64,
                readable,
                writable,
                hung_up,
            })
        };
        by_slot.iter().enumerate().filter_map(event).collect()
    }
}

impl Registry<MemoryTransport> for Pipes {
    fn add(&self, transport: &MemoryTransport, slot: Slot, interest: Interest) -> io::Result<()> {
        let mut by_slot = self.by_slot.borrow_mut();
        if by_slot.len() <= slot {
            by_slot.resize(slot + 1, (Weak::new(), Interest::None));
        }
        by_slot[slot] = (Rc::downgrade(&transport.pipe), interest);
        Ok(())
    }

    fn change(
        &self,
        transport: &MemoryTransport,
        slot: Slot,
        interest: Interest,
    ) -> io::Result<()> {
        self.add(transport, slot, interest)
    }
}
