//! The connections of a worker, indexed by slot. A slot is reused after its connection has been
//! closed. So each connection has a number, its *generation*, which distinguishes it from the
//! earlier connections in the same slot.

use std::panic::{AssertUnwindSafe, catch_unwind};

use service::{ConnectionId, Worker};

use crate::connection::Connection;
use crate::connection_counts::ConnectionCounts;

/// Index of a connection in its worker's table.
pub(crate) type Slot = usize;

/// The connections of a worker. `S` is the service's state in the worker. `I` is the transport of a
/// connection, with the state that the runtime keeps for it.
pub(crate) struct ConnectionTable<S: Worker, I> {
    connections: Vec<Option<Box<Connection<S, I>>>>,
    /// The slots without a connection.
    free: Vec<Slot>,
    /// The generation of the next connection. Wraps to 0 after 2³² connections.
    generation: u32,
}

impl<S: Worker, I> ConnectionTable<S, I> {
    pub(crate) fn new() -> Self {
        Self {
            connections: Vec::new(),
            free: Vec::new(),
            generation: 0,
        }
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Connection<S, I>> {
        self.connections.get(slot)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Connection<S, I>> {
        self.connections.get_mut(slot)?.as_deref_mut()
    }

    /// Returns the connection with the slot and the generation of `id`, or `None` if it has been
    /// closed.
    pub(crate) fn find(&mut self, id: ConnectionId) -> Option<&mut Connection<S, I>> {
        self.get_mut(id.slot as Slot)
            .filter(|connection| connection.generation == id.generation)
    }

    /// Stores a connection in a free slot, gives it the next generation, and returns the slot.
    pub(crate) fn add(&mut self, mut connection: Connection<S, I>) -> Slot {
        connection.generation = self.generation;
        self.generation = self.generation.wrapping_add(1);
        let connection = Some(Box::new(connection));
        if let Some(slot) = self.free.pop() {
            self.connections[slot] = connection;
            return slot;
        }
        self.connections.push(connection);
        self.connections.len() - 1
    }

    /// Drops the connection in a slot, which closes its transport. Frees the slot, and counts the
    /// connection as closed. Does nothing if the slot is free.
    pub(crate) fn close(&mut self, slot: Slot, counts: &ConnectionCounts) {
        let connection = self.connections.get_mut(slot).and_then(Option::take);
        if connection.is_some() {
            drop(connection);
            self.free.push(slot);
            counts.count_closed();
        }
    }

    /// Drops all connections, counts them as closed, and returns their number. Used when the
    /// worker's loop has failed: by a panic, which may have left any connection inconsistent, or by
    /// an error of its wait for events.
    pub(crate) fn close_all(self, counts: &ConnectionCounts) -> u64 {
        let mut count = 0;
        for connection in self.connections.into_iter().flatten() {
            // If dropping one connection panics, the next connections are still dropped and
            // counted.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(connection)));
            counts.count_closed();
            count += 1;
        }
        count
    }

    /// Returns the range of all slots, including free slots.
    pub(crate) fn slots(&self) -> std::ops::Range<Slot> {
        0..self.connections.len()
    }

    /// Returns whether all slots are free.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.connections.len()
    }
}
