//! Conditional requests (RFC 9110, section 13), and which part of a document is requested.

use crate::date::parse_date;
use crate::range::{ByteRange, RangeRequest, parse_range};
use crate::request::Request;

/// What a document is compared by.
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    /// A strong entity tag, with its quotation marks.
    pub etag: &'a str,
    /// The last modification, in seconds since 1970 in UTC.
    pub modified_s: u64,
}

/// How a request for an existing document is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// With the whole document: 200.
    Whole,
    /// With a part of it: 206.
    Part(ByteRange),
    /// The client has it: 304.
    NotModified,
    /// A precondition is false: 412.
    PreconditionFailed,
    /// The range has no byte of the document: 416.
    RangeNotSatisfiable,
}

/// The header fields of a request that decide how it is answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions<'i> {
    if_match: Option<Tags<'i>>,
    if_none_match: Option<Tags<'i>>,
    if_modified_since: Option<&'i [u8]>,
    if_unmodified_since: Option<&'i [u8]>,
    range: Option<&'i [u8]>,
    if_range: Option<&'i [u8]>,
}

/// The entity tags of `If-Match` or `If-None-Match`, in one or two fields. A request with more
/// fields of the same name is one that no client sends; the last of them is used.
#[derive(Debug, Clone, Copy)]
struct Tags<'i> {
    first: &'i [u8],
    last: &'i [u8],
}

impl<'i> Conditions<'i> {
    /// Reads the fields of a request.
    #[must_use]
    pub fn of(request: &Request<'i>) -> Self {
        let mut found = Self::default();
        request.for_each_field(|name, value| {
            let is = |expected: &str| name.eq_ignore_ascii_case(expected);
            if is("if-none-match") {
                add_tags(&mut found.if_none_match, value);
            } else if is("if-match") {
                add_tags(&mut found.if_match, value);
            } else if is("if-modified-since") {
                found.if_modified_since = Some(value);
            } else if is("if-unmodified-since") {
                found.if_unmodified_since = Some(value);
            } else if is("range") {
                // No client repeats it. Which one would count is doubtful, so none does: the empty
                // value is malformed.
                found.range = Some(found.range.map_or(value, |_| b""));
            } else if is("if-range") {
                found.if_range = Some(value);
            }
        });
        found
    }

    /// Decides how a request is answered, for a document of `len` bytes, in the order of RFC 9110,
    /// section 13.2.2.
    #[must_use]
    pub fn verdict(&self, validators: Validators<'_>, len: u64) -> Verdict {
        let Validators { etag, modified_s } = validators;
        if let Some(tags) = self.if_match {
            if !tags.has(etag, Comparison::Strong) {
                return Verdict::PreconditionFailed;
            }
        } else if let Some(since_s) = self.if_unmodified_since.and_then(parse_date)
            && modified_s > since_s
        {
            return Verdict::PreconditionFailed;
        }
        if let Some(tags) = self.if_none_match {
            if tags.has(etag, Comparison::Weak) {
                return Verdict::NotModified;
            }
        } else if let Some(since_s) = self.if_modified_since.and_then(parse_date)
            && modified_s <= since_s
        {
            return Verdict::NotModified;
        }
        let Some(range) = self.range.filter(|_| self.is_range_current(validators)) else {
            return Verdict::Whole;
        };
        match parse_range(range, len) {
            RangeRequest::Whole => Verdict::Whole,
            RangeRequest::Part(part) => Verdict::Part(part),
            RangeRequest::Unsatisfiable => Verdict::RangeNotSatisfiable,
        }
    }

    /// Whether `If-Range` allows a part. A date does only if it is that of the document exactly.
    fn is_range_current(&self, validators: Validators<'_>) -> bool {
        self.if_range.is_none_or(|value| {
            let value = value.trim_ascii();
            value == validators.etag.as_bytes() || parse_date(value) == Some(validators.modified_s)
        })
    }
}

/// How entity tags are compared (RFC 9110, section 8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Weak tags equal none.
    Strong,
    /// Whether a tag is weak makes no difference.
    Weak,
}

fn add_tags<'i>(tags: &mut Option<Tags<'i>>, value: &'i [u8]) {
    let first = tags.map_or(value, |tags| tags.first);
    *tags = Some(Tags { first, last: value });
}

impl Tags<'_> {
    fn has(self, etag: &str, comparison: Comparison) -> bool {
        has_tag(self.first, etag, comparison) || has_tag(self.last, etag, comparison)
    }
}

/// Whether a list of entity tags has this one. Commas may be inside of a tag, so the list is read
/// tag by tag.
fn has_tag(list: &[u8], etag: &str, comparison: Comparison) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    loop {
        rest = rest.trim_ascii_start();
        rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
        let (is_weak, tag) = match rest.strip_prefix(b"W/") {
            Some(tag) => (true, tag),
            None => (false, rest),
        };
        let Some(close) = tag
            .strip_prefix(b"\"")
            .and_then(|it| it.iter().position(|&byte| byte == b'"'))
        else {
            return false;
        };
        let (tag, after) = tag.split_at(close + 2);
        if tag == etag.as_bytes() && !(is_weak && comparison == Comparison::Strong) {
            return true;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Parsed;

    const VALIDATORS: Validators<'_> = Validators {
        etag: "\"a,b\"",
        modified_s: 784_111_777,
    };
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn verdict(fields: &str) -> Verdict {
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n");
        let Parsed::Request(request) = Request::parse(head.as_bytes()) else {
            panic!("{head}");
        };
        Conditions::of(&request).verdict(VALIDATORS, 10)
    }

    #[test]
    fn a_client_with_the_same_document_gets_304() {
        for fields in [
            "If-None-Match: \"a,b\"",
            "if-none-match: W/\"a,b\"",
            "If-None-Match: \"x\", W/\"y\" , \"a,b\"",
            "If-None-Match: \"x\"\r\nIf-None-Match: \"a,b\"",
            "If-None-Match: *",
            &format!("If-Modified-Since: {SAME}"),
            &format!("If-Modified-Since: {AFTER}"),
            // The date is not looked at beside a tag.
            &format!("If-None-Match: \"a,b\"\r\nIf-Modified-Since: {BEFORE}"),
            "Range: bytes=0-1\r\nIf-None-Match: \"a,b\"",
        ] {
            assert_eq!(verdict(fields), Verdict::NotModified, "{fields}");
        }
        for fields in [
            "If-None-Match: \"a\"",
            "If-None-Match: a,b",
            "If-None-Match: \"a,b",
            "If-None-Match: ",
            &format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {AFTER}"),
            &format!("If-Modified-Since: {BEFORE}"),
            "If-Modified-Since: yesterday",
        ] {
            assert_eq!(verdict(fields), Verdict::Whole, "{fields}");
        }
    }

    #[test]
    fn false_preconditions_get_412() {
        for fields in [
            "If-Match: \"x\"",
            "If-Match: W/\"a,b\"",
            &format!("If-Unmodified-Since: {BEFORE}"),
            "If-Match: \"x\"\r\nIf-None-Match: \"a,b\"",
        ] {
            assert_eq!(verdict(fields), Verdict::PreconditionFailed, "{fields}");
        }
        for fields in [
            "If-Match: \"x\", \"a,b\"",
            "If-Match: *",
            &format!("If-Unmodified-Since: {SAME}"),
        ] {
            assert_eq!(verdict(fields), Verdict::Whole, "{fields}");
        }
    }

    #[test]
    fn a_range_is_served_of_the_document_that_the_client_knows() {
        let part = Verdict::Part(ByteRange { start: 2, end: 4 });
        assert_eq!(
            verdict("Range: bytes=2-3\r\nRange: bytes=2-3"),
            Verdict::Whole
        );
        for (if_range, expected) in [
            (String::new(), part),
            ("\r\nIf-Range: \"a,b\"".to_owned(), part),
            (format!("\r\nIf-Range: {SAME}"), part),
            (format!("\r\nIf-Range: {AFTER}"), Verdict::Whole),
            ("\r\nIf-Range: W/\"a,b\"".to_owned(), Verdict::Whole),
            ("\r\nIf-Range: \"x\"".to_owned(), Verdict::Whole),
        ] {
            assert_eq!(
                verdict(&format!("Range: bytes=2-3{if_range}")),
                expected,
                "{if_range}"
            );
        }
        assert_eq!(verdict("Range: bytes=10-"), Verdict::RangeNotSatisfiable);
        assert_eq!(verdict("Range: bytes=0-1,3-4"), Verdict::Whole);
    }
}
