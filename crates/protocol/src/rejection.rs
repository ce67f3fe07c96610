//! Error replies that are known once a line is parsed.

/// Why a line was rejected; determines the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// No reply: the line was invalid but ended in `noreply`, or the input is not of the protocol.
    Silent,
    /// `ERROR`
    Unknown,
    /// `CLIENT_ERROR bad command line format`
    BadFormat,
    /// `CLIENT_ERROR bad command line`: words are missing.
    BadLine,
    /// `CLIENT_ERROR line too long`, with the limit: of any line but one of keys. The connection is
    /// closed after it.
    LineTooLong,
    /// `CLIENT_ERROR Illegal slab id`
    BadSlabId,
    /// `CLIENT_ERROR bad command line format` with a second line end, as memcached 1.6.45 replies
    /// to a `get` of a key that is too long.
    BadGetKey,
    /// `CLIENT_ERROR invalid exptime argument`
    BadExptime,
    /// `CLIENT_ERROR invalid numeric delta argument`
    BadDelta,
    /// `CLIENT_ERROR options flags are too long`
    TooManyFlags,
    /// `CLIENT_ERROR duplicate flag`
    DuplicateFlag,
    /// `CLIENT_ERROR invalid flag`: unknown, or a memcached flag that is not supported here.
    InvalidFlag,
    /// `CLIENT_ERROR invalid or duplicate flag`: any error in the flags of an `ma`.
    BadArithFlag,
    /// `CLIENT_ERROR opaque token too long`
    OpaqueTooLong,
    /// `CLIENT_ERROR bad token in command line format`
    BadToken,
    /// `CLIENT_ERROR invalid numeric initial value`
    BadInitialToken,
    /// `CLIENT_ERROR invalid numeric delta value`
    BadDeltaToken,
    /// `CLIENT_ERROR error decoding key`
    BadKeyEncoding,
    /// `CLIENT_ERROR invalid mode for ms M token`
    BadSetMode,
    /// `CLIENT_ERROR invalid mode for ma M token`
    BadArithMode,
    /// `CLIENT_ERROR unauthenticated`: the client has to log in first.
    Unauthenticated,
    /// `CLIENT_ERROR auth token too long`
    LoginTooLong,
    /// `CLIENT_ERROR bad command line termination`: of a user and a password.
    BadLoginEnd,
    /// `CLIENT_ERROR bad authentication token format`: no user and password.
    BadLogin,
    /// `BADCLASS invalid class id`
    BadClass,
    /// `BADCLASS invalid src or dst class id`
    BadClasses,
    /// `SAME src and dst class are identical`
    SameClass,
    /// `NOSPARE source class has no spare pages`
    NoSparePage,
    /// `CLIENT_ERROR automove window too low or too high`
    BadAutomoveWindow,
    /// `ERROR hot and warm pcts must not exceed 80`
    LruSharesTooLarge,
    /// `ERROR hot/warm age factors must be greater than 0`
    LruFactorsTooSmall,
    /// `CLIENT_ERROR sleep must be one second or less`
    SleepTooLong,
    /// `ERROR an unknown error happened`
    CrawlerFailed,
    /// `NOTSTARTED no items to crawl`: a list without classes.
    NothingToCrawl,
}

impl Rejection {
    /// The reply, including the line end.
    #[must_use]
    pub const fn reply(self) -> &'static [u8] {
        match self {
            Self::Silent => b"",
            Self::Unknown => b"ERROR\r\n",
            Self::BadFormat => b"CLIENT_ERROR bad command line format\r\n",
            Self::BadLine => b"CLIENT_ERROR bad command line\r\n",
            Self::LineTooLong => b"CLIENT_ERROR line too long, the limit is 2048 bytes\r\n",
            Self::NothingToCrawl => b"NOTSTARTED no items to crawl\r\n",
            Self::BadSlabId => b"CLIENT_ERROR Illegal slab id\r\n",
            Self::BadGetKey => b"CLIENT_ERROR bad command line format\r\n\r\n",
            Self::BadExptime => b"CLIENT_ERROR invalid exptime argument\r\n",
            Self::BadDelta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
            Self::TooManyFlags => b"CLIENT_ERROR options flags are too long\r\n",
            Self::DuplicateFlag => b"CLIENT_ERROR duplicate flag\r\n",
            Self::InvalidFlag => b"CLIENT_ERROR invalid flag\r\n",
            Self::BadArithFlag => b"CLIENT_ERROR invalid or duplicate flag\r\n",
            Self::OpaqueTooLong => b"CLIENT_ERROR opaque token too long\r\n",
            Self::BadToken => b"CLIENT_ERROR bad token in command line format\r\n",
            Self::BadInitialToken => b"CLIENT_ERROR invalid numeric initial value\r\n",
            Self::BadDeltaToken => b"CLIENT_ERROR invalid numeric delta value\r\n",
            Self::BadKeyEncoding => b"CLIENT_ERROR error decoding key\r\n",
            Self::BadSetMode => b"CLIENT_ERROR invalid mode for ms M token\r\n",
            Self::BadArithMode => b"CLIENT_ERROR invalid mode for ma M token\r\n",
            Self::Unauthenticated => b"CLIENT_ERROR unauthenticated\r\n",
            Self::LoginTooLong => b"CLIENT_ERROR auth token too long\r\n",
            Self::BadLoginEnd => b"CLIENT_ERROR bad command line termination\r\n",
            Self::BadLogin => b"CLIENT_ERROR bad authentication token format\r\n",
            Self::BadClass => b"BADCLASS invalid class id\r\n",
            Self::BadClasses => b"BADCLASS invalid src or dst class id\r\n",
            Self::SameClass => b"SAME src and dst class are identical\r\n",
            Self::NoSparePage => b"NOSPARE source class has no spare pages\r\n",
            Self::BadAutomoveWindow => b"CLIENT_ERROR automove window too low or too high\r\n",
            Self::LruSharesTooLarge => b"ERROR hot and warm pcts must not exceed 80\r\n",
            Self::LruFactorsTooSmall => b"ERROR hot/warm age factors must be greater than 0\r\n",
            Self::SleepTooLong => b"CLIENT_ERROR sleep must be one second or less\r\n",
            Self::CrawlerFailed => b"ERROR an unknown error happened\r\n",
        }
    }
}
