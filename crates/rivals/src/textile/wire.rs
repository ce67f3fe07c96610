//! The protocol of the study: requests and answers are text that ends with NUL.
//!
//! | request | over | answer |
//! |---|---|---|
//! | `PUT /k/v` | TCP | `Value set in cache.` |
//! | `DELETE /k` | TCP | `Value deleted.` |
//! | `HEAD` | TCP | date, version and the space used, a line each |
//! | `POST /memsize/n` | TCP | `Cache created with maxmem of n.`, or `400` if the cache is not empty |
//! | `POST /shutdown` | TCP | `Clearing cache and ~existing cleanly~.` |
//! | `POST /counters` | TCP | `Counters reset.` (not in the original) |
//! | `GET /k` | UDP | `{ "key" : "k", "val" : "v" }`; the value is `NULL` if there is no such key |
//!
//! A connection carries one request. The texts are those of the published program
//! (`src/server.c`), with two differences: a value that the cache rejects is answered with
//! [`TOO_LARGE`], where the original claims success, and strings are escaped as JSON requires,
//! unlike the original's. A key cannot contain `/` or NUL, and a value cannot contain NUL. The
//! value `NULL` cannot be told from a miss.

/// A request, without its NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// `PUT /key/value`. The value is the rest of the request, and may contain `/`.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// `DELETE /key`
    Delete(&'a [u8]),
    /// `GET /key`
    Get(&'a [u8]),
    /// `HEAD`
    Head,
    /// `POST /memsize/n`, in bytes.
    MemSize(u64),
    /// `POST /shutdown`
    Shutdown,
    /// `POST /counters`
    ResetCounters,
}

/// Answer to a `PUT` that was stored.
pub const STORED: &str = "Value set in cache.\n";
/// Answer to a `PUT` of a value that is larger than the cache.
pub const TOO_LARGE: &str = "Value is larger than the cache; not set.\n";
/// Answer to a `PUT` for which other threads kept all memory.
pub const NO_ROOM: &str = "No room for the value; not set.\n";
/// Answer to a `DELETE`, whether or not the key existed.
pub const DELETED: &str = "Value deleted.\n";
/// Answer to a request that is none.
pub const MALFORMED: &str = "Malformed requested.\n";
/// Answer to a `POST /memsize/n` while the cache is not empty.
pub const NOT_EMPTY: &str = "400";
/// Answer to a `POST /shutdown`.
pub const SHUTDOWN: &str = "Clearing cache and ~existing cleanly~.\n";
/// Answer to a `POST /shutdown` if the server does not allow it.
pub const NO_SHUTDOWN: &str = "Shutdown is not enabled.\n";
/// Answer to a `POST /counters`.
pub const COUNTERS_RESET: &str = "Counters reset.\n";
/// Sent to a connection above the limit.
pub const FULL: &[u8] = b"Too many connections.\n\0";

/// Parses a request, which is given without its NUL. `None`: it is malformed.
#[must_use]
pub fn parse(text: &[u8]) -> Option<Request<'_>> {
    let (command, rest) = split(text, b' ');
    if command == b"HEAD" {
        return Some(Request::Head);
    }
    let argument = rest?.strip_prefix(b"/")?;
    let (first, second) = split(argument, b'/');
    match (command, second) {
        (b"PUT", Some(value)) => Some(Request::Put { key: first, value }),
        (b"DELETE", _) => Some(Request::Delete(first)),
        (b"GET", _) => Some(Request::Get(first)),
        (b"POST", None) if first == b"shutdown" => Some(Request::Shutdown),
        (b"POST", None) if first == b"counters" => Some(Request::ResetCounters),
        (b"POST", Some(size)) if first == b"memsize" => {
            let size = std::str::from_utf8(size).ok()?.parse().ok()?;
            Some(Request::MemSize(size))
        }
        _ => None,
    }
}

/// The text before the first `separator`, and the text after it. `None`: there is no separator.
fn split(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == separator) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Appends the answer to a `GET`, with its NUL. `value`: `None` if there is no such key.
pub fn write_value(out: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    out.extend_from_slice(b"{ \"key\" : \"");
    write_escaped(out, key);
    out.extend_from_slice(b"\", \"val\" : \"");
    write_escaped(out, value.unwrap_or(b"NULL"));
    out.extend_from_slice(b"\" }\0");
}

/// Appends the inside of a JSON string. Bytes that are not UTF-8 become U+FFFD.
fn write_escaped(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..0x20 => {
                    const HEX: &[u8; 16] = b"0123456789abcdef";
                    out.extend_from_slice(b"\\u00");
                    out.push(HEX[usize::from(byte >> 4)]);
                    out.push(HEX[usize::from(byte & 15)]);
                }
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Appends an answer of plain text, with its NUL.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_of_the_published_clients_parse() {
        let put = |key, value| Some(Request::Put { key, value });
        for (text, expected) in [
            ("PUT /k/v", put(b"k" as &[u8], b"v" as &[u8])),
            ("PUT /k/a/b", put(b"k", b"a/b")),
            ("PUT /k/", put(b"k", b"")),
            ("PUT //v", put(b"", b"v")),
            ("DELETE /k", Some(Request::Delete(b"k"))),
            ("GET /k", Some(Request::Get(b"k"))),
            ("HEAD", Some(Request::Head)),
            ("HEAD /", Some(Request::Head)),
            ("POST /memsize/250000", Some(Request::MemSize(250_000))),
            ("POST /shutdown", Some(Request::Shutdown)),
            ("POST /counters", Some(Request::ResetCounters)),
            ("", None),
            ("PUT", None),
            ("PUT /k", None),
            ("PUT k/v", None),
            ("put /k/v", None),
            ("POST /memsize", None),
            ("POST /memsize/-1", None),
            ("POST /memsize/99999999999999999999", None),
            ("POST /shutdown/now", None),
            ("FETCH /k", None),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn answers_are_those_of_the_published_server() {
        let mut out = Vec::new();
        write_value(&mut out, b"k", Some(b"v"));
        assert_eq!(out, b"{ \"key\" : \"k\", \"val\" : \"v\" }\0");
        out.clear();
        write_value(&mut out, b"k", None);
        assert_eq!(out, b"{ \"key\" : \"k\", \"val\" : \"NULL\" }\0");
    }

    proptest! {
        /// What a JSON parser reads is what was stored, whatever the bytes.
        #[test]
        fn an_answer_is_json(key: Vec<u8>, value: Vec<u8>) {
            let mut out = Vec::new();
            write_value(&mut out, &key, Some(&value));
            prop_assert_eq!(out.pop(), Some(0));
            let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(json["key"].as_str().unwrap(), String::from_utf8_lossy(&key));
            prop_assert_eq!(json["val"].as_str().unwrap(), String::from_utf8_lossy(&value));
        }

        #[test]
        fn no_input_makes_the_parser_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
