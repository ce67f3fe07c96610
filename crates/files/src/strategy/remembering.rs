//! The strategies that remember names: `flash` and its steps `fd-pass` and `no-mmap`. Names are
//! looked up by openers and remembered for a while, with a descriptor and a mapping. The mapping
//! says whether bytes are resident; they are copied by a read.
//!
//! Between that answer and the read the kernel may evict the bytes. The read then waits, as it did
//! in the original.

use std::io;
use std::sync::Arc;

use sys::file::Wait;

use super::{Attempt, Strategy};
use crate::disk::{Disk, Document, ResidencyProbe};
use crate::limits::{NAME_VALID_NS, NAMES_MAX};
use crate::name_cache::NameCache;

#[derive(Debug)]
pub(crate) struct Remembering<D: Disk> {
    names: NameCache<Remembered<D::File>>,
    /// Whether files are mapped, to learn whether their bytes are resident. If not, each read may
    /// wait.
    has_mappings: bool,
}

#[derive(Debug)]
struct Remembered<F> {
    /// `None`: there is no such file.
    document: Option<Arc<Document<F>>>,
    /// When it was looked up.
    since_ns: u64,
}

impl<D: Disk> Remembering<D> {
    pub(crate) fn new(has_mappings: bool) -> Self {
        Self {
            names: NameCache::new(NAMES_MAX),
            has_mappings,
        }
    }
}

impl<D: Disk> Strategy<D> for Remembering<D> {
    fn open(&mut self, _: &D, name: &[u8], now_ns: u64) -> Attempt<Arc<Document<D::File>>> {
        match self.names.get(name) {
            Some(found) if now_ns.saturating_sub(found.since_ns) <= NAME_VALID_NS => {
                let document = found.document.as_ref().map(Arc::clone);
                Attempt::Done(document.ok_or_else(|| io::ErrorKind::NotFound.into()))
            }
            _ => Attempt::WouldBlock,
        }
    }

    fn read(
        &mut self,
        disk: &D,
        document: &Document<D::File>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Attempt<usize> {
        let file = &document.file;
        let is_resident = match self.has_mappings {
            true => disk.is_resident(file, offset, buffer.len(), ResidencyProbe::Mapping),
            false => Ok(true),
        };
        match is_resident {
            Ok(true) => Attempt::Done(disk.read(file, offset, buffer, Wait::Allowed)),
            Ok(false) | Err(_) => Attempt::WouldBlock,
        }
    }

    fn remember(&mut self, name: &[u8], outcome: &io::Result<Arc<Document<D::File>>>, now_ns: u64) {
        let document = match outcome {
            Ok(document) => Some(Arc::clone(document)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => return,
        };
        let remembered = Remembered {
            document,
            since_ns: now_ns,
        };
        self.names.insert(name, remembered);
    }
}
