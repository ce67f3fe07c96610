//! How the worker is woken, which is by a flag, and how it finds the pipes that are ready.

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

/// Set when another thread has completed a ticket.
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    /// Clears the flag. Returns whether it was set.
    pub(super) fn take(&self) -> bool {
        // Acquire: pairs with `wake_by_ref`. The mailbox's lock orders its content anyway.
        self.0.swap(false, Ordering::Acquire)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: pairs with `take`.
        self.0.store(true, Ordering::Release);
    }
}

/// The pipes of the worker, and the events that it waits for on each.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    by_slot: RefCell<Vec<(Weak<RefCell<Pipe>>, Interest)>>,
}

impl Pipes {
    /// The events that are due. As with epoll, a hang-up is reported whatever the interest.
    pub(super) fn ready(&self) -> Vec<Ready> {
        let by_slot = self.by_slot.borrow();
        let event = |(slot, (pipe, interest)): (Slot, &(Weak<RefCell<Pipe>>, Interest))| {
            let pipe = pipe.upgrade()?;
            let pipe = pipe.borrow();
            if pipe.to_server.is_receiver_closed {
                // The server has closed its end. The client still holds the pipe.
                return None;
            }
            let hung_up = pipe.to_client.is_receiver_closed;
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
