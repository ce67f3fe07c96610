//! The probe of a new connection: the request `version`, which the server has to answer before the
//! connection counts as open. It is sent in the protocol of the run, because a server derives the
//! protocol of a connection from the first byte that it receives.

use protocol::binary::reply::Reply as Frame;
use protocol::binary::{Head, Opcode, Request, write};
use protocol::client::{self, Reply, ReplyKind, ReplyReader, Status};

/// The protocol in which `version` is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The text protocol.
    Text,
    /// The binary protocol.
    Binary,
}

/// The answer to `version`, as far as it has arrived.
pub(crate) enum ProbeReader {
    Text(ReplyReader),
    /// The bytes received.
    Binary(Vec<u8>),
}

/// An error: the bytes that the server sent are not an answer to `version`.
pub(crate) struct Unexpected;

impl Probe {
    /// Appends the request to `out`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let head = Head {
            opcode: Opcode::VERSION,
            opaque: 0,
        };
        match self {
            Self::Text => client::version(out),
            Self::Binary => write(out, head, 0, &Request::Version),
        }
    }

    /// Returns a reader for the answer, before any of its bytes has arrived.
    pub(crate) fn reader(self) -> ProbeReader {
        match self {
            Self::Text => ProbeReader::Text(ReplyReader::new()),
            Self::Binary => ProbeReader::Binary(Vec::new()),
        }
    }
}

impl ProbeReader {
    /// Reads further bytes. Returns whether the answer is complete.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<bool, Unexpected> {
        match self {
            Self::Text(reader) => match reader.advance(bytes, ReplyKind::Line).map(|it| it.reply) {
                Ok(None) => Ok(false),
                Ok(Some(Reply::Status(Status::Version))) => Ok(true),
                _ => Err(Unexpected),
            },
            Self::Binary(received) => {
                received.extend_from_slice(bytes);
                let reply = Frame::read(received).map_err(|_| Unexpected)?;
                let is_version = |(reply, _): (Frame<'_>, usize)| {
                    let header = reply.header;
                    header.status == 0 && header.head.opcode == Opcode::VERSION
                };
                match reply {
                    None => Ok(false),
                    Some(reply) if is_version(reply) => Ok(true),
                    Some(_) => Err(Unexpected),
                }
            }
        }
    }
}
