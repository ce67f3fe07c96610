//! Datagrams that a client of a cache may send.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| curtail_tests::datagram_frames::check(input));
