//! `xtask/limits.toml`: the bounds and lists the repository is held to.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Where they are written.
pub(crate) const PATH: &str = "xtask/limits.toml";

/// The bounds and lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    /// Packages of the production server at most.
    pub(crate) serve_crates: usize,
    /// Modules in import cycles, of each crate that still has them.
    pub(crate) module_cycles: BTreeMap<String, usize>,
    /// Words that may not be used.
    pub(crate) words: Words,
    /// What documents may name though it is not there.
    pub(crate) paths: Paths,
}

/// Words that may not be used.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    /// Parts of names in camel case.
    pub(crate) types: Vec<String>,
    /// Names of modules and files.
    pub(crate) modules: Vec<String>,
    /// Beginnings of absolute paths.
    pub(crate) places: Vec<String>,
    /// Words of comments.
    pub(crate) markers: Vec<String>,
}

/// What documents may name though it is not there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paths {
    /// Folders that programs write.
    pub(crate) generated: Vec<String>,
}

impl Limits {
    /// Reads the text of the file.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).with_context(|| format!("failed to read {PATH}"))
    }

    /// Reads the repository's file.
    pub(crate) fn load() -> Result<Self> {
        let path = crate::cargo::root().join(PATH);
        Self::parse(
            &std::fs::read_to_string(path).with_context(|| format!("failed to open {PATH}"))?,
        )
    }
}
