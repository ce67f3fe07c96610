//! The features of a kernel's io_uring that a ring does not need.

use io_uring::{IoUring, Probe, opcode};

use super::receive_buffers::Pool;

/// The optional io_uring features of a kernel. A ring uses the first two if they are available. The
/// others are not used yet; they are reported to show which machines have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// The kernel processes completions only while the ring's thread waits (Linux 6.1,
    /// `IORING_SETUP_DEFER_TASKRUN`). It does not interrupt the thread for them.
    pub has_deferred_completions: bool,
    /// Several receives use consecutive parts of one receive buffer (Linux 6.12,
    /// `IOU_PBUF_RING_INC`). Without it, each receive occupies a complete buffer.
    pub has_incremental_buffers: bool,
    /// Bytes can be sent without copying them into the kernel (Linux 6.0, `IORING_OP_SEND_ZC`).
    pub sends_without_copy: bool,
    /// One operation can send several buffers (Linux 6.10, `IORING_FEAT_RECVSEND_BUNDLE`).
    pub sends_bundles: bool,
}

impl Features {
    /// Returns the features of the kernel, as found by creating this ring and its buffer pool.
    pub(super) fn of(uring: &IoUring, pool: &Pool) -> Self {
        let mut operations = Probe::new();
        // A kernel that cannot list its operations is taken to have none of the optional ones.
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
