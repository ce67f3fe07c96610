//! Bytes that a client of the documents or the admin pages may send.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| http::fuzzing::check_request(input));
