//! The texts of transcripts: bytes with escapes, and placeholders for bytes that differ between
//! runs.
//!
//! | in a text | matches |
//! |---|---|
//! | `\r` `\n` `\t` `\0` `\\` `\xNN` | that byte |
//! | `{250*k}` | `k` 250 times |
//! | `{cas:name}` | a number; the first occurrence of `name` binds it, later ones must equal it |
//! | `{new:name}` | a number that differs from all bound numbers; it is bound to `name` |
//! | `{cas8:name}` `{new8:name}` | the same, as eight bytes, the most significant first |
//! | `{left:90}` | a number from 87 to 90: the seconds left of 90, if up to three have passed |
//! | `{any}` | any bytes of one line, up to the bytes that follow in the text |
//! | `{lines}` | any number of complete lines, up to the bytes that follow in the text |
//! | `{stats}` | any number of statistics of the binary protocol |

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};
use protocol::binary::Opcode;
use protocol::binary::reply::Reply;

/// The numbers bound so far, by name.
pub type Bindings = BTreeMap<String, u64>;

/// A text with placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern {
    pieces: Vec<Piece>,
}

/// A part of a pattern: bytes or one placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Bytes(Vec<u8>),
    Number {
        name: String,
        is_new: bool,
        form: NumberForm,
    },
    SecondsLeft(u64),
    Any,
    Lines,
    Statistics,
}

/// How a number is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberForm {
    Decimal,
    /// Eight bytes, the most significant first.
    Binary,
}

/// The result of comparing a pattern with the bytes received so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Match {
    /// The pattern matches the front of the bytes. The number of matched bytes.
    Complete(usize),
    /// The bytes are the beginning of a match.
    NeedsMore,
    /// The bytes do not match, whatever follows them.
    Wrong,
}

impl Pattern {
    /// Parses a text.
    ///
    /// # Errors
    /// The text contains an unknown escape or placeholder. The error names it.
    pub fn read(text: &str) -> Result<Self> {
        let mut pattern = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find(['\\', '{']) {
            pattern.push_bytes(&rest.as_bytes()[..at]);
            let special = &rest[at..];
            let len = if special.starts_with('\\') {
                pattern.read_escape(special)?
            } else {
                pattern.read_placeholder(special)?
            };
            rest = &special[len..];
        }
        pattern.push_bytes(rest.as_bytes());
        Ok(pattern)
    }

    /// A pattern of exactly these bytes.
    #[must_use]
    pub fn literal(bytes: &[u8]) -> Self {
        Self {
            pieces: vec![Piece::Bytes(bytes.to_vec())],
        }
    }

    /// Appends another pattern to this one.
    pub fn append(&mut self, other: &Self) {
        for piece in &other.pieces {
            match piece {
                Piece::Bytes(bytes) => self.push_bytes(bytes),
                placeholder => self.pieces.push(placeholder.clone()),
            }
        }
    }

    /// Returns the bytes to send. Numbers are replaced by their bound values.
    ///
    /// # Errors
    /// A name is not bound, or the pattern has a placeholder that is only allowed in replies.
    pub fn fill(&self, bindings: &Bindings) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(some) => bytes.extend_from_slice(some),
                Piece::Number { name, form, .. } => {
                    let number = bindings.get(name);
                    let number =
                        number.with_context(|| format!("no number is bound to '{name}'"))?;
                    match form {
                        NumberForm::Decimal => bytes.extend(number.to_string().into_bytes()),
                        NumberForm::Binary => bytes.extend(number.to_be_bytes()),
                    }
                }
                Piece::SecondsLeft(_) | Piece::Any | Piece::Lines | Piece::Statistics => {
                    bail!("only a reply may contain {{left:x}}, {{any}}, {{lines}} or {{stats}}");
                }
            }
        }
        Ok(bytes)
    }

    /// Compares the pattern with the received bytes. Binds new names only if it matches.
    pub fn matches(&self, received: &[u8], bindings: &mut Bindings) -> Match {
        let mut bound = bindings.clone();
        let mut rest = received;
        for (place, piece) in self.pieces.iter().enumerate() {
            let next = self.pieces.get(place + 1);
            let taken = match piece {
                Piece::Bytes(bytes) => take_bytes(bytes, rest),
                Piece::Number { name, is_new, form } => {
                    take_number(name, *is_new, *form, rest, &mut bound)
                }
                Piece::SecondsLeft(seconds) => take_seconds_left(*seconds, rest),
                Piece::Any => take_any(next, rest),
                Piece::Lines => take_lines(next, rest),
                Piece::Statistics => take_statistics(rest),
            };
            match taken {
                Match::Complete(len) => rest = &rest[len..],
                other => return other,
            }
        }
        *bindings = bound;
        Match::Complete(received.len() - rest.len())
    }

    /// The pattern as text, for a failure message.
    #[must_use]
    pub fn show(&self) -> String {
        let show = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => show(bytes),
            Piece::Number { name, .. } => format!("{{cas:{name}}}"),
            Piece::SecondsLeft(seconds) => format!("{{left:{seconds}}}"),
            Piece::Any => "{any}".to_owned(),
            Piece::Lines => "{lines}".to_owned(),
            Piece::Statistics => "{stats}".to_owned(),
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

    /// Parses the escape at the front of `text` and returns its length.
    fn read_escape(&mut self, text: &str) -> Result<usize> {
        let simple = match text.as_bytes().get(1) {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let digits = text.get(2..4).context("'\\x' requires two digits")?;
                let byte = u8::from_str_radix(digits, 16);
                let byte = byte.with_context(|| format!("'\\x{digits}' is not a byte"))?;
                self.push_bytes(&[byte]);
                return Ok(4);
            }
            _ => bail!("a '\\' must be followed by one of r, n, t, 0, x and '\\'"),
        };
        self.push_bytes(&[simple]);
        Ok(2)
    }

    /// Parses the placeholder at the front of `text` and returns its length.
    fn read_placeholder(&mut self, text: &str) -> Result<usize> {
        let (placeholder, _) = text[1..]
            .split_once('}')
            .ok_or_else(|| anyhow!("'{{' without '}}' (write a brace as \\x7b)"))?;
        let number = |name: &str, is_new, form| Piece::Number {
            name: name.to_owned(),
            is_new,
            form,
        };
        if placeholder == "any" {
            self.pieces.push(Piece::Any);
        } else if placeholder == "lines" {
            self.pieces.push(Piece::Lines);
        } else if placeholder == "stats" {
            self.pieces.push(Piece::Statistics);
        } else if let Some(name) = placeholder.strip_prefix("cas:") {
            self.pieces.push(number(name, false, NumberForm::Decimal));
        } else if let Some(name) = placeholder.strip_prefix("cas8:") {
            self.pieces.push(number(name, false, NumberForm::Binary));
        } else if let Some(name) = placeholder.strip_prefix("new8:") {
            self.pieces.push(number(name, true, NumberForm::Binary));
        } else if let Some(seconds) = placeholder.strip_prefix("left:") {
            let seconds = seconds.parse();
            let seconds = seconds
                .with_context(|| format!("'{{{placeholder}}}' requires a number of seconds"))?;
            self.pieces.push(Piece::SecondsLeft(seconds));
        } else if let Some(name) = placeholder.strip_prefix("new:") {
            self.pieces.push(number(name, true, NumberForm::Decimal));
        } else if let Some((count, what)) = placeholder.split_once('*') {
            let count: usize = count
                .parse()
                .with_context(|| format!("'{count}' in '{{{placeholder}}}' is not a number"))?;
            let once = Self::read(what)?.fill(&Bindings::new())?;
            self.push_bytes(&once.repeat(count));
        } else {
            bail!("'{{{placeholder}}}' is not a placeholder; the module 'pattern' lists them");
        }
        Ok(placeholder.len() + 2)
    }
}

/// Matches these bytes with the front of `rest`.
fn take_bytes(bytes: &[u8], rest: &[u8]) -> Match {
    let shared = bytes.len().min(rest.len());
    if bytes[..shared] != rest[..shared] {
        Match::Wrong
    } else if shared < bytes.len() {
        Match::NeedsMore
    } else {
        Match::Complete(shared)
    }
}

/// Matches a number with the front of `rest`, and binds it to `name`.
fn take_number(
    name: &str,
    is_new: bool,
    form: NumberForm,
    rest: &[u8],
    bound: &mut Bindings,
) -> Match {
    let found = match form {
        NumberForm::Decimal => digits(rest),
        NumberForm::Binary => match rest.first_chunk() {
            Some(bytes) => Ok((bytes.len(), u64::from_be_bytes(*bytes))),
            None => Err(Match::NeedsMore),
        },
    };
    let (len, number) = match found {
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
    Match::Complete(len)
}

/// Matches the number `seconds`, or up to three less, with the front of `rest`.
fn take_seconds_left(seconds: u64, rest: &[u8]) -> Match {
    match digits(rest) {
        Ok((len, number)) if (seconds.saturating_sub(3)..=seconds).contains(&number) => {
            Match::Complete(len)
        }
        Ok(_) => Match::Wrong,
        Err(other) => other,
    }
}

/// Parses the number at the front of `rest` and returns its length and value. Needs the byte after
/// the number, since otherwise further digits could follow.
fn digits(rest: &[u8]) -> Result<(usize, u64), Match> {
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if len == rest.len() {
        return Err(Match::NeedsMore);
    }
    let number = String::from_utf8_lossy(&rest[..len]).parse();
    number.map(|number| (len, number)).map_err(|_| Match::Wrong)
}

/// Matches any bytes of one line with the front of `rest`, up to the piece `next`.
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
        (Some(len), _) => Match::Complete(len),
        (None, Some(_)) => Match::Wrong,
        (None, None) => Match::NeedsMore,
    }
}

/// Matches complete lines with the front of `rest`, up to the piece `next`.
fn take_lines(next: Option<&Piece>, rest: &[u8]) -> Match {
    let Some(Piece::Bytes(bytes)) = next else {
        return Match::Wrong;
    };
    let mut len = 0;
    loop {
        if rest[len..].starts_with(bytes) {
            return Match::Complete(len);
        }
        let Some(line_len) = rest[len..].iter().position(|&byte| byte == b'\n') else {
            return Match::NeedsMore;
        };
        len += line_len + 1;
    }
}

/// Matches complete statistics with the front of `rest`, up to another frame or the end of the
/// list.
fn take_statistics(rest: &[u8]) -> Match {
    let mut len = 0;
    loop {
        match Reply::read(&rest[len..]) {
            Err(_) => return Match::Wrong,
            Ok(None) => return Match::NeedsMore,
            Ok(Some((reply, _)))
                if reply.key.is_empty() || reply.header.head.opcode != Opcode::STAT =>
            {
                return Match::Complete(len);
            }
            Ok(Some((_, reply_len))) => len += reply_len,
        }
    }
}

/// Formats bytes for a failure message, with escapes. The middle of a long text is left out.
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
    fn escapes_and_repetitions_become_bytes_and_invalid_ones_are_errors() {
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
    fn partial_bytes_need_more_and_differing_bytes_are_wrong() {
        assert_eq!(matched("abc", "abcd"), Match::Complete(3));
        assert_eq!(matched("abc", "ab"), Match::NeedsMore);
        assert_eq!(matched("abc", "abd"), Match::Wrong);
    }

    #[test]
    fn number_is_bound_to_its_name_and_compared_later() {
        assert_eq!(matched("{cas:a} {cas:a}!", "12 12!"), Match::Complete(6));
        assert_eq!(matched("{cas:a} {cas:a}!", "12 13!"), Match::Wrong);
        assert_eq!(matched("{cas:a} {new:b}!", "12 13!"), Match::Complete(6));
        assert_eq!(matched("{cas:a} {new:b}!", "12 12!"), Match::Wrong);
        assert_eq!(matched("{cas:a}!", "12"), Match::NeedsMore);
        assert_eq!(matched("{cas:a}!", "x"), Match::Wrong);
        assert_eq!(matched("t{left:90}!", "t89!"), Match::Complete(4));
        assert_eq!(matched("t{left:90}!", "t91!"), Match::Wrong);
    }

    #[test]
    fn any_matches_within_a_line_and_lines_matches_several() {
        assert_eq!(matched(r"V {any}\r\nE", "V 1.2\r\nE"), Match::Complete(8));
        assert_eq!(matched(r"V {any}x", "V 1.2\r\nx"), Match::Wrong);
        assert_eq!(matched(r"V {any}x", "V 1.2"), Match::NeedsMore);
        assert_eq!(matched(r"{lines}END\n", "a\nb\nEND\n"), Match::Complete(8));
        assert_eq!(matched(r"{lines}END\n", "a\nb END\n"), Match::NeedsMore);
    }
}
