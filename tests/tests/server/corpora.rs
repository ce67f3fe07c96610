//! Runs the checks of fuzz targets on their committed corpora, and on random inputs.

use std::fs;
use std::path::Path;

use curtail_tests::{datagram_frames, protocols};
use proptest::prelude::*;

/// Every file of a corpus. Panics if there is none.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let inputs: Vec<_> = files
        .map(|file| file.and_then(|file| fs::read(file.path())))
        .map(|input| input.unwrap_or_else(|error| panic!("{folder:?}: {error}")))
        .collect();
    assert!(!inputs.is_empty(), "{folder:?} is empty");
    inputs
}

#[test]
fn datagrams_of_the_corpus_pass_the_check() {
    for input in corpus("udp_frames") {
        datagram_frames::check(&input);
    }
}

#[test]
fn operations_of_the_corpus_mean_the_same_in_all_protocols() {
    for input in corpus("protocols") {
        protocols::check(&input);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_operations_mean_the_same_in_all_protocols(
        input in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        protocols::check(&input);
    }
}
