//! The spool: memory outside the segments, for values of slow peers that may hold no segment
//! (`heap/holds.rs`).

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::store::Store;
use crate::sync::Arc;

/// A buffer in the spool. Its capacity stays charged until it is dropped.
pub struct Spooled {
    store: Arc<Store>,
    bytes: Vec<u8>,
    charged: usize,
}

impl Store {
    /// Returns an empty buffer for `len` bytes. `None` if the spool has no space for them.
    pub fn spool(self: &Arc<Self>, len: usize) -> Option<Spooled> {
        let memory_bytes = self.config().memory_bytes;
        self.holds.spool(len, memory_bytes).then(|| Spooled {
            store: Arc::clone(self),
            bytes: Vec::with_capacity(len),
            charged: len,
        })
    }
}

impl Deref for Spooled {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Spooled {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl fmt::Debug for Spooled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spooled({} of {} bytes)", self.bytes.len(), self.charged)
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        self.store.holds.unspool(self.charged);
    }
}
