//! What may be done with the store, held against the model; the first byte says in which world.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| curtail_tests::pair::check(input));
