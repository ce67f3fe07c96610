//! Text of transcripts: bytes with escapes, and holes for what differs from run to run.
//!
//! | in a text | means |
//! |---|---|
//! | `\r` `\n` `\t` `\0` `\\` `\xNN` | that byte |
//! | `{250*k}` | `k` 250 times |
//! | `{cas:name}` | a number: the first seen under the name binds it, later ones must equal it |
//! | `{new:name}` | a number unlike any bound so far, bound to the name |
//! | `{left:90}` | 90, or up to three less: seconds left, on a clock that runs |
//! | `{any}` | anything up to what follows, within a line |
//! | `{lines}` | any number of whole lines, up to what follows |

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};

/// Numbers bound so far, by name.
pub type Bindings = BTreeMap<String, u64>;

/// A text with holes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    Number { name: String, is_new: bool },
    Left(u64),
    Any,
    Lines,
}

/// How a pattern and the bytes received so far compare.
#[derive(Debug, PartialEq, Eq)]
pub enum Match {
    /// The first so many bytes are what was expected.
    Whole(usize),
    /// So far nothing is wrong.
    NeedsMore,
    /// No continuation can be right.
    Wrong,
}

impl Pattern {
    /// Reads a text.
    ///
    /// # Errors
    /// An unknown escape or hole, named.
    pub fn read(text: &str) -> Result<Self> {
        let mut pattern = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find(['\\', '{']) {
            pattern.push_bytes(&rest.as_bytes()[..at]);
            let special = &rest[at..];
            let len = if special.starts_with('\\') {
                pattern.read_escape(special)?
            } else {
                pattern.read_hole(special)?
            };
            rest = &special[len..];
        }
        pattern.push_bytes(rest.as_bytes());
        Ok(pattern)
    }

    /// The pattern followed by another.
    pub fn append(&mut self, other: &Self) {
        for piece in &other.pieces {
            match piece {
                Piece::Bytes(bytes) => self.push_bytes(bytes),
                hole => self.pieces.push(hole.clone()),
            }
        }
    }

    /// The bytes to send: holes are filled with what is bound.
    ///
    /// # Errors
    /// A name is not bound, or the pattern has a hole that only an answer can fill.
    pub fn fill(&self, bindings: &Bindings) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(some) => bytes.extend_from_slice(some),
                Piece::Number { name, .. } => {
                    let number = bindings.get(name);
                    let number = number.with_context(|| format!("nothing is bound to '{name}'"))?;
                    bytes.extend(number.to_string().into_bytes());
                }
                Piece::Left(_) | Piece::Any | Piece::Lines => {
                    bail!("only an answer may hold {{left:x}}, {{any}} or {{lines}}");
                }
            }
        }
        Ok(bytes)
    }

    /// Compares with what was received; binds names once all of it fits.
    pub fn matches(&self, received: &[u8], bindings: &mut Bindings) -> Match {
        let mut bound = bindings.clone();
        let mut rest = received;
        for (place, piece) in self.pieces.iter().enumerate() {
            let next = self.pieces.get(place + 1);
            let taken = match piece {
                Piece::Bytes(bytes) => take_bytes(bytes, rest),
                Piece::Number { name, is_new } => take_number(name, *is_new, rest, &mut bound),
                Piece::Left(seconds) => take_left(*seconds, rest),
                Piece::Any => take_any(next, rest),
                Piece::Lines => take_lines(next, rest),
            };
            match taken {
                Match::Whole(len) => rest = &rest[len..],
                other => return other,
            }
        }
        *bindings = bound;
        Match::Whole(received.len() - rest.len())
    }

    /// The pattern for a message.
    #[must_use]
    pub fn show(&self) -> String {
        let show = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => show(bytes),
            Piece::Number { name, .. } => format!("{{cas:{name}}}"),
            Piece::Left(seconds) => format!("{{left:{seconds}}}"),
            Piece::Any => "{any}".to_owned(),
            Piece::Lines => "{lines}".to_owned(),
        };
        self.pieces.iter().map(show).collect()
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Bytes(last)) => last.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.pieces.push(Piece::Bytes(bytes.to_vec())),
        }
    }

    fn read_escape(&mut self, text: &str) -> Result<usize> {
        let simple = match text.as_bytes().get(1) {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let digits = text.get(2..4).context("'\\x' wants two digits")?;
                let byte = u8::from_str_radix(digits, 16);
                self.push_bytes(&[byte.with_context(|| format!("'\\x{digits}' is no byte"))?]);
                return Ok(4);
            }
            _ => bail!("a '\\' wants one of r, n, t, 0, x and '\\' behind it"),
        };
        self.push_bytes(&[simple]);
        Ok(2)
    }

    fn read_hole(&mut self, text: &str) -> Result<usize> {
        let (hole, _) = text[1..]
            .split_once('}')
            .ok_or_else(|| anyhow!("'{{' without '}}' (a brace itself is \\x7b)"))?;
        let number = |name: &str, is_new| Piece::Number {
            name: name.to_owned(),
            is_new,
        };
        if hole == "any" {
            self.pieces.push(Piece::Any);
        } else if hole == "lines" {
            self.pieces.push(Piece::Lines);
        } else if let Some(name) = hole.strip_prefix("cas:") {
            self.pieces.push(number(name, false));
        } else if let Some(seconds) = hole.strip_prefix("left:") {
            let seconds = seconds.parse();
            let seconds = seconds.with_context(|| format!("'{{{hole}}}' wants seconds"))?;
            self.pieces.push(Piece::Left(seconds));
        } else if let Some(name) = hole.strip_prefix("new:") {
            self.pieces.push(number(name, true));
        } else if let Some((count, what)) = hole.split_once('*') {
            let count: usize = count
                .parse()
                .with_context(|| format!("'{count}' in '{{{hole}}}' is no count"))?;
            let once = Self::read(what)?.fill(&Bindings::new())?;
            self.push_bytes(&once.repeat(count));
        } else {
            bail!("'{{{hole}}}' is no hole; the module 'pattern' lists them");
        }
        Ok(hole.len() + 2)
    }
}

fn take_bytes(bytes: &[u8], rest: &[u8]) -> Match {
    let shared = bytes.len().min(rest.len());
    if bytes[..shared] != rest[..shared] {
        Match::Wrong
    } else if shared < bytes.len() {
        Match::NeedsMore
    } else {
        Match::Whole(shared)
    }
}

fn take_number(name: &str, is_new: bool, rest: &[u8], bound: &mut Bindings) -> Match {
    let (len, number) = match digits(rest) {
        Ok(found) => found,
        Err(other) => return other,
    };
    let fits = match bound.get(name) {
        _ if is_new => bound.values().all(|&other| other != number),
        Some(&expected) => expected == number,
        None => true,
    };
    if !fits {
        return Match::Wrong;
    }
    bound.insert(name.to_owned(), number);
    Match::Whole(len)
}

fn take_left(seconds: u64, rest: &[u8]) -> Match {
    match digits(rest) {
        Ok((len, number)) if (seconds.saturating_sub(3)..=seconds).contains(&number) => {
            Match::Whole(len)
        }
        Ok(_) => Match::Wrong,
        Err(other) => other,
    }
}

/// The number in front, once something follows it.
fn digits(rest: &[u8]) -> Result<(usize, u64), Match> {
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if len == rest.len() {
        return Err(Match::NeedsMore);
    }
    let number = String::from_utf8_lossy(&rest[..len]).parse();
    number.map(|number| (len, number)).map_err(|_| Match::Wrong)
}

fn take_any(next: Option<&Piece>, rest: &[u8]) -> Match {
    let line_len = rest.iter().position(|&byte| byte == b'\n');
    let within = &rest[..line_len.map_or(rest.len(), |len| len + 1)];
    let found = match next {
        Some(Piece::Bytes(bytes)) => {
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let first = &bytes[..end.map_or(bytes.len(), |at| at + 1)];
            within.windows(first.len()).position(|some| some == first)
        }
        _ => line_len,
    };
    match (found, line_len) {
        (Some(len), _) => Match::Whole(len),
        (None, Some(_)) => Match::Wrong,
        (None, None) => Match::NeedsMore,
    }
}

fn take_lines(next: Option<&Piece>, rest: &[u8]) -> Match {
    let Some(Piece::Bytes(bytes)) = next else {
        return Match::Wrong;
    };
    let mut len = 0;
    loop {
        if rest[len..].starts_with(bytes) {
            return Match::Whole(len);
        }
        let Some(line_len) = rest[len..].iter().position(|&byte| byte == b'\n') else {
            return Match::NeedsMore;
        };
        len += line_len + 1;
    }
}

/// Bytes for a message: escapes, and the middle of what is long left out.
#[must_use]
pub fn show(bytes: &[u8]) -> String {
    const ENDS: usize = 300;
    if bytes.len() > 3 * ENDS {
        let (start, end) = (&bytes[..ENDS], &bytes[bytes.len() - ENDS..]);
        let left_out = bytes.len() - 2 * ENDS;
        return format!("{}…({left_out} bytes)…{}", show(start), show(end));
    }
    bytes.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(pattern: &str, received: &str) -> Match {
        Pattern::read(pattern)
            .unwrap()
            .matches(received.as_bytes(), &mut Bindings::new())
    }

    #[test]
    fn escapes_and_repeats_are_bytes() {
        let pattern = Pattern::read(r"a\r\n\x00\\{3*x\n}b").unwrap();
        assert_eq!(
            pattern.fill(&Bindings::new()).unwrap(),
            b"a\r\n\0\\x\nx\nx\nb"
        );
        for wrong in [r"\q", r"\x1", "{", "{what}", "{x*y}"] {
            assert!(Pattern::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_match_as_far_as_they_came() {
        assert_eq!(matched("abc", "abcd"), Match::Whole(3));
        assert_eq!(matched("abc", "ab"), Match::NeedsMore);
        assert_eq!(matched("abc", "abd"), Match::Wrong);
    }

    #[test]
    fn numbers_bind_by_name() {
        assert_eq!(matched("{cas:a} {cas:a}!", "12 12!"), Match::Whole(6));
        assert_eq!(matched("{cas:a} {cas:a}!", "12 13!"), Match::Wrong);
        assert_eq!(matched("{cas:a} {new:b}!", "12 13!"), Match::Whole(6));
        assert_eq!(matched("{cas:a} {new:b}!", "12 12!"), Match::Wrong);
        assert_eq!(matched("{cas:a}!", "12"), Match::NeedsMore);
        assert_eq!(matched("{cas:a}!", "x"), Match::Wrong);
        assert_eq!(matched("t{left:90}!", "t89!"), Match::Whole(4));
        assert_eq!(matched("t{left:90}!", "t91!"), Match::Wrong);
    }

    #[test]
    fn any_stays_within_its_line_and_lines_do_not() {
        assert_eq!(matched(r"V {any}\r\nE", "V 1.2\r\nE"), Match::Whole(8));
        assert_eq!(matched(r"V {any}x", "V 1.2\r\nx"), Match::Wrong);
        assert_eq!(matched(r"V {any}x", "V 1.2"), Match::NeedsMore);
        assert_eq!(matched(r"{lines}END\n", "a\nb\nEND\n"), Match::Whole(8));
        assert_eq!(matched(r"{lines}END\n", "a\nb END\n"), Match::NeedsMore);
    }
}
