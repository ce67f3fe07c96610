//! Unsafe code stands in the platform layer alone.
//!
//! Outside it every library and program forbids it in its first file, and the word itself appears
//! nowhere, tests included, except in [`CONTRACTS`]. Inside, clippy asks for reasons.

use super::Violation;
use super::layers::{Layer, Layers};
use super::rust::{Kind, Source};

/// The files outside that take on, once, a contract which the compiler cannot check: that of
/// `fibre::Builder::start` or of `sys::ring::Ring::new`.
const CONTRACTS: [&str; 5] = [
    "crates/rivals/src/echo/rings.rs",
    "crates/runtime/src/fibres.rs",
    "crates/runtime/src/rings/worker.rs",
    "studies/peers/benches/fibre/costs.rs",
    "studies/peers/benches/fibre/scheduling/fibres.rs",
];

/// Checks every file by the layer of its crate.
pub(crate) fn check(sources: &[Source], layers: &Layers) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        if layers.layer(source.member()) != Some(Layer::Platform) {
            found.extend(outside(source));
        }
    }
    found
}

fn outside(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let folder = source.path.trim_end_matches("lib.rs");
    let has_contract = CONTRACTS.iter().any(|path| path.starts_with(folder));
    if source.is_root() && !has_contract && !forbids(source) {
        let what = "unsafe code is not forbidden";
        let remedy = "write #![forbid(unsafe_code)] below the module's documentation";
        found.push(Violation::new(&source.path, 1, what, remedy));
    }
    let words = source.tokens.iter();
    let words = words.filter(|token| token.kind == Kind::Word && token.text == "unsafe");
    let contracts = usize::from(CONTRACTS.contains(&source.path.as_str()));
    for line in words.map(|token| token.line).skip(contracts) {
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
}
