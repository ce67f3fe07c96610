//! Whether the instrument measures what is.

// Helpers of tests may do what tests may.
#![allow(clippy::unwrap_used)]

mod calibration;
