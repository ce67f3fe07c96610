//! Checks of the answer parsers, with any bytes as input. The fuzz targets `http_answer` and
//! `textile_answer` call the checks with generated inputs. A test calls them with the committed
//! corpora.

use workload::{Op, WebFiles};

use crate::limits::HTTP_ANSWER_LEN_MAX;
use crate::wire::http::{AnswerReader, HttpFault};
use crate::wire::{Answer, textile};

/// Parses bytes as the answers of a web server. Checks three properties:
///
/// - Dividing the bytes differently changes neither the answers nor the fault that ends them.
/// - Every status is from 200 to 599. A lower status is that of an interim answer, which the reader
///   skips.
/// - If there is no fault, the reader consumes all bytes.
///
/// The first byte of `input` says how to parse the rest. Bit 0 says whether the answers are to HEAD
/// requests. The other bits are the length of the parts into which the bytes are divided, less one.
///
/// # Panics
/// One of these properties does not hold.
pub fn check_answers(input: &[u8]) {
    let Some((&first, answers)) = input.split_first() else {
        return;
    };
    if answers.len() > HTTP_ANSWER_LEN_MAX {
        return;
    }
    let (is_head, part_len) = (first & 1 == 1, usize::from(first >> 1) + 1);
    let whole = parse(answers, usize::MAX, is_head);
    for len in [1, part_len] {
        assert_eq!(parse(answers, len, is_head), whole, "in parts of {len}");
    }
    let (statuses, consumed, fault) = whole;
    assert!(
        statuses
            .iter()
            .all(|(status, _)| (200..600).contains(status))
    );
    assert!(fault.is_some() || consumed == answers.len());
}

/// The result of parsing: for each complete answer, its status and whether its body is wrong; the
/// number of bytes consumed; and the fault that ended the parsing, if any. The bytes of a faulty
/// answer do not count as consumed.
type Parsed = (Vec<(u16, bool)>, usize, Option<HttpFault>);

/// Parses answers that arrive in parts of `part_len` bytes.
fn parse(answers: &[u8], part_len: usize, is_head: bool) -> Parsed {
    let (directories, seed) = (1, 1);
    let mut reader = AnswerReader::new(WebFiles::new(directories, seed).ok());
    let (mut statuses, mut answer_start, mut at) = (Vec::new(), 0, 0);
    while at < answers.len() {
        let end = at.saturating_add(part_len).min(answers.len());
        match reader.advance(&answers[at..end], is_head) {
            Ok(step) => {
                at += step.consumed;
                assert!(at <= end && (step.reply.is_some() || at == end));
                if let Some(reply) = step.reply {
                    statuses.push((reply.status, reply.is_wrong));
                    answer_start = at;
                }
            }
            // The position at which a fault is found depends on how the answer is divided. The
            // start of the faulty answer does not, so it is returned.
            Err(fault) => return (statuses, answer_start, Some(fault)),
        }
    }
    (statuses, at, None)
}

/// Parses bytes as the answers of a server of protocol textile ([`crate::Protocol::Textile`]).
/// Checks three properties:
///
/// - Dividing the bytes differently changes neither the answers nor whether they are malformed.
/// - The reader consumes all bytes up to the NUL byte that ends an answer.
/// - The meaning of an answer is the same as for a second parser, which has the whole text at once.
///
/// The first byte of `input` is the length of the parts into which the rest is divided, less one.
///
/// # Panics
/// One of these properties does not hold.
pub fn check_textile_answers(input: &[u8]) {
    let Some((&first, answers)) = input.split_first() else {
        return;
    };
    let whole = parse_textile(answers, usize::MAX);
    for len in [1, usize::from(first) + 1] {
        assert_eq!(parse_textile(answers, len), whole, "in parts of {len}");
    }
    let expected = answers.split_inclusive(|&byte| byte == 0);
    let expected = expected.filter_map(|text| Some(expected_textile(text.strip_suffix(b"\0")?)));
    if let Some(replies) = whole {
        assert_eq!(replies, expected.collect::<Vec<_>>());
    }
}

/// For each complete answer, its three meanings: as the answer to a get, to a set and to a delete.
/// None: an answer is malformed.
fn parse_textile(answers: &[u8], part_len: usize) -> Option<Vec<[Answer; 3]>> {
    let (mut reader, mut replies, mut at) = (textile::AnswerReader::default(), Vec::new(), 0);
    while at < answers.len() {
        let end = at.saturating_add(part_len).min(answers.len());
        let step = reader.read(&answers[at..end]).ok()?;
        at += step.consumed;
        assert!(at <= end && (step.reply.is_some() || at == end));
        if let Some(reply) = step.reply {
            replies.push([Op::Get, Op::Set, Op::Delete].map(|op| reply.answer(op)));
        }
    }
    Some(replies)
}

/// The three meanings of an answer, as in [`parse_textile`], from the whole text of the answer.
fn expected_textile(text: &[u8]) -> [Answer; 3] {
    let mut expected = [Answer::ERROR; 3];
    match text {
        b"Value set in cache.\n" => expected[1] = Answer::stored(),
        b"Value deleted.\n" => expected[2] = Answer::found(1),
        _ => {
            if let Some(value) = textile_value(text) {
                expected[0] = Answer::found(u16::from(value != b"NULL"));
            }
        }
    }
    expected
}

/// The value in the answer to a get. None: the text is not such an answer, or its key is longer
/// than any key of the generator.
fn textile_value(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(br#"{ "key" : ""#)?;
    let separator = br#"", "val" : ""#;
    let key_len = text
        .windows(separator.len())
        .position(|at| at == separator)?;
    let value = text[key_len + separator.len()..].strip_suffix(br#"" }"#)?;
    (key_len <= workload::limits::KEY_LEN_MAX).then_some(value)
}
