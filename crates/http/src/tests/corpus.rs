//! Runs the check of the fuzz target on its committed corpus, and on random mutations of it.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::fuzzing;

#[test]
fn requests_of_the_corpus_pass_the_check() {
    for input in corpus("http_request") {
        fuzzing::check_request(&input);
    }
}

proptest! {
    #[test]
    fn changed_requests_of_the_corpus_pass_the_check(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let corpus = corpus("http_request");
        let mut input = which.get(&corpus).clone();
        for (at, byte) in changes {
            let at = at.index(input.len());
            input[at] = byte;
        }
        fuzzing::check_request(&input);
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
