//! Properties that hold for any input bytes. The fuzz targets check them, and the tests check them
//! on the committed corpora.

mod logins;

use crate::binary::reply::Reply as BinaryReply;
use crate::binary::{self, Parsed as BinaryParsed, Request as BinaryRequest};
use crate::client::{Malformed, Reply, ReplyKind, ReplyReader};
use crate::limits::KEY_MAX;
use crate::{AfterKeys, MetaFlags, MetaKey, Parsed, Request, client, next_keys, parse};

/// Maximum number of commands of one input that are checked. No input of a fuzzer's corpus has
/// more.
const COMMANDS_MAX: usize = 256;

/// Checks the parser on arbitrary client bytes, command by command: the `scanned` hint does not
/// change the result, no part of a line is parsed as a line, and every request survives being
/// written and parsed again. The bytes are also read as those of a client that has to log in.
///
/// # Panics
/// One of these properties does not hold.
pub fn check_request(input: &[u8]) {
    logins::check_lines(input);
    check_keys(input);
    check_lines(input);
}

fn check_lines(mut input: &[u8]) {
    for _ in 0..COMMANDS_MAX {
        let parsed = parse(input, 0);
        let len = match parsed {
            Parsed::Incomplete { scanned } => {
                assert_eq!(scanned, input.len());
                return;
            }
            Parsed::LongGet { .. } | Parsed::Fatal { .. } => return,
            Parsed::Rejected {
                rejection,
                len,
                swallow,
            } => {
                assert!(swallow == 0 || swallow >= 2);
                assert!(rejection.reply().is_empty() || rejection.reply().ends_with(b"\r\n"));
                len
            }
            Parsed::Request { request, len } => {
                check_round_trip(request);
                len
            }
        };
        assert_eq!(input.get(len - 1), Some(&b'\n'));
        for part in [0, len / 2, len - 1] {
            let early = parse(&input[..part], 0);
            assert_eq!(early, Parsed::Incomplete { scanned: part });
            assert_eq!(parse(input, part), parsed);
        }
        input = &input[len..];
    }
}

/// Checks that a long line, whose rest begins with these bytes, has the same keys if it arrives in
/// two parts.
fn check_keys(input: &[u8]) {
    let mut whole = Vec::new();
    let whole_end = take_keys(input, &mut whole);
    for split in [input.len().min(1), input.len() / 3, input.len() / 2] {
        let mut keys = Vec::new();
        let mut end = take_keys(&input[..split], &mut keys);
        if let (len, AfterKeys::More) = end {
            let rest_end = take_keys(&input[len..], &mut keys);
            end = (len + rest_end.0, rest_end.1);
        }
        assert_eq!((keys, end), (whole.clone(), whole_end));
    }
}

/// Takes the keys at the front of `input`. Returns their length, and what follows them.
fn take_keys<'a>(input: &'a [u8], keys: &mut Vec<&'a [u8]>) -> (usize, AfterKeys) {
    let mut len = 0;
    while let Some(next) = next_keys(&input[len..]) {
        keys.extend(next.keys);
        len += next.keys.as_bytes().len();
        if next.after != AfterKeys::More {
            return (len, next.after);
        }
    }
    (len, AfterKeys::More)
}

/// Checks that a request, written by the client half, is parsed as the same request.
fn check_round_trip(request: Request<'_>) {
    let mut line = Vec::new();
    match request {
        Request::Get(get) => match get.exptime {
            None => client::get(&mut line, get.keys, get.with_cas),
            Some(exptime) => client::get_and_touch(&mut line, exptime, get.keys, get.with_cas),
        },
        Request::Set(set) => client::set_line(&mut line, &set),
        Request::Delete(delete) => client::delete(&mut line, &delete),
        Request::Arith(arith) => client::arith(&mut line, &arith),
        Request::Touch(touch) => client::touch(&mut line, &touch),
        Request::FlushAll(flush) => client::flush_all(&mut line, flush),
        Request::Version => client::version(&mut line),
        Request::Verbosity { level, noreply } => client::verbosity(&mut line, level, noreply),
        Request::CacheMemlimit { megabytes, noreply } => {
            client::cache_memlimit(&mut line, megabytes, noreply);
        }
        Request::Stats(stats) => client::stats(&mut line, stats),
        Request::Shutdown { mode, noreply } => client::shutdown(&mut line, mode, noreply),
        Request::Watch(streams) => client::watch(&mut line, streams),
        Request::Crawler(crawler) => client::crawler(&mut line, crawler),
        Request::Tune(tuning) => client::tune(&mut line, tuning),
        Request::DebugTime(change) => client::debug_time(&mut line, change),
        Request::Prefix(command) => client::prefix(&mut line, command),
        Request::Quit => client::quit(&mut line),
        Request::MetaNoop => client::meta_noop(&mut line),
        Request::MetaDebug(key) => client::meta_debug(&mut line, &key),
        Request::MetaGet(get) => {
            client::meta_get(&mut line, &bare(&get.key), flags(get.flags), None);
        }
        Request::MetaSet(set) => {
            let value_len = u64::from(set.value_len);
            client::meta_set_line(
                &mut line,
                &bare(&set.key),
                flags(set.flags),
                None,
                value_len,
            );
        }
        Request::MetaDelete(delete) => {
            client::meta_delete(&mut line, &bare(&delete.key), flags(delete.flags), None);
        }
        Request::MetaArith(arith) => {
            client::meta_arith(&mut line, &bare(&arith.key), flags(arith.flags), None);
        }
    }
    let Parsed::Request {
        request: again,
        len,
    } = parse(&line, 0)
    else {
        panic!("{request:?} was read as {:?}", parse(&line, 0));
    };
    assert_eq!((again, len), (request, line.len()));
}

/// The key without its base64 mark: the flags already contain the `b`.
fn bare<'a>(key: &MetaKey<'a>) -> MetaKey<'a> {
    let mut buffer = [0; KEY_MAX];
    let decoded = key.decode(&mut buffer);
    assert!((1..=KEY_MAX).contains(&decoded.len()));
    MetaKey {
        raw: key.raw,
        base64: false,
    }
}

/// The flags without the leading space, which the client half writes itself.
fn flags(flags: MetaFlags<'_>) -> &[u8] {
    flags
        .as_bytes()
        .strip_prefix(b" ")
        .unwrap_or(flags.as_bytes())
}

/// Checks that the split of a server's bytes does not change the replies. The first line of
/// `input` lists the expected kinds, one letter each (`v` values, `s` stats, `m` meta, any other a
/// line), and is repeated as often as needed. The server's bytes follow.
///
/// # Panics
/// Two splits give different replies.
pub fn check_reply(input: &[u8]) {
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
        return;
    };
    let (letters, replies) = (&input[..end], &input[end + 1..]);
    let whole = replies_of(letters, replies, replies.len());
    for split in [1, 7] {
        assert_eq!(
            replies_of(letters, replies, split),
            whole,
            "in pieces of {split}"
        );
    }
}

/// Checks the parser of the binary protocol on arbitrary client bytes, frame by frame: no part of a
/// frame is parsed as another frame, and every request survives being written and parsed again. The
/// bytes are also read as those of a client that logs in by SASL, and as replies.
///
/// # Panics
/// One of these properties does not hold.
pub fn check_frames(input: &[u8]) {
    check_binary_requests(input);
    for is_logged_in in [false, true] {
        logins::check_frames(input, is_logged_in);
    }
    let mut replies = input;
    while let Ok(Some((reply, len))) = BinaryReply::read(replies) {
        assert_eq!(len, reply.header.value_at() + reply.value.len());
        replies = &replies[len..];
    }
}

fn check_binary_requests(mut input: &[u8]) {
    for _ in 0..COMMANDS_MAX {
        let parsed = binary::parse(input);
        let (len, skipped) = match parsed {
            BinaryParsed::Incomplete | BinaryParsed::Fatal { .. } => return,
            BinaryParsed::Rejected { len, swallow, .. } => (len, swallow),
            BinaryParsed::Request {
                head,
                cas,
                request,
                len,
            } => {
                let mut frame = Vec::new();
                binary::write(&mut frame, head, cas, &request);
                assert_eq!(binary::parse(&frame), parsed);
                assert_eq!(frame.len(), len);
                let value_len = match request {
                    BinaryRequest::Set(set) => set.value_len,
                    _ => 0,
                };
                (len, value_len.into())
            }
        };
        for part in [0, len / 2, len - 1] {
            assert_eq!(binary::parse(&input[..part]), BinaryParsed::Incomplete);
        }
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        input = input[len..].get(skipped..).unwrap_or(&[]);
    }
}

fn replies_of(letters: &[u8], replies: &[u8], split: usize) -> (Vec<Reply>, Option<Malformed>) {
    let mut reader = ReplyReader::new();
    let mut found = Vec::new();
    for mut piece in replies.chunks(split.max(1)) {
        while !piece.is_empty() {
            let expected = match letters.get(found.len() % letters.len().max(1)) {
                Some(b'v') => ReplyKind::Values,
                Some(b's') => ReplyKind::Stats,
                Some(b'm') => ReplyKind::Meta,
                _ => ReplyKind::Line,
            };
            match reader.advance(piece, expected) {
                Ok(advance) => {
                    assert!(advance.reply.is_some() || advance.consumed == piece.len());
                    assert!(advance.consumed > 0);
                    found.extend(advance.reply);
                    piece = &piece[advance.consumed..];
                }
                Err(malformed) => return (found, Some(malformed)),
            }
        }
    }
    (found, None)
}
