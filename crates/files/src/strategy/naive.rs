//! Everything in the worker, which blocks: a cold file delays all connections of the worker. It is
//! there to be compared with.

use std::sync::Arc;

use sys::file::Wait;

use super::{Attempt, Strategy};
use crate::disk::{Disk, Document};

#[derive(Debug)]
pub(crate) struct Naive;

impl<D: Disk> Strategy<D> for Naive {
    fn open(&mut self, disk: &D, name: &[u8], _: u64) -> Attempt<Arc<Document<D::File>>> {
        Attempt::Done(disk.open(name, Wait::Allowed).map(Arc::new))
    }

    fn read(
        &mut self,
        disk: &D,
        document: &Document<D::File>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Attempt<usize> {
        Attempt::Done(disk.read(&document.file, offset, buffer, Wait::Allowed))
    }
}
