//! What a tier needs of a file, and the files of a folder or a block device.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::limits::{FILE_MODE, FOREIGN_LEN, MARK_LEN};

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

/// A file, which no other process uses as a tier. Offset 0 is after the mark.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    was_marked: bool,
}

/// The front of a file says that it is a tier's.
const MARK: &[u8; 16] = b"curtail tier 1\r\n";

impl FileDevice {
    /// Opens or creates a file and gives it a size. Nothing is allocated for a new file until it is
    /// written.
    ///
    /// # Errors
    /// The file cannot be opened for writing, is in use by another server, cannot have this size,
    /// or has content that is not a tier's, which stays as it is.
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
        let was_marked = has_mark(&file)?;
        if !was_marked {
            file.write_all_at(MARK, 0)?;
            file.sync_data()?;
        }
        let len = MARK_LEN + bytes;
        if file.metadata()?.is_file() {
            file.set_len(len)?;
        } else if (&file).seek(io::SeekFrom::End(0))? < len {
            let message = "the device is smaller than SIZE and the 4 KiB before it";
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        Ok(Self { file, was_marked })
    }

    /// Whether the file was a tier's before it was opened.
    #[must_use]
    pub fn was_marked(&self) -> bool {
        self.was_marked
    }
}

/// Whether the file is a tier's. If it is not, it has to be empty, or full of zeros where other
/// content would begin.
fn has_mark(file: &File) -> io::Result<bool> {
    let mut front = Vec::new();
    let mut file = file;
    file.seek(io::SeekFrom::Start(0))?;
    file.take(FOREIGN_LEN as u64).read_to_end(&mut front)?;
    if front.starts_with(MARK) {
        return Ok(true);
    }
    if front.iter().any(|&byte| byte != 0) {
        let message = "the file has other content than a tier's of this version, which would be \
                       lost: choose another file, or remove the content";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    Ok(false)
}

impl Device for FileDevice {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, MARK_LEN + offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, MARK_LEN + offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_an_empty_file_or_that_of_a_tier_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| FileDevice::open(&folder.path().join(name), 1 << 20);
        let new = open("new").unwrap();
        assert!(!new.was_marked());
        new.write_at(b"segment", 0).unwrap();
        assert!(open("new").is_err(), "another server uses it");
        drop(new);
        let path = folder.path().join("new");
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert_eq!(metadata.len(), MARK_LEN + (1 << 20));
        let again = open("new").unwrap();
        assert!(again.was_marked());
        let mut found = [0; 7];
        again.read_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"segment");

        fs::write(folder.path().join("zeros"), vec![0; 1 << 20]).unwrap();
        assert!(!open("zeros").unwrap().was_marked());
        // Such as the superblock of btrfs.
        let mut foreign = vec![0; 1 << 20];
        foreign[0x10040] = b'_';
        for content in [b"precious".to_vec(), foreign] {
            fs::write(folder.path().join("foreign"), &content).unwrap();
            let error = open("foreign").unwrap_err();
            assert!(error.to_string().contains("other content"), "{error}");
            assert_eq!(fs::read(folder.path().join("foreign")).unwrap(), content);
        }
    }
}
