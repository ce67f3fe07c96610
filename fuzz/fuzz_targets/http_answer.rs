//! Bytes that a web server may send to the load generator.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| load::fuzzing::check_answers(input));
