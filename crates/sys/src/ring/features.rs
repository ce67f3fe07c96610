//! What a kernel's io_uring does beyond what a ring cannot do without.

use io_uring::{IoUring, Probe, opcode};

use super::inputs::Pool;

/// Optional features of the kernel. A ring uses the first two where available. The others are not
/// used yet; they show which machines could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Nothing happens but while the ring's own thread waits (Linux 6.1).
    pub waits_for_its_thread: bool,
    /// A buffer is used bit by bit, by several receives (Linux 6.12).
    pub takes_parts: bool,
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
            waits_for_its_thread: parameters.is_setup_single_issuer(),
            takes_parts: pool.takes_parts(),
            sends_without_copy: is_listed && operations.is_supported(opcode::SendZc::CODE),
            sends_bundles: parameters.is_feature_recvsend_bundle(),
        }
    }
}
