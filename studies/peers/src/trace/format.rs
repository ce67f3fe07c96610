//! The formats of public traces.
//!
//! | format | a record |
//! |---|---|
//! | integers | a key of 2, 4 or 8 bytes. The byte order does not matter, because a key only identifies an item |
//! | text | a key a line, any text |
//! | LIRS | a block number a line; lines with `*` separate parts (Jiang and Zhang, SIGMETRICS 2002) |
//! | addresses | `l 0x1fffff50 1`: load or store, address, instructions since the last one (UCSD, CSE 240A) |
//! | sized text | `time key size` (AdaptSize, Berger and others, NSDI 2017) |
//! | `oracleGeneral` | 24 bytes, little endian: time 4, key 8, size 4, next access 8 (libCacheSim) |
//! | Twitter | `time,key,key size,value size,client,operation,TTL` (Yang and others, OSDI 2020) |

mod twitter;

use std::hash::{DefaultHasher, Hasher};

use super::{Builder, READ, Request, Trace, TraceError};

/// Length of a record of `oracleGeneral`.
const ORACLE_LEN: usize = 24;

/// The format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Keys of 2 bytes.
    Integers2,
    /// Keys of 4 bytes.
    Integers4,
    /// Keys of 8 bytes.
    Integers8,
    /// A key a line.
    Text,
    /// A block number a line, with lines of `*` between.
    Lirs,
    /// Loads and stores of memory.
    Addresses,
    /// Time, key and size a line.
    SizedText,
    /// The binary records of libCacheSim.
    OracleGeneral,
    /// The CSV of Twitter's cache clusters.
    Twitter,
}

impl Format {
    /// Parses a whole decompressed trace.
    ///
    /// # Errors
    /// A record has not the fields of the format, the file ends within one, or there are too many
    /// keys.
    pub fn parse(self, content: &[u8]) -> Result<Trace, TraceError> {
        match self {
            Self::Integers2 => integers::<2>(content),
            Self::Integers4 => integers::<4>(content),
            Self::Integers8 => integers::<8>(content),
            Self::Text => lines(content, |builder, _, line| builder.add_read(name(line))),
            Self::Lirs => lines(content, lirs_line),
            Self::Addresses => lines(content, address_line),
            Self::SizedText => lines(content, sized_line),
            Self::OracleGeneral => oracle_general(content),
            Self::Twitter => lines(content, twitter::line),
        }
    }
}

/// Identifies a key by a hash of 64 bits. Of ten million keys two share one with a probability of
/// three in a million.
fn name(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}

fn records(content: &[u8], len: usize) -> Result<impl Iterator<Item = &[u8]>, TraceError> {
    match content.len() % len {
        0 => Ok(content.chunks_exact(len)),
        _ => Err(TraceError::Truncated {
            len: content.len(),
            record: len,
        }),
    }
}

fn integers<const LEN: usize>(content: &[u8]) -> Result<Trace, TraceError> {
    let mut builder = Builder::default();
    for record in records(content, LEN)? {
        builder.add_read(integer(record))?;
    }
    Ok(builder.finish())
}

/// A little-endian integer of at most 8 bytes.
fn integer(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

fn oracle_general(content: &[u8]) -> Result<Trace, TraceError> {
    let mut builder = Builder::default();
    for record in records(content, ORACLE_LEN)? {
        let request = Request {
            second: integer(&record[..4]) as u32,
            bytes: integer(&record[12..16]) as u32,
            ..READ
        };
        builder.add(integer(&record[4..12]), request)?;
    }
    Ok(builder.finish())
}

/// Passes each line that is not empty to `add`, without the spaces around it, with its number.
fn lines(
    content: &[u8],
    mut add: impl FnMut(&mut Builder, usize, &[u8]) -> Result<(), TraceError>,
) -> Result<Trace, TraceError> {
    let mut builder = Builder::default();
    for (before, line) in content.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if !line.is_empty() {
            add(&mut builder, before + 1, line)?;
        }
    }
    Ok(builder.finish())
}

fn lirs_line(builder: &mut Builder, line: usize, text: &[u8]) -> Result<(), TraceError> {
    if text == b"*" {
        return Ok(());
    }
    let expected = "a block number or `*`";
    builder.add_read(decimal(text).ok_or(TraceError::Line { line, expected })?)
}

fn address_line(builder: &mut Builder, line: usize, text: &[u8]) -> Result<(), TraceError> {
    let expected = "`l` or `s` and an address such as 0x1fffff50";
    let address = || {
        let mut fields = text.split(|&byte| byte == b' ');
        fields.next().filter(|&kind| matches!(kind, b"l" | b"s"))?;
        let digits = std::str::from_utf8(fields.next()?)
            .ok()?
            .strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    };
    builder.add_read(address().ok_or(TraceError::Line { line, expected })?)
}

fn sized_line(builder: &mut Builder, line: usize, text: &[u8]) -> Result<(), TraceError> {
    let expected = "time, key and size";
    let request = || {
        let mut fields = text.split(|&byte| byte == b' ');
        // The time is the number of the request.
        decimal(fields.next()?)?;
        let key = name(fields.next()?);
        let bytes = u32::try_from(decimal(fields.next()?)?).ok()?;
        Some((key, Request { bytes, ..READ }))
    };
    let (key, request) = request().ok_or(TraceError::Line { line, expected })?;
    builder.add(key, request)
}

/// A decimal number without sign.
fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
