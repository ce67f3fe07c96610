//! What a server may send; the first line says what is awaited.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| protocol::fuzzing::check_reply(input));
