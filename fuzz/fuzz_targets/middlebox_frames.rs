//! Frames that arrive at a middlebox, one after the other.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| middlebox::fuzzing::check_sequence(input));
