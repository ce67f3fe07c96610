//! Bytes that a server may send, after a line that lists the expected kinds of replies.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| protocol::fuzzing::check_reply(input));
