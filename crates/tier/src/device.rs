//! What a tier needs of a file, and the files of a folder or a block device.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Permissions of a new file: it contains items of all clients.
const FILE_MODE: u32 = 0o600;

/// A file of a fixed size. Tests have devices that fail.
pub trait Device: fmt::Debug + Send + Sync + 'static {
    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// Not all bytes could be read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes `bytes` from `offset` on. They may be lost in a power failure until
    /// [`sync`](Device::sync) has returned.
    ///
    /// # Errors
    /// Some bytes may not have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Waits until all bytes written before are on the medium.
    ///
    /// # Errors
    /// Some may not be.
    fn sync(&self) -> io::Result<()>;
}

/// A file, which no other process uses as a tier.
#[derive(Debug)]
pub struct FileDevice(File);

impl FileDevice {
    /// Opens or creates a file and gives it a size. Nothing is allocated for a new file until it is
    /// written.
    ///
    /// # Errors
    /// The file cannot be opened for writing, is in use by another server, or cannot have this
    /// size.
    pub fn open(path: &Path, bytes: u64) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = "another server uses this file";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // A block device has the size that it has.
        if file.metadata()?.is_file() {
            file.set_len(bytes)?;
        }
        Ok(Self(file))
    }
}

impl Device for FileDevice {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
