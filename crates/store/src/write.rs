//! Writes.

use crate::decimal::{self, Digits};
use crate::heap::block::HeaderFields;
use crate::insertion::{Deferral, NewItem, NotInserted, Value};
use crate::item::Expiry;
use crate::limits::{REWRITE_WAITS_MAX, WHOLE_PART};
use crate::miniature::SampledAccess;
use crate::rewrite::{Change, NewAccess, NewCas, NewValue, Rewritten, Snapshot};
use crate::upload::{Rejected, Reserve, Upload};
use crate::worker::{KeyHash, Worker};

/// The condition and effect of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Store unconditionally.
    Set,
    /// Store only if there is no item.
    Add,
    /// Store only if there is an item.
    Replace,
    /// Append to the present value; flags and expiry are unchanged.
    Append,
    /// Prepend to the present value; flags and expiry are unchanged.
    Prepend,
}

/// The parameters of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Condition and effect.
    pub mode: Mode,
    /// The client flags: 32 bits that the store does not interpret.
    pub flags: u32,
    /// The expiry.
    pub expiry: Expiry,
    /// Store only if the item has this CAS. `Add` and `Replace` ignore it, as in memcached.
    pub compare: Option<u64>,
    /// If `compare` is below the item's CAS, store nevertheless and mark the item stale.
    pub invalidate: bool,
    /// The new CAS. `None`: the next one.
    pub explicit_cas: Option<u64>,
    /// `Append` and `Prepend` store the value if there is no item, with this write's flags and
    /// expiry.
    pub vivify: bool,
    /// The new item counts as claimed: see [`Item::won`].
    ///
    /// [`Item::won`]: crate::Item::won
    pub claimed: bool,
    /// The key was sent in base64, which is kept for readers: see [`Item::base64_key`].
    ///
    /// [`Item::base64_key`]: crate::Item::base64_key
    pub base64_key: bool,
}

impl Write {
    /// A write without comparison, explicit CAS and client flags.
    #[must_use]
    pub const fn plain(mode: Mode, expiry: Expiry) -> Self {
        Self {
            mode,
            flags: 0,
            expiry,
            compare: None,
            invalidate: false,
            explicit_cas: None,
            vivify: false,
            claimed: false,
            base64_key: false,
        }
    }
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The value was stored.
    Stored {
        /// The item's CAS.
        cas: u64,
        /// Length of the item's whole value, in bytes.
        value_len: u32,
    },
    /// The condition of the mode did not hold.
    NotStored,
    /// The item has another CAS.
    Exists,
    /// A CAS was given and there is no item.
    NotFound,
    /// The joined value is too long, or there is no memory.
    NoSpace,
}

/// Marks an item stale, empties its value, or both, instead of deleting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemMark {
    /// Mark the item only if it has this CAS.
    pub compare: Option<u64>,
    /// The new CAS. `None`: the next one, or the present one if the item does not become stale.
    pub explicit_cas: Option<u64>,
    /// The item becomes stale, and the next reader that claims it wins.
    pub invalidate: bool,
    /// The value becomes empty; the item gets these flags and is otherwise new.
    pub empty: Option<u32>,
    /// The new expiry. `None`: unchanged, or never if the value becomes empty.
    pub expiry: Option<Expiry>,
}

/// The result of a [`ItemMark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkOutcome {
    /// Done.
    Done,
    /// There is no item.
    NotFound,
    /// The item has another CAS.
    Exists,
    /// There is no memory.
    NoSpace,
    /// See [`Rejected::Deferred`].
    Deferred,
}

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// The item was deleted.
    Deleted,
    /// There was no item.
    NotFound,
    /// The item has another CAS.
    Exists,
}

/// The direction of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Wraps at 2^64.
    Up,
    /// Stops at zero.
    Down,
}

/// A counter to create if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vivify {
    /// The initial value of the counter.
    pub initial: u64,
    /// The expiry of the counter.
    pub expiry: Expiry,
}

/// Arithmetic on a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic {
    /// The amount.
    pub delta: u64,
    /// The direction.
    pub direction: Direction,
    /// Change the counter only if it has this CAS.
    pub compare: Option<u64>,
    /// The new CAS. `None`: the next one.
    pub explicit_cas: Option<u64>,
    /// The new expiry.
    pub touch: Option<Expiry>,
    /// Create the counter if there is none.
    pub vivify: Option<Vivify>,
}

/// The result of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArithmeticOutcome {
    /// The counter was changed or created.
    Done(CounterValue),
    /// There is no counter.
    NotFound,
    /// The value is not a number.
    NotNumeric,
    /// The item has another CAS.
    Exists,
    /// There is no memory.
    NoSpace,
    /// See [`Rejected::Deferred`].
    Deferred,
}

/// A counter after arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterValue {
    /// The value of the counter.
    pub value: u64,
    /// The counter was created by this operation.
    pub created: bool,
    /// The CAS of the counter.
    pub cas: u64,
    /// The expiry before the operation.
    pub expiry_before: Expiry,
    /// The expiry after the operation.
    pub expiry: Expiry,
}

impl Worker {
    /// Publishes an upload as the value of its key, if `write` allows.
    ///
    /// # Errors
    /// The upload, to be published later: memory is not free yet ([`Rejected::Deferred`]), or
    /// another worker is rewriting an item of the class.
    ///
    /// # Panics
    /// The upload belongs to another store, or bytes of its value are missing. Publishing them
    /// would expose what the memory held before.
    pub fn publish(
        &mut self,
        upload: Upload,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Upload> {
        assert!(upload.missing() == 0, "a value that is not complete");
        self.check_owner(&upload);
        self.ensure_online();
        let published = match write.mode {
            Mode::Append | Mode::Prepend => match self.join(&upload, write, now_s) {
                // If another worker stores an item at the same time, the value is joined with it.
                Ok(Published::NotStored) if write.vivify => {
                    let add = Write {
                        mode: Mode::Add,
                        ..*write
                    };
                    match self.insert_upload(&upload, &add, now_s) {
                        Ok(Published::NotStored) => self.join(&upload, write, now_s),
                        inserted => inserted,
                    }
                }
                joined => joined,
            },
            Mode::Set | Mode::Add | Mode::Replace => self.insert_upload(&upload, write, now_s),
        };
        published.map_err(|_| upload)
    }

    /// Links the item of an upload, if `write` allows.
    fn insert_upload(
        &mut self,
        upload: &Upload,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Deferral> {
        let item = upload.new_item();
        let inserted = match upload.block_ref() {
            Some(built) => self.try_insert(&item, &built, None, write, now_s),
            None => Err(NotInserted::Unfit),
        };
        self.inserted_or_built(inserted, &item, write, now_s)
    }

    /// Returns the result of the insertion. If the block was unfit, builds another one and inserts
    /// it.
    #[inline]
    fn inserted_or_built(
        &mut self,
        inserted: Result<Published, NotInserted>,
        item: &NewItem<'_>,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Deferral> {
        match inserted {
            Ok(published) => Ok(published),
            Err(NotInserted::Rewriting) => Err(Deferral::ByRewrite),
            Err(NotInserted::Unfit) => self.build_and_insert(item, write, now_s),
        }
    }

    /// Stores a complete value, if `write` allows: [`Worker::reserve`], [`Worker::fill`] and
    /// [`Worker::publish`] in one.
    ///
    /// # Errors
    /// See [`Rejected`]; never [`Rejected::HoldLimit`].
    ///
    /// # Panics
    /// The hash is not that of the key in this store.
    pub fn put(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        value: &[u8],
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Rejected> {
        for _ in 0..REWRITE_WAITS_MAX {
            match self.try_put(key, hash, value, write, now_s)? {
                Ok(published) => return Ok(published),
                Err(Deferral::ByMemory) => break,
                Err(Deferral::ByRewrite) => self.wait_for_rewrite(hash)?,
            }
        }
        Err(Rejected::Deferred)
    }

    /// As [`Worker::put`], without waiting for memory.
    #[inline]
    fn try_put(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        value: &[u8],
        write: &Write,
        now_s: u32,
    ) -> Result<Result<Published, Deferral>, Rejected> {
        self.store.index.prefetch_lock(hash.0);
        self.begin_write(key, hash, write.flags, value.len())?;
        let has_expiry_word = self.needs_expiry_word(write.expiry);
        let cas = write.explicit_cas;
        let fields =
            HeaderFields::inline(key.len(), value.len(), write.flags, cas, has_expiry_word);
        let len = fields.block_len();
        let joins = matches!(write.mode, Mode::Append | Mode::Prepend);
        if joins || len > self.store.log.heap.block_max() / WHOLE_PART {
            return self.put_long(key, hash, value, write, now_s).map(Ok);
        }
        self.assist_evacuation(len, now_s);
        // Prefetch the present item while the new one is built.
        let candidate = self.candidate(hash);
        if let Some(present) = &candidate {
            self.store.index.prefetch_entry(&present.found);
            present.block_ref.prefetch_to_replace(key.len());
        }
        let part = self.part_for(candidate.as_ref(), hash);
        let (allocation, candidate) = match self.try_allocate(len, part, write.expiry, now_s) {
            Some(allocation) => (allocation, candidate),
            // `allocate` may make this worker quiescent, so locations read before are invalid.
            None => (self.allocate(len, part, write.expiry, now_s)?, None),
        };
        let item = NewItem {
            key,
            hash,
            flags: write.flags,
            part,
            value: Value::Bytes(value),
        };
        let draft = self.draft(allocation, &fields, &item);
        // If the candidate belongs to another key, the item is looked up under the lock.
        let candidate = candidate.filter(|present| present.block_ref.block.key() == key);
        let inserted = self.try_insert(&item, &draft.block_ref, candidate, write, now_s);
        drop(draft);
        Ok(self.inserted_or_built(inserted, &item, write, now_s))
    }

    /// As [`Worker::put`], for a value stored in pieces or joined with another.
    #[cold]
    fn put_long(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        value: &[u8],
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Rejected> {
        let request = Reserve {
            value_len: value.len(),
            flags: write.flags,
            expiry: write.expiry,
            whole: true,
        };
        let mut upload = self.reserve(key, hash, &request, now_s)?;
        self.fill(&mut upload, value, now_s)?;
        let published = self.publish(upload, write, now_s);
        published.map_err(|_| Rejected::Deferred)
    }

    /// Deletes an item.
    pub fn delete(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        compare: Option<u64>,
        now_s: u32,
    ) -> Deleted {
        self.ensure_online();
        let writer = self.store.index.lock(hash.0);
        let Some(found) = writer.find(|entry| self.has_key(entry, key)) else {
            drop(writer);
            // A miniature may still contain it.
            self.sample(hash, now_s, || SampledAccess::Deleted);
            return Deleted::NotFound;
        };
        let block_ref = self.block_ref(found.entry().location());
        if self
            .miss_reason(block_ref.location, block_ref.block, now_s)
            .is_some()
        {
            self.unlink_expired_found(&writer, &found, block_ref.block);
            drop(writer);
            self.sample(hash, now_s, || SampledAccess::Deleted);
            return Deleted::NotFound;
        }
        if compare.is_some_and(|cas| cas != block_ref.block.cas()) {
            return Deleted::Exists;
        }
        writer.remove(&found);
        drop(writer);
        self.remember_hole(&block_ref);
        self.resize_step();
        self.sample(hash, now_s, || SampledAccess::Deleted);
        Deleted::Deleted
    }

    /// Marks an item stale, empties its value, or both. The item gets a new block, because
    /// published bytes do not change and because a concurrent read of the old block could undo the
    /// mark.
    pub fn mark(&mut self, key: &[u8], hash: KeyHash, mark: &ItemMark, now_s: u32) -> MarkOutcome {
        self.ensure_online();
        let (is_empty, is_stale) = (mark.empty.is_some(), mark.invalidate);
        let otherwise = if is_stale { NewCas::Next } else { NewCas::Kept };
        let change = Change {
            cas: NewCas::given_or(mark.explicit_cas, otherwise),
            expiry: mark.expiry.or(is_empty.then_some(Expiry::NEVER)),
            flags: mark.empty,
            access: match (is_stale, is_empty) {
                (true, true) => NewAccess::NewStale,
                (true, false) => NewAccess::Stale,
                (false, true) => NewAccess::New,
                (false, false) => NewAccess::Kept,
            },
        };
        let marked = self.rewrite(key, hash, now_s, change, |found| {
            if mark.compare.is_some_and(|cas| cas != found.cas) {
                return Err(MarkOutcome::Exists);
            }
            Ok(if is_empty {
                NewValue::Empty
            } else {
                NewValue::Same
            })
        });
        match marked {
            Rewritten::Done(_) => MarkOutcome::Done,
            Rewritten::Absent => MarkOutcome::NotFound,
            Rewritten::Rejected(outcome) => outcome,
            Rewritten::NoSpace => MarkOutcome::NoSpace,
            Rewritten::Deferred => MarkOutcome::Deferred,
        }
    }

    /// Adds to or subtracts from a counter.
    pub fn arith(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        arithmetic: &Arithmetic,
        now_s: u32,
    ) -> ArithmeticOutcome {
        self.ensure_online();
        let change = Change {
            cas: NewCas::given_or(arithmetic.explicit_cas, NewCas::Next),
            expiry: arithmetic.touch,
            flags: None,
            access: NewAccess::Kept,
        };
        // If the counter is created by another worker after the first attempt, the second one
        // changes it.
        for _ in 0..2 {
            let counted = self.rewrite(key, hash, now_s, change, |found| {
                apply_arithmetic(found, arithmetic)
            });
            match counted {
                Rewritten::Done(done) => {
                    return ArithmeticOutcome::Done(CounterValue {
                        value: done.number,
                        created: false,
                        cas: done.cas,
                        expiry_before: done.expiry_before,
                        expiry: arithmetic.touch.unwrap_or(done.expiry_before),
                    });
                }
                Rewritten::Rejected(outcome) => return outcome,
                Rewritten::NoSpace => return ArithmeticOutcome::NoSpace,
                Rewritten::Deferred => return ArithmeticOutcome::Deferred,
                Rewritten::Absent => {}
            }
            if let Some(outcome) = self.vivify(key, hash, arithmetic, now_s) {
                return outcome;
            }
        }
        ArithmeticOutcome::NotFound
    }

    fn join(&mut self, upload: &Upload, write: &Write, now_s: u32) -> Result<Published, Deferral> {
        let change = Change {
            cas: NewCas::given_or(write.explicit_cas, NewCas::Next),
            expiry: None,
            flags: None,
            access: NewAccess::New,
        };
        let joined = self.rewrite(upload.key(), upload.hash, now_s, change, |found| {
            if differs(write.compare, found.cas) {
                return Err(Published::Exists);
            }
            Ok(NewValue::Joined {
                new: upload,
                is_before: write.mode == Mode::Prepend,
            })
        });
        Ok(match joined {
            Rewritten::Done(done) => Published::Stored {
                cas: done.cas,
                value_len: done.value_len as u32,
            },
            Rewritten::Absent => Published::NotStored,
            Rewritten::Rejected(outcome) => outcome,
            Rewritten::NoSpace => Published::NoSpace,
            Rewritten::Deferred => return Err(Deferral::ByMemory),
        })
    }

    fn vivify(
        &mut self,
        key: &[u8],
        hash: KeyHash,
        arithmetic: &Arithmetic,
        now_s: u32,
    ) -> Option<ArithmeticOutcome> {
        let Some(Vivify { initial, expiry }) = arithmetic.vivify else {
            return Some(ArithmeticOutcome::NotFound);
        };
        let digits = Digits::new(initial);
        let write = Write {
            explicit_cas: arithmetic.explicit_cas,
            ..Write::plain(Mode::Add, expiry)
        };
        match self.put(key, hash, digits.as_bytes(), &write, now_s) {
            Ok(Published::Stored { cas, .. }) => {
                let expiry_before = Expiry::NEVER;
                let counted = CounterValue {
                    value: initial,
                    created: true,
                    cas,
                    expiry_before,
                    expiry,
                };
                Some(ArithmeticOutcome::Done(counted))
            }
            Err(Rejected::Deferred) => Some(ArithmeticOutcome::Deferred),
            Err(_) | Ok(Published::NoSpace) => Some(ArithmeticOutcome::NoSpace),
            // Another worker has created the counter: change that one.
            _ => None,
        }
    }
}

/// Whether a CAS was given and differs. Zero means "no CAS", as in memcached.
fn differs(compare: Option<u64>, present: u64) -> bool {
    compare.is_some_and(|cas| cas != 0 && cas != present)
}

fn apply_arithmetic(
    found: &Snapshot,
    arithmetic: &Arithmetic,
) -> Result<NewValue<'static>, ArithmeticOutcome> {
    if found.value_len == 0 {
        return Err(ArithmeticOutcome::NotNumeric);
    }
    if differs(arithmetic.compare, found.cas) {
        return Err(ArithmeticOutcome::Exists);
    }
    // The digits of a value in pieces are in the first piece, which is longer than any number.
    let text = found.value().next().unwrap_or_default();
    let present = decimal::parse(text).ok_or(ArithmeticOutcome::NotNumeric)?;
    let number = match arithmetic.direction {
        Direction::Up => present.wrapping_add(arithmetic.delta),
        Direction::Down => present.saturating_sub(arithmetic.delta),
    };
    let digits_len = Digits::new(number).as_bytes().len();
    Ok(NewValue::Number {
        number,
        // A shorter number keeps the length and is padded with spaces, as in memcached.
        value_len: found.value_len.max(digits_len),
    })
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
