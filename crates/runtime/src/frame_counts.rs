//! What the workers of [`bypass`](crate::bypass) count at their devices. For the sockets of the
//! other runtimes, the kernel has such counters (`/proc/net/snmp`, `/proc/net/netstat`).

use tcpip::Counts;

/// A quantity that each worker counts at its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum FrameCount {
    /// Frames received.
    Received,
    /// Frames that the device has taken to send.
    Sent,
    /// Frames that arrived and were lost, because too many frames waited for the worker.
    Lost,
    /// Received frames that were truncated or had a wrong checksum.
    Damaged,
    /// Received frames that were dropped, because too many frames waited to be sent.
    Dropped,
    /// Received TCP segments that belonged to no connection.
    Unknown,
    /// Connections that were dropped before they were established, because there were too many of
    /// them or the handshake took too long.
    HalfOpenDropped,
    /// Connections that the server has reset, because the client did not answer, too many closed
    /// connections were not finished, or the worker ended.
    Reset,
}

impl FrameCount {
    /// All quantities, in the order in which `stats` prints them.
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

    /// Returns the name of the quantity in `stats`.
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

    /// Returns the value of the quantity for one worker. `stacks` is the sum of the counters of its
    /// TCP/IP stacks. `sent` and `lost` are numbers of frames, counted at its packet socket.
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
