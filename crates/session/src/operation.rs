//! What a client requests, independent of its protocol.
//!
//! A decoder makes an [`Operation`] of a command, `execute` runs it, and an encoder writes its
//! [`Outcome`](crate::outcome::Outcome). An operation does not contain what only the reply needs
//! (an opaque, the order of flags, whether success is silent): the protocol keeps that in its
//! [`Encoder`](crate::protocols::Encoder).
//!
//! Times are as the client sent them, see [`Now::expiry`](crate::Now::expiry).

use protocol::limits::KEY_MAX;
use protocol::{Keys, MetaKey, Rejection, ShutdownMode, Stats};
use store::{Direction, Mode};

/// What to do with a key, or with the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation<'a> {
    /// Returns the item.
    Read(ReadOptions),
    /// Returns the items of at least two keys, as far as the output has space.
    ReadMany {
        /// The keys, up to the end of the command.
        keys: Keys<'a>,
        /// The new time to live.
        touch: Option<i32>,
    },
    /// Stores a value, which follows the command.
    Store(StoreOptions),
    /// Deletes the item.
    Delete {
        /// Delete the item only if it has this CAS.
        compare: Option<u64>,
    },
    /// Marks the item stale, empties its value, or both, instead of deleting it.
    Mark(MarkOptions),
    /// Adds to a counter, or subtracts from it.
    Arith(ArithOptions),
    /// Changes the time to live of the item.
    Touch {
        /// The new time to live.
        exptime: i32,
    },
    /// Flushes all items.
    Flush {
        /// The time of the flush. `None`, zero and negative numbers mean now.
        exptime: Option<i32>,
    },
    /// A command to the server.
    Server(ServerCommand<'a>),
    /// Only replies.
    Noop,
    /// Replies as the protocol requires, then closes the connection.
    Quit,
    /// Replies with an error.
    Reject {
        /// The error.
        rejection: Rejection,
        /// Bytes to skip after the command.
        swallow: u64,
    },
}

/// A command to the server, instead of the items in it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerCommand<'a> {
    /// Returns the version.
    Version,
    /// Sets the level of detail on standard error.
    Verbosity(u32),
    /// Changes the memory limit.
    MemoryLimit {
        /// The new limit.
        megabytes: u32,
    },
    /// Returns statistics, or changes how they are kept.
    Stats(Stats<'a>),
    /// Stops the server.
    Shutdown(ShutdownMode),
    /// Begins a log stream, which this server does not have.
    Watch,
}

/// The key of an operation, as sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key<'a> {
    /// 1 to 250 bytes, or empty if the operation has no key.
    pub(crate) bytes: &'a [u8],
    /// `bytes` are the key in base64. The parser has checked that they can be decoded.
    pub(crate) base64: bool,
}

/// Space for a decoded key. `None` until a key in base64 is decoded into it.
pub(crate) type DecodeBuffer = Option<[u8; KEY_MAX]>;

/// The effects of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOptions {
    /// The new time to live.
    pub(crate) touch: Option<i32>,
    /// The rarer options, apart so that other reads need one test for all of them.
    pub(crate) rare: Option<RareReadOptions>,
    /// Return the value.
    pub(crate) with_value: bool,
    /// Claim the item if it is stale.
    pub(crate) claim: bool,
    /// Do not record the access.
    pub(crate) untracked: bool,
    /// What the read counts as.
    pub(crate) count: ReadCount,
}

impl ReadOptions {
    /// A read that returns the value and has no other effect than `touch`.
    pub(crate) const fn plain(touch: Option<i32>) -> Self {
        Self {
            touch,
            rare: None,
            with_value: true,
            claim: false,
            untracked: false,
            count: ReadCount::Access,
        }
    }

    /// The times of the item, if this request has created it.
    pub(crate) fn created(&self) -> Option<Vivify> {
        match self.rare?.vivify {
            ReadVivify::AlreadyCreated(vivify) => Some(vivify),
            ReadVivify::Never | ReadVivify::IfMissing(_) => None,
        }
    }
}

/// The rarer options of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RareReadOptions {
    /// Claim the item if it expires soon.
    pub(crate) recache: Option<Recache>,
    /// Create a missing item.
    pub(crate) vivify: ReadVivify,
    /// The CAS of the created item. `None`: the next one.
    pub(crate) explicit_cas: Option<u64>,
    /// Omit the value if the item has this CAS.
    pub(crate) known_cas: Option<u64>,
}

/// What a read counts as in the statistics.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadCount {
    /// A touch if it changes the time to live, else a get.
    Access,
    /// As `Access`, except that every miss counts as a get.
    MissAsGet,
    /// A request for metadata: neither a touch nor a get.
    Metadata,
}

/// When a read claims an item that is not stale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recache {
    /// Claim the item if it expires before this time. Zero: never.
    pub(crate) exptime: i32,
    /// Compare with the expiry that the read sets, not with the one before it.
    pub(crate) after_touch: bool,
}

/// Whether a read creates an empty item if there is none.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadVivify {
    /// The read creates no item.
    Never,
    /// The read creates a missing item.
    IfMissing(Vivify),
    /// The read has created the item. Execution sets this for the second attempt of a read; no
    /// decoder does.
    AlreadyCreated(Vivify),
}

/// Times of an item that is created if there is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vivify {
    /// The time to live that the reply shows.
    pub(crate) shown_exptime: i32,
    /// The time to live of the item.
    pub(crate) exptime: i32,
}

/// The CAS that a write requires of the present item, and the CAS that it gives the new one. Two
/// options would take a third more memory than these four fields, and so enlarge the largest
/// operation, and with it every prepared request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteCas {
    compare: u64,
    explicit: u64,
    compares: bool,
    is_explicit: bool,
}

/// Condition and effect of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreOptions {
    /// Condition and effect on the CAS.
    pub(crate) cas: WriteCas,
    /// The client's own 32 bits.
    pub(crate) flags: u32,
    /// The time to live.
    pub(crate) exptime: i32,
    /// Bytes of the value.
    pub(crate) value_len: u32,
    /// How to treat a present item.
    pub(crate) mode: Mode,
    /// If the CAS to compare is below the present one, store the value and mark it stale.
    pub(crate) invalidate: bool,
    /// `Append` and `Prepend` store the value if there is no item.
    pub(crate) vivify: bool,
    /// If there is no memory for the value, delete the present item: the client failed to replace
    /// it, so it must not read it any more.
    pub(crate) delete_old_if_rejected: bool,
}

/// Condition and effect of a mark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MarkOptions {
    /// Condition and effect on the CAS.
    pub(crate) cas: WriteCas,
    /// The item becomes stale.
    pub(crate) invalidate: bool,
    /// The value becomes empty, and the item gets these flags.
    pub(crate) empty_with_flags: Option<u32>,
    /// The new time to live.
    pub(crate) exptime: Option<i32>,
}

/// Condition and effect of arithmetic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArithOptions {
    /// The number to add or subtract.
    pub(crate) delta: u64,
    /// Condition and effect on the CAS.
    pub(crate) cas: WriteCas,
    /// The value of a counter that `vivify` creates.
    pub(crate) initial: u64,
    /// The new time to live.
    pub(crate) touch: Option<i32>,
    /// Create a missing counter.
    pub(crate) vivify: Option<Vivify>,
    /// Whether to add or subtract.
    pub(crate) direction: Direction,
}

impl WriteCas {
    /// No condition on the present item's CAS; the new item gets the next CAS.
    pub(crate) const NEXT: Self = Self {
        compare: 0,
        explicit: 0,
        compares: false,
        is_explicit: false,
    };

    /// The present item must have the CAS `compare`, if given. The new item gets the CAS
    /// `explicit`, or the next one.
    #[inline]
    pub(crate) fn new(compare: Option<u64>, explicit: Option<u64>) -> Self {
        Self {
            compare: compare.unwrap_or(0),
            explicit: explicit.unwrap_or(0),
            compares: compare.is_some(),
            is_explicit: explicit.is_some(),
        }
    }

    /// The CAS that the present item must have.
    #[inline]
    pub(crate) fn compare(self) -> Option<u64> {
        self.compares.then_some(self.compare)
    }

    /// The new CAS. `None`: the next one.
    #[inline]
    pub(crate) fn explicit(self) -> Option<u64> {
        self.is_explicit.then_some(self.explicit)
    }
}

impl<'a> Key<'a> {
    /// The key of an operation without one.
    pub(crate) const NONE: Self = Self {
        bytes: b"",
        base64: false,
    };

    /// A key that is not encoded.
    #[inline]
    pub(crate) fn plain(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            base64: false,
        }
    }

    /// The decoded key.
    #[inline]
    pub(crate) fn decode<'b>(&self, buffer: &'b mut DecodeBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.base64 {
            return self.bytes;
        }
        self.decode_base64(buffer)
    }

    #[cold]
    fn decode_base64<'b>(&self, buffer: &'b mut DecodeBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        let (raw, base64) = (self.bytes, true);
        MetaKey { raw, base64 }.decode(buffer.insert([0; KEY_MAX]))
    }
}
