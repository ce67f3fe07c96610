//! Runs the checks of this crate's fuzz targets on the corpora (stored inputs) of the repository.

use std::fs;
use std::path::Path;

/// Passes each input of a corpus to its check.
fn check(corpus: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(corpus);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}")) {
        let input = entry.and_then(|entry| fs::read(entry.path()));
        check(&input.unwrap_or_else(|error| panic!("{folder:?}: {error}")));
        count += 1;
    }
    assert!(count > 0, "the corpus {corpus} is empty");
}

#[test]
fn every_input_of_the_agent_frames_corpus_passes_the_checks() {
    check("agent_frames", crate::agents::fuzzing::check_frames);
}

#[test]
fn every_input_of_the_http_answer_corpus_passes_the_checks() {
    check("http_answer", crate::fuzzing::check_answers);
}

#[test]
fn every_input_of_the_textile_answer_corpus_passes_the_checks() {
    check("textile_answer", crate::fuzzing::check_textile_answers);
}
