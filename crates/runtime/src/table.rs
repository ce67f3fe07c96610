//! A worker's connections, each at its place.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::census::Census;
use crate::connection::Connection;

/// Where a connection stands in its worker.
pub(crate) type Place = usize;

/// A worker's connections.
#[derive(Debug)]
pub(crate) struct Table<W> {
    connections: Vec<Option<Box<Connection<W>>>>,
    free: Vec<Place>,
}

impl<W> Table<W> {
    pub(crate) fn new() -> Self {
        Self {
            connections: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn get(&self, place: Place) -> Option<&Connection<W>> {
        self.connections.get(place)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Connection<W>> {
        self.connections.get_mut(place)?.as_deref_mut()
    }

    /// Gives a connection a place.
    pub(crate) fn add(&mut self, connection: Connection<W>) -> Place {
        let connection = Some(Box::new(connection));
        if let Some(place) = self.free.pop() {
            self.connections[place] = connection;
            return place;
        }
        self.connections.push(connection);
        self.connections.len() - 1
    }

    /// Closes a connection, if one is there.
    pub(crate) fn close(&mut self, place: Place, census: &Census) {
        let connection = self.connections.get_mut(place).and_then(Option::take);
        if connection.is_some() {
            drop(connection);
            self.free.push(place);
            census.leave();
        }
    }

    /// Closes all, after a panic that may have been in any of them; how many they were.
    pub(crate) fn close_all(self, census: &Census) -> u64 {
        let mut count = 0;
        for connection in self.connections.into_iter().flatten() {
            // One whose own end panics must not keep the others.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(connection)));
            census.leave();
            count += 1;
        }
        count
    }

    /// Places there have been, taken or free.
    pub(crate) fn places(&self) -> std::ops::Range<Place> {
        0..self.connections.len()
    }

    /// Whether nobody is connected.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.iter().all(Option::is_none)
    }
}
