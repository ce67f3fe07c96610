//! memcached's protocols, in both directions, without I/O.
//!
//! The server half turns bytes into [`Request`]s ([`parse()`]) and writes [`reply`] lines; the
//! client half ([`client`]) writes requests and turns bytes into replies. Nothing here owns a
//! socket, reads a clock or stores items. The data block of a storage command is not part of its
//! `Request`: the caller consumes `value_len` bytes and the line end after them. That way a value
//! can be received directly into its final memory.
//!
//! Replies equal those of memcached 1.6.45 byte for byte, error strings included.
//!
//! All this is the text and the meta protocol. The binary protocol is in [`binary`], which also has
//! no I/O and leaves values to the caller.

#![forbid(unsafe_code)]

mod base64;
pub mod binary;
pub mod client;
pub mod decimal;
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
mod login;
mod parse;
mod rejection;
pub mod reply;
pub mod request;
#[cfg(test)]
mod tests;
mod word_end;
mod words;

pub use login::{Credentials, ParsedLogin, parse_login};
pub use parse::{next_keys, parse};
pub use rejection::Rejection;
pub use request::{
    AfterKeys, Arith, ArithMode, Classes, Crawler, DebugTime, Delete, Detail, DumpForm, FlushAll,
    Get, Keys, MetaArith, MetaDelete, MetaFlag, MetaFlags, MetaGet, MetaKey, MetaSet, MetaVivify,
    NextKeys, Parsed, PrefixAction, PrefixCommand, Request, Set, SetMode, ShutdownMode, Stats,
    Streams, Touch, Tuning,
};
