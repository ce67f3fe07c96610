//! What a client requests, independent of its protocol.
//!
//! A decoder turns a command into an [`Operation`], `execute` runs the operation, and an encoder
//! writes its [`Outcome`](crate::outcome::Outcome). The parts of a command that only the reply
//! needs are not in the operation but in the [`Encoder`](crate::protocols::Encoder). Examples are
//! `noreply`, the order of the flags of a meta command, and its opaque (a text that the reply
//! repeats).
//!
//! Fields named `exptime` or `touch` are times to live as the client sent them, except that the
//! `exptime` of a flush is the time of the flush. [`Now::expiry`](crate::Now::expiry) defines the
//! meaning of a time to live.

use protocol::limits::KEY_MAX;
use protocol::{
    Crawler, DebugTime, Keys, MetaKey, PrefixCommand, Rejection, ShutdownMode, Stats, Streams,
    Tuning,
};
use store::{Direction, Mode, SizeClass};

use crate::login::Login;

/// What to do with a key, or with the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation<'a> {
    /// Returns the item.
    Read(ReadOptions),
    /// Returns the items of several keys. If the output has no space for all items, the
    /// session writes the rest in later turns.
    ReadMany {
        /// The keys.
        keys: Keys<'a>,
        /// The new time to live.
        touch: Option<i32>,
    },
    /// Stores the value that follows the command.
    Store(StoreOptions),
    /// Deletes the item.
    Delete {
        /// Delete the item only if it has this CAS.
        compare: Option<u64>,
    },
    /// Marks the item stale, or empties its value, or both (`md` with `I` or `x`).
    Mark(MarkOptions),
    /// Adds to a counter (an item whose value is a decimal number), or subtracts from it.
    Arith(ArithOptions),
    /// Changes the time to live of the item.
    Touch {
        /// The new time to live.
        exptime: i32,
    },
    /// Flushes all items.
    Flush {
        /// The time of the flush. `None`, zero and negative numbers mean now
        /// ([`Now::flush_second`](crate::Now::flush_second)).
        exptime: Option<i32>,
    },
    /// A command to the server.
    Server(ServerCommand<'a>),
    /// Replies, without any other effect (`mn`).
    Noop,
    /// Replies as the protocol requires, then closes the connection.
    Quit,
    /// Logs in, and replies.
    Login(Login<'a>),
    /// Replies with the mechanisms of SASL.
    ListMechanisms,
    /// Replies with an error, then closes the connection, because the next command cannot be found.
    RejectAndClose {
        /// The error. [`Rejection::Silent`]: the connection closes without a reply.
        rejection: Rejection,
    },
    /// Replies with an error.
    Reject {
        /// The error.
        rejection: Rejection,
        /// The number of bytes to skip after the command line, because they are the value of an
        /// invalid storage command.
        swallow: u64,
    },
}

/// A command to the server, which concerns no item.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerCommand<'a> {
    /// Returns the version.
    Version,
    /// Sets how much detail the server writes to standard error.
    Verbosity(u32),
    /// Changes the memory limit.
    MemoryLimit {
        /// The new limit.
        megabytes: u32,
    },
    /// Returns or resets statistics, or turns counting by key prefix on or off.
    Stats(Stats<'a>),
    /// Stops the server.
    Shutdown(ShutdownMode),
    /// Requests streams of log lines.
    Watch(Streams),
    /// Lists items or removes expired ones.
    Crawler(Crawler),
    /// Changes a setting of memcached that Curtail accepts, but that has no effect.
    Tune(Tuning),
    /// Stops, resumes or advances the server's clock.
    DebugTime(DebugTime),
    /// Lists, counts or deletes items by the beginning of their keys.
    Prefix(PrefixCommand<'a>),
}

/// The key of an operation, as the client sent it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key<'a> {
    /// The key, 1 to 250 bytes, possibly encoded. Empty if the operation has no key.
    pub(crate) bytes: &'a [u8],
    /// Whether `bytes` are the key in base64. The parser has checked that they can be decoded.
    pub(crate) base64: bool,
}

/// Space for a decoded key. It stays `None` for a key that is not in base64, which saves zeroing
/// the array.
pub(crate) type DecodeBuffer = Option<[u8; KEY_MAX]>;

/// The options of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOptions {
    /// The new time to live.
    pub(crate) touch: Option<i32>,
    /// The rarely used options. They share one `Option`, so that a read without any of them needs
    /// only one comparison.
    pub(crate) rare: Option<RareReadOptions>,
    /// Whether to return the value.
    pub(crate) with_value: bool,
    /// Whether to claim the item if it is stale. One client wins the claim, and should recompute
    /// the value.
    pub(crate) claim_stale: bool,
    /// If true, the read is not recorded as an access. It then changes neither the item's last
    /// access time nor the data of the eviction policy.
    pub(crate) untracked: bool,
    /// How the statistics count the read.
    pub(crate) count: ReadCount,
}

impl ReadOptions {
    /// The options of a read that returns the value and sets the time to live `touch`, if given.
    pub(crate) const fn plain(touch: Option<i32>) -> Self {
        Self {
            touch,
            rare: None,
            with_value: true,
            claim_stale: false,
            untracked: false,
            count: ReadCount::Access,
        }
    }

    /// The times to live of the item if this request has created it, or else `None`.
    pub(crate) fn created(&self) -> Option<Vivify> {
        match self.rare?.vivify {
            ReadVivify::AlreadyCreated(vivify) => Some(vivify),
            ReadVivify::Never | ReadVivify::IfMissing(_) => None,
        }
    }
}

/// The rarely used options of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RareReadOptions {
    /// Claim an item that expires soon (memcached's recache, flag `R`).
    pub(crate) recache: Option<Recache>,
    /// Create a missing item (memcached's vivify, flag `N`).
    pub(crate) vivify: ReadVivify,
    /// The CAS of the item that `vivify` creates. `None`: the store assigns its next number.
    pub(crate) explicit_cas: Option<u64>,
    /// Omit the value if the item has this CAS, because the client has that value already.
    pub(crate) known_cas: Option<u64>,
}

/// How the statistics count a read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadCount {
    /// As a touch if the read sets the time to live, or else as a get.
    Access,
    /// Like `Access`, except that every miss counts as a get.
    MissAsGet,
    /// As a request for metadata (`me`), and neither as a touch nor as a get.
    Metadata,
}

/// When a read claims an item that is not stale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recache {
    /// Claim the item if it expires before this time. Zero: do not claim it.
    pub(crate) exptime: i32,
    /// Whether to compare the expiry that this read sets. If false, the expiry that the item has
    /// before the read is compared.
    pub(crate) compare_new_expiry: bool,
}

/// Whether a read creates an empty item if the key has no item (memcached calls this vivify).
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadVivify {
    /// The read creates no item.
    Never,
    /// The read creates an item if the key has none.
    IfMissing(Vivify),
    /// The read has already created the item, and now reads it. Only execution sets this value,
    /// after a read with `IfMissing` has missed.
    AlreadyCreated(Vivify),
}

/// The times to live of an item that is created because the key has none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vivify {
    /// The time to live that the reply shows, from the flag `N`.
    pub(crate) reply_exptime: i32,
    /// The time to live that the item gets, from a flag `T` after `N`, or else from `N`.
    pub(crate) exptime: i32,
}

/// The CAS that a write requires of the present item, and the CAS that it gives the new item.
///
/// The type does not consist of two `Option<u64>`, because these would take 32 bytes instead of 24.
/// It is part of the largest operation, so its size adds to the size of every prepared request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteCas {
    compare: u64,
    explicit: u64,
    compares: bool,
    is_explicit: bool,
}

/// The options of a storage command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreOptions {
    /// The CAS that the present item must have, and the CAS of the new item.
    pub(crate) cas: WriteCas,
    /// The client flags: 32 bits that are stored with the item.
    pub(crate) flags: u32,
    /// The time to live.
    pub(crate) exptime: i32,
    /// Length of the value in bytes.
    pub(crate) value_len: u32,
    /// The mode: for example, `Add` requires that the key has no item, and `Replace` that it has
    /// one.
    pub(crate) mode: Mode,
    /// If the CAS to compare is below the CAS of the present item: whether to store the value and
    /// mark it stale, instead of rejecting it.
    pub(crate) invalidate: bool,
    /// Whether `Append` and `Prepend` create the item if the key has none.
    pub(crate) vivify: bool,
    /// Whether to delete the present item if the value is too large or there is no memory for it.
    /// The client meant to replace the present item, so no client may read its value any more.
    pub(crate) delete_old_if_rejected: bool,
}

impl StoreOptions {
    /// The size class of an item that has exactly the value of the command. After an append, the
    /// class of the stored item may be larger.
    #[inline]
    pub(crate) fn size_class(&self, key: &[u8]) -> SizeClass {
        SizeClass::of(key.len(), self.flags, self.value_len as usize)
    }
}

/// The options of `md` with the flag `I` or `x`. Such a command changes the item instead of
/// deleting it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MarkOptions {
    /// The CAS that the item must have, and its CAS afterwards.
    pub(crate) cas: WriteCas,
    /// Whether the item becomes stale.
    pub(crate) invalidate: bool,
    /// If given, the value becomes empty, and the item gets these client flags.
    pub(crate) remove_value_and_set_flags: Option<u32>,
    /// The new time to live.
    pub(crate) exptime: Option<i32>,
}

/// The options of an operation that adds to a counter or subtracts from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArithOptions {
    /// The number to add or subtract.
    pub(crate) delta: u64,
    /// The CAS that the counter must have, and its CAS afterwards.
    pub(crate) cas: WriteCas,
    /// The value of a counter that `vivify` creates.
    pub(crate) initial: u64,
    /// The new time to live.
    pub(crate) touch: Option<i32>,
    /// If given, create a missing counter.
    pub(crate) vivify: Option<Vivify>,
    /// Whether to add or subtract.
    pub(crate) direction: Direction,
}

impl WriteCas {
    /// The present item may have any CAS. The store assigns its next number to the new item.
    pub(crate) const NEXT: Self = Self {
        compare: 0,
        explicit: 0,
        compares: false,
        is_explicit: false,
    };

    /// The present item must have the CAS `compare`, if given. The new item gets the CAS
    /// `explicit`, if given, or else the store's next number.
    #[inline]
    pub(crate) fn new(compare: Option<u64>, explicit: Option<u64>) -> Self {
        Self {
            compare: compare.unwrap_or(0),
            explicit: explicit.unwrap_or(0),
            compares: compare.is_some(),
            is_explicit: explicit.is_some(),
        }
    }

    /// The CAS that the present item must have. `None`: any.
    #[inline]
    pub(crate) fn compare(self) -> Option<u64> {
        self.compares.then_some(self.compare)
    }

    /// The CAS that the new item gets. `None`: the store assigns its next number.
    #[inline]
    pub(crate) fn explicit(self) -> Option<u64> {
        self.is_explicit.then_some(self.explicit)
    }
}

impl<'a> Key<'a> {
    /// The key of an operation that has no key.
    pub(crate) const NONE: Self = Self {
        bytes: b"",
        base64: false,
    };

    /// A key that is not in base64.
    #[inline]
    pub(crate) fn plain(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            base64: false,
        }
    }

    /// Returns the key without its encoding. If the key is in base64, it is decoded into `buffer`.
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
