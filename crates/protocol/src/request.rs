//! What a client may ask, as values that borrow from the input.

use crate::Rejection;

/// The outcome of looking at the front of the input for one command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// No line end yet; the first `scanned` bytes need not be searched again.
    Incomplete {
        /// Bytes already searched for a line end.
        scanned: usize,
    },
    /// One command.
    Request {
        /// The command.
        request: Request<'a>,
        /// Bytes of its line, line end included.
        len: usize,
    },
    /// A line that is answered without asking the store.
    Rejected {
        /// What to say.
        rejection: Rejection,
        /// Bytes of its line, line end included.
        len: usize,
        /// Bytes of the data block (its line end included) to drop after the line, so that the
        /// stream is kept.
        swallow: u64,
    },
    /// The conversation cannot go on (line too long, an HTTP request): close, say nothing.
    Fatal,
}

/// One command. Times are as the client sent them: 0 never, negative already expired, up to
/// thirty days relative, above that unix seconds.
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
        /// The level asked for.
        level: u32,
        /// No answer wanted.
        noreply: bool,
    },
    /// `cache_memlimit`
    CacheMemlimit {
        /// The memory asked for, in megabytes.
        megabytes: u32,
        /// No answer wanted.
        noreply: bool,
    },
    /// `stats`
    Stats(Stats<'a>),
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
    /// Answer with each item's CAS.
    pub with_cas: bool,
    /// The new time to live, of a get-and-touch.
    pub exptime: Option<i32>,
}

/// Keys separated by spaces, each already known to be 1 to 250 bytes long. Equal if they have
/// the same keys in the same order.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a> {
    /// The rest of the line.
    pub(crate) rest: &'a [u8],
    /// That is one key and nothing else, as nearly always: nobody need look for spaces again.
    pub(crate) is_single: bool,
}

/// How a storage command treats what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetMode {
    /// Store whatever is there.
    Set,
    /// Only if absent.
    Add,
    /// Only if present.
    Replace,
    /// Behind the present value.
    Append,
    /// Before the present value.
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
    /// What to do with what is there (`Set` for `cas`).
    pub mode: SetMode,
    /// Store only if the present item's CAS is this one.
    pub cas: Option<u64>,
    /// No answer wanted.
    pub noreply: bool,
}

/// `delete`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delete<'a> {
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// No answer wanted.
    pub noreply: bool,
}

/// Which way arithmetic goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithMode {
    /// Wraps at 2^64.
    Increment,
    /// Stops at zero.
    Decrement,
}

/// `incr`, `decr`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arith<'a> {
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// How far.
    pub delta: u64,
    /// Which way.
    pub mode: ArithMode,
    /// No answer wanted.
    pub noreply: bool,
}

/// `touch`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch<'a> {
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// See [`Request`].
    pub exptime: i32,
    /// No answer wanted.
    pub noreply: bool,
}

/// `flush_all`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushAll {
    /// When, by the rule of times; none or not above zero: now.
    pub exptime: Option<i32>,
    /// No answer wanted.
    pub noreply: bool,
}

/// `stats`: which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stats<'a> {
    /// `stats`
    General,
    /// `stats reset`
    Reset,
    /// `stats settings`
    Settings,
    /// `stats hotkeys`; not memcached's.
    HotKeys,
    /// `stats cachedump CLASS LIMIT`
    CacheDump {
        /// The class of slabs.
        class: u32,
        /// How many of its items.
        limit: u32,
    },
    /// Any other word, with what follows it.
    Other(&'a [u8]),
}

/// A meta command's key as sent, and whether it is base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaKey<'a> {
    /// As it stood on the line; echoed for flag `k`.
    pub raw: &'a [u8],
    /// Flag `b`: `raw` is base64 of the key. Already checked to decode to 1 to 250 bytes.
    pub base64: bool,
}

/// The flags of a meta command in the order sent, each already checked. Equal if they have the
/// same flags in the same order.
#[derive(Debug, Clone, Copy)]
pub struct MetaFlags<'a> {
    /// The rest of the line.
    pub(crate) rest: &'a [u8],
}

/// One meta flag: its letter and its token (empty where it has none).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaFlag<'a> {
    /// The letter.
    pub letter: u8,
    /// What follows the letter.
    pub token: &'a [u8],
}

/// `N` of `mg` and `ma`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaVivify {
    /// Its token: the time to live that `t` shows behind it.
    pub exptime: i32,
    /// The time to live of what is created: that of `N`, or of a `T` behind it, as that is what
    /// 1.6.45 leaves behind.
    pub final_exptime: i32,
}

/// `mg`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaGet<'a> {
    /// Which item.
    pub key: MetaKey<'a>,
    /// For the echo, in order.
    pub flags: MetaFlags<'a>,
    /// `v`: the value is wanted.
    pub with_value: bool,
    /// `q`: say nothing on a miss.
    pub quiet: bool,
    /// `T`: the new time to live.
    pub touch: Option<i32>,
    /// `N`: create a missing item, empty.
    pub vivify: Option<MetaVivify>,
    /// `E`: the CAS a created item gets.
    pub explicit_cas: Option<u64>,
    /// `R`: ask for a new value if the item expires before this time.
    pub recache: Option<i32>,
    /// `R` stands behind `T`, whose time to live it looks at then.
    pub recache_after_touch: bool,
    /// `u`: do not count this as an access.
    pub no_bump: bool,
    /// `C`: leave the value out (answer `HD`) if the item's CAS is this one.
    pub known_cas: Option<u64>,
}

/// `ms`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaSet<'a> {
    /// Which item.
    pub key: MetaKey<'a>,
    /// For the echo, in order.
    pub flags: MetaFlags<'a>,
    /// Bytes of the data block without its line end.
    pub value_len: u32,
    /// `M`. With `compare`, `Set` and `Replace` alike mean: only if present and unchanged.
    pub mode: SetMode,
    /// `F`: the client's own 32 bits.
    pub client_flags: u32,
    /// `T`; or `N`, where that creates the item.
    pub exptime: i32,
    /// `N`: `Append` and `Prepend` store the value if nothing is there.
    pub vivify: bool,
    /// `C`: store only if the present item's CAS is this one.
    pub compare: Option<u64>,
    /// `E`: the CAS the item gets.
    pub explicit_cas: Option<u64>,
    /// `I`: if `compare` is below the present CAS, store and mark stale.
    pub invalidate: bool,
    /// `q`: say nothing on success.
    pub quiet: bool,
}

/// `md`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaDelete<'a> {
    /// Which item.
    pub key: MetaKey<'a>,
    /// For the echo, in order.
    pub flags: MetaFlags<'a>,
    /// `C`: delete only if the present item's CAS is this one.
    pub compare: Option<u64>,
    /// `I`: do not delete it but mark it stale.
    pub invalidate: bool,
    /// `x`: do not delete it but take its value away.
    pub remove_value: bool,
    /// `T`: the new time to live, with `I` or `x`.
    pub touch: Option<i32>,
    /// `F`: the client's own 32 bits, with `x`.
    pub client_flags: u32,
    /// `E`: the CAS the item gets, with `I` or `x`.
    pub explicit_cas: Option<u64>,
    /// `q`: say nothing on success.
    pub quiet: bool,
}

/// `ma`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaArith<'a> {
    /// Which item.
    pub key: MetaKey<'a>,
    /// For the echo, in order.
    pub flags: MetaFlags<'a>,
    /// `D`, 1 unless said.
    pub delta: u64,
    /// `M`
    pub mode: ArithMode,
    /// `J`, the value a vivified counter gets.
    pub initial: u64,
    /// `N`: create a missing counter.
    pub vivify: Option<MetaVivify>,
    /// `T`: the new time to live.
    pub touch: Option<i32>,
    /// `C`: only if the present item's CAS is this one.
    pub compare: Option<u64>,
    /// `E`: the CAS the item gets.
    pub explicit_cas: Option<u64>,
    /// `v`: the number is wanted.
    pub with_value: bool,
    /// `q`: say nothing on success.
    pub quiet: bool,
}
