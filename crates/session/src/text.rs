//! The classic text protocol.

pub(crate) mod decode;
mod encode;

pub use encode::TextStats;

/// The encoder of the text protocol. It consists of the parts of a request that the replies depend
/// on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TextEncoder {
    /// The request has `noreply`, so no reply is written.
    noreply: bool,
    /// The command is `gets` or `gats`, whose replies show each item's CAS.
    with_cas: bool,
}
