//! Unsafe code stands in the platform layer alone, and gives its reasons.
//!
//! Outside the platform layer every library and program forbids it in its first file, and the word
//! itself appears nowhere, tests included. In the platform layer each `unsafe` block and
//! implementation has a comment `SAFETY:` above it, naming the invariant and who upholds it; an
//! `unsafe fn` or trait may have a documentation section `# Safety` instead, which says what its
//! caller owes.

use super::Violation;
use super::layers::{Layer, Layers};
use super::rust::{Kind, Source};

/// Checks every file by the layer of its crate.
pub(crate) fn check(sources: &[Source], layers: &Layers) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        if layers.layer(source.member()) == Some(Layer::Platform) {
            found.extend(without_reason(source));
        } else {
            found.extend(outside(source));
        }
    }
    found
}

fn outside(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    if source.is_root() && !forbids(source) {
        let what = "unsafe code is not forbidden";
        let remedy = "write #![forbid(unsafe_code)] below the module's documentation";
        found.push(Violation::new(&source.path, 1, what, remedy));
    }
    for line in unsafe_lines(source).map(|(_, line)| line) {
        let remedy = "move it into a crate of the platform layer, behind a safe type";
        found.push(Violation::new(
            &source.path,
            line,
            "unsafe code outside the platform layer",
            remedy,
        ));
    }
    found
}

fn without_reason(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in unsafe_lines(source) {
        let declares = ["fn", "trait", "extern"]
            .iter()
            .any(|it| source.reads(index + 1, &[it]));
        let reasoned = source.commented(line, |comment| {
            comment.contains("SAFETY:") || (declares && comment.contains("# Safety"))
        });
        if !reasoned && !is_type(source, index) {
            let remedy =
                "say in a comment `SAFETY:` above which invariant holds and who upholds it";
            found.push(Violation::new(
                &source.path,
                line,
                "unsafe code without a reason",
                remedy,
            ));
        }
    }
    found
}

fn unsafe_lines(source: &Source) -> impl Iterator<Item = (usize, usize)> {
    let words = source.tokens.iter().enumerate();
    words
        .filter(|(_, token)| token.kind == Kind::Word && token.text == "unsafe")
        .map(|(index, token)| (index, token.line))
}

/// `unsafe fn(…)` and `unsafe extern "C" fn(…)` name a type; nothing unsafe is done.
fn is_type(source: &Source, index: usize) -> bool {
    let after = (index + 1..index + 4).find(|at| source.reads(*at, &["fn"]));
    after.is_some_and(|at| source.reads(at + 1, &["("]))
}

fn forbids(source: &Source) -> bool {
    let words = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];
    (0..source.tokens.len()).any(|index| source.reads(index, &words))
}

#[cfg(test)]
mod tests {
    use super::super::rust::sources;
    use super::*;

    fn judged(path: &str, text: &str) -> Vec<(usize, String)> {
        let table =
            "[pure]\nprotocol = []\n[platform]\nsys = []\n[engines]\n[programs]\n[outside]\n";
        check(&sources(&[(path, text)]), &Layers::parse(table).unwrap())
            .into_iter()
            .map(|violation| (violation.line, violation.what))
            .collect()
    }

    #[test]
    fn first_files_outside_the_rim_forbid_it() {
        let forbidding = "//! A crate.\n\n#![forbid(unsafe_code)]\n\npub mod a;\n";
        assert!(judged("crates/protocol/src/lib.rs", forbidding).is_empty());
        assert_eq!(
            judged(
                "crates/protocol/src/lib.rs",
                "//! #![forbid(unsafe_code)]\n"
            )
            .len(),
            1
        );
        assert_eq!(
            judged("crates/curtail/src/main.rs", "fn main() {}").len(),
            1
        );
        assert_eq!(
            judged("tests/src/bin/calibrate.rs", "fn main() {}").len(),
            1
        );
        assert!(judged("crates/protocol/src/a.rs", "fn a() {}").is_empty());
        assert!(judged("crates/sys/src/lib.rs", "fn a() {}").is_empty());
    }

    #[test]
    fn the_word_outside_the_rim_is_named_even_in_a_macro_or_test() {
        let text =
            "macro_rules! m { () => { unsafe { x() } } }\n#[test]\nfn t() { unsafe { x() } }\n";
        let lines: Vec<usize> = judged("crates/protocol/src/a.rs", text)
            .into_iter()
            .map(|(line, _)| line)
            .collect();
        assert_eq!(lines, [1, 3]);
    }

    #[test]
    fn in_the_rim_every_one_has_its_reason() {
        let text = "fn a() {\n    // SAFETY: x outlives y.\n    unsafe { b() };\n    unsafe { c() }\n}\n\
            // SAFETY: no state.\nunsafe impl Send for A {}\nunsafe impl Sync for A {}\n\
            /// Does.\n///\n/// # Safety\n///\n/// `p` is valid.\nunsafe fn d(p: *mut u8) {}\n\
            type F = unsafe extern \"C\" fn(i32);\n";
        let lines: Vec<usize> = judged("crates/sys/src/a.rs", text)
            .into_iter()
            .map(|(line, _)| line)
            .collect();
        assert_eq!(lines, [4, 8]);
    }
}
