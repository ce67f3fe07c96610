//! Who holds how much memory: the ledger, the blocks it counts, and pins.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::HELD_PART;

/// An item's bytes: the key, then the value.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    bytes: Arc<[u8]>,
    key_len: u8,
}

impl Block {
    /// Room for a value behind `key`, zeroed.
    pub(crate) fn new(key: &[u8], value_len: usize) -> Self {
        let mut bytes = Arc::new_uninit_slice(key.len() + value_len);
        for byte in Arc::get_mut(&mut bytes).into_iter().flatten() {
            byte.write(0_u8);
        }
        // SAFETY: the loop has just written every byte: nobody else has the new block yet, so
        // `get_mut` cannot have refused.
        let mut bytes = unsafe { bytes.assume_init() };
        if let Some(bytes) = Arc::get_mut(&mut bytes) {
            bytes[..key.len()].copy_from_slice(key);
        }
        let key_len = u8::try_from(key.len()).unwrap_or(u8::MAX);
        assert!(
            usize::from(key_len) == key.len(),
            "a key longer than any protocol's"
        );
        Self { bytes, key_len }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_len)]
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[usize::from(self.key_len)..]
    }

    /// The value's bytes while nobody else can see them; empty once somebody can.
    pub(crate) fn value_mut(&mut self) -> &mut [u8] {
        let start = usize::from(self.key_len);
        Arc::get_mut(&mut self.bytes).map_or(&mut [], |bytes| &mut bytes[start..])
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes)
    }

    /// What the ledger counts for it: the bytes, the two counts in front of them, and what the
    /// allocator adds (a word, and the next multiple of sixteen).
    pub(crate) fn charge(&self) -> u64 {
        charge_of(self.bytes.len())
    }
}

/// What the ledger counts for a block of `len` bytes of key and value.
pub(crate) fn charge_of(len: usize) -> u64 {
    (len as u64 + 16 + 8).next_multiple_of(16).max(32)
}

/// The sums that `-m` bounds.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit: u64,
    /// Items, index and uploads.
    used: AtomicU64,
    /// Blocks that pins hold. A pinned item that is still in the index counts twice: the sum errs
    /// on the side of the bound.
    pinned: AtomicU64,
    /// Pins, and uploads that wait for their bytes: bounded on their own.
    held: AtomicU64,
}

impl Ledger {
    pub(crate) fn new(limit: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            limit,
            used: zero(),
            pinned: zero(),
            held: zero(),
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn pinned(&self) -> u64 {
        self.pinned.load(Ordering::Relaxed)
    }

    /// Counts `bytes` if they fit.
    pub(crate) fn try_charge(&self, bytes: u64) -> bool {
        let pinned = self.pinned();
        let charge = |used: u64| Some(used + bytes).filter(|sum| sum + pinned <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge)
            .is_ok()
    }

    /// Counts `bytes` whether they fit or not; the caller makes room afterwards.
    pub(crate) fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn held_limit(&self) -> u64 {
        self.limit / HELD_PART
    }

    /// Counts `bytes` as held beyond a burst, if they may be. The first holder always may, so that
    /// a small memory still serves its largest item.
    fn try_hold(&self, bytes: u64) -> bool {
        let limit = self.held_limit();
        let hold = |held: u64| Some(held + bytes).filter(|&sum| held == 0 || sum <= limit);
        self.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, hold)
            .is_ok()
    }

    fn let_go(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn try_wait(&self, bytes: u64) -> bool {
        self.try_hold(bytes)
    }

    pub(crate) fn stop_waiting(&self, bytes: u64) {
        self.let_go(bytes);
    }

    fn try_pin(&self, bytes: u64) -> bool {
        let may = self.try_hold(bytes);
        if may {
            self.pinned.fetch_add(bytes, Ordering::Relaxed);
        }
        may
    }

    fn unpin(&self, bytes: u64) {
        self.pinned.fetch_sub(bytes, Ordering::Relaxed);
        self.let_go(bytes);
    }
}

/// A value held for as long as its owner needs it, whatever happens to its item.
#[derive(Debug)]
pub struct Pin {
    block: Block,
    ledger: Arc<Ledger>,
}

impl Pin {
    pub(crate) fn take(block: &Block, ledger: &Arc<Ledger>) -> Option<Self> {
        let pin = || Self {
            block: block.clone(),
            ledger: Arc::clone(ledger),
        };
        ledger.try_pin(block.charge()).then(pin)
    }

    /// The value's pieces, in order.
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.block.value())
    }

    /// Length of the value in bytes.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.block.value().len()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.ledger.unpin(self.block.charge());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_who_want_to_hold_at_once_do_not_both() {
        let ledger = Ledger::new(8 << 20);
        let holders = AtomicU64::new(0);
        let hold_now_and_then = || {
            for _ in 0..200_000 {
                // More than the limit: only the first of all may.
                if ledger.try_wait(2 << 20) {
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    holders.fetch_sub(1, Ordering::SeqCst);
                    ledger.stop_waiting(2 << 20);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(hold_now_and_then);
            }
        });
    }
}
