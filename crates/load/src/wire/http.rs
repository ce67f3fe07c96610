//! HTTP/1.1: GET and HEAD of the files of a file set. The answers come in the order of the
//! requests.
//!
//! Of the parser, Curtail's web server (crate `http`) has only `httparse` too, which many use: an
//! error of our own in both would not show, because they would agree on it.

mod reader;

use protocol::client::Malformed;
pub(crate) use reader::{AnswerReader, HttpFault, HttpReply};
use workload::{Op, Request, WebFiles};

use super::{Answer, Encoding, Outcome, Step, Wire};
use crate::opening::Probe;

/// The wire of HTTP/1.1.
pub(crate) struct Http;

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
    pub(crate) fn merge(&mut self, other: &Self) {
        for (sum, added) in self.by_class.iter_mut().zip(other.by_class) {
            *sum += added;
        }
        self.wrong_bodies += other.wrong_bodies;
        self.malformed += other.malformed;
        self.fault = self.fault.or(other.fault);
    }
}

impl Wire for Http {
    type Reader = AnswerReader;
    type Reply = HttpReply;

    const ONE_REPLY: bool = true;
    const VALUE_END: &'static [u8] = b"";
    const PROBE: Option<Probe> = None;

    fn reader(verified: Option<WebFiles>) -> AnswerReader {
        AnswerReader::new(verified)
    }

    fn reset(reader: &mut AnswerReader) {
        reader.reset();
    }

    fn expect(reader: &mut AnswerReader, request: &Request) {
        reader.expect(request.record);
    }

    fn closes(reader: &AnswerReader) -> bool {
        reader.closes()
    }

    fn count_surplus(reader: &mut AnswerReader) {
        reader.counts.malformed += 1;
        reader.counts.fault = Some(HttpFault::Surplus);
    }

    fn http_counts(reader: &AnswerReader) -> Option<HttpCounts> {
        Some(reader.counts)
    }

    #[inline]
    fn replies(_: Op, _: u16) -> u16 {
        1
    }

    #[inline]
    fn encode_get(out: &mut Vec<u8>, path: &[u8], _: u64) {
        out.extend_from_slice(b"GET ");
        out.extend_from_slice(path);
        out.extend_from_slice(AFTER_PATH);
    }

    /// `Config::validate` allows no other operations than get and head.
    fn encode(out: &mut Vec<u8>, request: &Encoding<'_>) {
        match request.op {
            Op::Head => {
                out.extend_from_slice(b"HEAD ");
                out.extend_from_slice(request.key);
                out.extend_from_slice(AFTER_PATH);
            }
            _ => Self::encode_get(out, request.key, request.opaque),
        }
    }

    /// Never called, because `Config::validate` allows no multigets over HTTP.
    fn encode_multiget<'k>(out: &mut Vec<u8>, keys: impl Iterator<Item = &'k [u8]>, opaque: u64) {
        keys.for_each(|path| Self::encode_get(out, path, opaque));
    }

    fn read(reader: &mut AnswerReader, input: &[u8], op: Op) -> Result<Step<HttpReply>, Malformed> {
        reader.advance(input, op == Op::Head).map_err(|fault| {
            reader.counts.malformed += 1;
            reader.counts.fault = Some(fault);
            Malformed::Line
        })
    }

    #[inline]
    fn opaque(_: HttpReply) -> Option<u64> {
        None
    }

    /// Status 200 is a hit and 404 is a miss. Any other status is an error, such as a redirect,
    /// which does not have the bytes of the file.
    fn answer(reply: HttpReply, _: Op) -> Option<Answer> {
        Some(match reply.status {
            _ if reply.is_wrong => Answer::ERROR,
            200 => Answer::found(1),
            404 => Answer::without_hit(Outcome::Missed),
            _ => Answer::ERROR,
        })
    }

    #[inline]
    fn cas(_: &AnswerReader) -> u64 {
        0
    }
}
