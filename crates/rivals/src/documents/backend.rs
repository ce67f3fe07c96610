//! The backend, a process that opens files for others and passes the descriptors over Unix sockets
//! that stay open.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use files::{Disk, Document, NameCache, OpenFile, ResidencyProbe, SystemDisk, SystemFile};
use sys::clock::monotonic_ns;
use sys::file::{Folder, Wait};
use sys::file_opener::{FileOpener, FileRequests};
use sys::file_ring::{FileRing, Owner};

use super::limits::{BACKEND_NAME_VALID_NS, BACKEND_NAMES_MAX, BACKEND_STACK_LEN};

/// The backend before it runs.
pub(super) struct Backend {
    folder: Folder,
    /// The requests of each process that it serves.
    requests: Vec<FileRequests>,
}

/// The files that have been opened. Its lock is not held while a file is opened.
type Opened = Mutex<NameCache<(Arc<OwnedFd>, u64)>>;

impl Backend {
    /// A backend for `clients` processes, and the socket for each of them.
    pub(super) fn new(root: &Path, clients: usize) -> io::Result<(Self, Vec<FileOpener>)> {
        let pairs: io::Result<Vec<_>> = (0..clients).map(|_| FileOpener::pair()).collect();
        let (openers, requests) = pairs?.into_iter().unzip();
        let folder = Folder::open(root)?;
        Ok((Self { folder, requests }, openers))
    }

    /// Answers requests until all other processes have ended. Returns the exit code.
    pub(super) fn run(&self) -> i32 {
        let opened = Opened::new(NameCache::new(BACKEND_NAMES_MAX));
        thread::scope(|scope| {
            for requests in &self.requests {
                let open = |name: &[u8]| self.open(&opened, name);
                let thread = thread::Builder::new().stack_size(BACKEND_STACK_LEN);
                let answer = move || while let Ok(true) = requests.answer(open) {};
                if thread.spawn_scoped(scope, answer).is_err() {
                    // The scope would wait for the threads that run. The end of this process ends
                    // the server.
                    std::process::exit(1);
                }
            }
            0
        })
    }

    fn open(&self, opened: &Opened, name: &[u8]) -> io::Result<Arc<OwnedFd>> {
        let now_ns = monotonic_ns();
        let lock = || opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((file, since_ns)) = lock().get(name)
            && now_ns.saturating_sub(*since_ns) <= BACKEND_NAME_VALID_NS
        {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.folder.open_file(name, Wait::Allowed)?);
        lock().insert(name, (Arc::clone(&file), now_ns));
        Ok(file)
    }
}

/// The files of a process whose names the backend looks up.
#[derive(Debug)]
pub(super) struct BackendDisk {
    disk: SystemDisk,
    backend: FileOpener,
}

impl BackendDisk {
    pub(super) fn new(disk: SystemDisk, backend: FileOpener) -> Self {
        Self { disk, backend }
    }
}

impl Disk for BackendDisk {
    type File = SystemFile;
    type Opener = FileOpener;

    fn open(&self, name: &[u8], _: Wait) -> io::Result<Document<SystemFile>> {
        let opened = self.disk.open_by(&self.backend, name);
        opened.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn read(
        &self,
        file: &SystemFile,
        offset: u64,
        buffer: &mut [u8],
        wait: Wait,
    ) -> io::Result<usize> {
        self.disk.read(file, offset, buffer, wait)
    }

    fn start_read<T>(
        &self,
        ring: &mut FileRing<OpenFile, T>,
        document: Arc<Document<SystemFile>>,
        offset: u64,
        len: usize,
        receiver: T,
    ) -> Result<(), Owner<OpenFile, T>> {
        self.disk.start_read(ring, document, offset, len, receiver)
    }

    fn queue_len(&self) -> Option<u32> {
        self.disk.queue_len()
    }

    fn is_resident(
        &self,
        file: &SystemFile,
        offset: u64,
        len: usize,
        probe: ResidencyProbe,
    ) -> io::Result<bool> {
        self.disk.is_resident(file, offset, len, probe)
    }

    fn start_opener(&self) -> io::Result<FileOpener> {
        self.disk.start_opener()
    }

    fn open_by(
        &self,
        opener: &FileOpener,
        name: &[u8],
    ) -> Option<io::Result<Document<SystemFile>>> {
        self.disk.open_by(opener, name)
    }

    fn touch_name_by(&self, opener: &FileOpener, name: &[u8]) -> Option<()> {
        self.disk.touch_name_by(opener, name)
    }

    fn touch_by(
        &self,
        opener: &FileOpener,
        file: &SystemFile,
        offset: u64,
        len: usize,
    ) -> Option<()> {
        self.disk.touch_by(opener, file, offset, len)
    }
}
