//! The requests of administrators.

/// `lru_crawler`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crawler {
    /// `enable`
    Enable,
    /// `disable`
    Disable,
    /// `crawl`: removes expired items.
    Crawl(Classes),
    /// `metadump` and `mgdump`: lists items.
    Dump(DumpForm, Classes),
}

/// The form of a list of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpForm {
    /// Keys with properties of their items.
    Metadump,
    /// Meta commands that read the keys.
    Mgdump,
}

/// A set of slab classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classes(u64);

impl Classes {
    /// No class.
    pub const NONE: Self = Self(0);
    /// All classes.
    pub const ALL: Self = Self(u64::MAX);

    /// Adds a class, whose number must be below [`SLAB_CLASSES`](crate::limits::SLAB_CLASSES).
    pub fn insert(&mut self, number: u32) {
        self.0 |= 1_u64.checked_shl(number).unwrap_or(0);
    }

    /// Whether the set has this class.
    #[must_use]
    pub fn contains(self, number: u32) -> bool {
        self.0 & 1_u64.checked_shl(number).unwrap_or(0) != 0
    }
}

/// A change of a setting of memcached's LRU lists, slab pages or crawler. Fractions are in
/// thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are memcached's own")]
pub enum Tuning {
    /// `lru mode`
    LruSegmented(bool),
    /// `lru tune`
    LruShares {
        hot_percent: u32,
        warm_percent: u32,
        hot_factor: i64,
        warm_factor: i64,
    },
    /// `lru temp_ttl`, in seconds. `None`: there is no list of such items.
    TemporaryTtl(Option<u32>),
    /// `slabs automove`
    AutomoveLevel(u32),
    /// `slabs automove ratio`
    AutomoveRatio(i64),
    /// `slabs automove freeratio`
    AutomoveFreeRatio(i64),
    /// `slabs automove window`
    AutomoveWindow { window_s: u32 },
    /// `lru_crawler sleep`
    CrawlerSleep { us: u32 },
    /// `lru_crawler tocrawl`
    CrawlerItems(u32),
}

/// `debugtime`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DebugTime {
    /// `p`: the clock stops.
    Pause,
    /// `r`: the clock goes on, as if it had not been stopped.
    Resume,
    /// A number: the clock moves forward by as many seconds.
    Advance {
        /// How far. A negative number would move the clock back.
        seconds: i64,
    },
}

/// `prefix`, which memcached does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixCommand<'a> {
    /// What to do with the items.
    pub action: PrefixAction,
    /// The beginning of their keys: 1 to 250 bytes.
    pub prefix: &'a [u8],
}

/// What `prefix` does with the items whose keys begin with a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixAction {
    /// `list`
    List,
    /// `count`
    Count,
    /// `delete`
    Delete,
}

impl PrefixAction {
    /// All actions, and their words.
    pub const ALL: [(&'static str, Self); 3] = [
        ("list", Self::List),
        ("count", Self::Count),
        ("delete", Self::Delete),
    ];
}

/// A set of streams of log lines (`watch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Streams(u16);

impl Streams {
    /// No stream.
    pub const NONE: Self = Self(0);
    /// Reads of items.
    pub const FETCHERS: Self = Self(1);
    /// Storage commands.
    pub const MUTATIONS: Self = Self(1 << 1);
    /// Evictions of items.
    pub const EVICTIONS: Self = Self(1 << 2);
    /// Opened and closed connections.
    pub const CONNEVENTS: Self = Self(1 << 3);
    /// Deletions of items.
    pub const DELETIONS: Self = Self(1 << 4);
    /// Events of the server's own threads.
    pub const SYSEVENTS: Self = Self(1 << 5);
    /// Command lines. memcached logs none of them without its proxy.
    pub const RAWCMDS: Self = Self(1 << 6);
    /// The three streams of memcached's proxy, which never have a line.
    pub const PROXY: Self = Self(1 << 7);

    /// The names in the order in which memcached compares them with the beginning of a word.
    pub const NAMES: [(&'static str, Self); 10] = [
        ("rawcmds", Self::RAWCMDS),
        ("evictions", Self::EVICTIONS),
        ("fetchers", Self::FETCHERS),
        ("mutations", Self::MUTATIONS),
        ("sysevents", Self::SYSEVENTS),
        ("connevents", Self::CONNEVENTS),
        ("proxyreqs", Self::PROXY),
        ("proxyevents", Self::PROXY),
        ("proxyuser", Self::PROXY),
        ("deletions", Self::DELETIONS),
    ];

    /// The streams of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the sets have a stream in common.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The set as a number, for an atomic.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The set of a number that [`bits`](Self::bits) returned.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}
