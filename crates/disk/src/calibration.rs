//! Whether a disk keeps its law: measured times of random reads beside those that were asked for.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use measure::Histogram;
use serde::Serialize;

use crate::law::{Draws, Law};
use crate::limits;

/// The times of reads of one block, one after another, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// Number of reads.
    pub reads: u32,
    /// Mean of the law.
    pub law_mean_ns: f64,
    /// Median of the law.
    pub law_p50_ns: u64,
    /// 99th percentile of the law.
    pub law_p99_ns: u64,
    /// Measured mean.
    pub mean_ns: f64,
    /// Measured median.
    pub p50_ns: u64,
    /// Measured 99th percentile.
    pub p99_ns: u64,
}

/// Bytes of the file that is read.
pub const FILE_LEN: u64 = 8 << 20;

/// `O_DIRECT`: past the page cache.
const DIRECT: i32 = 0o40_000;

/// Writes the file that [`calibrate`] reads.
///
/// # Errors
/// The file cannot be written.
pub fn prepare(path: &Path) -> io::Result<()> {
    std::fs::write(path, vec![b'c'; FILE_LEN as usize])
}

/// Reads random blocks of the file at `path`, one after another and past the page cache.
///
/// # Errors
/// The file cannot be read.
pub fn calibrate(path: &Path, law: &Law, seed: u64, reads: u32) -> io::Result<Calibration> {
    let file = File::options().read(true).custom_flags(DIRECT).open(path)?;
    let block = u64::from(limits::BLOCK_LEN);
    let mut memory = vec![0; 2 * limits::BLOCK_LEN as usize];
    let from = memory.as_ptr().align_offset(limits::BLOCK_LEN as usize);
    let buffer = memory.get_mut(from..from + limits::BLOCK_LEN as usize);
    let buffer = buffer.ok_or(io::ErrorKind::OutOfMemory)?;
    let (mut asked, mut found) = (Histogram::new(), Histogram::new());
    let mut draws = Draws::new(seed);
    let mut places = Draws::new(!seed);
    let mut last = u64::MAX;
    for _ in 0..reads {
        let mut number = places.below(FILE_LEN / block - 1);
        // Not the block after the last one, which has another law.
        number += u64::from(number == last.wrapping_add(1));
        last = number;
        let began_ns = sys::clock::monotonic_ns();
        file.read_exact_at(buffer, number * block)?;
        found.record(sys::clock::monotonic_ns() - began_ns);
        asked.record(law.draw_ns(&mut draws, limits::BLOCK_LEN, false));
    }
    Ok(Calibration {
        reads,
        law_mean_ns: asked.mean(),
        law_p50_ns: asked.percentile(50.0),
        law_p99_ns: asked.percentile(99.0),
        mean_ns: found.mean(),
        p50_ns: found.percentile(50.0),
        p99_ns: found.percentile(99.0),
    })
}
