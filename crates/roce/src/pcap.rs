//! Captures in the classic format of pcap, so that other tools read our packets and we read theirs.
//!
//! A file is a header of 24 bytes, then a header of 16 bytes for each frame. The magic number tells
//! the byte order and whether times are in microseconds or nanoseconds. Only Ethernet (link type
//! 1) is supported, and not the newer format pcapng.

use thiserror::Error;

use crate::limits::CAPTURE_LEN_MAX;

const HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINK_ETHERNET: u32 = 1;
const SECOND_NS: u64 = 1_000_000_000;

/// The unit of times in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Every tool reads it.
    Microseconds,
    /// Wireshark and tcpdump read it.
    Nanoseconds,
}

impl Resolution {
    fn unit_ns(self) -> u64 {
        match self {
            Self::Microseconds => 1000,
            Self::Nanoseconds => 1,
        }
    }
}

/// A capture that grows in memory. The caller may take its bytes away to a file at any time.
#[derive(Clone, Debug)]
pub struct Writer {
    resolution: Resolution,
    /// Bytes that are not written to a file yet, beginning with the header of the file.
    pub bytes: Vec<u8>,
}

impl Writer {
    /// An empty capture.
    pub fn new(resolution: Resolution) -> Self {
        let magic = match resolution {
            Resolution::Microseconds => MAGIC_MICROSECONDS,
            Resolution::Nanoseconds => MAGIC_NANOSECONDS,
        };
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.extend(magic.to_le_bytes());
        // Version 2.4; then time zone and accuracy, which are always 0.
        bytes.extend([2, 0, 4, 0]);
        bytes.extend([0; 8]);
        bytes.extend((CAPTURE_LEN_MAX as u32).to_le_bytes());
        bytes.extend(LINK_ETHERNET.to_le_bytes());
        Self { resolution, bytes }
    }

    /// Adds a frame with its time, in nanoseconds since 1970. A longer frame than
    /// [`CAPTURE_LEN_MAX`] is cut, and its length noted. Seconds beyond 2³² wrap.
    pub fn push(&mut self, time_ns: u64, frame: &[u8]) {
        let kept = &frame[..frame.len().min(CAPTURE_LEN_MAX)];
        let fraction = (time_ns % SECOND_NS) / self.resolution.unit_ns();
        let original_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        for word in [
            (time_ns / SECOND_NS) as u32,
            fraction as u32,
            kept.len() as u32,
            original_len,
        ] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(kept);
    }
}

/// A frame of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// The frame, or its beginning.
    pub frame: &'a [u8],
    /// Length of the frame on the wire.
    pub original_len: u32,
}

/// Why a capture cannot be read. Messages continue "failed to read the capture: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CaptureError {
    /// Another format, for example pcapng, which `editcap -F pcap` converts.
    #[error("it does not begin as the classic format of pcap does")]
    Format,
    /// Another link than Ethernet.
    #[error("its link type {0} is not Ethernet (1)")]
    LinkType(u32),
    /// The capture ends within a frame.
    #[error("it ends within a frame")]
    Truncated,
    /// A frame is longer than [`CAPTURE_LEN_MAX`].
    #[error("a frame of {0} bytes is longer than any frame")]
    TooLong(u32),
}

/// Reads a capture frame by frame. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    resolution: Resolution,
    is_big_endian: bool,
}

impl<'a> Reader<'a> {
    /// A reader of a whole file.
    ///
    /// # Errors
    /// The file is no capture of Ethernet frames in the classic format.
    pub fn new(file: &'a [u8]) -> Result<Self, CaptureError> {
        let (header, rest) = file
            .split_at_checked(HEADER_LEN)
            .ok_or(CaptureError::Format)?;
        let magic = word(header, 0, false);
        let (is_big_endian, resolution) = match (magic, magic.swap_bytes()) {
            (MAGIC_MICROSECONDS, _) => (false, Resolution::Microseconds),
            (MAGIC_NANOSECONDS, _) => (false, Resolution::Nanoseconds),
            (_, MAGIC_MICROSECONDS) => (true, Resolution::Microseconds),
            (_, MAGIC_NANOSECONDS) => (true, Resolution::Nanoseconds),
            _ => return Err(CaptureError::Format),
        };
        // The upper half tells whether frames end with their check sequence.
        let link_type = word(header, 20, is_big_endian) & 0xffff;
        if link_type != LINK_ETHERNET {
            return Err(CaptureError::LinkType(link_type));
        }
        Ok(Self {
            rest,
            resolution,
            is_big_endian,
        })
    }

    /// The unit of the capture's times.
    pub fn resolution(&self) -> Resolution {
        self.resolution
    }

    fn read(&mut self) -> Result<Record<'a>, CaptureError> {
        let (header, rest) = self
            .rest
            .split_at_checked(RECORD_HEADER_LEN)
            .ok_or(CaptureError::Truncated)?;
        let word = |offset| word(header, offset, self.is_big_endian);
        let len = word(8);
        if len as usize > CAPTURE_LEN_MAX {
            return Err(CaptureError::TooLong(len));
        }
        let (frame, rest) = rest
            .split_at_checked(len as usize)
            .ok_or(CaptureError::Truncated)?;
        self.rest = rest;
        Ok(Record {
            // Below 2³² seconds and 2³² fractions: no overflow.
            time_ns: u64::from(word(0)) * SECOND_NS
                + u64::from(word(4)) * self.resolution.unit_ns(),
            frame,
            original_len: word(12),
        })
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Record<'a>, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.read();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

/// The word at `offset`, which lies within the header.
fn word(header: &[u8], offset: usize, is_big_endian: bool) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[offset..offset + 4]);
    if is_big_endian {
        u32::from_be_bytes(bytes)
    } else {
        u32::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_frames_are_read_again() {
        for (resolution, time_ns) in [
            (Resolution::Microseconds, 1_700_000_000_123_456_000),
            (Resolution::Nanoseconds, 1_700_000_000_123_456_789),
        ] {
            let mut writer = Writer::new(resolution);
            let long = vec![7; CAPTURE_LEN_MAX + 1];
            writer.push(time_ns, b"frame");
            writer.push(time_ns + 1000, &long);
            let reader = Reader::new(&writer.bytes).unwrap();
            assert_eq!(reader.resolution(), resolution);
            let records: Vec<_> = reader.map(Result::unwrap).collect();
            assert_eq!(
                records,
                [
                    Record {
                        time_ns,
                        frame: b"frame",
                        original_len: 5
                    },
                    Record {
                        time_ns: time_ns + 1000,
                        frame: &long[1..],
                        original_len: 65_536
                    },
                ]
            );
        }
    }

    #[test]
    fn the_other_byte_order_is_read() {
        let mut file = Vec::new();
        for word in [MAGIC_MICROSECONDS, 0x0002_0004, 0, 0, 65_535, 1, 3, 5, 2, 2] {
            file.extend(word.to_be_bytes());
        }
        file.extend(b"ab");
        let records: Vec<_> = Reader::new(&file).unwrap().map(Result::unwrap).collect();
        let record = Record {
            time_ns: 3_000_005_000,
            frame: b"ab",
            original_len: 2,
        };
        assert_eq!(records, [record]);
    }

    #[test]
    fn what_is_wrong_with_a_capture_is_said_once() {
        assert_eq!(Reader::new(b"").unwrap_err(), CaptureError::Format);
        assert_eq!(Reader::new(&[0; 24]).unwrap_err(), CaptureError::Format);
        let mut writer = Writer::new(Resolution::Nanoseconds);
        writer.push(0, b"frame");
        let mut other_link = writer.bytes.clone();
        other_link[20] = 113;
        assert_eq!(
            Reader::new(&other_link).unwrap_err(),
            CaptureError::LinkType(113)
        );
        let cut = &writer.bytes[..writer.bytes.len() - 1];
        let results: Vec<_> = Reader::new(cut).unwrap().collect();
        assert_eq!(results, [Err(CaptureError::Truncated)]);
        writer.bytes[24 + 8 + 2] = 1;
        let results: Vec<_> = Reader::new(&writer.bytes).unwrap().collect();
        assert_eq!(results, [Err(CaptureError::TooLong(65_541))]);
    }
}
