//! A file that is memory: what is written there survives the process, but not the machine.

use std::ffi::c_void;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Memory of a fixed length, of a file or of the process alone. Its bytes are copied in and out; no
/// reference to them exists.
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
        let Some(source) = self.at(offset, bytes.len()) else {
            return false;
        };
        // SAFETY: `at` has checked that the source lies in the mapping, which nothing refers to, so
        // it cannot overlap with `bytes`. No other process writes there: the file is locked.
        unsafe {
            std::ptr::copy_nonoverlapping(source.cast_const(), bytes.as_mut_ptr(), bytes.len());
        };
        true
    }

    /// Copies `bytes` to the memory from `offset` on. False, and nothing is written, if some would
    /// be outside.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let Some(target) = self.at(offset, bytes.len()) else {
            return false;
        };
        // SAFETY: as in `read`, with source and target exchanged; access is exclusive.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        true
    }

    /// Where `len` bytes from `offset` on are, if all are inside.
    fn at(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        is_inside.then(|| self.address.as_ptr().cast::<u8>().wrapping_add(offset))
    }
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
