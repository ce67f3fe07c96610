//! Runs the checks of the fuzz target `agent_frames` on the corpus that is in the repository.

use std::fs;
use std::path::Path;

#[test]
fn every_input_of_the_agent_frames_corpus_passes_the_checks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/agent_frames");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        load::agents::fuzzing::check_frames(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}
