//! The experiments of the repository, for tests.

use std::fs;

use crate::{Error, Experiment, Laboratory, Options};

const LABORATORY: Laboratory = Laboratory {
    kinds: &[crate::MEASURED],
    shipped: &[],
};

pub(crate) fn text_of(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    fs::read_to_string(format!("{folder}/{name}.toml")).unwrap()
}

impl Experiment {
    /// An experiment of the repository by its name, or the file of a path.
    pub(crate) fn load(name_or_path: &str) -> Result<Self, Error> {
        match name_or_path.contains('/') {
            true => LABORATORY.load(name_or_path),
            false => Self::parse(
                name_or_path,
                &format!("{name_or_path}.toml"),
                &text_of(name_or_path),
            ),
        }
    }

    pub(crate) fn parse(name: &str, path: &str, text: &str) -> Result<Self, Error> {
        LABORATORY.parse(name, path, text)
    }
}

impl Options {
    pub(crate) fn new() -> Result<Self, Error> {
        LABORATORY.options()
    }
}
