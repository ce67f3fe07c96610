//! The requests of clients, as values that borrow from the input.

mod administration;

pub use administration::{
    Classes, Crawler, DebugTime, DumpForm, PrefixAction, PrefixCommand, Streams, Tuning,
};

use crate::Rejection;

/// The result of parsing the front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// The line end has not arrived. The first `scanned` bytes need not be searched again.
    Incomplete {
        /// Bytes that contain no line end.
        scanned: usize,
    },
    /// One command.
    Request {
        /// The command.
        request: Request<'a>,
        /// Bytes of its line, line end included.
        len: usize,
    },
    /// An invalid line, which is answered without the store.
    Rejected {
        /// The error to reply.
        rejection: Rejection,
        /// Bytes of its line, line end included.
        len: usize,
        /// Bytes of the data block, including its line end, to skip after the line, so that they
        /// are not parsed as commands.
        swallow: u64,
    },
    /// The front of a line of keys that is longer than
    /// [`KEYS_LINE_MAX`](crate::limits::KEYS_LINE_MAX). [`next_keys`](crate::next_keys) finds the
    /// others.
    LongGet {
        /// The command, with the first keys. There may be none.
        get: Get<'a>,
        /// Bytes up to the end of these keys.
        len: usize,
    },
    /// The connection must be closed: the line is too long or an HTTP request.
    Fatal {
        /// The error to reply before.
        rejection: Rejection,
    },
}

/// One command. Times are as the client sent them: 0 means never, a negative number already
/// expired, up to thirty days is relative, and a larger number is a Unix second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`
    Get(Get<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`; a data block follows.
    Set(Set<'a>),
    /// `delete`
    Delete(Delete<'a>),
    /// `incr`, `decr`
    Arith(Arith<'a>),
    /// `touch`
    Touch(Touch<'a>),
    /// `flush_all`
    FlushAll(FlushAll),
    /// `version`
    Version,
    /// `verbosity`
    Verbosity {
        /// The requested level.
        level: u32,
        /// `noreply`: no reply.
        noreply: bool,
    },
    /// `cache_memlimit`
    CacheMemlimit {
        /// The requested limit in megabytes.
        megabytes: u32,
        /// `noreply`: no reply.
        noreply: bool,
    },
    /// `stats`
    Stats(Stats<'a>),
    /// `shutdown`
    Shutdown {
        /// The word behind it.
        mode: ShutdownMode,
        /// Suppress the reply.
        noreply: bool,
    },
    /// `watch`
    Watch(Streams),
    /// `lru_crawler`, except `sleep` and `tocrawl`.
    Crawler(Crawler),
    /// `lru`, `slabs`, `lru_crawler sleep` and `lru_crawler tocrawl`.
    Tune(Tuning),
    /// `debugtime`
    DebugTime(DebugTime),
    /// `prefix`
    Prefix(PrefixCommand<'a>),
    /// `quit`
    Quit,
    /// `mg`
    MetaGet(MetaGet<'a>),
    /// `ms`; a data block follows.
    MetaSet(MetaSet<'a>),
    /// `md`
    MetaDelete(MetaDelete<'a>),
    /// `ma`
    MetaArith(MetaArith<'a>),
    /// `mn`
    MetaNoop,
    /// `me`
    MetaDebug(MetaKey<'a>),
}

/// `get`, `gets` (`exptime` none) and `gat`, `gats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get<'a> {
    /// At least one key.
    pub keys: Keys<'a>,
    /// Reply with each item's CAS.
    pub with_cas: bool,
    /// The new time to live, of a get-and-touch.
    pub exptime: Option<i32>,
}

/// The front of the rest of a long line of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextKeys<'a> {
    /// The keys, with spaces around them.
    pub keys: Keys<'a>,
    /// What follows them.
    pub after: AfterKeys,
}

/// What follows some keys of a long line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterKeys {
    /// More of the line, which may not have arrived.
    More,
    /// The line end, of so many bytes.
    LineEnd(u8),
    /// A key that is too long. The rest of the line is to be skipped.
    BadKey,
}

/// Keys separated by spaces, each already checked to be 1 to 250 bytes long. Two are equal if they
/// have the same keys in the same order.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a> {
    /// The rest of the line.
    pub(crate) rest: &'a [u8],
    /// `rest` is one key and nothing else. This is the common case, and it saves searching for
    /// spaces again.
    pub(crate) is_single: bool,
}

/// How a storage command treats a present item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetMode {
    /// Store unconditionally.
    Set,
    /// Store only if the key is absent.
    Add,
    /// Store only if the key is present.
    Replace,
    /// Append to the present value.
    Append,
    /// Prepend to the present value.
    Prepend,
}

/// A classic storage command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set<'a> {
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// The client's own 32 bits.
    pub flags: u32,
    /// See [`Request`].
    pub exptime: i32,
    /// Bytes of the data block without its line end.
    pub value_len: u32,
    /// How to treat a present item; `Set` for `cas`.
    pub mode: SetMode,
    /// Store only if the present item has this CAS.
    pub cas: Option<u64>,
    /// `noreply`: no reply.
    pub noreply: bool,
}

/// `delete`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delete<'a> {
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// `noreply`: no reply.
    pub noreply: bool,
}

/// Whether a counter goes up or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithMode {
    /// Adds, and wraps at 2^64.
    Increment,
    /// Subtracts, and stops at zero.
    Decrement,
}

/// `incr`, `decr`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arith<'a> {
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// The number to add or subtract.
    pub delta: u64,
    /// Whether to add or subtract.
    pub mode: ArithMode,
    /// `noreply`: no reply.
    pub noreply: bool,
}

/// `touch`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch<'a> {
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// See [`Request`].
    pub exptime: i32,
    /// `noreply`: no reply.
    pub noreply: bool,
}

/// `flush_all`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushAll {
    /// When to flush, see [`Request`]. None, zero and negative numbers mean now.
    pub exptime: Option<i32>,
    /// `noreply`: no reply.
    pub noreply: bool,
}

/// The argument of `stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stats<'a> {
    /// `stats`
    General,
    /// `stats reset`
    Reset,
    /// `stats settings`
    Settings,
    /// `stats items`
    Items,
    /// `stats slabs`
    Slabs,
    /// `stats sizes`
    Sizes,
    /// `stats conns`
    Connections,
    /// `stats hotkeys`, which memcached does not have.
    HotKeys,
    /// `stats latency`, which memcached does not have.
    Latency,
    /// `stats curtail`, which memcached does not have: further statistics of this server.
    Curtail,
    /// `stats detail`
    Detail(Detail),
    /// `stats cachedump CLASS LIMIT`
    CacheDump {
        /// The slab class.
        class: u32,
        /// Maximum number of items to list.
        limit: u32,
    },
    /// Any other argument, with the rest of the line.
    Other(&'a [u8]),
}

/// `stats detail`: counts by key prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Detail {
    /// Count from now on.
    On,
    /// Count no longer.
    Off,
    /// Send the counts.
    Dump,
    /// Any other word, or none: answered with the usage.
    Usage,
}

/// `shutdown`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShutdownMode {
    /// Without a word behind it.
    Plain,
    /// `graceful`
    Graceful,
    /// Any other word: an error, where shutdown is allowed at all.
    Invalid,
}

/// A meta command's key as sent, and whether it is base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaKey<'a> {
    /// Text of the line, echoed for flag `k`.
    pub raw: &'a [u8],
    /// Flag `b`: `raw` is the key in base64. Already checked to decode to 1 to 250 bytes.
    pub base64: bool,
}

/// The flags of a meta command in the order sent, each already checked. Two are equal if they have
/// the same flags in the same order.
#[derive(Debug, Clone, Copy)]
pub struct MetaFlags<'a> {
    /// The rest of the line.
    pub(crate) rest: &'a [u8],
}

/// One meta flag: its letter and its token, which may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaFlag<'a> {
    /// The letter.
    pub letter: u8,
    /// The text after the letter.
    pub token: &'a [u8],
}

/// `N` of `mg` and `ma`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaVivify {
    /// The token of `N`: the time to live that a `t` after it shows.
    pub exptime: i32,
    /// The time to live of the created item: that of `N`, or of a `T` after it, as in memcached
    /// 1.6.45.
    pub final_exptime: i32,
}

/// `mg`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaGet<'a> {
    /// The item's key.
    pub key: MetaKey<'a>,
    /// All flags in order, for the reply.
    pub flags: MetaFlags<'a>,
    /// `v`: reply with the value.
    pub with_value: bool,
    /// `q`: no reply on a miss.
    pub quiet: bool,
    /// `T`: the new time to live.
    pub touch: Option<i32>,
    /// `N`: create a missing item, empty.
    pub vivify: Option<MetaVivify>,
    /// `E`: the CAS of a created item.
    pub explicit_cas: Option<u64>,
    /// `R`: give this client the recache token if the item expires before this time.
    pub recache: Option<i32>,
    /// `R` follows `T`, so it compares with the time to live of `T`.
    pub recache_after_touch: bool,
    /// `u`: do not count this as an access.
    pub no_bump: bool,
    /// `C`: omit the value (reply `HD`) if the item has this CAS.
    pub known_cas: Option<u64>,
}

/// `ms`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaSet<'a> {
    /// The item's key.
    pub key: MetaKey<'a>,
    /// All flags in order, for the reply.
    pub flags: MetaFlags<'a>,
    /// Bytes of the data block without its line end.
    pub value_len: u32,
    /// `M`. With `compare`, both `Set` and `Replace` store only if the item is present and
    /// unchanged.
    pub mode: SetMode,
    /// `F`: the client's own 32 bits.
    pub client_flags: u32,
    /// `T`, or `N` if it applies (see `vivify`).
    pub exptime: i32,
    /// `N`: `Append` and `Prepend` store the value if the key is absent.
    pub vivify: bool,
    /// `C`: store only if the present item has this CAS.
    pub compare: Option<u64>,
    /// `E`: the item's new CAS.
    pub explicit_cas: Option<u64>,
    /// `I`: if `compare` is below the present CAS, store the value and mark it stale.
    pub invalidate: bool,
    /// `q`: no reply on success.
    pub quiet: bool,
}

/// `md`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaDelete<'a> {
    /// The item's key.
    pub key: MetaKey<'a>,
    /// All flags in order, for the reply.
    pub flags: MetaFlags<'a>,
    /// `C`: delete only if the present item has this CAS.
    pub compare: Option<u64>,
    /// `I`: mark the item stale instead of deleting it.
    pub invalidate: bool,
    /// `x`: remove the item's value instead of deleting the item.
    pub remove_value: bool,
    /// `T`: the new time to live, with `I` or `x`.
    pub touch: Option<i32>,
    /// `F`: the client's own 32 bits, with `x`.
    pub client_flags: u32,
    /// `E`: the item's new CAS, with `I` or `x`.
    pub explicit_cas: Option<u64>,
    /// `q`: no reply on success.
    pub quiet: bool,
}

/// `ma`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaArith<'a> {
    /// The item's key.
    pub key: MetaKey<'a>,
    /// All flags in order, for the reply.
    pub flags: MetaFlags<'a>,
    /// `D`, by default 1.
    pub delta: u64,
    /// `M`
    pub mode: ArithMode,
    /// `J`: the initial value of a created counter.
    pub initial: u64,
    /// `N`: create a missing counter.
    pub vivify: Option<MetaVivify>,
    /// `T`: the new time to live.
    pub touch: Option<i32>,
    /// `C`: change only if the present item has this CAS.
    pub compare: Option<u64>,
    /// `E`: the item's new CAS.
    pub explicit_cas: Option<u64>,
    /// `v`: reply with the number.
    pub with_value: bool,
    /// `q`: no reply on success.
    pub quiet: bool,
}
