//! The pure layer has no sockets, files, threads, processes, environment or clocks: time and
//! randomness are arguments. The crates that are pure in spirit keep a part of the promise: a
//! session owns no socket and reads no clock, nor does the store, and neither starts a thread.
//!
//! Tests may use what they like.

use super::Violation;
use super::layers::{Layer, Layers};
use super::rust::Source;

/// What the pure layer does without; in `std` and, where it exists there, in `core`.
const WORLD: [&str; 8] = [
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// What crates above the pure layer do without.
const PROMISED: [(&str, &[&str]); 2] = [
    ("session", &WORLD),
    (
        "store",
        &[
            "std::fs",
            "std::net",
            "std::thread",
            "std::time::Instant",
            "std::time::SystemTime",
        ],
    ),
];

/// Checks the crates that promised.
pub(crate) fn check(sources: &[Source], layers: &Layers) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        let promised = PROMISED
            .iter()
            .find(|(member, _)| *member == source.member());
        let forbidden: &[&str] = match promised {
            Some((_, forbidden)) => forbidden,
            None if layers.layer(source.member()) == Some(Layer::Pure) => &WORLD,
            None => continue,
        };
        for (path, line) in paths(source) {
            let world = forbidden.iter().find(|it| is_within(&path, it));
            if let Some(world) = world {
                let what = format!("{} does without {world}", source.member());
                let remedy = "let the caller do it and pass the value in";
                found.push(Violation::new(&source.path, line, what, remedy));
            }
        }
    }
    found
}

/// `path` is `other` or below it, or takes all that `other` lies in.
fn is_within(path: &str, other: &str) -> bool {
    let below = |path: &str, other: &str| {
        path.strip_prefix(other)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    below(path, other)
        || path
            .strip_suffix("::*")
            .is_some_and(|all| below(other, all))
}

/// Every path that begins with `std`, lists in braces spelt out, outside tests.
fn paths(source: &Source) -> Vec<(String, usize)> {
    let mut paths = Vec::new();
    let mut index = 0;
    while index < source.tokens.len() {
        if source.reads(index, &["std", "::"]) && !source.tokens[index].test {
            index = spell(source, index, "", &mut paths);
        } else {
            index += 1;
        }
    }
    paths
}

/// Spells the path at `index` out below `prefix`; answers where it ends.
fn spell(source: &Source, mut index: usize, prefix: &str, to: &mut Vec<(String, usize)>) -> usize {
    let mut path = prefix.to_owned();
    while let Some(token) = source.tokens.get(index) {
        if token.text == "{" && path.ends_with("::") {
            index += 1;
            while !source.reads(index, &["}"]) && index < source.tokens.len() {
                index = if source.reads(index, &[","]) {
                    index + 1
                } else {
                    spell(source, index, &path, to).max(index + 1)
                };
            }
            return index + 1;
        }
        path.push_str(&token.text);
        index += 1;
        if !source.reads(index, &["::"]) {
            to.push((path, token.line));
            break;
        }
        path.push_str("::");
        index += 1;
    }
    // `as name` is part of the entry of a list.
    if source.reads(index, &["as"]) {
        index + 2
    } else {
        index
    }
}

#[cfg(test)]
mod tests {
    use super::super::rust::sources;
    use super::*;

    fn judged(path: &str, text: &str) -> Vec<String> {
        let table = "[pure]\nprotocol = []\n[platform]\nstore = []\nsys = []\n[engines]\nsession = []\n\
                     [programs]\n[outside]\n";
        check(&sources(&[(path, text)]), &Layers::parse(table).unwrap())
            .into_iter()
            .map(|violation| format!("{}: {}", violation.line, violation.what))
            .collect()
    }

    #[test]
    fn every_way_to_name_the_world_is_seen() {
        let text = "use std::net::TcpStream;\nuse std::{fmt, fs};\n\
            use std::{\n    collections::{BTreeMap, HashMap},\n    time::{Duration, Instant as Now},\n};\n\
            fn a() { std::thread::spawn(b); vec![std::env::args()] }\nuse std::time::*;\n";
        assert_eq!(
            judged("crates/protocol/src/a.rs", text),
            [
                "1: protocol does without std::net",
                "2: protocol does without std::fs",
                "5: protocol does without std::time::Instant",
                "7: protocol does without std::thread",
                "7: protocol does without std::env",
                "8: protocol does without std::time::Instant",
            ]
        );
    }

    #[test]
    fn what_is_no_world_is_welcome() {
        let text = "use std::{io::{self, Write}, time::Duration, fmt as f};\n\
            use std::netting;\n/// See [`std::fs`].\nfn a() { b(\"std::net\") }\n\
            #[cfg(test)]\nmod tests { use std::fs; }\n";
        assert_eq!(judged("crates/protocol/src/a.rs", text), [""; 0]);
        assert_eq!(
            judged("crates/protocol/tests/a.rs", "use std::fs;"),
            [""; 0]
        );
        assert_eq!(judged("crates/sys/src/a.rs", "use std::fs;"), [""; 0]);
    }

    #[test]
    fn rooms_above_keep_what_they_promised() {
        let text = "use std::env;\nuse std::time::Instant;\n";
        assert_eq!(
            judged("crates/store/src/a.rs", text),
            ["2: store does without std::time::Instant"]
        );
        assert_eq!(judged("crates/session/src/a.rs", text).len(), 2);
    }
}
