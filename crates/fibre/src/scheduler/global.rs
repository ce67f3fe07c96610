//! One lane for all: what everybody does first, and what the others are measured against.

use crate::fibre::Ready;
use crate::lane::Lane;
use crate::rest::Rest;
use crate::scheduler::{Choose, Lot};

/// The scheduler with one lane.
#[derive(Debug)]
pub(crate) struct Global {
    lane: Lane,
    processors: usize,
}

impl Global {
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            lane: Lane::new(),
            processors,
        }
    }
}

impl Choose for Global {
    const SPINS: u32 = 1;

    fn is_alone(&self) -> bool {
        self.processors == 1
    }

    fn put(&self, _from: Option<usize>, ready: Ready, rest: &Rest) {
        self.lane.push(ready);
        rest.call_one();
    }

    fn put_back(&self, _from: usize, ready: Ready) {
        self.lane.push(ready);
    }

    fn take(&self, _lot: &mut Lot) -> Option<Ready> {
        self.lane.since()?;
        self.lane.pop()
    }

    fn steal(&self, _lot: &mut Lot) -> Option<Ready> {
        None
    }

    fn search(&self, _lot: &mut Lot) -> Option<Ready> {
        self.lane.pop()
    }
}
