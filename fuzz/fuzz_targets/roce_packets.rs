//! Frames of a network, and captures of them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| roce::fuzzing::check_packets(input));
