//! The status of a reply.

/// The status of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Status {
    /// The command was executed.
    Ok = 0x00,
    /// There is no such item, or no such statistic.
    NotFound = 0x01,
    /// The item exists, or has another CAS.
    Exists = 0x02,
    /// The item would exceed the largest item size.
    TooLarge = 0x03,
    /// The fields of the request contradict each other or the command.
    Invalid = 0x04,
    /// The condition of a storage command did not hold.
    NotStored = 0x05,
    /// The value is not a number.
    NotNumeric = 0x06,
    /// The client may not do this, or the password is wrong.
    AuthError = 0x20,
    /// A further message of SASL is expected.
    AuthContinue = 0x21,
    /// There is no such command.
    Unknown = 0x81,
    /// There is no memory.
    NoMemory = 0x82,
    /// The server cannot execute the request. memcached does not reply this status. Curtail does
    /// for a memory pool, where the text protocol replies `CLIENT_ERROR`.
    NotSupported = 0x83,
    /// The server failed. memcached does not reply this status. Curtail does for a memory pool,
    /// where the text protocol replies `SERVER_ERROR`.
    Internal = 0x84,
}

impl Status {
    /// The text of an error reply. Empty for [`Status::Ok`] and [`Status::AuthContinue`].
    #[must_use]
    pub const fn text(self) -> &'static [u8] {
        match self {
            Self::Ok | Self::AuthContinue => b"",
            Self::NotFound => b"Not found",
            Self::Exists => b"Data exists for key.",
            Self::TooLarge => b"Too large.",
            Self::Invalid => b"Invalid arguments",
            Self::NotStored => b"Not stored.",
            Self::NotNumeric => b"Non-numeric server-side value for incr or decr",
            Self::AuthError => b"Auth failure.",
            Self::Unknown => b"Unknown command",
            Self::NoMemory => b"Out of memory",
            Self::NotSupported => b"Not supported",
            Self::Internal => b"Internal error",
        }
    }
}
