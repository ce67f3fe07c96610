//! Rust files as flat tokens, with what the rules ask of them: is this a test, what comment
//! stands above.
//!
//! Tokens and not a syntax tree, because the rules must also hold inside macros; a tokeniser and
//! not a search in the text, because a string that mentions `unsafe` is no unsafe code.

use std::collections::BTreeSet;
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use super::Violation;
use super::tree::Tree;

/// A Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root.
    pub(crate) path: String,
    /// All tokens, in order, groups opened.
    pub(crate) tokens: Vec<Token>,
    lines: Vec<String>,
    /// The whole file is a test.
    test: bool,
    /// Modules in other files that this file declares as tests.
    test_modules: Vec<String>,
}

/// A token.
#[derive(Debug)]
pub(crate) struct Token {
    /// As written; `::` is one token.
    pub(crate) text: String,
    /// What it is.
    pub(crate) kind: Kind,
    /// From 1.
    pub(crate) line: usize,
    /// It stands in code that only tests contain.
    pub(crate) test: bool,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A word.
    Word,
    /// A string, number or character.
    Literal,
    /// Part of a documentation comment or attribute.
    Documentation,
    /// Anything else, brackets included.
    Mark,
}

impl Source {
    /// The crate this file belongs to, as the name of its folder.
    pub(crate) fn member(&self) -> &str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates") => parts.next().unwrap_or_default(),
            // The package of black-box tests has a longer name than its folder.
            Some("tests") => "curtail-tests",
            other => other.unwrap_or_default(),
        }
    }

    /// Whether this is the first file of a library or program.
    pub(crate) fn is_root(&self) -> bool {
        ["/src/lib.rs", "/src/main.rs"]
            .iter()
            .any(|end| self.path.ends_with(end))
            || self.path.contains("/src/bin/")
    }

    /// Whether the words of tokens from `index` on are these.
    pub(crate) fn reads(&self, index: usize, words: &[&str]) -> bool {
        let tokens = self.tokens.get(index..).unwrap_or_default();
        tokens.len() >= words.len() && words.iter().zip(tokens).all(|(word, it)| *word == it.text)
    }

    /// Whether a comment on this line, or above the statement that contains it, satisfies `says`.
    ///
    /// The statement begins after the nearest line that is blank or ends a statement or opens a
    /// block; comments and attributes above it belong to it.
    pub(crate) fn commented(&self, line: usize, says: impl Fn(&str) -> bool) -> bool {
        let text = |line: usize| self.lines.get(line - 1).map_or("", |text| text.trim());
        if text(line)
            .find("//")
            .is_some_and(|start| says(&text(line)[start..]))
        {
            return true;
        }
        for above in (1..line).rev().map(text) {
            if above.starts_with("//") {
                if says(above) {
                    return true;
                }
            } else if above.is_empty() || above.ends_with([';', '{', '}']) {
                return false;
            }
        }
        false
    }

    fn parse(path: &str, text: &str) -> Result<Self, String> {
        let stream = TokenStream::from_str(text).map_err(|error| error.to_string())?;
        let mut source = Self {
            path: path.to_owned(),
            tokens: Vec::new(),
            lines: text.lines().map(str::to_owned).collect(),
            test: is_test_path(path),
            test_modules: Vec::new(),
        };
        let test = source.test || text.contains("#![cfg(test)]");
        source.flatten(stream, test);
        Ok(source)
    }

    fn flatten(&mut self, stream: TokenStream, test: bool) {
        // An attribute `#[cfg(test)]` holds until the item after it ends: `;` or a block.
        let mut item_is_test = false;
        let mut trees = stream.into_iter().peekable();
        while let Some(tree) = trees.next() {
            let line = tree.span().start().line;
            match tree {
                TokenTree::Group(group) => {
                    self.group(&group, test || item_is_test);
                    item_is_test &= group.delimiter() != Delimiter::Brace;
                }
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    self.push("#", Kind::Mark, line, test || item_is_test);
                    if let Some(TokenTree::Group(group)) = trees.peek() {
                        item_is_test |= is_test_attribute(group);
                    }
                }
                TokenTree::Punct(punct) => {
                    let mut text = punct.as_char().to_string();
                    let joint = punct.spacing() == Spacing::Joint && punct.as_char() == ':';
                    if joint
                        && let Some(TokenTree::Punct(next)) = trees.peek()
                        && next.as_char() == ':'
                    {
                        trees.next();
                        text.push(':');
                    }
                    self.push(&text, Kind::Mark, line, test || item_is_test);
                    if text == ";" && item_is_test {
                        self.remember_test_module();
                        item_is_test = false;
                    }
                }
                TokenTree::Ident(word) => {
                    self.push(&word.to_string(), Kind::Word, line, test || item_is_test);
                }
                TokenTree::Literal(literal) => {
                    self.push(
                        &literal.to_string(),
                        Kind::Literal,
                        line,
                        test || item_is_test,
                    );
                }
            }
        }
    }

    fn group(&mut self, group: &Group, test: bool) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        let start = self.tokens.len();
        self.push(open, Kind::Mark, group.span_open().start().line, test);
        self.flatten(group.stream(), test);
        self.push(close, Kind::Mark, group.span_close().start().line, test);
        if self.reads(start, &["[", "doc"]) {
            self.tokens[start..]
                .iter_mut()
                .for_each(|token| token.kind = Kind::Documentation);
        }
    }

    fn push(&mut self, text: &str, kind: Kind, line: usize, test: bool) {
        self.tokens.push(Token {
            text: text.to_owned(),
            kind,
            line,
            test,
        });
    }

    /// After the `;` of a test item: if it was `mod name;`, another file is a test too.
    fn remember_test_module(&mut self) {
        if let [.., word, name, _] = self.tokens.as_slice()
            && word.text == "mod"
        {
            let folder = self.path.trim_end_matches(".rs");
            let folder = match folder.rsplit_once('/') {
                Some((parent, "lib" | "main")) => parent,
                _ => folder,
            };
            self.test_modules.push(format!("{folder}/{}", name.text));
        }
    }
}

/// Reads all Rust files; one that has no tokens is a violation.
pub(crate) fn read(tree: &Tree) -> (Vec<Source>, Vec<Violation>) {
    let mut sources = Vec::new();
    let mut found = Vec::new();
    for file in tree.files().iter().filter(|file| file.extension() == "rs") {
        match Source::parse(&file.path, &file.text) {
            Ok(source) => sources.push(source),
            Err(error) => {
                let what = format!("not Rust: {error}");
                found.push(Violation::new(&file.path, 1, what, "correct it"));
            }
        }
    }
    let modules: BTreeSet<String> = sources
        .iter_mut()
        .flat_map(|source| source.test_modules.drain(..))
        .collect();
    for source in &mut sources {
        let module = source.path.trim_end_matches(".rs");
        let below = |folder: &String| {
            module
                .strip_prefix(folder.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if source.test || modules.iter().any(below) {
            source.tokens.iter_mut().for_each(|token| token.test = true);
        }
    }
    (sources, found)
}

/// Files cargo builds for tests, benchmarks and examples only, and the fuzz targets.
fn is_test_path(path: &str) -> bool {
    let mut folders = path.split('/').rev().skip(1);
    path.starts_with("fuzz/") || folders.any(|it| matches!(it, "tests" | "benches" | "examples"))
}

/// `#[test]`, `#[cfg(test)]` and the like, but not `#[cfg(not(test))]`.
fn is_test_attribute(attribute: &Group) -> bool {
    let words: Vec<String> = words(attribute.stream());
    match words.first().map(String::as_str) {
        Some("test") => words.len() == 1,
        Some("cfg") => {
            words.iter().any(|word| word == "test") && !words.iter().any(|word| word == "not")
        }
        _ => false,
    }
}

fn words(stream: TokenStream) -> Vec<String> {
    stream
        .into_iter()
        .flat_map(|tree| match tree {
            TokenTree::Ident(word) => vec![word.to_string()],
            TokenTree::Group(group) => words(group.stream()),
            _ => Vec::new(),
        })
        .collect()
}

/// The sources of a few files, for the tests of rules.
#[cfg(test)]
pub(crate) fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    let (sources, found) = read(&Tree::of(files));
    assert!(found.is_empty(), "{found:?}");
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a source, those of tests in capitals.
    fn spelt(source: &Source) -> String {
        let words = source
            .tokens
            .iter()
            .filter(|token| token.kind == Kind::Word);
        let spelt = words.map(|token| {
            if token.test {
                token.text.to_uppercase()
            } else {
                token.text.clone()
            }
        });
        spelt.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tests_end_with_their_item() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\n#[test] fn c() { d(); }\n\
                    #[cfg(test)] use e;\n#[cfg(not(test))] fn f() {}\n#[cfg(unix)] fn g() {}";
        let source = &sources(&[("crates/x/src/y.rs", text)])[0];
        assert_eq!(
            spelt(source),
            "fn a CFG TEST MOD TESTS FN B TEST FN C D CFG TEST USE E cfg not test fn f cfg unix fn g"
        );
    }

    #[test]
    fn modules_declared_as_tests_are_tests_with_all_below() {
        let sources = sources(&[
            (
                "crates/x/src/lib.rs",
                "#[cfg(test)]\nmod fixture;\nmod real;",
            ),
            ("crates/x/src/fixture.rs", "fn a() {}"),
            ("crates/x/src/fixture/deep.rs", "fn b() {}"),
            ("crates/x/src/fixtures.rs", "fn c() {}"),
            ("crates/x/src/real.rs", "#[cfg(test)] mod probe;"),
            ("crates/x/src/real/probe.rs", "fn d() {}"),
            ("crates/x/tests/e.rs", "fn e() {}"),
        ]);
        let spelt: Vec<String> = sources[1..].iter().map(spelt).collect();
        assert_eq!(
            spelt,
            ["FN A", "FN B", "fn c", "CFG TEST MOD PROBE", "FN D", "FN E"]
        );
    }

    #[test]
    fn comments_are_found_above_the_statement_and_nowhere_else() {
        let text = "// first\nlet a = 1;\nlet b = 2;\n\n// far\n\nlet c = 3; // same\n\
                    // above\n#[inline]\nlet d =\n    5;\n";
        let source = &sources(&[("crates/x/src/y.rs", text)])[0];
        let says = |line, word: &'static str| source.commented(line, |text| text.contains(word));
        assert!(says(2, "first"));
        assert!(!says(3, "first"), "that comment is another statement's");
        assert!(!says(7, "far"), "a blank line parts them");
        assert!(says(7, "same"));
        assert!(
            says(11, "above"),
            "attributes and earlier lines of the statement are passed"
        );
    }

    #[test]
    fn strings_and_documentation_are_not_words() {
        let text = "/// An unsafe word.\nfn a() { b(\"unsafe\"); c(':', a::b) }";
        let source = &sources(&[("crates/x/src/y.rs", text)])[0];
        assert_eq!(spelt(source), "fn a b c a b");
        assert!(source.tokens.iter().any(|token| token.text == "::"));
    }

    #[test]
    fn a_file_without_tokens_is_named() {
        let (_, found) = read(&Tree::of(&[("crates/x/src/y.rs", "fn a( {")]));
        assert_eq!(found[0].path, "crates/x/src/y.rs");
    }
}
