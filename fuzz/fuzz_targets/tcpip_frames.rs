//! Frames that arrive at a TCP/IP stack, and time that passes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    tcpip::fuzzing::check_sequence(input);
});
