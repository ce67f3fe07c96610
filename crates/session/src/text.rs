//! The classic text protocol.

pub(crate) mod decode;
mod encode;

pub use encode::TextStats;

/// What a text reply repeats or depends on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TextEncoder {
    /// `noreply`: no reply.
    noreply: bool,
    /// `gets`, `gats`: reply with each item's CAS.
    with_cas: bool,
}
