//! The tier: what workers, readers and the writing thread do with it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use store::{LowerTier, TierAddress, TierItem};

use crate::buffers::{Buffer, Buffers};
use crate::counters::{Counters, Statistics, add, sub};
use crate::device::Device;
use crate::index::{Index, Replaced};
use crate::limits::{
    BUFFERS, CAS_NOTED_MAX, DEVICES_MAX, INDEX_SPARE_PERCENT, ITEM_BYTES_DEFAULT, ITEM_BYTES_MIN,
    KEPT_PART, OPEN_SEGMENTS, RECORD_ALIGN, SEGMENT_BYTES, SEGMENT_BYTES_MAX, SEGMENT_UNIT,
    SEGMENTS_MIN, SEGMENTS_WANTED, STEP_BYTES,
};
use crate::record::{self, Invalid, Record};
use crate::ring::Ring;
use crate::write_rate::WriteRate;

/// The rules of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Size of a segment in bytes. `None`: chosen by the size of the tier.
    pub segment_bytes: Option<u64>,
    /// Mean size of an item, in bytes, by which the size of the index is chosen.
    pub item_bytes: u32,
    /// Maximum number of bytes written a second. `None`: no limit.
    pub write_rate: Option<u64>,
    /// Values that are shorter are not taken.
    pub value_min: u32,
    /// Items with less time to live, in seconds, are not taken.
    pub ttl_min_s: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            segment_bytes: None,
            item_bytes: ITEM_BYTES_DEFAULT,
            write_rate: None,
            value_min: 0,
            ttl_min_s: 0,
        }
    }
}

/// Why a tier cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RulesError {
    /// The files have too little space.
    #[error("a tier needs {needed} bytes for segments of {segment} bytes, not {given}")]
    TooSmall {
        /// The bytes of all files.
        given: u64,
        /// The least bytes.
        needed: u64,
        /// The size of a segment.
        segment: u64,
    },
    /// There is no memory for the index.
    #[error(
        "there is no memory for an index of {0} items; make the tier smaller, or say that its items \
         are larger"
    )]
    Memory(u64),
    /// The size of a segment is not possible.
    #[error("a segment has {SEGMENT_UNIT} to {SEGMENT_BYTES_MAX} bytes, not {0}")]
    Segment(u64),
    /// There are too many files.
    #[error("a tier has at most {DEVICES_MAX} files, not {0}")]
    Devices(usize),
    /// The mean size of an item is too small.
    #[error("the mean size of an item is at least {ITEM_BYTES_MIN} bytes, not {0}")]
    ItemBytes(u32),
}

/// A segment that takes items.
#[derive(Debug)]
struct OpenSegment {
    sequence: u32,
    generation: u32,
    used: usize,
    buffer: Arc<Buffer>,
}

/// A tier.
#[derive(Debug)]
pub struct Tier {
    rules: Rules,
    devices: Vec<Box<dyn Device>>,
    /// The device of each slot, and the offset on it.
    slots: Box<[(u8, u64)]>,
    pub(crate) segment_bytes: usize,
    pub(crate) ring: Ring,
    pub(crate) index: Index,
    open: [Mutex<Option<OpenSegment>>; OPEN_SEGMENTS],
    buffers: Buffers,
    write_rate: Option<WriteRate>,
    pub(crate) counters: Counters,
    /// A number that no other tier has.
    pub(crate) id: u64,
    /// The greatest CAS of all copies so far.
    greatest_cas: AtomicU64,
}

/// The size of a segment of a tier of `bytes` bytes.
///
/// # Errors
/// The given size is not possible.
fn segment_bytes(rules: &Rules, bytes: u64) -> Result<u64, RulesError> {
    let wanted = (bytes / SEGMENTS_WANTED).clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end());
    let size = rules.segment_bytes.unwrap_or(wanted) / SEGMENT_UNIT * SEGMENT_UNIT;
    match (SEGMENT_UNIT..=SEGMENT_BYTES_MAX).contains(&size) {
        true => Ok(size),
        false => Err(RulesError::Segment(rules.segment_bytes.unwrap_or(size))),
    }
}

impl Tier {
    /// An empty tier on devices of these sizes in bytes. `id` is a number that no other tier has,
    /// such as a random one.
    ///
    /// # Errors
    /// The sizes or the rules are not possible.
    pub fn new(
        rules: Rules,
        id: u64,
        devices: Vec<(Box<dyn Device>, u64)>,
    ) -> Result<Self, RulesError> {
        if devices.len() > DEVICES_MAX {
            return Err(RulesError::Devices(devices.len()));
        }
        if rules.item_bytes < ITEM_BYTES_MIN {
            return Err(RulesError::ItemBytes(rules.item_bytes));
        }
        let given: u64 = devices.iter().map(|(_, bytes)| bytes).sum();
        let segment = segment_bytes(&rules, given)?;
        let sizes: Vec<u64> = devices.iter().map(|(_, bytes)| bytes / segment).collect();
        let slots = interleave(&sizes, segment);
        let too_small = RulesError::TooSmall {
            given,
            needed: SEGMENTS_MIN * segment,
            segment,
        };
        if (slots.len() as u64) < SEGMENTS_MIN {
            return Err(too_small);
        }
        let count = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        let items = slots.len() as u64 * segment / u64::from(rules.item_bytes);
        let index = Index::new(items * INDEX_SPARE_PERCENT / 100);
        let index = index.ok_or(RulesError::Memory(items))?;
        let counters = Counters::default();
        add(&counters.segments, u64::from(count));
        add(&counters.segment_bytes, segment);
        add(
            &counters.memory_bytes,
            index.bytes() + BUFFERS as u64 * segment,
        );
        Ok(Self {
            rules,
            devices: devices.into_iter().map(|(device, _)| device).collect(),
            slots,
            segment_bytes: segment as usize,
            ring: Ring::new(count),
            index,
            open: std::array::from_fn(|_| Mutex::new(None)),
            buffers: Buffers::new(segment as usize),
            write_rate: rules.write_rate.map(WriteRate::new),
            counters,
            id,
            greatest_cas: AtomicU64::new(0),
        })
    }

    /// The counts, and the present content.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.counters.statistics()
    }

    /// Reads a copy and verifies it. Waits for the device, so no worker may call it. `None`: it
    /// cannot be read, is damaged, or is gone. It is then removed from the index.
    pub fn read(&self, hash: u64, address: TierAddress, key: &[u8]) -> Option<Record> {
        let invalid = match self.read_record(address, key) {
            Ok(mut record) => {
                add(&self.counters.objects_read, 1);
                add(&self.counters.bytes_read, u64::from(address.len));
                if self.index.is_fetched(hash, address) {
                    record.mark_fetched();
                }
                return Some(record);
            }
            // The bytes were being replaced by those of a later segment.
            Err(_) if !self.ring.is_valid(address.sequence) => Invalid::OtherKey,
            Err(invalid) => invalid,
        };
        let counter = match invalid {
            Invalid::OtherKey => &self.counters.reads_missed,
            Invalid::Damaged => &self.counters.reads_damaged,
        };
        add(counter, 1);
        let removed = self.index.remove(hash, &self.ring, |it| *it == address);
        self.forget(removed);
        None
    }

    fn read_record(&self, address: TierAddress, key: &[u8]) -> Result<Record, Invalid> {
        if let Some(bytes) = self.copy_from_buffer(address) {
            return Record::verify(bytes, key, address, None);
        }
        let mut bytes = vec![0; address.len as usize];
        let (device, start) = self.device_of(address.sequence);
        let read = device.read_at(&mut bytes, start + u64::from(address.offset));
        read.map_err(|_| Invalid::Damaged)?;
        Record::verify(bytes, key, address, Some(self.id))
    }

    /// The bytes of a record whose segment is still in a write buffer.
    fn copy_from_buffer(&self, address: TierAddress) -> Option<Vec<u8>> {
        let buffer = self.buffers.find(address.sequence)?;
        let content = buffer.read().unwrap_or_else(PoisonError::into_inner);
        // Otherwise the segment has been written, and its buffer is used for another one.
        let is_same = content.sequence == address.sequence;
        let (start, len) = (address.offset as usize, address.len as usize);
        let record = content.bytes.get(start..start + len);
        record.filter(|_| is_same).map(<[u8]>::to_vec)
    }

    /// Writes the oldest full segment to its device. Returns false if none is full. For the thread
    /// that writes, and for tests.
    pub fn write_next(&self) -> bool {
        match self.buffers.pop_full() {
            Some(buffer) => {
                self.write_segment(buffer);
                true
            }
            None => false,
        }
    }

    /// Writes full segments until [`Tier::stop`] was called and none is full.
    pub fn write_until_stopped(&self) {
        while let Some(buffer) = self.buffers.wait_for_full() {
            self.write_segment(buffer);
        }
    }

    /// Writes a segment in steps and yields after each: the kernel does not interrupt a long write
    /// for a worker of the same processor.
    fn write_segment(&self, buffer: Arc<Buffer>) {
        let sequence = self.seal(&buffer);
        let written = {
            // Readers use the buffer meanwhile.
            let content = buffer.read().unwrap_or_else(PoisonError::into_inner);
            let (device, start) = self.device_of(sequence);
            let steps = content.bytes[..content.used].chunks(STEP_BYTES);
            (start..)
                .step_by(STEP_BYTES)
                .zip(steps)
                .try_for_each(|(offset, step)| {
                    device.write_at(step, offset)?;
                    thread::yield_now();
                    Ok::<(), io::Error>(())
                })
        };
        if written.is_err() {
            let lost = self.ring.discard(sequence);
            add(&self.counters.segments_failed, 1);
            sub(&self.counters.segments_used, 1);
            self.count_lost(lost);
        }
        self.buffers.release(sequence, buffer);
        sub(&self.counters.segments_waiting, 1);
    }

    /// Computes the checksums of a full segment, and returns its number.
    fn seal(&self, buffer: &Buffer) -> u32 {
        let mut sealed = 0;
        loop {
            {
                let mut content = buffer.write().unwrap_or_else(PoisonError::into_inner);
                let used = content.used;
                sealed += record::seal(&mut content.bytes[sealed..used], self.id, STEP_BYTES);
                if sealed == used {
                    return content.sequence;
                }
            }
            thread::yield_now();
        }
    }

    /// Takes no more items. The open segments are full from now on.
    pub fn stop(&self) {
        for open in &self.open {
            if let Some(segment) = lock(open).take() {
                self.give_to_device(segment);
            }
        }
        self.buffers.stop();
    }

    /// Waits until everything written is on the media.
    ///
    /// # Errors
    /// A device failed.
    pub fn sync(&self) -> io::Result<()> {
        self.devices.iter().try_for_each(|device| device.sync())
    }

    /// The number of current copies and the bytes of their records, by a search of the whole index.
    /// For tests; [`Tier::statistics`] has running sums.
    #[must_use]
    pub fn count_current(&self) -> (u64, u64) {
        let (mut objects, mut bytes) = (0, 0);
        let Ok(()) = self.index.for_each(|_, address, _| {
            if self.ring.is_valid(address.sequence) {
                objects += 1;
                bytes += record::padded(address.len as usize) as u64;
            }
            Ok::<(), std::convert::Infallible>(())
        });
        (objects, bytes)
    }

    /// Whether the current copy of a key is still in a write buffer, so that a read does not wait
    /// for the device. For tests.
    #[must_use]
    pub fn is_buffered(&self, hash: u64) -> bool {
        let address = self.index.find(hash, &self.ring);
        address.is_some_and(|address| self.buffers.find(address.sequence).is_some())
    }

    /// Counts an item that was written back into memory, or could not be.
    pub fn count_restored(&self, is_restored: bool) {
        match is_restored {
            true => add(&self.counters.restored, 1),
            false => add(&self.counters.not_restored, 1),
        }
    }

    /// Whether the copy of an index entry is of this flush generation and has not expired.
    fn is_current(&self, address: &TierAddress, generation: u32, now_s: u32) -> bool {
        self.ring.is_of(address.sequence, generation) && !address.expiry.is_past(now_s)
    }

    /// The device of a segment, and the offset of the segment on it.
    fn device_of(&self, sequence: u32) -> (&dyn Device, u64) {
        let (device, start) = self.slots[self.ring.slot_of(sequence)];
        (&*self.devices[usize::from(device)], start)
    }

    /// Whether the rules allow an item.
    fn takes(&self, item: &TierItem<'_>, now_s: u32) -> bool {
        let ttl_s = item.expiry.seconds_left(now_s).unwrap_or(u32::MAX);
        item.value_len >= self.rules.value_min as usize && ttl_s >= self.rules.ttl_min_s
    }

    /// Opens a segment in place of `open`, which is full or of another generation.
    fn open_next(&self, open: &mut Option<OpenSegment>, generation: u32) -> bool {
        if let Some(full) = open.take() {
            self.give_to_device(full);
        }
        let opened = self.buffers.open(|| self.ring.open(generation));
        let Some((opened, buffer)) = opened else {
            return false;
        };
        add(&self.counters.segments_opened, 1);
        if opened.has_replaced {
            add(&self.counters.segments_reused, 1);
            add(
                &self.counters.segments_evicted,
                u64::from(opened.discarded.objects > 0),
            );
            add(&self.counters.objects_evicted, opened.discarded.objects);
            add(&self.counters.bytes_evicted, opened.discarded.bytes);
            self.count_lost(opened.discarded);
        } else {
            add(&self.counters.segments_used, 1);
        }
        *open = Some(OpenSegment {
            sequence: opened.sequence,
            generation,
            used: 0,
            buffer,
        });
        true
    }

    fn give_to_device(&self, full: OpenSegment) {
        add(&self.counters.segments_waiting, 1);
        self.buffers.push_full(full.buffer);
    }

    pub(crate) fn count_lost(&self, lost: crate::ring::Content) {
        sub(&self.counters.objects_used, lost.objects);
        sub(&self.counters.bytes_used, lost.bytes);
    }

    /// The greatest CAS of all copies so far.
    pub(crate) fn greatest_cas_seen(&self) -> u64 {
        self.greatest_cas.load(Ordering::Relaxed)
    }

    /// Takes note of the CAS of a copy. Clients may choose a CAS; one near the end of the numbers
    /// is not the store's own.
    pub(crate) fn note_cas(&self, cas: u64) {
        if cas < CAS_NOTED_MAX {
            self.greatest_cas.fetch_max(cas, Ordering::Relaxed);
        }
    }

    /// Accounts for a copy that was removed from the index.
    fn forget(&self, removed: Option<TierAddress>) {
        if let Some(address) = removed {
            self.count_lost(self.ring.sub(address.sequence, units(address)));
        }
    }

    /// Makes a copy current, and accounts for it.
    pub(crate) fn insert(&self, hash: u64, address: TierAddress) {
        let added = self.ring.add(address.sequence, units(address));
        add(&self.counters.objects_used, added.objects);
        add(&self.counters.bytes_used, added.bytes);
        if added.objects == 0 {
            return;
        }
        match self.index.insert(hash, address, &self.ring) {
            Replaced::Nothing => {}
            Replaced::Earlier(earlier) => self.forget(Some(earlier)),
            Replaced::Other(other) => {
                add(&self.counters.objects_displaced, 1);
                self.forget(Some(other));
            }
        }
    }
}

impl LowerTier for Tier {
    fn append(
        &self,
        hash: u64,
        item: &TierItem<'_>,
        value: &mut dyn Iterator<Item = &[u8]>,
        generation: u32,
        now_s: u32,
    ) -> Option<TierAddress> {
        if !self.takes(item, now_s) {
            add(&self.counters.skipped, 1);
            return None;
        }
        let len = record::len(item);
        if record::padded(len) > self.segment_bytes {
            add(&self.counters.dropped_too_large, 1);
            return None;
        }
        let present = self.find(hash, generation, now_s);
        let is_young = |it: &TierAddress| self.ring.age(it.sequence) < self.ring.len() / KEPT_PART;
        if let Some(kept) = present.filter(is_young) {
            if item.is_fetched {
                self.index.mark_fetched(hash, kept);
            }
            add(&self.counters.objects_kept, 1);
            return None;
        }
        if let Some(rate) = &self.write_rate
            && !rate.take(len, now_s)
        {
            add(&self.counters.dropped_write_rate, 1);
            return None;
        }
        let mut open = lock(&self.open[(hash >> 8) as usize % OPEN_SEGMENTS]);
        let has_space = open.as_ref().is_some_and(|it| {
            it.generation == generation && it.used + record::padded(len) <= self.segment_bytes
        });
        if !has_space && !self.open_next(&mut open, generation) {
            add(&self.counters.dropped_write_behind, 1);
            return None;
        }
        let segment = open.as_mut()?;
        let (start, end) = (segment.used, segment.used + record::padded(len));
        let mut content = segment
            .buffer
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let to = &mut content.bytes[start..end];
        to[len..].fill(0);
        if !record::write(item, value, segment.sequence, &mut to[..len]) {
            return None;
        }
        content.used = end;
        drop(content);
        segment.used = end;
        self.note_cas(item.cas);
        add(&self.counters.objects_written, 1);
        add(&self.counters.bytes_written, len as u64);
        add(&self.counters.objects_renewed, u64::from(present.is_some()));
        Some(TierAddress {
            sequence: segment.sequence,
            offset: start as u32,
            len: len as u32,
            expiry: item.expiry,
        })
    }

    fn publish(&self, hash: u64, address: TierAddress, generation: u32) {
        if self.ring.is_of(address.sequence, generation) {
            self.insert(hash, address);
        }
    }

    fn remove(&self, hash: u64, generation: u32, now_s: u32) -> bool {
        let removed = self.index.remove(hash, &self.ring, |_| true);
        self.forget(removed);
        removed.is_some_and(|address| self.is_current(&address, generation, now_s))
    }

    fn find(&self, hash: u64, generation: u32, now_s: u32) -> Option<TierAddress> {
        let found = self.index.find(hash, &self.ring);
        found.filter(|address| self.is_current(address, generation, now_s))
    }

    fn greatest_cas(&self) -> u64 {
        self.greatest_cas_seen()
    }
}

/// The slots of devices with these numbers of segments. Neighbouring slots are on different
/// devices, as long as these have space.
fn interleave(sizes: &[u64], segment: u64) -> Box<[(u8, u64)]> {
    let most = sizes.iter().copied().max().unwrap_or(0);
    let rounds = (0..most).flat_map(|round| {
        let with_space = sizes
            .iter()
            .enumerate()
            .filter(move |(_, size)| round < **size);
        with_space.map(move |(device, _)| (device as u8, round * segment))
    });
    rounds.collect()
}

/// The length of a record in units of [`RECORD_ALIGN`].
fn units(address: TierAddress) -> u32 {
    (record::padded(address.len as usize) / RECORD_ALIGN) as u32
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
