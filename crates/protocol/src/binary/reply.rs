//! Writing the server's replies, and reading them.

use super::{Head, Header, Opcode, REPLY_MAGIC, Status};
use crate::limits::BINARY_HEADER_LEN;

/// No memory for a value to store.
pub const NO_MEMORY_TO_STORE: &[u8] = b"Out of memory allocating item";
/// No memory for a new counter value.
pub const NO_MEMORY_TO_COUNT: &[u8] = b"Out of memory incrementing value";

/// Writes a reply without a body.
pub fn done(out: &mut Vec<u8>, head: Head, cas: u64) {
    header(out, head, Status::Ok, cas, (0, 0), 0);
}

/// Writes an error with its own text.
pub fn error(out: &mut Vec<u8>, head: Head, status: Status) {
    error_text(out, head, status, status.text());
}

/// Writes an error with another text.
pub fn error_text(out: &mut Vec<u8>, head: Head, status: Status, text: &[u8]) {
    header(out, head, status, 0, (0, 0), text.len());
    out.extend_from_slice(text);
}

/// Writes the reply to a `getk` or `gatk` that found no item.
pub fn missed_key(out: &mut Vec<u8>, head: Head, key: &[u8]) {
    header(out, head, Status::NotFound, 0, (0, key.len()), 0);
    out.extend_from_slice(key);
}

/// Writes the reply to a `get`, `touch` or `gat` that found an item, up to its value of `value_len`
/// bytes, which the caller must append. `key` is empty if the reply has none.
#[inline]
pub fn found(
    out: &mut Vec<u8>,
    head: Head,
    (cas, client_flags): (u64, u32),
    key: &[u8],
    value_len: usize,
) {
    header(out, head, Status::Ok, cas, (4, key.len()), value_len);
    out.extend_from_slice(&client_flags.to_be_bytes());
    out.extend_from_slice(key);
}

/// Writes the reply to an `incr` or `decr`.
pub fn counted(out: &mut Vec<u8>, head: Head, cas: u64, number: u64) {
    header(out, head, Status::Ok, cas, (0, 0), 8);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Writes a reply that is a text, such as the version.
pub fn text(out: &mut Vec<u8>, head: Head, text: &[u8]) {
    header(out, head, Status::Ok, 0, (0, 0), text.len());
    out.extend_from_slice(text);
}

/// Writes one statistic. The list ends with [`done`].
pub fn stat(out: &mut Vec<u8>, opaque: u32, name: &[u8], value: &[u8]) {
    let head = Head {
        opcode: Opcode::STAT,
        opaque,
    };
    header(out, head, Status::Ok, 0, (0, name.len()), value.len());
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

/// Writes a header. Lengths are those of extras and key, and of the value.
#[inline]
fn header(
    out: &mut Vec<u8>,
    head: Head,
    status: Status,
    cas: u64,
    (extras_len, key_len): (u8, usize),
    value_len: usize,
) {
    let body_len = usize::from(extras_len) + key_len + value_len;
    let header = Header {
        magic: REPLY_MAGIC,
        head,
        key_len: key_len as u16,
        extras_len,
        data_type: 0,
        status: status as u16,
        body_len: body_len as u32,
        cas,
    };
    out.extend_from_slice(&header.to_bytes());
}

/// A complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Its header.
    pub header: Header,
    /// Its extras.
    pub extras: &'a [u8],
    /// Its key.
    pub key: &'a [u8],
    /// Its value, or the text of an error.
    pub value: &'a [u8],
}

/// The bytes are not a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoReply;

impl<'a> Reply<'a> {
    /// Reads the reply at the front of `input`, and its length. `None` if it is incomplete.
    ///
    /// # Errors
    /// The first byte is not [`REPLY_MAGIC`], or extras and key are longer than the body.
    pub fn read(input: &'a [u8]) -> Result<Option<(Self, usize)>, NoReply> {
        if input.first().is_some_and(|&magic| magic != REPLY_MAGIC) {
            return Err(NoReply);
        }
        let Some(bytes) = input.first_chunk::<BINARY_HEADER_LEN>() else {
            return Ok(None);
        };
        let header = Header::read(bytes);
        header.value_len().ok_or(NoReply)?;
        let len = BINARY_HEADER_LEN + header.body_len as usize;
        let Some(body) = input.get(BINARY_HEADER_LEN..len) else {
            return Ok(None);
        };
        let (extras, rest) = body.split_at(header.extras_len.into());
        let (key, value) = rest.split_at(header.key_len.into());
        let reply = Self {
            header,
            extras,
            key,
            value,
        };
        Ok(Some((reply, len)))
    }
}
