//! The spool: memory outside the segments, for values of slow peers that may hold no segment
//! (`heap/holds.rs`). It is charged by its bytes.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::store::Store;
use crate::sync::Arc;

/// A charge for a number of bytes, until it is dropped.
pub struct SpoolCharge {
    store: Arc<Store>,
    bytes: usize,
}

/// A buffer with the charge for its bytes.
#[derive(Debug)]
pub struct Spooled<B> {
    buffer: B,
    _charge: SpoolCharge,
}

impl Store {
    /// Charges bytes to the spool. Returns `None` if it has no space for them.
    pub fn spool(self: &Arc<Self>, bytes: usize) -> Option<SpoolCharge> {
        self.holds
            .spool(bytes, self.config().memory_bytes)
            .then(|| SpoolCharge {
                store: Arc::clone(self),
                bytes,
            })
    }
}

impl<B> Spooled<B> {
    /// `charge` is for the bytes of `buffer`.
    pub fn new(buffer: B, charge: SpoolCharge) -> Self {
        Self {
            buffer,
            _charge: charge,
        }
    }
}

impl<B> Deref for Spooled<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.buffer
    }
}

impl<B> DerefMut for Spooled<B> {
    fn deref_mut(&mut self) -> &mut B {
        &mut self.buffer
    }
}

impl fmt::Debug for SpoolCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpoolCharge({})", self.bytes)
    }
}

impl Drop for SpoolCharge {
    fn drop(&mut self) {
        self.store.holds.unspool(self.bytes);
    }
}
