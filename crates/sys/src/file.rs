//! Files below a folder, and reads that never wait for a disk.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    FileType, MemfdFlags, Mode, OFlags, ResolveFlags, fstat, memfd_create, open, openat2,
};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

/// Whether an operation may wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It fails with `WouldBlock` instead.
    Never,
    /// It may.
    Allowed,
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A folder.
    Folder,
    /// A device, a pipe or a socket.
    Other,
}

/// Facts about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Its kind.
    pub kind: FileKind,
    /// Its length in bytes.
    pub len: u64,
    /// Its last modification, in nanoseconds since 1970 in UTC. 0 for an earlier one.
    pub modified_ns: u64,
    /// Its number in its file system.
    pub inode: u64,
}

/// A folder. Files are opened by their names below it, and no name leaves it.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Folder {
    /// Opens the folder at `path`.
    ///
    /// # Errors
    /// There is no folder, or it must not be entered.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty())?;
        Ok(Self { fd })
    }

    /// Opens a file below the folder for reading (openat2(2)). The kernel rejects a name that
    /// leaves the folder: by `..`, by a leading slash, or by a symbolic link. A pipe without a
    /// writer is opened too, and immediately.
    ///
    /// # Errors
    /// With [`Wait::Never`], `WouldBlock` if a part of the name is not in the kernel's cache of
    /// names. `CrossesDevices` (EXDEV) if the name leaves the folder; an error of the file system.
    pub fn open_file(&self, name: &[u8], wait: Wait) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if wait == Wait::Never {
            resolve |= ResolveFlags::CACHED;
        }
        match openat2(&self.fd, name, flags, Mode::empty(), resolve) {
            // Before Linux 5.12 the kernel does not know the flag.
            Err(Errno::INVAL) if wait == Wait::Never => Err(io::ErrorKind::WouldBlock.into()),
            outcome => Ok(outcome?),
        }
    }

    /// The number of requests that the block device of the folder has at a time, at most
    /// (`nr_requests`, Documentation/ABI/stable/sysfs-block of Linux). None: the folder is on no
    /// block device, or that is not known.
    #[must_use]
    pub fn device_queue_len(&self) -> Option<u32> {
        let device = fstat(&self.fd).ok()?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let device = format!("/sys/dev/block/{major}:{minor}");
        // A partition has the queue of its disk.
        let read = |queue: &str| std::fs::read_to_string(format!("{device}/{queue}/nr_requests"));
        let text = read("queue").or_else(|_| read("../queue")).ok()?;
        text.trim().parse().ok()
    }
}

/// Opens the file at `path` for reading. A pipe without a writer is opened too, and immediately.
///
/// # Errors
/// There is no such file, or it must not be read.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(open(path, flags, Mode::empty())?.into())
}

/// Returns facts about an open file. Local file systems have them in memory while it is open.
///
/// # Errors
/// An error of the file system.
pub fn attributes(file: impl AsFd) -> io::Result<Attributes> {
    let stat = fstat(file)?;
    let modified_s = u64::try_from(stat.st_mtime).unwrap_or(0);
    #[allow(
        clippy::useless_conversion,
        reason = "the type depends on the architecture"
    )]
    let part_ns = u64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Ok(Attributes {
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::Regular,
            FileType::Directory => FileKind::Folder,
            _ => FileKind::Other,
        },
        len: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ns: modified_s
            .saturating_mul(1_000_000_000)
            .saturating_add(part_ns),
        inode: stat.st_ino,
    })
}

/// Reads bytes from `offset` on into `buffer`, and returns their number. 0 means that the file
/// ends there.
///
/// # Errors
/// With [`Wait::Never`] (`RWF_NOWAIT`, preadv2(2)): `WouldBlock` if the first byte is not in the
/// page cache, `Unsupported` if the file system does not support such reads. An error of the disk.
pub fn read_at(file: impl AsFd, offset: u64, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
    loop {
        let outcome = match wait {
            Wait::Allowed => pread(&file, &mut *buffer, offset),
            Wait::Never => {
                let mut slices = [IoSliceMut::new(buffer)];
                preadv2(&file, &mut slices, offset, ReadWriteFlags::NOWAIT)
            }
        };
        match outcome {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP) => return Err(io::ErrorKind::Unsupported.into()),
            outcome => return Ok(outcome?),
        }
    }
}

/// Creates a file in memory, without a name in a folder. It ends with its last descriptor.
///
/// # Errors
/// The limit of descriptors is reached.
pub fn memory_file(name: &str) -> io::Result<OwnedFd> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, mknodat};

    use super::*;

    /// A folder with `inside`, a file beside it, links to both, and a pipe.
    fn example() -> (tempfile::TempDir, Folder) {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("root");
        fs::create_dir_all(root.join("folder")).unwrap();
        fs::write(root.join("inside"), "inside").unwrap();
        fs::write(parent.path().join("outside"), "outside").unwrap();
        symlink("../inside", root.join("folder/good")).unwrap();
        symlink("../outside", root.join("up")).unwrap();
        symlink(parent.path().join("outside"), root.join("absolute")).unwrap();
        symlink(root.join("inside"), root.join("absolute-inside")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, root.join("pipe"), FileType::Fifo, mode, 0).unwrap();
        let folder = Folder::open(&root).unwrap();
        (parent, folder)
    }

    #[test]
    fn names_stay_below_the_folder() {
        let (_parent, folder) = example();
        let (crosses, denied) = (Some(18), Some(40));
        for (name, expected) in [
            ("inside", None),
            ("folder/good", None),
            ("folder/../inside", None),
            ("../root/inside", crosses),
            ("../outside", crosses),
            ("folder/../../outside", crosses),
            ("/etc/passwd", crosses),
            ("up", crosses),
            ("absolute", crosses),
            ("absolute-inside", crosses),
            ("magic/etc/passwd", crosses),
            ("loop", denied),
            ("absent", Some(2)),
            ("inside/", Some(20)),
            ("", Some(2)),
        ] {
            let opened = folder.open_file(name.as_bytes(), Wait::Allowed);
            let error = opened.err().map(|error| error.raw_os_error());
            assert_eq!(error.flatten(), expected, "{name}");
        }
        let nul = folder.open_file(b"inside\0", Wait::Allowed);
        assert_eq!(nul.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn kinds_and_lengths_are_told_and_a_pipe_delays_nothing() {
        let (_parent, folder) = example();
        for (name, kind, len) in [
            ("inside", FileKind::Regular, Some(6)),
            ("folder", FileKind::Folder, None),
            ("pipe", FileKind::Other, None),
        ] {
            let file = folder.open_file(name.as_bytes(), Wait::Allowed).unwrap();
            let found = attributes(file).unwrap();
            assert_eq!(found.kind, kind, "{name}");
            assert!(len.is_none_or(|len| found.len == len), "{name}");
        }
    }

    #[test]
    fn what_was_just_written_is_read_without_waiting() {
        let (_parent, folder) = example();
        let file = folder.open_file(b"inside", Wait::Never).unwrap();
        let mut buffer = [0; 9];
        let len = read_at(&file, 2, &mut buffer, Wait::Never).unwrap();
        assert_eq!(&buffer[..len], b"side");
        assert_eq!(read_at(&file, 6, &mut buffer, Wait::Allowed).unwrap(), 0);
    }
}
