//! The outcome of an operation, independent of the client's protocol.

use protocol::Rejection;
use store::Expiry;

use crate::encode::EncodedItem;
use crate::login::LoginOutcome;
use crate::now::Now;
use crate::operation::ReadOptions;

/// The outcome of an operation, without the items that a read found. Items are borrowed from the
/// store only during the read, so the encoder writes them during the read
/// ([`Encode::item`](crate::encode::Encode::item)).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    /// A read of one key is complete. If the key has an item, the item has been written to the
    /// output.
    Read {
        /// Whether the key has an item.
        found: bool,
    },
    /// A read of several keys is complete. The items that it found have been written to the output.
    ReadMany,
    /// The outcome of a storage command.
    Store(StoreOutcome),
    /// The outcome of a deletion or a mark. (A mark makes an item stale, or empties its value, or
    /// both.)
    Delete(DeleteOutcome),
    /// The outcome of an addition to a counter, or of a subtraction from it.
    Arith(ArithOutcome),
    /// A touch is complete.
    Touch {
        /// Whether the key has an item.
        found: bool,
    },
    /// The outcome of a flush, or of a command to the server.
    Server(ServerOutcome),
    /// A command without effect (`mn`) is complete.
    Noop,
    /// The connection closes at the client's request.
    Quit,
    /// The outcome of a login.
    Login(LoginOutcome),
    /// The reply is the list of SASL mechanisms.
    Mechanisms,
    /// The request was invalid.
    Rejected(Rejection),
    /// The request was not executed, or it is unknown whether it was. This occurs only if the items
    /// are in a memory pool.
    Failed {
        /// The reply, a line with its line end.
        reply: &'static [u8],
    },
}

/// The outcome of a storage command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StoreOutcome {
    /// The value was stored.
    Stored {
        /// The item's CAS.
        cas: u64,
        /// Length of the item's complete value in bytes. After an append it is longer than the
        /// value that the client sent.
        value_len: u32,
    },
    /// The condition of the mode did not hold: for example, the command is an `add`, and its key
    /// has an item. Or the command is an append or a prepend, and either the joined value would be
    /// too long or there was no memory for it.
    NotStored {
        /// Length of the value that the client sent, in bytes.
        value_len: u32,
    },
    /// The item's CAS is not the one that the command requires.
    Exists {
        /// Length of the value that the client sent, in bytes.
        value_len: u32,
    },
    /// The command compares the CAS, but the key has no item.
    NotFound {
        /// Length of the value that the client sent, in bytes.
        value_len: u32,
    },
    /// The client announced the length of the value. The bytes after a value of that length are not
    /// the expected line end.
    BadDataChunk,
    /// The value is longer than the store accepts.
    TooLarge,
    /// There is no memory for the value.
    NoMemory,
}

/// The outcome of a deletion or a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeleteOutcome {
    /// The item was deleted or marked.
    Done,
    /// The key has no item.
    NotFound,
    /// The item's CAS is not the one that the command requires.
    Exists,
    /// There is no memory for the marked item.
    NoMemory,
}

/// The outcome of an addition to a counter, or of a subtraction from it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArithOutcome {
    /// The counter was changed or created.
    Counted {
        /// The value of the counter.
        value: u64,
        /// The CAS of the counter.
        cas: u64,
        /// The expiry of the counter before and after this request.
        times: Times,
    },
    /// The key has no item.
    NotFound,
    /// The item's value is not a number.
    NotNumeric,
    /// The item's CAS is not the one that the command requires.
    Exists,
    /// There is no memory for the new value.
    NoMemory,
}

/// The outcome of a flush, or of a command to the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerOutcome {
    /// The command was executed.
    Done,
    /// The version.
    Version(&'static [u8]),
    /// All statistics have been written. The encoder then writes the end of the list.
    StatsEnd,
    /// The statistics were reset.
    StatsReset,
    /// The argument of `stats detail`, which counts by key prefix, was invalid.
    BadDetail,
    /// The mode of a shutdown was invalid.
    BadShutdownMode,
    /// The memory limit is too small.
    MemoryLimitTooSmall,
    /// The memory limit is so large that the client probably gave it in bytes, not in megabytes.
    MemoryLimitInBytes,
    /// The store rejects the memory limit.
    MemoryLimitRejected,
    /// The server's flags disable the command.
    NotAllowed(Restricted),
    /// The request came in a datagram, but writing its reply takes several turns of the session. A
    /// datagram is answered in one turn.
    NotInDatagrams,
    /// Too many clients receive log lines already.
    TooManyWatchers,
    /// Dumps and crawls are disabled.
    CrawlerDisabled,
    /// Another dump or crawl is in progress.
    CrawlerBusy,
    /// The command was to enable dumps and crawls, but they are enabled already. The name is that
    /// of memcached's reply: the crawler's thread was not started.
    CrawlerNotStarted,
    /// The client tried to set the clock back, or too far forward.
    ClockOnlyForward,
    /// The server does not have this command.
    Unsupported,
}

/// A command that can be enabled or disabled by a flag of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restricted {
    Flush,
    Watch,
    CacheDump,
    Metadump,
    Mgdump,
    Detail,
    Shutdown,
    PrefixList,
    PrefixDelete,
}

/// An item that a read found. A reference to an item of the store is valid only in the closure to
/// which the store passes it.
pub(crate) struct FoundItem<'a, I> {
    /// The decoded key.
    pub(crate) key: &'a [u8],
    pub(crate) item: &'a I,
    /// Whether the reply contains the value.
    pub(crate) with_value: bool,
    /// The options of the read.
    pub(crate) options: &'a ReadOptions,
    pub(crate) now: &'a Now,
}

impl<I: EncodedItem> FoundItem<'_, I> {
    /// Computes the times of the item. They are not fields of this type, because most replies show
    /// none of them.
    #[inline]
    pub(crate) fn times(&self) -> Times {
        let expiry = |exptime| self.now.expiry(exptime);
        // The times to live of the item, if this request has created it (memcached's vivify).
        let created = self.options.created();
        Times {
            now_s: self.now.elapsed_s,
            before: self.item.expiry(),
            touched: self.options.touch.map(expiry),
            vivified: created.map(|vivify| expiry(vivify.reply_exptime)),
        }
    }
}

/// The times of an item that a reply may show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The time of the request, in seconds of the server's clock.
    pub(crate) now_s: u32,
    /// The expiry of the item before this request.
    pub(crate) before: Expiry,
    /// The expiry that this request set. `None` if the request set none.
    pub(crate) touched: Option<Expiry>,
    /// The expiry that the reply shows for an item created by this request. `None` if the request
    /// did not create the item.
    pub(crate) vivified: Option<Expiry>,
}
