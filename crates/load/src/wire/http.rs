//! HTTP/1.1: GET and HEAD of the files of a file set. The answers come in the order of the
//! requests.
//!
//! Of the parser, Curtail's web server (crate `http`) has only `httparse` too, which many use: an
//! error of our own in both would not show, because they would agree on it.

mod reader;

use protocol::client::Malformed;
pub(crate) use reader::{AnswerReader, HttpFault, HttpReply};
use workload::Op;

use super::{Answer, Encoding, Outcome, Step};

/// The part of a request that follows its path. Servers with one site ignore the name of the host.
const AFTER_PATH: &[u8] = b" HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Counts of the answers on a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HttpCounts {
    /// Answers by the first digit of their status: 200 to 299 is element 0, and so on.
    pub(crate) by_class: [u64; 4],
    /// Answers whose body has another length or other bytes than the file.
    pub(crate) wrong_bodies: u64,
    /// Answers that cannot be parsed.
    pub(crate) malformed: u64,
    /// What was wrong with one of the malformed answers.
    pub(crate) fault: Option<HttpFault>,
}

impl HttpCounts {
    pub(super) fn count_fault(&mut self, fault: HttpFault) {
        self.malformed += 1;
        self.fault = Some(fault);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (sum, added) in self.by_class.iter_mut().zip(other.by_class) {
            *sum += added;
        }
        self.wrong_bodies += other.wrong_bodies;
        self.malformed += other.malformed;
        self.fault = self.fault.or(other.fault);
    }
}

impl HttpReply {
    /// Status 200 is a hit and 404 is a miss. Any other status is an error, such as a redirect,
    /// which does not have the bytes of the file.
    pub(super) fn answer(self) -> Answer {
        match self.status {
            _ if self.is_wrong => Answer::ERROR,
            200 => Answer::found(1),
            404 => Answer::without_hit(Outcome::Missed),
            _ => Answer::ERROR,
        }
    }
}

impl AnswerReader {
    pub(super) fn read(&mut self, input: &[u8], op: Op) -> Result<Step<HttpReply>, Malformed> {
        self.advance(input, op == Op::Head).map_err(|fault| {
            self.counts.count_fault(fault);
            Malformed::Line
        })
    }
}

#[inline]
pub(super) fn encode_get(out: &mut Vec<u8>, path: &[u8]) {
    out.extend_from_slice(b"GET ");
    out.extend_from_slice(path);
    out.extend_from_slice(AFTER_PATH);
}

/// `Config::validate` allows no other operations than get and head.
pub(super) fn encode(out: &mut Vec<u8>, request: &Encoding<'_>) {
    match request.op {
        Op::Head => {
            out.extend_from_slice(b"HEAD ");
            out.extend_from_slice(request.key);
            out.extend_from_slice(AFTER_PATH);
        }
        _ => encode_get(out, request.key),
    }
}
