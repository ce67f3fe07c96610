//! What the strategies need of a disk.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::{fmt, io};

use sys::file::{Attributes, Wait};
use sys::file_ring::{FileRing, Owner};

/// An open file of the kernel.
pub type OpenFile = Arc<dyn AsFd + Send + Sync>;

/// An open file, and what was known of it when it was opened.
#[derive(Debug)]
pub struct Document<F> {
    /// The file.
    pub file: F,
    /// Its attributes.
    pub attributes: Attributes,
}

/// How a strategy learns whether bytes are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResidencyProbe {
    /// By the descriptor of the file (cachestat(2)).
    PageCache,
    /// By a mapping of the file (mincore(2)).
    Mapping,
}

/// The files below a root. [`SystemDisk`](crate::SystemDisk) has those of a folder; tests have
/// disks whose delays they decide.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// An open file.
    type File: fmt::Debug + Send + Sync + 'static;
    /// What does operations for a thread of the pool: a process.
    type Opener: Send + 'static;

    /// Opens a file by its name relative to the root.
    ///
    /// # Errors
    /// With [`Wait::Never`], `WouldBlock` if the name has to be looked up on the disk. An error of
    /// the file system, in particular if the name leaves the root.
    fn open(&self, name: &[u8], wait: Wait) -> io::Result<Document<Self::File>>;

    /// Reads bytes from `offset` on, and returns their number. 0 means that the file ends there.
    ///
    /// # Errors
    /// With [`Wait::Never`], `WouldBlock` if the first byte is not in memory, and `Unsupported` if
    /// that is not known. An error of the disk.
    fn read(
        &self,
        file: &Self::File,
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> io::Result<usize>;

    /// The descriptor of a document, which a runtime may send without a copy. `None`: it has none.
    fn descriptor(document: &Arc<Document<Self::File>>) -> Option<OpenFile> {
        let _ = document;
        None
    }

    /// Starts a read by an io_uring. `receiver` comes back with the bytes.
    ///
    /// # Errors
    /// The owner of the read, if the ring has no room.
    fn start_read<T>(
        &self,
        ring: &mut FileRing<OpenFile, T>,
        document: Arc<Document<Self::File>>,
        offset: u64,
        len: usize,
        receiver: T,
    ) -> Result<(), Owner<OpenFile, T>>;

    /// The number of requests that the device has at a time, at most. None: not known.
    fn queue_len(&self) -> Option<u32>;

    /// Whether bytes of a file are in memory. It does not wait for the disk.
    ///
    /// # Errors
    /// This is not known.
    fn is_resident(
        &self,
        file: &Self::File,
        offset: u64,
        len: usize,
        probe: ResidencyProbe,
    ) -> io::Result<bool>;

    /// Starts an opener.
    ///
    /// # Errors
    /// The limit of processes or descriptors is reached.
    fn start_opener(&self) -> io::Result<Self::Opener>;

    /// Opens a file by an opener, which may wait. `None`: the opener has ended.
    fn open_by(
        &self,
        opener: &Self::Opener,
        name: &[u8],
    ) -> Option<io::Result<Document<Self::File>>>;

    /// Has an opener bring into memory what is needed to open a file. `None`: the opener has ended.
    fn touch_name_by(&self, opener: &Self::Opener, name: &[u8]) -> Option<()>;

    /// Has an opener bring bytes of a file into memory. `None`: the opener has ended.
    fn touch_by(
        &self,
        opener: &Self::Opener,
        file: &Self::File,
        offset: u64,
        len: usize,
    ) -> Option<()>;
}
