//! Atomics say what they pair with.
//!
//! `Relaxed` promises nothing and needs no words. Every other `Ordering` outside tests has a
//! comment on its line or above its statement with the words "pairs with", naming the other side.
//! Orderings are written in full, so that they are found.

use super::Violation;
use super::rust::Source;

const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// Looks for orderings in every file.
pub(crate) fn check(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        for (index, token) in source.tokens.iter().enumerate() {
            if token.test || !source.reads(index, &["Ordering", "::"]) {
                continue;
            }
            let Some(next) = source.tokens.get(index + 2) else {
                continue;
            };
            if next.text == "{" || next.text == "*" {
                let what = "orderings imported by name";
                let remedy = "import Ordering and write Ordering::Acquire in full";
                found.push(Violation::new(&source.path, token.line, what, remedy));
            } else if STRONG.contains(&next.text.as_str())
                && !source.commented(token.line, |it| it.to_lowercase().contains("pairs with"))
            {
                let what = format!("Ordering::{} without its pair", next.text);
                let remedy = "say in a comment above what it pairs with";
                found.push(Violation::new(&source.path, token.line, what, remedy));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::rust::sources;
    use super::*;

    #[test]
    fn only_strong_orderings_without_words_are_named() {
        let text = "fn a() {\n    // Pairs with the store in `b`.\n    x.load(Ordering::Acquire);\n\
            \x20   x.load(Ordering::Relaxed);\n    x.store(1, Ordering::Release);\n\
            \x20   x.swap(2, Ordering::AcqRel); // pairs with itself\n    a.cmp(b) == Ordering::Less\n}\n\
            // The state is read here.\nfn b() { x.load(atomic::Ordering::SeqCst) }\n\
            #[test]\nfn c() { x.load(Ordering::SeqCst) }\n";
        let lines: Vec<usize> = check(&sources(&[("crates/x/src/y.rs", text)]))
            .into_iter()
            .map(|violation| violation.line)
            .collect();
        assert_eq!(lines, [5, 10]);
    }

    #[test]
    fn imports_that_hide_them_are_named() {
        for text in [
            "use a::Ordering::{Acquire, Release};",
            "use a::Ordering::*;",
        ] {
            assert_eq!(
                check(&sources(&[("crates/x/src/y.rs", text)])).len(),
                1,
                "{text}"
            );
        }
        assert!(check(&sources(&[("crates/x/src/y.rs", "use a::{Ordering, B};")])).is_empty());
    }
}
