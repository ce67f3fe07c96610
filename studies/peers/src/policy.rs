//! Eviction policies by bytes.
//!
//! A policy looks up one record after another. It returns whether the record is there, and is then
//! given those that were not. Records are numbers below a bound, so that every policy finds them in
//! an array and none is favoured by its hash table; what a table would cost is part of the bytes
//! that the caller charges for each record.

mod gdsf;
mod lru;
mod optimum;
mod queue;
mod s3_fifo;
mod sieve;
mod tiny_lfu;

pub use gdsf::Gdsf;
pub use lru::Lru;
pub use optimum::{Access, Optimum};
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use tiny_lfu::TinyLfu;

/// An eviction policy at work.
pub trait Policy {
    /// Looks `record` up, which counts as a request for it. Returns whether it is kept.
    fn lookup(&mut self, record: u32) -> bool;

    /// Stores `record`, which takes `bytes` of the capacity while it is kept (its own length and
    /// whatever the design spends on it), unless it is larger than the whole or the policy does not
    /// admit it. Does nothing if it is kept already.
    fn insert(&mut self, record: u32, bytes: u32);

    /// Looks `record` up, and stores it after a miss. Returns whether it was there.
    fn request(&mut self, record: u32, bytes: u32) -> bool {
        let is_kept = self.lookup(record);
        if !is_kept {
            self.insert(record, bytes);
        }
        is_kept
    }

    /// Stores `record` anew, whether it was there or not. Designs that replace a record where it is
    /// see a request like others.
    fn write(&mut self, record: u32, bytes: u32) {
        self.request(record, bytes);
    }

    /// Bytes kept now, at most the capacity.
    fn used(&self) -> u64;
}

/// A record's number, scattered: SplitMix64 (Steele and others, OOPSLA 2014).
pub(crate) fn scattered(record: u32) -> u64 {
    let mut bits = u64::from(record).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
