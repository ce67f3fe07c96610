//! Copies of packets, in buffers that are used again.

use crate::limits::FRAMES_MAX;

/// A stock of buffers. At most [`FRAMES_MAX`] are in use.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    free: Vec<Vec<u8>>,
    used: usize,
}

impl Frames {
    /// An empty buffer, unless too many are in use.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        if self.used == FRAMES_MAX {
            return None;
        }
        self.used += 1;
        Some(self.free.pop().unwrap_or_default())
    }

    /// A copy of `frame`, unless too many are in use.
    pub(crate) fn copy(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let mut copy = self.take()?;
        copy.extend_from_slice(frame);
        Some(copy)
    }

    /// Takes a buffer back.
    pub(crate) fn put(&mut self, mut frame: Vec<u8>) {
        self.used -= 1;
        frame.clear();
        self.free.push(frame);
    }

    /// Number of copies.
    pub(crate) fn used(&self) -> usize {
        self.used
    }
}
