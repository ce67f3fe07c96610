//! What a worker does for requests: one operation in each file, and the steps that several
//! operations share. `a ──► b` means that `a` uses `b`:
//!
//! ```text
//! restore ────► write ────► rewrite ──► upload ──► insertion ──► placement
//! walk ───────► read, deletion
//! ```
//!
//! [`mod@read`] finds an item and passes it to a closure; [`mod@write`] stores a value that is
//! complete ([`insertion`]) or has arrived in several parts ([`upload`]), or that is derived from
//! the present value ([`rewrite`]).

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
