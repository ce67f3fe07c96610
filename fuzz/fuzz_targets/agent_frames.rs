//! Bytes that a coordinator and an agent may send each other.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| load::agents::fuzzing::check_frames(input));
