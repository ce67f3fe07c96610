//! Operations that store or change items: put, publish, mark and arithmetic.

use crate::expiry::Expiry;
use crate::heap::block::HeaderFields;
use crate::limits::{NUMERIC_ITEM_MAX, REWRITE_WAITS_MAX, VIVIFY_ATTEMPTS_MAX, WHOLE_PART};
use crate::operations::decimal::{self, Digits};
use crate::operations::insertion::{Deferral, NewItem, NotInserted, Value};
use crate::operations::request::{Mode, Published, Write};
use crate::operations::rewrite::{Change, NewAccess, NewCas, NewValue, Rewritten, Snapshot};
use crate::operations::upload::{Reserve, Upload};
use crate::rejected::Rejected;
use crate::statistics::size_class::item_len;
use crate::worker::{KeyHash, Worker};

/// The parameters of [`Worker::mark`], which marks an item stale, empties its value, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemMark {
    /// Change the item only if it has this CAS.
    pub compare: Option<u64>,
    /// The new CAS. `None`: a stale item gets the next CAS, and any other item keeps its CAS.
    pub explicit_cas: Option<u64>,
    /// The item becomes stale and unclaimed, so the next read that claims it wins.
    pub invalidate: bool,
    /// Empty the value and set these client flags. All other properties become those of a new item,
    /// except the CAS.
    pub empty: Option<u32>,
    /// The new expiry. `None`: an empty item never expires, and any other item keeps its expiry.
    pub expiry: Option<Expiry>,
}

/// The result of [`Worker::mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkOutcome {
    /// The item was changed.
    Done,
    /// The key has no item.
    NotFound,
    /// The item's CAS differs from [`ItemMark::compare`].
    Exists,
    /// There is no memory for the changed item.
    NoSpace,
    /// See [`Rejected::Deferred`].
    Deferred,
}

/// Whether arithmetic adds or subtracts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Add. The sum wraps at 2^64.
    Up,
    /// Subtract. If the amount is greater than the counter, the result is zero.
    Down,
}

/// The counter that arithmetic creates if the key has no item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vivify {
    /// The initial value of the counter.
    pub initial: u64,
    /// The expiry of the counter.
    pub expiry: Expiry,
}

/// The parameters of arithmetic on a counter, which is an item whose value is a decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic {
    /// The amount to add or subtract.
    pub delta: u64,
    /// Whether the amount is added or subtracted.
    pub direction: Direction,
    /// Change the counter only if it has this CAS.
    pub compare: Option<u64>,
    /// The new CAS. `None`: the store chooses the next one.
    pub explicit_cas: Option<u64>,
    /// The new expiry. `None`: the expiry is unchanged.
    pub touch: Option<Expiry>,
    /// The counter to create if the key has no item. `None`: none is created.
    pub vivify: Option<Vivify>,
}

impl Arithmetic {
    /// Arithmetic with this direction and amount. No condition on the CAS, no explicit CAS, no
    /// change of the expiry, and no counter is created.
    #[must_use]
    pub const fn plain(direction: Direction, delta: u64) -> Self {
        Self {
            delta,
            direction,
            compare: None,
            explicit_cas: None,
            touch: None,
            vivify: None,
        }
    }
}

/// The result of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArithmeticOutcome {
    /// The counter was changed or created.
    Done(CounterValue),
    /// The key has no item.
    NotFound,
    /// The value is not a decimal number, or the item is larger than [`NUMERIC_ITEM_MAX`].
    NotNumeric,
    /// The item's CAS differs from [`Arithmetic::compare`].
    Exists,
    /// There is no memory for the new number.
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
    /// The expiry before the operation; [`Expiry::NEVER`] if the counter was created.
    pub expiry_before: Expiry,
    /// The expiry after the operation.
    pub expiry: Expiry,
}

impl Worker {
    /// Publishes an upload as the value of its key, if the conditions of `write` hold.
    ///
    /// # Errors
    /// Returns the upload, for another attempt later, for one of the reasons of
    /// [`Rejected::Deferred`].
    ///
    /// # Panics
    /// The upload belongs to another store, or bytes of its value are missing. An incomplete value
    /// must not be published, because its unfilled memory still contains bytes of earlier items.
    pub fn publish(
        &mut self,
        upload: Upload,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Upload> {
        assert!(upload.missing() == 0, "a value that is not complete");
        self.check_owner(upload.owner());
        self.ensure_online();
        let published = match write.mode {
            Mode::Append | Mode::Prepend if write.vivify => self.join_or_add(&upload, write, now_s),
            Mode::Append | Mode::Prepend => self.join(&upload, write, now_s),
            Mode::Set | Mode::Add | Mode::Replace => self.insert_upload(&upload, write, now_s),
        };
        published.map_err(|_| upload)
    }

    /// Links the item of an upload, if the conditions of `write` hold.
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
        self.rebuild_if_unfit(inserted, &item, write, now_s)
    }

    /// Converts the result of [`Worker::try_insert`]. If the block passed to that function was
    /// unfit, builds and inserts another block for the item.
    #[inline]
    fn rebuild_if_unfit(
        &mut self,
        inserted: Result<Published, NotInserted>,
        item: &NewItem<'_>,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Deferral> {
        match inserted {
            Ok(published) => Ok(published),
            Err(NotInserted::Rewriting) => Err(Deferral::ByRewrite),
            Err(NotInserted::InTier) => Err(Deferral::ByMemory),
            Err(NotInserted::Unfit) => self.build_and_insert(item, write, now_s),
        }
    }

    /// Stores a complete value, if the conditions of `write` hold. Combines [`Worker::reserve`],
    /// [`Worker::fill`] and [`Worker::publish`].
    ///
    /// # Errors
    /// Those of [`Rejected`] except [`Rejected::HoldLimit`].
    ///
    /// # Panics
    /// `hash` is not the hash of the key in this store.
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

    /// Makes one attempt of [`Worker::put`].
    ///
    /// # Errors
    /// [`Worker::put`] returns the outer error. After an inner error it may make another attempt.
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
            return self.put_as_upload(key, hash, value, write, now_s).map(Ok);
        }
        self.assist_evacuation(len, now_s);
        // Prefetch the present item, if any, so that it is in the processor's cache when the new
        // item is linked.
        let candidate = self.candidate(hash);
        if let Some(present) = &candidate {
            self.store.index.prefetch_entry(&present.found);
            present.block_ref.prefetch_to_replace(key.len());
        }
        let part = self.part_for(candidate.as_ref(), hash);
        let (allocation, candidate) = match self.try_allocate(len, part, write.expiry, now_s) {
            Some(allocation) => (allocation, candidate),
            // `allocate` may make this worker quiescent. Then the memory at the candidate's
            // location may be reused, so the candidate is dropped.
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
        // The candidate may belong to another key with the same tag (the part of the hash in an
        // entry). Without a candidate, `try_insert` looks the item up under the lock.
        let candidate = candidate.filter(|present| present.block_ref.block.key() == key);
        let inserted = self.try_insert(&item, &draft.block_ref, candidate, write, now_s);
        drop(draft);
        Ok(self.rebuild_if_unfit(inserted, &item, write, now_s))
    }

    /// Makes one attempt of [`Worker::put`] for a value that has to be stored in pieces, or that is
    /// appended or prepended. Builds the value as an upload.
    #[cold]
    fn put_as_upload(
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

    /// Marks an item stale, empties its value, or both. Builds a new block for the changed item,
    /// for two reasons. A published value never changes. And a mark in the old block could be lost:
    /// a concurrent read loads the access word and later stores it with a new time, which would
    /// overwrite a mark made in between.
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

    /// Adds an amount to a counter, or subtracts it, as `arithmetic` says. Creates the counter if
    /// the key has no item and `arithmetic` allows it.
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
        // An attempt may find no counter, and then fail to create one because another worker has
        // created it. The next attempt changes that counter, unless it has vanished again.
        for _ in 0..VIVIFY_ATTEMPTS_MAX {
            let counted = self.rewrite(key, hash, now_s, change, |found| {
                apply_arithmetic(key, found, arithmetic)
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
        ArithmeticOutcome::Deferred
    }

    /// Appends or prepends the value of an upload to the present value of its key. Returns
    /// [`Published::NotStored`] if the key has no item.
    fn join(&mut self, upload: &Upload, write: &Write, now_s: u32) -> Result<Published, Deferral> {
        let change = Change {
            cas: NewCas::given_or(write.explicit_cas, NewCas::Next),
            expiry: None,
            flags: None,
            access: NewAccess::New,
        };
        let joined = self.rewrite(upload.key(), upload.hash, now_s, change, |found| {
            if cas_differs(write.compare, found.cas) {
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

    /// Appends or prepends the value of an upload to the present value of its key. Adds it as the
    /// value of a new item if the key has none.
    fn join_or_add(
        &mut self,
        upload: &Upload,
        write: &Write,
        now_s: u32,
    ) -> Result<Published, Deferral> {
        let add = Write {
            mode: Mode::Add,
            ..*write
        };
        // The key may have no item for the join, and have one for the add because another worker
        // has added it in the meantime.
        for _ in 0..VIVIFY_ATTEMPTS_MAX {
            match self.join(upload, write, now_s)? {
                Published::NotStored => {}
                joined => return Ok(joined),
            }
            match self.insert_upload(upload, &add, now_s)? {
                Published::NotStored => {}
                added => return Ok(added),
            }
        }
        Err(Deferral::ByMemory)
    }

    /// Creates the counter of a key that has no item, if `arithmetic` allows it. Returns `None` if
    /// another worker has created an item first.
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
            _ => None,
        }
    }
}

/// Whether a CAS to compare is given and differs from the present one. A given CAS of zero means
/// that none is given, as in memcached.
fn cas_differs(compare: Option<u64>, present: u64) -> bool {
    compare.is_some_and(|cas| cas != 0 && cas != present)
}

/// Computes the new value of a counter from the present one.
fn apply_arithmetic(
    key: &[u8],
    found: &Snapshot,
    arithmetic: &Arithmetic,
) -> Result<NewValue<'static>, ArithmeticOutcome> {
    let len = item_len(key.len(), found.flags, found.value_len);
    if found.value_len == 0 || len > NUMERIC_ITEM_MAX {
        return Err(ArithmeticOutcome::NotNumeric);
    }
    if cas_differs(arithmetic.compare, found.cas) {
        return Err(ArithmeticOutcome::Exists);
    }
    let text = found.value().flatten();
    let present = decimal::parse(text).ok_or(ArithmeticOutcome::NotNumeric)?;
    let number = match arithmetic.direction {
        Direction::Up => present.wrapping_add(arithmetic.delta),
        Direction::Down => present.saturating_sub(arithmetic.delta),
    };
    let digits_len = Digits::new(number).as_bytes().len();
    Ok(NewValue::Number {
        number,
        // If the new number has fewer digits than the value has bytes, the value keeps its length
        // and is padded with spaces, as in memcached.
        value_len: found.value_len.max(digits_len),
    })
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
