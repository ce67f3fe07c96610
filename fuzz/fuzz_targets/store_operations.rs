//! What may be done with the store, held against the model; the first byte says in which world.
#![no_main]

use libfuzzer_sys::fuzz_target;
// The checks are tests of the store, where it is `crate`.
use store::*;

#[path = "../../crates/store/src/tests/against_model/pair.rs"]
mod pair;

fuzz_target!(|input: &[u8]| pair::check(input));
