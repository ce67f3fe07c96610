//! What the workers of [`bypass`](crate::bypass) count: frames, and events of their TCP/IP stacks.
//! (In the runtime `bypass` each worker has a TCP/IP stack of its own. The worker receives and
//! sends frames at a packet socket of a network device.) The other runtimes use sockets of the
//! kernel, which has such counters itself (`/proc/net/snmp`, `/proc/net/netstat`).

use tcpip::Counts;

/// A quantity that each worker counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum FrameCount {
    /// Frames received.
    Received,
    /// Frames that the worker has passed to the device, which sends them.
    Sent,
    /// Frames that arrived at the packet socket and were lost, because too many frames waited there
    /// for the worker.
    Lost,
    /// Received frames that were truncated or had a wrong checksum.
    Damaged,
    /// Received frames that were dropped, because too many frames of the worker waited to be sent.
    Dropped,
    /// Received TCP segments that belonged to no connection.
    Unknown,
    /// Connections that were dropped before they were established, because the handshake took too
    /// long or too many handshakes were in progress.
    HalfOpenDropped,
    /// Connections that the server has reset, for one of these reasons: the client was silent for
    /// too long; the server had closed the connection, but the closing handshake took too long; too
    /// many connections were closing at the same time; or the worker's stack ended.
    Reset,
}

impl FrameCount {
    /// All quantities, in the order in which `stats curtail` prints them.
    pub const ALL: [Self; 8] = [
        Self::Received,
        Self::Sent,
        Self::Lost,
        Self::Damaged,
        Self::Dropped,
        Self::Unknown,
        Self::HalfOpenDropped,
        Self::Reset,
    ];

    /// Returns the name of the quantity in `stats curtail`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "bypass_frames_received",
            Self::Sent => "bypass_frames_sent",
            Self::Lost => "bypass_frames_lost",
            Self::Damaged => "bypass_frames_damaged",
            Self::Dropped => "bypass_frames_dropped",
            Self::Unknown => "bypass_segments_unknown",
            Self::HalfOpenDropped => "bypass_half_open_dropped",
            Self::Reset => "bypass_resets",
        }
    }

    /// Returns the value of this quantity for one worker. `stacks` is the sum of the counters of
    /// all TCP/IP stacks that the worker has had: a worker that restarts gets a new stack. `sent`
    /// and `lost` are the numbers of frames sent and lost at the worker's packet socket.
    pub(crate) fn of(self, stacks: &Counts, sent: u64, lost: u64) -> u64 {
        match self {
            Self::Received => stacks.frames,
            Self::Sent => sent,
            Self::Lost => lost,
            Self::Damaged => stacks.damaged,
            Self::Dropped => stacks.dropped,
            Self::Unknown => stacks.unknown,
            Self::HalfOpenDropped => stacks.half_open_dropped,
            Self::Reset => stacks.reset,
        }
    }
}

/// A value for each [`FrameCount`], in the order of [`FrameCount::ALL`].
pub type FrameCounts = [u64; FrameCount::ALL.len()];
