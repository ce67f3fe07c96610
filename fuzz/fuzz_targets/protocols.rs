//! Operations that mean the same as text, as meta commands, as binary frames and in datagrams.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| curtail_tests::protocols::check(input));
