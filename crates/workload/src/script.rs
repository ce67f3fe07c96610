//! Scripts: one operation a line, as text.
//!
//! ```text
//! [TIME] get KEY [KEY…]            several keys: a multiget
//! [TIME] set KEY LEN [TTL]         also add, replace, append, prepend, cas, read-through
//! [TIME] touch KEY [TTL]           also gat
//! [TIME] delete KEY                also incr, decr
//! ```
//!
//! Words are separated by spaces or tabs. TIME is in seconds, with decimals; LEN is the length of
//! the value in bytes; TTL is in seconds, and 0 (the default) means no expiry. Empty lines and
//! lines that begin with `#` are skipped. The parser allocates nothing.

use crate::Op;
use crate::limits::{KEY_LEN_MAX, MULTIGET_KEYS_MAX, TTL_S_MAX};

/// One operation of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptLine<'a> {
    /// The time, from the zero point of the script's clock. None: the line has none.
    pub at_ns: Option<u64>,
    /// The operation; [`Op::Gets`] for `cas`.
    pub op: Op,
    /// The key, or the keys of a multiget with the spaces between them.
    pub keys: &'a [u8],
    /// Number of keys.
    pub key_count: u16,
    /// Length of the value that it stores, or that the request after it stores.
    pub value_len: u32,
    /// TTL in seconds; 0: no expiry.
    pub ttl_s: u32,
}

/// Why a line is no operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// There is a time and nothing else.
    #[error("no operation; {OPERATIONS}")]
    NoOperation,
    /// The operation is none.
    #[error("unknown operation; {OPERATIONS}")]
    UnknownOperation,
    /// The time is no number, or too large.
    #[error("the time is not a number of seconds below 10^9")]
    Time,
    /// There is no key.
    #[error("no key")]
    NoKey,
    /// The key is too long or has control characters.
    #[error("the key is longer than 250 bytes or has control characters")]
    Key,
    /// Too many keys.
    #[error("more than 128 keys")]
    Keys,
    /// The length of the value is missing.
    #[error("no length of the value after the key")]
    NoLength,
    /// The length of the value is no number.
    #[error("the length of the value is not a number of bytes up to 4294967295")]
    Length,
    /// The TTL is no number, or too large.
    #[error("the TTL is not a number of seconds up to 2592000 (30 days)")]
    Ttl,
    /// There are more words than the operation takes.
    #[error("more words than the operation takes")]
    Words,
}

const OPERATIONS: &str = "give get, set, add, replace, append, prepend, delete, touch, gat, incr, \
                          decr, cas or read-through";

impl<'a> ScriptLine<'a> {
    /// Parses a line, with or without its line end. None: it is empty or a comment.
    ///
    /// # Errors
    /// The line is no operation.
    pub fn parse(line: &'a [u8]) -> Result<Option<Self>, LineError> {
        let mut rest = line.trim_ascii();
        if rest.is_empty() || rest.starts_with(b"#") {
            return Ok(None);
        }
        let mut word = next(&mut rest).ok_or(LineError::NoOperation)?;
        let mut at_ns = None;
        if word
            .first()
            .is_some_and(|&byte| byte.is_ascii_digit() || byte == b'.')
        {
            at_ns = Some(seconds_ns(word).ok_or(LineError::Time)?);
            word = next(&mut rest).ok_or(LineError::NoOperation)?;
        }
        let op = operation(word).ok_or(LineError::UnknownOperation)?;
        if op == Op::Get || op == Op::MultiGet {
            return Self::read(at_ns, rest).map(Some);
        }
        let keys = next(&mut rest).ok_or(LineError::NoKey)?;
        check_key(keys)?;
        let mut parsed = Self {
            at_ns,
            op,
            keys,
            key_count: 1,
            value_len: 0,
            ttl_s: 0,
        };
        if op.stores() || op.follow_up().is_some() {
            let len = next(&mut rest).ok_or(LineError::NoLength)?;
            parsed.value_len = number(len).ok_or(LineError::Length)?;
        }
        if op.has_ttl()
            && let Some(ttl) = next(&mut rest)
        {
            parsed.ttl_s = number(ttl)
                .filter(|&ttl| ttl <= TTL_S_MAX)
                .ok_or(LineError::Ttl)?;
        }
        if next(&mut rest).is_some() {
            return Err(LineError::Words);
        }
        Ok(Some(parsed))
    }

    /// A get of all remaining words.
    fn read(at_ns: Option<u64>, keys: &'a [u8]) -> Result<Self, LineError> {
        let keys = keys.trim_ascii();
        let mut rest = keys;
        let mut key_count = 0;
        while let Some(key) = next(&mut rest) {
            check_key(key)?;
            if key_count == MULTIGET_KEYS_MAX {
                return Err(LineError::Keys);
            }
            key_count += 1;
        }
        let op = match key_count {
            0 => return Err(LineError::NoKey),
            1 => Op::Get,
            _ => Op::MultiGet,
        };
        Ok(Self {
            at_ns,
            op,
            keys,
            key_count,
            value_len: 0,
            ttl_s: 0,
        })
    }

    /// The keys.
    pub fn each_key(&self) -> impl Iterator<Item = &'a [u8]> {
        words(self.keys)
    }
}

/// The words of a text.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || next(&mut rest))
}

fn operation(name: &[u8]) -> Option<Op> {
    match name {
        b"cas" => Some(Op::Gets),
        b"gets" | b"fill" | b"head" => None,
        _ => Op::ALL.into_iter().find(|op| op.name().as_bytes() == name),
    }
}

/// Takes the next word from the front of `rest`.
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text = rest.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace);
    let (word, after) = text.split_at(end.unwrap_or(text.len()));
    *rest = after;
    (!word.is_empty()).then_some(word)
}

fn check_key(key: &[u8]) -> Result<(), LineError> {
    let is_valid = key.len() <= KEY_LEN_MAX && !key.iter().any(u8::is_ascii_control);
    if is_valid {
        Ok(())
    } else {
        Err(LineError::Key)
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Nanoseconds of a decimal number of seconds; digits beyond the ninth decimal are cut off.
fn seconds_ns(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() > 10 || !is_number(whole) || !is_number(decimals) || text == "." {
        return None;
    }
    let seconds: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut ns = 0;
    for place in 0..9 {
        let digit = decimals.as_bytes().get(place).map_or(0, |byte| byte - b'0');
        ns = ns * 10 + u64::from(digit);
    }
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<ScriptLine<'_>>, LineError> {
        ScriptLine::parse(line.as_bytes())
    }

    #[test]
    fn operations_parse_with_their_words() {
        let get = ScriptLine {
            at_ns: None,
            op: Op::Get,
            keys: b"k",
            key_count: 1,
            value_len: 0,
            ttl_s: 0,
        };
        assert_eq!(parse("get k\r\n"), Ok(Some(get)));
        assert_eq!(
            parse(" 1.25 get\tk"),
            Ok(Some(ScriptLine {
                at_ns: Some(1_250_000_000),
                ..get
            }))
        );
        let stored = ScriptLine {
            value_len: 100,
            ttl_s: 60,
            ..get
        };
        for (line, op) in [
            ("set k 100 60", Op::Set),
            ("cas k 100 60", Op::Gets),
            ("read-through k 100 60", Op::ReadThrough),
        ] {
            assert_eq!(parse(line), Ok(Some(ScriptLine { op, ..stored })));
        }
        let several = parse("multiget a bb  c").unwrap().unwrap();
        assert_eq!((several.op, several.key_count), (Op::MultiGet, 3));
        let keys: Vec<&[u8]> = several.each_key().collect();
        assert_eq!(keys, [b"a".as_slice(), b"bb", b"c"]);
        assert_eq!(parse("gat k 7").unwrap().map(|it| it.ttl_s), Some(7));
        assert_eq!(
            parse("incr k").unwrap().map(|it| it.op),
            Some(Op::Increment)
        );
        assert_eq!(parse("# get k"), Ok(None));
        assert_eq!(parse("\n"), Ok(None));
    }

    #[test]
    fn a_malformed_line_has_a_fault() {
        let long = format!("get {}", "k".repeat(251));
        let many = format!("get {}", "k ".repeat(129));
        for (line, fault) in [
            ("1.5", LineError::NoOperation),
            ("fetch k", LineError::UnknownOperation),
            ("gets k", LineError::UnknownOperation),
            ("1.x get k", LineError::Time),
            ("99999999999 get k", LineError::Time),
            ("get", LineError::NoKey),
            ("delete", LineError::NoKey),
            ("get k\u{1}y", LineError::Key),
            (&long, LineError::Key),
            (&many, LineError::Keys),
            ("set k", LineError::NoLength),
            ("set k -1", LineError::Length),
            ("set k 5 -1", LineError::Ttl),
            ("touch k 2592001", LineError::Ttl),
            ("delete k 0", LineError::Words),
            ("set k 5 0 0", LineError::Words),
        ] {
            assert_eq!(parse(line), Err(fault), "{line}");
        }
    }
}
