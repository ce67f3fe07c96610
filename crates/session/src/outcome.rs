//! The outcome of an operation, independent of the client's protocol.

use protocol::Rejection;
use store::{Expiry, Item};

use crate::now::Now;
use crate::operation::ReadOptions;

/// The outcome of an operation. It does not contain items: they are borrowed from the store, and
/// the encoder writes them during the read ([`Encode::item`](crate::encode::Encode::item)).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    /// A read of one key is complete. If found, the item has been written.
    Read {
        /// The key has an item.
        found: bool,
    },
    /// A read of several keys is complete, and the items found have been written.
    ReadMany,
    /// The outcome of a store.
    Store(StoreOutcome),
    /// The outcome of a deletion or a mark.
    Delete(DeleteOutcome),
    /// The outcome of arithmetic.
    Arith(ArithOutcome),
    /// A touch is complete.
    Touch {
        /// The key has an item.
        found: bool,
    },
    /// The outcome of a command to the server, or of a flush.
    Server(ServerOutcome),
    /// An operation that does nothing is complete.
    Noop,
    /// The connection closes at the client's request.
    Quit,
    /// The request was invalid.
    Rejected(Rejection),
}

/// The outcome of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StoreOutcome {
    /// The value was stored.
    Stored {
        /// The item's CAS.
        cas: u64,
        /// Bytes of the item's whole value.
        value_len: u32,
    },
    /// The condition of the mode did not hold, or there is no space for the joined value.
    NotStored {
        /// Bytes of the value sent.
        value_len: u32,
    },
    /// The item has another CAS.
    Exists {
        /// Bytes of the value sent.
        value_len: u32,
    },
    /// There is no item to compare with.
    NotFound {
        /// Bytes of the value sent.
        value_len: u32,
    },
    /// The value does not end as announced.
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
    /// There is no item.
    NotFound,
    /// The item has another CAS.
    Exists,
    /// There is no memory for the marked item.
    NoMemory,
}

/// The outcome of arithmetic.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArithOutcome {
    /// The counter was changed or created.
    Counted {
        /// The value of the counter.
        value: u64,
        /// The CAS of the counter.
        cas: u64,
        /// The times of the counter.
        times: Times,
    },
    /// There is no counter.
    NotFound,
    /// The value is not a number.
    NotNumeric,
    /// The item has another CAS.
    Exists,
    /// There is no memory for the new value.
    NoMemory,
}

/// The outcome of a command to the server, or of a flush.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerOutcome {
    /// The command was executed.
    Done,
    /// The version.
    Version(&'static [u8]),
    /// All statistics have been written.
    StatsEnd,
    /// The statistics were reset.
    StatsReset,
    /// The arguments of a count by key prefix were invalid.
    BadDetail,
    /// The mode of a shutdown was invalid.
    BadShutdownMode,
    /// The memory limit is too small.
    MemoryLimitTooSmall,
    /// The memory limit is so large that it must have been meant in bytes.
    MemoryLimitInBytes,
    /// The store rejects the memory limit.
    MemoryLimitRejected,
    /// The server's flags disable the command.
    NotAllowed(Restricted),
    /// The server does not have this command.
    Unsupported,
}

/// The commands that the server's flags disable or have to enable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restricted {
    Flush,
    Watch,
    CacheDump,
    Detail,
    Shutdown,
}

/// An item that was found, while the store passes it to a closure.
pub(crate) struct FoundItem<'a> {
    /// The decoded key.
    pub(crate) key: &'a [u8],
    pub(crate) item: &'a Item<'a>,
    /// The value is to be sent.
    pub(crate) with_value: bool,
    /// The options of the read.
    pub(crate) options: &'a ReadOptions,
    pub(crate) now: &'a Now,
}

impl FoundItem<'_> {
    /// The times of the item. Computed on demand: most reads show none.
    #[inline]
    pub(crate) fn times(&self) -> Times {
        let expiry = |exptime| self.now.expiry(exptime);
        Times {
            now_s: self.now.elapsed_s,
            before: self.item.expiry,
            touched: self.options.touch.map(expiry),
            vivified: self
                .options
                .created()
                .map(|vivify| expiry(vivify.shown_exptime)),
        }
    }
}

/// The times of an item, as a reply may show them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The time of the request, in seconds.
    pub(crate) now_s: u32,
    /// The expiry before this request.
    pub(crate) before: Expiry,
    /// The expiry that the request set.
    pub(crate) touched: Option<Expiry>,
    /// If the request created the item: the expiry to show for that.
    pub(crate) vivified: Option<Expiry>,
}
