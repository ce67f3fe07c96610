//! The figures of the runtime `bypass`, which only a server with a device has.

use super::{Row, counter};

/// All figures of a server with a device.
pub(in super::super) static BYPASS_ROWS: &[Row] = &[
    counter(
        "bypass_frames_received",
        "bypass_frames_received",
        "Frames received from the device.",
    ),
    counter(
        "bypass_frames_sent",
        "bypass_frames_sent",
        "Frames that the device has taken to send.",
    ),
    counter(
        "bypass_frames_lost",
        "bypass_frames_lost",
        "Frames that arrived and were lost, because too many waited for a worker.",
    ),
    counter(
        "bypass_frames_damaged",
        "bypass_frames_damaged",
        "Received frames that were truncated or had a wrong checksum.",
    ),
    counter(
        "bypass_frames_dropped",
        "bypass_frames_dropped",
        "Received frames that were dropped, because too many frames waited to be sent.",
    ),
    counter(
        "bypass_segments_unknown",
        "bypass_segments_unknown",
        "Received segments that belonged to no connection.",
    ),
    counter(
        "bypass_half_open_dropped",
        "bypass_half_open_dropped",
        "Half-open connections that were dropped at their bound, or after their time.",
    ),
    counter(
        "bypass_resets",
        "bypass_resets",
        "Connections that the server has reset.",
    ),
];
