//! Checks of the parser of HTTP answers that hold for any input bytes. The fuzz target
//! `http_answer` calls them with generated inputs, and a test with the committed corpus.

use workload::WebFiles;

use crate::limits::HTTP_ANSWER_LEN_MAX;
use crate::wire::http::{AnswerReader, HttpFault};

/// Parses bytes as the answers of a web server. Checks three properties:
///
/// - Dividing the bytes differently changes neither the answers nor the fault that ends them.
/// - Every status is one that answers a request.
/// - The reader consumes all bytes up to the fault.
///
/// The bit 0 of the first byte of `input` says whether the answers are to HEADs; the bits above it
/// are the length of the parts.
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

/// The statuses of the complete answers and whether their bodies are wrong, the number of bytes
/// consumed before a fault, and the fault.
type Parsed = (Vec<(u16, bool)>, usize, Option<HttpFault>);

fn parse(answers: &[u8], part_len: usize, is_head: bool) -> Parsed {
    let mut reader = AnswerReader::new(WebFiles::new(1, 1).ok());
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
            // Where in the answer a fault is found depends on how it is divided.
            Err(fault) => return (statuses, answer_start, Some(fault)),
        }
    }
    (statuses, at, None)
}
