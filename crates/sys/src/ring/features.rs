//! What a kernel's io_uring does beyond what a ring cannot do without.

use io_uring::{IoUring, Probe, opcode};

use super::receive_buffers::Pool;

/// Optional features of the kernel. A ring uses the first two where available. The others are not
/// used yet; they show which machines could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Nothing happens but while the ring's own thread waits (Linux 6.1).
    pub has_deferred_completions: bool,
    /// A buffer is used bit by bit, by several receives (Linux 6.12).
    pub has_incremental_buffers: bool,
    /// Bytes can be sent from where they are, without a copy (Linux 6.0).
    pub sends_without_copy: bool,
    /// One request can send several buffers (Linux 6.10).
    pub sends_bundles: bool,
}

impl Features {
    /// Of a ring as it was made, and of its kernel.
    pub(super) fn of(uring: &IoUring, pool: &Pool) -> Self {
        let mut operations = Probe::new();
        // Where the kernel does not list its operations, none is known to be there.
        let is_listed = uring.submitter().register_probe(&mut operations).is_ok();
        let parameters = uring.params();
        Self {
            has_deferred_completions: parameters.is_setup_single_issuer(),
            has_incremental_buffers: pool.is_incremental(),
            sends_without_copy: is_listed && operations.is_supported(opcode::SendZc::CODE),
            sends_bundles: parameters.is_feature_recvsend_bundle(),
        }
    }
}
