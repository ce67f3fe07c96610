//! The file format of transcripts: requests, and the expected replies.
//!
//! ```text
//! # A comment. A case starts with an empty cache and one client, `a`.
//! @case incr wraps at 2^64
//! > set n 0 0 20
//! > 18446744073709551615
//! < STORED
//! > incr n 1
//! < 0
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `@case NAME` | a new case |
//! | `> TEXT` | the client sends the text and `\r\n` |
//! | `>> TEXT` | the client sends the text alone |
//! | `< TEXT` | the peer replies with the text and `\r\n` |
//! | `<< TEXT` | the peer replies with the text alone |
//! | `\|> FRAME` | the client sends a frame of the binary protocol ([`frame`]) |
//! | `\|< FRAME` | the peer replies with the frame |
//! | `@VERSION < TEXT` (or `<<`, `\|<`) | the reply of memcached VERSION, instead of the `<` lines above |
//! | `@VERSION silent` | memcached VERSION does not send the `<` lines above, and no other reply |
//! | `@VERSION skip` | the case is not played to memcached VERSION |
//! | `@memory` | the case needs its items in memory, not in a tier below it |
//! | `@client NAME` | the following lines belong to the client NAME, on a connection of its own |
//! | `@closed` | the peer has closed the connection |
//! | `@tick N` | N seconds pass |
//!
//! [`Pattern`] lists the escapes and placeholders of a text. A peer must not send more than the
//! expected replies. To check this, every client that is connected at the end of a case sends `mn`
//! and must receive `MN` and nothing else; a client of the binary protocol does so with a `noop`.
//! The replies are those of memcached 1.6.45.

pub mod frame;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::pattern::Pattern;

/// One case of a transcript: requests of one or several clients, and the expected replies.
#[derive(Debug)]
pub struct Case {
    /// The file and the name of the case, as `file: name`.
    pub name: String,
    /// The steps in order, each with its line number.
    pub steps: Vec<(usize, Step)>,
    /// The versions of memcached to which the case is not played.
    pub skipped_by: Vec<String>,
    /// The case lists items, which it finds in memory only.
    pub needs_memory: bool,
}

/// One line of a case, or several lines of one reply.
#[derive(Debug)]
pub enum Step {
    /// The steps after this belong to the client of this name.
    Client(String),
    /// The client sends this text.
    Send(Pattern),
    /// The client receives this reply.
    Expect {
        /// The reply of memcached 1.6.45.
        answer: Pattern,
        /// The replies of other versions of memcached, by version.
        others: Vec<(String, Pattern)>,
    },
    /// The peer has closed the connection.
    Closed,
    /// This number of seconds passes.
    Tick(u64),
}

impl Case {
    /// Whether the case contains an `@tick`.
    #[must_use]
    pub fn needs_clock(&self) -> bool {
        self.steps
            .iter()
            .any(|(_, step)| matches!(step, Step::Tick(_)))
    }

    /// Whether the case names a version of memcached whose replies differ from those of 1.6.45.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.steps.iter().any(|(_, step)| match step {
            Step::Expect { others, .. } => !others.is_empty(),
            _ => false,
        }) || !self.skipped_by.is_empty()
    }
}

/// Reads every `*.txt` of a folder, in order of name.
///
/// # Errors
/// A file cannot be read or contains an invalid line. The error names the file and the line.
pub fn read_folder(folder: &Path) -> Result<Vec<Case>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        cases.extend(read(&file, &text)?);
    }
    Ok(cases)
}

/// Reads the text of one file.
///
/// # Errors
/// A line is invalid. The error names it.
pub fn read(file: &str, text: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("@case ") {
            cases.push(Case {
                name: format!("{file}: {name}"),
                steps: Vec::new(),
                skipped_by: Vec::new(),
                needs_memory: false,
            });
            continue;
        }
        let case = cases
            .last_mut()
            .with_context(|| format!("{file}:{number}: a case starts with '@case NAME'"))?;
        read_line(case, number, line).with_context(|| format!("{file}:{number}: '{line}'"))?;
    }
    Ok(cases)
}

/// Adds a line to its case.
fn read_line(case: &mut Case, number: usize, line: &str) -> Result<()> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let step = match word {
        ">" | ">>" | "|>" => Step::Send(text(word, rest)?),
        "<" | "<<" | "|<" => {
            let more = text(word, rest)?;
            if let Some((_, Step::Expect { answer, others })) = case.steps.last_mut()
                && others.is_empty()
            {
                answer.append(&more);
                return Ok(());
            }
            Step::Expect {
                answer: more,
                others: Vec::new(),
            }
        }
        "@client" => Step::Client(rest.to_owned()),
        "@closed" => Step::Closed,
        "@memory" => {
            case.needs_memory = true;
            return Ok(());
        }
        "@tick" => Step::Tick(rest.parse().context("@tick requires a number of seconds")?),
        _ => {
            let version = word.strip_prefix('@').context("no such line")?;
            return read_difference(case, version, rest);
        }
    };
    case.steps.push((number, step));
    Ok(())
}

/// Adds a line `@VERSION …`. `rest` is the line behind the version.
fn read_difference(case: &mut Case, version: &str, rest: &str) -> Result<()> {
    if !version.starts_with(|first: char| first.is_ascii_digit()) {
        bail!("no such line");
    }
    if rest == "skip" {
        case.skipped_by.push(version.to_owned());
        return Ok(());
    }
    let Some((_, Step::Expect { others, .. })) = case.steps.last_mut() else {
        bail!("there is no answer above for {version} to differ from");
    };
    let more = if rest == "silent" {
        Pattern::default()
    } else {
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        if !matches!(word, "<" | "<<" | "|<") {
            bail!("a version must be followed by '<', '<<', '|<', 'silent' or 'skip'");
        }
        text(word, rest)?
    };
    match others.iter_mut().find(|(other, _)| other == version) {
        Some((_, answer)) => answer.append(&more),
        None => others.push((version.to_owned(), more)),
    }
    Ok(())
}

/// Parses a text, or a frame if the mark before it begins with `|`. Adds a line end if that mark is
/// `>` or `<`.
fn text(mark: &str, text: &str) -> Result<Pattern> {
    match mark {
        "|>" => return frame::request(text),
        "|<" if text != "{stats}" => return frame::reply(text),
        "|<" => return Pattern::read(text),
        _ => {}
    }
    let mut pattern = Pattern::read(text)?;
    // The bytes that match `{lines}` already end with a line end.
    if mark.len() == 1 && !text.ends_with("{lines}") {
        pattern.append(&Pattern::read(r"\r\n")?);
    }
    Ok(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_read_with_its_line_numbers_and_differences() {
        let text = "# note\n@case one\n> get a\n< VALUE a 0 1\n< 1\n@1.6.18 < ERROR\n@tick 2\n";
        let cases = read("f.txt", text).unwrap();
        assert_eq!(cases.len(), 1);
        assert!(cases[0].needs_clock() && cases[0].differs());
        let [_, (4, Step::Expect { answer, others }), (7, Step::Tick(2))] = &cases[0].steps[..]
        else {
            panic!("{:?}", cases[0].steps);
        };
        assert_eq!(answer.show(), r"VALUE a 0 1\r\n1\r\n");
        assert_eq!(others[0].1.show(), r"ERROR\r\n");
    }

    #[test]
    fn error_for_an_invalid_line_names_file_and_line() {
        for (text, place) in [
            ("> a\n", "f.txt:1"),
            ("@case x\nnonsense\n", "f.txt:2"),
            ("@case x\n@tick soon\n", "f.txt:2"),
            ("@case x\n> a\n@1.6.18 < b\n", "f.txt:3"),
        ] {
            let error = read("f.txt", text).unwrap_err();
            assert!(error.to_string().contains(place), "{error}");
        }
    }
}
