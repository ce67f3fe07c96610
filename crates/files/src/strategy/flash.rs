//! Names are opened elsewhere and remembered for a while, with a descriptor and a mapping. The
//! mapping says whether bytes are resident; they are copied by a read.
//!
//! Between that answer and the read the kernel may evict the bytes. The read then waits, as it did
//! in the original.

use std::sync::Arc;

use sys::file::Wait;

use super::{Attempt, Strategy};
use crate::disk::{Disk, Document, ResidencyProbe};
use crate::limits::{NAME_VALID_NS, NAMES_MAX};
use crate::name_cache::NameCache;

#[derive(Debug)]
pub(crate) struct Flash<D: Disk> {
    names: NameCache<Remembered<D::File>>,
}

#[derive(Debug)]
struct Remembered<F> {
    document: Arc<Document<F>>,
    /// When it was opened.
    since_ns: u64,
}

impl<D: Disk> Flash<D> {
    pub(crate) fn new() -> Self {
        Self {
            names: NameCache::new(NAMES_MAX),
        }
    }
}

impl<D: Disk> Strategy<D> for Flash<D> {
    fn open(&mut self, _: &D, name: &[u8], now_ns: u64) -> Attempt<Arc<Document<D::File>>> {
        match self.names.get(name) {
            Some(found) if now_ns.saturating_sub(found.since_ns) <= NAME_VALID_NS => {
                Attempt::Done(Ok(Arc::clone(&found.document)))
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
        match disk.is_resident(file, offset, buffer.len(), ResidencyProbe::Mapping) {
            Ok(true) => Attempt::Done(disk.read(file, offset, buffer, Wait::Allowed)),
            Ok(false) | Err(_) => Attempt::WouldBlock,
        }
    }

    fn remember(&mut self, name: &[u8], document: &Arc<Document<D::File>>, now_ns: u64) {
        let remembered = Remembered {
            document: Arc::clone(document),
            since_ns: now_ns,
        };
        self.names.insert(name, remembered);
    }
}
