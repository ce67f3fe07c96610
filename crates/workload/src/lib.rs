//! Laws of keys, sizes, popularity and arrivals: what is asked, of which record, and when.
//!
//! Everything here is a pure function of its arguments and a seed. The same seed gives the same
//! sequence on every machine: the random numbers are integers of a named generator ([`Stream`]),
//! and every logarithm and power comes from the `libm` crate, not from the machine's own C
//! library, whose last bit differs from one to the next. Golden sequences in `tests/` hold this.
//!
//! ```text
//! Law ──────────► SizeLaw ──────► Keyspace      how long, and which bytes, a record's key is
//!  │ (fb_ia…)                                    how long its value is
//!  └────────────► Arrivals ─┐
//! Popularity ───► Picker ───┴──► Schedule       when, on which connection, get or set of what
//! ```
//!
//! The crate opens no socket, reads no clock and keeps no table that grows with the records.
#![forbid(unsafe_code)]

mod arrivals;
mod keyspace;
mod law;
pub mod limits;
mod popularity;
mod schedule;
mod size;
mod stream;

pub use arrivals::{Arrival, Arrivals, ArrivalsError, Superposition};
pub use keyspace::{KeyBuffer, Keyspace, KeyspaceError};
pub use law::{Law, LawError};
pub use popularity::{Picker, Popularity, PopularityError, Scatter};
pub use schedule::{Demand, DemandError, Digest, Op, Planned, Requests, Schedule};
pub use size::SizeLaw;
pub use stream::{Purpose, Stream};
