//! The files below a folder.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use sys::file::{Folder, Wait, attributes, read_at};
use sys::file_opener::FileOpener;
use sys::file_ring::{FileRing, Owner};
use sys::page_cache::{Mapping, has_pages};

use crate::disk::{Disk, Document, OpenFile, ResidencyProbe};

/// The files below a folder.
#[derive(Debug)]
pub struct SystemDisk {
    root: Folder,
}

/// An open file of a [`SystemDisk`].
#[derive(Debug)]
pub struct SystemFile {
    fd: OwnedFd,
    len: u64,
    /// Made when it is first needed. `None` if the file cannot be mapped, for example because it
    /// is empty.
    mapping: OnceLock<Option<Mapping>>,
}

impl SystemDisk {
    /// The files below the folder at `path`.
    ///
    /// # Errors
    /// There is no such folder, or it must not be entered.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            root: Folder::open(path)?,
        })
    }
}

impl AsFd for Document<SystemFile> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.fd.as_fd()
    }
}

impl Disk for SystemDisk {
    type File = SystemFile;
    type Opener = FileOpener;

    fn open(&self, name: &[u8], wait: Wait) -> io::Result<Document<SystemFile>> {
        document(self.root.open_file(name, wait)?)
    }

    fn read(
        &self,
        file: &SystemFile,
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> io::Result<usize> {
        read_at(&file.fd, offset, buffer, wait)
    }

    fn descriptor(document: &Arc<Document<SystemFile>>) -> Option<OpenFile> {
        Some(Arc::<Document<SystemFile>>::clone(document))
    }

    fn start_read<T>(
        &self,
        ring: &mut FileRing<OpenFile, T>,
        document: Arc<Document<SystemFile>>,
        offset: u64,
        len: usize,
        receiver: T,
    ) -> Result<(), Owner<OpenFile, T>> {
        let file: OpenFile = document;
        ring.read(offset, len, Owner { file, receiver })
    }

    fn queue_len(&self) -> Option<u32> {
        self.root.device_queue_len()
    }

    fn is_resident(
        &self,
        file: &SystemFile,
        offset: u64,
        len: usize,
        probe: ResidencyProbe,
    ) -> io::Result<bool> {
        match probe {
            ResidencyProbe::PageCache => has_pages(&file.fd, offset, len as u64),
            ResidencyProbe::Mapping => {
                let map = || Mapping::new(&file.fd, file.len).ok();
                let mapping = file.mapping.get_or_init(map).as_ref();
                let mapping = mapping.ok_or(io::ErrorKind::Unsupported)?;
                mapping.is_resident(offset, len as u64)
            }
        }
    }

    fn start_opener(&self) -> io::Result<FileOpener> {
        FileOpener::start(&self.root)
    }

    fn open_by(
        &self,
        opener: &FileOpener,
        name: &[u8],
    ) -> Option<io::Result<Document<SystemFile>>> {
        let opened = opener.open(name).ok()?;
        Some(opened.and_then(document))
    }

    fn touch_name_by(&self, opener: &FileOpener, name: &[u8]) -> Option<()> {
        // An error shows again when the worker opens the file.
        opener.look_up(name).ok().map(drop)
    }

    fn touch_by(
        &self,
        opener: &FileOpener,
        file: &SystemFile,
        offset: u64,
        len: usize,
    ) -> Option<()> {
        opener.touch(&file.fd, offset, len as u64).ok().map(drop)
    }
}

/// The document of an open file.
fn document(fd: OwnedFd) -> io::Result<Document<SystemFile>> {
    let attributes = attributes(&fd)?;
    let file = SystemFile {
        fd,
        len: attributes.len,
        mapping: OnceLock::new(),
    };
    Ok(Document { file, attributes })
}
