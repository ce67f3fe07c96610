//! Bytes that a server of the multithreaded-cache study may send to the load generator.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| load::fuzzing::check_textile_answers(input));
