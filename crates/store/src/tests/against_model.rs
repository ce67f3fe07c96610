//! The store against the model: the same operations give the same replies. The operations are
//! random, or those of the inputs that are committed for the fuzz target `store_operations`.

mod pair;

use std::fs;
use std::path::Path;

use proptest::prelude::*;

/// Random operations. The first byte selects ample memory (0) or scarce memory (1).
fn input(memory: u8) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..1500).prop_map(move |mut input| {
        input[0] = memory;
        input
    })
}

proptest! {
    #[test]
    fn the_store_answers_as_the_model_does(input in input(0)) {
        pair::check(&input);
    }

    #[test]
    fn what_is_not_evicted_is_as_the_model_has_it(input in input(1)) {
        pair::check(&input);
    }
}

#[test]
fn operations_of_the_corpus_are_answered_as_the_model_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/store_operations");
    let mut count = 0;
    for file in fs::read_dir(folder).expect("the corpus") {
        let input = file.and_then(|file| fs::read(file.path()));
        pair::check(&input.expect("an input"));
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}
