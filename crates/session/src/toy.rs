//! A protocol of three commands, which shows what a new protocol needs: this folder, and its lines
//! in `protocols.rs`. It is compiled for tests only.
//!
//! A command begins with [`FIRST_BYTE`]; a NUL ends each of its fields, and nothing ends a value.
//!
//! ```text
//! G key NUL               get:     V length NUL value, or N NUL
//! S key NUL length NUL value  set: O NUL, or E NUL
//! D key NUL               delete:  O NUL, or N NUL
//! ```

pub(crate) mod decode;
mod encode;

/// The first byte of a command, and so of a connection.
pub(crate) const FIRST_BYTE: u8 = 0x81;

/// The echo of a toy request. Empty: the replies depend on the outcome only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToyEncoder;

#[cfg(test)]
mod tests;
