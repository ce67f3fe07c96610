//! What a worker does for requests, one operation a file, and the steps that several share.
//!
//! ```text
//! restore ────► write ────► rewrite ──► upload ──► insertion ──► placement
//! walk ───────► read, deletion
//! ```
//!
//! [`mod@read`] finds an item and passes it on; [`mod@write`] puts a value, which was complete
//! ([`insertion`]) or arrived in parts ([`upload`]), or derives one from the present value
//! ([`rewrite`]).

pub(crate) mod decimal;
pub(crate) mod deletion;
pub(crate) mod insertion;
pub(crate) mod item;
pub(crate) mod pin;
pub(crate) mod placement;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod restore;
pub(crate) mod rewrite;
pub(crate) mod upload;
pub(crate) mod walk;
pub(crate) mod write;
