//! Frames of the binary protocol that a client may send, or a server.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| protocol::fuzzing::check_frames(input));
