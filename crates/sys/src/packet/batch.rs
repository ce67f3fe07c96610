//! Many frames in one system call: recvmmsg(2) and sendmmsg(2).

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use super::PacketSocket;

/// Most frames of a batch. Headers for so many are built on the stack in each call.
const CAPACITY_MAX: usize = 64;

/// Frames in one piece of memory.
#[derive(Debug)]
pub struct FrameBatch {
    /// Slots of `slot_len` bytes.
    bytes: Vec<u8>,
    slot_len: usize,
    capacity: usize,
    /// Lengths of the frames, at most `capacity`. 0: there is none in this slot.
    lens: Vec<usize>,
}

impl FrameBatch {
    /// An empty batch for `capacity` frames (1 to 64; others are cut to that) of at most
    /// `frame_len_max` bytes.
    #[must_use]
    pub fn new(capacity: usize, frame_len_max: usize) -> Self {
        let capacity = capacity.clamp(1, CAPACITY_MAX);
        let slot_len = frame_len_max.max(1);
        Self {
            bytes: vec![0; capacity * slot_len],
            slot_len,
            capacity,
            lens: Vec::with_capacity(capacity),
        }
    }

    /// Removes all frames.
    pub fn clear(&mut self) {
        self.lens.clear();
    }

    /// Whether as many frames are in it as possible.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lens.len() == self.capacity
    }

    /// A frame; none beyond the last one. It is empty if one was received there that did not fit.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let len = *self.lens.get(index)?;
        self.bytes.get(index * self.slot_len..)?.get(..len)
    }

    /// Adds a copy of a frame. False if the batch is full or the frame is too long or empty.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        let fits = !self.is_full() && !frame.is_empty() && frame.len() <= self.slot_len;
        if fits {
            let start = self.lens.len() * self.slot_len;
            self.bytes[start..start + frame.len()].copy_from_slice(frame);
            self.lens.push(frame.len());
        }
        fits
    }

    /// One slice for each of the first `count` slots, of the lengths that `len_of` says.
    fn slices(&mut self, count: usize, len_of: impl Fn(usize) -> usize) -> [Slice; CAPACITY_MAX] {
        let mut slices = [EMPTY; CAPACITY_MAX];
        let slots = self.bytes.chunks_exact_mut(self.slot_len).enumerate();
        for (index, slot) in slots.take(count.min(self.capacity)) {
            let slot = &mut slot[..len_of(index)];
            slices[index] = Slice {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: slot.len(),
            };
        }
        slices
    }
}

type Slice = libc::iovec;

const EMPTY: Slice = Slice {
    iov_base: ptr::null_mut(),
    iov_len: 0,
};

/// Messages of one slice each.
fn messages(slices: &mut [Slice; CAPACITY_MAX]) -> [libc::mmsghdr; CAPACITY_MAX] {
    // SAFETY: all zeroes is a valid array of empty messages.
    let mut messages: [libc::mmsghdr; CAPACITY_MAX] = unsafe { std::mem::zeroed() };
    for (message, slice) in messages.iter_mut().zip(slices) {
        message.msg_hdr.msg_iov = slice;
        message.msg_hdr.msg_iovlen = 1;
    }
    messages
}

impl PacketSocket {
    /// Replaces the content of `batch` by frames that have arrived, as many as it takes; none if
    /// there are none. Returns the number of those that were longer than its slots, of which empty
    /// frames are left.
    ///
    /// # Errors
    /// `NetworkDown`: the device was set down or removed, which is reported once.
    pub fn recv_batch(&self, batch: &mut FrameBatch) -> io::Result<usize> {
        let (capacity, slot_len) = (batch.capacity, batch.slot_len);
        batch.clear();
        let mut slices = batch.slices(capacity, |_| slot_len);
        let mut messages = messages(&mut slices);
        // SAFETY: each of the first `capacity` messages has one writable slice of `batch`, which
        // lives longer than the call and is not accessed otherwise during it. There is no timeout.
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                capacity as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        };
        let mut truncated = 0;
        for message in messages.iter().take(count) {
            let is_whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            truncated += usize::from(!is_whole);
            let len = if is_whole {
                message.msg_len as usize
            } else {
                0
            };
            batch.lens.push(len.min(slot_len));
        }
        Ok(truncated)
    }

    /// Sends the frames of `batch`. Returns the number of those that the device did not take: its
    /// queue is full, it is down or removed, or they are longer than it allows.
    pub fn send_batch(&self, batch: &mut FrameBatch) -> usize {
        let count = batch.lens.len();
        let lens = std::mem::take(&mut batch.lens);
        let mut slices = batch.slices(count, |index| lens[index]);
        batch.lens = lens;
        let mut messages = messages(&mut slices);
        let mut rest = &mut messages[..count];
        let mut unsent = 0;
        while !rest.is_empty() {
            // SAFETY: each message has one readable slice of `batch`, which lives longer than the
            // call.
            let sent = unsafe {
                libc::sendmmsg(
                    self.fd.as_raw_fd(),
                    rest.as_mut_ptr(),
                    rest.len() as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            };
            // An error is that of the first one; 0 does not happen.
            let passed = usize::try_from(sent).unwrap_or(0);
            unsent += usize::from(passed == 0);
            rest = &mut rest[passed.max(1)..];
        }
        unsent
    }
}
