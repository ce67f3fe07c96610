//! A file that is memory: what is written there survives the process, but not the machine.

use std::ffi::c_void;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Length of a word in bytes.
const WORD: usize = size_of::<AtomicU64>();

/// Memory of a fixed length, of a file or of the process alone. Its bytes are copied in and out, by
/// words that are atomic: the lock keeps other processes out, but not clones of the open file, and
/// those may be mapped too.
#[derive(Debug)]
pub struct SharedMemory {
    address: NonNull<c_void>,
    len: usize,
    /// Keeps the lock.
    _file: Option<File>,
}

// SAFETY: the value owns its mapping, which is not bound to a thread.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Maps the first `len` bytes of a file, which is made longer if it is shorter, with zeros.
    /// Writes go to the page cache, so they are in the file however this process ends. The file is
    /// locked for as long as the value exists.
    ///
    /// # Errors
    /// `WouldBlock`: another process has locked the file. Otherwise `len` is 0, there is no space,
    /// or the file cannot be mapped.
    pub fn of_file(file: File, len: u64) -> io::Result<Self> {
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::from(io::ErrorKind::WouldBlock),
            TryLockError::Error(error) => error,
        })?;
        if file.metadata()?.len() < len {
            // Space is reserved now: a page without space on the disk would end the process later.
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len)?;
        }
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
        let address = unsafe { mmap(null, len, access, MapFlags::SHARED, file.as_fd(), 0) }?;
        let address = NonNull::new(address).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            address,
            len,
            _file: Some(file),
        })
    }

    /// Maps `len` bytes of zeros that end with the process.
    ///
    /// # Errors
    /// `len` is 0, or there is no memory.
    pub fn anonymous(len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
        let address = unsafe { mmap_anonymous(null, len, access, MapFlags::PRIVATE) }?;
        let address = NonNull::new(address).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            address,
            len,
            _file: None,
        })
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0, which it never is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the bytes from `offset` on. False, and `bytes` are unchanged, if some are outside.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        let Some(words) = self.words(offset, bytes.len()) else {
            return false;
        };
        let mut words = words.iter().map(bytes_of);
        let (head, rest) = bytes.split_at_mut(head_len(offset, bytes.len()));
        let (whole, tail) = rest.as_chunks_mut::<WORD>();
        if !head.is_empty()
            && let Some(word) = words.next()
        {
            head.copy_from_slice(&word[offset % WORD..][..head.len()]);
        }
        for (chunk, word) in whole.iter_mut().zip(words.by_ref()) {
            *chunk = word;
        }
        if let Some(word) = words.next() {
            tail.copy_from_slice(&word[..tail.len()]);
        }
        true
    }

    /// Copies `bytes` to the memory from `offset` on. False, and nothing is written, if some would
    /// be outside.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let Some(words) = self.words(offset, bytes.len()) else {
            return false;
        };
        let mut words = words.iter();
        let (head, rest) = bytes.split_at(head_len(offset, bytes.len()));
        let (whole, tail) = rest.as_chunks::<WORD>();
        if !head.is_empty()
            && let Some(word) = words.next()
        {
            replace(word, offset % WORD, head);
        }
        for (chunk, word) in whole.iter().zip(words.by_ref()) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
        if let Some(word) = words.next() {
            replace(word, 0, tail);
        }
        true
    }

    /// The words that contain `len` bytes from `offset` on, if all are inside.
    fn words(&self, offset: usize, len: usize) -> Option<&[AtomicU64]> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len)?;
        let start = self.address.as_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping begins and ends at a page, so it contains the last word completely.
        // It is initialised, lives as long as `self`, and this module accesses it only by these
        // words, through another mapping of the file too.
        let all = unsafe { slice::from_raw_parts(start, self.len.div_ceil(WORD)) };
        all.get(offset / WORD..end.div_ceil(WORD))
    }
}

/// How many of `len` bytes from `offset` on are in a word that begins before them.
fn head_len(offset: usize, len: usize) -> usize {
    (offset.next_multiple_of(WORD) - offset).min(len)
}

fn bytes_of(word: &AtomicU64) -> [u8; WORD] {
    word.load(Ordering::Relaxed).to_ne_bytes()
}

/// Replaces bytes of a word, from its byte `start` on. Not in one step: what another mapping writes
/// to the word meanwhile is lost.
fn replace(word: &AtomicU64, start: usize, bytes: &[u8]) {
    let mut content = bytes_of(word);
    content[start..][..bytes.len()].copy_from_slice(bytes);
    word.store(u64::from_ne_bytes(content), Ordering::Relaxed);
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to its memory.
        let _ = unsafe { munmap(self.address.as_ptr(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_in_the_file_and_only_within_its_bounds() {
        let path = std::env::temp_dir().join(format!("shared-memory-{}", std::process::id()));
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            options.open(&path).unwrap()
        };
        let mut memory = SharedMemory::of_file(open(), 8192).unwrap();
        assert!(memory.write(8190, b"ab"));
        assert!(!memory.write(8190, b"abc"));
        assert!(!memory.write(usize::MAX, b"abc"));
        let second = SharedMemory::of_file(open(), 8192).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        drop(memory);
        let memory = SharedMemory::of_file(open(), 8192).unwrap();
        let mut bytes = [0; 3];
        assert!(memory.read(8189, &mut bytes));
        assert_eq!(&bytes, b"\0ab");
        assert!(!memory.read(8190, &mut bytes));
        drop(memory);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn clones_of_an_open_file_have_the_same_bytes() {
        let file = tempfile::tempfile().unwrap();
        let mut one = SharedMemory::of_file(file.try_clone().unwrap(), 4096).unwrap();
        let other = SharedMemory::of_file(file, 4096).unwrap();
        assert!(one.write(1, b"both"));
        let mut bytes = [0; 4];
        assert!(other.read(1, &mut bytes));
        assert_eq!(&bytes, b"both");
    }

    #[test]
    fn bytes_are_copied_from_and_to_any_offset() {
        const LEN: usize = 61;
        let mut memory = SharedMemory::anonymous(LEN as u64).unwrap();
        let mut model = [0; LEN];
        let mut next = 0_u8;
        for from in 0..=LEN {
            for to in from..=LEN {
                for byte in &mut model[from..to] {
                    next = next.wrapping_add(1);
                    *byte = next;
                }
                assert!(memory.write(from, &model[from..to]));
                let mut all = [0; LEN];
                assert!(memory.read(0, &mut all));
                assert_eq!(all, model, "{from}..{to}");
                let mut part = vec![0; to - from];
                assert!(memory.read(from, &mut part));
                assert_eq!(part, model[from..to]);
            }
        }
    }

    #[test]
    fn anonymous_memory_begins_with_zeros() {
        let mut memory = SharedMemory::anonymous(4096).unwrap();
        let mut bytes = [1; 4];
        assert!(memory.read(0, &mut bytes));
        assert_eq!(bytes, [0; 4]);
        assert!(memory.write(4, b"four"));
        assert!(memory.read(4, &mut bytes));
        assert_eq!(&bytes, b"four");
    }
}
