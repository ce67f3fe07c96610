//! Stores. A value that arrived together with its command is stored in one step. For any other
//! value, memory is reserved, filled as bytes arrive, and published.

use protocol::limits::KEY_MAX;
use store::{KeyHash, Mode, Published, Rejected, Reserve, Upload, Write};

use crate::counters::Counter;
use crate::encode::Encode;
use crate::now::Now;
use crate::operation::StoreOptions;
use crate::outcome::{Outcome, StoreOutcome};
use crate::prefixes::Access;
use crate::prepare::Prepared;
use crate::protocols::WithEncoder;
use crate::session::{Output, RequestContext, State, Step};
use crate::upload::{PendingUpload, StoreRequest, ValueEnd};

/// Stores the value if all of it has arrived, or else begins an upload.
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
    let is_whole = data.len() >= value_len + E::VALUE_END.len();
    let result = if is_whole && data[value_len..].starts_with(E::VALUE_END) {
        let value = &data[..value_len];
        let put = context.worker.put(key, request.hash, value, &write, now_s);
        put.map(Ok)
    } else {
        let reserve = Reserve {
            value_len,
            flags: write.flags,
            expiry: write.expiry,
            whole: is_whole,
        };
        let reserved = context.worker.reserve(key, request.hash, &reserve, now_s);
        reserved.map(Err)
    };
    let outcome = match result {
        Ok(Ok(published)) => stored(key, options, published, context),
        Ok(Err(_)) if is_whole => bad_data_chunk(key, context),
        Ok(Err(upload)) => {
            let pending = Box::new(PendingUpload {
                upload,
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
        Err(Rejected::HoldLimit | Rejected::Deferred) => return Step::NeedsMemory,
        Err(rejected) => {
            let outcome = not_stored(key, request.hash, options, rejected, context);
            encoder.outcome(key, Outcome::Store(outcome), out.bytes_mut());
            let missing = u64::from(options.value_len) + E::VALUE_END.len() as u64;
            return Step::swallow(len, missing);
        }
    };
    encoder.outcome(key, Outcome::Store(outcome), out.bytes_mut());
    Step::Done {
        len: len + value_len + E::VALUE_END.len(),
    }
}

/// Publishes a value that arrived in parts, and replies. Returns the upload if memory for the
/// publication is not available yet.
pub(crate) fn publish_upload(
    pending: PendingUpload,
    context: &mut RequestContext<'_>,
    out: &mut Output,
) -> Option<Box<PendingUpload>> {
    let PendingUpload {
        upload,
        request,
        encoder,
    } = pending;
    let publish = Publish {
        upload,
        request: &request,
        context,
        out,
    };
    let upload = encoder.borrow().dispatch(publish)?;
    Some(Box::new(PendingUpload {
        upload,
        request,
        encoder,
    }))
}

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
        // The publication consumes the upload, and its key with it.
        let mut buffer = [0; KEY_MAX];
        let key = &mut buffer[..upload.key().len()];
        key.copy_from_slice(upload.key());
        let outcome = if request.value_end.is_valid() {
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

/// Replies to a store whose upload ran out of memory.
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

struct RejectUpload<'r, 'c> {
    pending: &'r PendingUpload,
    context: &'r mut RequestContext<'c>,
    out: &'r mut Output,
}

impl WithEncoder for RejectUpload<'_, '_> {
    type Result = ();

    fn run(self, encoder: &impl Encode) {
        let (upload, options) = (&self.pending.upload, &self.pending.request.options);
        let (key, hash) = (upload.key(), upload.hash());
        let outcome = not_stored(key, hash, options, Rejected::NoMemory, self.context);
        encoder.outcome(key, Outcome::Store(outcome), self.out.bytes_mut());
    }
}

/// Counts a value that the store rejected, and deletes the item that it was to replace.
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
    match rejected {
        Rejected::TooLarge => {
            context.counters.count(Counter::StoreTooLarge);
            StoreOutcome::TooLarge
        }
        Rejected::NoMemory | Rejected::HoldLimit | Rejected::Deferred => {
            context.counters.count(Counter::StoreNoMemory);
            StoreOutcome::NoMemory
        }
    }
}

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
        claimed: false,
        base64_key,
    }
}

/// Counts a store whose value had arrived.
#[inline]
fn stored(
    key: &[u8],
    options: &StoreOptions,
    published: Published,
    context: &RequestContext<'_>,
) -> StoreOutcome {
    count_store(key, context);
    count_cas(options, published, context);
    let value_len = options.value_len;
    match published {
        Published::Stored { cas, value_len } => StoreOutcome::Stored { cas, value_len },
        Published::NotStored | Published::NoSpace => StoreOutcome::NotStored { value_len },
        Published::Exists => StoreOutcome::Exists { value_len },
        Published::NotFound => StoreOutcome::NotFound { value_len },
    }
}

fn bad_data_chunk(key: &[u8], context: &RequestContext<'_>) -> StoreOutcome {
    count_store(key, context);
    StoreOutcome::BadDataChunk
}

#[inline]
fn count_store(key: &[u8], context: &RequestContext<'_>) {
    context.counters.count(Counter::CmdSet);
    if context.counters.counts_prefixes() {
        context.counters.count_prefix_of(key, Access::Set);
    }
}

/// Counts the outcome of a CAS comparison. Add, replace and append do not count as one.
#[inline]
fn count_cas(options: &StoreOptions, published: Published, context: &RequestContext<'_>) {
    if options.mode != Mode::Set || options.cas.compare().is_none() {
        return;
    }
    context.counters.count(match published {
        Published::Stored { .. } => Counter::CasHits,
        Published::Exists => Counter::CasBadval,
        Published::NotFound | Published::NotStored | Published::NoSpace => Counter::CasMisses,
    });
}
