//! What completes the lines of the toy service: the test.
#![allow(clippy::unwrap_used, reason = "only tests use it, and a test may")]
#![allow(
    clippy::missing_panics_doc,
    reason = "only tests use it, and a test may"
)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use service::Ticket;

/// The lines to complete, and the memory leased to them.
#[derive(Default)]
pub struct Source {
    /// What it has been asked for and nobody has taken.
    pub asked: Mutex<Vec<(Lease, Ticket<Lease>)>>,
    leased: Arc<AtomicUsize>,
    /// The next step of maintenance of the service panics.
    pub fails_maintenance: AtomicBool,
}

/// Memory of the source. It comes back when it is dropped.
pub struct Lease {
    /// The line, which is the answer too.
    pub line: Vec<u8>,
    count: Arc<AtomicUsize>,
}

impl Source {
    /// How much memory is leased.
    pub fn leased(&self) -> usize {
        self.leased.load(Ordering::Relaxed)
    }

    /// The lines asked for so far, without those taken before.
    pub fn take(&self) -> Vec<(Lease, Ticket<Lease>)> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    pub(super) fn ask(&self, line: &[u8], ticket: Ticket<Lease>) {
        self.leased.fetch_add(1, Ordering::Relaxed);
        let (line, count) = (line.to_vec(), Arc::clone(&self.leased));
        let lease = Lease { line, count };
        self.asked.lock().unwrap().push((lease, ticket));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
