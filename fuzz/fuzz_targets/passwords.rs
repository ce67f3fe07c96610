//! Files of passwords, of `-Y` and of `-S`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| session::fuzzing::check_passwords(input));
