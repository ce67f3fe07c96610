//! Runs the check of the fuzz target `passwords` on the inputs that are committed for it (its
//! corpus), and on random files.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::fuzzing::check_passwords;

#[test]
fn password_files_of_the_corpus_pass_the_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/passwords");
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        check_passwords(&fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}

proptest! {
    #[test]
    fn random_password_files_pass_the_check(content in "([ab:#\r\0]{0,5}\n){0,12}[ab:]{0,3}") {
        check_passwords(content.as_bytes());
    }
}
