//! Opcodes, and the commands that they name.

use crate::{ArithMode, SetMode};

/// The opcode of a frame, known or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

/// What an opcode requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// The value of an item, and with `with_key` its key (`get`, `getk`).
    Get {
        /// Whether the reply contains the key.
        with_key: bool,
    },
    /// As [`Command::Get`], and sets a new time to live (`gat`, `gatk`).
    GetAndTouch {
        /// Whether the reply contains the key.
        with_key: bool,
    },
    /// Sets a new time to live.
    Touch,
    /// Stores a value.
    Set(SetMode),
    /// Deletes an item.
    Delete,
    /// Adds to a counter, or subtracts from it.
    Arith(ArithMode),
    /// Deletes all items.
    Flush,
    /// Statistics.
    Stat,
    /// The version.
    Version,
    /// Nothing.
    Noop,
    /// The end of the connection.
    Quit,
    /// The mechanisms of SASL.
    SaslList,
    /// The first or a further message of SASL.
    SaslMessage,
}

impl Opcode {
    /// `quit`
    pub const QUIT: Self = Self(0x07);
    /// `noop`
    pub const NOOP: Self = Self(0x0a);
    /// `version`
    pub const VERSION: Self = Self(0x0b);
    /// `stat`
    pub const STAT: Self = Self(0x10);
    /// `sasl_auth`, the first message of SASL
    pub const SASL_AUTH: Self = Self(0x21);

    /// The command, and whether this opcode is its quiet form. `None` if memcached does not
    /// implement the opcode. The specification also has 0x1b (`verbosity`) and 0x30 to 0x3c (range
    /// operations), which memcached does not implement.
    #[must_use]
    pub const fn command(self) -> Option<(Command, bool)> {
        use Command::{
            Arith, Delete, Flush, Get, GetAndTouch, Noop, Quit, SaslList, SaslMessage, Set, Stat,
            Touch, Version,
        };
        let with_key = true;
        Some(match self.0 {
            0x00 => (Get { with_key: false }, false),
            0x01 => (Set(SetMode::Set), false),
            0x02 => (Set(SetMode::Add), false),
            0x03 => (Set(SetMode::Replace), false),
            0x04 => (Delete, false),
            0x05 => (Arith(ArithMode::Increment), false),
            0x06 => (Arith(ArithMode::Decrement), false),
            0x07 => (Quit, false),
            0x08 => (Flush, false),
            0x09 => (Get { with_key: false }, true),
            0x0a => (Noop, false),
            0x0b => (Version, false),
            0x0c => (Get { with_key }, false),
            0x0d => (Get { with_key }, true),
            0x0e => (Set(SetMode::Append), false),
            0x0f => (Set(SetMode::Prepend), false),
            0x10 => (Stat, false),
            0x11 => (Set(SetMode::Set), true),
            0x12 => (Set(SetMode::Add), true),
            0x13 => (Set(SetMode::Replace), true),
            0x14 => (Delete, true),
            0x15 => (Arith(ArithMode::Increment), true),
            0x16 => (Arith(ArithMode::Decrement), true),
            0x17 => (Quit, true),
            0x18 => (Flush, true),
            0x19 => (Set(SetMode::Append), true),
            0x1a => (Set(SetMode::Prepend), true),
            0x1c => (Touch, false),
            0x1d => (GetAndTouch { with_key: false }, false),
            0x1e => (GetAndTouch { with_key: false }, true),
            0x20 => (SaslList, false),
            0x21 | 0x22 => (SaslMessage, false),
            0x23 => (GetAndTouch { with_key }, false),
            0x24 => (GetAndTouch { with_key }, true),
            _ => return None,
        })
    }

    /// Whether the reply is left out in the common case.
    #[must_use]
    pub const fn is_quiet(self) -> bool {
        matches!(self.command(), Some((_, true)))
    }
}
