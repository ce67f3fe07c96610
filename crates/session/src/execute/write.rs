//! Storage commands. A value that arrived completely with its command is stored in one step. For
//! any other value the store reserves memory, the session fills it as input arrives, and the store
//! then publishes the item.

use protocol::limits::KEY_MAX;
use store::{KeyHash, Mode, Published, Rejected, Reserve, SizeClass, Upload, Write};

use super::observe;
use crate::counters::{ClassCounter, Counter};
use crate::encode::Encode;
use crate::now::Now;
use crate::operation::StoreOptions;
use crate::outcome::{Outcome, StoreOutcome};
use crate::prefixes::Access;
use crate::prepare::Prepared;
use crate::protocols::WithEncoder;
use crate::session::{Output, RequestContext, State, Step};
use crate::upload::{PendingUpload, PendingValue, StoreRequest, ValueEnd};

/// Executes a storage command: stores the value if all of it has arrived, or else begins an upload.
#[inline]
pub(super) fn store<E: Encode>(
    encoder: &E,
    key: &[u8],
    options: &StoreOptions,
    request: &Prepared<'_>,
    input: &[u8],
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Step {
    let (len, base64, now_s) = (request.len(), request.key().base64, context.now.elapsed_s);
    let write = write_of(options, base64, context.now);
    let (data, value_len) = (&input[len..], options.value_len as usize);
    // Observed: accesses are counted by key prefix, or a client receives log lines.
    if context.counters.is_observed() {
        observe::before_store(key, request.hash, context);
    }
    let is_complete = data.len() >= value_len + E::VALUE_END.len();
    // `Ok(Ok(_))` is the outcome of the store, `Ok(Err(_))` is reserved memory, and `Err(_)` means
    // that the store rejected the value.
    let result = if is_complete && data[value_len..].starts_with(E::VALUE_END) {
        // If the present item is only in the tier (the files below the store), the request waits
        // until it has been read from there.
        if depends_on_item(options) && context.must_fetch(key, request.hash) {
            return Step::NeedsMemory;
        }
        let value = &data[..value_len];
        let put = context.worker.put(key, request.hash, value, &write, now_s);
        put.map(Ok)
    } else {
        // The value is incomplete, or the bytes after it are not the expected line end. In the
        // second case the reservation serves only to check the length and the free memory, because
        // an error of the store takes precedence over the wrong line end.
        let reserve = Reserve {
            value_len,
            flags: write.flags,
            expiry: write.expiry,
            whole: is_complete,
        };
        PendingValue::begin(key, request.hash, reserve, context.worker, now_s).map(Err)
    };
    let outcome = match result {
        Ok(Ok(published)) => stored(key, options, published, context),
        // The value has arrived, but the bytes after it are not the expected line end.
        Ok(Err(_)) if is_complete => bad_data_chunk(key, context),
        Ok(Err(value)) => {
            let pending = Box::new(PendingUpload {
                value,
                request: StoreRequest {
                    options: *options,
                    base64,
                    value_end: ValueEnd::new(E::VALUE_END),
                },
                encoder: request.encoder.to_owned(),
            });
            return Step::EnterState {
                len,
                state: State::Upload(pending),
            };
        }
        Err(Rejected::Deferred) => return Step::NeedsMemory,
        Err(rejected) => {
            let outcome = not_stored(key, request.hash, options, rejected, context);
            encoder.outcome(key, Outcome::Store(outcome), out.bytes_mut());
            // The session skips the value and its line end, which may not have arrived yet.
            let missing = u64::from(options.value_len) + E::VALUE_END.len() as u64;
            return Step::swallow(len, missing);
        }
    };
    encoder.outcome(key, Outcome::Store(outcome), out.bytes_mut());
    Step::Done {
        len: len + value_len + E::VALUE_END.len(),
    }
}

/// Publishes a value that arrived in parts, and replies. If the publication has to wait for memory,
/// or for the key's present item from the tier, returns the upload. The session then tries again in
/// its next turn.
pub(crate) fn publish_upload(
    pending: PendingUpload,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Option<Box<PendingUpload>> {
    let PendingUpload {
        value: PendingValue::Stored(upload),
        request,
        encoder,
    } = pending
    else {
        // `receive` has moved the complete value to the store.
        return Some(Box::new(pending));
    };
    let publish = Publish {
        upload,
        request: &request,
        context,
        out,
    };
    let upload = encoder.borrow().dispatch(publish)?;
    Some(Box::new(PendingUpload {
        value: PendingValue::Stored(upload),
        request,
        encoder,
    }))
}

/// The arguments of [`publish_upload`]. `run` is compiled separately for each encoder.
struct Publish<'r, 'c> {
    upload: Upload,
    request: &'r StoreRequest,
    context: &'r mut RequestContext<'c>,
    out: &'r mut Output,
}

impl WithEncoder for Publish<'_, '_> {
    type Result = Option<Upload>;

    fn run(self, encoder: &impl Encode) -> Option<Upload> {
        let Self {
            upload,
            request,
            context,
            out,
        } = self;
        // The key is in the upload, which the publication consumes. The reply needs the key later.
        let mut buffer = [0; KEY_MAX];
        let key = &mut buffer[..upload.key().len()];
        key.copy_from_slice(upload.key());
        let outcome = if request.value_end.is_valid() {
            if depends_on_item(&request.options) && context.must_fetch(key, upload.hash()) {
                return Some(upload);
            }
            let write = write_of(&request.options, request.base64, context.now);
            let now_s = context.now.elapsed_s;
            match context.worker.publish(upload, &write, now_s) {
                Ok(published) => stored(key, &request.options, published, context),
                Err(upload) => return Some(upload),
            }
        } else {
            drop(upload);
            bad_data_chunk(key, context)
        };
        encoder.outcome(key, Outcome::Store(outcome), out.bytes_mut());
        None
    }
}

/// Replies to a storage command whose upload ran out of memory.
pub(crate) fn reject_upload(
    pending: &PendingUpload,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) {
    pending.encoder.borrow().dispatch(RejectUpload {
        pending,
        context,
        out,
    });
}

/// The arguments of [`reject_upload`]. `run` is compiled separately for each encoder.
struct RejectUpload<'r, 'c> {
    pending: &'r PendingUpload,
    context: &'r mut RequestContext<'c>,
    out: &'r mut Output,
}

impl WithEncoder for RejectUpload<'_, '_> {
    type Result = ();

    fn run(self, encoder: &impl Encode) {
        let (value, options) = (&self.pending.value, &self.pending.request.options);
        let (key, hash) = (value.key(), value.hash());
        let outcome = not_stored(key, hash, options, Rejected::NoMemory, self.context);
        encoder.outcome(key, Outcome::Store(outcome), self.out.bytes_mut());
    }
}

/// Counts a storage command whose value the store rejected. Deletes the key's old item, if the
/// command requires it ([`StoreOptions::delete_old_if_rejected`]).
#[cold]
fn not_stored(
    key: &[u8],
    hash: KeyHash,
    options: &StoreOptions,
    rejected: Rejected,
    context: &mut RequestContext<'_>,
) -> StoreOutcome {
    if options.delete_old_if_rejected {
        let now_s = context.now.elapsed_s;
        context.worker.delete(key, hash, None, now_s);
    }
    let outcome = match rejected {
        Rejected::TooLarge => {
            context.counters.count(Counter::StoreTooLarge);
            StoreOutcome::TooLarge
        }
        Rejected::NoMemory | Rejected::HoldLimit | Rejected::Deferred => {
            context.counters.count(Counter::StoreNoMemory);
            context
                .counters
                .count_in_class(ClassCounter::StoreNoMemory, options.size_class(key));
            StoreOutcome::NoMemory
        }
    };
    if context.counters.is_observed() {
        observe::store(key, options, &outcome, context);
    }
    outcome
}

/// Whether the outcome of a storage command depends on the key's present item. The outcome of a set
/// that compares no CAS does not.
#[inline]
fn depends_on_item(options: &StoreOptions) -> bool {
    options.mode != Mode::Set || options.cas.compare().is_some()
}

/// Converts the options of a storage command to the store's type.
#[inline]
fn write_of(options: &StoreOptions, base64_key: bool, now: Now) -> Write {
    Write {
        mode: options.mode,
        flags: options.flags,
        expiry: now.expiry(options.exptime),
        compare: options.cas.compare(),
        invalidate: options.invalidate,
        explicit_cas: options.cas.explicit(),
        vivify: options.vivify,
        // Only a read claims an item, to recompute its value.
        claimed: false,
        base64_key,
    }
}

/// Counts a storage command whose value the store has accepted for the write, even if the write
/// then stored nothing. Returns the command's outcome.
#[inline]
fn stored(
    key: &[u8],
    options: &StoreOptions,
    published: Published,
    context: &RequestContext<'_>,
) -> StoreOutcome {
    let class = options.size_class(key);
    context.counters.count(Counter::CmdSet);
    context.counters.count_in_class(ClassCounter::CmdSet, class);
    count_cas(class, options, published, context);
    let value_len = options.value_len;
    let outcome = match published {
        Published::Stored { cas, value_len } => StoreOutcome::Stored { cas, value_len },
        Published::NotStored | Published::NoSpace => StoreOutcome::NotStored { value_len },
        Published::Exists => StoreOutcome::Exists { value_len },
        Published::NotFound => StoreOutcome::NotFound { value_len },
    };
    if context.counters.is_observed() {
        observe::count_prefix(key, Access::Set, context);
        observe::store(key, options, &outcome, context);
    }
    outcome
}

/// Counts a storage command whose value is not followed by the expected line end, and returns its
/// outcome.
fn bad_data_chunk(key: &[u8], context: &RequestContext<'_>) -> StoreOutcome {
    context.counters.count(Counter::CmdSet);
    if context.counters.is_observed() {
        observe::count_prefix(key, Access::Set, context);
    }
    StoreOutcome::BadDataChunk
}

/// Counts the outcome of a set that compares the CAS. Nothing is counted for add, replace, append
/// and prepend, even if the command contains a CAS.
#[inline]
fn count_cas(
    class: SizeClass,
    options: &StoreOptions,
    published: Published,
    context: &RequestContext<'_>,
) {
    if options.mode != Mode::Set || options.cas.compare().is_none() {
        return;
    }
    let (count, class_count) = match published {
        Published::Stored { .. } => (Counter::CasHits, Some(ClassCounter::CasHits)),
        Published::Exists => (Counter::CasBadval, Some(ClassCounter::CasBadval)),
        Published::NotFound | Published::NotStored | Published::NoSpace => {
            (Counter::CasMisses, None)
        }
    };
    context.counters.count(count);
    if let Some(class_count) = class_count {
        context.counters.count_in_class(class_count, class);
    }
}
