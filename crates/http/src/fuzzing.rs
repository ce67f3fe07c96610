//! Properties that hold for any input bytes. The fuzz target checks them, and a test checks them on
//! the committed corpus.

use crate::limits::{HEAD_LEN_MAX, HEADERS_MAX};
use crate::{
    Conditions, Heads, Parsed, Pending, Prepared, Request, Validators, Verdict, decode_path,
    encode_path,
};

/// Maximum number of requests of one input that are checked.
const REQUESTS_MAX: usize = 256;

/// Longest body that is checked, in bytes.
const BODY_MAX: usize = 64;

/// Checks the parser on arbitrary client bytes, request by request: a result is final as soon as it
/// is not incomplete, everything stays within its bounds, and splitting the input does not change
/// what is parsed.
///
/// # Panics
/// One of these properties does not hold.
pub fn check_request(input: &[u8]) {
    let mut rest = input;
    for _ in 0..REQUESTS_MAX {
        match Request::parse(rest) {
            Parsed::Incomplete => {
                assert!(rest.len() < HEAD_LEN_MAX);
                break;
            }
            Parsed::Rejected(rejection) => {
                assert!(rejection.message().ends_with('\n'));
                assert!(rejection.status().line().len() > 4);
                break;
            }
            Parsed::Request(request) => {
                check_one(rest, &request);
                rest = &rest[request.len..];
            }
        }
    }
    check_heads(input);
    check_body(input);
}

/// The first request with a body: it ends with its last byte, and more bytes do not change it.
fn check_body(input: &[u8]) {
    if let Parsed::Request(request) = Request::parse_with_body(input, BODY_MAX) {
        assert!(request.body.len() <= BODY_MAX);
        let whole = &input[..request.len];
        assert!(whole.ends_with(request.body));
        let parsed = Request::parse_with_body(whole, BODY_MAX);
        assert_eq!(parsed, Parsed::Request(request));
        let part = &whole[..request.len - 1];
        assert_eq!(Request::parse_with_body(part, BODY_MAX), Parsed::Incomplete);
    }
}

fn check_one(input: &[u8], request: &Request<'_>) {
    assert!((1..=HEAD_LEN_MAX).contains(&request.len));
    let head = &input[..request.len];
    assert!(head.ends_with(b"\n"));
    // More bytes do not change the result, and fewer do not have one.
    assert_eq!(Request::parse(head), Parsed::Request(*request));
    for part in [request.len / 2, request.len - 1] {
        assert_eq!(Request::parse(&head[..part]), Parsed::Incomplete);
    }
    let mut fields = 0;
    request.for_each_field(|name, value| {
        fields += 1;
        assert!(!name.is_empty() && !value.contains(&b'\n'));
    });
    assert!(fields <= HEADERS_MAX);
    if let Ok(name) = decode_path(request.path()) {
        assert!(name.len() <= request.len && !name.contains(&0));
        let is_above = |part: &[u8]| part == b"..";
        assert!(!name.split(|&byte| byte == b'/').any(is_above));
        let path = encode_path(&name);
        assert_eq!(decode_path(&path).as_ref(), Ok(&name), "{path}");
    }
    let validators = Validators {
        etag: "\"1-2\"",
        modified_s: 784_111_777,
    };
    for len in [0, 1, 1000] {
        if let Verdict::Part(part) = Conditions::of(request).verdict(validators, len) {
            assert!(part.start < part.end && part.end <= len);
        }
    }
}

/// The heads of a connection, whose input arrives at once or in two parts.
fn check_heads(input: &[u8]) {
    let whole = targets(&[input]);
    for at in [input.len() / 3, input.len() / 2] {
        let (first, second) = input.split_at(at);
        assert_eq!(targets(&[first, second]), whole);
    }
}

/// The targets of the requests, and a mark for a rejected one.
fn targets(parts: &[&[u8]]) -> Vec<Option<String>> {
    let (mut heads, mut input, mut found) = (Heads::default(), Vec::new(), Vec::new());
    for part in parts {
        input.extend_from_slice(part);
        loop {
            let (mut prepared, mut consumed, mut is_over) = (Vec::new(), 0, false);
            heads.prepare(&input, 4, &mut prepared);
            for it in &prepared {
                heads.begin();
                match it {
                    Prepared::Request(request) => {
                        consumed += request.len;
                        is_over |= !request.is_persistent;
                        found.push(Some(request.target.to_owned()));
                    }
                    Prepared::Rejected(_) => {
                        is_over = true;
                        found.push(None);
                    }
                }
            }
            if is_over || found.len() > REQUESTS_MAX {
                return found;
            }
            let pending = heads.pending(&input[consumed..], 0);
            input.drain(..consumed);
            if pending != Ok(Pending::Requests) {
                break;
            }
        }
    }
    found
}
