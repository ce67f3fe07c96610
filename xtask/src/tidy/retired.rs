//! Retired names do not come back.
//!
//! `xtask/retired.toml` lists names that were replaced, each with its replacement: under
//! `[everywhere]` for the whole repository, under a crate's name for the files of that crate. Code,
//! comments and documents are searched for whole words, in the case they are listed in. The journal
//! and the decision records are history and may quote old names.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::Violation;
use super::tree::{File, Tree};

/// The list of retired names.
pub(crate) const PATH: &str = "xtask/retired.toml";

/// The section that applies to every file.
const EVERYWHERE: &str = "everywhere";

/// Files that may quote old names.
const HISTORY: [&str; 3] = ["docs/journal", "docs/decisions/", PATH];

/// Old name to new name, by section.
#[derive(Debug, Default)]
pub(crate) struct Retired(BTreeMap<String, BTreeMap<String, String>>);

impl Retired {
    /// Reads the text of the list.
    ///
    /// # Errors
    ///
    /// The text is not TOML of that form.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let sections = toml::from_str(text).with_context(|| format!("failed to read {PATH}"))?;
        Ok(Self(sections))
    }

    /// The replacement of `name` in the file at `path`, if the name is retired there.
    fn replacement(&self, path: &str, name: &str) -> Option<&str> {
        let of_crate = path
            .strip_prefix("crates/")
            .and_then(|rest| rest.split('/').next());
        [Some(EVERYWHERE), of_crate]
            .into_iter()
            .flatten()
            .find_map(|section| self.0.get(section)?.get(name))
            .map(String::as_str)
    }
}

/// Searches every source file and document.
pub(crate) fn check(tree: &Tree, retired: &Retired) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files().iter().filter(|file| is_searched(file)) {
        for (number, line) in file.lines() {
            let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
            for word in line.split(|letter| !is_part(letter)) {
                if let Some(new) = retired.replacement(&file.path, word) {
                    let what = format!("{word} is retired");
                    found.push(Violation::new(
                        &file.path,
                        number,
                        what,
                        format!("use {new}"),
                    ));
                }
            }
        }
    }
    found
}

fn is_searched(file: &File) -> bool {
    let is_history = HISTORY.iter().any(|path| file.path.starts_with(path));
    matches!(file.extension(), "rs" | "md" | "toml") && !is_history
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str =
        "[everywhere]\nHall = \"ConnectionTasks\"\n[store]\nspot = \"block reference\"\n";

    fn judged(path: &str, text: &str) -> Vec<String> {
        let retired = Retired::parse(LIST).unwrap();
        let found = check(&Tree::of(&[(path, text)]), &retired);
        found.into_iter().map(|it| it.what).collect()
    }

    #[test]
    fn a_retired_name_is_found_as_a_whole_word_only() {
        assert_eq!(
            judged("crates/x/src/y.rs", "struct Hall;"),
            ["Hall is retired"]
        );
        assert_eq!(
            judged("docs/guide/a.md", "the `Hall`."),
            ["Hall is retired"]
        );
        assert!(judged("crates/x/src/y.rs", "struct Hallway; // hall\n").is_empty());
    }

    #[test]
    fn a_crates_retired_name_is_free_elsewhere() {
        assert_eq!(
            judged("crates/store/src/a.rs", "// a spot"),
            ["spot is retired"]
        );
        assert!(judged("crates/load/src/a.rs", "// a spot").is_empty());
    }

    #[test]
    fn history_may_quote_old_names() {
        assert!(judged("docs/journal/store.md", "Hall").is_empty());
    }
}
