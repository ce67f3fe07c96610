//! Files of bearable size, and modules that are found where their name says.

use std::collections::BTreeMap;

use super::Violation;
use super::tree::Tree;
use crate::limits;

/// Lines of a source file at most, unless it is listed with a reason.
const CEILING: usize = 600;

/// What is written by hand and read as a program.
const SOURCES: [&str; 7] = ["rs", "py", "sh", "html", "js", "css", "c"];

/// Compares every source file with the ceiling, and the list of exceptions with the files.
pub(crate) fn check(tree: &Tree, listed: &BTreeMap<String, String>) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files() {
        let count = file.lines().count();
        let long = SOURCES.contains(&file.extension()) && count > CEILING;
        match listed.get(&file.path) {
            None if long => found.push(Violation::new(
                &file.path,
                CEILING + 1,
                format!("{count} lines, the ceiling is {CEILING}"),
                format!("cut it, or list it in {} with the reason", limits::PATH),
            )),
            Some(_) if !long => found.push(stale(&file.path)),
            Some(reason) if reason.trim().is_empty() => {
                let what = format!("{} is listed without a reason", file.path);
                found.push(Violation::new(limits::PATH, 1, what, "give it"));
            }
            _ => {}
        }
        if file.path.ends_with("/mod.rs") {
            let what = "a module called mod.rs";
            let remedy = "name the file after the module, beside its folder";
            found.push(Violation::new(&file.path, 1, what, remedy));
        }
    }
    let gone = listed.keys().filter(|path| tree.text(path).is_none());
    found.extend(gone.map(|path| stale(path)));
    found
}

fn stale(path: &str) -> Violation {
    let what = format!("{path} is listed as long and is not");
    Violation::new(limits::PATH, 1, what, "remove it from long_files")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(files: &[(&str, usize)], listed: &[(&str, &str)]) -> Vec<String> {
        let texts: Vec<(&str, String)> = files
            .iter()
            .map(|(path, lines)| (*path, "x\n".repeat(*lines)))
            .collect();
        let files: Vec<(&str, &str)> = texts
            .iter()
            .map(|(path, text)| (*path, text.as_str()))
            .collect();
        let listed = listed
            .iter()
            .map(|(path, why)| ((*path).to_owned(), (*why).to_owned()))
            .collect();
        check(&Tree::of(&files), &listed)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_ceiling_holds_for_sources_only() {
        let found = judged(&[("a.rs", 600), ("b.rs", 601), ("c.txt", 900)], &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("b.rs:601: 601 lines"));
    }

    #[test]
    fn exceptions_have_reasons_and_do_not_outlive_their_files() {
        assert!(judged(&[("a.rs", 700)], &[("a.rs", "a table")]).is_empty());
        assert_eq!(judged(&[("a.rs", 700)], &[("a.rs", " ")]).len(), 1);
        assert_eq!(
            judged(&[("a.rs", 500)], &[("a.rs", "a table"), ("b.rs", "gone")]).len(),
            2
        );
    }

    #[test]
    fn mod_rs_is_named() {
        assert_eq!(judged(&[("crates/x/src/y/mod.rs", 1)], &[]).len(), 1);
    }
}
