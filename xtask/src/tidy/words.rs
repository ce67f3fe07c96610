//! Names and promises that say nothing.
//!
//! The lists stand in `xtask/limits.toml`: parts of names (`…Manager`) that tell nothing of the
//! job, modules that would collect whatever has no home, directories of one machine written into
//! a program, and promises in comments.

use super::Violation;
use super::rust::{Kind, Source};
use super::tree::{File, Tree};
use crate::limits::{self, Words};

/// Looks for the words in code, scripts and settings. Documents may say what they like.
pub(crate) fn check(tree: &Tree, sources: &[Source], words: &Words) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        found.extend(in_tokens(source, words));
    }
    for file in tree.files() {
        found.extend(in_path(file, words));
        found.extend(in_lines(file, words));
    }
    found
}

fn in_tokens(source: &Source, words: &Words) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, token) in source.tokens.iter().enumerate() {
        let mut report = |what: String, remedy: &str| {
            found.push(Violation::new(&source.path, token.line, what, remedy));
        };
        match token.kind {
            Kind::Word => {
                if let Some(part) = words.types.iter().find(|part| has_part(&token.text, part)) {
                    report(
                        format!("{}: {part} says nothing", token.text),
                        "name its job",
                    );
                }
                if words.modules.contains(&token.text) && index > 0 && is_module(source, index) {
                    report(
                        format!("a module called {}", token.text),
                        "name what it holds",
                    );
                }
            }
            Kind::Literal if !token.test => {
                if let Some(place) = words.places.iter().find(|it| has_place(&token.text, it)) {
                    report(format!("a program that knows {place}"), "let it be told");
                }
            }
            _ => {}
        }
    }
    found
}

fn is_module(source: &Source, index: usize) -> bool {
    source.reads(index - 1, &["mod"])
}

fn in_path(file: &File, words: &Words) -> Option<Violation> {
    let name = file.path.rsplit('/').next()?.split('.').next()?;
    (file.extension() == "rs" && words.modules.iter().any(|module| module == name)).then(|| {
        let what = format!("a file called {name}");
        Violation::new(&file.path, 1, what, "name what it holds")
    })
}

fn in_lines(file: &File, words: &Words) -> Vec<Violation> {
    let mut found = Vec::new();
    let settings =
        matches!(file.extension(), "toml" | "sh" | "service") || file.path.starts_with(".ci/");
    if file.path == limits::PATH || !(settings || file.extension() == "rs") {
        return found;
    }
    for (number, line) in file.lines() {
        let comment = comment(line, if settings { "#" } else { "//" });
        let mut spoken = comment.split(|letter: char| !letter.is_alphanumeric());
        if let Some(marker) = spoken.find(|word| words.markers.iter().any(|it| it == word)) {
            let what = format!("{marker} in a comment");
            let remedy = "do it, or open an issue and leave the code as it is";
            found.push(Violation::new(&file.path, number, what, remedy));
        }
        if let Some(place) = words
            .places
            .iter()
            .find(|it| settings && has_place(line, it))
        {
            let what = format!("a setting that knows {place}");
            found.push(Violation::new(&file.path, number, what, "let it be told"));
        }
    }
    found
}

/// The line's comment: what follows its sign, where that stands in no string.
fn comment<'a>(line: &'a str, sign: &str) -> &'a str {
    let outside_strings = |at: &usize| line[..*at].matches('"').count().is_multiple_of(2);
    let start = line
        .match_indices(sign)
        .map(|(at, _)| at)
        .find(outside_strings);
    start.map_or("", |at| &line[at..])
}

/// Whether a path in the text begins with `place`: `/run/home/` does not.
fn has_place(text: &str, place: &str) -> bool {
    text.match_indices(place).any(|(at, _)| {
        !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '}')
    })
}

/// Whether a name in camel case has this part: `PageManager` has `Manager`, `Managers` has not.
fn has_part(name: &str, part: &str) -> bool {
    name.match_indices(part)
        .any(|(at, _)| !name[at + part.len()..].starts_with(|next: char| next.is_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::super::rust;
    use super::*;

    fn judged(path: &str, text: &str) -> Vec<String> {
        let words = Words {
            types: vec!["Manager".into()],
            modules: vec!["util".into()],
            places: vec!["/tmp/".into()],
            markers: vec!["TODO".into()],
        };
        let tree = Tree::of(&[(path, text)]);
        let (sources, found) = rust::read(&tree);
        assert!(found.is_empty(), "{found:?}");
        let found = check(&tree, &sources, &words);
        found.into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn empty_names_are_named() {
        let text = "struct PageManager;\nmod util;\nfn util_of() {}\nstruct Managerial;\n";
        assert_eq!(
            judged("crates/x/src/y.rs", text),
            ["PageManager: Manager says nothing", "a module called util"]
        );
        assert_eq!(
            judged("crates/x/src/util.rs", "fn a() {}"),
            ["a file called util"]
        );
    }

    #[test]
    fn places_of_one_machine_are_named_outside_tests_and_documents() {
        let text = "/// Such as `/tmp/a`.\nconst A: &str = \"/tmp/a\";\nconst B: &str = \"x/tmp/a\";\n\
                    #[test]\nfn t() { a(\"/tmp/b\") }\n";
        assert_eq!(
            judged("crates/x/src/y.rs", text),
            ["a program that knows /tmp/"]
        );
        assert_eq!(judged("experiments/a.toml", "a = \"/tmp/x\"\n").len(), 1);
        assert_eq!(judged("docs/a.md", "cd /tmp/x\n"), [""; 0]);
    }

    #[test]
    fn promises_are_named_in_comments_only() {
        assert_eq!(
            judged("crates/x/src/y.rs", "// TODO: later\n"),
            ["TODO in a comment"]
        );
        assert_eq!(
            judged("crates/x/src/y.rs", "const TODO: u8 = 1;\n"),
            [""; 0]
        );
        assert_eq!(judged("a.toml", "# TODO later\n").len(), 1);
    }
}
