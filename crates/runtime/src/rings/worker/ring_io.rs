//! The socket of a connection of `rings`, and the state of its operations in the kernel.
//!
//! A connection may have up to four operations in progress in the kernel: a receive, a send, a wait
//! for a writable socket, and a wait for a hang-up. The kernel posts an event when an operation
//! ends. Each of these events names a slot of the worker's table. So the slot of a closed
//! connection is kept until the connection's last operation has ended. Otherwise the next
//! connection in that slot would get an event of the closed connection.

use sys::ring::ReceivedBytes;

use crate::connection::ConnectionIo;
use crate::transport::SocketTransport;

/// The socket of a connection, and the state of its operations in the worker's ring.
pub(in crate::rings) struct RingIo {
    pub(in crate::rings) transport: SocketTransport,
    /// Whether a receive is in progress in the kernel.
    pub(super) is_receiving: bool,
    /// Whether the receive in progress is multishot: it posts an event for each buffer of input,
    /// until it is cancelled or fails.
    pub(super) is_multishot: bool,
    /// Whether the worker has started to cancel the receive in progress.
    pub(super) is_cancelling: bool,
    /// Bytes received for the current burst, in one of the ring's receive buffers. After the
    /// connection has been answered, the bytes that no request has consumed are copied to
    /// `Connection::held`.
    pub(super) arrived: Option<ReceivedBytes>,
    /// Whether a receive has returned the end of the stream, because the peer has shut down its
    /// sending side.
    pub(super) reached_eof: bool,
    /// Whether a send is in progress in the kernel.
    pub(super) is_sending: bool,
    /// Capacity in bytes of the output buffer that is being sent.
    pub(super) send_capacity: usize,
    /// Whether a large send was started and the worker has not checked yet whether this send is
    /// blocked. The connection is then in [`Worker::unchecked_sends`](super::Worker).
    pub(super) is_send_unchecked: bool,
    /// Whether the kernel will post an event when the socket is writable.
    pub(super) is_writable_watched: bool,
    /// Whether the kernel will post an event when the peer hangs up.
    pub(super) is_hang_up_watched: bool,
    /// Whether the connection waits for store memory that other connections hold.
    pub(super) waits_for_memory: bool,
    /// Whether the connection has been closed and its socket shut down, but some of its operations
    /// are still in progress in the kernel. The slot is freed when the last operation has ended.
    pub(super) is_closed: bool,
}

impl RingIo {
    pub(in crate::rings) fn new(transport: SocketTransport) -> Self {
        Self {
            transport,
            is_receiving: false,
            is_multishot: false,
            is_cancelling: false,
            arrived: None,
            reached_eof: false,
            is_sending: false,
            send_capacity: 0,
            is_send_unchecked: false,
            is_writable_watched: false,
            is_hang_up_watched: false,
            waits_for_memory: false,
            is_closed: false,
        }
    }

    /// Returns whether the kernel will post another event for this connection.
    pub(super) fn has_kernel_operations(&self) -> bool {
        self.is_receiving || self.is_sending || self.is_writable_watched || self.is_hang_up_watched
    }

    /// Returns whether the transport is idle, so that a stopping worker may close the connection.
    /// An idle transport has no unanswered bytes in a receive buffer and no send in progress, and
    /// is not closed already.
    pub(in crate::rings) fn is_idle(&self) -> bool {
        self.arrived.is_none() && !self.is_sending && !self.is_closed
    }
}

impl ConnectionIo for RingIo {
    type Transport = SocketTransport;

    fn transport(&self) -> &SocketTransport {
        &self.transport
    }

    fn transport_mut(&mut self) -> &mut SocketTransport {
        &mut self.transport
    }
}
