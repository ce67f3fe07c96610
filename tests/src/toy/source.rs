//! The source of the toy service: the requests that wait until the test completes them.
#![allow(clippy::unwrap_used, reason = "only tests use it, and a test may")]
#![allow(
    clippy::missing_panics_doc,
    reason = "only tests use it, and a test may"
)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use service::Ticket;

/// The requests to complete, and the number of their leases.
#[derive(Default)]
pub struct Source {
    /// The requests that the test has not taken.
    pub waiting: Mutex<Vec<(Lease, Ticket<Lease>)>>,
    leased: Arc<AtomicUsize>,
    /// Whether the service's next step of maintenance panics.
    pub fails_maintenance: AtomicBool,
}

/// A piece of the source's memory, lent to one request. Dropping it returns the memory.
pub struct Lease {
    /// The request, which is also the reply.
    pub line: Vec<u8>,
    count: Arc<AtomicUsize>,
}

impl Source {
    /// The number of leases that have not been dropped.
    pub fn leased(&self) -> usize {
        self.leased.load(Ordering::Relaxed)
    }

    /// Takes all waiting requests.
    pub fn take(&self) -> Vec<(Lease, Ticket<Lease>)> {
        std::mem::take(&mut self.waiting.lock().unwrap())
    }

    /// Adds a request.
    pub(super) fn add(&self, line: &[u8], ticket: Ticket<Lease>) {
        self.leased.fetch_add(1, Ordering::Relaxed);
        let (line, count) = (line.to_vec(), Arc::clone(&self.leased));
        let lease = Lease { line, count };
        self.waiting.lock().unwrap().push((lease, ticket));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
