//! HTTP requests, and what servers answered to them: the files of `tests/http/`.
//!
//! ```text
//! case two-lengths
//! send GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n    the bytes; more lines are appended
//! send Content-Length: 0\r\n\r\n
//! curtail 400 closed                                         what each server did
//! nginx 400 closed
//! why strict                                                 why the servers differ
//! ```
//!
//! Escapes are `\r`, `\n`, `\t`, `\0`, `\\`, `\xNN`, and `\{N*TEXT}` for N times the text. After
//! the bytes of a case, a request for `/probe` is sent: where its answer stands shows where the
//! server saw the end of the case. In a case with the line `alone` it is not sent.
//!
//! What a server did is the sequence of its statuses, `probe` in place of that of the probe, and
//! `closed` or `open`. A status may have a detail: the file that was sent, unless it is the index
//! of the root; the range; or the location.

mod observe;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub use observe::{Site, observe};

use crate::web_servers::NAMES;

/// A request of the corpus, or several, and what servers did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The lines of its bytes, escaped.
    pub lines: Vec<String>,
    /// No probe follows.
    pub alone: bool,
    /// What each server did, by its name.
    pub outcomes: BTreeMap<String, String>,
    /// The name of the reason why the outcomes differ.
    pub why: Option<String>,
}

impl Case {
    /// The bytes to send, the probe included.
    ///
    /// # Errors
    /// An escape is malformed.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for line in &self.lines {
            unescape(line, &mut bytes).with_context(|| format!("case {}", self.name))?;
        }
        if !self.alone {
            bytes.extend_from_slice(observe::PROBE);
        }
        Ok(bytes)
    }

    /// Whether the servers did different things.
    #[must_use]
    pub fn is_disputed(&self) -> bool {
        let mut outcomes = self.outcomes.values();
        let first = outcomes.next();
        outcomes.any(|outcome| Some(outcome) != first)
    }
}

/// A file of the corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chapter {
    /// The name of the file, without its type.
    pub name: String,
    /// What the cases are about: the comment at the head of the file.
    pub title: String,
    /// The cases.
    pub cases: Vec<Case>,
}

/// The chapters in their order.
pub const CHAPTERS: [&str; 8] = [
    "first-lines",
    "fields",
    "lengths",
    "codings",
    "heads",
    "pipelines",
    "paths",
    "ranges",
];

/// The chapter of the requests for items of the cache, which no other server has.
pub const ITEMS: &str = "items";

/// The folder of the corpus.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("http")
}

/// Reads the corpus.
///
/// # Errors
/// A file is missing, or a line of it is not of the format.
pub fn read() -> Result<Vec<Chapter>> {
    CHAPTERS.into_iter().map(read_chapter).collect()
}

/// Reads the requests for items of the cache.
///
/// # Errors
/// As [`read`].
pub fn read_items() -> Result<Chapter> {
    read_chapter(ITEMS)
}

fn read_chapter(name: &str) -> Result<Chapter> {
    let path = folder().join(name).with_extension("txt");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut lines = text.lines();
    let title = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("# ")
        .trim_end_matches('.');
    let mut cases: Vec<Case> = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "case" {
            cases.push(Case {
                name: rest.to_owned(),
                ..Case::default()
            });
            continue;
        }
        let case = cases
            .last_mut()
            .with_context(|| format!("{name}: `{line}` before a case"))?;
        match word {
            "send" => case.lines.push(rest.to_owned()),
            "alone" => case.alone = true,
            "why" => case.why = Some(rest.to_owned()),
            _ if NAMES.contains(&word) => {
                case.outcomes.insert(word.to_owned(), rest.to_owned());
            }
            _ => bail!(
                "{name}, case {}: `{line}` is no line of the format",
                case.name
            ),
        }
    }
    Ok(Chapter {
        name: name.to_owned(),
        title: title.to_owned(),
        cases,
    })
}

/// Writes a chapter to its file.
///
/// # Errors
/// The file cannot be written.
pub fn write(chapter: &Chapter) -> Result<()> {
    let mut text = format!(
        "# {}.\n# The format is in `tests/src/http_corpus.rs`.\n",
        chapter.title
    );
    for case in &chapter.cases {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\ncase {}", case.name);
        for line in &case.lines {
            let _ = writeln!(text, "{}", format!("send {line}").trim_end());
        }
        if case.alone {
            text.push_str("alone\n");
        }
        for (server, outcome) in &case.outcomes {
            let _ = writeln!(text, "{server} {outcome}");
        }
        if let Some(why) = case.why.as_ref().filter(|_| case.is_disputed()) {
            let _ = writeln!(text, "why {why}");
        }
    }
    let path = folder().join(&chapter.name).with_extension("txt");
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// Reads a file of lines `NAME TEXT`, in their order.
///
/// # Errors
/// The file cannot be read.
pub fn read_named_lines(file: &str) -> Result<Vec<(String, String)>> {
    let path = folder().join(file);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &str| {
        line.split_once(' ')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
    };
    Ok(lines.filter_map(pair).collect())
}

/// Appends the bytes that an escaped text stands for.
fn unescape(text: &str, bytes: &mut Vec<u8>) -> Result<()> {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let letter = escape.chars().next().context("a backslash at the end")?;
        let mut len = 1;
        match letter {
            'r' => bytes.push(b'\r'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            '0' => bytes.push(0),
            '\\' => bytes.push(b'\\'),
            'x' => {
                let digits = escape.get(1..3).context("`\\x` without two digits")?;
                bytes.push(u8::from_str_radix(digits, 16)?);
                len = 3;
            }
            '{' => {
                let end = escape.find('}').context("`\\{` without an end")?;
                let (count, part) = escape[1..end]
                    .split_once('*')
                    .context("`\\{` without `*`")?;
                let mut repeated = Vec::new();
                unescape(part, &mut repeated)?;
                bytes.extend_from_slice(&repeated.repeat(count.parse()?));
                len = end + 1;
            }
            _ => bail!("there is no escape `\\{letter}`"),
        }
        rest = &escape[len..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(())
}

/// The table of the requests on which the servers differ, for the documentation.
///
/// # Errors
/// The corpus cannot be read.
pub fn table(chapters: &[Chapter]) -> Result<String> {
    let mut text = String::new();
    for chapter in chapters {
        let disputed = chapter.cases.iter().filter(|case| case.is_disputed());
        let count = disputed.clone().count();
        let all = chapter.cases.len();
        let _ = write!(
            text,
            "\n### {}\n\n{count} of {all} requests, in `tests/http/{}.txt`.\n\n",
            chapter.title, chapter.name
        );
        let columns: Vec<&str> = NAMES
            .into_iter()
            .filter(|&name| {
                chapter
                    .cases
                    .iter()
                    .any(|it| it.outcomes.contains_key(name))
            })
            .collect();
        let _ = writeln!(text, "| request | {} | reason |", columns.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(columns.len() + 1));
        for case in disputed {
            let outcome = |name: &&str| case.outcomes.get(*name).map_or("", String::as_str);
            let outcomes: Vec<&str> = columns.iter().map(outcome).collect();
            let why = case.why.as_deref().unwrap_or("?");
            let _ = writeln!(text, "| {} | {} | {why} |", case.name, outcomes.join(" | "));
        }
    }
    Ok(text)
}

/// The table of all requests for items of the cache, for the documentation.
#[must_use]
pub fn item_table(items: &Chapter) -> String {
    let mut text = format!(
        "\n### {}\n\nAll {} requests, in `tests/http/{}.txt`.\n\n| request | curtail |\n|---|---|\n",
        items.title,
        items.cases.len(),
        items.name
    );
    for case in &items.cases {
        let outcome = case.outcomes.get("curtail").map_or("", String::as_str);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | {outcome} |", case.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes() {
        let mut bytes = Vec::new();
        unescape(r"a\r\n\t\0\\\xfe\{3*b\n}c", &mut bytes).unwrap();
        assert_eq!(bytes, b"a\r\n\t\0\\\xfeb\nb\nb\nc");
        for text in [r"\", r"\q", r"\x4", r"\{3b}", r"\{3*b"] {
            assert!(unescape(text, &mut bytes).is_err(), "{text}");
        }
    }
}
