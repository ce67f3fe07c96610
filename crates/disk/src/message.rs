//! The few messages of the FUSE protocol (linux/fuse.h, version 7.31) that a file system of one
//! regular file needs, without I/O.
//!
//! The file is the root of the file system, so no name is ever looked up. What is not needed is
//! answered with ENOSYS, after which the kernel does not ask again. FLUSH is one of these: the
//! kernel would wait for its answer when a process that is being killed closes the file.

use crate::limits;

/// Bytes of the header of a request.
pub const HEADER_LEN: usize = 40;
/// Bytes of the fields of a WRITE before its data.
const WRITE_LEN: usize = 40;
/// Bytes of the header of an answer.
pub const ANSWER_HEADER_LEN: usize = 16;
/// Bytes that the longest request needs, as the kernel demands of the reader's buffer.
pub const BUFFER_LEN: usize = limits::REQUEST_LEN as usize + 4_096;

/// Error numbers (errno(3)).
pub mod error {
    /// Input or output error.
    pub const IO: i32 = 5;
    /// The operation is not supported, now and later.
    pub const NOT_SUPPORTED: i32 = 38;
    /// The argument is invalid.
    pub const INVALID: i32 = 22;
}

/// What the kernel requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// To begin; the flags are what the kernel supports.
    Init {
        /// Its flags.
        flags: u32,
    },
    /// The attributes of the file.
    Attributes,
    /// To open the file.
    Open,
    /// To read.
    Read {
        /// From here on.
        offset: u64,
        /// So many bytes.
        len: u32,
    },
    /// To write.
    Write {
        /// From here on.
        offset: u64,
        /// These bytes.
        data: &'a [u8],
    },
    /// Facts about the file system.
    Statistics,
    /// That all is written, or a handle closed: there is nothing to do.
    Nothing,
    /// To forget, or to interrupt: there is no answer.
    Unanswered,
    /// Anything else.
    Unsupported,
    /// A message that is shorter than its kind.
    Malformed,
}

/// A request of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its identity, which the answer repeats.
    pub unique: u64,
    /// What it is.
    pub operation: Operation<'a>,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(part.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let part = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(part.try_into().ok()?))
}

impl<'a> Request<'a> {
    /// Reads a message. None: it has no whole header.
    #[must_use]
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let body = message.get(HEADER_LEN..)?;
        Some(Self {
            unique: u64_at(message, 8)?,
            operation: operation(u32_at(message, 4)?, body).unwrap_or(Operation::Malformed),
        })
    }
}

fn operation(code: u32, body: &[u8]) -> Option<Operation<'_>> {
    Some(match code {
        26 => Operation::Init {
            flags: u32_at(body, 12)?,
        },
        3 => Operation::Attributes,
        14 => Operation::Open,
        15 => Operation::Read {
            offset: u64_at(body, 8)?,
            len: u32_at(body, 16)?,
        },
        16 => {
            let len = usize::try_from(u32_at(body, 16)?).ok()?;
            Operation::Write {
                offset: u64_at(body, 8)?,
                data: body.get(WRITE_LEN..)?.get(..len)?,
            }
        }
        17 => Operation::Statistics,
        // RELEASE, FSYNC.
        18 | 20 => Operation::Nothing,
        // FORGET, INTERRUPT, BATCH_FORGET.
        2 | 36 | 42 => Operation::Unanswered,
        _ => Operation::Unsupported,
    })
}

/// The header of an answer with `len` bytes after it. `error` is 0 for a success.
#[must_use]
pub fn header(unique: u64, error: i32, len: usize) -> [u8; ANSWER_HEADER_LEN] {
    let mut header = [0; ANSWER_HEADER_LEN];
    let total = u32::try_from(ANSWER_HEADER_LEN + len).unwrap_or(u32::MAX);
    header[..4].copy_from_slice(&total.to_ne_bytes());
    header[4..8].copy_from_slice(&(-error).to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// The fields of an answer, one after another.
#[derive(Debug, Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn zeros(mut self, len: usize) -> Self {
        self.0.resize(self.0.len() + len, 0);
        self
    }
}

/// The answer to [`Operation::Init`]: what both sides support of reads in parallel and of long
/// requests.
#[must_use]
pub fn init(flags: u32) -> Vec<u8> {
    const ASYNC_READ: u32 = 1;
    const BIG_WRITES: u32 = 1 << 5;
    const ASYNC_DIRECT: u32 = 1 << 15;
    const MAX_PAGES: u32 = 1 << 22;
    let ours = ASYNC_READ | BIG_WRITES | ASYNC_DIRECT | MAX_PAGES;
    let pages = limits::REQUEST_LEN / limits::BLOCK_LEN;
    let fields = Fields::default()
        .u32(7)
        .u32(31)
        // The loop device has a read-ahead of its own, above.
        .u32(0)
        .u32(flags & ours)
        .u16(limits::BACKGROUND)
        .u16(limits::BACKGROUND - 1)
        .u32(limits::REQUEST_LEN)
        // The resolution of times, in nanoseconds.
        .u32(1)
        .u16(u16::try_from(pages).unwrap_or(u16::MAX))
        .zeros(2 + 4 + 28);
    fields.0
}

/// The answer to [`Operation::Attributes`]: a file of `size` bytes, which does not change for an
/// hour.
#[must_use]
pub fn attributes(size: u64) -> Vec<u8> {
    const REGULAR: u32 = 0o100_600;
    let fields = Fields::default().u64(3_600).u32(0).u32(0);
    let fields = fields
        .u64(1)
        .u64(size)
        .u64(size.div_ceil(512))
        .zeros(24 + 12);
    let fields = fields
        .u32(REGULAR)
        .u32(1)
        .zeros(12)
        .u32(limits::BLOCK_LEN)
        .u32(0);
    fields.0
}

/// The answer to [`Operation::Open`]: the page cache of this file is never used, and closing it
/// flushes nothing.
#[must_use]
pub fn opened() -> Vec<u8> {
    const NO_FLUSH: u32 = 1 << 5;
    Fields::default().u64(1).u32(NO_FLUSH).u32(0).0
}

/// The answer to [`Operation::Write`]: all `len` bytes were written.
#[must_use]
pub fn written(len: u32) -> Vec<u8> {
    Fields::default().u32(len).u32(0).0
}

/// The answer to [`Operation::Statistics`].
#[must_use]
pub fn statistics(size: u64) -> Vec<u8> {
    let block = limits::BLOCK_LEN;
    let fields = Fields::default()
        .u64(size / u64::from(block))
        .zeros(16)
        .u64(1)
        .u64(0);
    fields.u32(block).u32(255).u32(block).zeros(4 + 24).0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(code: u32, body: &[u8]) -> Vec<u8> {
        let fields = Fields::default().u32(0).u32(code).u64(77).zeros(24);
        [&fields.0, body].concat()
    }

    #[test]
    fn requests_are_parsed_and_short_ones_are_malformed() {
        let body = Fields::default().u64(0).u64(4096).u32(3).zeros(20).0;
        let write = [&body[..], b"abc"].concat();
        let (read, write) = (message(15, &body), message(16, &write));
        let operation = |bytes| Request::parse(bytes).map(|it| (it.unique, it.operation));
        let expected = Operation::Read {
            offset: 4096,
            len: 3,
        };
        assert_eq!(operation(&read), Some((77, expected)));
        let expected = Operation::Write {
            offset: 4096,
            data: b"abc",
        };
        assert_eq!(operation(&write), Some((77, expected)));
        // Every shorter message is recognised as such.
        for len in 0..write.len() {
            let found = operation(&write[..len]).map(|it| it.1);
            let expected = (len >= HEADER_LEN).then_some(Operation::Malformed);
            assert_eq!(found, expected, "{len}");
        }
        assert_eq!(
            operation(&message(25, &[])).unwrap().1,
            Operation::Unsupported
        );
    }

    #[test]
    fn answers_have_the_lengths_of_the_protocol() {
        assert_eq!(init(u32::MAX).len(), 64);
        assert_eq!(attributes(1).len(), 16 + 88);
        assert_eq!(opened().len(), 16);
        assert_eq!(written(1).len(), 8);
        assert_eq!(statistics(1).len(), 80);
        assert_eq!(header(1, error::IO, 0)[4..8], (-5_i32).to_ne_bytes());
    }
}
