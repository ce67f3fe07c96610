//! An example protocol with three commands, compiled for tests only. It shows what a new protocol
//! needs: a folder like this one, and lines in `protocols.rs`.
//!
//! A command begins with [`FIRST_BYTE`], which the table omits. Each field ends with a NUL. A value
//! has no terminator, because its length is sent before it. The table shows each command, its
//! meaning, and its possible replies:
//!
//! ```text
//! G key NUL               get:     V length NUL value, or N NUL
//! S key NUL length NUL value  set: O NUL, or E NUL
//! D key NUL               delete:  O NUL, or N NUL
//! ```

pub(crate) mod decode;
mod encode;

/// The first byte of every command. As the first byte of a connection it selects this protocol.
pub(crate) const FIRST_BYTE: u8 = 0x81;

/// The encoder of the toy protocol. It has no fields, because a reply depends only on the outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToyEncoder;

#[cfg(test)]
mod tests;
