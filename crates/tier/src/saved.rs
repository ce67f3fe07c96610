//! The index of a tier in a file, from an orderly stop to the next start.
//!
//! The file is written when all segments are on the media, and removed, durably, before the next
//! run changes anything. So there is one only if nothing has changed since it was written. After a
//! crash there is none, and the tier is empty.
//!
//! ```text
//! file:   frame, frame, …, frame of kind END
//! frame:  length of the payload (4) · kind (4) · checksum of kind and payload (8) · payload
//! ```
//!
//! An entry is the hash, the address and the expiry of a copy. The lowest bit of its offset, which
//! is 0 in an address, says that the item was read since it was written. Numbers are
//! little-endian. The checksum depends on the number of the frame.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use store::{Expiry, TierAddress};

use sys::file_replacement;

use crate::limits::{FILE_MODE, FRAME_BYTES};
use crate::little_endian::{u32_at, u64_at};
use crate::ring::Ring;

const MAGIC: u64 = u64::from_le_bytes(*b"curtail1");
const HEAD: u32 = 1;
const SEGMENTS: u32 = 2;
const ENTRIES: u32 = 3;
const END: u32 = 4;
const ENTRY_LEN: usize = 24;
/// The bit of an entry's offset.
const FETCHED: u32 = 1;
/// The second of an item that never expires.
const NEVER: u32 = u32::MAX;

/// What a tier needs to continue, apart from segments and entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// The tier's own number, on which the checksums of its records depend.
    pub(crate) id: u64,
    /// The seed of the hash of keys.
    pub(crate) hash_seed: u64,
    /// Second 0 of the expiries, as Unix time.
    pub(crate) epoch_unix_s: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) slots: u64,
    pub(crate) next_sequence: u64,
    pub(crate) greatest_cas: u64,
}

impl Head {
    fn to_words(self) -> [u64; 8] {
        [
            MAGIC,
            self.id,
            self.hash_seed,
            self.epoch_unix_s,
            self.segment_bytes,
            self.slots,
            self.next_sequence,
            self.greatest_cas,
        ]
    }

    fn from_words(words: [u64; 8]) -> Option<Self> {
        let [
            magic,
            id,
            hash_seed,
            epoch_unix_s,
            segment_bytes,
            slots,
            next_sequence,
            greatest_cas,
        ] = words;
        (magic == MAGIC).then_some(Self {
            id,
            hash_seed,
            epoch_unix_s,
            segment_bytes,
            slots,
            next_sequence,
            greatest_cas,
        })
    }
}

/// Writes frames.
#[derive(Debug)]
pub(crate) struct Writer<W: Write> {
    out: W,
    frames: u64,
    payload: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(out: W, head: Head) -> io::Result<Self> {
        let mut writer = Self {
            out,
            frames: 0,
            payload: Vec::with_capacity(FRAME_BYTES),
        };
        for word in head.to_words() {
            writer.payload.extend(word.to_le_bytes());
        }
        writer.finish_frame(HEAD)?;
        Ok(writer)
    }

    pub(crate) fn segments(&mut self, sequences: impl Iterator<Item = u32>) -> io::Result<()> {
        for sequence in sequences {
            self.payload.extend(sequence.to_le_bytes());
            self.finish_if_full(SEGMENTS, 4)?;
        }
        self.finish_frame(SEGMENTS)
    }

    pub(crate) fn entry(
        &mut self,
        hash: u64,
        address: TierAddress,
        is_fetched: bool,
    ) -> io::Result<()> {
        let second = address.expiry.seconds_left(0).unwrap_or(NEVER);
        let offset = match is_fetched {
            true => address.offset | FETCHED,
            false => address.offset,
        };
        self.payload.extend(hash.to_le_bytes());
        for number in [address.sequence, offset, address.len, second] {
            self.payload.extend(number.to_le_bytes());
        }
        self.finish_if_full(ENTRIES, ENTRY_LEN)
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.finish_frame(ENTRIES)?;
        self.finish_frame(END)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn finish_if_full(&mut self, kind: u32, next_len: usize) -> io::Result<()> {
        match self.payload.len() + next_len > FRAME_BYTES {
            true => self.finish_frame(kind),
            false => Ok(()),
        }
    }

    fn finish_frame(&mut self, kind: u32) -> io::Result<()> {
        let len = self.payload.len() as u32;
        self.out.write_all(&len.to_le_bytes())?;
        self.out.write_all(&kind.to_le_bytes())?;
        let checksum = checksum(self.frames, kind, &self.payload);
        self.out.write_all(&checksum.to_le_bytes())?;
        self.out.write_all(&self.payload)?;
        self.frames += 1;
        self.payload.clear();
        Ok(())
    }
}

fn checksum(frame: u64, kind: u32, payload: &[u8]) -> u64 {
    let seed = frame << 8 | u64::from(kind);
    rapidhash_v3_seeded(payload, &RapidSecrets::seed(seed))
}

/// Reads frames. Anything unexpected is an error, and then nothing of the file may be used.
#[derive(Debug)]
pub(crate) struct Reader<R: Read> {
    from: R,
    frames: u64,
    payload: Vec<u8>,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(from: R) -> io::Result<(Self, Head)> {
        let mut reader = Self {
            from,
            frames: 0,
            payload: Vec::new(),
        };
        let kind = reader.next_frame()?;
        let words = reader.payload.chunks_exact(8);
        let words: Vec<u64> = words.map(|word| u64_at(word, 0)).collect();
        let head = <[u64; 8]>::try_from(words).ok().and_then(Head::from_words);
        match head {
            Some(head) if kind == HEAD => Ok((reader, head)),
            _ => Err(damaged()),
        }
    }

    /// Reads all segments and entries.
    pub(crate) fn read_all(
        mut self,
        mut segment: impl FnMut(u32),
        mut entry: impl FnMut(u64, TierAddress, bool),
    ) -> io::Result<()> {
        loop {
            match self.next_frame()? {
                SEGMENTS => {
                    for sequence in self.payload.chunks_exact(4) {
                        segment(u32_at(sequence, 0));
                    }
                }
                ENTRIES => {
                    for bytes in self.payload.chunks_exact(ENTRY_LEN) {
                        let offset = u32_at(bytes, 12);
                        let address = TierAddress {
                            sequence: u32_at(bytes, 8),
                            offset: offset & !FETCHED,
                            len: u32_at(bytes, 16),
                            expiry: match u32_at(bytes, 20) {
                                NEVER => Expiry::NEVER,
                                second => Expiry::at(second),
                            },
                        };
                        entry(u64_at(bytes, 0), address, offset & FETCHED != 0);
                    }
                }
                END => return Ok(()),
                _ => return Err(damaged()),
            }
        }
    }

    fn next_frame(&mut self) -> io::Result<u32> {
        let mut head = [0; 16];
        self.from.read_exact(&mut head)?;
        let (len, kind) = (u32_at(&head, 0) as usize, u32_at(&head, 4));
        if len > FRAME_BYTES {
            return Err(damaged());
        }
        self.payload.resize(len, 0);
        self.from.read_exact(&mut self.payload)?;
        if u64_at(&head, 8) != checksum(self.frames, kind, &self.payload) {
            return Err(damaged());
        }
        self.frames += 1;
        Ok(kind)
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the saved index is damaged")
}

/// Writes the file of an index, durably: it is complete or not there.
pub(crate) fn write_file(
    path: &Path,
    head: Head,
    ring: &Ring,
    generation: u32,
    entries: impl FnOnce(&mut Writer<BufWriter<&File>>) -> io::Result<()>,
) -> io::Result<()> {
    // The seed of the hash is a secret: who knows it can choose keys that share a bucket.
    let mode = FILE_MODE;
    file_replacement::replace(path, mode, |file| {
        let mut writer = Writer::new(BufWriter::new(&*file), head)?;
        let segments = ring.segments().filter(|(_, it)| *it == generation);
        writer.segments(segments.map(|(sequence, _)| sequence))?;
        entries(&mut writer)?;
        writer.finish()?;
        file.sync_all()
    })?;
    sync_folder(path)
}

/// Opens the file of an index and removes it, durably, before anything of it is used.
pub(crate) fn take_file(path: &Path) -> io::Result<Option<(Reader<BufReader<File>>, Head)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    fs::remove_file(path)?;
    sync_folder(path)?;
    Ok(Reader::new(BufReader::new(file)).ok())
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
