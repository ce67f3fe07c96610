//! Decoding of meta commands: converts a parsed command to a [`Prepared`] request.
//!
//! In every function, `len` is the length of the command line in bytes, including the line end. The
//! function writes the request to `prepared`.

use protocol::{MetaArith, MetaDelete, MetaFlags, MetaGet, MetaKey, MetaSet, MetaVivify};
use store::Mode;

use super::{MetaEncoder, Traits};
use crate::lines::{NO_DATA, data_len, direction, mode};
use crate::operation::{ArithOptions, Key, MarkOptions, Operation, ReadOptions, StoreOptions};
use crate::operation::{RareReadOptions, ReadCount, ReadVivify, Recache, Vivify, WriteCas};
use crate::prepare::Prepared;
use crate::protocols::{Decoded, Encoder};

/// Converts `mg`, a read.
#[inline]
pub(crate) fn get<'a>(get: &MetaGet<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    let rare = RareReadOptions {
        recache: get.recache.map(|exptime| Recache {
            exptime,
            compare_new_expiry: get.recache_after_touch,
        }),
        vivify: match get.vivify {
            None => ReadVivify::Never,
            Some(requested) => ReadVivify::IfMissing(vivify(requested)),
        },
        explicit_cas: get.explicit_cas,
        known_cas: get.known_cas,
    };
    let options = ReadOptions {
        touch: get.touch,
        rare: Some(rare),
        with_value: get.with_value,
        claim_stale: true,
        untracked: get.no_bump,
        // As in memcached, a hit with `T` counts as a touch and not as a get. Every miss counts as
        // a get.
        count: ReadCount::MissAsGet,
    };
    let encoder = encoder(&get.key, get.flags, get.quiet);
    command(
        Operation::Read(options),
        key(&get.key),
        encoder,
        len,
        NO_DATA,
        prepared,
    )
}

/// Converts `ms`, a storage command.
#[inline]
pub(crate) fn set<'a>(set: &MetaSet<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    let options = StoreOptions {
        cas: WriteCas::new(set.compare, set.explicit_cas),
        flags: set.client_flags,
        exptime: set.exptime,
        value_len: set.value_len,
        // The store does not compare the CAS in the mode `Replace`. A replace that compares the CAS
        // is therefore decoded as a set. A set that compares the CAS requires a present item too,
        // so the effect is the same.
        mode: match (mode(set.mode), set.compare) {
            (Mode::Replace, Some(_)) => Mode::Set,
            (mode, _) => mode,
        },
        invalidate: set.invalidate,
        vivify: set.vivify,
        // As in memcached, an `ms` of any mode deletes the old item if the value is too large or
        // there is no memory for it.
        delete_old_if_rejected: true,
    };
    let encoder = encoder(&set.key, set.flags, set.quiet);
    let (operation, key) = (Operation::Store(options), key(&set.key));
    command(
        operation,
        key,
        encoder,
        len,
        data_len(set.value_len),
        prepared,
    )
}

/// Converts `md`, a deletion or a mark. A mark makes the item stale, or empties its value, or both.
pub(crate) fn delete<'a>(
    delete: &MetaDelete<'a>,
    len: usize,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    let operation = if delete.invalidate || delete.remove_value {
        let options = MarkOptions {
            cas: WriteCas::new(delete.compare, delete.explicit_cas),
            invalidate: delete.invalidate,
            remove_value_and_set_flags: delete.remove_value.then_some(delete.client_flags),
            exptime: delete.touch,
        };
        Operation::Mark(options)
    } else {
        let compare = delete.compare;
        Operation::Delete { compare }
    };
    let encoder = encoder(&delete.key, delete.flags, delete.quiet);
    command(operation, key(&delete.key), encoder, len, NO_DATA, prepared)
}

/// Converts `ma`, which adds to a counter or subtracts from it.
pub(crate) fn arith<'a>(arith: &MetaArith<'a>, len: usize, prepared: &mut Prepared<'a>) -> Decoded {
    let options = ArithOptions {
        delta: arith.delta,
        cas: WriteCas::new(arith.compare, arith.explicit_cas),
        initial: arith.initial,
        touch: arith.touch,
        vivify: arith.vivify.map(vivify),
        direction: direction(arith.mode),
    };
    let traits = Traits {
        base64: arith.key.base64,
        quiet: arith.quiet,
        with_number: arith.with_value,
        is_debug: false,
    };
    let encoder = MetaEncoder {
        flags: arith.flags,
        traits,
    };
    command(
        Operation::Arith(options),
        key(&arith.key),
        encoder,
        len,
        NO_DATA,
        prepared,
    )
}

/// Converts `me`, a read of an item's metadata.
pub(crate) fn debug<'a>(
    meta_key: &MetaKey<'a>,
    len: usize,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    let traits = Traits {
        base64: meta_key.base64,
        is_debug: true,
        ..Traits::default()
    };
    let encoder = MetaEncoder {
        flags: MetaFlags::new(b""),
        traits,
    };
    let options = ReadOptions {
        with_value: false,
        untracked: true,
        count: ReadCount::Metadata,
        ..ReadOptions::plain(None)
    };
    command(
        Operation::Read(options),
        key(meta_key),
        encoder,
        len,
        NO_DATA,
        prepared,
    )
}

/// Converts `mn`, which has no effect except its reply.
pub(crate) fn noop(len: usize, prepared: &mut Prepared<'_>) -> Decoded {
    let encoder = MetaEncoder {
        flags: MetaFlags::new(b""),
        traits: Traits::default(),
    };
    command(Operation::Noop, Key::NONE, encoder, len, NO_DATA, prepared)
}

#[inline]
fn key<'a>(key: &MetaKey<'a>) -> Key<'a> {
    Key {
        bytes: key.raw,
        base64: key.base64,
    }
}

#[inline]
fn vivify(vivify: MetaVivify) -> Vivify {
    Vivify {
        reply_exptime: vivify.exptime,
        exptime: vivify.final_exptime,
    }
}

/// Returns the encoder of a command other than `ma`, `me` and `mn`.
#[inline]
fn encoder<'a>(key: &MetaKey<'a>, flags: MetaFlags<'a>, quiet: bool) -> MetaEncoder<'a> {
    let traits = Traits {
        base64: key.base64,
        quiet,
        with_number: false,
        is_debug: false,
    };
    MetaEncoder { flags, traits }
}

/// Writes a command to `prepared`. `data_len` is the number of bytes between the command's line and
/// the next command.
#[inline]
fn command<'a>(
    operation: Operation<'a>,
    key: Key<'a>,
    encoder: MetaEncoder<'a>,
    len: usize,
    data_len: u64,
    prepared: &mut Prepared<'a>,
) -> Decoded {
    *prepared = Prepared::new(operation, key, Encoder::Meta(encoder), len);
    Decoded::Command { data_len }
}
