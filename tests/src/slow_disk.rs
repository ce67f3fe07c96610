//! A disk for the strategies of `files`, whose cold files arrive when the test says so.
// The helpers of tests may panic, as tests may.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use files::limits::BLOCK_LEN;
use files::{Attributes, Disk, Document, FileKind, OpenFile, ResidencyProbe, Wait};
use sys::file_ring::{FileRing, Owner};

/// The content of every file, except large ones.
pub const CONTENT: &[u8] = b"content";
/// The content of files with `large` in their name: a block of the strategies.
pub const LARGE: &[u8] = &[b'x'; BLOCK_LEN];

fn content_of(name: &str) -> &'static [u8] {
    match name.contains("large") {
        true => LARGE,
        false => CONTENT,
    }
}

/// A disk on which every name is a file. The bytes of files with `cold` in their name, and such
/// names if they contain `name`, are not in memory until the disk delivers them ([`Self::release`],
/// [`Self::release_one`]). What contains `evicted` leaves the memory at once.
#[derive(Debug, Clone, Default)]
pub struct SlowDisk(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    has_changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The cold files whose name or bytes have been brought into memory.
    warm: BTreeSet<String>,
    is_released: bool,
    /// The number of operations that may proceed.
    permits: usize,
    /// The number of operations that wait for the disk.
    waiting: usize,
    /// The number of operations that have waited and proceeded.
    fetched: usize,
    /// The read of an io_uring that waits.
    ring_read: Option<RingRead>,
    /// The pipes of all such reads, which stay open.
    pipes: Vec<Arc<PipeReader>>,
}

/// A read of a cold file by an io_uring: of a pipe, into which the disk writes when it delivers.
#[derive(Debug)]
struct RingRead {
    file: String,
    /// The bytes to deliver.
    bytes: &'static [u8],
    target: PipeWriter,
}

impl State {
    /// Delivers the bytes of the read of an io_uring.
    fn deliver(&mut self) {
        if let Some(mut read) = self.ring_read.take() {
            read.target.write_all(read.bytes).unwrap();
            self.waiting -= 1;
            self.fetched += 1;
            if !read.file.contains("evicted") {
                self.warm.insert(read.file);
            }
        }
    }
}

impl SlowDisk {
    /// The number of operations that wait for the disk.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// The number of values that are this disk, here and in a server.
    #[must_use]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// The number of operations that have waited and proceeded.
    #[must_use]
    pub fn fetched(&self) -> usize {
        self.state().fetched
    }

    /// Lets all operations proceed.
    pub fn release(&self) {
        let mut state = self.state();
        state.is_released = true;
        state.deliver();
        drop(state);
        self.0.has_changed.notify_all();
    }

    /// Lets one operation proceed.
    pub fn release_one(&self) {
        let mut state = self.state();
        match state.ring_read {
            Some(_) => state.deliver(),
            None => state.permits += 1,
        }
        drop(state);
        self.0.has_changed.notify_one();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings `what` into memory.
    fn fetch(&self, what: String, wait: Wait) -> io::Result<()> {
        let mut state = self.state();
        if !what.contains("cold") || state.warm.contains(&what) {
            return Ok(());
        }
        if wait == Wait::Never {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.waiting += 1;
        while !state.is_released && state.permits == 0 {
            let woken = self.0.has_changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.permits = state.permits.saturating_sub(1);
        state.waiting -= 1;
        state.fetched += 1;
        if !what.contains("evicted") {
            state.warm.insert(what);
        }
        Ok(())
    }
}

impl Disk for SlowDisk {
    type File = String;
    /// None is needed: a thread does the operations.
    type Opener = ();

    fn open(&self, name: &[u8], wait: Wait) -> io::Result<Document<String>> {
        let name = String::from_utf8_lossy(name).into_owned();
        // Only some files have a cold name too.
        if name.contains("name") {
            self.fetch(format!("name of {name}"), wait)?;
        }
        let attributes = Attributes {
            kind: FileKind::Regular,
            len: content_of(&name).len() as u64,
            modified_ns: 0,
            inode: 0,
        };
        Ok(Document {
            file: name,
            attributes,
        })
    }

    fn read(&self, file: &String, at: u64, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        self.fetch(file.clone(), wait)?;
        let rest = content_of(file).get(at as usize..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    /// Has one read at a time.
    fn start_read<T>(
        &self,
        ring: &mut FileRing<OpenFile, T>,
        document: Arc<Document<String>>,
        offset: u64,
        len: usize,
        receiver: T,
    ) -> Result<(), Owner<OpenFile, T>> {
        let name = &document.file;
        let rest = content_of(name).get(offset as usize..).unwrap_or_default();
        let bytes = &rest[..rest.len().min(len)];
        let (source, target) = io::pipe().unwrap();
        let source = Arc::new(source);
        let file: OpenFile = Arc::<PipeReader>::clone(&source);
        ring.read(0, bytes.len(), Owner { file, receiver })?;
        let mut state = self.state();
        state.waiting += 1;
        let read = RingRead {
            file: name.clone(),
            bytes,
            target,
        };
        state.pipes.push(source);
        assert!(
            state.ring_read.replace(read).is_none(),
            "one read at a time"
        );
        if state.is_released {
            state.deliver();
        }
        Ok(())
    }

    fn queue_len(&self) -> Option<u32> {
        None
    }

    fn is_resident(&self, file: &String, _: u64, _: usize, _: ResidencyProbe) -> io::Result<bool> {
        Ok(!file.contains("cold") || self.state().warm.contains(file))
    }

    fn start_opener(&self) -> io::Result<()> {
        Ok(())
    }

    fn open_by(&self, (): &(), name: &[u8]) -> Option<io::Result<Document<String>>> {
        Some(self.open(name, Wait::Allowed))
    }

    fn touch_name_by(&self, (): &(), name: &[u8]) -> Option<()> {
        self.open(name, Wait::Allowed).ok().map(drop)
    }

    fn touch_by(&self, (): &(), file: &String, _: u64, _: usize) -> Option<()> {
        self.fetch(file.clone(), Wait::Allowed).ok()
    }
}
