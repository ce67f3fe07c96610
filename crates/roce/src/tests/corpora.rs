//! Runs the checks of the fuzz target on its committed corpus.

use std::fs;
use std::path::Path;

use crate::fuzzing;

#[test]
fn packets_of_the_corpus_pass_the_checks() {
    for input in corpus("roce_packets") {
        fuzzing::check_packets(&input);
    }
}

/// Every file of the corpus. Panics if there is none.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let inputs: Vec<_> = files
        .map(|file| file.and_then(|file| fs::read(file.path())))
        .map(|input| input.unwrap_or_else(|error| panic!("{folder:?}: {error}")))
        .collect();
    assert!(!inputs.is_empty(), "{folder:?} is empty");
    inputs
}
