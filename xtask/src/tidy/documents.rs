//! Paths named in documents exist.
//!
//! Two kinds of names are read in every Markdown file: targets of links that are not addresses,
//! and words in backticks or code blocks that look like paths of this repository. A word looks so
//! if it has a `/`, no blank, and its first part is a file or folder of the root, or its
//! extension one of [`EXTENSIONS`]. It exists from the root, from the document's folder, or, for
//! words in backticks, as the end of some file's path (`src/lib.rs`); `*` stands for any letters
//! within one part. Words with placeholders (`<…>`, `$`, `{`, `NNN`, `NAME`) promise nothing.

use std::collections::BTreeSet;

use super::Violation;
use super::tree::Tree;
use crate::limits::Paths;

/// What a word ends with that means a file of ours, wherever it begins.
const EXTENSIONS: [&str; 3] = [".rs", ".toml", ".md"];

/// Letters and words that stand for something else.
const PLACEHOLDERS: [&str; 8] = ["<", "…", "...", "$", "{", "NNN", "NAME", "://"];

/// Looks at every document.
pub(crate) fn check(tree: &Tree, paths: &Paths) -> Vec<Violation> {
    let places = Places::of(tree, paths);
    let mut found = Vec::new();
    for file in tree.files().iter().filter(|file| file.extension() == "md") {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut in_block = false;
        for (number, line) in file.lines() {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
                continue;
            }
            let mut missing = Vec::new();
            if in_block {
                missing.extend(
                    line.split_whitespace()
                        .filter(|it| places.lacks(folder, it, true)),
                );
            } else {
                missing.extend(quoted(line).filter(|it| places.lacks(folder, it, false)));
                missing.extend(targets(line).filter(|it| places.lacks_target(folder, it)));
            }
            for path in missing {
                let what = format!("{path} does not exist");
                let remedy = "name what is there, or remove it";
                found.push(Violation::new(&file.path, number, what, remedy));
            }
        }
    }
    found
}

/// What can be named.
struct Places<'a> {
    /// Files, and folders of files.
    all: BTreeSet<String>,
    generated: &'a [String],
}

impl<'a> Places<'a> {
    fn of(tree: &Tree, paths: &'a Paths) -> Self {
        let mut all = BTreeSet::new();
        for path in tree.paths() {
            all.insert(path.clone());
            all.extend(path.match_indices('/').map(|(at, _)| path[..at].to_owned()));
        }
        Self {
            all,
            generated: &paths.generated,
        }
    }

    /// Whether a word looks like a path of this repository and none is there.
    fn lacks(&self, folder: &str, word: &str, in_block: bool) -> bool {
        let word = word.trim_matches(|letter: char| "\"'`,;:()[]".contains(letter));
        let word = word.trim_start_matches("./").trim_end_matches('/');
        let path = word.split([':', '#']).next().unwrap_or_default();
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let at_home = self.all.contains(first);
        let ours = !rest.is_empty()
            && !path.starts_with('/')
            && !path.contains(char::is_whitespace)
            && (at_home || (!in_block && EXTENSIONS.iter().any(|end| path.ends_with(end))))
            && !PLACEHOLDERS.iter().any(|it| word.contains(it));
        ours && !self.has(path)
            && !self.has(&joined(folder, path))
            && (at_home || !self.all.iter().any(|it| it.ends_with(&format!("/{path}"))))
    }

    /// Whether the target of a link is a path and not there.
    fn lacks_target(&self, folder: &str, target: &str) -> bool {
        let path = target
            .split('#')
            .next()
            .unwrap_or_default()
            .trim_end_matches('/');
        let elsewhere = target.contains("://") || target.starts_with("mailto:");
        !elsewhere && !path.is_empty() && !self.has(&joined(folder, path))
    }

    fn has(&self, path: &str) -> bool {
        let generated = |it: &String| path == it || path.starts_with(&format!("{it}/"));
        path.is_empty()
            || self.all.contains(path)
            || self.generated.iter().any(generated)
            || (path.contains('*') && self.all.iter().any(|it| fits(path, it)))
    }
}

/// `folder/path` without `.` and `..`.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether the path fits the pattern, part by part.
fn fits(pattern: &str, path: &str) -> bool {
    let (patterns, parts) = (pattern.split('/'), path.split('/'));
    patterns.clone().count() == parts.clone().count()
        && patterns
            .zip(parts)
            .all(|(pattern, part)| part_fits(pattern, part))
}

fn part_fits(pattern: &str, part: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == part;
    };
    let Some(rest) = part.strip_prefix(head) else {
        return false;
    };
    let mut starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    starts.any(|at| part_fits(tail, &rest[at..]))
}

/// What stands between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of links `[…](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(document: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/guide/a.md", document),
            ("docs/journal/README.md", ""),
            ("README.md", ""),
            ("crates/store/src/lib.rs", ""),
            ("tests/transcripts/get.txt", ""),
        ]);
        let paths = Paths {
            generated: vec!["target".into(), "docs/built".into()],
        };
        check(&tree, &paths)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn what_is_there_may_be_named() {
        let document = "See `crates/store/src/lib.rs:12`, `src/lib.rs`, `docs/`, `README.md`,\n\
            `tests/transcripts/*.txt`, `docs/built/x.html`, [the journal](../journal/README.md#rules),\n\
            [below](#here), [elsewhere](https://example.org/a/b.md), `docs/NNN-<name>.md`.\n\
            `text/plain` and `cargo run -p tests/none` are no paths.\n\
            ```\ncurtail lab run docs/journal/README.md --into target/x\n```\n";
        assert_eq!(judged(document), [""; 0]);
    }

    #[test]
    fn what_is_not_there_is_named_with_its_line() {
        let document = "a\n`crates/store/src/gone.rs` and `gone/gone.rs`\n[link](gone.md)\n\
            `tests/transcripts/*.toml`\n```\ncat docs/gone.md\n```\n";
        let found = judged(document);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[0].starts_with("docs/guide/a.md:2: crates/store/src/gone.rs does not exist"));
        assert!(found[4].starts_with("docs/guide/a.md:6: docs/gone.md"));
    }

    #[test]
    fn patterns_stay_within_their_part() {
        assert!(fits("crates/*/src/*.rs", "crates/store/src/lib.rs"));
        assert!(!fits("crates/*.rs", "crates/store/src/lib.rs"));
        assert!(part_fits("a*b*c", "a1b2c") && !part_fits("a*b", "ac"));
    }
}
