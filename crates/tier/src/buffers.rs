//! The write buffers: segments in memory, from their opening until they are on the device.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use crate::limits::BUFFERS;
use crate::ring::Opened;

/// A segment in memory.
#[derive(Debug)]
pub(crate) struct Content {
    /// The number of the segment. After the buffer was released, that of the last one.
    pub(crate) sequence: u32,
    /// The bytes written so far.
    pub(crate) used: usize,
    pub(crate) bytes: Box<[u8]>,
}

/// A write buffer. Workers write to it while its segment is open; readers copy from it.
pub(crate) type Buffer = RwLock<Content>;

/// All write buffers.
#[derive(Debug)]
pub(crate) struct Buffers {
    state: Mutex<State>,
    /// Wakes the thread that writes full segments.
    has_full: Condvar,
}

#[derive(Debug)]
struct State {
    free: Vec<Arc<Buffer>>,
    full: VecDeque<Arc<Buffer>>,
    /// The segments that are open, full or being written.
    in_memory: Vec<(u32, Arc<Buffer>)>,
    is_stopped: bool,
}

impl Buffers {
    pub(crate) fn new(segment_bytes: usize) -> Self {
        let buffer = || {
            Arc::new(RwLock::new(Content {
                sequence: 0,
                used: 0,
                bytes: vec![0; segment_bytes].into_boxed_slice(),
            }))
        };
        Self {
            state: Mutex::new(State {
                free: (0..BUFFERS).map(|_| buffer()).collect(),
                full: VecDeque::with_capacity(BUFFERS),
                in_memory: Vec::with_capacity(BUFFERS),
                is_stopped: false,
            }),
            has_full: Condvar::new(),
        }
    }

    /// Takes a free buffer and calls `open` for its segment. `None` if no buffer is free, or `open`
    /// returns none.
    pub(crate) fn open(
        &self,
        open: impl FnOnce() -> Option<Opened>,
    ) -> Option<(Opened, Arc<Buffer>)> {
        let mut state = self.lock();
        if state.is_stopped {
            return None;
        }
        let buffer = state.free.pop()?;
        let Some(opened) = open() else {
            state.free.push(buffer);
            return None;
        };
        {
            let mut content = buffer.write().unwrap_or_else(PoisonError::into_inner);
            content.sequence = opened.sequence;
            content.used = 0;
        }
        state.in_memory.push((opened.sequence, Arc::clone(&buffer)));
        Some((opened, buffer))
    }

    /// Gives a full buffer to the thread that writes.
    pub(crate) fn push_full(&self, buffer: Arc<Buffer>) {
        self.lock().full.push_back(buffer);
        self.has_full.notify_one();
    }

    /// The buffer of a segment that is in memory.
    pub(crate) fn find(&self, sequence: u32) -> Option<Arc<Buffer>> {
        let state = self.lock();
        let mut in_memory = state.in_memory.iter();
        let (_, buffer) = in_memory.find(|(number, _)| *number == sequence)?;
        Some(Arc::clone(buffer))
    }

    /// Takes the oldest full buffer, if there is one.
    pub(crate) fn pop_full(&self) -> Option<Arc<Buffer>> {
        self.lock().full.pop_front()
    }

    /// Waits for a full buffer. `None` once the buffers are stopped and none is full.
    pub(crate) fn wait_for_full(&self) -> Option<Arc<Buffer>> {
        let mut state = self.lock();
        loop {
            if let Some(buffer) = state.full.pop_front() {
                return Some(buffer);
            }
            if state.is_stopped {
                return None;
            }
            state = self
                .has_full
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes a buffer free, whose segment is on the device or lost.
    pub(crate) fn release(&self, sequence: u32, buffer: Arc<Buffer>) {
        let mut state = self.lock();
        state.in_memory.retain(|(number, _)| *number != sequence);
        state.free.push(buffer);
    }

    /// Opens no more buffers, and ends [`wait_for_full`](Self::wait_for_full) after the full ones.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.has_full.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
